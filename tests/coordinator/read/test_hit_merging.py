"""Merging hits of several shards equals sorting all of them at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from common.protocol.messages import Distinct, DistinctCounts, SearchResponse, SortKey
from common.value_kinds_and_facet_keys import NO_TOKEN
from coordinator.read import hit_merging
from coordinator.read.hit_merging import (
    COLLATED_FAST_CHARS,
    is_slow_to_order,
    lacks_hits,
    merge_hits,
    num_asked,
    num_distinct,
    num_inline,
)

Row = tuple[float | None, int, tuple[Any, ...]]
"""A hit: score, place and sort values."""


def answer(rows: list[Row], num_keys: int, packed: frozenset[int] = frozenset()) -> SearchResponse:
    """Return a response with these hits; `packed`: the sort keys whose values are sent as bytes."""
    has_scores = any(score is not None for score, _, _ in rows)
    columns: list[Any] = [tuple(values[i] for _, _, values in rows) for i in range(num_keys)]
    for i in packed:
        columns[i] = np.array(columns[i], np.float64).tobytes()
    return SearchResponse(
        total=len(rows),
        places=np.array([place for _, place, _ in rows], np.uint64).tobytes(),
        scores=np.array([score for score, _, _ in rows], np.float64).tobytes()
        if has_scores
        else b"",
        records=np.array([place for _, place, _ in rows], np.uint64).tobytes(),
        sort_values=tuple(columns),
        documents=(),
        facets=(),
        ranges=(),
        explanations=(),
        timings_us=(0, 0, 0),
    )


@given(
    scores=st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.25]), max_size=700),
    num_shards=st.integers(1, 4),
    offset=st.integers(0, 720),
    limit=st.integers(0, 40),
)
def test_scores_then_places(scores: list[float], num_shards: int, offset: int, limit: int) -> None:
    rows: list[Row] = [(score, place, ()) for place, score in enumerate(scores)]
    best_first = sorted(rows, key=lambda row: (-(row[0] or 0), row[1]))
    shards = [best_first[i::num_shards] for i in range(num_shards)]
    hits = merge_hits(
        [(i, answer(part, 0)) for i, part in enumerate(shards)], (), False, offset, limit
    )
    assert [(hit.score, hit.place) for hit in hits] == [
        row[:2] for row in best_first[offset : offset + limit]
    ]


VALUES = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.sampled_from([0.5, 2.0]),
    st.booleans(),
    st.text("ab", max_size=2),
)


def total_order(value: Any, is_descending: bool, is_missing_first: bool) -> tuple[int, Any]:
    if value is None:
        return (0 if is_missing_first else 2, ())
    rank = 2 if isinstance(value, bool) else 1 if isinstance(value, str) else 0
    if isinstance(value, str):
        number: Any = tuple(map(ord, value))
        number = (*(-n for n in number), 1) if is_descending else (*number, -1)
    else:
        number = (-value if is_descending else value,)
    return (1, (-rank if is_descending else rank, number))


@given(
    st.lists(st.tuples(VALUES, VALUES), max_size=40),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(1, 3),
)
def test_mixed_sort_keys(
    values: list[tuple[Any, Any]],
    is_descending: bool,
    is_missing_first: bool,
    is_second_descending: bool,
    num_shards: int,
) -> None:
    sort = (
        SortKey("a", is_descending, is_missing_first),
        SortKey("b", is_second_descending),
    )
    rows: list[Row] = [(None, place, pair) for place, pair in enumerate(values)]
    best_first = sorted(
        rows,
        key=lambda row: (
            total_order(row[2][0], is_descending, is_missing_first),
            total_order(row[2][1], is_second_descending, False),
            row[1],
        ),
    )
    shards = [best_first[i::num_shards] for i in range(num_shards)]
    hits = merge_hits([(i, answer(part, 2)) for i, part in enumerate(shards)], sort, False, 0, 99)
    assert [hit.place for hit in hits] == [row[1] for row in best_first]


def test_newest_first() -> None:
    rows: list[Row] = [(None, p, ()) for p in (9, 5, 1)]
    others: list[Row] = [(None, p, ()) for p in (7, 3)]
    hits = merge_hits([(0, answer(rows, 0)), (1, answer(others, 0))], (), True, 1, 3)
    assert [hit.place for hit in hits] == [7, 5, 3]


def test_distinct_keeps_the_best_of_each_value_over_all_shards() -> None:
    def with_values(rows: list[Row], tokens: list[int]) -> SearchResponse:
        counts = DistinctCounts(len(rows), 1, np.array(tokens, np.uint64).tobytes())
        return structs.replace(answer(rows, 0), distinct=counts)

    one = with_values([(9.0, 1, ()), (7.0, 2, ()), (3.0, 3, ())], [5, 1, NO_TOKEN])
    two = with_values([(8.0, 4, ()), (6.0, 5, ()), (5.0, 6, ())], [5, 2, NO_TOKEN])
    best = Distinct("brand", 1)
    hits = merge_hits([(0, one), (1, two)], (), False, 0, 9, best)
    assert [hit.place for hit in hits] == [1, 2, 5, 6, 3]
    assert [h.place for h in merge_hits([(0, one), (1, two)], (), False, 1, 2, best)] == [2, 5]


def test_distinct_hits_of_all_shards_are_counted_by_value() -> None:
    def counts(num_missing: int, by_value: dict[int, int]) -> DistinctCounts:
        return DistinctCounts(
            num_missing + sum(by_value.values()),
            num_missing,
            b"",
            np.array(sorted(by_value), np.uint64).tobytes(),
            bytes(by_value[value] for value in sorted(by_value)),
        )

    parts = [counts(2, {1: 1, 2**63: 2}), counts(0, {}), counts(1, {1: 2, 5: 1})]
    assert num_distinct(parts, 1) == 3 + 3
    assert num_distinct(parts, 2) == 3 + 2 + 2 + 1
    assert num_distinct(parts, 100) == 3 + 6
    assert num_distinct(parts[:1], 2) == 5


@pytest.mark.parametrize("packed", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("one_packs_nothing", [False, True])
def test_deep_pages_of_numbers_are_ordered_like_shallow_ones(
    packed: tuple[int, ...], one_packs_nothing: bool
) -> None:
    rows: list[Row] = [(None, place, (place * 7919 % 1013 / 4, place % 3)) for place in range(3000)]
    sort = (SortKey("a", True), SortKey("b"))
    best_first = sorted(rows, key=lambda row: (-row[2][0], row[2][1], row[1]))
    shards = [(i, answer(best_first[i::3], 2, frozenset(packed))) for i in range(3)]
    if one_packs_nothing:
        shards[1] = (1, answer(best_first[1::3], 2))
    shards.append((3, structs.replace(answer([], 2), sort_values=())))
    for offset in (0, 1, 2500, 2990, 3000):
        hits = merge_hits(shards, sort, False, offset, 20)
        expected = best_first[offset : offset + 20]
        assert [(hit.place, hit.sort_values) for hit in hits] == [row[1:] for row in expected]


@given(
    values=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=40),
    packs=st.lists(st.booleans(), min_size=1, max_size=3),
    by_score=st.booleans(),
    offset=st.integers(0, 45),
    limit=st.integers(0, 9),
)
def test_arrays_order_as_lists_do(
    values: list[tuple[int, int]], packs: list[bool], by_score: bool, offset: int, limit: int
) -> None:
    """Ties over the ends of a page, and shards that send arrays beside others that do not."""
    sort = (SortKey("a", True), SortKey("b")) if not by_score else (SortKey("a", True),)
    rows: list[Row] = [
        (b / 2 if by_score else None, place, (float(a), float(b))[: len(sort)])
        for place, (a, b) in enumerate(values)
    ]
    rows.sort(key=lambda row: (-row[2][0], -(row[0] or 0), row[2][1:], row[1]))
    shards = [
        (
            i,
            answer(
                rows[i :: len(packs)], len(sort), frozenset(range(len(sort)) if is_packed else ())
            ),
        )
        for i, is_packed in enumerate(packs)
    ]
    for arrays_min in (1, 1_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hit_merging, "_ARRAYS_MIN", arrays_min)
            hits = merge_hits(shards, sort, False, offset, limit)
        assert [hit.place for hit in hits] == [row[1] for row in rows[offset : offset + limit]]


@given(
    values=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=60),
    by_field=st.booleans(),
    is_newest_first=st.booleans(),
    num_sent=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    offset=st.integers(0, 40),
    limit=st.integers(1, 10),
)
def test_page_of_a_part_of_the_hits_is_right_or_known_to_lack_some(
    values: list[tuple[int, int]],
    by_field: bool,
    is_newest_first: bool,
    num_sent: list[int],
    offset: int,
    limit: int,
) -> None:
    """However hits are spread over shards, and however few each shard has sent."""
    sort = (SortKey("n", is_descending=True),) if by_field else ()
    num_shards = len(num_sent)
    rows: list[list[Row]] = [[] for _ in num_sent]
    for place, (number, shard) in enumerate(values):
        rows[shard % num_shards].append((None, place, (number,) if by_field else ()))
    sign = -1 if is_newest_first and not by_field else 1
    for part in rows:
        part.sort(key=lambda row: (-row[2][0] if by_field else 0, sign * row[1]))
    whole = [(i, answer(part, len(sort))) for i, part in enumerate(rows)]
    sent = [
        (i, structs.replace(answer(part[:count], len(sort)), total=len(part)))
        for i, (part, count) in enumerate(zip(rows, num_sent, strict=True))
    ]
    right = merge_hits(whole, sort, is_newest_first, offset, limit)
    page = merge_hits(sent, sort, is_newest_first, offset, limit)
    assert not lacks_hits(whole, right, sort, is_newest_first, limit)
    if lacks_hits(sent, page, sort, is_newest_first, limit):
        assert any(len(part) > count for part, count in zip(rows, num_sent, strict=True))
    else:
        assert [hit.place for hit in page] == [hit.place for hit in right]


def test_shards_are_asked_for_their_share_of_a_deep_page() -> None:
    assert num_asked(10, 1) == 10
    assert num_asked(10, 2) == 10
    assert num_asked(10_000, 1) == 10_000
    assert 5_000 < num_asked(10_000, 2) < 5_500
    assert num_asked(0, 3) == 0


def test_shards_send_their_share_of_the_documents_and_some_more() -> None:
    assert num_inline(0, 2) == 0
    assert num_inline(1, 5) == 1
    assert num_inline(10, 1) == 10
    assert num_inline(10, 2) == 9
    assert num_inline(40, 2) == 28
    assert num_inline(10, 8) == 4


def test_only_long_texts_in_the_order_of_a_language_are_slow_to_order() -> None:
    long = "a" * (COLLATED_FAST_CHARS // 2)
    answers = [(0, answer([(None, 1, (long, 1)), (None, 2, (None, 2))], 2))]
    twice = [*answers, (1, answer([(None, 3, (long + "b", 3))], 2))]
    nothing = (2, structs.replace(answer([], 2), sort_values=()))
    by_language = SortKey("name", collation="sv")
    for sort, expected in (
        ((SortKey("name"), SortKey("year")), False),
        ((by_language, SortKey("year")), True),
        ((SortKey("name"), structs.replace(by_language, field="year")), False),
    ):
        assert not is_slow_to_order([*answers, nothing], sort)
        assert is_slow_to_order([*twice, nothing], sort) == expected
