"""Joint counts: bins are exact for all numbers, and histograms do not depend on how many match."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.errors import InvalidRequest
from common.protocol.messages import CubeFacet, CubeRequest, FacetRequest, RangeRequest
from shard.collect.facets.bucket_counts import count_ranges
from shard.collect.facets.drill_sideways import CountedMatches
from shard.collect.facets.facet_cube import count_cube
from shard.query.matches import Matches
from tests.shard.columns_model import Item, World

numbers = st.sampled_from(
    [0, -0.0, 1, 2.5, 3, -7, 2**53, 2**53 + 1, 2**63 - 1, 2**64 - 1, -(2**63), 1e300, -1e300]
) | st.floats(-10, 10)


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={"price": numbers, "brand": st.sampled_from(["a", "b", ["a", "b"]]),
                      "year": numbers | st.lists(numbers, max_size=3)},
        ),
        min_size=1,
        max_size=20,
    ),
    st.lists(numbers, min_size=2, max_size=6, unique=True).map(sorted),
    st.integers(0, 20),
)  # fmt: skip
@example([{"price": 0, "year": [-5e-324]}], [0, 1], 0)
def test_bins_are_exact(items: list[Item], edges: list[Any], cut: int) -> None:
    snapshot = World(items, cuts=[cut] if 0 < cut < len(items) else [], facets=("brand",)).snapshot
    by_interval = RangeRequest("year", interval=2)
    found = count_cube(
        snapshot,
        CubeRequest(
            "price",
            tuple(edges),
            (CubeFacet(FacetRequest("brand", False, 0), ("b", "nobody", "a")),
             CubeFacet(FacetRequest("year", False, 0), ("1",))),
            (by_interval,),
            10_000,
        ),
        CountedMatches.of([Matches(view, is_all=True) for view in snapshot.views]),
    )  # fmt: skip
    bins = [
        [item for item in items if "price" in item and low <= item["price"] < high]
        for low, high in itertools.pairwise(edges)
    ]
    assert np.frombuffer(found.total, np.uint32).tolist() == [len(one) for one in bins]
    brands = np.frombuffer(found.facets[0], np.uint32).reshape(3, -1).tolist()
    for key, row in zip(("b", "nobody", "a"), brands, strict=True):
        assert row == [sum(key in _list(item.get("brand")) for item in one) for one in bins]
    assert np.frombuffer(found.facets[1], np.uint32).tolist() == [
        sum(1 in _list(item.get("year")) for item in one) for one in bins
    ]
    (years,) = found.ranges
    rows = np.frombuffer(years.counts, np.uint32).reshape(-1, len(bins)).tolist()
    for bucket, row in zip(years.keys, rows, strict=True):
        assert row == [
            sum(
                any(_bucket(year) == bucket for year in _list(item.get("year", []))) for item in one
            )
            for one in bins
        ]


@given(st.lists(st.fixed_dictionaries({"year": numbers}), min_size=1, max_size=30))
def test_a_histogram_is_the_same_from_codes_and_from_a_sort(items: list[Item]) -> None:
    snapshot = World(items, cuts=[], facets=()).snapshot
    (view,) = snapshot.views
    request = RangeRequest("year", interval=2)
    whole = count_ranges(snapshot, request, [Matches(view, is_all=True)])
    counts: dict[Any, int] = {}
    for doc in range(len(items)):
        # One of many matches is counted by a sort, one of few by codes.
        part = count_ranges(snapshot, request, [Matches(view, docs=np.array([doc], np.uint32))])
        for key, count in zip(part.listed_keys, part.listed_counts, strict=True):
            counts[key] = counts.get(key, 0) + count
    assert dict(zip(whole.listed_keys, whole.listed_counts, strict=True)) == counts


def test_numbers_in_several_bins_are_an_error_only_where_they_match() -> None:
    items: list[Item] = [{"price": [1, 1.5]}, {"price": [1, 5]}, {"price": [1, 99]}]
    snapshot = World(items, cuts=[], facets=()).snapshot
    (view,) = snapshot.views
    request = CubeRequest("price", (0, 2, 10), (), (), 100)

    def total(docs: list[int]) -> list[int]:
        part = Matches(view, docs=np.array(docs, np.uint32))
        found = count_cube(snapshot, request, CountedMatches.of([part]))
        counts: list[int] = np.frombuffer(found.total, np.uint32).tolist()
        return counts

    assert total([0, 2]) == [2, 0]
    with pytest.raises(InvalidRequest, match="at most one number in 'price'"):
        total([0, 1])


def test_counts_are_bounded() -> None:
    items: list[Item] = [{"price": 1, "year": year} for year in range(10)]
    snapshot = World(items, cuts=[], facets=()).snapshot
    ranges = (RangeRequest("year", interval=1),)
    matches = [Matches(view, is_all=True) for view in snapshot.views]
    request = CubeRequest("price", (0, 2, 10), (), ranges, 20)
    assert len(count_cube(snapshot, request, CountedMatches.of(matches)).ranges[0].keys) == 10
    smaller = CubeRequest("price", (0, 2, 10), (), ranges, 19)
    with pytest.raises(InvalidRequest, match="more than 19 counts"):
        count_cube(snapshot, smaller, CountedMatches.of(matches))


def _bucket(number: float) -> Any:
    bucket = Fraction(number) // 2
    return int(bucket) if -(2**63) <= bucket < 2**64 else float(bucket)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize("keys", [("rare",), ("rare", "often")])
@pytest.mark.parametrize("step", [1, 3])
def test_values_counted_by_stored_sets_are_those_of_a_loop(
    step: int, keys: tuple[str, ...]
) -> None:
    """Items that do not match may have numbers in several bins: a kernel once read past its bins
    (`FACETD_KERNELS=checked`)."""
    items: list[Item] = [
        {
            "price": [1, 4] if number % step else number % 7,
            "brand": ["often", "rare"] if number % 50 == 0 else "often",
        }
        for number in range(4_200)
    ]
    snapshot = World(items, cuts=[], facets=("brand",)).snapshot
    (view,) = snapshot.views
    chosen = range(0, len(items), step)
    matches = Matches(view, docs=np.array(chosen, np.uint32))
    facet = CubeFacet(FacetRequest("brand", False, 0), keys)
    request = CubeRequest("price", (0, 3, 6), (facet,), (), 10_000)
    found = count_cube(snapshot, request, CountedMatches.of([matches]))
    counts = np.frombuffer(found.facets[0], np.uint32).reshape(-1, 2).tolist()
    assert counts == [
        [sum(key in _list(items[one]["brand"]) and low <= items[one]["price"] < low + 3
             for one in chosen) for low in (0, 3)]
        for key in keys
    ]  # fmt: skip
