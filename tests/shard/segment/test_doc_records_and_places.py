"""Records and places come back as they were, in 32 bits where they fit, in any merge."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shard.segment import doc_records_and_places
from shard.segment.doc_records_and_places import (
    TABLE_DOCS_MIN,
    build_doc_records,
    doc_records,
    docs_of_records,
    merge_doc_records,
    numbers_of,
    place_bounds,
    places_of,
    record_bounds,
    records_of,
    records_of_few,
)
from shard.segment.merge_allocator import MergeAllocator
from shard.segment.merge_state import MergeState
from shard.segment.segment import Segment


@pytest.fixture(autouse=True, scope="module")
def with_tables_of_any_size() -> Iterator[None]:
    """Let small segments have tables too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doc_records_and_places, "TABLE_DOCS_MIN", 0)
        yield


SEQS = st.sampled_from([0, 1, 2, 3, 9, (1 << 32) - 1])
POSITIONS = st.sampled_from([0, 1, 2, 5, 70_000, (1 << 31), (1 << 32) - 1])
PLACES = st.builds(lambda seq, position: seq << 32 | position, SEQS, POSITIONS)
STEPS = st.sampled_from([1, 1, 1, 2, 300, 1 << 31, 1 << 40])


@st.composite
def numbers(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Places of documents, in any order, and records, ascending."""
    # A few places, drawn often, as of a load; or any.
    place = draw(st.sampled_from([PLACES, st.integers(7 << 32, (7 << 32) + 9)]))
    places = draw(st.lists(place, max_size=40))
    steps = draw(st.lists(STEPS, min_size=len(places), max_size=len(places)))
    return places, list(itertools.accumulate(steps))


def as_u64(values: list[int]) -> NDArray[np.uint64]:
    return np.array(values, np.uint64)


def segment_of(places: list[int], records: list[int]) -> Segment:
    arrays, facts = build_doc_records(as_u64(places), as_u64(records))
    return Segment(arrays, num_docs=len(places), meta=facts)


def assert_equal(one: Any, other: Any) -> None:
    assert one.facts == other.facts
    assert list(one.arrays) == list(other.arrays)
    for name, array in one.arrays.items():
        assert array.dtype == other.arrays[name].dtype
        np.testing.assert_array_equal(array, other.arrays[name])


@given(numbers())
def test_numbers_come_back_as_they_were(drawn: tuple[list[int], list[int]]) -> None:
    places, records = drawn
    segment = segment_of(places, records)
    assert records_of(segment).tolist() == records
    assert places_of(segment).tolist() == places
    assert segment.meta["places_ascending"] == all(a < b for a, b in itertools.pairwise(places))
    backwards = np.arange(len(places), dtype=np.uint32)[::-1]
    found = numbers_of(segment, backwards)
    assert [one.tolist() for one in found] == [places[::-1], records[::-1]]
    assert records_of_few(segment, backwards) == records[::-1]
    assert records_of_few(segment, backwards) == records[::-1]
    if places:
        assert record_bounds(segment) == (records[0], records[-1])
        assert place_bounds(segment) == (places[0], places[-1])


@given(drawn=numbers(), cut=st.integers(0, 40), drop=st.sampled_from([0, 1, 2, 3]))
def test_a_merge_equals_a_build(drawn: tuple[list[int], list[int]], cut: int, drop: int) -> None:
    places, records = drawn
    parts = [segment_of(places[:cut], records[:cut]), segment_of(places[cut:], records[cut:])]
    gone = [np.arange(0, one.num_docs, drop, dtype=np.uint32) if drop else None for one in parts]
    state = MergeState.without(parts, gone, MergeAllocator(piece_rows=7))
    kept = np.concatenate([one >= 0 for one in state.doc_maps])
    expected = build_doc_records(as_u64(places)[kept], as_u64(records)[kept])
    assert_equal(merge_doc_records(state), expected)


@given(drawn=numbers(), wanted=st.sets(st.integers(0, 50)))
def test_documents_are_found_by_their_records(
    drawn: tuple[list[int], list[int]], wanted: set[int]
) -> None:
    places, records = drawn
    asked = sorted({0, *wanted, *records[::2]})
    expected = [doc for doc, record in enumerate(records) if record in asked]
    assert docs_of_records(segment_of(places, records), as_u64(asked)).tolist() == expected


@pytest.mark.parametrize(
    ("places", "records", "widths"),
    [
        # A load: two groups.
        ([5 << 32, 5 << 32 | 2, 6 << 32 | 1, 6 << 32 | 3], [7, 8, 9, 10], (4, 4)),
        # Items written one by one: a table would take more than it saves.
        ([5 << 32, 6 << 32, 7 << 32, 8 << 32], [7, 8, 9, 10], (4, 8)),
        # Years between two records.
        ([5 << 32, 5 << 32 | 2], [7, 7 + (1 << 32)], (8, 4)),
        ([5 << 32, 5 << 32 | 2], [7, 6 + (1 << 32)], (4, 4)),
        # More places than 32 bits have.
        ([5 << 32 | (1 << 31), 6 << 32 | (1 << 31)] * 2, [1, 2, 3, 4], (4, 8)),
        ([5 << 32 | (1 << 31), 6 << 32 | (1 << 31) - 2] * 2, [1, 2, 3, 4], (4, 4)),
    ],
)
def test_numbers_take_32_bits_where_they_fit(
    places: list[int], records: list[int], widths: tuple[int, int]
) -> None:
    segment = segment_of(places, records)
    assert (segment["docs.record"].itemsize, segment["docs.place"].itemsize) == widths
    assert ("docs.seqs" in segment) == (widths[1] == 4)
    assert (places_of(segment).tolist(), records_of(segment).tolist()) == (places, records)


def test_small_segments_have_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doc_records_and_places, "TABLE_DOCS_MIN", TABLE_DOCS_MIN)
    for num_docs, width in ((TABLE_DOCS_MIN - 1, 8), (TABLE_DOCS_MIN, 4)):
        places = [5 << 32 | i for i in range(num_docs)]
        segment = segment_of(places, list(range(num_docs)))
        assert segment["docs.place"].itemsize == width
        assert segment["docs.record"].itemsize == 4
        assert places_of(segment).tolist() == places


def test_segments_of_version_8_are_read_and_merged_with_new_ones() -> None:
    places, records = [5 << 32 | i for i in range(6)], list(range(100, 106))
    old = Segment(
        {"docs.record": as_u64(records[:3]), "docs.place": as_u64(places[:3])},
        num_docs=3,
        meta={"places_ascending": True},
    )
    assert (records_of(old).tolist(), places_of(old).tolist()) == (records[:3], places[:3])
    assert record_bounds(old) == (100, 102)
    assert docs_of_records(old, as_u64([99, 101])).tolist() == [1]
    assert len(doc_records(old).wide_records) == 3
    parts = [old, segment_of(places[3:], records[3:])]
    merged = merge_doc_records(MergeState.without(parts, [None, None]))
    assert_equal(merged, build_doc_records(as_u64(places), as_u64(records)))
