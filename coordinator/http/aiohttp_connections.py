"""The HTTP server: aiohttp's connections and parser; our requests, responses and errors.

We use aiohttp's low-level server without its Application, whose routing, middlewares, request and
response objects would take longer than a search.

Requests that aiohttp itself rejects (a malformed request line, oversized headers) get the error
envelope too. The number of connections is bounded: at the bound the oldest idle one is closed, or
else the oldest that is slow to send its body, so thousands of idle connections never lock a user
out.

A read whose client leaves is cancelled. Most clients leave by closing, which looks like the end of
the sending side of one that still waits: only what is sent tells them apart. A closed socket
refuses it; a client that waits must skip interim responses (RFC 9110, 15.2).

    client ── GET, end ──▶ read ─ 20 ms ─▶ 100 Continue ──▶ waits: skips it
                                                      └───▶ has left: the next one fails, and
                                                            the read is cancelled
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_protocol import RequestHandler, RequestPayloadError
from multidict import istr

from common.errors import InvalidRequest, ServiceError
from common.process.logs import Log
from common.process.request_id_context import REQUEST_IDS
from coordinator.http.metrics import UNROUTED
from coordinator.http.middleware import shown_path
from coordinator.http.request import Request
from coordinator.http.responses import error_body, error_response, internal_error
from coordinator.http.unsent_responses import SlowClients

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sized

    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.streams import StreamReader

    from common.limits import Limits
    from coordinator.http.responses import Response
    from coordinator.http.services import Services

LINGER_SECONDS: Final = 2.0
"""How long to read and discard the rest of a rejected body, so that the client can read the
response before the connection closes."""
PROBE_SECONDS: Final = 0.02
"""When a client that has closed its sending side is first asked whether it has left. The time until
the next question doubles, up to a second."""
REQUESTS_MAX: Final = 1_000
"""Of one connection where several coordinators share the port. The kernel spreads connections, not
requests: clients that keep those made while a coordinator was away would never use that one."""
READ_BYTES: Final = 256 * 1024
"""Bytes of a body kept in memory before reading from the socket pauses."""

_READS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_REQUEST_ID: Final = istr("X-Request-Id")

T = TypeVar("T")

_log = Log("http")


class UriTooLong(ServiceError):
    """The request line exceeds its limit."""

    http_status = 414
    default_code = "uri_too_long"


class HeadersTooLarge(ServiceError):
    """A header line exceeds its limit, or there are too many headers."""

    http_status = 431
    default_code = "headers_too_large"


class RequestIds:
    """Generates request ids: a random prefix per process, and a counter.

    A client may choose the id of its request (`X-Request-Id`), to find it in our logs.
    """

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(4)
        self._numbers = count(1)

    def __call__(self, message: RawRequestMessage) -> str:
        """Return the id of a request."""
        given = message.headers.get(_REQUEST_ID)
        if given is not None and len(given) <= 64 and given.isascii() and given.isprintable():
            return given
        return f"{self._prefix}-{next(self._numbers):x}"


class _OneTask:
    """The event loop as a connection's handler sees it: it creates no task for a single request.

    aiohttp creates one task per request and awaits it at once, for handlers that keep state in the
    context; ours keeps the request's id there, which is set for each request. A task costs two
    turns of the loop, a twentieth of the time of `GET /{index}/items/{id}`. Where pipelined
    requests are waiting, it does create tasks, so that other connections get their turn in between.

    Args:
        loop: the event loop.
        waiting: requests of the connection that are read but not answered yet.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, waiting: Sized) -> None:
        self._loop = loop
        self._waiting = waiting
        self.create_future = loop.create_future
        self.time = loop.time

    def create_task(self, request: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Return an awaitable for a request that was taken from the waiting ones."""
        return self._loop.create_task(request) if self._waiting else request

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


class Connection(RequestHandler):
    """One client connection.

    Sends the error envelope where aiohttp would send plain text. Lets a client close its sending
    side before it has its response, as simple clients do; aiohttp would hang up on them.

    Attributes:
        has_ended: whether the client will send no more requests.
        is_counted: whether requests are counted already against their client's rate.
        peer_address: of the client's socket; empty if it was gone at once.
        request: the newest request.
        server: that owns the connection.
        services: limits and metrics.
    """

    __slots__ = ("has_ended", "is_counted", "peer_address", "request", "server", "services")

    request: Request | None

    def __init__(self, server: Server, services: Services, **kwargs: Any) -> None:
        super().__init__(server, **kwargs)
        self.peer_address = ""
        self.has_ended = False
        self.is_counted = False
        self.request = None
        self.server = server
        self.services = services

    @property
    def is_ending(self) -> bool:
        """Whether the response to the newest request closes the connection.

        So it is while the service stops, and after many requests if others share the port; then
        not before those are answered that have come with it.
        """
        server = self.server
        return server.is_stopping or (
            self._request_count >= server.requests_max and not self._messages
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the client's address: asking for it takes a system call each time."""
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):  # otherwise the peer is a reader, not a client
            self.peer_address = str(peer[0])
        super().connection_made(transport)

    def stand_for(self, client: str, *, is_counted: bool) -> None:
        """Serve a client whose request a reader has passed on."""
        self.peer_address = client
        self.is_counted = is_counted

    def start(self) -> Coroutine[Any, Any, None]:
        """Answer requests, one after another, until the connection ends."""
        if sys.version_info < (3, 12):  # later versions run a new task eagerly, in the same turn
            one_task = _OneTask(self._loop, self._messages)
            self._loop = one_task  # type: ignore[assignment]  # as much as is used
        return super().start()

    def resume_reading(self, *args: Any, **kwargs: Any) -> None:
        """Resume reading if it was paused; a body that arrived with its head has paused nothing."""
        if self._reading_paused:
            super().resume_reading(*args, **kwargs)

    @property
    def slow_clients(self) -> SlowClients:
        """Those that have not read their responses yet."""
        return self.server.slow_clients

    @property
    def send_seconds(self) -> float:
        """How long the client may leave a response unread before it is considered dead."""
        return self.services.settings.limits.send_timeout_ms / 1000

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel a read; release the last request and its body, which refer to each other."""
        task, request = self._task_handler, self.request
        super().connection_lost(exc)
        self.request = None
        if task is not None and request is not None and request.ends_with_client:
            task.cancel()

    def eof_received(self) -> bool:  # type: ignore[override]  # True keeps the sending side open
        """Handle the end of the client's sending side."""
        if self.is_idle():
            return False
        if self.request is not None:
            self.request.cut_off()
        for _, payload in self._messages:
            if not payload.is_eof():
                payload.set_exception(RequestPayloadError("cut off"))
        self.has_ended = True
        self.close_after_last()
        self._loop.call_later(PROBE_SECONDS, self._probe, PROBE_SECONDS)
        return True

    def _probe(self, seconds: float) -> None:
        """Send a client that has closed its sending side what fails if it has left.

        Args:
            seconds: since then.
        """
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        request = self.request
        if request is not None and request.can_be_probed and not self._has_change_waiting():
            transport.write(_CONTINUE)
        self._loop.call_later(min(seconds, 1.0), self._probe, 2 * seconds)

    def _has_change_waiting(self) -> bool:
        """Whether a request that may change something came with the newest one.

        It is carried out, as it would be alone, though its client has left; a connection that is
        found to be lost would end before its turn.
        """
        return any(
            not isinstance(message, RawRequestMessage) or message.method not in _READS
            for message, _ in self._messages
        )

    def close_after_last(self) -> None:
        """Let the newest request be the last one, unless others have come with it."""
        if not self._messages:
            self.close()

    def handle_error(
        self,
        request: Any,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> Any:
        """Return the response to a request that never reached the middleware."""
        services = self.services
        error = _refusal(status, exc, services.settings.limits)
        services.metrics.route(UNROUTED).observe(error.http_status, 0.0)
        if error.http_status >= 500:
            _log.error("request failed", cause=exc, request_id=request.request_id)
        return error_response(error, request.request_id).close_after()

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        """Log in our own format what aiohttp could not handle."""
        cause = kwargs.get("exc_info")
        if isinstance(cause, (RequestPayloadError, HttpProcessingError, ConnectionError)):
            _log.debug("client broke off", reason=str(cause))  # any response has said so
        elif self._force_close and isinstance(cause, asyncio.InvalidStateError):
            # aiohttp's shutdown abandoned a request in the same turn in which it was answered.
            _log.debug("closed at shutdown")
        elif isinstance(cause, ServiceError):
            # The middleware answers all errors but those of a stream that has begun.
            _log.error(
                "response cut off",
                path="-" if self.request is None else shown_path(self.request),
                code=cause.code,
                reason=cause.message,
                **cause.details,
            )
        else:
            _log.error("connection failed", cause=cause)

    def is_idle(self) -> bool:
        """Return whether no request is being read or answered."""
        return self._waiter is not None and not self._messages

    def is_slow(self) -> bool:
        """Return whether the client is still sending a body that should have arrived at once."""
        return self.request is not None and self.request.is_receiving


def _refusal(status: int, exc: BaseException | None, limits: Limits) -> ServiceError:
    """Return our error for what aiohttp rejected.

    Args:
        status: aiohttp's status: 400 for nearly everything.
        exc: aiohttp's exception. For a line that is too long, only the limit that it names
            distinguishes the request line from a header.
        limits: in force.
    """
    if isinstance(exc, LineTooLong):
        limit = exc.args[1] if len(exc.args) > 1 else ""
        if str(limit) == str(limits.url_bytes_max):
            return UriTooLong(
                f"the request target is longer than {limits.shown('url_bytes_max')} bytes; "
                "use POST with a body"
            )
        return HeadersTooLarge(f"a header is longer than {limits.shown('header_bytes_max')} bytes")
    if isinstance(exc, HttpProcessingError) and exc.message.startswith("Too many headers"):
        return HeadersTooLarge(f"a request may have {limits.shown('headers_max')} headers")
    if isinstance(exc, HttpProcessingError) or status == 400:
        return InvalidRequest("this is not a valid HTTP request", code="bad_request")
    return internal_error()


class Server(web.Server):
    """Creates connections and bounds their number.

    Args:
        handler: answers a request.
        services: limits and metrics.

    Attributes:
        is_stopping: set when shutdown begins.
        requests_max: of one connection.
        slow_clients: those that have not read their responses yet.
    """

    def __init__(
        self, handler: Callable[[Request], Awaitable[Response]], services: Services
    ) -> None:
        limits = services.settings.limits
        super().__init__(
            handler,  # type: ignore[arg-type]  # our request and response, duck-typed
            request_factory=self._new_request,  # type: ignore[arg-type]
            access_log=None,
            keepalive_timeout=limits.keepalive_timeout_ms / 1000,
            lingering_time=LINGER_SECONDS,
            max_line_size=limits.url_bytes_max,
            max_field_size=limits.header_bytes_max,
            max_headers=limits.headers_max,
            read_bufsize=READ_BYTES,
            auto_decompress=False,
        )
        self.is_stopping = False
        self.requests_max = REQUESTS_MAX if services.settings.coordinators > 1 else sys.maxsize
        self.slow_clients = SlowClients(limits.bytes_unread_max)
        self._connections_max = limits.connections_max
        self._services = services
        services.metrics.num_connections = lambda: len(self._connections)
        self._request_ids = RequestIds()

    def __call__(self) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(self, self._services, loop=self._loop, **self._kwargs)

    def _new_request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: Connection,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> Request:
        request = Request(message, payload, protocol, self._request_ids(message))
        protocol.request = request
        if protocol.has_ended:
            protocol.close_after_last()
        REQUEST_IDS.set((request.request_id,))
        return request

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Register a connection; at the bound, close the one idle the longest."""
        if len(self._connections) >= self._connections_max and not self._make_room():
            transport.write(_FULL)
            transport.close()
            return
        super().connection_made(handler, transport)

    def _make_room(self) -> bool:
        """Close an idle connection, or else a slow one; return whether there was one."""
        for is_expendable in (Connection.is_idle, Connection.is_slow):
            found = next(filter(is_expendable, self._connections), None)  # type: ignore[arg-type]  # ours
            if found is not None:  # the oldest: the dict keeps insertion order
                del self._connections[found]
                found.force_close()
                return True
        return False


def _raw_response(error: ServiceError) -> bytes:
    """Return a complete response for a connection that has not sent a request."""
    body = error_body(error, "none")
    return (
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        b"Retry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )


class _TooManyConnections(ServiceError):
    http_status = 503
    default_code = "overloaded"


_FULL: Final = _raw_response(_TooManyConnections("too many connections; try again shortly"))
