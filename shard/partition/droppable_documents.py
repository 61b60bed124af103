"""Which deleted documents a merge may drop: those that no search can reach any more.

A deletion is final once the oldest horizon in use has passed its group. Until then an older state
may still show the document, so a merge copies it, hidden.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from common.distinct_values import distinct_values
from shard.segment.doc_records_and_places import docs_of_records, records_of
from shard.segment.snapshot import SegmentView
from shard.storage.write_group_log import Group

RECENT_COUNTED_MAX = 1_000
"""Recent groups that are scanned to count what a merge could drop: the merger asks often."""


def count_droppable(view: SegmentView, recent: Sequence[Group]) -> int:
    """Return a lower bound of how many documents `droppable_docs` returns; cheap."""
    if view.deleted is None or len(recent) > RECENT_COUNTED_MAX:
        return 0
    return max(0, len(view.deleted) - sum(len(group.deleted) for group in recent))


def are_there(views: Sequence[SegmentView], records: NDArray[np.uint64]) -> bool:
    """Return whether no merge has dropped the documents of some records."""
    ascending = distinct_values(records)
    found = sum(len(docs_of_records(view.segment, ascending)) for view in views)
    return found == len(ascending)


def droppable_docs(view: SegmentView, recent: Sequence[Group]) -> NDArray[np.uint32] | None:
    """Return the ordinals of the documents to drop, ascending; None if nothing is deleted.

    Args:
        view: a segment and what is deleted of it.
        recent: groups whose deletions are not final, as of the view or later.
    """
    ordinals = view.deleted_docs
    if ordinals is not None and recent:
        records = records_of(view.segment, ordinals)
        is_recent = np.isin(records, np.concatenate([group.deleted for group in recent]))
        ordinals = ordinals[~is_recent]
    return ordinals
