"""What a shard process reports about itself: memory, caches, and every index."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from common.process.glibc_malloc import allocated, resident_bytes
from common.protocol.messages import ProcessStatistics
from shard.caches.decompressed_item_cache import RECENT_ITEMS
from shard.caches.lru_cache import CACHES
from shard.caches.query_cache import QUERY_CACHE_BUDGET
from shard.indexes.index_statistics import index_sizes

if TYPE_CHECKING:
    from shard.indexes.indexes import Indexes


def shard_statistics(indexes: Indexes, queue_length: int) -> ProcessStatistics:
    """Return the statistics of this process; opens no index.

    Args:
        indexes: of the shard.
        queue_length: how many calls are in progress.
    """
    scheduler = indexes.merge_scheduler
    in_use = allocated()
    closed = indexes.closed.items()
    return ProcessStatistics(
        pid=os.getpid(),
        resident_bytes=resident_bytes(),
        queue_length=queue_length,
        num_corrupt=sum(one.partition.documents.num_corrupt for one in indexes.open.all())
        + sum(one.num_damaged for _, one in closed),
        is_ready=indexes.is_ready,
        indexes=(
            *(
                (
                    one.partition.number,
                    index_sizes(one.partition, scheduler.statistics(one.partition.number)),
                )
                for one in indexes.open.all()
            ),
            *((number, one.statistics()) for number, one in closed),
        ),
        cache_bytes={
            **{name: cache.size for name, cache in CACHES.items()},
            "items": RECENT_ITEMS.size,
            "queries": QUERY_CACHE_BUDGET.size,
        },
        allocated_bytes=in_use.num_bytes,
        python_blocks=in_use.num_blocks,
    )
