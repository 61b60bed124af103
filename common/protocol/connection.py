"""RPC connections: many calls in flight on one TCP stream, each with a deadline.

Questions answered here: who may talk to a shard; which response belongs to which call; what happens
to a call when time runs out, the peer dies, or either side sends nonsense.

    RpcClient.call ── msgid 1 ──▶                        ┌── handler returns a result: sent at once
                   ── msgid 2 ──▶  one TCP connection ───┤
                   ◀── msgid 2 ──  responses in any order└── handler returns a future: sent later

- Handshake. The server sends a challenge (a nonce); the client answers with `hello` (protocol
  version, shard, number of shards) and a proof that it knows the secret of the data directory; the
  server's welcome has a proof of its own. The secret itself never crosses the wire: another program
  may have taken the port that a shard has just released, and would otherwise learn the secret, or
  could impersonate the shard. Until `hello` is accepted, nothing else is, and frames are limited to
  `MAX_HELLO_BYTES`.
- A call without a response at its deadline fails with `DeadlineExceeded`. Both sides simply forget
  a read: the client drops a late response by its msgid; the server knows how long the caller waits,
  does not start a read that comes too late, and handlers poll `common.deadline.check_call`. A write
  always runs to its end. After a late *write* the client closes the connection: later calls must
  not be applied after a write whose outcome is unknown.
- A frame over the limit, an undecodable frame or a response to a call that was never made closes
  the connection. When a connection ends, for any reason, every call in flight fails at once with
  `Unavailable`; whether a write among them was applied is unknown.
- A closed connection is never reused. Its owner reconnects (with a new `RpcClient`), so a response
  can never reach a call of another connection.

Costs: no task, no lock and no timer per call. A call is a future in a dictionary; one timer is set
to the earliest deadline; each call is one write. (Joining the writes of one loop turn halves the
system calls and takes 0.99 of the CPU time.) A round trip over loopback with one call in flight
takes about 5 µs more than that of bare uvloop echo protocols (58 µs on the 2-core virtual machine
where this was written: waking the other process is nearly all of it); with many in flight, a call
costs 8 µs in all.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from types import CoroutineType
from typing import Any, Generic, TypeVar, cast

import msgspec

from common.deadline import CALL_DEADLINE, NEVER, Deadline
from common.errors import (
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    PayloadTooLarge,
    ServiceError,
    Unauthorized,
    Unavailable,
    WireError,
    decode_error,
    encode_error,
)
from common.process.logs import Log
from common.process.request_ids import REQUEST_IDS
from common.process.turns import Turns
from common.protocol.framing import (
    MAX_FRAME_BYTES,
    MAX_HELLO_BYTES,
    Attachment,
    FrameError,
    FrameReader,
    attach,
    decode_challenge,
    decode_request,
    decode_response,
    encode_challenge,
    encode_request,
    encode_response,
)
from common.protocol.messages import PROTOCOL_VERSION, Hello, Welcome
from common.protocol.methods import HELLO, Method

MAX_CALLS_IN_FLIGHT = 1024
"""Per connection; a further call fails with `overloaded` instead of waiting in line."""

MAX_UNSENT_BYTES = 128 * 1024 * 1024
"""What may wait for the socket before further calls fail with `overloaded`."""

DEFAULT_TIMEOUT_MS = 5_000

NONCE_BYTES = 16

HANDSHAKE_SECONDS = 5.0
"""Time within which a new connection must send an acceptable `hello`."""

STRANGERS_MAX = 256
"""Connections that have not sent it yet; at the bound the oldest is closed. A coordinator has one,
and sends `hello` as soon as it is connected."""

PAUSE_SECONDS = 0.5
"""A timer that fires so late means that this process, not the peer, was suspended."""

PAUSE_GRACE_SECONDS = 0.1
"""Time to read, after such a pause, the responses that have arrived."""

P = TypeVar("P")
R = TypeVar("R")

_log = Log("rpc")


# --- server -------------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Authenticates the coordinator.

    Attributes:
        secret: what both sides read from the data directory.
        shard: ordinal of this shard.
        num_shards: number of shards over which the data were divided.
        make_welcome: makes the response to an accepted `hello`.
    """

    secret: str
    shard: int
    num_shards: int
    make_welcome: Callable[[], Welcome]

    def check(self, hello: Hello, nonce: bytes) -> None:
        """Raise `ServiceError` if a `hello` is not the right response to a challenge."""
        client_nonce, _, proof = hello.secret.partition(":")
        expected = _client_proof(self.secret, nonce, client_nonce, hello)
        if not hmac.compare_digest(proof.encode(), expected.encode()):
            raise Unauthorized("the secret is not that of this shard's data directory")
        if hello.protocol_version != PROTOCOL_VERSION:
            raise InvalidRequest(
                f"this shard speaks protocol {PROTOCOL_VERSION}, not {hello.protocol_version}"
            )
        if (hello.shard, hello.num_shards) != (self.shard, self.num_shards):
            raise InvalidRequest(
                f"this is shard {self.shard} of {self.num_shards}, "
                f"not {hello.shard} of {hello.num_shards}"
            )

    def welcome(self, hello: Hello, nonce: bytes) -> Welcome:
        """Return the response to a `hello` that was checked, with our proof."""
        client_nonce = hello.secret.partition(":")[0]
        proof = _server_proof(self.secret, nonce, client_nonce)
        return msgspec.structs.replace(self.make_welcome(), proof=proof)


def authenticator(
    *, secret: str, shard: int, num_shards: int, welcome: Callable[[], Welcome]
) -> Authenticator:
    """Return what checks `hello` for one shard; see `Authenticator`."""
    return Authenticator(secret, shard, num_shards, welcome)


def _client_proof(secret: str, nonce: bytes, client_nonce: str, hello: Hello) -> str:
    """Return what proves that the client knows the secret, this time, for this shard."""
    what = f"coordinator {hello.protocol_version} {hello.shard} {hello.num_shards} {client_nonce} "
    return hmac.new(secret.encode(), what.encode() + nonce, "sha256").hexdigest()


def _server_proof(secret: str, nonce: bytes, client_nonce: str) -> str:
    """Return what proves that the server knows the secret, this time."""
    what = f"shard {client_nonce} "
    return hmac.new(secret.encode(), what.encode() + nonce, "sha256").hexdigest()


class RpcServer:
    """Accepts connections and serves their calls.

    A newly accepted connection ends all older ones: there is one coordinator that owns the shard,
    and it has given up its former connections. It is welcomed once their calls are finished, so the
    `seq_max` of the welcome is final. Connections of coordinators that only read
    (`Hello.is_reader`) come and go beside it.

    Connections without an accepted `hello` are bounded in number and time, so that a stranger
    without the secret cannot exhaust the process's file descriptors.

    Args:
        handlers: of all methods but `hello`.
        authenticate: checks the first frame of every connection.
        slow_ms: calls that take longer are logged; 0: none.
        turns: of this loop; notified when calls have arrived.

    Attributes:
        num_in_flight: calls in progress.
        num_owned: those of them that no mere reader has made.
    """

    def __init__(
        self,
        handlers: Iterable[Handler[Any, Any]],
        authenticate: Authenticator,
        slow_ms: int = 0,
        turns: Turns | None = None,
    ) -> None:
        self.authenticate = authenticate
        self.turns = Turns() if turns is None else turns
        self.slow_seconds = slow_ms / 1000
        self.table: dict[str, tuple[Callable[[Any], Any] | None, Callable[[Any], Any]]] = {}
        self.attachers: dict[str, Callable[[Any, memoryview], Any] | None] = {}
        for handler in handlers:
            name = handler.method.name
            self.table[name] = (handler.method.decode_params, handler.function)
            self.attachers[name] = handler.attach
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
        """Return when the last call has ended, of an owner or of all."""
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
        # In a context of its own: the timer belongs to no request.
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
        """End all connections of owners that were accepted before."""
        for connection in list(self.connections):
            if connection is not current and connection.is_known and not connection.is_reader:
                connection.close()


class _Transit:
    """How long calls were in transit: in the network, and in a socket before it was read.

    The clocks of two processes may differ by any amount, but by the same for all calls. So the
    delay of a call is measured against the fastest recent one.
    """

    __slots__ = ("_begun_ms", "_former", "_least")

    WINDOW_MS = 60_000
    """Clocks drift little within two of these."""

    def __init__(self) -> None:
        self._begun_ms = 0.0
        self._least = self._former = float("inf")

    def took_ms(self, now_ms: float, sent_ms: int) -> float:
        """Return how many milliseconds ago, at least, a call was sent."""
        difference = now_ms - sent_ms
        if now_ms - self._begun_ms > self.WINDOW_MS:
            self._begun_ms, self._former, self._least = now_ms, self._least, difference
        elif difference < self._least:
            self._least = difference
        return difference - min(self._least, self._former)


class ServerConnection(asyncio.Protocol):
    """One accepted connection."""

    def __init__(self, server: RpcServer) -> None:
        self._server = server
        self._reader = FrameReader(MAX_HELLO_BYTES)
        self._transport: asyncio.Transport | None = None
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._transit = _Transit()
        self.is_known = False
        self.is_reader = False
        self._is_greeting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the challenge."""
        self._transport = cast(asyncio.Transport, transport)
        self._server.take_in(self)
        self._write(encode_challenge(self._nonce))

    def connection_lost(self, exc: Exception | None) -> None:
        """Let calls in flight finish (a write is complete or absent); the response goes nowhere."""
        self._transport = None
        self._server.let_go(self)

    def pause_writing(self) -> None:
        """Stop reading calls from a peer that does not read its responses."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again."""
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
        self._server.turns.begin()
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
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
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
        server.end_others(self)
        if server.num_owned:
            task = asyncio.ensure_future(self._welcome_when_idle(request.msgid, hello))
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
        else:
            self._welcome(request.msgid, hello)

    async def _welcome_when_idle(self, msgid: int, hello: Hello) -> None:
        """Complete the handshake when the calls of former connections are finished."""
        await self._server.wait_idle()
        self._welcome(msgid, hello)

    def _welcome(self, msgid: int, hello: Hello) -> None:
        """Accept the peer."""
        welcome = self._server.authenticate.welcome(hello, self._nonce)
        self.is_known = True
        self._reader.max_bytes = MAX_FRAME_BYTES
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
        started = time.perf_counter() if server.slow_seconds else 0.0
        deadline = NEVER
        if request.timeout_ms:
            now = time.monotonic()
            took_ms = self._transit.took_ms(now * 1000, request.sent_ms)
            deadline = Deadline(now + (request.timeout_ms - took_ms) / 1000)
            if took_ms >= request.timeout_ms:
                late = DeadlineExceeded(f"{request.method} came too late to be begun")
                self._answer_error(msgid, late, request.method)
                return
        CALL_DEADLINE.set(deadline)
        try:
            decode, function = server.table[request.method]
        except KeyError:
            self._answer_error(msgid, InvalidRequest(f"there is no method {request.method!r}"))
            return
        try:
            params = None if decode is None else decode(request.params)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise FrameError(f"undecodable params of {request.method}: {error}") from error
        if attachment is not None:
            attach_to = server.attachers.get(request.method)
            if attach_to is None:
                raise FrameError(f"{request.method} takes no attachment")
            params = attach_to(params, attachment)
        try:
            result = function(params)
        except Exception as error:
            self._answer_error(msgid, error, request.method)
            return
        if isinstance(result, (CoroutineType, asyncio.Future)):
            server.begin_call(self.is_reader)
            future: asyncio.Future[Any] = asyncio.ensure_future(cast(Awaitable[Any], result))
            future.add_done_callback(partial(self._answer_later, msgid, request.method, started))
            return
        self._answer(msgid, result, request.method)
        if started:
            self._note_slow(request.method, started)

    def _answer_later(
        self, msgid: int, method: str, started: float, future: asyncio.Future[Any]
    ) -> None:
        """Send the outcome of an asynchronous handler."""
        self._server.finish_call(self.is_reader)
        if started:
            self._note_slow(method, started)
        if future.cancelled():
            self._answer_error(msgid, Unavailable("the shard is stopping"), method)
        elif (error := future.exception()) is not None:
            self._answer_error(msgid, error, method)
        else:
            self._answer(msgid, future.result(), method)

    def _note_slow(self, method: str, started: float) -> None:
        """Log a call that took longer than it should."""
        seconds = time.perf_counter() - started
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

        That is the cause of an internal error, or of a bug (any exception that is not a
        `ServiceError`). A bug gets an id of its own in this log and in the caller's: a write group
        may fail more requests than its call has ids for.
        """
        if not isinstance(error, ServiceError):
            incident = secrets.token_hex(4)
            _log.error("handler failed", method=method, incident=incident, cause=error)
            error = InternalError(
                "internal error in a shard; its log has the cause", details={"incident": incident}
            )
        elif isinstance(error, InternalError):
            _log.error("call failed", method=method, code=error.code, cause=error)
        wire: WireError = encode_error(error)
        self._write(encode_response(msgid, wire, None))

    def _write(self, pieces: tuple[bytes, ...]) -> None:
        """Send a frame."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            for piece in pieces:
                transport.write(piece)


# --- client -------------------------------------------------------------------------------------


class _Call(msgspec.Struct, frozen=True):
    """A call that waits for its response."""

    future: asyncio.Future[Any]
    decode: Callable[[Any], Any] | None
    expires_at: float
    method: str
    is_write: bool


class RpcClient(asyncio.Protocol):
    """One connection to one shard, from its handshake to its end.

    Args:
        name: of the peer, for messages: "shard 1".
        on_close: called once with the reason when the connection ends.

    Attributes:
        is_open: whether calls can be made.
        last_heard_at: loop time of the last bytes from the peer.
    """

    def __init__(self, name: str, on_close: Callable[[str], None] | None = None) -> None:
        self.name = name
        self.is_open = False
        self.last_heard_at = 0.0
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self._calls: dict[int, _Call] = {}
        self._next_msgid = 0
        self._has_challenge = False
        self._challenge: asyncio.Future[bytes] = self._loop.create_future()
        self._is_congested = False
        self._outgoing: deque[Iterator[tuple[Any, ...]]] = deque()
        self._is_pumping = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._close_reason = "the connection was lost"

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        hello: Hello,
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        on_close: Callable[[str], None] | None = None,
        name: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> tuple[RpcClient, Welcome]:
        """Open a connection and shake hands.

        Args:
            host: where the peer listens.
            port: where the peer listens.
            hello: with the secret itself, which is not sent.
            timeout_ms: for all of it.
            on_close: called once with the reason when the connection ends.
            name: of the peer, for messages; empty: "shard 1".
            tls: encrypts the connection; None: nothing does.

        Raises:
            Unavailable: no peer responds there, or not in time.
            ServiceError: the peer refused the handshake.
        """
        loop = asyncio.get_running_loop()
        client = cls(name or f"shard {hello.shard}", on_close)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await loop.create_connection(lambda: client, host, port, ssl=tls)
        except (OSError, TimeoutError) as error:
            raise Unavailable(f"{client.name} does not answer at {host}:{port}") from error
        try:
            return client, await client.greet(hello, timeout_ms)
        except BaseException:
            client.close("the handshake failed")
            raise

    async def greet(self, hello: Hello, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Welcome:
        """Shake hands; must be the first call of a connection.

        Args:
            hello: with the secret itself, which is not sent.
            timeout_ms: for all of it.

        Raises:
            Unavailable: no challenge or no response came.
            ServiceError: the peer refused.
            Unauthorized: the peer does not know the secret.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                nonce = await asyncio.shield(self._challenge)
        except TimeoutError as error:
            raise Unavailable(
                f"{self.name} does not begin the handshake: it hangs, or another program answers"
            ) from error
        client_nonce = secrets.token_hex(NONCE_BYTES)
        proof = _client_proof(hello.secret, nonce, client_nonce, hello)
        welcome = await self.call(
            HELLO,
            msgspec.structs.replace(hello, secret=f"{client_nonce}:{proof}"),
            timeout_ms,
        )
        expected = _server_proof(hello.secret, nonce, client_nonce)
        if not hmac.compare_digest(welcome.proof.encode(), expected.encode()):
            self._end("it does not know the secret")
            raise Unauthorized(f"the process that answers as {self.name} does not know the secret")
        return msgspec.structs.replace(welcome, proof="")

    def call(
        self,
        method: Method[P, R],
        params: P,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        *,
        is_write: bool = False,
        attachment: Attachment = (),
    ) -> asyncio.Future[R]:
        """Send a call, with the ids of the requests it is for; returns the future of its result.

        Args:
            method: what to call.
            params: its struct; None for a method without.
            timeout_ms: how long to wait for the response; the server abandons a read by then.
            is_write: whether to close the connection if time runs out; writes arrive in the order
                of their calls, reading calls may overtake one with an attachment.
            attachment: bytes that go with the params of a write; must not change until it is
                answered.

        Raises:
            Unavailable: not connected, or too much is in flight already (`overloaded`).
        """
        transport = self._transport
        if not self.is_open or transport is None:
            raise Unavailable(f"{self.name} is not connected")
        if len(self._calls) >= MAX_CALLS_IN_FLIGHT or (
            self._is_congested and transport.get_write_buffer_size() > MAX_UNSENT_BYTES
        ):
            raise Unavailable(
                f"{self.name} has too much to do; try again in a second", code="overloaded"
            )
        msgid = self._next_msgid
        self._next_msgid = msgid + 1
        try:
            pieces = encode_request(
                msgid,
                method.name,
                params,
                REQUEST_IDS.get(),
                int(time.monotonic() * 1000),
                0 if is_write else timeout_ms,
            )
            portions = attach(pieces, attachment) if attachment else None
        except FrameError as error:
            raise PayloadTooLarge(f"the request to {self.name} is too large: {error}") from error
        future: asyncio.Future[R] = self._loop.create_future()
        expires_at = self._loop.time() + timeout_ms / 1000
        self._calls[msgid] = _Call(future, method.decode_result, expires_at, method.name, is_write)
        if self._timer is None or expires_at < self._timer_at:
            self._set_timer(expires_at)
        if attachment or (is_write and self._outgoing):
            self._outgoing.append(iter((pieces,)) if portions is None else portions)
            if not self._is_pumping:
                self._pump()
        else:
            for piece in pieces:
                transport.write(piece)
        return future

    def _pump(self) -> None:
        """Send the next portion of the ordered queue; the rest in later turns of the loop."""
        self._is_pumping = False
        transport = self._transport
        while self._outgoing and transport is not None and not self._is_congested:
            portion = next(self._outgoing[0], None)
            if portion is None:
                self._outgoing.popleft()
                continue
            transport.writelines(portion)
            # In a context of its own: later turns send for other requests too.
            self._loop.call_soon(self._pump, context=Context())
            self._is_pumping = True
            return

    @property
    def num_in_flight(self) -> int:
        """Calls that wait for a response."""
        return len(self._calls)

    def close(self, reason: str) -> None:
        """End the connection at once; every call in flight fails."""
        self._end(reason)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the connection."""
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True
        self.last_heard_at = self._loop.time()
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            # The kernel notices a peer that vanished silently (host or firewall); pings notice it
            # earlier.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all calls in flight."""
        self._end(self._close_reason)

    def pause_writing(self) -> None:
        """Note that the socket is full."""
        self._is_congested = True

    def resume_writing(self) -> None:
        """Note that the socket takes bytes again, and go on."""
        self._is_congested = False
        if not self._is_pumping:
            self._pump()

    def data_received(self, data: bytes) -> None:
        """Give every complete response to its call."""
        self.last_heard_at = self._loop.time()
        try:
            for body, _ in self._reader.feed(data):
                if self._has_challenge:
                    self._take_answer(body)
                else:
                    self._take_challenge(body)
        except FrameError as error:
            _log.warning("connection closed", peer=self.name, reason=str(error))
            self._end(f"it sent what cannot be read: {error}")

    def _take_challenge(self, body: memoryview) -> None:
        """Take the peer's first frame."""
        nonce = decode_challenge(body)
        self._has_challenge = True
        if not self._challenge.done():
            self._challenge.set_result(nonce)

    def _take_answer(self, body: memoryview) -> None:
        """Complete the call that a response belongs to."""
        response = decode_response(body)
        call = self._calls.pop(response.msgid, None)
        if call is None:
            if response.msgid >= self._next_msgid:
                raise FrameError(f"an answer to call {response.msgid}, which was never made")
            return  # too late: its deadline has passed
        future = call.future
        if response.error is not None:
            if not future.done():
                future.set_exception(decode_error(response.error))
            return
        try:
            result = None if call.decode is None else call.decode(response.result)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._fail(call, f"{self.name} sent a result of {call.method} that cannot be read")
            raise FrameError(f"undecodable result of {call.method}: {error}") from error
        if not future.done():  # the caller may have given up
            future.set_result(result)

    def _fail(self, call: _Call, message: str) -> None:
        """Fail one call, unless its caller has given up."""
        if not call.future.done():
            call.future.set_exception(Unavailable(message))

    def _set_timer(self, at: float) -> None:
        """Set the timer to the given loop time."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        # In a context of its own: it fires for whichever calls wait then.
        self._timer = self._loop.call_at(at, self._expire, context=Context())

    def _expire(self) -> None:
        """Fail the calls whose deadline has passed; set the timer for the next one."""
        self._timer = None
        now = self._loop.time()
        if now - self._timer_at > PAUSE_SECONDS:
            # This process was suspended: responses may have arrived, but are unread.
            self._set_timer(now + PAUSE_GRACE_SECONDS)
            return
        late_write = False
        next_at = float("inf")
        for msgid, call in list(self._calls.items()):
            if call.expires_at > now:
                next_at = min(next_at, call.expires_at)
                continue
            del self._calls[msgid]
            late_write = late_write or call.is_write
            if not call.future.done():
                call.future.set_exception(
                    DeadlineExceeded(f"{self.name} did not answer {call.method} in time")
                )
        if late_write:
            self._end("a write was not answered in time")
        elif self._calls:
            self._set_timer(next_at)

    def _end(self, reason: str) -> None:
        """Become unusable, fail all calls in flight, notify the owner. Idempotent."""
        if not self.is_open:
            return
        self.is_open = False
        self._close_reason = reason
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        self._outgoing.clear()
        if not self._challenge.done():
            self._challenge.set_exception(Unavailable(f"{self.name} went away: {reason}"))
            self._challenge.exception()  # marks it as retrieved, if no call waits for it
        calls, self._calls = self._calls, {}
        for call in calls.values():
            self._fail(call, f"{self.name} went away before it answered {call.method}: {reason}")
        if self._on_close is not None:
            self._on_close(reason)
