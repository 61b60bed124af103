"""Algolia's search parameters: the table, and how each is honoured (pure).

    raw  {"query": "lamp", "hitsPerPage": 8, "facetFilters": [["brand:A", "brand:B"]], …}
     │   merged(settings, request): the request's parameters over those of the index's settings
     ▼
    AlgoliaSearch: our `SearchParameters`, and the style of the response

A parameter is honoured, or it concerns only analytics and is ignored (`IGNORED`), or it is an error
that names it (`UNSUPPORTED`), unless its value asks for what happens anyway. Nothing is dropped
silently. A parameter may come as JSON or as text (`params` and query strings).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec
import orjson
from msgspec import Struct

from common.configuration import GEO_FIELD, IndexConfiguration
from common.errors import InvalidRequest, ServiceError
from common.limits import Limits
from common.option_forms import FacetSort, parse_language
from common.protocol.messages import FilterClause
from common.query import Filter, GeoRadius, Or
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
from coordinator.parameters.filter_objects import scalar_fields_of
from coordinator.parameters.kinds import Mistake, integer, json_of_text, text
from coordinator.parameters.parse import (
    FacetParameters,
    SearchParameters,
    parse_facet,
    parse_search,
)
from coordinator.parameters.raw import RawParameters, query_parameters
from coordinator.parameters.typed import facet_spec

HITS_PER_PAGE: Final = 20
VALUES_PER_FACET: Final = 100
FACET_HITS: Final = 10
WRONG: Final = "invalid_parameter"
UNHONOURED: Final = "unsupported_parameter"

PRE: Final = "\ue000"
POST: Final = "\ue001"
"""Marks that the shards insert: private-use characters, which items normally do not contain."""

Schema = dict[str, Any]

_BOOLEAN: Final[Schema] = {"type": ["boolean", "string"]}
_COUNT: Final[Schema] = {"type": ["integer", "string"]}
_METRES: Final[Schema] = {"type": ["number", "string"]}
_TEXT: Final[Schema] = {"type": "string"}
_TEXTS: Final[Schema] = {"anyOf": [{"type": "array", "items": _TEXT}, _TEXT]}
_GROUPS: Final[Schema] = {
    "anyOf": [
        {"type": "array", "items": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}},
        _TEXT,
    ]
}

_AREAS: Final[Schema] = {
    "anyOf": [
        {
            "type": "array",
            "items": {
                "anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "number"}}]
            },
        },
        _TEXT,
    ]
}


class Row(NamedTuple):
    """One parameter that is honoured."""

    name: str
    read: Callable[[_Reader, Any], None]
    schema: Schema
    description: str


class Style(Struct, frozen=True):
    """The form of the hits in a response."""

    pre: str = "<em>"
    post: str = "</em>"
    highlighted: tuple[str, ...] = ("*",)
    """Paths in `_highlightResult`; ("*",): all."""
    retrieved: tuple[str, ...] | None = None
    """Paths in hits; None: all."""
    excluded: tuple[str, ...] = ()
    has_snippets: bool = False
    restricts_arrays: bool = False
    """Whether arrays in `_highlightResult` keep only the elements that match."""
    members: frozenset[str] | None = None
    """Members of the response (`responseFields`); None: all."""
    has_offset: bool = False
    """Whether the request pages by `offset` and `length`."""
    geo_field: str | None = None
    """Field whose points hits show as `_geoloc`; None: none."""


class AlgoliaSearch(Struct, frozen=True):
    """One search as requested by Algolia's protocol."""

    name: str
    """The index as the request names it."""
    search: SearchParameters
    style: Style
    params: str
    """The request's parameters, repeated in the response."""


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
    """Decode a query-string text that stands for a JSON value, for comparison."""
    if isinstance(value, str) and (value in ("true", "false") or value[:1] in ("[", "{")):
        try:
            return orjson.loads(str(value))
        except orjson.JSONDecodeError:
            return value
    return value


class _Reader:
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
                f"is a matter of the index here: {'it has' if is_on else 'set'} {key} in its "
                "configuration",
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
        """Add the areas, any of which will do; only without one a radius counts, and the order."""
        areas = [(area, name) for area, name in self.areas if area is not None]
        if (areas or self.around is not None) and not self.configuration.geo_fields:
            raise _wrong(
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
                raise _wrong(
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


def _row(name: str, read: Callable[[_Reader, Any], None], schema: Schema, description: str) -> Row:
    return Row(name, read, schema, description)


ROWS: Final = (
    _row("query", _Reader.read_query, _TEXT, "Full-text query; empty: all items."),
    _row("page", _Reader.read_page, _COUNT, "Page number, from 0."),
    _row("hitsPerPage", _Reader.read_hits_per_page, _COUNT, "Hits of a page, 20 by default."),
    _row("offset", _Reader.read_offset, _COUNT, "Hits to leave out; instead of page."),
    _row("length", _Reader.read_length, _COUNT, "Hits to return; with offset."),
    _row("filters", _Reader.read_filters, _TEXT,
         "Expression: brand:Apple AND (price < 10 OR price:20 TO 30) AND NOT _tags:old."),
    _row("facetFilters", _Reader.read_facet_filters, _GROUPS,
         'Values: ["brand:Apple", ["color:red", "color:-blue"]], outer AND, inner OR.'),
    _row("numericFilters", _Reader.read_numeric_filters, _GROUPS,
         'Comparisons: ["price >= 10", ["year:1990 TO 1999", "year = 2024"]].'),
    _row("tagFilters", _Reader.read_tag_filters, _GROUPS, "Values of the field _tags."),
    _row("facets", _Reader.read_facets, _TEXTS, 'Facets to count; "*": all that are configured.'),
    _row("maxValuesPerFacet", _Reader.read_values_per_facet, _COUNT, "100 by default."),
    _row("sortFacetValuesBy", _Reader.read_facet_sort, {"enum": ["count", "alpha"]},
         "Which values of a facet come first."),
    _row("distinct", _Reader.read_distinct, {"type": ["boolean", "integer", "string"]},
         "Hits per value of the setting attributeForDistinct."),
    _row("facetingAfterDistinct", _Reader.read_counted_groups, _BOOLEAN,
         "Whether facets count values of attributeForDistinct instead of hits."),
    _row("aroundLatLng", _Reader.read_around, _TEXT,
         "A point such as 48.2,16.4: the nearest hits come first, unless the name says otherwise."),
    _row("aroundRadius", _Reader.read_radius, _METRES,
         "Metres around aroundLatLng; all, the default, is everywhere."),
    _row("insideBoundingBox", _Reader.read_boxes, _AREAS,
         "Two opposite corners, lat,lng,lat,lng; of several boxes any will do."),
    _row("insidePolygon", _Reader.read_polygons, _AREAS,
         "Corners, lat,lng,lat,lng,…; of several polygons any will do."),
    _row("attributesToRetrieve", _Reader.read_retrieved, _TEXTS,
         'Fields of hits; "*": all, "-name": all but these.'),
    _row("attributesToHighlight", _Reader.read_highlighted, _TEXTS, "Fields of _highlightResult."),
    _row("attributesToSnippet", _Reader.read_snipped, _TEXTS,
         'Fields of _snippetResult, with a number of words: ["text:20"].'),
    _row("highlightPreTag", _Reader.read_pre, _TEXT, "<em> by default."),
    _row("highlightPostTag", _Reader.read_post, _TEXT, "</em> by default."),
    _row("snippetEllipsisText", _Reader.read_ellipsis, _TEXT, "Where a snippet was cut."),
    _row("restrictHighlightAndSnippetArrays", _Reader.read_restricted_arrays, _BOOLEAN,
         "Leave out elements of arrays without a match."),
    _row("restrictSearchableAttributes", _Reader.read_searched, _TEXTS,
         "Fields to search, with the weights that the index gives them."),
    _row("queryType", _Reader.read_query_type, {"enum": ["prefixLast", "prefixAll", "prefixNone"]},
         "Which words also match as the beginning of a word."),
    _row("typoTolerance", _Reader.read_typo_tolerance, _BOOLEAN, "true or false."),
    _row("optionalWords", _Reader.read_optional_words, _TEXTS,
         "All words of the query, or none of them."),
    _row("removeWordsIfNoResults", _Reader.read_remove_words, {"enum": ["none", "lastWords"]},
         "Whether words are left out from the end until there are hits."),
    _row("advancedSyntax", _Reader.read_advanced_syntax, _BOOLEAN,
         'Whether "phrases" and -exclusions have a meaning: unless false, they have.'),
    _row("ignorePlurals", _Reader.read_plurals, {}, "As the index's language has it."),
    _row("removeStopWords", _Reader.read_stop_words, {}, "As the index's stop_words have it."),
    _row("queryLanguages", _Reader.read_languages, _TEXTS, "The index's language."),
    _row("synonyms", _Reader.read_synonyms, _BOOLEAN, "Whether the index's synonyms apply."),
    _row("enableRules", _Reader.read_enable_rules, _BOOLEAN, "Whether the index's rules apply."),
    _row("responseFields", _Reader.read_members, _TEXTS, "Members of the answer."),
)  # fmt: skip
BY_NAME: Final[Mapping[str, Row]] = {row.name: row for row in ROWS}

CURSOR_ROW: Final = _row("cursor", _Reader.read_cursor, _TEXT, "Of the answer before; browse only.")

IGNORED: Final = frozenset(
    (
        *("analytics", "analyticsTags", "clickAnalytics", "userToken", "percentileComputation"),
        *("enableABTest", "x-algolia-agent", "x-algolia-application-id", "x-algolia-api-key"),
        *("x-algolia-usertoken", "x-algolia-query-id", "X-Algolia-UserToken"),
    )
)
"""Parameters for analytics, which facetd does not collect, or that identify the client."""

_NO: Final = (False,)
_EMPTY: Final[tuple[Any, ...]] = ("", [])
UNSUPPORTED: Final[Mapping[str, tuple[tuple[Any, ...], str]]] = {
    "similarQuery": (("",), "POST /{index}/search with similar_to finds what is like an item"),
    "optionalFilters": (_EMPTY, "filters do not change the order of hits"),
    "sumOrFiltersScores": (_NO, "filters have no scores"),
    "aroundLatLngViaIP": (_NO, "addresses are not looked up; send aroundLatLng"),
    "aroundPrecision": ((), "distances are compared exactly"),
    "minimumAroundRadius": ((), "there is no automatic radius; send aroundRadius"),
    "naturalLanguages": (_EMPTY, "languages are a matter of the index's configuration"),
    "ruleContexts": (_EMPTY, "rules have no contexts; they hold for a query, filters or a period"),
    "enablePersonalization": (_NO, "there is no personalization"),
    "personalizationImpact": ((), "there is no personalization"),
    "enableReRanking": ((True, False), "there is no re-ranking"),
    "reRankingApplyFilter": (_EMPTY, "there is no re-ranking"),
    "getRankingInfo": (_NO, "ask POST /{index}/search with show=score_details"),
    "ranking": ((), "ranking is a matter of the index's configuration (boost, rules)"),
    "customRanking": ((), "ranking is a matter of the index's configuration (boost, rules)"),
    "relevancyStrictness": ((100,), "no hit is left out for its rank"),
    "minWordSizefor1Typo": ((), "typo_lengths in the index's configuration says so"),
    "minWordSizefor2Typos": ((), "typo_lengths in the index's configuration says so"),
    "allowTyposOnNumericTokens": (_NO, "digits are never mistyped"),
    "disableTypoToleranceOnAttributes": (
        _EMPTY,
        "field_typo_lengths in the index's configuration says so",
    ),
    "disableExactOnAttributes": (_EMPTY, "exact words count more in all fields"),
    "exactOnSingleWordQuery": ((), "exact words count more in all fields"),
    "alternativesAsExact": ((), "exact words count more in all fields"),
    "advancedSyntaxFeatures": (
        (["exactPhrase", "excludeWords"], ["excludeWords", "exactPhrase"]),
        "phrases and exclusions go together",
    ),
    "decompoundQuery": ((True, False), "compounds are not split"),
    "mode": (("keywordSearch",), "there is no search by vectors"),
    "semanticSearch": ((), "there is no search by vectors"),
    "replaceSynonymsInHighlight": (_NO, "texts are shown as they are"),
    "minProximity": ((1,), "proximity is configured per index"),
    "attributeCriteriaComputedByMinProximity": (_NO, "ranking has no criteria"),
    "attributeCriteriaComputedBy": ((), "ranking has no criteria"),
    "renderingContent": (({},), "answers have no rendering content"),
    "explain": (_EMPTY, "ask POST /{index}/search with show=score_details"),
}
"""By parameter: the values that ask for what happens anyway, and why no others are supported."""

_CODES: Final = {
    "page": "invalid_page",
    "offset": "invalid_page",
    "hitsPerPage": "invalid_per_page",
    "length": "invalid_per_page",
}
"""Error codes of parameters that we have under another name."""

_NAMES: Final = {
    "per_page": "hitsPerPage",
    "search_fields": "restrictSearchableAttributes",
    "highlight": "attributesToHighlight",
    "snippet": "attributesToSnippet",
    "facet_fields": "facets",
    "search_query": "query",
    "facet_query": "facetQuery",
    "sort": "indexName",
    "name": "facetName",
}
"""Our parameters that an error may name, to Algolia's that they came from."""


def merged(request: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a request's parameters over the defaults in the index's settings."""
    defaults = {
        name: value for name, value in settings.items() if name in BY_NAME or name in UNSUPPORTED
    }
    return {**defaults, **request}


def flattened(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a request: among its members, in `params`, or both.

    Raises:
        InvalidRequest: `params` is neither a query string nor an object.
    """
    params = request.get("params")
    if isinstance(params, str):
        params = {
            name: values[-1] if isinstance(values, list) else values
            for name, values in query_parameters(params.removeprefix("?")).items()
        }
    if params is not None and not isinstance(params, dict):
        raise _wrong("params", "must be a query string or an object")
    return {
        name: value
        for name, value in {**(params or {}), **request}.items()
        if name != "params" and value is not None
    }


def read_search(
    name: str,
    params: Mapping[str, Any],
    settings: Mapping[str, Any],
    sort: list[str],
    configuration: IndexConfiguration,
    limits: Limits,
    *,
    choices: frozenset[str] = frozenset(),
    allows_cursor: bool = False,
) -> AlgoliaSearch:
    """Read one search.

    Args:
        name: of the index, as in the request.
        params: the request's.
        settings: of the index, as `settings.stored` returns them.
        sort: the order that the name specifies.
        configuration: of the index.
        limits: on sizes and counts.
        choices: facets whose counts leave out their own filter (see `folding`).
        allows_cursor: whether this is a browse.

    Raises:
        InvalidRequest: a parameter is invalid, unknown, or cannot be honoured; `param` names it.
    """
    reader = _read(merged(params, settings), settings, configuration, limits, allows_cursor)
    _guarded("facetFilters", lambda: reader.finish(choices))
    if sort:
        reader.raw["sort"] = sort
    try:
        search = parse_search(reader.raw, configuration, limits)
    except ServiceError as error:
        raise translated(error) from None
    search = msgspec.structs.replace(_restricted(search, reader), skip=reader.skip or 0)
    return AlgoliaSearch(name, search, Style(**reader.style), _shown(params))


def read_facet_search(
    facet: str,
    params: Mapping[str, Any],
    settings: Mapping[str, Any],
    configuration: IndexConfiguration,
    limits: Limits,
) -> tuple[FacetParameters, Style]:
    """Read one search for facet values.

    Raises:
        InvalidRequest: as `read_search`.
        NotFound: code facet_not_found.
    """
    params = dict(params)
    facet_query = params.pop("facetQuery", "")
    num_max = params.pop("maxFacetHits", FACET_HITS)
    reader = _read(merged(params, settings), settings, configuration, limits, False)
    _guarded("facetFilters", lambda: reader.finish(frozenset()))
    raw: RawParameters = {
        name: reader.raw[name]
        for name in ("match", "prefix", "typo", "search_fields", "rules")
        if name in reader.raw
    }
    raw |= {
        "name": facet,
        "search_query": reader.raw["query"],
        "facet_query": facet_query,
        "per_page": num_max,
    }
    try:
        parameters = parse_facet(raw, configuration, limits)
    except ServiceError as error:
        raise translated(error, per_page="maxFacetHits") from None
    is_by_count = reader.options["sort"][0] == "count:desc"
    order: FacetSort = (("count", True), ("key", False)) if is_by_count else (("key", False),)
    spec = facet_spec(replace(parameters.facet, hide_zero=True, sort=order))
    search = msgspec.structs.replace(_restricted(parameters.search, reader), facets=(spec,))
    return msgspec.structs.replace(parameters, search=search), Style(**reader.style)


def _read(
    params: Mapping[str, Any],
    settings: Mapping[str, Any],
    configuration: IndexConfiguration,
    limits: Limits,
    allows_cursor: bool,
) -> _Reader:
    """Read the parameters one by one; list every mistake."""
    reader = _Reader(configuration, settings, limits)
    errors: list[InvalidRequest] = []
    for name, value in params.items():
        if value is None or name in IGNORED:
            continue
        if len(errors) >= limits.errors_reported_max:
            break
        row = CURSOR_ROW if allows_cursor and name == "cursor" else BY_NAME.get(name)
        try:
            if row is not None:
                _guarded(name, partial(row.read, reader, value))
            else:
                _check_unsupported(name, value)
        except InvalidRequest as error:
            errors.append(error)
    if len(errors) > 1:
        listed = [{"code": one.code, "param": one.param, "message": one.message} for one in errors]
        errors[0].details["errors"] = listed
    if errors:
        raise errors[0]
    return reader


def _guarded(name: str, read: Callable[[], None]) -> None:
    """Run the reader of a parameter; a mistake becomes an error that names the parameter."""
    try:
        read()
    except Mistake as mistake:
        name = mistake.path or name
        code = mistake.code or _CODES.get(name, WRONG)
        raise _wrong(name, mistake.message, code) from None


def _wrong(name: str, message: str, code: str = WRONG) -> InvalidRequest:
    return InvalidRequest(f"{name} {message}", code=code, param=name)


def _check_unsupported(name: str, value: Any) -> None:
    """Reject parameters that cannot be honoured or do not exist.

    Raises:
        InvalidRequest: code unsupported_parameter or unknown_parameter.
    """
    unsupported = UNSUPPORTED.get(name)
    if unsupported is None:
        near = difflib.get_close_matches(name[:100], [*BY_NAME, *UNSUPPORTED], n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(BY_NAME)}"
        raise InvalidRequest(
            f"unknown parameter {name[:100]!r}; {hint}",
            code="unknown_parameter",
            param=name[:100],
        )
    neutral, reason = unsupported
    given = plain(value)
    if not any(
        given == one and isinstance(given, bool) == isinstance(one, bool) for one in neutral
    ):
        raise _wrong(name, f"cannot be honoured: {reason}", UNHONOURED)


def translated(error: ServiceError, **names: str) -> ServiceError:
    """Rewrite an error about one of our parameters to name Algolia's that it came from."""
    if not isinstance(error, InvalidRequest) or error.param is None:
        return error
    head, dot, rest = error.param.partition(".")
    name = {**_NAMES, **names}.get(head)
    if name is None:
        return error
    message = error.message
    if message.startswith(error.param):
        message = name + dot + rest + message[len(error.param) :]
    return InvalidRequest(message, code=error.code, param=name + dot + rest)


def _restricted(search: SearchParameters, reader: _Reader) -> SearchParameters:
    """Return a search with the restrictions that none of our parameters can express."""
    facets = reader.configuration.facets
    fields = dict(search.filter_fields)
    for condition, name in reader.conditions:
        for field in scalar_fields_of(condition):
            if field not in facets:
                fields.setdefault(field, name)
    clauses = (FilterClause(condition) for condition, _ in reader.conditions)
    return msgspec.structs.replace(
        search, filters=(*search.filters, *clauses), filter_fields=fields
    )


def _shown(params: Mapping[str, Any]) -> str:
    """Return parameters as a query string."""
    return urlencode(
        {
            name: value if isinstance(value, str) else orjson.dumps(value).decode()
            for name, value in params.items()
            if not name.lower().startswith("x-algolia-")
        }
    )


def query_string_parameters(query_string: str) -> dict[str, Any]:
    """Return the parameters of a GET request."""
    return flattened({"params": query_string})


def parameters_schema(**more: Schema) -> Schema:
    """Return the JSON Schema of the parameters of a search, for the documentation."""
    properties = {row.name: {**or_null(row.schema), "description": row.description} for row in ROWS}
    params = {
        **or_null({"anyOf": [_TEXT, {"type": "object"}]}),
        "description": "All of these as one text.",
    }
    return {"type": "object", "properties": {**more, **properties, "params": params}}


def or_null(schema: Schema) -> Schema:
    """Return the schema of a parameter for which null means: not given."""
    return {"anyOf": [schema, {"type": "null"}]}
