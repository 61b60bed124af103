"""Messages about the positions of sources of changes: of other databases that are followed."""

from __future__ import annotations

from common.protocol.messages.message import Message


class PositionsRequest(Message, frozen=True, array_like=True):
    """Ask for the positions of the sources of changes of an index."""

    index: int


class PositionsResponse(Message, frozen=True, array_like=True):
    """Positions that this shard has on disk."""

    positions: dict[str, tuple[int, str]]
    """By source: seq of the group that brought its position, and the position."""
