"""Messages from readers to the owner: connections that carry a request, and reports of their work.

    reader ── message "c" + the client's address, with one end of a new socket pair ──▶ owner
           ── message "r" + a report (`reader_coordinator_reports`) ───────────────────▶

All readers share one end of a pair of sockets that keeps the boundaries of messages, the owner has
the other, and the supervisor holds both: messages sent while an owner is being replaced wait for
the next one. There is no name or port to which another process could connect.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final

from common.errors import Unavailable
from common.process.logs import Log

MESSAGE_BYTES_MAX: Final = 64 * 1024
MESSAGES_AT_ONCE: Final = 64
RETRY_SECONDS: Final = 0.002
"""Interval between attempts while the owner has not taken earlier messages."""
PATIENCE_SECONDS: Final = 5.0

_CONNECTION, _COUNTED, _REPORT = b"c", b"C", b"r"

_log = Log("http")


def create_exchange() -> tuple[socket.socket, socket.socket]:
    """Return the owner's end and the readers' end."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Outbox:
    """The readers' end, in a reader.

    Args:
        descriptor: inherited; shared with other processes.
    """

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)

    async def open(
        self, client: str, *, is_counted: bool
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to the owner, which answers one request on it.

        Args:
            client: address of the client.
            is_counted: whether the request is counted against the client's rate already.

        Raises:
            Unavailable: the owner does not take it.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                kind = _COUNTED if is_counted else _CONNECTION
                await self._send(kind + client.encode(), theirs.fileno())
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        return await asyncio.open_unix_connection(sock=ours, limit=MESSAGE_BYTES_MAX)

    async def report(self, report: bytes) -> None:
        """Send a report.

        Raises:
            Unavailable: the owner does not take it.
        """
        await self._send(_REPORT + report)

    async def _send(self, message: bytes, *descriptors: int) -> None:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + PATIENCE_SECONDS
        ancillary = []
        if descriptors:
            rights = array.array("i", descriptors)
            ancillary.append((socket.SOL_SOCKET, socket.SCM_RIGHTS, rights))
        while True:
            try:
                self._socket.sendmsg([message], ancillary)
                return
            except OSError as error:  # full, or too many descriptors in transit
                if loop.time() >= give_up_at:
                    raise Unavailable(
                        "the process that changes data takes no requests; try again shortly",
                        code="overloaded",
                    ) from error
            await asyncio.sleep(RETRY_SECONDS)


class Inbox:
    """The owner's end.

    Args:
        descriptor: inherited.
        on_connection: takes a connection, the client's address, and whether the request is counted
            already.
        on_report: takes a report.
    """

    def __init__(
        self,
        descriptor: int,
        on_connection: Callable[[socket.socket, str, bool], None],
        on_report: Callable[[bytes], None],
    ) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._on_connection = on_connection
        self._on_report = on_report

    def start(self) -> None:
        """Take messages from now on."""
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._take)

    def _take(self) -> None:
        for _ in range(MESSAGES_AT_ONCE):
            try:
                message, descriptors, _, _ = socket.recv_fds(self._socket, 2 * MESSAGE_BYTES_MAX, 1)
            except (BlockingIOError, InterruptedError):
                return
            sockets = [socket.socket(fileno=one) for one in descriptors]
            try:
                self._handle(message, sockets)
            except Exception as error:
                _log.error("message of a reader failed", cause=error)
                for one in sockets:
                    with contextlib.suppress(OSError):
                        one.close()

    def _handle(self, message: bytes, sockets: list[socket.socket]) -> None:
        kind, content = message[:1], message[1:]
        if kind == _REPORT:
            self._on_report(content)
            return
        (connection,) = sockets
        connection.setblocking(False)
        self._on_connection(connection, content.decode(), kind == _COUNTED)
