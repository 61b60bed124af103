"""Sums of the numbers of bitsets, by document, against adding them up one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shard.query.pruning.bit_sliced_bounds import SUM_MAX, add_up, at_least


@given(
    st.lists(st.integers(0, SUM_MAX // 6), min_size=1, max_size=6),
    st.sampled_from([1, 64, 130, 256 * 64, 257 * 64 + 1]),
    st.integers(0, 2**32 - 1),
)
def test_sums_are_those_of_numbers(numbers: list[int], num_docs: int, seed: int) -> None:
    has = np.random.default_rng(seed).random((len(numbers), -(-num_docs // 64) * 64)) < 0.4
    has[:, num_docs:] = False
    marked = np.packbits(has, axis=1, bitorder="little").view(np.uint64)
    sums = np.array(numbers) @ has
    planes = add_up(marked, np.array(numbers))
    for least in {0, 1, SUM_MAX, *numbers, int(sums.max()), int(sums.max()) + 1}:
        found = at_least(planes, min(least, SUM_MAX))
        bits = np.unpackbits(found.view(np.uint8), bitorder="little").astype(bool)
        assert (bits == (sums >= min(least, SUM_MAX))).all()
