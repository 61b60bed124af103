"""Counts of facets, ranges, histograms and calendars, however they are counted."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from common.errors import InvalidRequest
from common.protocol.messages import (
    FacetRequest,
    FilterClause,
    RangeRequest,
)
from common.query_syntax_tree import AnyOf
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.collect.facets import facet_counts
from shard.read import searcher
from shard.segment.columns import facet_rows
from tests.common.protocol.packed_model import unpack
from tests.shard.collect.top_hits.test_top_k import request
from tests.shard.columns_model import PATHS, World, keys_of, numbers_of, worlds
from tests.shard.query.filters.test_filters import passes, ranges
from tests.shard.read.naive_search import clauses, decode, large_world, surviving


@given(worlds(), clauses, ranges(), st.lists(st.tuples(st.integers(-5, 10), st.integers(-5, 3000))))
def test_ranges_count_items(
    world: World, filters: tuple[FilterClause, ...], condition: Any, bounds: list[tuple[int, int]]
) -> None:
    mixed = (*bounds, (condition.lower, condition.upper))
    asked = request(
        filters=filters,
        ranges=tuple(
            RangeRequest(path, bounds=mixed, leaves_out_own=own)
            for path in PATHS
            for own in (False, True)
        ),
    )
    found = searcher.search(world.snapshot, asked)
    for one, counts in zip(asked.ranges, found.ranges, strict=True):
        items = surviving(world, asked, one.field if one.leaves_out_own else None)
        assert counts.listed_keys == list(range(len(mixed)))
        for (lower, upper), count in zip(one.bounds, counts.listed_counts, strict=True):
            within = type(condition)(one.field, lower, False, upper, True)
            assert count == sum(passes(item, within) for item in items)


@given(worlds(), st.sampled_from([1.0, 2.5, 1000.0]))
def test_histograms_count_items_once_per_bucket(world: World, interval: float) -> None:
    asked = request(ranges=tuple(RangeRequest(path, interval=interval) for path in PATHS))
    found = searcher.search(world.snapshot, asked)
    for path, counts in zip(PATHS, found.ranges, strict=True):
        expected = Counter(
            bucket
            for _, _, item in world.live
            for bucket in {int(np.floor(below(n) / interval)) for n in numbers_of(item, path)}
        )
        assert dict(zip(counts.listed_keys, counts.listed_counts, strict=True)) == dict(expected)
        assert list(counts.listed_keys) == sorted(expected)


def below(number: float) -> float:
    """Return the greatest double that is not above a number: edges of fractions are doubles."""
    nearest = float(number)
    return math.nextafter(nearest, -math.inf) if nearest > number else nearest


@pytest.mark.parametrize("values", [(1990, 7), (1e300, 2.5), ([1990, 2], [7])])
@pytest.mark.parametrize("interval", [5e-324, 1e-320])
def test_interval_that_is_too_small_is_refused(values: tuple[Any, ...], interval: float) -> None:
    world = World([{"year": value} for value in values])
    asked = request(ranges=(RangeRequest("year", interval=interval),))

    with pytest.raises(InvalidRequest, match="too small"):
        searcher.search(world.snapshot, asked)


@pytest.mark.parametrize(
    ("calendar", "expected"),
    [
        ("year", {"2020": 2, "2021": 1, "0044": 1}),
        ("month", {"2020-01": 2, "2020-02": 1, "0044-03": 1}),
        ("day", {"2020-01-31": 2, "2020-02-01": 1, "0044-03-15": 1}),
    ],
)
@pytest.mark.parametrize("facets", [(), ("date",)])
def test_calendars_count_iso_dates(
    calendar: str, expected: dict[str, int], facets: tuple[str, ...]
) -> None:
    dates: list[Any] = [
        "2020-01-31",
        ["2020-01-31T10:00:00Z", "2020-02-01", "2020-02"],
        "2020-02-3",
        "2021-13-01",
        "0044-03-15",
        "20201-01-01",
        2020,
        None,
    ]
    world = World([{"date": date} for date in dates], cuts=[3], facets=facets)
    asked = request(ranges=(RangeRequest("date", calendar=calendar),))
    (counts,) = searcher.search(world.snapshot, asked).ranges
    assert dict(zip(counts.listed_keys, counts.listed_counts, strict=True)) == expected


def test_every_way_of_counting_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    world = large_world()
    facets = ("brand", "tags", "few", "unique")
    for wanted in (("b7",), tuple(f"b{n}" for n in range(100)), tuple(f"b{n}" for n in range(280))):
        asked = request(
            filters=(FilterClause(AnyOf("brand", wanted)),),
            facets=tuple(FacetRequest(field, False, 0) for field in facets),
        )
        items = [item for _, _, item in world.live if item["brand"] in wanted]
        expected = [Counter(key for item in items for key in keys_of(item, f)) for f in facets]
        for knobs in (
            {},
            {"_CODE_NS": 0.0, "_CODES_NS": 0.0},  # always by codes
            {"_SET_UNIT_NS": 0.0, "_SET_DOC_NS": 0.0},  # always by stored sets
            {"_WALKED_PER_NOTED": 0},  # always noting what is counted
            {"_WALKED_PER_NOTED": 10**9},
        ):
            with monkeypatch.context() as patch:
                for name, value in knobs.items():
                    patch.setattr(facet_counts, name, value)
                found = searcher.search(world.snapshot, asked)
            assert [counts for counts, _ in decode(world, found)] == list(map(dict, expected))


def test_facets_counted_together_have_the_counts_of_each_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Large segments have rows of several facets, made after the first search that wants them."""
    monkeypatch.setattr(facet_counts, "ROWS_DOCS_MIN", 1)
    monkeypatch.setattr(facet_counts, "_ROWS_MATCHES_MIN", 0)
    monkeypatch.setattr(facet_counts, "_ROWS_SHARE", 1)
    world = large_world()
    facets = ("brand", "tags", "few", "unique")
    asked = request(
        filters=(
            FilterClause(AnyOf("brand", ("b7", "b8")), "brand"),
            FilterClause(AnyOf("tags", tuple(f"t{n}" for n in range(9))), None),
        ),
        facets=tuple(FacetRequest(field, field == "brand", 0) for field in facets),
    )
    alone = [
        decode(world, searcher.search(world.snapshot, structs.replace(asked, facets=(one,))))[0]
        for one in asked.facets
    ]
    expected = [
        dict(Counter(key for item in surviving(world, asked, left) for key in keys_of(item, field)))
        for field, left in zip(facets, ("brand", None, None, None), strict=True)
    ]
    assert [counts for counts, _ in alone] == expected
    counted = facet_rows.FacetRows.count
    calls: list[int] = []

    def count(rows: Any, docs: Any, columns: Any) -> Any:
        calls.append(len(docs))
        return counted(rows, docs, columns)

    monkeypatch.setattr(facet_rows.FacetRows, "count", count)
    for num_calls in (0, 2):  # brand counts within other matches than the rest
        calls.clear()
        found = searcher.search(world.snapshot, asked)
        assert [counts for counts, _ in decode(world, found)] == expected
        assert len(calls) == num_calls, "once in each segment that has hits"
        BACKGROUND_TASKS.run_all()


def test_a_field_that_is_not_a_facet_counts_nothing() -> None:
    world = World([{"name": "a"}])
    found = searcher.search(world.snapshot, request(facets=(FacetRequest("name", False, 5),)))
    (facet,) = found.facets
    assert (facet.field, facet.num_values) == ("name", 0)
    assert unpack(found.facet_counts, 1) == [{}]
