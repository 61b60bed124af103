"""Requests of a reader: searches are answered here, everything else is passed on to the owner.

    client ── HTTP ──▶ reader ── shared route ──▶ shards
                         └────── any other ─────▶ a connection to the owner, for this request

The owner gets the request as the client sent it and answers it as its own. The response is relayed
byte for byte, but for the headers about the connection. If the owner dies meanwhile, the client's
connection ends without a response, as it would if the owner had been its peer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aiohttp import hdrs
from aiohttp.client_exceptions import ClientPayloadError
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestPayloadError

from common.errors import ServiceError
from coordinator.cluster.read_only_cluster_and_catalog import OwnerOnly, ReaderCatalog
from coordinator.http.metrics import UNROUTED
from coordinator.http.middleware import MAX_LAG, MIN_SEQ, Middleware
from coordinator.http.responses import Response, connection_header, internal_error, reset

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from coordinator.http.reader_coordinator_messages import Outbox
    from coordinator.http.request import Request
    from coordinator.http.routing import ServedRoute
    from coordinator.http.services import Services

PART_BYTES: Final = 256 * 1024

_OF_CONNECTION: Final = frozenset(
    ("connection", "keep-alive", "proxy-connection", "upgrade", "x-request-id")
)
_OF_BODY: Final = frozenset(("content-length", "transfer-encoding", "content-encoding", "expect"))
_OF_HTTP_1_1: Final = frozenset(("expect",))
"""A client of HTTP/1.0 would take 100 Continue for its response."""
_LEAVES_BODY: Final = frozenset((408, 413, 415, 417))
"""Statuses after which the rest of the request is not read."""
_BROKEN: Final = (RequestPayloadError, ClientPayloadError, HttpProcessingError)


class Relayed(Response):
    """A response of the owner, which has been sent already."""

    __slots__ = ()
    is_relayed: ClassVar[bool] = True

    async def prepare(self, request: Request) -> None:
        """Do nothing: `pass_on` has written everything."""


class ReaderMiddleware(Middleware):
    """Answers searches, and passes other requests on.

    Args:
        services: passed to every route.
        routes: the route table.
        more: arguments of the next class (traces).
    """

    def __init__(self, services: Services, routes: Iterable[ServedRoute], *more: Any) -> None:
        super().__init__(services, routes, *more)
        assert services.outbox is not None
        assert isinstance(services.catalog, ReaderCatalog)
        self._outbox = services.outbox
        self._copy = services.catalog
        self._has_log = bool(services.settings.log_url)
        self._shared = services.shared

    @property
    def _is_withheld(self) -> bool:
        """Whether the owner has yet to catch up with other hosts, who may have changed anything."""
        return self._has_log and self._shared is not None and not self._shared.is_serving

    async def __call__(self, request: Request) -> Response:
        """Answer one request; raises nothing but cancellation."""
        try:
            try:
                if not self._copy.is_current:
                    await self._copy.catch_up()
                if not self._is_withheld:
                    return await super().__call__(request)
            except OwnerOnly:  # its data is not here, or its key may be on another host
                pass
            return await pass_on(self._outbox, request)
        except ServiceError as error:
            return self._finished(self._refusal(error, request), request, UNROUTED)
        except ConnectionError:
            return self._finished(self._refusal(internal_error(), request), request, UNROUTED)

    async def _answer(self, route: ServedRoute, request: Request) -> Response:
        """Answer a request of a shared route; pass any other on."""
        if not route.is_shared or (
            self._has_log and (MIN_SEQ in request.headers or MAX_LAG in request.headers)
        ):
            request.ends_with_client = not route.is_change
            return await pass_on(self._outbox, request)
        try:
            return await super()._answer(route, request)
        except OwnerOnly:
            return await pass_on(self._outbox, request, request.body, is_counted=True)


async def pass_on(
    outbox: Outbox, request: Request, body: bytes | None = None, *, is_counted: bool = False
) -> Response:
    """Have the owner answer a request, and relay its response.

    Args:
        outbox: leads to the owner.
        request: of a client.
        body: decompressed, if it has been read; None: it is yet to be read.
        is_counted: whether the request is counted against the client's rate already.

    Raises:
        Unavailable: the owner does not take it.
        ConnectionError: the client is gone, or the owner ended before it had answered.
    """
    reader, writer = await outbox.open(request.peer_address, is_counted=is_counted)
    sending = None
    try:
        writer.write(_head(request, body))
        if body is not None:
            writer.write(body)
        elif request.has_body or request.is_chunked:
            sending = asyncio.ensure_future(_send_body(request, writer))
        try:
            return await _relay(reader, request)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            transport = request.protocol.transport
            if transport is not None:
                reset(transport)
            raise ConnectionResetError("the owner ended before it had answered") from error
    finally:
        if sending is not None:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        writer.transport.abort()


def _head(request: Request, body: bytes | None) -> bytes:
    """Return request line and headers for the owner.

    The request is always HTTP/1.1, so a response of unknown length comes in chunks, and a truncated
    one is recognized.
    """
    left_out = _OF_CONNECTION if body is None else _OF_CONNECTION | _OF_BODY
    if request.is_http_1_0:
        left_out |= _OF_HTTP_1_1
    lines = [f"{request.method} {request.target} HTTP/1.1"]
    lines += [
        f"{name}: {text}" for name, text in request.headers.items() if name.lower() not in left_out
    ]
    if request.is_http_1_0 and hdrs.HOST not in request.headers:
        lines.append("Host: localhost")  # which the reader has checked
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    lines += [f"X-Request-Id: {request.request_id}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape")


async def _send_body(request: Request, writer: asyncio.StreamWriter) -> None:
    """Send the owner the body as it arrives."""
    try:
        async for chunk in request.parts():
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if request.is_chunked else chunk)
            await writer.drain()
        if request.is_chunked:
            writer.write(b"0\r\n\r\n")
    except _BROKEN:
        writer.write_eof()  # the owner sees as much of it as we do
    except ConnectionError:
        writer.transport.abort()


async def _relay(reader: asyncio.StreamReader, request: Request) -> Response:
    """Send the client the owner's response."""
    head = await reader.readuntil(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 1"):  # 100 Continue
        _write(request, head)
        head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    is_old = request.is_http_1_0
    lines = []
    length: int | None = None
    is_chunked = False
    for line in head[:-4].split(b"\r\n"):
        name = line.partition(b":")[0].lower()
        if name == b"content-length":
            length = int(line.partition(b":")[2])
        elif name == b"transfer-encoding":
            is_chunked = True
        if name != b"connection" and not (is_old and name == b"transfer-encoding"):
            lines.append(line)
    answer = Relayed(b"", status=status)
    answer.keep_alive = (
        request.may_go_on and status not in _LEAVES_BODY and not (is_chunked and is_old)
    )
    request.status = status
    connection = connection_header(request, answer.keep_alive)
    _write(request, b"%b\r\n%b\r\n" % (b"\r\n".join(lines), connection))
    if request.method == "HEAD" or status in (204, 304):
        return answer
    parts = _chunks(reader, is_old) if is_chunked else _parts(reader, length or 0)
    async for part in parts:
        _write(request, part)
        if request.must_drain:
            await request.drain()
    return answer


def _write(request: Request, part: bytes) -> None:
    transport = request.protocol.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client is gone")
    transport.write(part)


async def _parts(reader: asyncio.StreamReader, num_bytes: int) -> AsyncIterator[bytes]:
    """Yield a body of known length."""
    while num_bytes:
        part = await reader.read(min(num_bytes, PART_BYTES))
        if not part:
            raise asyncio.IncompleteReadError(b"", num_bytes)
        num_bytes -= len(part)
        yield part


async def _chunks(reader: asyncio.StreamReader, is_bare: bool) -> AsyncIterator[bytes]:
    """Yield a body in chunks, with its framing or bare; ends after the last chunk."""
    while True:
        line = await reader.readuntil(b"\r\n")
        num_bytes = int(line, 16)
        if not is_bare:
            yield line
        if not num_bytes:
            break
        async for part in _parts(reader, num_bytes):
            yield part
        end = await reader.readexactly(2)
        if not is_bare:
            yield end
    while True:
        line = await reader.readuntil(b"\r\n")
        if not is_bare:
            yield line
        if line == b"\r\n":
            return
