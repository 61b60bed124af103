"""Permutations: the documents of a segment in an order that searches use repeatedly.

With one, a search that matches many documents finds the first ten by walking it, without looking at
every key. It is built in the background once a field has been sorted by repeatedly: sorting 500,000
keys takes 15 ms with wide vector registers, 80 ms without.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.caches.lru_cache import COLUMN_CACHE

if TYPE_CHECKING:
    from numpy.typing import NDArray

PERMUTATION_USES_MIN: Final = 3
"""Sorts by a field in a segment after which its permutation is worth building."""
_PERMUTATION_BYTES: Final = 5
"""Bytes of a permutation per document."""
_serials = itertools.count(1)


@arguments
class Permutation(NamedTuple):
    """Documents that have a value, by key; those with equal keys ascend."""

    docs: NDArray[np.uint32]
    is_first: NDArray[np.bool_]
    """Whether a document's key differs from that of the document before."""


class Permuted:
    """Something that orders the documents of a segment, with their permutation once it is made.

    Attributes:
        num_docs: of the segment.
        serial: names it.
    """

    __slots__ = ("__weakref__", "_uses", "num_docs", "serial")

    def __init__(self, num_docs: int) -> None:
        self.num_docs = num_docs
        self.serial = next(_serials)
        self._uses = 0

    def permutation(self) -> Permutation | None:
        """Return the documents in order, if already built.

        Otherwise counts a use, and schedules a background build after enough of them. Cost: 15-160
        ns a document and field, on another thread; memory 5 bytes a document, in the LRU cache.
        """
        key = ("permutation", self.serial)
        permutation: Permutation | None = COLUMN_CACHE.get(key)
        if permutation is None and COLUMN_CACHE.takes(_PERMUTATION_BYTES * self.num_docs):
            self._uses += 1
            if self._uses >= PERMUTATION_USES_MIN:
                self._uses = 0  # after an eviction, it counts again
                BACKGROUND_TASKS.add(key, self, Permuted.make_permutation)
        return permutation

    def make_permutation(self) -> None:
        """Sort the documents and cache their order."""
        permutation = self._sorted_docs()
        if permutation is not None:
            num_bytes = permutation.docs.nbytes + permutation.is_first.nbytes
            COLUMN_CACHE.put(("permutation", self.serial), permutation, num_bytes, self)

    def _sorted_docs(self) -> Permutation | None:
        """Return the documents in order; None if that is not known any more."""
        raise NotImplementedError
