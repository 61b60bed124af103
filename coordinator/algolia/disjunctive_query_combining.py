"""Combines the queries of a page into fewer searches (pure).

InstantSearch renders a page from one list of queries: the search itself, and, for every disjunctive
facet with a selection, the same search without that selection, of which it uses only the facet's
counts. facetd counts disjunctive facets without their own selection anyway, so the search answers
these queries, too:

    query  {facetFilters: [["brand:A", "brand:B"], ["size:L"]]}    search  brand, size disjunctive
    query  {facetFilters: [["size:L"]], facets: "brand"}        ─▶           (their own filters
    query  {facetFilters: [["brand:A", "brand:B"]], facets: "size"}           left out of counts)

Their other members, such as `nbHits` and `facets_stats`, are those of the search. So only queries
with `analytics: false` are combined: InstantSearch sends these for the counts alone. Any other
query is answered as if it were alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from coordinator.algolia.filters import facet_filter
from coordinator.algolia.unsupported_parameters import IGNORED
from coordinator.parameters.value_parsers import Mistake

_OWN: Final = frozenset(
    (
        *("facets", "facetFilters", "page", "hitsPerPage", "attributesToRetrieve"),
        *("attributesToHighlight", "attributesToSnippet", "highlightPreTag", "highlightPostTag"),
        *("snippetEllipsisText", "restrictHighlightAndSnippetArrays"),
        *IGNORED,
    )
)
"""Parameters that may differ: they change neither the matching items nor the listing of values."""


class RequestedQuery(NamedTuple):
    """One query of a list: the index it names, and its parameters."""

    name: str
    params: Mapping[str, Any]


class CombinedSearch(NamedTuple):
    """A search, and the other queries that its result answers."""

    position: int
    main: RequestedQuery
    facet_queries: list[tuple[int, str]]
    """Position and facet of each query that it answers too, for the counts of that facet."""


def combine(queries: Sequence[RequestedQuery]) -> list[CombinedSearch]:
    """Return the searches to run for a list of queries."""
    groups: list[CombinedSearch] = []
    for position, query in enumerate(queries):
        facet = _left_out_facet(groups[-1].main, query) if groups else None
        if facet is not None:
            groups[-1].facet_queries.append((position, facet))
        else:
            groups.append(CombinedSearch(position, query, []))
    return groups


def _left_out_facet(main: RequestedQuery, query: RequestedQuery) -> str | None:
    """Return the facet whose own selection a query drops from the main search, or None."""
    params = query.params
    facets = params.get("facets")
    names = [facets] if isinstance(facets, str) else facets
    if query.name != main.name or not isinstance(names, list) or len(names) != 1:
        return None
    if params.get("analytics") not in (False, "false"):
        return None
    facet = names[0]
    size = params.get("hitsPerPage")
    if size not in (0, 1) or params.get("page", 0) != 0 or not isinstance(facet, str):
        return None
    selections, own = _groups(main.params), _groups(params)
    if selections is None or own is None:
        return None
    others = [group for group in selections if not _is_choice_of(group, facet)]
    # Values of the facet that are ANDed, or ORed with another field, are not a selection of it.
    if len(selections) != len(others) + 1 or any(facet in _fields_of(group) for group in others):
        return None
    is_same = _rest_of(main.params) == _rest_of(params)
    return facet if is_same and others == own else None


def _groups(params: Mapping[str, Any]) -> list[Any] | None:
    """Return the groups of facetFilters if they are a list, as widgets send them."""
    value = params.get("facetFilters", [])
    return value if isinstance(value, list) else None


def _rest_of(params: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in params.items() if name not in _OWN}
    return {**rest, "query": rest.get("query", "")}


def _is_choice_of(group: Any, facet: str) -> bool:
    return (
        isinstance(group, list)
        and bool(group)
        and all(
            field == facet and not is_negative for field, is_negative in map(_field_and_sign, group)
        )
    )


def _fields_of(group: Any) -> list[str]:
    return [_field_and_sign(one)[0] for one in (group if isinstance(group, list) else [group])]


def _field_and_sign(value: Any) -> tuple[str, bool]:
    """Return the field of a facet filter, and whether it is negative; "" if it is malformed."""
    try:
        read = facet_filter(value) if isinstance(value, str) else None
    except Mistake:
        read = None
    return ("", False) if read is None else (read.field, read.is_negative)
