"""An HTTP client in the simulated world: one keep-alive connection, one request at a time."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

from tests.simulation.service import PORT

HANGS_AFTER_SECONDS = 100.0
"""Longer than every deadline of the service together."""


class Reply(NamedTuple):
    """One answer."""

    status: int
    json: Any
    etag: str = ""

    @property
    def error(self) -> str:
        """The code of an error."""
        return "" if self.status < 400 else str(self.json["error"]["code"])


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: Any = None
        self.answer: asyncio.Future[Reply] | None = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def belongs_to(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it can be used, and by this process."""
        return self.transport is not None and self.transport.loop is loop

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.split(b"\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(b":") for line in lines[1:])
        }
        length = int(headers[b"content-length"])
        if len(body) < length:
            return
        self._buffer = body[length:]
        assert self.answer is not None, "an answer without a request"
        status = int(lines[0].split()[1])
        tag = headers.get(b"etag", b"").decode()
        self.answer.set_result(Reply(status, json.loads(body[:length] or b"null"), tag))
        if headers.get(b"connection") == b"close":
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(ConnectionResetError("lost"))


class Client:
    """One client; `request` is the whole interface."""

    def __init__(self, port: int = PORT) -> None:
        self._port = port
        self._connection: _Connection | None = None

    async def request(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        text: bytes | None = None,
        headers: str = "",
    ) -> Reply:
        """Send one request, never twice.

        Raises:
            OSError: the connection failed; the outcome is unknown.
            AssertionError: the request hung.
        """
        loop = asyncio.get_running_loop()
        connection = self._connection
        if connection is None or not connection.belongs_to(loop):
            _, connection = await loop.create_connection(_Connection, "127.0.0.1", self._port)
            self._connection = connection
        body = (
            text if text is not None else b"" if document is None else json.dumps(document).encode()
        )
        kind = "application/json" if text is None else "text/plain"
        answer = connection.answer = loop.create_future()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{headers}"
            f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection.transport.write(head.encode() + body)
        try:
            async with asyncio.timeout(HANGS_AFTER_SECONDS):
                reply: Reply = await answer
        except TimeoutError:
            raise AssertionError(f"{method} {path} hung") from None
        finally:
            connection.answer = None
        return reply
