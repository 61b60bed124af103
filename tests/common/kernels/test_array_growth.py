"""Copies of full arrays, made longer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.kernels.array_growth import grown, grown_rows


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64, np.int64])
@given(values=st.lists(st.integers(0, 255), max_size=40), num_more=st.integers(0, 40))
def test_a_grown_copy_begins_with_all_values(
    kind: type[np.uint8], values: list[int], num_more: int
) -> None:
    array = np.array(values, kind)
    copied = grown(array, len(values) + num_more)
    assert (copied.dtype, len(copied)) == (np.dtype(kind), len(values) + num_more)
    assert copied[: len(values)].tolist() == values
    copied[:] = 7
    assert array.tolist() == values


@given(
    rows=st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3), max_size=9),
    num_more=st.integers(0, 9),
)
def test_a_grown_copy_of_rows_begins_with_all_rows(rows: list[list[int]], num_more: int) -> None:
    array = np.array(rows, np.int64).reshape(len(rows), 3)
    copied = grown_rows(array, len(rows) + num_more)
    assert copied.shape == (len(rows) + num_more, 3)
    assert copied[: len(rows)].tolist() == rows
    copied[:] = 7
    assert array.tolist() == rows
