"""One state of one index on this shard: what a search sees from its first step to its last.

    Snapshot seq 41 ─┬─ SegmentView ── Segment 1 (file)      ∖ deleted {3, 17}
                     ├─ SegmentView ── Segment 2 (file)
                     └─ SegmentView ── Segment 9 (memory)    ∖ deleted {0}

Everything in it is immutable and shared between snapshots, so a new one costs a tuple and the new
tombstones. The writer creates it and publishes it by assigning one attribute; searches that hold an
older one continue with that.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, FrozenBitMap

from shard.segment.doc_records_and_places import docs_of_records
from shard.segment.doc_sets import bitset_of, count_docs, full_bitset, list_all_docs, remove_docs
from shard.segment.segment import Segment

if TYPE_CHECKING:
    from common.facet_dictionary import FacetDictionary
    from common.index_configuration import IndexConfiguration
    from shard.segment.field_registry import FieldRegistry


class DocumentReader(Protocol):
    """Reads the stored bytes of records."""

    def read(self, records: Sequence[int], bytes_max: int = ...) -> list[bytes]:
        """Return the stored bytes of each record.

        Raises:
            InternalError: item_corrupt, an item is damaged or missing.
            PayloadTooLarge: they are more than `FEW_ITEMS` and have more than `bytes_max` bytes.
        """
        ...

    def read_joined(self, records: Sequence[int]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the stored bytes of records, one after the other, and where those of each end.

        Raises:
            InternalError: item_corrupt, an item is damaged or missing.
        """
        ...

    def read_some(self, records: Sequence[int], bytes_max: int) -> list[bytes | None]:
        """Return the first of them, up to the one that reaches `bytes_max`; None: damaged."""
        ...


def _ordinals(bitmap: BitMap | FrozenBitMap) -> NDArray[np.uint32]:
    return np.array(bitmap.to_array(), np.uint32)


class _LiveMask(NamedTuple):
    """The bitset of the documents of a segment that are not among the deleted ones."""

    deleted: FrozenBitMap
    bitset: NDArray[np.uint64]


class SegmentView:
    """A segment without the documents deleted up to one moment.

    Attributes:
        segment: the arrays.
        deleted: ordinals of deleted documents, or None if there are none.
        num_docs: number of live documents.
    """

    __slots__ = ("_mask", "deleted", "num_docs", "segment")

    def __init__(
        self,
        segment: Segment,
        deleted: FrozenBitMap | None = None,
        *,
        mask: _LiveMask | None = None,
    ) -> None:
        self.segment = segment
        self.deleted = deleted
        self.num_docs = segment.num_docs - (0 if deleted is None else len(deleted))
        self._mask = mask  # of this view, or of one with fewer deleted

    @property
    def deleted_docs(self) -> NDArray[np.uint32] | None:
        """Ordinals of the deleted documents, ascending, or None if there are none."""
        return _ordinals(self.deleted) if self.deleted else None

    @property
    def live_mask(self) -> NDArray[np.uint64] | None:
        """Bitset of the live documents (bit d & 63 of word d >> 6), or None if all are.

        Computed on first use and kept: 1 ns a deleted document, and num_docs / 8 bytes. After a
        small write it is derived from an earlier view's, so its cost does not grow with all
        deletions.
        """
        if self.deleted is None:
            return None
        known = self._mask
        if known is not None and known.deleted is self.deleted:
            return known.bitset
        if known is None:
            bitset, gone = full_bitset(self.segment.num_docs), self.deleted
        else:
            bitset, gone = known.bitset.copy(), self.deleted - known.deleted
        remove_docs(bitset, _ordinals(gone))
        self._mask = _LiveMask(self.deleted, bitset)
        return bitset

    @property
    def live_docs(self) -> NDArray[np.uint32]:
        """Ordinals of the live documents, ascending."""
        mask = self.live_mask
        if mask is None:
            return np.arange(self.segment.num_docs, dtype=np.uint32)
        live: NDArray[np.uint32] = list_all_docs(mask, count_docs(mask))
        return live

    def without(self, ordinals: Sequence[int]) -> SegmentView:
        """Return a view in which these documents are deleted as well.

        Its bitset is made at the first search: most views are replaced by the next write before.
        """
        added = FrozenBitMap(ordinals)
        deleted = added if self.deleted is None else self.deleted | added
        return SegmentView(self.segment, deleted, mask=self._mask)

    def only(self, docs: NDArray[np.uint32]) -> SegmentView:
        """Return a view in which all other documents are deleted.

        Its bitset is made of the few that are not: to list the others would take 5 to 8 ns each.
        """
        others = BitMap(range(self.segment.num_docs))
        others.difference_update(BitMap(docs))
        deleted = FrozenBitMap(others)
        bitset = bitset_of(docs, self.segment.num_docs)
        return SegmentView(self.segment, deleted, mask=_LiveMask(deleted, bitset))


class Snapshot:
    """One immutable state of one index on this shard.

    Attributes:
        seq: number of the last write group in it.
        revision: revision of the configuration that its segments were built with.
        views: segments in order of their records, with the deletions up to `seq`.
        configuration: the configuration of `revision`.
        registry: paths of fields by number; may have grown since (append-only).
        dictionaries: facet dictionaries by path; may have grown since (append-only).
        dictionary_lengths: number of values of each dictionary as of this snapshot.
        documents: reads stored bytes by record.
        caches: what searches derive from the snapshot alone (totals, statistics).
    """

    __slots__ = (
        "caches",
        "configuration",
        "dictionaries",
        "dictionary_lengths",
        "documents",
        "num_docs",
        "registry",
        "revision",
        "seq",
        "views",
    )

    def __init__(
        self,
        *,
        seq: int,
        revision: int,
        views: tuple[SegmentView, ...],
        configuration: IndexConfiguration,
        registry: FieldRegistry,
        dictionaries: Mapping[str, FacetDictionary],
        dictionary_lengths: Mapping[str, int],
        documents: DocumentReader,
    ) -> None:
        self.seq = seq
        self.revision = revision
        self.views = views
        self.configuration = configuration
        self.registry = registry
        self.dictionaries = dictionaries
        self.dictionary_lengths = dictionary_lengths
        self.documents = documents
        self.num_docs = sum(view.num_docs for view in views)
        self.caches: dict[Hashable, Any] = {}

    def with_views(
        self, views: tuple[SegmentView, ...], dictionary_lengths: Mapping[str, int] | None = None
    ) -> Snapshot:
        """Return the same state over other segments.

        Args:
            views: the segments.
            dictionary_lengths: of the dictionaries, if these segments have values that the former
                ones lacked. Hidden documents count too, since counting starts from a segment's
                totals.
        """
        return Snapshot(
            seq=self.seq,
            revision=self.revision,
            views=views,
            configuration=self.configuration,
            registry=self.registry,
            dictionaries=self.dictionaries,
            dictionary_lengths=dictionary_lengths or self.dictionary_lengths,
            documents=self.documents,
        )

    def locate(self, record: int) -> tuple[int, int] | None:
        """Return the position in `views` and the ordinal of a record's document, deleted or not."""
        wanted = np.array([record], np.uint64)
        for position, view in enumerate(self.views):
            found = docs_of_records(view.segment, wanted).tolist()
            if found:
                return position, found[0]
        return None

    def has_record(self, record: int) -> bool:
        """Return whether a record belongs to a live document."""
        found = self.locate(record)
        if found is None:
            return False
        position, doc = found
        deleted = self.views[position].deleted
        return deleted is None or doc not in deleted

    def read_documents(
        self, records: NDArray[np.uint64] | Sequence[int], bytes_max: int = sys.maxsize
    ) -> list[bytes]:
        """Return the stored bytes of records that this snapshot names, in the given order.

        Args:
            records: of the items.
            bytes_max: most bytes of all items, if they are more than `FEW_ITEMS`.

        Raises:
            InternalError: item_corrupt, an item is damaged or missing.
            PayloadTooLarge: the items have more bytes.
        """
        return self.documents.read(np.asarray(records, np.uint64).tolist(), bytes_max)
