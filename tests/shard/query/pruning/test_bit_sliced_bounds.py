"""Sums of numbers of bitsets, by document, against adding them up one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shard.query.pruning.bit_sliced_bounds import (
    NUMBER_MAX,
    SUM_MAX,
    BoundedSets,
    add_up,
    add_up_by_group,
    at_least,
    kth_greatest_sum,
)

SIZES = st.sampled_from([1, 16, 17, 64, 130, 256 * 64, 257 * 64 + 1])


def random_sets(
    num_sets: int, num_docs: int, seed: int
) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
    """Return which documents are in which set: (sets, documents of whole words), and as bitsets."""
    has = np.random.default_rng(seed).random((num_sets, -(-num_docs // 64) * 64)) < 0.4
    has[:, num_docs:] = False
    return has, np.packbits(has, axis=1, bitorder="little").view(np.uint64)


def expect_sums(planes: NDArray[np.uint64], sums: NDArray[np.int64], seed: int) -> None:
    """Compare sums with the planes, by their order and by the documents that reach some of them."""
    is_member = np.random.default_rng(seed + 1).random(len(sums)) < 0.7
    members = np.packbits(is_member, bitorder="little").view(np.uint64)
    ordered = np.sort(sums[is_member])[::-1]
    for k in {1, 2, len(ordered) // 2 + 1, len(ordered) + 1}:
        kth = ordered[k - 1] if k <= len(ordered) else 0
        assert kth_greatest_sum(planes, members, k) == kth
    for least in {0, 1, SUM_MAX, *sums[:5].tolist(), int(sums.max()), int(sums.max()) + 1}:
        found = at_least(planes, members, min(least, SUM_MAX))
        bits = np.unpackbits(found.view(np.uint8), bitorder="little").astype(bool)
        assert (bits == (is_member & (sums >= min(least, SUM_MAX)))).all()


@given(
    st.lists(st.integers(0, NUMBER_MAX), min_size=1, max_size=16), SIZES, st.integers(0, 2**32 - 1)
)
def test_sums_are_those_of_numbers(numbers: list[int], num_docs: int, seed: int) -> None:
    has, marked = random_sets(len(numbers), num_docs, seed)
    expect_sums(add_up(marked, np.array(numbers)), np.array(numbers) @ has, seed)


@given(st.lists(st.booleans(), min_size=1, max_size=16), SIZES, st.integers(0, 2**32 - 1))
def test_numbers_can_depend_on_groups(have_codes: list[bool], num_docs: int, seed: int) -> None:
    choice = np.random.default_rng(seed)
    has, bits = random_sets(len(have_codes), num_docs, seed)
    num_words = bits.shape[1]
    ranks = np.where(have_codes, np.cumsum(have_codes) - 1, -1)
    codes = choice.integers(0, 256, (sum(have_codes), (num_docs >> 4) + 1), np.uint8)
    numbers = np.sort(choice.integers(0, NUMBER_MAX + 1, (len(have_codes), 256)).astype(np.uint8))
    own = bits[ranks < 0] if not all(have_codes) else np.zeros((1, 0), np.uint64)
    sets = BoundedSets(own, bits[ranks >= 0].reshape(-1), codes, ranks, numbers)
    sums = np.zeros(num_words * 64, np.int64)
    for i, rank in enumerate(ranks.tolist()):
        of_groups = numbers[i, codes[rank]] if rank >= 0 else numbers[i, :1]
        by_doc = np.resize(
            np.repeat(of_groups, 16 if rank >= 0 else num_words * 64), num_words * 64
        )
        sums += np.where(has[i], by_doc, 0)
    expect_sums(add_up_by_group(sets, num_words), sums, seed)
