"""Records wait here until they are purged; one that a segment still has must not be purged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from shard.partition.purge_queue import PurgeQueue
from shard.segment.doc_records_and_places import build_doc_records
from shard.segment.segment import Segment
from shard.segment.snapshot import SegmentView


def _records(*numbers: int) -> NDArray[np.uint64]:
    return np.array(numbers, np.uint64)


def _view(*records: int, deleted: tuple[int, ...] = ()) -> SegmentView:
    numbers = _records(*records)
    arrays, facts = build_doc_records(numbers, numbers)
    segment = Segment(arrays, num_docs=len(records), meta=facts)
    return SegmentView(segment, FrozenBitMap(deleted) if deleted else None)


def _take_all(queue: PurgeQueue, count_max: int = 100) -> list[int]:
    taken: list[int] = []
    while (records := queue.take(count_max)) is not None:
        assert 0 < len(records) <= count_max
        taken += records.tolist()
    return sorted(taken)


def test_records_that_a_segment_still_has_are_not_handed_out() -> None:
    queue = PurgeQueue([_view(3, 4, 5, deleted=(0,))], _records(1, 2, 3))

    assert len(queue) == 2
    assert _take_all(queue) == [1, 2]
    assert not queue


def test_a_rebuilt_segment_takes_back_records_that_were_queued_before() -> None:
    queue = PurgeQueue([], _records(1))
    queue.add(_records(8, 9))
    queue.refill([_view(7, 8, deleted=(1,))], _records(1, 2))

    assert _take_all(queue) == [1, 2, 9]


def test_batches_are_bounded_and_lose_nothing() -> None:
    queue = PurgeQueue([], _records(*range(7)))
    queue.add(_records(*range(10, 15)))

    assert _take_all(queue, count_max=3) == [*range(7), *range(10, 15)]


def test_nothing_is_handed_out_until_every_hold_is_released() -> None:
    queue = PurgeQueue([], _records(1))
    queue.hold()
    queue.hold()
    queue.release()
    assert queue.take(9) is None
    assert len(queue) == 1

    queue.release()

    assert _take_all(queue) == [1]
