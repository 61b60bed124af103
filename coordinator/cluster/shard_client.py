"""One shard as seen by the coordinator: its connection, kept up as long as the service runs.

    AWAY ──connect, hello, Welcome──▶ OPENING ──catalog acknowledged──▶ SERVING
      ▲                                                                    │
      └────────────── the connection ends, for any reason ─────────────────┘

Calls go out only while SERVING; otherwise they fail at once, so no request waits for a shard that
is down. Each connection is a new epoch (a new `RpcClient`); nothing of an old one is reused.

Unless an address is configured, every attempt reads the shard's endpoint file first: a restarted
shard has another port.

Supervision: a shard that has sent nothing for a second gets a ping. One that stays silent for
`silent_seconds` hangs (stopped, swapping, deadlocked) and is killed, so that its supervisor
restarts it. Silence is counted in ticks that this process itself has run, not in elapsed time: a
pause of the whole machine kills no shard.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from enum import Enum
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import msgspec

from common.endpoint_files import Endpoint, read_endpoint
from common.errors import DeadlineExceeded, ServiceError, Unavailable
from common.process.logs import Log
from common.protocol.client import DEFAULT_TIMEOUT_MS, RpcClient
from common.protocol.framing import Attachment
from common.protocol.messages import PROTOCOL_VERSION, Hello, Welcome
from common.protocol.methods import PING, Method

RETRY_MIN_SECONDS: Final = 0.02
RETRY_MAX_SECONDS: Final = 0.1
"""Short: an attempt costs the read of a small file, and a connection over loopback."""

TICK_SECONDS: Final = 1.0

HELLO_TIMEOUT_MS: Final = 30_000
"""A shard sends its welcome once the writes of the previous connection are finished."""

P = TypeVar("P")
R = TypeVar("R")

_log = Log("cluster")


class ShardState(Enum):
    """The connection state of a shard."""

    AWAY = "away"
    OPENING = "opening"
    SERVING = "serving"


class Locate(Protocol):
    """Finds where a shard listens; called before every attempt."""

    def __call__(self) -> Endpoint | None:
        """Return the endpoint, or None if the shard has not published it."""
        ...


def locate_in(data: Path, shard: int) -> Locate:
    """Locate a shard by its endpoint file in a data directory."""
    return lambda: read_endpoint(data, shard)


def locate_at(host: str, port: int) -> Locate:
    """Locate a shard at a fixed address; its process (possibly on another host) is not ours."""
    endpoint = Endpoint(host, port, 0)
    return lambda: endpoint


class ShardClient:
    """One shard.

    Args:
        shard: its ordinal.
        num_shards: number of shards.
        secret: proves that we may talk to it.
        locate: finds it.
        on_welcome: called after the handshake with the shard and its welcome; brings the shard up
            to date (pushes the catalog) and calls `begin_serving`.
        silent_seconds: after which a silent shard is killed.
        on_state: called after every change of state.

    Attributes:
        state: of the connection.
        epoch: number of connections on which the shard came to serve.
        pid: of the shard process, 0 before the first connection.
        on_call: called with the method's name and the future of every call; None: no listener.
    """

    def __init__(
        self,
        shard: int,
        num_shards: int,
        secret: str,
        locate: Locate,
        on_welcome: Callable[[ShardClient, Welcome], Awaitable[None]],
        *,
        silent_seconds: float = 10.0,
        on_state: Callable[[ShardClient], None] | None = None,
    ) -> None:
        self.shard = shard
        self.name = f"shard {shard}"
        self.state = ShardState.AWAY
        self.epoch = 0
        self.pid = 0
        self.on_call: Callable[[str, asyncio.Future[Any]], None] | None = None
        self._hello = Hello(PROTOCOL_VERSION, secret, shard, num_shards)
        self._locate = locate
        self._on_welcome = on_welcome
        self._on_state = on_state
        self._silent_ticks_max = max(1, round(silent_seconds / TICK_SECONDS))
        self._client: RpcClient | None = None
        self._closed = asyncio.Event()
        self._serves = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def be_reader(self) -> None:
        """Connect as a coordinator that only reads, next to the owner."""
        self._hello = msgspec.structs.replace(self._hello, is_reader=True)

    def start(self) -> None:
        """Start to look for the shard."""
        self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        """Close the connection and stop reconnecting."""
        self._set_state(ShardState.AWAY)  # deliberate, so no warning
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._client is not None:
            self._client.close("the service stops")

    def call(
        self,
        method: Method[P, R],
        params: P,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        *,
        is_write: bool = False,
        attachment: Attachment = (),
    ) -> asyncio.Future[R]:
        """Call a method; see `RpcClient.call`.

        Raises:
            Unavailable: the shard is not serving, or is overloaded.
        """
        client = self._client
        if client is None or self.state is not ShardState.SERVING:
            raise self._not_serving()
        call = client.call(method, params, timeout_ms, is_write=is_write, attachment=attachment)
        if self.on_call is not None:
            self.on_call(method.name, call)
        return call

    def give_up_cancelled(self) -> None:
        """Let the shard end reads whose futures are cancelled; see `RpcClient`."""
        if self._client is not None:
            self._client.give_up_cancelled()

    def call_opening(self, method: Method[P, R], params: P, timeout_ms: int) -> asyncio.Future[R]:
        """Call a method (such as `catalog`) that a shard serves before it is SERVING."""
        if self._client is None:
            raise self._not_serving()
        return self._client.call(method, params, timeout_ms)

    def begin_serving(self) -> None:
        """Let calls through: the shard is up to date.

        Raises:
            Unavailable: it went down at this very moment.
        """
        if self._client is None or not self._client.is_open:
            raise Unavailable(f"{self.name} went away while it opened its data")
        self.epoch += 1
        _log.info("shard serves", shard=self.shard, pid=self.pid, epoch=self.epoch)
        self._set_state(ShardState.SERVING)

    def disconnect(self, reason: str) -> None:
        """Close the connection; a new one, with its handshake, will be made."""
        if self._client is not None:
            self._client.close(reason)

    async def pause(self, seconds: float) -> None:
        """Return after some seconds, or as soon as the shard serves if it does not now."""
        if self.state is ShardState.SERVING:
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._serves.wait()

    @property
    def num_in_flight(self) -> int:
        """Calls that await a response."""
        return 0 if self._client is None else self._client.num_in_flight

    def _not_serving(self) -> Unavailable:
        """Return the error that says why the shard cannot be called."""
        if self.epoch == 0:
            return Unavailable(f"{self.name} is starting; try again shortly", code="starting")
        what = "is opening its data" if self.state is ShardState.OPENING else "is away"
        return Unavailable(f"{self.name} {what}; try again shortly")

    def _set_state(self, state: ShardState) -> None:
        """Change the state and notify the listener."""
        if state is not self.state:
            self.state = state
            if state is ShardState.SERVING:
                self._serves.set()
            else:
                self._serves.clear()
            if self._on_state is not None:
                self._on_state(self)

    async def _run(self) -> None:
        """Connect, serve until the connection ends, repeat."""
        pause = RETRY_MIN_SECONDS
        last_reason = ""
        while True:
            try:
                endpoint = await self._connect()
                pause, last_reason = RETRY_MIN_SECONDS, ""
                await self._supervise(endpoint)
            except ServiceError as error:
                # Log each reason once: a start would otherwise log 50 lines a second.
                if error.message != last_reason and self.epoch:
                    _log.warning("shard is away", shard=self.shard, reason=error.message)
                last_reason = error.message
            except Exception as error:
                _log.error("shard connection failed", shard=self.shard, cause=error)
            finally:
                if self._client is not None:
                    self._client.close("given up")
                    self._client = None
                self._set_state(ShardState.AWAY)
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, RETRY_MAX_SECONDS)

    async def _connect(self) -> Endpoint:
        """Open a connection, shake hands, bring the shard up to date."""
        endpoint = self._locate()
        if endpoint is None:
            raise Unavailable(f"{self.name} has not published its address")
        self._closed.clear()
        client, welcome = await RpcClient.connect(
            endpoint.host,
            endpoint.port,
            self._hello,
            timeout_ms=HELLO_TIMEOUT_MS,
            on_close=self._note_closed,
        )
        self._client = client
        self.pid = welcome.pid
        self._set_state(ShardState.OPENING)
        updating = asyncio.ensure_future(self._on_welcome(self, welcome))
        watching = asyncio.ensure_future(self._supervise(endpoint))
        try:
            # Opening may take long (to rebuild an index); meanwhile, detect a shard that hangs.
            await asyncio.wait((updating, watching), return_when=asyncio.FIRST_COMPLETED)
            if not updating.done():
                raise Unavailable("the connection was lost while the shard opened its data")
            updating.result()
        finally:
            for task in (updating, watching):
                task.cancel()
            await asyncio.gather(updating, watching, return_exceptions=True)
        return endpoint

    def _note_closed(self, reason: str) -> None:
        """Wake this shard's task; calls fail from now on."""
        if self.state is ShardState.SERVING:
            _log.warning("shard went away", shard=self.shard, pid=self.pid, reason=reason)
        self._set_state(ShardState.AWAY)
        self._closed.set()

    async def _supervise(self, endpoint: Endpoint) -> None:
        """Return when the connection has ended; if the shard hangs, kill it and disconnect."""
        client = self._client
        assert client is not None
        silent_ticks = 0
        heard_at = client.last_heard_at
        while client.is_open:
            try:
                async with asyncio.timeout(TICK_SECONDS):
                    await self._closed.wait()
                return
            except TimeoutError:
                pass
            if client.last_heard_at != heard_at:
                heard_at, silent_ticks = client.last_heard_at, 0
                continue
            silent_ticks += 1
            if silent_ticks > self._silent_ticks_max:
                if not self._hello.is_reader:  # else the owner kills it
                    self._kill(endpoint)
                client.close("it was silent for too long")
                return
            if client.is_open:
                self._ping(client)

    async def answers(self, timeout_ms: int) -> bool:
        """Return whether the shard serves and answers a ping in time.

        Its event loop answers, so a shard that is busy does; one that is stopped does not.
        """
        client = self._client
        if client is None or self.state is not ShardState.SERVING:
            return False
        try:
            await client.call(PING, None, timeout_ms)
        except DeadlineExceeded:
            return False
        except Unavailable:  # it went away, or has too many calls in flight, which it is answering
            return client.is_open and self._heard_within(client, timeout_ms)
        return True

    @staticmethod
    def _heard_within(client: RpcClient, num_ms: int) -> bool:
        return asyncio.get_running_loop().time() - client.last_heard_at <= num_ms / 1000

    @staticmethod
    def _ping(client: RpcClient) -> None:
        """Send a heartbeat; the response itself is ignored."""
        try:
            ping: asyncio.Future[None] = client.call(PING, None)
        except Unavailable:
            return  # too many calls in flight: any of their responses will do
        ping.add_done_callback(lambda future: future.cancelled() or future.exception())

    def _kill(self, endpoint: Endpoint) -> None:
        """Kill a hanging process, but only one known to be a shard of this data directory."""
        if endpoint.pid == 0 or endpoint.pid != self.pid:
            _log.error("shard hangs; restart it", shard=self.shard, pid=self.pid)
            return
        _log.error("shard hangs and is killed", shard=self.shard, pid=self.pid)
        try:
            os.kill(self.pid, signal.SIGKILL)
        except OSError as error:
            _log.error("shard could not be killed", shard=self.shard, reason=error.strerror)
