"""What every structure of a merge is merged from: the segments, and which documents they keep.

    parts      segment 0     segment 1        in the order of their records
    doc maps    0  -1   1     2   3  -1       by document: its ordinal in the result, -1: dropped
    num_docs    4

A doc map is monotone, and the parts are consecutive, so the result has its documents in the order
of their records, as every segment does. Each structure's `merge_…` takes this one value, and
returns arrays equal to those of a build from the kept documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shard.segment.merge_allocator import IN_MEMORY, MergeAllocator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment


class MergeState(NamedTuple):
    """A merge of segments; see the module.

    Attributes:
        parts: the segments.
        doc_maps: of each.
        num_docs: documents of the result.
        allocator: makes the large arrays.
    """

    parts: Sequence[Segment]
    doc_maps: Sequence[NDArray[np.int64]]
    num_docs: int
    allocator: MergeAllocator

    @classmethod
    def of(
        cls,
        parts: Sequence[Segment],
        doc_maps: Sequence[NDArray[np.int64]],
        allocator: MergeAllocator = IN_MEMORY,
    ) -> MergeState:
        """Return the merge of segments by doc maps; counts the documents that these keep."""
        num_docs = sum(_count_kept(doc_map, allocator) for doc_map in doc_maps)
        return cls(parts, doc_maps, num_docs, allocator)

    @classmethod
    def without(
        cls,
        parts: Sequence[Segment],
        dropped: Sequence[NDArray[np.uint32] | None],
        allocator: MergeAllocator = IN_MEMORY,
    ) -> MergeState:
        """Return the merge of segments without some of their documents.

        Args:
            parts: in the order of their records.
            dropped: by part: ordinals of the documents to drop; None: none.
            allocator: makes the large arrays, the doc maps among them.
        """
        doc_maps = []
        num_docs = 0
        for part, gone in zip(parts, dropped, strict=True):
            doc_map = allocator.zeros(part.num_docs, np.int64)
            if gone is not None:
                doc_map[gone] = -1
            for rows in allocator.pieces(part.num_docs):
                keep = doc_map[rows] == 0
                ordinals = np.cumsum(keep, dtype=np.int64) + (num_docs - 1)
                doc_map[rows] = np.where(keep, ordinals, -1)
                num_docs += int(np.count_nonzero(keep))
            doc_maps.append(doc_map)
        return cls(parts, doc_maps, num_docs, allocator)

    @property
    def mapped_parts(self) -> Iterable[tuple[Segment, NDArray[np.int64]]]:
        """Each part with its doc map."""
        return zip(self.parts, self.doc_maps, strict=True)

    def remapped(self) -> MergeState:
        """Return the same merge, reading the files of its parts through mappings of its own."""
        return self._replace(parts=[part.remapped() for part in self.parts])


def _count_kept(doc_map: NDArray[np.int64], allocator: MergeAllocator) -> int:
    """Return how many documents a map keeps."""
    return sum(
        int(np.count_nonzero(doc_map[piece] >= 0)) for piece in allocator.pieces(len(doc_map))
    )
