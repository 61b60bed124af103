"""Percentiles from counts by value are those of the sorted list of all values."""

from __future__ import annotations

from math import ceil

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from common.key_arena import KeyArena
from coordinator.read.facets.facet_statistics import percentiles
from coordinator.read.facets.global_ordinals import FacetValues
from coordinator.read.facets.summed_counts import MergedCounts

NUMBERS = st.builds(
    lambda edge, distance: edge + distance,
    st.sampled_from((0, 2**53, -(2**53), 2**63, 2**64 - 4)),
    st.integers(-3, 3),
)
"""Doubles do not tell the neighbours of these apart (but of 0)."""


@given(
    st.dictionaries(NUMBERS, st.integers(0, 4), max_size=8),
    st.lists(st.integers(0, 100), min_size=1, max_size=4),
)
def test_percentiles_of_counts(counted: dict[int, int], wanted: list[int]) -> None:
    values = FacetValues(1)
    values.extend(0, 1, 0, KeyArena.of(("text", *map(str, counted))))
    counts = np.array([7, *counted.values()], np.int64)
    merged = MergedCounts(counts, np.zeros(0, np.uint32), len(counts), lambda: None)
    listed = sorted(number for number, count in counted.items() for _ in range(count))
    expected = {
        str(one): listed[max(1, ceil(one * len(listed) / 100)) - 1] if listed else None
        for one in wanted
    }
    assert percentiles(values, merged, wanted) == expected
