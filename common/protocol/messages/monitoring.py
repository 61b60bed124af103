"""Messages for monitoring: sizes and progress of indexes, of a shard process and of its start."""

from __future__ import annotations

from typing import Any

from msgspec import field

from common.protocol.messages.message import Message


class IndexStatisticsRequest(Message, frozen=True, array_like=True):
    """Sizes and shape of one index on this shard."""

    index: int


class IndexStatisticsResponse(Message, frozen=True, array_like=True):
    """Sizes and shape of one index on this shard."""

    num_docs: int
    num_records: int
    bytes_on_disk: int
    segments: tuple[dict[str, Any], ...]
    fields: tuple[dict[str, Any], ...]
    """Per field {"path", "num_docs", "kinds"}; num_docs may count deleted documents not yet merged
    away.
    """
    is_merging: bool
    map_bytes_used: int
    map_bytes_max: int
    map_readers: int = 0
    """Slots of LMDB's reader table that were ever taken; one that never comes free keeps pages."""
    num_merges: int = 0
    """Merge steps since the process opened the index."""
    merging_us: int = 0
    """Microseconds that they took together."""


class ProcessStatistics(Message, frozen=True, array_like=True):
    """Statistics of the shard process."""

    pid: int
    resident_bytes: int
    queue_length: int
    num_corrupt: int
    is_ready: bool
    indexes: tuple[tuple[int, IndexStatisticsResponse], ...]
    """By number; without their fields."""
    cache_bytes: dict[str, int] = field(default_factory=dict)
    """Sizes of the caches of derived values, by kind."""
    allocated_bytes: int = 0
    python_blocks: int = 0


class OpeningStatistics(Message, frozen=True, array_like=True):
    """Progress of a shard's start."""

    num_indexes: int
    num_open: int
    num_records: int
    """Stored items to be indexed again, because no segment has them."""
    num_built: int
    """How many of these are indexed."""
    is_ready: bool = False
    """Whether it has taken a catalog."""
