"""Sizes and shape of one index on this shard, for statistics pages and metrics."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from common.protocol.messages import IndexStatisticsResponse
from common.values import ValueKind
from shard.index.presence import Aspect
from shard.partition import Partition
from shard.snapshot import SegmentView, Snapshot

_ASPECT_BITS = 3


def index_statistics(partition: Partition, *, is_merging: bool) -> IndexStatisticsResponse:
    """Return sizes and shape of an index.

    Cost: some 10 µs a segment; a `stat` of each file.
    """
    snapshot = partition.history.newest
    return IndexStatisticsResponse(
        num_docs=snapshot.num_docs,
        num_records=sum(view.segment.num_docs for view in snapshot.views),
        bytes_on_disk=partition.derived.bytes_on_disk(),
        segments=tuple(_describe_segment(view) for view in snapshot.views),
        fields=tuple(_describe_fields(snapshot)),
        is_merging=is_merging,
        map_bytes_used=partition.environment.bytes_used(),
        map_bytes_max=partition.environment.map_bytes_max,
    )


def _describe_segment(view: SegmentView) -> dict[str, Any]:
    return {
        "num_docs": view.num_docs,
        "num_deleted": view.segment.num_docs - view.num_docs,
        "bytes": view.segment.size,
        "is_file": view.segment.path is not None,
    }


def _describe_fields(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return path, documents (deleted ones included) and kinds of each field that occurs."""
    counts: defaultdict[int, int] = defaultdict(int)
    kinds: defaultdict[int, int] = defaultdict(int)
    for view in snapshot.views:
        segment = view.segment
        keys = segment["presence.keys"].astype(np.int64)
        exists = np.flatnonzero((keys & ((1 << _ASPECT_BITS) - 1)) == Aspect.EXISTS)
        for key, count in zip(keys[exists], segment["presence.counts"][exists], strict=True):
            counts[int(key) >> _ASPECT_BITS] += int(count)
        for field, bits in zip(
            segment["presence.fields"].tolist(), segment["presence.kinds"].tolist(), strict=True
        ):
            kinds[field] |= bits
    return [
        {
            "path": snapshot.registry.paths[field],
            "num_docs": counts[field],
            "kinds": [kind.name.lower() for kind in ValueKind if bits >> kind & 1],
        }
        for field, bits in sorted(kinds.items())
    ]
