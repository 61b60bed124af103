"""Stored items, read back from LMDB in batches to be indexed again.

At open, for the records that no intact segment covers; for a new configuration, all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shard.storage.lmdb_codecs import as_bytes_array

if TYPE_CHECKING:
    from pyroaring import BitMap64

    from shard.partition.structures_per_configuration import Generation
    from shard.segment.segment import Segment
    from shard.storage.lmdb_environment import Environment
    from shard.storage.stored_documents import DocumentStore

BATCH_ITEMS_MAX = 16_384
BATCH_BYTES_MAX = 8 << 20
"""Bytes of items that are indexed together when an index is rebuilt."""


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Items read back for indexing.

    Attributes:
        payload: bytes that hold the documents, uint8.
        starts: where each document begins in the payload, int64.
        ends: where it ends.
        records: record of each, ascending, uint64.
        places: insertion number of each, uint64.
    """

    payload: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    records: NDArray[np.uint64]
    places: NDArray[np.uint64]

    @classmethod
    def of(cls, items: Sequence[tuple[int, int, bytes]]) -> StoredBatch:
        """Return a batch of (record, place, document)."""
        sizes = np.array([len(document) for _, _, document in items], np.int64)
        ends = np.cumsum(sizes)
        return cls(
            payload=as_bytes_array(b"".join(document for _, _, document in items)),
            starts=ends - sizes,
            ends=ends,
            records=np.array([record for record, _, _ in items], np.uint64),
            places=np.array([place for _, place, _ in items], np.uint64),
        )

    def build(self, generation: Generation) -> Segment:
        """Build the segment of the items."""
        extraction = generation.builder.extract(self.payload, self.starts, self.ends)
        return generation.builder.build(extraction, self.records, self.places)


def read_batches(
    environment: Environment,
    documents: DocumentStore,
    records: range,
    dead: BitMap64,
    damaged: set[int],
) -> Iterator[StoredBatch]:
    """Yield the items of some records that are not dead, in batches.

    A damaged item is left out: its id and fields are unknown, so it must not be counted by some
    pages and found by others.

    Args:
        environment: LMDB.
        documents: stored items.
        records: consecutive ones.
        dead: records to leave out.
        damaged: takes the records of damaged items.
    """
    position = records.start
    while position < records.stop:
        items: list[tuple[int, int, bytes]] = []
        num_bytes = 0
        next_position = records.stop
        with environment.read() as txn:
            for item in documents.scan(txn, position):
                if item.record >= records.stop:
                    break
                if item.record in dead:
                    continue
                if item.document is None:
                    damaged.add(item.record)
                    continue
                items.append((item.record, item.place, item.document))
                num_bytes += len(item.document)
                if len(items) >= BATCH_ITEMS_MAX or num_bytes >= BATCH_BYTES_MAX:
                    next_position = item.record + 1
                    break
        if items:
            yield StoredBatch.of(items)
        position = next_position
