"""The server's end of the RPC: accepts connections, and serves the calls of their clients.

`common.protocol` draws the whole. A connection is a stranger until its `hello` is accepted: until
then nothing else is, and frames are limited to `HELLO_BYTES_MAX`.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from types import CoroutineType
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from common.deadline import CALL_DEADLINE, NEVER, Deadline
from common.decode_errors import UNDECODABLE
from common.errors import (
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    PayloadTooLarge,
    ServiceError,
    Unavailable,
    WireError,
    encode_error,
)
from common.process.cooperative_scheduler import LoopScheduler
from common.process.logs import Log
from common.process.request_id_context import REQUEST_IDS
from common.protocol.authentication import NONCE_BYTES, Authenticator
from common.protocol.framing import (
    FRAME_BYTES_MAX,
    HELLO_BYTES_MAX,
    FrameError,
    FrameReader,
    decode_request,
    encode_challenge,
    encode_response,
)
from common.protocol.messages import GivenUpCalls, Hello
from common.protocol.methods import GIVE_UP, HELLO, Method

HANDSHAKE_SECONDS = 5.0
"""Time within which a new connection must send an acceptable `hello`."""

STRANGERS_MAX = 256
"""Connections that have not sent it yet; at the bound the oldest is closed. A coordinator has one,
and sends `hello` as soon as it is connected."""

_UNFINISHED: Final = (CoroutineType, asyncio.Future)
"""What a handler returns that has to wait."""

P = TypeVar("P")
R = TypeVar("R")

_log = Log("rpc")


@dataclass(frozen=True, slots=True)
class Handler(Generic[P, R]):
    """The handler of one method.

    Attributes:
        method: that it handles.
        function: takes the params (always one argument, None for methods without) and returns the
            result, or a coroutine or future of it. A direct result is sent without a task: the
            cheapest way for work of less than a millisecond. Raise `ServiceError` to respond with
            an error.
        attach: returns the params with the attachment that came with them; None for methods that
            take none.
    """

    method: Method[P, R]
    function: Callable[[P], R | Awaitable[R]]
    attach: Callable[[P, memoryview], P] | None = None


class RpcServer:
    """Accepts connections and serves their calls.

    A newly accepted connection ends all older ones: there is one coordinator that owns the shard,
    and it has closed its previous connections. It is welcomed once their calls are finished, so the
    `seq_max` of the welcome is final. Connections of coordinators that only read
    (`Hello.is_reader`) come and go next to it.

    Connections without an accepted `hello` are bounded in number and time, so that a stranger
    without the secret cannot exhaust the process's file descriptors.

    Args:
        handlers: of all methods but `hello`.
        authenticate: checks the first frame of every connection.
        slow_ms: calls that take longer are logged; 0: none.
        scheduler: of this loop; notified when calls have arrived.

    Attributes:
        handlers: by the name of their method.
        num_in_flight: calls in progress.
        num_owned: those of them that an owner has made, not a mere reader.
    """

    def __init__(
        self,
        handlers: Iterable[Handler[Any, Any]],
        authenticate: Authenticator,
        slow_ms: int = 0,
        scheduler: LoopScheduler | None = None,
    ) -> None:
        self.authenticate = authenticate
        self.scheduler = LoopScheduler() if scheduler is None else scheduler
        self.slow_seconds = slow_ms / 1000
        self.handlers: dict[str, Handler[Any, Any]] = {
            handler.method.name: handler for handler in handlers
        }
        self.connections: dict[ServerConnection, None] = {}  # in the order of their arrival
        self._strangers: dict[ServerConnection, asyncio.TimerHandle] = {}  # oldest first
        self.num_in_flight = 0
        self.num_owned = 0
        self._idle: list[asyncio.Future[None]] = []
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int = 0, tls: ssl.SSLContext | None = None) -> int:
        """Accept connections; returns the port (chosen by the system if `port` is 0)."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: ServerConnection(self), host, port, ssl=tls)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self, grace_seconds: float = 0.0) -> None:
        """Stop accepting, let calls in flight finish for a while, close all connections."""
        if self._server is not None:
            self._server.close()
        try:
            async with asyncio.timeout(grace_seconds):
                while self.num_in_flight:
                    await self._next_idle()
        except TimeoutError:
            _log.warning("calls given up at stop", num_calls=self.num_in_flight)
        for connection in list(self.connections):
            connection.close()

    async def wait_idle(self) -> None:
        """Return when no call of an owner is in flight."""
        while self.num_owned:
            await self._next_idle()

    async def _next_idle(self) -> None:
        """Return when the last call of an owner, or of all, has ended."""
        idle = asyncio.get_running_loop().create_future()
        self._idle.append(idle)
        await idle

    def begin_call(self, is_reader: bool) -> None:
        """Count a call in progress."""
        self.num_in_flight += 1
        self.num_owned += not is_reader

    def finish_call(self, is_reader: bool) -> None:
        """Count one finished call."""
        self.num_in_flight -= 1
        self.num_owned -= not is_reader
        if self._idle and (self.num_in_flight == 0 or self.num_owned == 0):
            waiting, self._idle = self._idle, []
            for idle in waiting:
                if not idle.done():
                    idle.set_result(None)

    def take_in(self, connection: ServerConnection) -> None:
        """Add a connection that is not authenticated yet."""
        while len(self._strangers) >= STRANGERS_MAX:
            next(iter(self._strangers)).abort("too many connections without hello")
        loop = asyncio.get_running_loop()
        # In a separate context: the timer belongs to no request.
        self._strangers[connection] = loop.call_later(
            HANDSHAKE_SECONDS, connection.abort, "no hello in time", context=Context()
        )
        self.connections[connection] = None

    def acknowledge(self, connection: ServerConnection) -> None:
        """Note that a connection has sent an acceptable `hello`."""
        timer = self._strangers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def let_go(self, connection: ServerConnection) -> None:
        """Forget a connection that has ended, or is about to."""
        self.acknowledge(connection)
        self.connections.pop(connection, None)

    def end_others(self, current: ServerConnection) -> None:
        """End all connections of owners that came before, also of those not welcomed yet."""
        for connection in list(self.connections):
            if connection is not current and connection.is_owner:
                connection.close()


class _Transit:
    """How long calls were in transit: in the network, and in a socket before it was read.

    The clocks of two processes may differ by any amount, but by the same for all calls. So the
    delay of a call is measured against the fastest recent one. A clock stands still while its
    machine is suspended: a delay that no network has begins the comparison again.
    """

    __slots__ = ("_begun_ms", "_fastest", "_former", "_least")

    WINDOW_MS = 60_000
    """Clocks drift little within two of these."""

    def __init__(self) -> None:
        self._begun_ms = 0.0
        self._least = self._former = self._fastest = float("inf")

    def took_ms(self, now_ms: float, sent_ms: int) -> float:
        """Return how many milliseconds ago, at least, a call was sent."""
        difference = now_ms - sent_ms
        if difference - self._fastest > self.WINDOW_MS:
            self._begun_ms, self._former, self._least = now_ms, float("inf"), difference
        elif now_ms - self._begun_ms > self.WINDOW_MS:
            self._begun_ms, self._former, self._least = now_ms, self._least, difference
        elif difference < self._least:
            self._least = difference
        else:
            return difference - self._fastest
        self._fastest = min(self._least, self._former)
        return difference - self._fastest


class _UnderWay(msgspec.Struct, frozen=True):
    """A call without a response yet."""

    future: asyncio.Future[Any]
    method: Method[Any, Any]
    deadline: Deadline

    def give_up(self) -> bool:
        """End it as soon as that is possible; return False for one that runs to its end."""
        if not self.method.can_be_given_up or self.deadline is NEVER:
            return False
        self.deadline.end_now()
        self.future.cancel()
        return True


class ServerConnection(asyncio.Protocol):
    """One accepted connection.

    Attributes:
        is_known: whether its peer was welcomed, and may call.
        is_reader: whether its peer only reads, as `hello` said.
        is_owner: whether its peer owns the shard; it is welcomed once earlier owners' calls end.
    """

    def __init__(self, server: RpcServer) -> None:
        self._server = server
        self._reader = FrameReader(HELLO_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._transit = _Transit()
        self._under_way: dict[int, _UnderWay] = {}
        self._giving_up = Handler(GIVE_UP, self._give_up)
        self.is_known = False
        self.is_reader = False
        self.is_owner = False
        self._is_greeting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the challenge."""
        self._transport = cast(asyncio.Transport, transport)
        self._server.take_in(self)
        self._write(encode_challenge(self._nonce))

    def connection_lost(self, exc: Exception | None) -> None:
        """Give reads up; let other calls finish: a write is complete or absent."""
        self._transport = None
        self._server.let_go(self)
        self._give_up(GivenUpCalls(tuple(self._under_way)))

    def pause_writing(self) -> None:
        """Stop reading calls from a peer that does not read its responses."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume reading from the socket."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Close after what was written has been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close at once, whatever was not sent."""
        _log.debug("connection closed", reason=reason)
        self._server.let_go(self)
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Serve every call that has arrived completely."""
        self._server.scheduler.begin_tick()
        try:
            for body, attachment in self._reader.feed(data):
                if self.is_known:
                    self._dispatch(body, attachment)
                else:
                    self._greet(body)
        except FrameError as error:
            REQUEST_IDS.set(())  # of the call before
            _log.warning("connection closed", reason=str(error))
            if self._transport is not None:
                self._transport.abort()

    def _greet(self, body: memoryview) -> None:
        """Take the first frame: it must be an acceptable `hello`."""
        request = decode_request(body)
        self._transit.took_ms(time.monotonic() * 1000, request.sent_ms)
        if request.method != HELLO.name or self._is_greeting:
            raise FrameError("the first frame is not hello, or more came before it was answered")
        self._is_greeting = True
        try:
            hello = msgspec.msgpack.decode(request.params, type=Hello)
        except UNDECODABLE as error:
            raise FrameError(f"undecodable hello: {error}") from error
        server = self._server
        try:
            server.authenticate.check(hello, self._nonce)
        except ServiceError as error:
            self._refuse(request.msgid, error)
            return
        server.acknowledge(self)
        self.is_reader = hello.is_reader
        if hello.is_reader:
            self._welcome(request.msgid, hello)
            return
        self.is_owner = True
        server.end_others(self)
        if server.num_owned:
            task = asyncio.ensure_future(self._welcome_when_idle(request.msgid, hello))
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
        else:
            self._welcome(request.msgid, hello)

    async def _welcome_when_idle(self, msgid: int, hello: Hello) -> None:
        """Complete the handshake when the calls of previous connections are finished."""
        await self._server.wait_idle()
        if self._transport is not None and not self._transport.is_closing():  # no newer one came
            self._welcome(msgid, hello)

    def _welcome(self, msgid: int, hello: Hello) -> None:
        """Accept the peer."""
        welcome = self._server.authenticate.welcome(hello, self._nonce)
        self.is_known = True
        self._reader.max_bytes = FRAME_BYTES_MAX
        self._write(encode_response(msgid, None, welcome))

    def _refuse(self, msgid: int, error: ServiceError) -> None:
        """Send the reason and close."""
        _log.warning("hello refused", reason=error.message)
        self._write(encode_response(msgid, encode_error(error), None))
        self.close()

    def _dispatch(self, body: memoryview, attachment: memoryview | None) -> None:
        """Call the handler of one request; respond now or when its future is done.

        What is logged meanwhile names the HTTP requests that the call is for: a task that is made
        here, and a callback that is added, have them in their context.
        """
        request = decode_request(body)
        msgid = request.msgid
        REQUEST_IDS.set(request.request_ids)
        server = self._server
        started = time.monotonic()
        deadline = NEVER
        if request.timeout_ms:
            took_ms = self._transit.took_ms(started * 1000, request.sent_ms)
            deadline = Deadline(started + (request.timeout_ms - took_ms) / 1000)
            if took_ms >= request.timeout_ms:
                late = DeadlineExceeded(f"{request.method} came too late to be begun")
                self._answer_error(msgid, late, request.method)
                return
        CALL_DEADLINE.set(deadline)
        try:
            handler = server.handlers[request.method]
        except KeyError:
            if request.method != GIVE_UP.name:
                self._answer_error(msgid, InvalidRequest(f"there is no method {request.method!r}"))
                return
            handler = self._giving_up
        decode = handler.method.decode_params
        try:
            params = None if decode is None else decode(request.params)
        except UNDECODABLE as error:
            raise FrameError(f"undecodable params of {request.method}: {error}") from error
        if attachment is not None:
            if handler.attach is None:
                raise FrameError(f"{request.method} takes no attachment")
            params = handler.attach(params, attachment)
        try:
            result = handler.function(params)
        except Exception as error:
            self._answer_error(msgid, error, request.method)
            return
        if isinstance(result, _UNFINISHED):
            server.begin_call(self.is_reader)
            future: asyncio.Future[Any] = asyncio.ensure_future(cast(Awaitable[Any], result))
            self._under_way[msgid] = _UnderWay(future, handler.method, deadline)
            future.add_done_callback(partial(self._answer_later, msgid, request.method, started))
            return
        self._answer(msgid, result, request.method)
        if server.slow_seconds:
            self._note_slow(request.method, started)

    def _give_up(self, calls: GivenUpCalls) -> None:
        """End calls that their callers have given up, as far as they can be ended."""
        for msgid in calls.msgids:
            call = self._under_way.get(msgid)
            if call is not None and call.give_up():
                del self._under_way[msgid]

    def _answer_later(
        self, msgid: int, method: str, started: float, future: asyncio.Future[Any]
    ) -> None:
        """Send the outcome of an asynchronous handler."""
        self._server.finish_call(self.is_reader)
        if self._server.slow_seconds:
            self._note_slow(method, started)
        if self._under_way.pop(msgid, None) is None:  # given up
            if not future.cancelled():
                future.exception()  # else asyncio logs that nothing retrieved it
            return
        if future.cancelled():
            self._answer_error(msgid, Unavailable("the shard is stopping"), method)
        elif (error := future.exception()) is not None:
            self._answer_error(msgid, error, method)
        else:
            self._answer(msgid, future.result(), method)

    def _note_slow(self, method: str, started: float) -> None:
        """Log a call that took longer than it should."""
        seconds = time.monotonic() - started
        if seconds >= self._server.slow_seconds:
            _log.warning("slow call", method=method, took_ms=round(seconds * 1000, 3))

    def _answer(self, msgid: int, result: Any, method: str) -> None:
        """Send a result."""
        try:
            pieces = encode_response(msgid, None, result)
        except FrameError as error:
            self._answer_error(msgid, PayloadTooLarge(f"the answer is too large: {error}"), method)
        except Exception as error:  # a result that cannot be encoded is a bug of the handler
            self._answer_error(msgid, error, method)
        else:
            self._write(pieces)

    def _answer_error(self, msgid: int, error: BaseException, method: str = "") -> None:
        """Send an error; log its cause, which the caller does not get.

        The log has a traceback of an internal error and of a bug (any exception that is not a
        `ServiceError`), not of damage, which the message names. A bug gets an id of its own in this
        log and in the caller's: a write group may fail more requests than its call has ids for.
        """
        if not isinstance(error, ServiceError):
            incident = secrets.token_hex(4)
            _log.error("handler failed", method=method, incident=incident, cause=error)
            error = InternalError(
                "internal error in a shard; its log has the cause", details={"incident": incident}
            )
        elif isinstance(error, InternalError):
            cause = error if error.code == InternalError.default_code else None
            _log.error(
                "call failed", method=method, code=error.code, reason=error.message, cause=cause
            )
        wire: WireError = encode_error(error)
        self._write(encode_response(msgid, wire, None))

    def _write(self, pieces: tuple[bytes, ...]) -> None:
        """Send a frame."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            for piece in pieces:
                transport.write(piece)
