"""Chooses the segments to merge: a pure function of their sizes.

Segments are ordered by their records, and only neighbours are merged, so the order stays.

A search pays for each segment, a merge pays for each document; so small segments are merged soon
and large ones seldom. Sizes fall into tiers, each `TIER_FACTOR` times the one below; when a run of
neighbours that are no larger than a tier holds enough segments of that tier, the run is merged:

    run of tier    small (below 8,192 documents)   large
    writing        3                               10
    idle           everything is merged into one, unless it is much smaller than the largest

So a bulk load of 500,000 documents in batches of 16,000 copies each document once; a single write
is copied some six times on its way up, at 3 µs a copy. Once writes stop, the rest is merged: a
search is fastest over one segment. The largest is left alone while the others together have less
than a tenth of its documents, so that a trickle of writes does not copy the whole index repeatedly.

Worked example, newest right, while writing: 400,000 | 900 | 150 | 130 | 140: the last three are of
one tier, so they become 420; then 900 | 420 is a run of two: nothing to do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

TIER_DOCS_MIN = 128
TIER_FACTOR = 4
LARGE_DOCS = 8_192
RUN_SMALL = 3
RUN_LARGE = 10
IDLE_SHARE = 10
"""Idle: the largest is merged when the others have at least 1/IDLE_SHARE of its documents."""
DELETED_SHARE = 3
"""A segment is rewritten when more than 1/DELETED_SHARE of it can be dropped."""
DELETED_DOCS_MIN = 1_000
SEGMENT_DOCS_MAX = 1 << 31
"""Document ordinals are uint32, and kernels count in int64: far beyond both memory and need."""


@dataclass(frozen=True, slots=True)
class SegmentSize:
    """A segment, as the policy sees it.

    Attributes:
        num_docs: documents, those included that could be dropped.
        num_droppable: documents that a merge would drop.
        is_fixed: must not be merged now (the writer is about to replace it).
    """

    num_docs: int
    num_droppable: int = 0
    is_fixed: bool = False

    @property
    def num_kept(self) -> int:
        """Documents that a merge would copy."""
        return self.num_docs - self.num_droppable


def choose_merge(sizes: Sequence[SegmentSize], *, is_idle: bool) -> range | None:
    """Return the ordinals of neighbours to merge into one, or None if nothing should be merged.

    Args:
        sizes: segments in order of their records.
        is_idle: whether nothing was written for a while.
    """
    for run in _runs(sizes):
        chosen = _choose_in_run(sizes, run, is_idle=is_idle)
        if chosen is not None:
            return chosen
    return _choose_rewrite(sizes)


def _runs(sizes: Sequence[SegmentSize]) -> list[range]:
    """Return the maximal runs of segments that may be merged."""
    runs = []
    start = 0
    for position in range(len(sizes) + 1):
        if position == len(sizes) or sizes[position].is_fixed:
            if position > start:
                runs.append(range(start, position))
            start = position + 1
    return runs


def _tier(size: SegmentSize) -> int:
    if size.num_kept <= TIER_DOCS_MIN:
        return 0
    return 1 + int(math.log(size.num_kept / TIER_DOCS_MIN, TIER_FACTOR))


def _choose_in_run(sizes: Sequence[SegmentSize], run: range, *, is_idle: bool) -> range | None:
    tiers = {position: _tier(sizes[position]) for position in run}
    for tier in sorted(set(tiers.values())):
        wanted = RUN_SMALL if TIER_DOCS_MIN * TIER_FACTOR**tier <= LARGE_DOCS else RUN_LARGE
        for window in _windows(run, tiers, tier):
            if sum(tiers[position] == tier for position in window) >= wanted and _fits(
                sizes, window
            ):
                return window
    if not is_idle or len(run) < 2:
        return None
    largest = max(run, key=lambda position: sizes[position].num_kept)
    others = sum(sizes[position].num_kept for position in run if position != largest)
    if others * IDLE_SHARE >= sizes[largest].num_kept:
        return run if _fits(sizes, run) else None
    for part in (range(largest + 1, run.stop), range(run.start, largest)):
        if len(part) > 1 and _fits(sizes, part):
            return part
    return None


def _windows(run: range, tiers: dict[int, int], tier: int) -> list[range]:
    """Return the maximal stretches of a run whose segments are of this tier or below."""
    windows = []
    start = run.start
    for position in range(run.start, run.stop + 1):
        if position == run.stop or tiers[position] > tier:
            if position - start > 1:
                windows.append(range(start, position))
            start = position + 1
    return windows


def _fits(sizes: Sequence[SegmentSize], window: range) -> bool:
    return sum(sizes[position].num_kept for position in window) <= SEGMENT_DOCS_MAX


def _choose_rewrite(sizes: Sequence[SegmentSize]) -> range | None:
    """Return a segment that is worth rewriting for the documents that this drops."""
    for position, size in enumerate(sizes):
        if (
            not size.is_fixed
            and size.num_droppable >= DELETED_DOCS_MIN
            and size.num_droppable * DELETED_SHARE > size.num_docs
        ):
            return range(position, position + 1)
    return None
