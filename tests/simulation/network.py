"""Connections of the simulated world: TCP as its users see it, over loopback.

Bytes of one connection arrive in order, in pieces that chance makes; different connections are
late independently. A connection can be held (nothing arrives for a while), cut (both ends lose it,
what is on the way may or may not arrive) or end with a process, whose last words may or may not
arrive.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import itertools
from collections import deque
from functools import partial
from typing import Any, NamedTuple

from tests.simulation.event_loop import EventLoop
from tests.simulation.world import Process, World

LATENCY_SECONDS = 0.0002
BUFFER_BYTES_MAX = 64 * 1024


class BoundSocket(NamedTuple):
    """A socket that `create_server` listens on."""

    port: int


class Listener:
    """`asyncio.Server`."""

    def __init__(self, loop: EventLoop, factory: Any, port: int) -> None:
        self.loop = loop
        self.factory = factory
        self.port = port
        self.is_open = True

    @property
    def sockets(self) -> list[Listener]:
        return [self]

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    def close(self) -> None:
        self.is_open = False

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""


class End(asyncio.Transport):
    """One side of a connection.

    Attributes:
        held_until: nothing arrives here before.
    """

    def __init__(self, network: Network, loop: EventLoop) -> None:
        super().__init__()
        self.loop = loop
        self.peer: End
        self.protocol: Any = None
        self.held_until = 0.0
        self._network = network
        self._world = network.world
        self._on_the_way: deque[tuple[float, bytes | None]] = deque()  # to us; None: the end
        self._num_on_the_way = 0
        self._inbox: deque[bytes | None] = deque()
        self._is_delivery_due = False
        self._is_reading_due = False
        self._is_reading_paused = False
        self._is_writing_paused = False
        self._is_closing = False
        self.is_gone = False

    # --- the interface of a transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)}.get(name, default)

    def get_protocol(self) -> Any:
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not self._is_reading_paused

    def pause_reading(self) -> None:
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        self._is_reading_paused = False
        self._read_soon()

    def get_write_buffer_size(self) -> int:
        return self.peer._num_on_the_way

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Limits are the world's."""

    def write(self, data: Any) -> None:
        if self._is_closing or self.loop.process.is_dead or not len(data):
            return
        self.peer._send(bytes(data))
        if self.peer._num_on_the_way > BUFFER_BYTES_MAX and not self._is_writing_paused:
            self._is_writing_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self.peer._send(None)
            self._lose_soon(None)

    def abort(self) -> None:
        if not self.is_gone:
            self._is_closing = True
            self.leave(ConnectionResetError(errno.ECONNRESET, "reset"))
            self._lose_soon(None)

    # --- the way of the bytes

    def accept(self, factory: Any) -> None:
        """Begin, on the listening side."""
        self.protocol = factory()
        self.protocol.connection_made(self)

    def _send(self, piece: bytes | None) -> None:
        """Let something set out to this end."""
        world = self._world
        at = world.now + world.random.expovariate(1 / LATENCY_SECONDS)
        if self._on_the_way:
            at = max(at, self._on_the_way[-1][0])
        self._on_the_way.append((at, piece))
        self._num_on_the_way += 0 if piece is None else len(piece)
        self._deliver_at(at)

    def _deliver_at(self, at: float) -> None:
        if not self._is_delivery_due:
            self._is_delivery_due = True
            self._world.call_at(max(at, self.held_until), self._deliver)

    def _deliver(self) -> None:
        """Take what has arrived."""
        self._is_delivery_due = False
        if self.is_gone or self.loop.process.is_dead:
            return
        now = self._world.now
        while self._on_the_way and max(self._on_the_way[0][0], self.held_until) <= now:
            piece = self._on_the_way.popleft()[1]
            self._num_on_the_way -= 0 if piece is None else len(piece)
            self._inbox.append(piece)
        if self._on_the_way:
            self._deliver_at(self._on_the_way[0][0])
        peer = self.peer
        if peer._is_writing_paused and self._num_on_the_way <= BUFFER_BYTES_MAX // 4:
            peer._is_writing_paused = False
            if not peer.is_gone and not peer.loop.process.is_dead:
                peer._soon(peer.protocol.resume_writing)
        self._read_soon()

    def _read_soon(self) -> None:
        if self._inbox and not self._is_reading_due and not self._is_reading_paused:
            self._is_reading_due = True
            self._soon(self._read)

    def _read(self) -> None:
        """Give the protocol what has arrived, or a part of it."""
        self._is_reading_due = False
        if self.is_gone or self._is_closing or self._is_reading_paused:
            return
        pieces = []
        while self._inbox and self._inbox[0] is not None:
            pieces.append(self._inbox.popleft())
        data = b"".join(one for one in pieces if one is not None)
        if len(data) > 1 and self._world.random.random() < 0.3:
            cut = self._world.random.randrange(1, len(data))
            self._inbox.appendleft(data[cut:])
            data = data[:cut]
        if data:
            self.protocol.data_received(data)
        elif self._inbox:
            self._inbox.clear()
            if not self.protocol.eof_received():
                self.close()
        self._read_soon()

    # --- the end

    def leave(self, error: Exception | None) -> None:
        """Let the other end know, some time, that this one is no more.

        What was on the way to it may arrive before, or be lost.
        """
        peer, world = self.peer, self._world
        if world.random.random() < 0.5 and peer._on_the_way:
            kept = world.random.randrange(len(peer._on_the_way) + 1)
            while len(peer._on_the_way) > kept:
                piece = peer._on_the_way.pop()[1]
                peer._num_on_the_way -= 0 if piece is None else len(piece)
        last = peer._on_the_way[-1][0] if peer._on_the_way else world.now
        at = last + world.random.expovariate(1 / LATENCY_SECONDS)
        world.call_at(at, partial(peer._break, error))

    def _break(self, error: Exception | None) -> None:
        if self.is_gone or self.loop.process.is_dead:
            return
        if self.held_until > self._world.now:
            self._world.call_at(self.held_until, partial(self._break, error))
            return
        self._deliver()
        self._soon(partial(self._end_by_peer, error))

    def _end_by_peer(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._read()
            self._is_closing = True
            self._lose(error)

    def _lose_soon(self, error: Exception | None) -> None:
        self._soon(partial(self._lose, error))

    def _lose(self, error: Exception | None) -> None:
        if not self.is_gone:
            self.is_gone = True
            self.protocol.connection_lost(error)

    def _soon(self, function: Any) -> None:
        self.loop.call_soon(function, context=contextvars.Context())


class Network:
    """All connections of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._listeners: dict[int, Listener] = {}
        self._ends: list[End] = []
        self._ports = itertools.count(20_000)

    def listen(self, loop: EventLoop, factory: Any, port: int | None) -> Listener:
        port = port or next(self._ports)
        former = self._listeners.get(port)
        if former is not None and former.is_open and not former.loop.process.is_dead:
            raise OSError(errno.EADDRINUSE, "the port is taken")
        listener = self._listeners[port] = Listener(loop, factory, port)
        return listener

    async def connect(self, loop: EventLoop, factory: Any, port: int) -> tuple[End, Any]:
        """Open a connection; the other side hears of it a moment earlier or later."""
        arrived: asyncio.Future[None] = loop.create_future()

        def arrive() -> None:
            if not loop.process.is_dead and not arrived.done():
                loop.call_soon(_wake, arrived)

        self.world.call_at(
            self.world.now + self.world.random.expovariate(1 / LATENCY_SECONDS), arrive
        )
        await arrived
        listener = self._listeners.get(port)
        if listener is None or not listener.is_open or listener.loop.process.is_dead:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "no process listens there")
        near, far = End(self, loop), End(self, listener.loop)
        near.peer, far.peer = far, near
        self._ends = [end for end in self._ends if not end.is_gone] + [near, far]
        far._soon(partial(far.accept, listener.factory))
        near.protocol = factory()
        near.protocol.connection_made(near)
        return near, near.protocol

    def bury(self, process: Process) -> None:
        """End all connections of a process that died."""
        for end in self._ends:
            if end.loop.process is process and not end.is_gone:
                end.is_gone = True
                end.leave(
                    ConnectionResetError(errno.ECONNRESET, "reset")
                    if self.world.random.random() < 0.5
                    else None
                )

    def between(self, one: Process, other: Process) -> list[End]:
        """Return the ends at `one` of all connections with another process."""
        return [
            end
            for end in self._ends
            if not end.is_gone and end.loop.process is one and end.peer.loop.process is other
        ]

    def cut(self, end: End) -> None:
        """Cut a connection."""
        error = ConnectionResetError(errno.ECONNRESET, "cut")
        end.leave(error)
        end.peer.leave(error)

    def hold(self, end: End, seconds: float) -> None:
        """Let nothing arrive at an end for a while."""
        end.held_until = self.world.now + seconds


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
