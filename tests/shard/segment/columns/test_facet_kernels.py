"""Kernels count and pick the same codes as a plain loop."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shard.segment.columns.code_counting import NO_STARTS, count_codes, count_codes_noting
from shard.segment.columns.facet_columns import FacetColumn, code_table

LENGTHS = st.lists(st.sampled_from([0, 0, 1, 2, 3, 8, 9, 16, 17, 33, 700, 5_000]), max_size=40)
TYPES = st.sampled_from([np.uint8, np.uint16, np.uint32])


def _column(
    lengths: list[int], dtype: type[np.unsignedinteger], seed: int
) -> tuple[NDArray[np.unsignedinteger], NDArray[np.uint32], list[list[int]]]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(1, 250, sum(lengths)).astype(dtype)
    starts = np.zeros(len(lengths) + 1, np.uint32)
    np.cumsum(lengths, out=starts[1:])
    rows = [codes[begin:end].tolist() for begin, end in itertools.pairwise(starts)]
    return codes, starts, rows


@given(LENGTHS, TYPES, st.integers(0, 9), st.data())
def test_codes_of_some_documents_are_counted(
    lengths: list[int], dtype: type[np.unsignedinteger], seed: int, data: st.DataObject
) -> None:
    codes, starts, rows = _column(lengths, dtype, seed)
    chosen = sorted(data.draw(st.sets(st.sampled_from(range(len(rows)))))) if rows else []
    docs = np.array(chosen, np.uint32)
    expected = Counter(code for doc in chosen for code in rows[doc])

    counts = np.zeros(256, np.uint32)
    count_codes(docs, codes, starts, counts)
    assert {code: int(counts[code]) for code in np.flatnonzero(counts).tolist()} == expected

    noted = np.zeros(256, np.uint32)
    touched = np.full(257, 999, np.uint32)
    num_touched = count_codes_noting(docs, codes, starts, noted, touched, 0)
    assert noted.tolist() == counts.tolist()
    assert sorted(touched[:num_touched].tolist()) == sorted(expected)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=60), TYPES, st.data())
def test_single_codes_are_counted_and_picked(
    values: list[int], dtype: type[np.unsignedinteger], data: st.DataObject
) -> None:
    codes = np.array(values, dtype)
    chosen = sorted(data.draw(st.sets(st.sampled_from(range(len(values))))))
    docs = np.array(chosen, np.uint32)
    counts = np.zeros(201, np.uint32)
    touched = np.zeros(202, np.uint32)
    num_touched = count_codes_noting(docs, codes, NO_STARTS, counts, touched, 0)
    expected = Counter(values[doc] for doc in chosen)
    assert {code: int(counts[code]) for code in touched[:num_touched].tolist()} == expected
    again = np.zeros(201, np.uint32)
    count_codes(docs, codes, NO_STARTS, again)
    assert again.tolist() == counts.tolist()

    wanted = data.draw(st.lists(st.integers(0, 199), max_size=5))
    column = FacetColumn({"codes": codes}, len(codes))
    picked = column.pick_with(code_table(wanted, 200), docs)
    assert picked.tolist() == [doc for doc in chosen if values[doc] - 1 in wanted]


def test_picking_is_for_columns_of_one_code_a_document() -> None:
    column = FacetColumn(
        {"codes": np.array([1, 2], np.uint8), "starts": np.array([0, 2], np.uint32)}, 1
    )
    with pytest.raises(AssertionError, match="several codes"):
        column.pick_with(code_table([1], 2), np.zeros(1, np.uint32))
