"""Which queries of a list are answered by the search before them."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.algolia.folding import RequestedQuery, fold

MAIN = {"query": "lamp", "facets": ["brand", "size"], "facetFilters": [["brand:A"], ["size:L"]]}
COUNTS = {"query": "lamp", "facets": "brand", "facetFilters": [["size:L"]], "hitsPerPage": 0}


def folded(other: dict[str, Any], main: dict[str, Any] | None = None, name: str = "shop") -> bool:
    groups = fold([RequestedQuery("shop", main or MAIN), RequestedQuery(name, other)])
    return len(groups) == 1


def test_counts_of_a_choice_are_folded() -> None:
    both = [RequestedQuery("shop", MAIN), RequestedQuery("shop", COUNTS)]
    of_size = {**COUNTS, "facets": ["size"], "facetFilters": [["brand:A"]], "analytics": False}
    (group,) = fold([*both, RequestedQuery("shop", of_size)])

    assert group.folded == [(1, "brand"), (2, "size")]


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
    ],
)
def test_what_differs_is_a_search_of_its_own(change: dict[str, Any]) -> None:
    assert folded(COUNTS)
    assert not folded({**COUNTS, **change})
    assert not folded(COUNTS, name="shop2")


@pytest.mark.parametrize(
    "group", ["brand:A", ["brand:A", "size:M"], ["brand:-A"], [], ["brand"], [3]]
)
def test_what_is_no_choice_of_the_facet_is_not_folded(group: Any) -> None:
    assert not folded(COUNTS, {**MAIN, "facetFilters": [group, ["size:L"]]})
