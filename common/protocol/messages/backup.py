"""The message that asks a shard for a backup."""

from __future__ import annotations

from msgspec import field

from common.protocol.messages.message import Message


class BackupRequest(Message, frozen=True, array_like=True):
    """Write a consistent copy of the shard's truth at a horizon into a directory."""

    directory: str
    horizons: dict[int, int] = field(default_factory=dict)
    """By index: the copy omits groups after it; an index without one is copied whole."""
    only: int | None = None
    """The only index to copy."""
