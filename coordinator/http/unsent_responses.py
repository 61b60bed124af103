"""Clients that are slow to take their responses, and the memory that these hold.

A response stays in memory until the client's socket has taken the last of it. One that reads a
little now and then keeps a page of megabytes for minutes, so a few thousand would take all memory.
Once they hold too much together, those that have taken nothing for longest are disconnected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class SlowClients:
    """The clients of one process whose sockets are full.

    Args:
        bytes_max: of their responses together; a single one may be larger.

    Attributes:
        num_bytes: of their responses now.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: dict[asyncio.Transport, int] = {}  # longest first
        self.num_bytes = 0

    @contextmanager
    def waiting(self, transport: asyncio.Transport, num_bytes: int) -> Iterator[None]:
        """Count a client while its socket takes nothing.

        Args:
            transport: of its connection, which may be aborted.
            num_bytes: of its response; 0, for one that is sent as it is made, holds nothing.
        """
        if num_bytes:
            self._waiting[transport] = num_bytes
            self.num_bytes += num_bytes
        while self.num_bytes > self._bytes_max and len(self._waiting) > 1:
            longest = next(iter(self._waiting))
            self._forget(longest)
            longest.abort()
        try:
            yield
        finally:
            self._forget(transport)

    def _forget(self, transport: asyncio.Transport) -> None:
        self.num_bytes -= self._waiting.pop(transport, 0)
