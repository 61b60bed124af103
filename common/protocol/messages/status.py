"""Messages about the state of a shard and its indexes: sizes, progress, fingerprints, backups."""

from __future__ import annotations

from typing import Any

from msgspec import field

from common.protocol.messages.message import Message


class FingerprintRequest(Message, frozen=True, array_like=True):
    """Ask for a number that follows from the items of a state, and from nothing else."""

    index: int
    horizon: int


class FingerprintResponse(Message, frozen=True, array_like=True):
    """What identifies the items of one state on this shard, in whatever order they are stored."""

    num_items: int
    num_damaged: int
    """Damaged items; not in `fingerprint`."""
    fingerprint: int
    """Sum over all items of xxh3_64(bytes, seed=place), modulo 2**64."""


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


class BackupRequest(Message, frozen=True, array_like=True):
    """Write a consistent copy of the shard's truth at a horizon into a directory."""

    directory: str
    horizons: dict[int, int] = field(default_factory=dict)
    """By index: the copy omits groups after it; an index without one is copied whole."""
    only: int | None = None
    """The only index to copy."""
