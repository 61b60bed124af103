"""The startup listener answers on the port until the coordinator takes it over.

    supervisor ── listens ── 503 starting ──┐
    coordinator ── imports, opens ── writes ┴▶ supervisor stops listening ── coordinator listens

Every request gets a 503 `starting` in the usual error envelope or, for browsers, a page that
reloads itself; pages of allowed origins can read it, too. The coordinator writes one byte to the
takeover pipe as soon as it could listen, then retries until the port is free, which takes some
milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import time
from collections.abc import Sequence
from html import escape
from typing import Final

from coordinator.http.listening import BACKLOG, listen
from coordinator.http.security.cors import PREFLIGHT, AllowedOrigins

REQUEST_BYTES_MAX: Final = 64 * 1024
READ_SECONDS: Final = 5.0
CONNECTIONS_MAX: Final = 256
"""The process that listens also starts the others: connections must not take its descriptors."""
PAUSE_SECONDS: Final = 0.2
"""After an accept that failed, as without a free descriptor."""

_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="1">
<title>facetd is starting</title>
<body style="font: 1rem system-ui; margin: 20vh auto; max-width: 30rem; text-align: center">
<h1>facetd is starting</h1><p>{message}</p><progress aria-label="Start of the service"></progress>
"""


class StartupListener:
    """Listens on the service's address until the coordinator does.

    Args:
        origins: of other pages that may use the API.

    Attributes:
        doing: what the start is doing, as the end of a sentence.
    """

    def __init__(self, origins: AllowedOrigins) -> None:
        self._origins = origins
        self.doing = "processes are being started"
        self._started = time.monotonic()
        self._num_connections = 0
        self._listeners: list[socket.socket] = []
        self._are_own = True
        self._answering: set[asyncio.Task[None]] = set()
        self._takeover, self.takeover_end = os.pipe()

    def begin(self, host: str, port: int, listeners: Sequence[socket.socket] | None = None) -> None:
        """Start to listen.

        Args:
            host: address or name.
            port: 0: the coordinator will choose one.
            listeners: sockets that listen already, if there are any; they are closed at the end.

        Raises:
            OSError: nothing can listen there.
        """
        if listeners is None and port == 0:
            return
        self._are_own = listeners is None
        self._listeners += listen(host, port) if listeners is None else listeners
        loop = asyncio.get_running_loop()
        for one in self._listeners:
            one.setblocking(False)
            loop.add_reader(one, self._accept, one)
        loop.add_reader(self._takeover, self.end)

    def end(self) -> None:
        """Stop listening; requests already received still get their response."""
        if self._takeover < 0:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._takeover)
        for one in self._listeners:
            loop.remove_reader(one)
            if self._are_own:  # or else the coordinator takes those that wait
                self._accept(one)
            one.close()
        self._listeners.clear()
        os.close(self._takeover)
        os.close(self.takeover_end)
        self._takeover = self.takeover_end = -1

    def _accept(self, listener: socket.socket) -> None:
        """Respond on waiting connections.

        `asyncio.start_server` is unsuitable: a connection that it has accepted, but not yet
        prepared when it is closed, is neither answered nor closed.
        """
        for _ in range(BACKLOG):
            try:
                connection, _address = listener.accept()
            except BlockingIOError:
                return
            except OSError:
                loop = asyncio.get_running_loop()
                loop.remove_reader(listener)
                loop.call_later(PAUSE_SECONDS, self._go_on, listener)
                return
            task = asyncio.create_task(self._serve(connection))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    def _go_on(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    async def _serve(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            streams = await asyncio.open_connection(sock=connection, limit=REQUEST_BYTES_MAX)
        except OSError:
            connection.close()
            return
        await self._answer(*streams)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond to one request, whatever it is."""
        self._num_connections += 1
        try:
            if self._num_connections > CONNECTIONS_MAX:
                return
            async with asyncio.timeout(READ_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(self.response(head))
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._num_connections -= 1
            writer.close()

    def response(self, head: bytes) -> bytes:
        """Return the response to a request.

        Args:
            head: request line and headers.
        """
        origin = _header(head, b"origin")
        if _is_preflight(head) and self._origins.allow(origin):
            return b"HTTP/1.1 204 No Content\r\n%b%bConnection: close\r\n\r\n" % (
                self._origins.header_lines(origin),
                PREFLIGHT,
            )
        message = f"the service is starting ({self.doing}); try again shortly"
        if b"text/html" in head.lower():
            kind, text = "text/html; charset=utf-8", _PAGE.format(message=escape(self.doing))
        else:
            kind = "application/json"
            seconds = round(time.monotonic() - self._started, 1)
            error = {
                "code": "starting",
                "message": message,
                "status": 503,
                "request_id": f"start-{secrets.token_hex(4)}",
                "progress": {"share": 0.0, "seconds": seconds, "seconds_left": None},
            }
            text = json.dumps({"error": error})
        body = text.encode()
        lines = (
            "HTTP/1.1 503 Service Unavailable",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Retry-After: 1",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        )
        allowing = self._origins.header_lines(origin) if self._origins else b""
        head_only = head.startswith(b"HEAD ")
        return b"".join(
            (
                *(f"{line}\r\n".encode() for line in lines),
                *(allowing, b"\r\n", b"" if head_only else body),
            )
        )


def _header(head: bytes, name: bytes) -> str | None:
    """Return the value of a header, if it is there.

    Args:
        head: request line and headers.
        name: of the header, in lower case.
    """
    for line in head.split(b"\r\n")[1:]:
        found, colon, value = line.partition(b":")
        if colon and found.lower() == name:
            return value.strip().decode("latin-1")
    return None


def _is_preflight(head: bytes) -> bool:
    """Return whether a browser asks what a page of another origin may send."""
    return head.startswith(b"OPTIONS ") and (
        _header(head, b"access-control-request-method") is not None
    )


def request_takeover(takeover_end: int) -> None:
    """Ask the supervisor for the port; the startup listener may have ended already."""
    with contextlib.suppress(OSError):
        os.write(takeover_end, b"!")
    with contextlib.suppress(OSError):
        os.close(takeover_end)
