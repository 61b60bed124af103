"""One shard as the coordinator sees it: its connection, kept up for as long as the service runs.

    AWAY ──connect, hello, Welcome──▶ OPENING ──catalog acknowledged──▶ SERVING
      ▲                                                                    │
      └────────────── the connection ends, for any reason ─────────────────┘

A call goes out only while SERVING; otherwise it fails at once, so that nobody waits for a shard
that is not there. Each connection is a new epoch (a new `RpcClient`); nothing of an old one is used
again.

Where the shard listens is read from its endpoint file before every attempt (a restarted shard has
another port), unless an address was given.

Supervision: a shard that sent nothing for a second gets a ping; one that stays silent for
`silent_seconds` hangs (stopped, swapping, dead-locked), and is killed, so that its supervisor
starts it again. Silence is counted in ticks that this process has lived through, not in time that
passed: after a pause of the whole machine nobody is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from enum import Enum
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from common import data_directory
from common.data_directory import Endpoint
from common.errors import ServiceError, Unavailable
from common.process.logs import Log
from common.protocol.connection import DEFAULT_TIMEOUT_MS, RpcClient
from common.protocol.framing import Attachment
from common.protocol.messages import PROTOCOL_VERSION, Hello, Welcome

RETRY_MIN_SECONDS: Final = 0.02
RETRY_MAX_SECONDS: Final = 0.1
"""Short: looking for a shard costs one small file and one loopback connect."""

TICK_SECONDS: Final = 1.0

HELLO_TIMEOUT_MS: Final = 30_000
"""A shard welcomes when the writes of the former connection are finished."""

T = TypeVar("T")

_log = Log("cluster")


class ShardState(Enum):
    """How far a shard is."""

    AWAY = "away"
    OPENING = "opening"
    SERVING = "serving"


class Locate(Protocol):
    """Finds out where a shard listens; asked before every attempt."""

    def __call__(self) -> Endpoint | None:
        """Return the endpoint, or None if the shard has not said."""
        ...


def locate_in(data: Path, shard: int) -> Locate:
    """Look into the endpoint file of a data directory."""
    return lambda: data_directory.read_endpoint(data, shard)


def locate_at(host: str, port: int) -> Locate:
    """Know the address; the process, perhaps on another host or in a container, is not ours."""
    endpoint = Endpoint(host, port, 0)
    return lambda: endpoint


class ShardClient:
    """One shard.

    Args:
        shard: its ordinal.
        num_shards: number of shards.
        secret: proves that we may talk to it.
        locate: finds it.
        on_welcome: called after the handshake with the shard and its answer; brings the shard up to
            date (pushes the catalog) and calls `begin_serving`.
        silent_seconds: after which a shard is killed.
        on_state: called after every change of state.

    Attributes:
        state: how far the shard is.
        epoch: number of connections that were made so far.
        pid: of the shard process, 0 before the first connection.
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
        self._hello = Hello(PROTOCOL_VERSION, secret, shard, num_shards)
        self._locate = locate
        self._on_welcome = on_welcome
        self._on_state = on_state
        self._silent_ticks_max = max(1, round(silent_seconds / TICK_SECONDS))
        self._client: RpcClient | None = None
        self._closed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look for the shard."""
        self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        """Close the connection and look no more."""
        self._set_state(ShardState.AWAY)  # on purpose: nobody needs to be warned
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._client is not None:
            self._client.close("the service stops")

    def call(
        self,
        method: str,
        params: Any,
        result_type: type[T] | None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        *,
        is_write: bool = False,
        attachment: Attachment = (),
    ) -> asyncio.Future[T]:
        """Call a method; see `RpcClient.call`.

        Raises:
            Unavailable: the shard does not serve at the moment, or has too much to do.
        """
        client = self._client
        if client is None or self.state is not ShardState.SERVING:
            raise self._not_serving()
        return client.call(
            method, params, result_type, timeout_ms, is_write=is_write, attachment=attachment
        )

    def call_opening(
        self, method: str, params: Any, result_type: type[T] | None, timeout_ms: int
    ) -> asyncio.Future[T]:
        """Call a method of a shard that need not serve yet (`catalog`)."""
        if self._client is None:
            raise self._not_serving()
        return self._client.call(method, params, result_type, timeout_ms)

    def begin_serving(self) -> None:
        """Let calls through: the shard is up to date.

        Raises:
            Unavailable: it went away in this very moment.
        """
        if self._client is None or not self._client.is_open:
            raise Unavailable(f"{self.name} went away while it opened its data")
        self.epoch += 1
        _log.info("shard serves", shard=self.shard, pid=self.pid, epoch=self.epoch)
        self._set_state(ShardState.SERVING)

    def disconnect(self, reason: str) -> None:
        """End the connection; a new one, with its handshake, will be made."""
        if self._client is not None:
            self._client.close(reason)

    @property
    def num_in_flight(self) -> int:
        """Calls that wait for an answer."""
        return 0 if self._client is None else self._client.num_in_flight

    def _not_serving(self) -> Unavailable:
        """Say why nothing can be asked."""
        if self.epoch == 0:
            return Unavailable(f"{self.name} is starting; try again shortly", code="starting")
        what = "is opening its data" if self.state is ShardState.OPENING else "is away"
        return Unavailable(f"{self.name} {what}; try again shortly")

    def _set_state(self, state: ShardState) -> None:
        """Change the state and tell."""
        if state is not self.state:
            self.state = state
            if self._on_state is not None:
                self._on_state(self)

    async def _run(self) -> None:
        """Connect, serve until the connection ends, and again."""
        pause = RETRY_MIN_SECONDS
        last_reason = ""
        while True:
            try:
                endpoint = await self._connect()
                pause, last_reason = RETRY_MIN_SECONDS, ""
                await self._supervise(endpoint)
            except ServiceError as error:
                # Once a reason: a start would otherwise log 50 lines a second.
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
            raise Unavailable(f"{self.name} has not said where it listens")
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
            # Opening may take long (an index to be rebuilt); a shard that hangs in it is noticed.
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
        """Wake the task of this shard; calls fail from this moment on."""
        if self.state is ShardState.SERVING:
            _log.warning("shard went away", shard=self.shard, pid=self.pid, reason=reason)
        self._set_state(ShardState.AWAY)
        self._closed.set()

    async def _supervise(self, endpoint: Endpoint) -> None:
        """Return when the connection has ended; end it, and the shard, if the shard hangs."""
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
                self._kill(endpoint)
                client.close("it was silent for too long")
                return
            if client.is_open:
                self._ping(client)

    @staticmethod
    def _ping(client: RpcClient) -> None:
        """Ask for a sign of life; nobody waits for the answer itself."""
        try:
            ping: asyncio.Future[None] = client.call("ping", None, None)
        except Unavailable:
            return  # too much in flight: an answer to any of it is a sign of life too
        ping.add_done_callback(lambda future: future.cancelled() or future.exception())

    def _kill(self, endpoint: Endpoint) -> None:
        """End a process that hangs; only one that we know to be a shard of this data directory."""
        if endpoint.pid == 0 or endpoint.pid != self.pid:
            _log.error("shard hangs; restart it", shard=self.shard, pid=self.pid)
            return
        _log.error("shard hangs and is killed", shard=self.shard, pid=self.pid)
        try:
            os.kill(self.pid, signal.SIGKILL)
        except OSError as error:
            _log.error("shard could not be killed", shard=self.shard, reason=error.strerror)
