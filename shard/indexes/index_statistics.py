"""Sizes and shape of one index on this shard, for statistics pages and metrics."""

from __future__ import annotations

from typing import Any

import msgspec

from common.protocol.messages import IndexStatisticsResponse
from shard.partition.merge_flush_and_purge_scheduler import MergeStatistics
from shard.partition.partition import Partition
from shard.read.corpus_statistics import fields_of
from shard.segment.snapshot import SegmentView


def index_statistics(partition: Partition, merging: MergeStatistics) -> IndexStatisticsResponse:
    """Return sizes and shape of an index.

    Cost: as `index_sizes`, and a few microseconds for each field of each segment.
    """
    sizes = index_sizes(partition, merging)
    return msgspec.structs.replace(sizes, fields=fields_of(partition.newest))


def index_sizes(partition: Partition, merging: MergeStatistics) -> IndexStatisticsResponse:
    """Return sizes and shape of an index, without its fields.

    Cost: a few microseconds a segment; a `stat` of each file.
    """
    snapshot = partition.newest
    return IndexStatisticsResponse(
        num_docs=snapshot.num_docs,
        num_records=sum(view.segment.num_docs for view in snapshot.views),
        bytes_on_disk=partition.derived.bytes_on_disk(),
        segments=tuple(_describe(view) for view in snapshot.views),
        fields=(),
        is_merging=merging.is_running,
        map_bytes_used=partition.environment.bytes_used(),
        map_bytes_max=partition.environment.map_bytes_max,
        map_readers=partition.environment.num_readers(),
        num_merges=merging.num_steps,
        merging_us=merging.micros,
    )


def _describe(view: SegmentView) -> dict[str, Any]:
    return {
        "num_docs": view.num_docs,
        "num_deleted": view.segment.num_docs - view.num_docs,
        "bytes": view.segment.size,
        "is_file": view.segment.path is not None,
    }
