"""What a merge has made of the segments that it began with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyroaring import FrozenBitMap

from shard.segment.snapshot import SegmentView

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment


class MergeResult(NamedTuple):
    """A merged segment, and what it takes the place of.

    Attributes:
        parts: the segments, with the deletions of the moment at which the merge began.
        doc_maps: of each, as in `MergeState`.
        merged: the new segment; None if no document is left.
    """

    parts: Sequence[SegmentView]
    doc_maps: Sequence[NDArray[np.int64]]
    merged: Segment | None

    def view(self) -> SegmentView:
        """Return the merged segment without the documents that were deleted in its parts."""
        assert self.merged is not None, "a view of nothing"
        gone = [
            doc_map[part.deleted_docs]
            for part, doc_map in zip(self.parts, self.doc_maps, strict=True)
            if part.deleted_docs is not None
        ]
        hidden = np.concatenate([np.zeros(0, np.int64), *gone])
        hidden = hidden[hidden >= 0]
        return SegmentView(self.merged, FrozenBitMap(hidden.tolist()) if len(hidden) else None)
