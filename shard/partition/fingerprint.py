"""Fingerprint of the items of a state, which hosts that share a log compare.

It is a sum over the items, so neither their order, nor the division into segments and shards
matters: the sums of all shards, added up, are the same for any number of shards.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from common.protocol.messages import FingerprintResponse
from shard.segment.doc_records_and_places import records_of
from shard.segment.snapshot import Snapshot
from shard.storage.stored_documents import DocumentStore

_RECORDS_AT_ONCE: Final = 128


def fingerprint_of(snapshot: Snapshot, documents: DocumentStore) -> FingerprintResponse:
    """Read and hash all items of a state.

    Args:
        snapshot: the state.
        documents: of its index.
    """
    total = num_items = num_damaged = 0
    for view in snapshot.views:
        records = records_of(view.segment)
        if view.deleted is not None:
            records = np.delete(records, view.deleted.to_array())
        for first in range(0, len(records), _RECORDS_AT_ONCE):
            part = records[first : first + _RECORDS_AT_ONCE].tolist()
            some, damaged = documents.fingerprint(part)
            total = (total + some) % 2**64
            num_items += len(part)
            num_damaged += damaged
        view.segment.release_pages()
    return FingerprintResponse(num_items, num_damaged, total)
