"""Request: one HTTP request and the state needed to answer it.

aiohttp parses the protocol and serializes the requests of a connection. It creates request objects
through a factory, and this is ours: it holds what a route needs and nothing else (creating
aiohttp's own takes 5 µs).

The body. A JSON body is read completely, within a deadline and a limit. A bulk body is a stream of
chunks, each of which must arrive within the deadline. Both may be compressed (gzip, deflate, br):
the limit applies to the received and to the decompressed bytes. Other requests get their turn after
each part. `Expect: 100-continue` is answered when a route starts to read, so a client that is
rejected earlier never sends its body.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import hdrs
from aiohttp.client_exceptions import ClientPayloadError
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestPayloadError

from common.errors import (
    InvalidRequest,
    PayloadTooLarge,
    ServiceError,
)
from common.json.item_scanner import BYTE_ORDER_MARK
from coordinator.http.body_limits import ByteBudget, ByteLimit
from coordinator.http.metrics import UNROUTED
from coordinator.http.request_decompression import inflated, inflater_of
from coordinator.http.security.api_keys import NOBODY, Caller
from coordinator.parameters.request_decoding import decode_component

if TYPE_CHECKING:
    from aiohttp.http_parser import RawRequestMessage
    from aiohttp.streams import StreamReader

    from common.limits import Limits
    from coordinator.catalog.catalog import Index
    from coordinator.http.request_decompression import Inflater
    from coordinator.http.unsent_responses import SlowClients


class RequestTimeout(ServiceError):
    """The body did not arrive in time."""

    http_status = 408
    default_code = "request_timeout"


class ExpectationFailed(ServiceError):
    """The Expect header asks for something the service does not support."""

    http_status = 417
    default_code = "expectation_failed"


class ClientConnection(Protocol):
    """What a request needs of its connection (`aiohttp_connections.Connection`).

    Attributes:
        is_counted: whether requests are counted already against their client's rate.
        peer_address: of the client's socket; empty if it was gone at once.
        transport: None once the client is gone.
    """

    is_counted: bool
    peer_address: str
    transport: asyncio.Transport | None
    _paused: bool  # aiohttp's: the socket takes no more for now

    @property
    def is_ending(self) -> bool:
        """Whether the response to the newest request closes the connection."""

    @property
    def slow_clients(self) -> SlowClients:
        """Those that have not read their responses yet."""

    @property
    def send_seconds(self) -> float:
        """How long the client may leave a response unread before it is considered dead."""

    async def _drain_helper(self) -> None:
        """Wait until the socket takes more (aiohttp's)."""


class Request:
    """One request, from its head to the last byte of its response.

    Attributes:
        method: as sent.
        target: request target (UTF-8 with surrogate escapes): as sent, and once it was split,
            in origin form.
        headers: case-insensitive.
        protocol: the connection, whose requests aiohttp parses.
        keep_alive: whether the client wants to keep the connection open after this request.
        is_http_1_0: whether the client speaks HTTP/1.0.
        started: when the head had arrived, in seconds on `time.perf_counter`.
        request_id: identifies the request in its response and in the logs.
        status: of the response; 0 until that is known.
        route_name: `UNROUTED` until the route is known.
        arguments: decoded arguments in the path; set once the route is known, as are the rest.
        query_string: as sent.
        caller: the client, by its API key.
        index: named by the path, if the route needs one.
        waited_ms: time passed before the request was run again (see `Middleware`).
        body: decompressed, for routes that accept a JSON document.
        is_receiving: whether a JSON body is still arriving.
        ends_with_client: whether it only reads, so that nothing is left to do once the client is
            gone; set when the route begins.
    """

    __slots__ = (
        "_payload",
        "_task",
        "arguments",
        "body",
        "caller",
        "ends_with_client",
        "headers",
        "index",
        "is_http_1_0",
        "is_receiving",
        "keep_alive",
        "method",
        "protocol",
        "query_string",
        "request_id",
        "route_name",
        "started",
        "status",
        "target",
        "waited_ms",
    )

    index: Index
    _task: Any  # set by aiohttp

    def __init__(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: ClientConnection,
        request_id: str,
    ) -> None:
        self.method = message.method
        self.target = message.path
        self.headers = message.headers
        self.keep_alive = not message.should_close
        self.is_http_1_0 = message.version == (1, 0)
        self.protocol = protocol
        self.started = time.perf_counter()
        self.request_id = request_id
        self.status = 0
        self.caller: Caller = NOBODY
        self.route_name = UNROUTED
        self.arguments: tuple[str, ...] = ()
        self.query_string = ""
        self.waited_ms = 0
        self.body = b""
        self.is_receiving = False
        self.ends_with_client = False
        self._payload = payload

    # --- called by aiohttp's RequestHandler

    def _finish(self) -> None:
        """Release the body: the connection keeps its last request for as long as it stays open."""
        self.body = b""
        # The error of a broken one refers to the frames it passed through.
        error = self._payload.exception()
        if error is not None:
            error.__traceback__ = None

    def _cancel(self, cause: BaseException) -> None:
        """Wake the reader of the body: the connection is lost."""
        self._payload.set_exception(cause)

    def cut_off(self) -> None:
        """Handle the end of the client's sending side: an incomplete body will stay so."""
        if not self._payload.is_eof():
            self._payload.set_exception(RequestPayloadError("cut off"))

    # --- the head

    def split_target(self) -> tuple[list[str], str]:
        """Return the decoded segments of the path, and the raw query string.

        Raises:
            InvalidRequest: the path is not UTF-8, or the target has an unsupported form.
        """
        target = self.target
        if not target.startswith("/"):
            target = self.target = origin_form(target)
        path, _, query_string = target.partition("?")
        segments = path[1:].split("/")
        if len(segments) > 1 and not segments[-1]:
            segments.pop()
        if "%" in path or not path.isascii():
            segments = [decode_component(one, plus_is_space=False) for one in segments]
        return segments, query_string.partition("#")[0]

    @property
    def has_body(self) -> bool:
        """Whether a body follows the head."""
        return not self._payload.at_eof()

    @property
    def is_chunked(self) -> bool:
        """Whether the body is sent in chunks."""
        return hdrs.TRANSFER_ENCODING in self.headers

    @property
    def announced_bytes(self) -> int:
        """Content-Length, or 0 if absent."""
        length = self.headers.get(hdrs.CONTENT_LENGTH)
        return int(length) if length is not None and length.isdigit() else 0

    @property
    def can_be_probed(self) -> bool:
        """Whether it matters that the client has left, and an interim response may be sent."""
        return self.ends_with_client and not self.status and not self.is_http_1_0

    @property
    def may_go_on(self) -> bool:
        """Whether the connection may carry another request after this one."""
        return self.keep_alive and not self.protocol.is_ending

    @property
    def peer_address(self) -> str:
        """Address of the client's socket; empty if it is gone."""
        return self.protocol.peer_address

    @property
    def micros(self) -> int:
        """Microseconds since the head had arrived."""
        return int((time.perf_counter() - self.started) * 1e6)

    # --- the body

    async def read_body(self, limits: Limits, limit_name: str, budget: ByteBudget) -> int:
        """Read the whole body into `body`, without a byte order mark.

        Args:
            limits: on time, and on bytes before and after decompression.
            limit_name: name of the limit on bytes.
            budget: shared by all bodies in memory.

        Returns:
            How many bytes were taken from the budget; none if this raises.

        Raises:
            PayloadTooLarge: raised at once if the announced length exceeds the limit.
            Unavailable: code overloaded; the budget is used up.
            RequestTimeout: the body did not arrive in time.
            InvalidRequest: it is truncated, or its framing or compression is invalid.
            ConnectionError: the client is gone.
        """
        payload = self._payload
        if payload.at_eof():
            return 0
        bytes_max = ByteLimit(limits, limit_name)
        inflate = self._begin_body(bytes_max)
        try:
            # Most bodies arrive with the head: then there is nothing to wait for.
            chunk = payload.read_nowait()
            if payload.at_eof() and inflate is None:
                self._check_size(len(chunk), bytes_max)
                budget.take(len(chunk))
                self.body = chunk.removeprefix(BYTE_ORDER_MARK)
                return len(chunk)
            self.is_receiving = True
            async with asyncio.timeout(limits.body_timeout_ms / 1000):
                return await self._read_rest(chunk, inflate, bytes_max, budget)
        except TimeoutError:
            raise RequestTimeout(
                f"the body did not arrive within {limits.shown('body_timeout_ms')} ms; "
                "send it faster, or less of it"
            ) from None
        except (RequestPayloadError, ClientPayloadError, HttpProcessingError) as error:
            raise _broken_body() from error
        finally:
            self.is_receiving = False

    async def _read_rest(
        self, first: bytes, inflate: Inflater | None, bytes_max: ByteLimit, budget: ByteBudget
    ) -> int:
        """Read the rest of the body; a slow body is charged only for bytes received."""
        payload = self._payload
        body = bytearray()
        chunk = first
        num_received = num_taken = 0
        try:
            while True:
                num_received += len(chunk)
                self._check_size(num_received, bytes_max)
                async for part in inflated(chunk, inflate):
                    budget.take(len(part))
                    num_taken += len(part)
                    self._check_size(num_taken, bytes_max)
                    body += part
                if payload.at_eof():
                    break
                chunk = await payload.readany()
            if inflate is not None:
                inflate.finish()
        except BaseException:
            budget.give_back(num_taken)
            raise
        self.body = bytes(body).removeprefix(BYTE_ORDER_MARK)
        return num_taken

    async def body_chunks(self, limits: Limits, limit_name: str) -> AsyncIterator[bytes]:
        """Yield the decompressed body in parts.

        Args:
            limits: on the time until the next part arrives, and on the total bytes.
            limit_name: name of the limit on bytes.

        Raises:
            PayloadTooLarge: possibly midway, if the length was not announced.
            RequestTimeout: nothing arrived for too long.
            InvalidRequest: as in `read_body`.
            ConnectionError: the client is gone.
        """
        payload = self._payload
        if payload.at_eof():
            return
        bytes_max = ByteLimit(limits, limit_name)
        inflate = self._begin_body(bytes_max)
        num_received = num_bytes = 0
        try:
            while not payload.at_eof():
                chunk = payload.read_nowait()
                if not chunk and not payload.at_eof():
                    async with asyncio.timeout(limits.body_timeout_ms / 1000):
                        chunk = await payload.readany()
                num_received += len(chunk)
                self._check_size(num_received, bytes_max)
                async for part in inflated(chunk, inflate):
                    num_bytes += len(part)
                    self._check_size(num_bytes, bytes_max)
                    if part:
                        yield part
            if inflate is not None:
                inflate.finish()
        except TimeoutError:
            raise RequestTimeout(
                f"no part of the body arrived for {limits.shown('body_timeout_ms')} ms; "
                "the load changed nothing"
            ) from None
        except (RequestPayloadError, ClientPayloadError, HttpProcessingError) as error:
            raise _broken_body() from error

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, compressed if it is.

        Raises:
            RequestPayloadError, HttpProcessingError: it is cut off, or wrongly framed.
            ConnectionError: the client is gone.
        """
        payload = self._payload
        while not payload.at_eof():
            part = await payload.readany()
            if part:
                yield part

    def _begin_body(self, bytes_max: ByteLimit) -> Inflater | None:
        """Reject a body that announces itself as too large; else send 100 Continue if expected.

        Returns:
            What decompresses it; None if it is sent as it is.
        """
        if not self._payload.is_eof():  # otherwise it is here already
            self._check_size(self.announced_bytes, bytes_max)
        expectation = self.headers.get(hdrs.EXPECT)
        if expectation is not None and not self.is_http_1_0:
            self._continue(expectation)
        encoding = self.headers.get(hdrs.CONTENT_ENCODING)
        return None if encoding is None else inflater_of(encoding.strip().lower())

    def _continue(self, expectation: str) -> None:
        """Let the client send the body that it holds back."""
        if expectation.lower() != "100-continue":
            raise ExpectationFailed("the only expectation that can be met is 100-continue")
        transport = self.protocol.transport
        if transport is not None:
            transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _check_size(self, num_bytes: int, bytes_max: ByteLimit) -> None:
        """Reject a body that exceeds its limit."""
        if num_bytes > bytes_max.value:
            raise PayloadTooLarge(
                f"the body has more than {bytes_max.limits.shown(bytes_max.name)} bytes "
                "(before or after decompression)"
            )

    @property
    def must_drain(self) -> bool:
        """Whether the client reads more slowly than we write."""
        return self.protocol._paused

    async def drain(self, num_bytes: int = 0) -> None:
        """Wait until the socket can take more.

        Args:
            num_bytes: that stay in memory meanwhile.

        Raises:
            ConnectionResetError: the client is gone, or has read nothing for too long.
        """
        protocol = self.protocol
        transport = protocol.transport
        if transport is None:
            raise ConnectionResetError("the client is gone")
        try:
            with protocol.slow_clients.waiting(transport, num_bytes):
                async with asyncio.timeout(protocol.send_seconds):
                    await protocol._drain_helper()
        except TimeoutError:
            transport.abort()
            raise ConnectionResetError("the client does not read") from None
        except ConnectionError as error:
            # Its frames have the response, and the future that has it: they would keep each other
            # until the garbage collector comes, which in an idle process is never.
            error.__traceback__ = None
            raise ConnectionResetError("the client is gone") from None


def origin_form(target: str) -> str:
    """Return path and query of a target in absolute form (`http://host/path`), as proxies send it.

    Raises:
        InvalidRequest: the target has another form.
    """
    scheme, separator, rest = target.partition("://")
    if separator and scheme.lower() in ("http", "https"):
        slash = rest.find("/")
        return rest[slash:] if slash >= 0 else "/"
    if target == "*":
        return "/*"
    raise InvalidRequest("the request target must be a path", code="bad_request")


def _broken_body() -> InvalidRequest:
    return InvalidRequest(
        "the body is cut off or wrongly framed (Content-Length, chunks)", code="invalid_body"
    )
