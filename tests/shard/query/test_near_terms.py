"""Which words of a segment are candidates, against sorting all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard.query.near_terms import _most_frequent


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 12))
def test_the_first_of_the_most_frequent_are_chosen(freqs: list[int], num: int) -> None:
    order = sorted(range(len(freqs)), key=lambda i: (-freqs[i], i))

    chosen, bound = _most_frequent(np.array(freqs, np.uint32), num)

    assert sorted(chosen.tolist()) == sorted(order[:num])
    assert bound == max([freqs[i] for i in order[num:]], default=0)


@pytest.mark.parametrize("num", [1, 3, 8])
def test_equal_frequencies_are_taken_in_order(num: int) -> None:
    chosen, bound = _most_frequent(np.ones(8, np.uint32), num)

    assert (chosen.tolist(), bound) == (list(range(num)), int(num < 8))
