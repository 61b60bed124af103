"""Facets counted together by rows have the counts that a plain loop finds in their columns."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.caches.lru_cache import FACET_ROWS_CACHE
from shard.segment.columns.facet_columns import FacetColumn
from shard.segment.columns.facet_rows import FacetRows, columns_of, facet_rows
from shard.segment.segment import Segment

GREATEST = st.sampled_from([1, 5, 200, 7_000, 30_000, 70_000])


def _column(rows: list[list[int]], *, is_single: bool) -> FacetColumn:
    """Return the column of documents that have these codes."""
    greatest = max((code for row in rows for code in row), default=0)
    dtype = np.uint8 if greatest < 256 else np.uint16 if greatest < 65_536 else np.uint32
    if is_single:
        codes = np.array([row[0] if row else 0 for row in rows], dtype)
        return FacetColumn({"codes": codes}, len(rows))
    flat = np.array([code for row in rows for code in row], dtype)
    starts = np.zeros(len(rows) + 1, np.uint32)
    starts[1:] = np.cumsum([len(row) for row in rows])
    return FacetColumn({"codes": flat, "starts": starts}, len(rows))


def _by_code(counts: NDArray[np.uint32]) -> dict[int, int]:
    """Return the counts of values; code 0 means no value, and its count is not used."""
    return {code: int(counts[code]) for code in np.flatnonzero(counts).tolist() if code != 0}


@st.composite
def _facets(draw: st.DrawFn) -> list[tuple[bool, list[list[int]]]]:
    """Draw facets: whether single-valued, and the codes of each document."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    num_docs = draw(st.integers(1, 300))
    facets = []
    for _ in range(draw(st.integers(1, 6))):
        greatest, most = draw(GREATEST), draw(st.sampled_from([1, 1, 2, 4, 12, 300]))
        is_single = most == 1
        lengths = rng.integers(0, most + 1, num_docs)
        drawn = [sorted(set(rng.integers(1, greatest + 1, n).tolist())) for n in lengths.tolist()]
        facets.append((is_single, drawn))
    return facets


@given(_facets(), st.data())
def test_rows_count_what_columns_hold(
    facets: list[tuple[bool, list[list[int]]]], data: st.DataObject
) -> None:
    columns = {
        7 * number: _column(drawn, is_single=is_single)
        for number, (is_single, drawn) in enumerate(facets)
    }
    rows = FacetRows(columns)
    num_docs = len(facets[0][1])
    chosen = sorted(data.draw(st.sets(st.integers(0, num_docs - 1))))
    docs = np.array(chosen, np.uint32)
    if not rows.pays_off:
        return
    counts = rows.count(docs, columns)
    for number, (_, drawn) in enumerate(facets):
        found = counts[7 * number]
        expected = Counter(code for doc in chosen for code in drawn[doc])
        assert _by_code(found) == expected


@pytest.mark.parametrize("num_tags", [1, 6, 7, 255, 256, 300])
def test_documents_with_more_codes_than_slots_are_counted_by_columns(num_tags: int) -> None:
    """The slots hold nine codes here: brand, color, country and six tags."""
    tags = [list(range(1, num_tags + 1)), *[[1 + doc % 9] for doc in range(99)]]
    singles = [[[1 + (doc * step) % 90] for doc in range(100)] for step in (1, 2)]
    brands = [[5_000 - doc] for doc in range(100)]
    columns = {
        number: _column(drawn, is_single=number < 3)
        for number, drawn in enumerate([brands, *singles, tags])
    }
    rows = FacetRows(columns)
    assert rows.pays_off
    assert rows.bits == 13
    counts = rows.count(np.arange(100, dtype=np.uint32), columns)
    for number, drawn in enumerate([brands, *singles, tags]):
        expected = Counter(code for row in drawn for code in row)
        assert _by_code(counts[number]) == expected


def test_rows_that_gain_too_little_are_not_kept() -> None:
    many_values = [[1 + 700 * doc] for doc in range(100)]
    assert not FacetRows({1: _column(many_values, is_single=True)}).pays_off
    long_rows = [list(range(1, 41))] * 100
    assert not FacetRows({1: _column(long_rows, is_single=False)}).pays_off
    often_long = [list(range(1, 41)) if doc % 3 == 0 else [] for doc in range(100)]
    assert not FacetRows({1: _column(often_long, is_single=False)}).pays_off


def test_a_segment_without_the_facets_gets_no_rows() -> None:
    segment = Segment({}, num_docs=100)
    assert facet_rows(segment, (3, 5)) is None
    BACKGROUND_TASKS.run_all()
    assert facet_rows(segment, (3, 5)) is None
    assert len(BACKGROUND_TASKS) == 0


def _segment(num_docs: int) -> Segment:
    arrays = {
        f"facet.{field}.codes": (1 + np.arange(num_docs) % (field + 2)).astype(np.uint8)
        for field in (3, 5)
    }
    return Segment(arrays, num_docs=num_docs)


def test_rows_are_made_in_the_background_and_go_with_their_segment() -> None:
    segment = _segment(100)
    assert facet_rows(segment, (3, 5)) is None
    BACKGROUND_TASKS.run_all()
    rows = facet_rows(segment, (3, 5))
    assert rows is not None
    counts = rows.count(np.array([0, 7], np.uint32), columns_of(segment, (3, 5)))
    assert counts[3].tolist() == [0, 1, 0, 1, 0, 0]
    assert counts[5].tolist() == [0, 2, 0, 0, 0, 0, 0, 0]
    size = FACET_ROWS_CACHE.size
    del segment, rows
    FACET_ROWS_CACHE.sweep()
    assert FACET_ROWS_CACHE.size < size


def test_rows_that_do_not_pay_off_are_not_made_again() -> None:
    segment = Segment({"facet.1.codes": np.arange(1, 70_001, dtype=np.uint32)}, num_docs=70_000)
    assert facet_rows(segment, (1,)) is None
    BACKGROUND_TASKS.run_all()
    assert facet_rows(segment, (1,)) is None
    assert len(BACKGROUND_TASKS) == 0


def test_segments_whose_rows_would_not_be_kept_get_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FACET_ROWS_CACHE, "bytes_max", 1_000)
    assert facet_rows(_segment(100), (3, 5)) is None
    assert len(BACKGROUND_TASKS) == 0
