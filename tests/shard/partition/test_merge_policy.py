"""Merging terminates, keeps segments few, and rarely copies a document again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shard.partition.merge_policy import DELETED_DOCS_MIN, SegmentSize, choose_merge


def _sizes(*counts: int) -> list[SegmentSize]:
    return [SegmentSize(count) for count in counts]


def _merge_until_done(counts: list[int], *, is_idle: bool) -> tuple[list[int], int]:
    """Merge as the policy says; return the sizes and how many documents were copied."""
    copied = 0
    for _ in range(1_000):
        chosen = choose_merge(_sizes(*counts), is_idle=is_idle)
        if chosen is None:
            return counts, copied
        merged = sum(counts[position] for position in chosen)
        copied += merged
        counts = [*counts[: chosen.start], merged, *counts[chosen.stop :]]
    raise AssertionError("merging does not end")


def test_example_of_the_module() -> None:
    assert choose_merge(_sizes(400_000, 900, 150, 130, 140), is_idle=False) == range(2, 5)
    assert choose_merge(_sizes(400_000, 900, 420), is_idle=False) is None


def test_fixed_segment_is_never_chosen() -> None:
    sizes = [*_sizes(10, 10), SegmentSize(10, is_fixed=True), *_sizes(10, 10)]

    assert choose_merge(sizes, is_idle=False) is None
    assert choose_merge(sizes, is_idle=True) == range(2)


def test_bulk_load_copies_each_document_about_once() -> None:
    counts: list[int] = []
    copied = 0
    for _ in range(31):
        counts, more = _merge_until_done([*counts, 16_000], is_idle=False)
        copied += more
    assert copied <= 1.1 * sum(counts)
    counts, more = _merge_until_done(counts, is_idle=True)
    assert len(counts) == 1


def test_single_writes_leave_few_segments() -> None:
    counts = [500_000]
    copied = 0
    for _ in range(300):
        counts, more = _merge_until_done([*counts, 128], is_idle=False)
        copied += more
        assert len(counts) <= 16
    assert copied <= 8 * 300 * 128


def test_trickle_does_not_copy_the_largest() -> None:
    counts, copied = _merge_until_done([500_000, 100, 50], is_idle=True)

    assert counts == [500_000, 150]
    assert copied == 150


def test_half_deleted_segment_is_rewritten() -> None:
    sizes = [SegmentSize(4_000), SegmentSize(4_000, num_droppable=2_000)]

    assert choose_merge(sizes, is_idle=False) == range(1, 2)


def test_few_deletions_are_left_alone() -> None:
    sizes = [SegmentSize(100_000, num_droppable=DELETED_DOCS_MIN)]

    assert choose_merge(sizes, is_idle=True) is None


@given(st.lists(st.integers(0, 1_000_000), max_size=40), st.booleans())
def test_merging_ends_and_loses_nothing(counts: list[int], is_idle: bool) -> None:
    merged, _ = _merge_until_done(counts, is_idle=is_idle)

    assert sum(merged) == sum(counts)
    if is_idle:
        assert len(merged) <= 3
