"""Distinct values of arrays, against Python's sets."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from common.distinct_values import counted_runs, distinct_values, starts_run


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint32, np.int64, np.uint64])
@given(st.lists(st.integers(0, 100)))
def test_each_value_is_there_once_in_ascending_order(kind: type, values: list[int]) -> None:
    array: NDArray[Any] = np.array(values, kind)
    found = distinct_values(array)
    assert found.dtype == kind
    assert found.tolist() == sorted(set(values))
    assert array.tolist() == values


@given(st.lists(st.sampled_from([0.0, -1.5, 2.0, 1e300, float("inf")])))
def test_so_is_each_double(values: list[float]) -> None:
    assert distinct_values(np.array(values, np.float64)).tolist() == sorted(set(values))


@given(st.lists(st.integers(0, 3)))
def test_a_run_starts_where_a_value_differs_from_the_one_before(values: list[int]) -> None:
    expected = [not i or values[i] != values[i - 1] for i in range(len(values))]
    assert starts_run(np.array(values, np.int64)).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2))))
def test_a_run_of_rows_starts_where_any_column_differs(rows: list[tuple[int, int]]) -> None:
    expected = [not i or rows[i] != rows[i - 1] for i in range(len(rows))]
    firsts, seconds = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    assert starts_run(firsts, seconds).tolist() == expected


@given(st.lists(st.integers(0, 9)))
def test_runs_are_counted(values: list[int]) -> None:
    found, counts = counted_runs(np.sort(np.array(values, np.uint32)))
    assert dict(zip(found.tolist(), counts.tolist(), strict=True)) == Counter(values)
