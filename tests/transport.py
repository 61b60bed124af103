"""An RPC client and server in one process, without sockets, for tests.

    client, link = connect(server, hello)
    link.cut()               the connection ends, as if the peer had been killed
    link.hold() / release()  bytes stay on the way: a peer that hangs, or answers late

Bytes travel through the loop's `call_soon`, in pieces of any size that the test wants, so frames
are cut at every place that a real socket may cut them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from common.protocol.client import RpcClient
from common.protocol.messages import Hello
from common.protocol.server import RpcServer, ServerConnection


class _HalfTransport(asyncio.Transport):
    """One side's view of a link."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link
        self.peer: _HalfTransport | None = None
        self.protocol: asyncio.Protocol | None = None
        self._is_closed = False
        self.is_reading_paused = False
        self._inbox: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closed and self.peer is not None:
            step = self._link.piece_bytes or len(data) or 1
            for start in range(0, len(data), step):
                self.peer._inbox.append(bytes(data[start : start + step]))
            self._link.schedule(self.peer.deliver)

    def deliver(self) -> None:
        while self._inbox and not self._is_closed and not self._link.is_held:
            if self.is_reading_paused:
                return
            assert self.protocol is not None
            self.protocol.data_received(self._inbox.pop(0))

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False
        self._link.schedule(self.deliver)

    def get_write_buffer_size(self) -> int:
        return 0 if self.peer is None else sum(map(len, self.peer._inbox))

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self._is_closed:
            return
        peer = self.peer
        if peer is not None:
            peer.deliver()  # what was written before the end arrives
        self._is_closed = True
        self._link.schedule(self._lose)
        if peer is not None:
            self._link.schedule(peer.abort)

    def _lose(self) -> None:
        assert self.protocol is not None
        self.protocol.connection_lost(None)


class Link:
    """The wire between a client and a server, and the faults of it.

    Attributes:
        piece_bytes: greatest piece in which bytes arrive; 0: as they were written.
        is_held: whether bytes stay on the way.
    """

    def __init__(self, piece_bytes: int = 0) -> None:
        self.piece_bytes = piece_bytes
        self.is_held = False
        self._loop = asyncio.get_running_loop()
        self.near = _HalfTransport(self)
        self.far = _HalfTransport(self)
        self.near.peer, self.far.peer = self.far, self.near

    def schedule(self, function: Callable[[], None]) -> None:
        self._loop.call_soon(function)

    def cut(self) -> None:
        """End the connection."""
        self.far.abort()

    def hold(self) -> None:
        """Let bytes stay on the way."""
        self.is_held = True

    def release(self) -> None:
        """Let bytes arrive again."""
        self.is_held = False
        self.schedule(self.near.deliver)
        self.schedule(self.far.deliver)


def open_link(
    server: RpcServer,
    name: str = "shard 0",
    *,
    piece_bytes: int = 0,
    on_close: Callable[[str], None] | None = None,
) -> tuple[RpcClient, Link]:
    """Connect a client with a server; the handshake is still to be made."""
    link = Link(piece_bytes)
    client = RpcClient(name, on_close)
    link.near.protocol, link.far.protocol = client, ServerConnection(server)
    link.far.protocol.connection_made(link.far)
    client.connection_made(link.near)
    return client, link


async def connect(
    server: RpcServer, hello: Hello, *, piece_bytes: int = 0
) -> tuple[RpcClient, Link]:
    """Connect a client with a server and shake hands."""
    client, link = open_link(server, f"shard {hello.shard}", piece_bytes=piece_bytes)
    await client.greet(hello)
    return client, link
