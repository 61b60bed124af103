"""Algolia's search parameters, read into raw parameters of ours, filters and style (pure).

One method per parameter of the table (`table`), which describes it; `finish` adds what depends on
several.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from common.configuration import GEO_FIELD, IndexConfiguration
from common.limits import Limits
from common.option_forms import parse_language
from common.query import Filter, GeoRadius, Or
from coordinator.algolia.errors import UNHONOURED, wrong
from coordinator.algolia.filters import (
    FacetFilter,
    facet_condition,
    facet_filter,
    groups_of,
    numeric_filters,
    parse_filters,
    tag_filters,
)
from coordinator.algolia.geo import read_around, read_boxes, read_polygons, read_radius
from coordinator.parameters.kinds import Mistake, integer, json_of_text, text
from coordinator.parameters.raw import RawParameters

HITS_PER_PAGE: Final = 20
VALUES_PER_FACET: Final = 100

PRE: Final = "\ue000"
POST: Final = "\ue001"
"""Marks that the shards insert: private-use characters, which items normally do not contain."""


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise Mistake("must be true or false")


def _texts(value: Any) -> list[str]:
    """Read a list of texts: a list, JSON as text, or a comma-separated list."""
    if isinstance(value, str):
        value = json_of_text(value) if value[:1] == "[" else value.split(",") if value else []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise Mistake("must be a list of texts")
    return [str(one).strip() for one in value]


def plain(value: Any) -> Any:
    """Decode a query-string text that represents a JSON value, for comparison."""
    if isinstance(value, str) and (value in ("true", "false") or value[:1] in ("[", "{")):
        try:
            return orjson.loads(str(value))
        except orjson.JSONDecodeError:
            return value
    return value


class AlgoliaReader:
    """Reads the parameters of one search into raw parameters of ours, filters and style."""

    def __init__(
        self, configuration: IndexConfiguration, settings: Mapping[str, Any], limits: Limits
    ):
        self.configuration = configuration
        self.settings = settings
        self.limits = limits
        self.raw: RawParameters = {"query": "", "per_page": HITS_PER_PAGE}
        self.style: dict[str, Any] = {"geo_field": next(iter(configuration.geo_fields), None)}
        self.conditions: list[tuple[Filter, str]] = []
        self.counts_groups = False
        self.geo_field = next(iter(configuration.geo_fields), GEO_FIELD)
        self.around: tuple[float, float] | None = None
        self.radius: float | None = None
        self.areas: list[tuple[Filter | None, str]] = []
        self.groups: list[list[FacetFilter]] = []
        self.facet_names: list[str] = []
        self.options: dict[str, Any] = {
            "size": VALUES_PER_FACET,
            "hide_zero": True,
            "stats": True,
            "sort": ["count:desc", "key:asc"],
        }
        self.skip: int | None = None
        self.length: int | None = None
        self.asks_text = True
        self.optional_words: list[str] = []
        self.marks: list[str] = ["*"]
        self.snippets: list[str] = []
        self.ellipsis = "…"

    # --- text

    def read_query(self, value: Any) -> None:
        self.raw["query"] = text(value, "query_chars_max", self.limits)

    def read_advanced_syntax(self, value: Any) -> None:
        self.asks_text = _boolean(value)

    def read_query_type(self, value: Any) -> None:
        modes = {"prefixLast": "last", "prefixAll": "all", "prefixNone": "none"}
        self.raw["prefix"] = _one_of(value, modes)

    def read_typo_tolerance(self, value: Any) -> None:
        value = plain(value)
        if value in ("min", "strict"):
            raise Mistake(
                "cannot be min or strict: hits with more typos come last, and are not left out",
                code=UNHONOURED,
            )
        self.raw["typo"] = "auto" if _boolean(value) else 0

    def read_optional_words(self, value: Any) -> None:
        texts = [value] if isinstance(value, str) and value[:1] != "[" else _texts(value)
        self.optional_words = [word for one in texts for word in one.lower().split()]

    def read_remove_words(self, value: Any) -> None:
        modes = {"none": "all", "lastWords": "last"}
        if value in ("firstWords", "allOptional"):
            raise Mistake("can be none or lastWords only", code=UNHONOURED)
        self.raw["match"] = _one_of(value, modes)

    def read_searched(self, value: Any) -> None:
        weights = {one.path: one.weight for one in self.configuration.searchable_fields or ()}
        names = _texts(value)
        if names:
            self.raw["search_fields"] = [
                f"{name}^{weights[name]:.9f}".rstrip("0").rstrip(".") if name in weights else name
                for name in names
            ]

    def read_plurals(self, value: Any) -> None:
        self._is_configured(plain(value), self.configuration.language is not None, "language")

    def read_stop_words(self, value: Any) -> None:
        has = bool(self.configuration.stop_words or self.configuration.stop_words_language)
        self._is_configured(plain(value), has, "stop_words")

    def _is_configured(self, value: Any, is_on: bool, key: str) -> None:
        """Reject a value that contradicts the index's configuration."""
        if bool(value) != is_on:
            raise Mistake(
                f"is decided by the configuration of the index, which "
                f"{'has' if is_on else 'lacks'} {key}; change it there",
                code=UNHONOURED,
            )

    def read_languages(self, value: Any) -> None:
        own = self.configuration.language
        for name in _texts(value):
            if parse_language(name) != own:
                raise Mistake(
                    f"asks for {name[:20]!r}; the index's language is {own or 'none'} "
                    "(language in its configuration)",
                    code=UNHONOURED,
                )

    def read_synonyms(self, value: Any) -> None:
        if not _boolean(value) and self.configuration.synonyms:
            raise Mistake("cannot be switched off for one search", code=UNHONOURED)

    def read_enable_rules(self, value: Any) -> None:
        if not _boolean(value):
            self.raw["rules"] = []

    # --- pages

    def read_page(self, value: Any) -> None:
        self.raw["page"] = integer(value, 0, "page_max", self.limits) + 1

    def read_hits_per_page(self, value: Any) -> None:
        self.raw["per_page"] = integer(value, 0, "per_page_max", self.limits)

    def read_offset(self, value: Any) -> None:
        self.skip = integer(value, 0, "page_max", self.limits)

    def read_length(self, value: Any) -> None:
        self.length = integer(value, 0, "per_page_max", self.limits)

    def read_cursor(self, value: Any) -> None:
        self.raw["cursor"] = text(value, "cursor_chars_max", self.limits)

    # --- restrictions

    def read_filters(self, value: Any) -> None:
        condition = parse_filters(
            text(value, "filter_expression_chars_max", self.limits), self.limits
        )
        self.conditions.append((condition, "filters"))

    def read_facet_filters(self, value: Any) -> None:
        groups = groups_of(value, self.limits)
        self.groups = [[facet_filter(one) for one in group] for group in groups]

    def read_numeric_filters(self, value: Any) -> None:
        self.conditions += [(one, "numericFilters") for one in numeric_filters(value, self.limits)]

    def read_tag_filters(self, value: Any) -> None:
        self.conditions += [(one, "tagFilters") for one in tag_filters(value, self.limits)]

    # --- facets

    def read_facets(self, value: Any) -> None:
        names = _texts(value)
        if "*" in names:
            names = list(self.configuration.facets)
        self.facet_names = list(dict.fromkeys(name for name in names if name))

    def read_values_per_facet(self, value: Any) -> None:
        self.options["size"] = integer(value, 0, "facet_size_max", self.limits)

    def read_facet_sort(self, value: Any) -> None:
        orders = {"count": ["count:desc", "key:asc"], "alpha": ["key:asc"]}
        self.options["sort"] = _one_of(value, orders)

    def read_distinct(self, value: Any) -> None:
        value = plain(value)
        if value is False or value in (0, "0"):
            return
        field = self.settings.get("attributeForDistinct")
        if field is None:
            raise Mistake(
                "needs the setting attributeForDistinct of the index",
                code=UNHONOURED,
            )
        limit = 1 if value is True else integer(value, 1, "distinct_max", self.limits)
        self.raw["distinct"] = {"field": field, "limit": limit}

    def read_counted_groups(self, value: Any) -> None:
        if _boolean(value):
            self.counts_groups = True

    # --- places

    def read_around(self, value: Any) -> None:
        if value != "":
            self.around = read_around(value)

    def read_radius(self, value: Any) -> None:
        if plain(value) != "all":
            self.radius = read_radius(value)

    def read_boxes(self, value: Any) -> None:
        self.areas.append((read_boxes(self.geo_field, value, self.limits), "insideBoundingBox"))

    def read_polygons(self, value: Any) -> None:
        self.areas.append((read_polygons(self.geo_field, value, self.limits), "insidePolygon"))

    def finish_places(self) -> None:
        """Add the areas, of which one must match; without any, add the radius and its order."""
        areas = [(area, name) for area, name in self.areas if area is not None]
        if (areas or self.around is not None) and not self.configuration.geo_fields:
            raise wrong(
                areas[0][1] if areas else "aroundLatLng",
                "needs geo_fields in the configuration of the index",
                UNHONOURED,
            )
        if areas:
            self.conditions.append((Or(tuple([area for area, _ in areas])), areas[0][1]))
        elif self.around is not None:
            lat, lng = self.around
            self.raw["sort"] = [{"field": self.geo_field, "point": [lat, lng], "order": "asc"}]
            if self.radius is not None:
                area = GeoRadius(self.geo_field, lat, lng, self.radius)
                self.conditions.append((area, "aroundRadius"))

    # --- contents of the response

    def read_retrieved(self, value: Any) -> None:
        names = _texts(value)
        excluded = tuple(name[1:] for name in names if name.startswith("-"))
        wanted = [name for name in names if name and not name.startswith("-")]
        self.style["excluded"] = excluded
        is_all = "*" in wanted or (not wanted and excluded)
        self.style["retrieved"] = None if is_all else tuple(wanted)

    def read_highlighted(self, value: Any) -> None:
        self.marks = [name for name in _texts(value) if name]

    def read_snipped(self, value: Any) -> None:
        self.snippets = [name for name in _texts(value) if name]

    def read_pre(self, value: Any) -> None:
        self.style["pre"] = text(value, "mark_chars_max", self.limits)

    def read_post(self, value: Any) -> None:
        self.style["post"] = text(value, "mark_chars_max", self.limits)

    def read_ellipsis(self, value: Any) -> None:
        self.ellipsis = text(value, "mark_chars_max", self.limits)

    def read_restricted_arrays(self, value: Any) -> None:
        self.style["restricts_arrays"] = _boolean(value)

    def read_members(self, value: Any) -> None:
        names = frozenset(_texts(value))
        self.style["members"] = None if "*" in names or not names else names

    # --- all together

    def finish(self, choices: frozenset[str]) -> None:
        """Add what depends on several parameters.

        Raises:
            Mistake: they contradict each other.
        """
        raw = self.raw
        self.finish_places()
        if not self.asks_text:
            raw["query"] = _without_syntax(raw["query"])
        if self.optional_words:
            self._finish_optional_words(raw["query"].lower().split())
        if self.skip is not None or self.length is not None:
            raw["page"] = 1
            raw["per_page"] = raw["per_page"] if self.length is None else self.length
            self.style["has_offset"] = True
        filters: dict[str, list[str]] = {}
        for group in self.groups:
            field = group[0].field
            if field in choices:
                filters[field] = [one.value for one in group]
            else:
                self.conditions.append((facet_condition(group), "facetFilters"))
        if filters:
            raw["filters"] = filters
        if self.counts_groups and "distinct" in raw:
            raw["distinct"]["facets_by"] = "groups"
        names = list(dict.fromkeys([*self.facet_names, *sorted(choices)]))
        for name in names:
            if name not in self.configuration.facets:
                known = ", ".join(self.configuration.facets) or "none"
                raise wrong(
                    "facets",
                    f"names {name[:100]!r}, which is no facet; the facets are {known[:500]}",
                    "invalid_facets",
                )
        raw["facet_fields"] = names
        raw["facets"] = {
            name: {**self.options, "conjunction": name not in choices} for name in names
        }
        is_shown = raw["per_page"] > 0
        if self.marks and is_shown and raw["query"].strip():
            raw["highlight"] = {"fields": self.marks, "pre": PRE, "post": POST}
        self.style["highlighted"] = tuple(self.marks)
        if self.snippets and is_shown:
            raw["snippet"] = {
                "fields": self.snippets, "pre": PRE, "post": POST, "ellipsis": self.ellipsis
            }  # fmt: skip
            self.style["has_snippets"] = True

    def _finish_optional_words(self, words: list[str]) -> None:
        optional = set(self.optional_words)
        if optional.isdisjoint(words):
            return
        if not optional.issuperset(words):
            raise Mistake(
                "makes only some words of the query optional; either all are or none",
                code=UNHONOURED,
                path="optionalWords",
            )
        self.raw["match"] = "any"


def _one_of(value: Any, known: Mapping[str, Any]) -> Any:
    if not isinstance(value, str) or value not in known:
        raise Mistake(f"must be one of {', '.join(known)}")
    return known[value]


def _without_syntax(query: str) -> str:
    """Remove the meaning of quotes and leading dashes from a query."""
    return re.sub(r"(?:^|(?<=\s))-+(?=\S)", "", query.replace('"', " "))
