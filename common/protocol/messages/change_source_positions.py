"""Messages that ask how far sources of changes have come: other databases that are followed."""

from __future__ import annotations

from common.protocol.messages.message import Message


class PositionsRequest(Message, frozen=True, array_like=True):
    """Ask how far the sources of changes of an index have come."""

    index: int


class PositionsResponse(Message, frozen=True, array_like=True):
    """Positions that this shard has on disk."""

    positions: dict[str, tuple[int, str]]
    """By source: seq of the group that brought its position, and the position."""
