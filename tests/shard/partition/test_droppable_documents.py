"""A merge may drop a deleted document only once no search can show it any more."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from shard.partition import droppable_documents
from shard.partition.droppable_documents import count_droppable, droppable_docs
from shard.segment.doc_records_and_places import build_doc_records
from shard.segment.segment import Segment
from shard.segment.snapshot import SegmentView
from shard.storage.write_group_log import Group

FIRST_RECORD = 100


def _view(deleted: list[int]) -> SegmentView:
    records = np.arange(FIRST_RECORD, FIRST_RECORD + 20, dtype=np.uint64)
    arrays, facts = build_doc_records(records, records)
    segment = Segment(arrays, num_docs=20, meta=facts)
    return SegmentView(segment, FrozenBitMap(deleted) if deleted else None)


def _group(deleted: list[int]) -> Group:
    return Group(1, 0, 0, np.array(deleted, np.uint64), b"")


@given(
    deleted=st.lists(st.integers(0, 19), unique=True),
    recent=st.lists(st.lists(st.integers(FIRST_RECORD - 5, FIRST_RECORD + 25)), max_size=3),
)
def test_what_recent_groups_deleted_is_kept(deleted: list[int], recent: list[list[int]]) -> None:
    groups = [_group(one) for one in recent]
    still_shown = {record for one in recent for record in one}

    found = droppable_docs(_view(deleted), groups)

    expected = [doc for doc in sorted(deleted) if doc + FIRST_RECORD not in still_shown]
    assert (found is None) == (not deleted)
    assert ([] if found is None else found.tolist()) == expected
    assert count_droppable(_view(deleted), groups) <= len(expected)


def test_count_is_exact_without_recent_groups_and_0_with_too_many() -> None:
    view = _view([1, 2, 3])

    assert count_droppable(view, []) == 3
    assert count_droppable(view, [_group([])] * droppable_documents.RECENT_COUNTED_MAX) == 3
    assert count_droppable(view, [_group([])] * (droppable_documents.RECENT_COUNTED_MAX + 1)) == 0
