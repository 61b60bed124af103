"""Calls whose caller waits no longer."""

from __future__ import annotations

from common.protocol.messages.message import Message


class GivenUpCalls(Message, frozen=True, array_like=True):
    """Calls of this connection that their callers have given up."""

    msgids: tuple[int, ...]
