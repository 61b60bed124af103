"""Scratch arrays by document, one set a thread.

No search allocates and clears arrays as long as a segment: they stay, all zeros, and each use
clears just what it has written.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import numpy as np

from shard.query.scoring.bm25f import Cells
from shard.segment.doc_sets import empty_bitset

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Scratch(threading.local):
    """The arrays of a thread, with room for the longest segment so far.

    A search that may be abandoned midway runs in ``with SCRATCH:``, which replaces the arrays then:
    they may not be zeros.

    Attributes:
        cells: t and tier of a word, by document (`bm25f`).
        members: bitset, for the documents to look at.
        scores: of the clauses so far, by document (`clause_combination`).
        counts: of the clauses that match, by document.
    """

    def __init__(self) -> None:
        self.cells = Cells(np.zeros(0, np.int64), np.zeros(0, np.uint64))
        self.members: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.scores: NDArray[np.int64] = np.zeros(0, np.int64)
        self.counts: NDArray[np.uint16] = np.zeros(0, np.uint16)

    def reserve(self, num_docs: int) -> None:
        """Make room for a segment's documents."""
        if len(self.counts) < num_docs:
            size = max(num_docs, 2 * len(self.counts), 4096)
            self.cells = Cells(np.zeros(size, np.int64), empty_bitset(size))
            self.members = empty_bitset(size)
            self.scores = np.zeros(size, np.int64)
            self.counts = np.zeros(size, np.uint16)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.counts = np.zeros(0, np.uint16)  # `reserve` then makes all of them again


SCRATCH: Final = Scratch()
