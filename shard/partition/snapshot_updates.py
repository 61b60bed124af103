"""The views of the next snapshot: documents deleted, revived, or moved into a merged segment.

A segment never changes; each function returns new views over it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from shard.segment.doc_records_and_places import docs_of_records, record_bounds, records_of
from shard.segment.merge_result import MergeResult
from shard.segment.snapshot import SegmentView, Snapshot
from shard.storage.write_group_log import Group


def with_merged(state: Snapshot, result: MergeResult, newest: Snapshot) -> Snapshot:
    """Return a state with a merged segment instead of the segments in its range of records.

    An older state may have other segments there than the parts: a shorter open one, or none of the
    newest. Then the merged one has documents that the state hides, with facet values that came
    later; so from now on the state knows the values that the newest one knows.
    """
    parts, doc_maps, merged = result
    low, _ = record_bounds(parts[0].segment)
    _, high = record_bounds(parts[-1].segment)
    maps = {part.segment.uid: one for part, one in zip(parts, doc_maps, strict=True)}
    is_hidden = np.ones(0 if merged is None else merged.num_docs, np.bool_)
    views: list[SegmentView] = []
    position = None
    for view in state.views:
        first, last = record_bounds(view.segment)
        if first < low or last > high:
            views.append(view)
            continue
        position = len(views) if position is None else position
        if merged is not None:
            gone = [] if view.deleted is None else view.deleted.to_array()
            if view.segment.uid in maps:
                ordinals = np.delete(maps[view.segment.uid], gone)
            else:  # another one with documents of the parts
                ordinals = docs_of_records(merged, np.delete(records_of(view.segment), gone))
            is_hidden[ordinals[ordinals >= 0]] = False
    # Even if all of it is hidden: earlier states, in which it was live, are restored from this.
    if merged is not None and position is not None:
        whole = SegmentView(merged)
        hidden = np.flatnonzero(is_hidden)
        views.insert(position, whole.without(hidden.tolist()) if len(hidden) else whole)
    return state.with_views(tuple(views), newest.dictionary_lengths)


def without_groups(views: Sequence[SegmentView], groups: Sequence[Group]) -> list[SegmentView]:
    """Return the views as they were before some write groups.

    What these added is hidden again, what they removed is shown again.
    """
    added = [np.zeros(0, np.uint64)]
    removed = [np.zeros(0, np.uint64)]
    for group in groups:
        end = group.first_record + group.num_records
        added.append(np.arange(group.first_record, end, dtype=np.uint64))
        removed.append(group.deleted)
    return delete_records(_revive_records(views, np.concatenate(removed)), np.concatenate(added))


def _revive_records(views: Sequence[SegmentView], records: NDArray[np.uint64]) -> list[SegmentView]:
    """Return the views with some of their deleted documents undeleted.

    Cost: one binary search a record, and a copy of the tombstones of each view that gets some back.
    """
    ascending = np.sort(records)
    return [_revived(view, ascending) for view in views]


def _revived(view: SegmentView, records: NDArray[np.uint64]) -> SegmentView:
    if view.deleted is None:
        return view
    found = docs_of_records(view.segment, records)
    deleted = view.deleted - FrozenBitMap(found.tolist())
    if len(deleted) == len(view.deleted):
        return view
    return SegmentView(view.segment, deleted or None)


def delete_records(views: Sequence[SegmentView], records: NDArray[np.uint64]) -> list[SegmentView]:
    """Return the views without the documents of some records; unknown records do not matter.

    Cost: one binary search a record, and a copy of the tombstones of each view that loses some.
    """
    remaining = np.sort(records)
    result = []
    for view in views:
        found = docs_of_records(view.segment, remaining)
        result.append(view.without(found.tolist()) if len(found) else view)
    return result
