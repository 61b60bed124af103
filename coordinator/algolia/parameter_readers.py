"""Readers of Algolia's search parameters, one function each, for `parameter_table` (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from common.query_syntax_tree import And
from common.search_option_parsers import parse_language
from coordinator.algolia.filters import (
    facet_filter,
    groups_of,
    numeric_filters,
    parse_filters,
    tag_filters,
)
from coordinator.algolia.geo import parse_boxes, parse_point, parse_polygons, parse_radius
from coordinator.algolia.parameter_errors import UNHONOURED
from coordinator.algolia.search_draft import AlgoliaDraft, Condition
from coordinator.parameters.value_parsers import Mistake, integer, json_of_text, object_of, text

QUERY_TYPES: Final = {"prefixLast": "last", "prefixAll": "all", "prefixNone": "none"}
"""By `queryType`: our `prefix`."""
REMOVALS: Final = {"none": "all", "lastWords": "last"}
"""By `removeWordsIfNoResults`: our `match`."""


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise Mistake("must be true or false")


def texts(value: Any) -> list[str]:
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


def _one_of(value: Any, known: Mapping[str, Any]) -> Any:
    if not isinstance(value, str) or value not in known:
        raise Mistake(f"must be one of {', '.join(known)}")
    return known[value]


# --- text


def read_query(draft: AlgoliaDraft, value: Any) -> None:
    draft.raw["query"] = text(value, "query_chars_max", draft.limits)


def read_advanced_syntax(draft: AlgoliaDraft, value: Any) -> None:
    draft.has_syntax = _boolean(value)


def read_query_type(draft: AlgoliaDraft, value: Any) -> None:
    draft.raw["prefix"] = _one_of(value, QUERY_TYPES)


def read_typo_tolerance(draft: AlgoliaDraft, value: Any) -> None:
    value = plain(value)
    if value in ("min", "strict"):
        raise Mistake(
            "cannot be min or strict: hits with more typos come last, and are not left out",
            code=UNHONOURED,
        )
    draft.raw["typo"] = "auto" if _boolean(value) else 0


def read_optional_words(draft: AlgoliaDraft, value: Any) -> None:
    listed = [value] if isinstance(value, str) and value[:1] != "[" else texts(value)
    draft.optional_words = [word for one in listed for word in one.lower().split()]


def read_remove_words(draft: AlgoliaDraft, value: Any) -> None:
    if value in ("firstWords", "allOptional"):
        raise Mistake("can be none or lastWords only", code=UNHONOURED)
    draft.raw["match"] = _one_of(value, REMOVALS)


def read_searched(draft: AlgoliaDraft, value: Any) -> None:
    weights = {one.path: one.weight for one in draft.configuration.searchable_fields or ()}
    names = texts(value)
    if names:
        draft.raw["search_fields"] = [
            f"{name}^{weights[name]:.9f}".rstrip("0").rstrip(".") if name in weights else name
            for name in names
        ]


def read_plurals(draft: AlgoliaDraft, value: Any) -> None:
    _check_configured(draft, plain(value), draft.configuration.language is not None, "language")


def read_stop_words(draft: AlgoliaDraft, value: Any) -> None:
    has = bool(draft.configuration.stop_words or draft.configuration.stop_words_language)
    _check_configured(draft, plain(value), has, "stop_words")


def _check_configured(draft: AlgoliaDraft, value: Any, is_on: bool, key: str) -> None:
    """Reject a value that contradicts the index's configuration."""
    if bool(value) != is_on:
        raise Mistake(
            f"is decided by the configuration of the index, which "
            f"{'has' if is_on else 'lacks'} {key}; change it there",
            code=UNHONOURED,
        )


def read_languages(draft: AlgoliaDraft, value: Any) -> None:
    own = draft.configuration.language
    for name in texts(value):
        if parse_language(name) != own:
            raise Mistake(
                f"asks for {name[:20]!r}; the index's language is {own or 'none'} "
                "(language in its configuration)",
                code=UNHONOURED,
            )


def read_synonyms(draft: AlgoliaDraft, value: Any) -> None:
    if not _boolean(value) and draft.configuration.synonyms:
        raise Mistake("cannot be switched off for one search", code=UNHONOURED)


def read_enable_rules(draft: AlgoliaDraft, value: Any) -> None:
    if not _boolean(value):
        draft.raw["rules"] = []


# --- pages


def read_page(draft: AlgoliaDraft, value: Any) -> None:
    draft.raw["page"] = integer(value, 0, "page_max", draft.limits) + 1


def read_hits_per_page(draft: AlgoliaDraft, value: Any) -> None:
    draft.raw["per_page"] = integer(value, 0, "per_page_max", draft.limits)


def read_offset(draft: AlgoliaDraft, value: Any) -> None:
    draft.skip = integer(value, 0, "page_max", draft.limits)


def read_length(draft: AlgoliaDraft, value: Any) -> None:
    draft.length = integer(value, 0, "per_page_max", draft.limits)


def read_cursor(draft: AlgoliaDraft, value: Any) -> None:
    draft.raw["cursor"] = text(value, "cursor_chars_max", draft.limits)


# --- restrictions


def read_filters(draft: AlgoliaDraft, value: Any) -> None:
    condition = parse_filters(
        text(value, "filter_expression_chars_max", draft.limits), draft.limits
    )
    if condition != And(()):  # a blank text restricts nothing
        draft.conditions.append(Condition(condition, "filters"))


def read_facet_filters(draft: AlgoliaDraft, value: Any) -> None:
    groups = groups_of(value, draft.limits)
    draft.groups = [[facet_filter(one) for one in group] for group in groups]


def read_numeric_filters(draft: AlgoliaDraft, value: Any) -> None:
    filters = numeric_filters(value, draft.limits)
    draft.conditions += [Condition(one, "numericFilters") for one in filters]


def read_tag_filters(draft: AlgoliaDraft, value: Any) -> None:
    draft.conditions += [Condition(one, "tagFilters") for one in tag_filters(value, draft.limits)]


# --- facets


def read_facets(draft: AlgoliaDraft, value: Any) -> None:
    names = texts(value)
    if "*" in names:
        names = list(draft.configuration.facets)
    draft.facet_names = list(dict.fromkeys(name for name in names if name))


def read_values_per_facet(draft: AlgoliaDraft, value: Any) -> None:
    draft.options["size"] = integer(value, 0, "facet_size_max", draft.limits)


def read_facet_sort(draft: AlgoliaDraft, value: Any) -> None:
    orders = {"count": ["count:desc", "key:asc"], "alpha": ["key:asc"]}
    draft.options["sort"] = _one_of(value, orders)


def read_distinct(draft: AlgoliaDraft, value: Any) -> None:
    value = plain(value)
    if value is False or value in (0, "0"):
        return
    field = draft.settings.get("attributeForDistinct")
    if field is None:
        raise Mistake(
            "needs the setting attributeForDistinct of the index",
            code=UNHONOURED,
        )
    limit = 1 if value is True else integer(value, 1, "distinct_max", draft.limits)
    draft.raw["distinct"] = {"field": field, "limit": limit}


def read_counted_groups(draft: AlgoliaDraft, value: Any) -> None:
    if _boolean(value):
        draft.counts_groups = True


# --- places


def read_around(draft: AlgoliaDraft, value: Any) -> None:
    if value != "":
        draft.around = parse_point(value)


def read_radius(draft: AlgoliaDraft, value: Any) -> None:
    if plain(value) != "all":
        draft.radius = parse_radius(value)


def read_boxes(draft: AlgoliaDraft, value: Any) -> None:
    draft.areas.append((parse_boxes(draft.geo_field, value, draft.limits), "insideBoundingBox"))


def read_polygons(draft: AlgoliaDraft, value: Any) -> None:
    draft.areas.append((parse_polygons(draft.geo_field, value, draft.limits), "insidePolygon"))


# --- contents of the response


def read_retrieved(draft: AlgoliaDraft, value: Any) -> None:
    names = texts(value)
    excluded = tuple(name[1:] for name in names if name.startswith("-"))
    wanted = [name for name in names if name and not name.startswith("-")]
    draft.style["excluded"] = excluded
    is_all = "*" in wanted or (not wanted and excluded)
    draft.style["retrieved"] = None if is_all else tuple(wanted)


def read_highlighted(draft: AlgoliaDraft, value: Any) -> None:
    draft.marks = [name for name in texts(value) if name]


def read_snipped(draft: AlgoliaDraft, value: Any) -> None:
    draft.snippets = [name for name in texts(value) if name]


def read_pre(draft: AlgoliaDraft, value: Any) -> None:
    draft.style["pre"] = text(value, "mark_chars_max", draft.limits)


def read_post(draft: AlgoliaDraft, value: Any) -> None:
    draft.style["post"] = text(value, "mark_chars_max", draft.limits)


def read_ellipsis(draft: AlgoliaDraft, value: Any) -> None:
    draft.ellipsis = text(value, "mark_chars_max", draft.limits)


def read_restricted_arrays(draft: AlgoliaDraft, value: Any) -> None:
    draft.style["restricts_arrays"] = _boolean(value)


def read_rendering_content(draft: AlgoliaDraft, value: Any) -> None:
    draft.style["rendering_content"] = object_of(plain(value), "which the answer repeats")


def read_members(draft: AlgoliaDraft, value: Any) -> None:
    names = frozenset(texts(value))
    draft.style["members"] = None if "*" in names or not names else names
