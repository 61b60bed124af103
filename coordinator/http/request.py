"""Request: one HTTP request and the state needed to answer it.

aiohttp parses the protocol and serializes the requests of a connection. It creates request objects
through a factory, and this is ours: it holds what a route needs and nothing else (creating
aiohttp's own takes 5 µs).

The body. A JSON body is read completely, within a deadline and a limit. A bulk body is a stream of
chunks, each of which must arrive within the deadline. Both may be compressed (gzip, deflate, br):
the limit applies to the received and to the decompressed bytes, and no chunk is ever decompressed
beyond what is needed next, so a small bomb takes no memory. Other requests get their turn after
each part. `Expect: 100-continue` is answered when a route starts to read, so a client that is
rejected earlier never sends its body.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import brotli
from aiohttp import hdrs
from aiohttp.client_exceptions import ClientPayloadError
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestPayloadError

from common.errors import (
    InvalidRequest,
    PayloadTooLarge,
    ServiceError,
    Unavailable,
    UnsupportedMediaType,
)
from coordinator.http.api_keys import NOBODY, Caller
from coordinator.parameters.raw import decode_component

if TYPE_CHECKING:
    from aiohttp.http_parser import RawRequestMessage
    from aiohttp.streams import StreamReader

    from common.limits import Limits
    from coordinator.cluster.catalog import Index
    from coordinator.http.app import Connection

INFLATED_CHUNK_BYTES: Final = 256 * 1024
"""How much of a compressed body to decompress at a time."""
COMPRESSED_PART_BYTES: Final = 16 * 1024
"""How much input the decoder gets at a time: each gzip member copies the input that follows it."""
GZIP_MEMBERS_MAX: Final = 1_000
GZIP_MEMBER_BYTES_MIN: Final = 256
"""A gzip body may have this many members, plus one per `GZIP_MEMBER_BYTES_MIN` bytes: even an empty
member costs some microseconds."""

_ENCODINGS: Final = frozenset(("gzip", "x-gzip", "deflate", "br"))


class RequestTimeout(ServiceError):
    """The body did not arrive in time."""

    http_status = 408
    default_code = "request_timeout"


class ExpectationFailed(ServiceError):
    """The Expect header asks for something the service does not support."""

    http_status = 417
    default_code = "expectation_failed"


class ContentType(NamedTuple):
    """A Content-Type header, in lower case."""

    media_type: str
    """Empty if absent."""
    charset: str
    """utf-8 if absent."""


def parse_content_type(header: str) -> ContentType:
    """Parse a Content-Type header."""
    media_type, *parameters = header.split(";")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return ContentType(media_type.strip().lower(), value.strip().strip('"').lower())
    return ContentType(media_type.strip().lower(), "utf-8")


class Request:
    """One request, from its head to the last byte of its response.

    Attributes:
        method: as sent.
        target: request target as sent (UTF-8 with surrogate escapes).
        headers: case-insensitive.
        protocol: aiohttp's handler of the connection.
        keep_alive: whether the client wants to keep the connection open after this request.
        is_http_1_0: whether the client speaks HTTP/1.0.
        started: when the head had arrived, in seconds on `time.perf_counter`.
        request_id: identifies the request in its response and in the logs.
        status: of the response; 0 until that is known.
        arguments: decoded arguments in the path; set once the route is known, as are the rest.
        query_string: as sent.
        caller: the client, by its API key.
        index: named by the path, if the route needs one.
        waited_ms: time passed before the request was run again (see `Middleware`).
        body: decompressed, for routes that accept a JSON document.
        is_receiving: whether a JSON body is still arriving.
    """

    __slots__ = (
        "_payload",
        "_task",
        "arguments",
        "body",
        "caller",
        "headers",
        "index",
        "is_http_1_0",
        "is_receiving",
        "keep_alive",
        "method",
        "protocol",
        "query_string",
        "request_id",
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
        protocol: Connection,
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
        self.arguments: list[str] = []
        self.query_string = ""
        self.waited_ms = 0
        self.body = b""
        self.is_receiving = False
        self._payload = payload

    # --- called by aiohttp's RequestHandler

    def _finish(self) -> None:
        """Release what a broken body holds: its error refers to the frames it passed through."""
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
            target = origin_form(target)
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
    def may_go_on(self) -> bool:
        """Whether the connection may carry another request after this one."""
        return self.keep_alive and not self.protocol.is_stopping

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
        """Read the whole body into `body`.

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
                self.body = chunk
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
                async for part in _inflated(chunk, inflate):
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
        self.body = bytes(body)
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
                async for part in _inflated(chunk, inflate):
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
        self._check_size(self.announced_bytes, bytes_max)
        expectation = self.headers.get(hdrs.EXPECT)
        if expectation is not None and not self.is_http_1_0:
            self._continue(expectation)
        encoding = self.headers.get(hdrs.CONTENT_ENCODING)
        return None if encoding is None else _inflater(encoding.strip().lower())

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

    async def drain(self) -> None:
        """Wait until the socket can take more.

        Raises:
            ConnectionResetError: the client is gone, or has read nothing for too long.
        """
        try:
            async with asyncio.timeout(self.protocol.send_seconds):
                await self.protocol._drain_helper()
        except TimeoutError:
            transport = self.protocol.transport
            if transport is not None:
                transport.abort()
            raise ConnectionResetError("the client does not read") from None


class ByteLimit:
    """A limit on bytes, with its name for error messages."""

    __slots__ = ("limits", "name", "value")

    def __init__(self, limits: Limits, name: str) -> None:
        self.limits = limits
        self.name = name
        self.value: int = getattr(limits, name)


class ByteBudget:
    """Memory shared by the bodies of all requests.

    Args:
        bytes_max: of all bodies together.
    """

    __slots__ = ("bytes_max", "bytes_used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0

    def take(self, num_bytes: int) -> None:
        """Take a share.

        Raises:
            Unavailable: code overloaded; nothing was taken.
        """
        if self.bytes_used + num_bytes > self.bytes_max:
            raise Unavailable(
                f"all bodies together have more than {self.bytes_max} bytes (limit "
                "bytes_in_flight_max); send this one again shortly",
                code="overloaded",
            )
        self.bytes_used += num_bytes

    def give_back(self, num_bytes: int) -> None:
        """Release a share."""
        self.bytes_used -= num_bytes


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


def _inflater(encoding: str) -> Inflater | None:
    """Return the decompressor for a content encoding."""
    if encoding in ("", "identity"):
        return None
    if encoding not in _ENCODINGS:
        raise UnsupportedMediaType(
            f"content encoding {encoding[:40]!r} is not supported; use gzip, deflate or br"
        )
    return Inflater(encoding)


async def _inflated(chunk: bytes, inflate: Inflater | None) -> AsyncIterator[bytes]:
    """Yield a chunk decompressed, in parts; yield to the event loop after each."""
    if inflate is None:
        yield chunk
        return
    for part in inflate.feed(chunk):
        yield part
        await asyncio.sleep(0)


class Inflater:
    """Decompresses a stream in bounded parts.

    `deflate` means zlib by the standard, but raw deflate for some clients; the first byte shows
    which.
    """

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._is_brotli = encoding == "br"
        self._stream: Any = None
        self._is_finished = False
        self._num_fed = 0
        self._num_members = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield a chunk decompressed, in parts of at most (roughly) `INFLATED_CHUNK_BYTES`.

        Raises:
            InvalidRequest: code invalid_encoding; the data is not what the header says, or a gzip
                stream has too many members.
        """
        feed = self._feed_brotli if self._is_brotli else self._feed_zlib
        try:
            for start in range(0, len(chunk), COMPRESSED_PART_BYTES):
                part = chunk[start : start + COMPRESSED_PART_BYTES]
                self._num_fed += len(part)
                yield from feed(part)
        except (zlib.error, brotli.error):
            raise InvalidRequest(
                f"the body is no valid {self._encoding} stream", code="invalid_encoding"
            ) from None

    def finish(self) -> None:
        """Check that the stream is complete at the end of the body.

        Raises:
            InvalidRequest: the stream is truncated.
        """
        if self._stream is None:
            return
        is_whole = self._stream.is_finished() if self._is_brotli else self._is_finished
        if not is_whole:
            raise InvalidRequest(
                f"the body's {self._encoding} stream is cut off", code="invalid_encoding"
            )

    def _feed_brotli(self, chunk: bytes) -> Iterator[bytes]:
        if self._stream is None:
            self._stream = brotli.Decompressor()
        stream = self._stream
        if stream.is_finished():
            raise zlib.error("data after the end")
        part = stream.process(chunk, output_buffer_limit=INFLATED_CHUNK_BYTES)
        yield part
        # The decoder may accept more input while some output is still pending.
        while not stream.is_finished() and (part or not stream.can_accept_more_data()):
            part = stream.process(b"", output_buffer_limit=INFLATED_CHUNK_BYTES)
            yield part

    def _feed_zlib(self, chunk: bytes) -> Iterator[bytes]:
        if self._stream is None:
            self._stream = zlib.decompressobj(self._window_bits(chunk[0]))
        is_full = False
        # A full part may leave output pending although all input is consumed.
        while chunk or is_full:
            if self._is_finished:
                # A gzip file may consist of several streams (members), one after another.
                if self._encoding == "deflate":
                    raise zlib.error("data after the end")
                self._begin_member()
            stream = self._stream
            part = stream.decompress(chunk, INFLATED_CHUNK_BYTES)
            yield part
            self._is_finished = stream.eof
            chunk = stream.unused_data if stream.eof else stream.unconsumed_tail
            is_full = not stream.eof and len(part) == INFLATED_CHUNK_BYTES

    def _begin_member(self) -> None:
        """Start the next member of a gzip stream."""
        self._num_members += 1
        if self._num_members > GZIP_MEMBERS_MAX + self._num_fed // GZIP_MEMBER_BYTES_MIN:
            raise InvalidRequest(
                f"the body is a gzip stream of more than {GZIP_MEMBERS_MAX} members, most of them "
                f"of less than {GZIP_MEMBER_BYTES_MIN} bytes; compress it as one",
                code="invalid_encoding",
            )
        self._stream = zlib.decompressobj(31)
        self._is_finished = False

    def _window_bits(self, first_byte: int) -> int:
        """Return zlib's code for the expected wrapper: gzip 31, zlib 15, raw -15."""
        if self._encoding != "deflate":
            return 31
        return 15 if first_byte & 0x0F == 8 else -15
