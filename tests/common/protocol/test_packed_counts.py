"""Packing keeps the counts, chooses the shortest form, and leaves the counts zeroed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.protocol.packed_counts import pack_counts, pack_touched, units_max
from tests.common.protocol.packed_model import pack, unpack

COUNTS = st.dictionaries(
    st.integers(0, 40), st.integers(1, 100) | st.integers(65_530, 65_540), max_size=41
)


def _array(counts: dict[int, int], num_values: int) -> np.ndarray:
    array = np.zeros(num_values + 1, np.uint32)
    array[0] = 7  # documents without a value are not sent
    for number, count in counts.items():
        array[number + 1] = count
    return array


@given(st.lists(COUNTS, min_size=1, max_size=3), st.integers(41, 200))
def test_facets_are_packed_one_after_the_other(
    facets: list[dict[int, int]], num_values: int
) -> None:
    packed = np.full(len(facets) * units_max(num_values), 9, np.uint16)
    at = 0
    for i, counts in enumerate(facets):
        array = _array(counts, num_values)
        if i % 2:
            touched = np.flatnonzero(array).astype(np.uint32)
            at, num_present = pack_touched(array, touched, len(touched), num_values, packed, at)
        else:
            at, num_present = pack_counts(array, num_values, packed, at)
        assert num_present == len(counts)
        assert not array.any()
    assert unpack(packed[:at].tobytes(), len(facets)) == facets


@pytest.mark.parametrize(
    ("num_present", "greatest", "num_values", "form"),
    [
        (5, 65_535, 10, 0),
        (5, 65_536, 10, 1),
        (4, 65_535, 10, 2),
        (4, 65_536, 10, 3),
        (4, 1, 65_536, 2),
        (4, 1, 65_537, 3),
        (0, 0, 10, 2),
        (0, 0, 0, 0),
    ],
)
def test_the_shortest_form_is_taken(
    num_present: int, greatest: int, num_values: int, form: int
) -> None:
    counts = {num_values - 1 - i: greatest for i in range(num_present)}
    packed = np.empty(units_max(num_values), np.uint16)
    end, _ = pack_counts(_array(counts, num_values), num_values, packed, 0)
    assert packed[0] == form
    assert unpack(packed[:end].tobytes(), 1) == [counts]
    if form >= 2:
        array = _array(counts, num_values)
        touched = np.flatnonzero(array).astype(np.uint32)
        noted = np.empty(units_max(num_values), np.uint16)
        assert pack_touched(array, touched, len(touched), num_values, noted, 0)[0] == end
        assert noted[:end].tolist() == packed[:end].tolist()


@given(COUNTS, st.sampled_from([1, 3]))
def test_the_model_reads_what_it_writes(counts: dict[int, int], form: int) -> None:
    assert unpack(pack(counts, 41, form), 1) == [counts]
