"""Responses: head and body as the bytes written to the socket, and the one shape of all errors.

`Response` replaces aiohttp's Response: it has the two methods that aiohttp's request handler calls
(`prepare`, `write_eof`) and writes head and body in one call. On the development machine this saves
11 of the 44 µs of a request that does nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import socket
import struct
import time
from collections.abc import AsyncGenerator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final

import orjson

from common.errors import InternalError, ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator.http.request import Request

JSON: Final = b"application/json"
MESSAGE_CHARS_MAX: Final = 2_000
"""Limit of an error's message or param: both may quote what the client sent."""
JOINED_BYTES_MAX: Final = 64 * 1024
"""Up to this size, head and body are joined: a copy is cheaper than a second write."""
WRITE_BYTES: Final = 256 * 1024
"""A longer body is written in parts of this size, each in a separate tick of the event loop:
handing a megabyte to the socket takes half a millisecond."""

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_NO_BODY: Final = frozenset((204, 304))


class _DateHeader:
    """The Date header line, rendered once a second."""

    def __init__(self) -> None:
        self._second = -1
        self._line = b""

    def __call__(self) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second = second
            text = email.utils.formatdate(second, usegmt=True)
            self._line = (
                f"Date: {text}\r\nServer: facetd\r\nX-Content-Type-Options: nosniff\r\n".encode()
            )
        return self._line


_common_headers: Final = _DateHeader()


class Response:
    """One complete HTTP response.

    Attributes:
        status: HTTP status.
        body: content; never modified once set.
        content_type: of the body.
        headers: further header lines, each ended by CRLF; their values are safe to send.
        keep_alive: read by aiohttp after the response is written.
    """

    __slots__ = ("body", "content_type", "headers", "keep_alive", "status")
    is_relayed: ClassVar[bool] = False
    """Whether another coordinator made it, counted it and completed its headers."""

    def __init__(
        self,
        body: bytes,
        *,
        status: int = 200,
        content_type: bytes = JSON,
        headers: bytes = b"",
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers
        self.keep_alive = True

    def close_after(self) -> Response:
        """Close the connection after this response; return the response itself."""
        self.keep_alive = False
        return self

    async def prepare(self, request: Request) -> None:
        """Write the whole response.

        Raises:
            ConnectionResetError: the client is gone.
        """
        protocol = request.protocol
        transport = protocol.transport
        if transport is None:
            raise ConnectionResetError("the client is gone")
        if self.keep_alive and not request.may_go_on:
            self.keep_alive = False
        body = self.body
        has_body = self.status not in _NO_BODY
        head = b"%b%b%b%bX-Request-Id: %b\r\n%b\r\n" % (
            _STATUS_LINES[self.status],
            _common_headers(),
            b"Content-Type: %b\r\nContent-Length: %d\r\n" % (self.content_type, len(body))
            if has_body
            else b"",
            self.headers,
            request.request_id.encode(),
            connection_header(request, self.keep_alive),
        )
        request.status = self.status
        if request.method == "HEAD" or not has_body:
            transport.write(head)
        elif len(body) <= JOINED_BYTES_MAX:
            transport.write(head + body)
        else:
            transport.write(head)
            content = memoryview(body)
            for start in range(0, len(body), WRITE_BYTES):
                if start:
                    await (request.drain(len(body)) if request.must_drain else asyncio.sleep(0))
                if transport.is_closing():
                    raise ConnectionResetError("the client is gone")
                transport.write(content[start : start + WRITE_BYTES])
        if request.must_drain:
            await request.drain(len(body))

    async def write_eof(self) -> None:
        """Do nothing: `prepare` wrote everything."""


def connection_header(request: Request, keep_alive: bool) -> bytes:
    """Return the Connection header line, if it differs from the client's default."""
    if not keep_alive:
        return b"Connection: close\r\n"
    if request.is_http_1_0:
        return b"Connection: keep-alive\r\n"
    return b""


def header(name: str, value: str) -> bytes:
    """Return one header line; line breaks in the value become spaces."""
    clean = value.replace("\r", " ").replace("\n", " ")
    return f"{name}: {clean}\r\n".encode("latin-1", "replace")


def json_response(document: Any, *, status: int = 200, headers: bytes = b"") -> Response:
    """Return a JSON response."""
    return Response(orjson.dumps(document), status=status, headers=headers)


# --- errors -----------------------------------------------------------------------------------

RETRY_AFTER_SECONDS: Final[Mapping[str, int]] = {
    "overloaded": 1,
    "starting": 1,
    "replica_lags": 1,
    "shard_unavailable": 2,
    "switched": 1,
    "too_many_requests": 1,
    "insufficient_storage": 30,
}


def error_body(error: ServiceError, request_id: str, *, is_algolia: bool = False) -> bytes:
    """Return the error envelope; Algolia's clients expect message and status next to it."""
    members: dict[str, Any] = {
        "code": error.code,
        "message": error.message[:MESSAGE_CHARS_MAX],
        "status": error.http_status,
    }
    if error.param is not None:
        members["param"] = error.param[:MESSAGE_CHARS_MAX]
    members["request_id"] = request_id
    if "fault" in error.details:
        members["fault"] = error.details["fault"][:MESSAGE_CHARS_MAX]
    for name, value in error.details.items():
        members.setdefault(name, value)
    outside = {name: members[name] for name in ("message", "status")} if is_algolia else {}
    try:
        return orjson.dumps({**outside, "error": members})
    except TypeError:  # a detail cannot be encoded: send the error without details
        members = {name: members[name] for name in ("code", "message", "status", "request_id")}
        return orjson.dumps({**outside, "error": members})


def error_response(error: ServiceError, request_id: str, *, is_algolia: bool = False) -> Response:
    """Return the response to a failed request."""
    headers = b""
    allow = error.details.get("allow")
    if allow is not None:
        headers += header("Allow", ", ".join(allow))
    if error.is_retryable:
        seconds = error.details.get("retry_after", RETRY_AFTER_SECONDS.get(error.code))
        if seconds is not None:
            headers += header("Retry-After", str(seconds))
    if error.http_status == 401:
        headers += b'WWW-Authenticate: Bearer realm="facetd"\r\n'
    body = error_body(error, request_id, is_algolia=is_algolia)
    return Response(body, status=error.http_status, headers=headers)


def internal_error() -> InternalError:
    """Return the error that clients see after a bug: the request id, not the exception's text."""
    return InternalError("something went wrong here; the log has details under this request_id")


# --- streams ----------------------------------------------------------------------------------


class Stream(Response):
    """A response of unknown length, sent in chunks as they are made.

    A failure midway can no longer become an error response: the connection is aborted, so that the
    client sees a truncated body, never one that looks complete. (A body without chunks, as HTTP/1.0
    has it and some proxies speak it, ends with the connection: so the connection is reset.)

    Args:
        chunks: of the body.
        content_type: of the body.
        trailers: returns header lines to send after the last chunk.
    """

    __slots__ = ("_chunks", "_trailers")

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        *,
        content_type: bytes,
        trailers: Callable[[], bytes] = bytes,
    ) -> None:
        super().__init__(b"", content_type=content_type)
        self._chunks = chunks
        self._trailers = trailers

    async def prepare(self, request: Request) -> None:
        """Write head and chunks.

        Raises:
            ConnectionResetError: the client is gone.
        """
        protocol = request.protocol
        transport = protocol.transport
        if transport is None:
            raise ConnectionResetError("the client is gone")
        is_chunked = not request.is_http_1_0
        if not is_chunked or not request.may_go_on:
            self.keep_alive = False
        request.status = self.status
        transport.write(
            b"%b%bContent-Type: %b\r\n%b%bX-Request-Id: %b\r\n%b\r\n"
            % (
                _STATUS_LINES[self.status],
                _common_headers(),
                self.content_type,
                b"Transfer-Encoding: chunked\r\n" if is_chunked else b"",
                self.headers,
                request.request_id.encode(),
                connection_header(request, self.keep_alive),
            )
        )
        if request.method == "HEAD":
            await self._chunks.aclose()
            return
        try:
            async for chunk in self._chunks:
                if not chunk:
                    continue
                if protocol.transport is None:
                    raise ConnectionResetError("the client is gone")
                transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if is_chunked else chunk)
                await request.drain()
        except BaseException:
            self.keep_alive = False
            if is_chunked:
                transport.abort()
            else:
                reset(transport)
            raise
        finally:
            await self._chunks.aclose()
        if is_chunked:
            transport.write(b"0\r\n%b\r\n" % self._trailers())


def reset(transport: asyncio.Transport) -> None:
    """Abort a connection so that the peer sees an error instead of the end of the stream."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
