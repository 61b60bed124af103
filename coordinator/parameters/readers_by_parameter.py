"""The readers of parameters: one function per parameter, which puts what it reads into the draft.

Each takes the value as received (`QueryText` from a query string, JSON from a body) and raises
`Mistake` if it is invalid. `parameter_table` says which parameter each is for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from common.boosts import NO_POINT, parse_boosts
from common.curation_rules import parse_rules
from common.item_ids import canonical_id
from common.protocol.messages import Distinct, SortKey
from common.search_option_parsers import (
    ALL_FIELDS,
    MATCH_FORMS,
    PREFIX_FORMS,
    TYPO_FORMS,
    TYPO_LENGTHS_FORMS,
    parse_match,
    parse_prefix,
    parse_typo,
    parse_typo_lengths,
    parse_weighted_field,
)
from coordinator.parameters import (
    facet_options,
    facet_ranges_and_cube,
    highlight_options,
    tree_options,
)
from coordinator.parameters.parameters_of_other_engines import MISPLACED
from coordinator.parameters.request_decoding import QueryText
from coordinator.parameters.searched_fields import not_searched, searched_fields, unsearched
from coordinator.parameters.sort_keys import read_sort_keys
from coordinator.parameters.value_parsers import (
    DIGITS,
    Mistake,
    boolean,
    check_field,
    check_members,
    integer,
    json_of_text,
    names,
    object_of,
    optional_bool,
    paths,
    text,
)

if TYPE_CHECKING:
    from coordinator.parameters.search_draft import SearchDraft

MIN_SCORE_MAX: Final = 1e12
NUMBER: Final = re.compile(r"[0-9]{1,13}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)

SHOWN: Final = ("score", "score_details", "timings", "elements")


def read_query(draft: SearchDraft, value: Any) -> None:
    """Read `query`."""
    if not isinstance(value, str):
        conditions = "; conditions go to filter or filters" if isinstance(value, dict) else ""
        raise Mistake(f"must be a text{conditions}")
    if len(value) > draft.limits.query_chars_max:
        raise Mistake(
            f"has {len(value)} characters, more than {draft.limits.shown('query_chars_max')}",
            code="query_too_long",
        )
    draft.values["query"] = str(value)


def read_match(draft: SearchDraft, value: Any) -> None:
    """Read `match`."""
    draft.values["match"] = _mode(parse_match(value), MATCH_FORMS)


def read_prefix(draft: SearchDraft, value: Any) -> None:
    """Read `prefix`."""
    draft.values["prefix"] = _mode(parse_prefix(value), PREFIX_FORMS)


def read_typo(draft: SearchDraft, value: Any) -> None:
    """Read `typo`."""
    draft.values["typo"] = _mode(parse_typo(value), TYPO_FORMS)


def read_infix(draft: SearchDraft, value: Any) -> None:
    """Read `infix`."""
    draft.values["infix"] = 2 if boolean(value) else 0


def read_typo_lengths(draft: SearchDraft, value: Any) -> None:
    """Read `typo_lengths`."""
    if isinstance(value, str):
        value = [QueryText(one) for one in value.strip("[] ").split(",")]
    if isinstance(value, list) and value and isinstance(value[0], QueryText):
        texts = [one.strip() for one in value]
        value = [int(one) if DIGITS.fullmatch(one) else None for one in texts]
    draft.values["typo_lengths"] = _mode(parse_typo_lengths(value), TYPO_LENGTHS_FORMS)


def read_search_fields(draft: SearchDraft, value: Any) -> None:
    """Read `search_fields`."""
    fields = [
        parse_weighted_field(name) for name in names(value, "search_fields_max", draft.limits)
    ]
    if not fields or None in fields:
        raise Mistake('must name fields, with weights such as "name^3" (above 0, up to 1000)')
    named = tuple([field for field in fields if field is not None])
    for field in named:
        check_field(field.path, draft.limits)
    searchable = draft.configuration.searchable_fields
    if searchable is not None and len(unsearched(named, searchable)) == len(named):
        raise Mistake(not_searched(named[0].path, searchable))
    draft.values["search_fields"] = searched_fields(named, searchable)
    draft.values["named_search_fields"] = named


def read_page(draft: SearchDraft, value: Any) -> None:
    """Read `page`."""
    draft.values["page"] = integer(value, 1, "page_max", draft.limits)


def read_per_page(draft: SearchDraft, value: Any) -> None:
    """Read `per_page`."""
    draft.values["per_page"] = integer(value, 0, "per_page_max", draft.limits)


def read_facet_per_page(draft: SearchDraft, value: Any) -> None:
    """Read `per_page` of the facet route."""
    draft.values["per_page"] = integer(value, 0, "facet_per_page_max", draft.limits)


def read_cursor(draft: SearchDraft, value: Any) -> None:
    """Read `cursor`."""
    cursor = text(value, "cursor_chars_max", draft.limits)
    if draft.values.get("page", 1) != 1:
        raise Mistake("and page exclude each other")
    draft.values["cursor"] = cursor


def read_sort_field(draft: SearchDraft, value: Any) -> None:
    """Read `sort_field`."""
    field = check_field(value, draft.limits)
    if field in draft.configuration.geo_fields:
        raise Mistake(
            f'names points, which have no order; sort takes "{field[:100]}(48.2,16.4)", for '
            "example: the distance from one"
        )
    draft.sort_field = field


def read_order(draft: SearchDraft, value: Any) -> None:
    """Read `order`."""
    if not isinstance(value, str) or value.lower() not in ("asc", "desc"):
        raise Mistake('must be "asc" or "desc"')
    is_descending = value.lower() == "desc"
    if draft.sort_field is None:
        draft.values["is_place_descending"] = is_descending
    elif is_descending:
        collation = draft.configuration.collation_of(draft.sort_field)
        draft.values["sort"] = (SortKey(draft.sort_field, True, collation=collation),)


def read_sort(draft: SearchDraft, value: Any) -> None:
    """Read `sort`."""
    if draft.sort_field is not None:
        raise Mistake("and sort_field exclude each other")
    if "is_place_descending" in draft.values:
        raise Mistake('and order exclude each other; write the direction in sort: "year:desc"')
    draft.values["sort"] = read_sort_keys(value, draft.configuration, draft.limits)
    draft.values["sort_param"] = "sort"


def read_boost(draft: SearchDraft, value: Any) -> None:
    """Read `boost`."""
    boosts = object_of(value, 'of boosts by field, for example {"popularity": {"log": 0.3}}')
    if len(boosts) > draft.limits.boosts_max:
        raise Mistake(f"names {len(boosts)} fields, more than {draft.limits.shown('boosts_max')}")
    mistakes: list[Mistake] = []

    def report(path: str, message: str) -> None:
        mistakes.append(Mistake(message, path=path))

    def is_field(path: str, name: str) -> bool:
        check_field(name, draft.limits, path)
        return True

    parsed = draft.values["boosts"] = parse_boosts(boosts, is_field, report)
    if mistakes:
        raise mistakes[0]
    geo_fields = draft.configuration.geo_fields
    for boost in parsed:
        if boost.point is not None and boost.field not in geo_fields:
            known = ", ".join(geo_fields) or "none"
            raise Mistake(
                f"counts distances from a point, but the geo_fields are {known[:500]}",
                path=f".{boost.field[:100]}",
            )
        if boost.point is None and boost.field in geo_fields:
            raise Mistake(NO_POINT, path=f".{boost.field[:100]}")


def read_rules(draft: SearchDraft, value: Any) -> None:
    """Read `rules`."""
    if not isinstance(value, list) or len(value) > draft.limits.rules_max:
        raise Mistake(f"must be a list of up to {draft.limits.shown('rules_max')} rules")
    mistakes: list[Mistake] = []

    def report(path: str, message: str) -> None:
        mistakes.append(Mistake(message, path=path))

    draft.values["rules"] = parse_rules(value, draft.limits, report)
    if mistakes:
        raise mistakes[0]


def read_min_score(draft: SearchDraft, value: Any) -> None:
    """Read `min_score`."""
    if isinstance(value, str) and NUMBER.fullmatch(value):
        value = float(value)
    if type(value) not in (int, float) or not 0 <= value <= MIN_SCORE_MAX:
        raise Mistake(f"must be a number from 0 to {MIN_SCORE_MAX:g}")
    draft.values["min_score"] = float(value)


def read_distinct(draft: SearchDraft, value: Any) -> None:
    """Read `distinct`."""
    if isinstance(value, str) and not value.startswith("{"):
        draft.values["distinct"] = Distinct(_grouping_field(draft, value))
        return
    if isinstance(value, str):
        value = json_of_text(value)
    if not isinstance(value, dict):
        raise Mistake('must be a field, or an object such as {"field": "brand", "limit": 1}')
    options = value
    check_members(options, ("field", "limit", "sizes", "hits", "facets_by"))
    limit, hits = options.get("limit"), options.get("hits")
    has_sizes = optional_bool(options, "sizes", False, "")
    facets_by = options.get("facets_by")
    if facets_by not in (None, "items", "groups"):
        raise Mistake('must be "items" or "groups"', path=".facets_by")
    draft.values["distinct"] = Distinct(
        _grouping_field(draft, options.get("field"), ".field"),
        1 if limit is None else integer(limit, 1, "distinct_max", draft.limits, ".limit"),
        facets_by == "groups",
    )
    if hits is not None:
        if limit not in (None, 1, "1"):
            raise Mistake("and a limit above 1 exclude each other", path=".hits")
        draft.values["group_hits"] = integer(hits, 1, "distinct_max", draft.limits, ".hits")
    elif has_sizes:
        draft.values["group_hits"] = 0


def _grouping_field(draft: SearchDraft, value: Any, path: str = "") -> str:
    """Return a field whose values tell groups apart; points are none."""
    field = check_field(value, draft.limits, path)
    if field in draft.configuration.geo_fields:
        raise Mistake("names points, which do not tell items apart", path=path)
    return field


def read_fields(draft: SearchDraft, value: Any) -> None:
    """Read `fields`."""
    fields = paths(value, draft.limits)
    if ALL_FIELDS not in fields:
        draft.values["fields"] = fields


def read_exclude_fields(draft: SearchDraft, value: Any) -> None:
    """Read `exclude_fields`."""
    fields = paths(value, draft.limits)
    if ALL_FIELDS in fields:
        draft.values["fields"] = ()
    else:
        draft.values["exclude_fields"] = fields


def read_show(draft: SearchDraft, value: Any) -> None:
    """Read `show`."""
    shown = frozenset(names(value, "projected_fields_max", draft.limits))
    if not shown.issubset(SHOWN):
        raise Mistake(f"must be a list of {', '.join(sorted(SHOWN))}")
    draft.values["show"] = shown


def read_partial(draft: SearchDraft, value: Any) -> None:
    """Read `partial`."""
    if value not in ("fail", "allow"):
        raise Mistake('must be "fail" or "allow"')
    draft.values["allows_partial"] = value == "allow"


def read_timeout_ms(draft: SearchDraft, value: Any) -> None:
    """Read `timeout_ms`."""
    draft.values["timeout_ms"] = integer(value, 1, "request_timeout_ms_max", draft.limits)


def read_highlight(draft: SearchDraft, value: Any) -> None:
    """Read `highlight`."""
    draft.marks.update(highlight_options.read_highlight(value, draft.limits))


def read_snippet(draft: SearchDraft, value: Any) -> None:
    """Read `snippet`."""
    draft.marks.update(highlight_options.read_snippet(value, draft.limits))


def read_facet_fields(draft: SearchDraft, value: Any) -> None:
    """Read `facet_fields`."""
    if isinstance(value, dict):
        raise Mistake('must be a list of names: ["tags"]; facets takes options by facet')
    fields = names(value, "facet_fields_max", draft.limits)
    if ALL_FIELDS not in fields:
        draft.facet_fields = fields


def read_facet_mode(draft: SearchDraft, value: Any) -> None:
    """Read `facet_mode`."""
    if value not in ("auto", "strict"):
        raise Mistake('must be "auto" or "strict"')
    draft.values["is_strict"] = value == "strict"


def read_hide_zero(draft: SearchDraft, value: Any) -> None:
    """Read `hide_zero`."""
    draft.values["hide_zero"] = boolean(value)


def read_facets(draft: SearchDraft, value: Any) -> None:
    """Read `facets`."""
    if value and isinstance(value, (str, list)):
        raise Mistake(f"must be an object of options by facet; {MISPLACED['facets']}")
    draft.facet_options = facet_options.read_facet_options(value, draft.configuration, draft.limits)
    settings = {name: one.configuration for name, one in draft.facet_options.items()}
    draft.field_facets = {name: one for name, one in settings.items() if name not in draft.facets}
    draft.facets = {
        **draft.facets,
        **{name: settings[name] for name in settings if name in draft.facets},
    }
    for name in draft.field_facets:
        if name in draft.configuration.geo_fields:
            raise Mistake(
                'has points, which are counted by facet_ranges: {"grid": 6}, for example',
                path=f".{name[:100]}",
            )
        draft.conditions.fields[name] = f"facets.{name}"


def read_facet_ranges(draft: SearchDraft, value: Any) -> None:
    """Read `facet_ranges`."""
    draft.ranges = facet_ranges_and_cube.read_facet_ranges(
        value, draft.configuration.geo_fields, draft.limits
    )


def read_facet_cube(draft: SearchDraft, value: Any) -> None:
    """Read `facet_cube`."""
    draft.cube = draft.values["cube"] = facet_ranges_and_cube.read_facet_cube(value, draft.limits)


def read_filters(draft: SearchDraft, value: Any) -> None:
    """Read `filters`."""
    draft.conditions.require(
        value,
        draft.facets,
        draft.field_facets,
        [name for name, _ in draft.ranges],
        None if draft.cube is None else draft.cube.field,
    )


def read_not_filters(draft: SearchDraft, value: Any) -> None:
    """Read `not_filters`."""
    draft.conditions.exclude(value)


def read_filter(draft: SearchDraft, value: Any) -> None:
    """Read `filter`."""
    draft.conditions.require_expression(value, draft.facets)


def read_trees(draft: SearchDraft, value: Any) -> None:
    """Read `trees`."""
    draft.values["trees"] = tree_options.read_trees(
        value, draft.conditions, draft.configuration, draft.limits, is_strict=draft.is_strict
    )


def read_key_pattern(draft: SearchDraft, value: Any) -> None:
    """Read `query` of the facet route."""
    draft.values["key_pattern"] = text(value, "query_chars_max", draft.limits)


def read_facet_query(draft: SearchDraft, value: Any) -> None:
    """Read `facet_query`."""
    draft.values["key_query"] = text(value, "query_chars_max", draft.limits)


def read_id(draft: SearchDraft, value: Any) -> None:
    """Read `id`."""
    draft.values["only_ids"] = (_item_id(value),)


def read_similar_to(draft: SearchDraft, value: Any) -> None:
    """Read `similar_to`."""
    if draft.values.get("query"):
        raise Mistake("and query exclude each other")
    draft.values["similar_to"] = _item_id(value)


def read_did_you_mean(draft: SearchDraft, value: Any) -> None:
    """Read `did_you_mean`."""
    draft.values["did_you_mean"] = boolean(value)


def read_suggestions_size(draft: SearchDraft, value: Any) -> None:
    """Read `size` of the route of suggestions."""
    draft.values["size"] = integer(value, 1, "suggestions_max", draft.limits)


def read_name(draft: SearchDraft, value: Any) -> None:
    """Read `name`."""
    draft.values["name"] = check_field(value, draft.limits)


def _mode(mode: Any, forms: str) -> Any:
    """Return a parsed mode, or raise a mistake that lists the valid ones."""
    if mode is None:
        raise Mistake(forms)
    return str(mode) if isinstance(mode, str) else mode


def _item_id(value: Any) -> bytes:
    """Return the canonical form of an item's id."""
    canonical = canonical_id(value) if isinstance(value, (int, str)) else None
    if canonical is None:
        raise Mistake("must be an item's id: a number, or a text of 1 to 256 bytes")
    return canonical
