"""Which queries of a list are answered by the search before them."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.algolia.disjunctive_query_combining import RequestedQuery, combine
from coordinator.algolia.responses import facet_query_response

MAIN = {"query": "lamp", "facets": ["brand", "size"], "facetFilters": [["brand:A"], ["size:L"]]}
COUNTS = {
    "query": "lamp",
    "facets": "brand",
    "facetFilters": [["size:L"]],
    "hitsPerPage": 0,
    "analytics": False,
}


def is_combined(
    other: dict[str, Any], main: dict[str, Any] | None = None, name: str = "shop"
) -> bool:
    groups = combine([RequestedQuery("shop", main or MAIN), RequestedQuery(name, other)])
    return len(groups) == 1


def test_counts_of_a_choice_are_combined() -> None:
    both = [RequestedQuery("shop", MAIN), RequestedQuery("shop", COUNTS)]
    of_size = {**COUNTS, "facets": ["size"], "facetFilters": [["brand:A"]], "analytics": "false"}
    (group,) = combine([*both, RequestedQuery("shop", of_size)])

    assert group.facet_queries == [(1, "brand"), (2, "size")]


@pytest.mark.parametrize(
    "change",
    [
        {"query": "other"},
        {"numericFilters": ["price>3"]},
        {"tagFilters": ["x"]},
        {"typoTolerance": False},
        {"enableRules": False},
        {"facets": "size"},
        {"facets": ["brand", "size"]},
        {"facetFilters": []},
        {"facetFilters": "size:L"},
        {"hitsPerPage": 5},
        {"page": 1},
        {"analytics": True},
        {"analytics": None},
    ],
)
def test_what_differs_is_a_search_of_its_own(change: dict[str, Any]) -> None:
    assert is_combined(COUNTS)
    assert not is_combined({**COUNTS, **change})
    assert not is_combined(COUNTS, name="shop2")


@pytest.mark.parametrize(
    "group", ["brand:A", ["brand:A", "size:M"], ["brand:-A"], [], ["brand"], [3]]
)
def test_a_filter_that_does_not_select_in_the_facet_is_not_combined(group: Any) -> None:
    assert not is_combined(COUNTS, {**MAIN, "facetFilters": [group, ["size:L"]]})


def test_a_facet_query_response_has_the_counts_of_its_facet_alone() -> None:
    stats = {"price": {"min": 1}, "year": {"min": 2}}
    main = {"hits": [1], "nbHits": 3, "facets": {"brand": {"A": 2}}, "facets_stats": stats}

    assert facet_query_response(main, "brand") == {
        "hits": [],
        "nbHits": 3,
        "facets": {"brand": {"A": 2}},
        "facets_stats": {},
    }
    assert facet_query_response(main, "price")["facets_stats"] == {"price": {"min": 1}}


def test_a_facet_query_response_has_only_the_members_that_were_asked_for() -> None:
    assert facet_query_response({"nbHits": 3}, "brand") == {"nbHits": 3}
