"""Another host that holds shards, as seen from here: its connection, and its position in the log.

    connect, hello ──▶ progress? ──▶ (answers at once if it has come further, else within 0.2 s) ─┐
                          ▲                                                                       │
                          └───────────────────────────────────────────────────────────────────────┘

The poll is also the heartbeat: a host that leaves it open for too long is frozen or cut off; its
connection is closed, so that requests turn to another copy of its shards.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from common.errors import ServiceError, Unavailable
from common.process.logs import Log
from common.protocol.client import RpcClient
from common.protocol.messages import (
    PROTOCOL_VERSION,
    ApplyResponse,
    GroupOutcomesRequest,
    Hello,
    HostProgress,
    OtherProgress,
)
from common.protocol.methods import GROUP_OUTCOMES, PROGRESS, Method
from coordinator.addresses import parse_address
from coordinator.cluster.shard_copies import PlacedShards
from coordinator.replication.placement.peer_server import WHOLE_HOST, method_of
from coordinator.replication.placement.placement_table import PlacedHost

CONNECT_MS: Final = 3_000
SILENT_MS: Final = 2_500
"""A host that has not reported its progress for this long counts as gone."""
RETRY_SECONDS: Final = 0.2
GONE_SECONDS: Final = 10.0
"""A host that has been away for so long may have been replaced by another of the same name."""

P = TypeVar("P")
R = TypeVar("R")

_log = Log("placement")


class OtherHost:
    """Another host (`ShardHost`).

    Args:
        address: at which it is reached.
        row: its row in the table.
        own_address: of this host; names what it holds there.
        secret: that all hosts know.
        placed: notified of changes.
        is_serving: whether requests may read on this host.
        tls: makes the context of a connection; None: not encrypted.

    Attributes:
        address: at which it is reached.
        row: its row in the table.
        name: for people.
        applied: entry of the log up to which it has applied everything.
        prepared: newest change of the catalog that it could put in force at once.
        in_force: newest change of the catalog that it is known to have put in force; it outlasts
            connections, since a host that has just started does not know which one that is.
        moved_at: when `applied` or `prepared` grew last; monotonic seconds.
        is_connected: whether it has reported its progress.
        lost_at: when it was last found not to be connected; monotonic seconds.
    """

    def __init__(
        self,
        address: str,
        row: PlacedHost,
        own_address: str,
        secret: str,
        placed: PlacedShards,
        is_serving: Callable[[], bool],
        tls: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        self.address = address
        self.row = row
        self.name = row.name
        self.applied = -1
        self.prepared = -1
        self.in_force = -1
        self.moved_at = time.monotonic()
        self.is_connected = False
        self.lost_at = self.moved_at
        self._own_address = own_address
        self._hello = Hello(
            PROTOCOL_VERSION, secret, WHOLE_HOST, len(placed.shards), is_reader=True
        )
        self._placed = placed
        self._is_serving = is_serving
        self._tls = tls
        self._client: RpcClient | None = None
        self._epoch = 0
        self._kept_from: dict[int, int] = {}
        self._in_flight: dict[int, int] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to connect."""
        self._task = asyncio.create_task(self._run(), name=f"host {self.address}")

    async def stop(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # --- ShardHost

    def kept_from(self, shard: int) -> int | None:
        """Return the oldest state that its copy of a shard has; None if it serves none."""
        return self._kept_from.get(shard)

    def epoch(self, shard: int) -> int:
        """Return the number of the connection."""
        return self._epoch

    def call(
        self, shard: int, method: Method[P, R], params: P, timeout_ms: int
    ) -> asyncio.Future[R]:
        """Call a method of one of its shards.

        Raises:
            Unavailable: it is not connected, or has too much to do.
        """
        call: asyncio.Future[R] = self._connected().call(
            method_of(method, shard), params, timeout_ms
        )
        self._in_flight[shard] = self._in_flight.get(shard, 0) + 1
        call.add_done_callback(lambda _: self._end_call(shard))
        return call

    def _end_call(self, shard: int) -> None:
        self._in_flight[shard] -= 1

    def give_up_cancelled(self, shard: int) -> None:
        """Let its shards end reads whose futures are cancelled."""
        if self._client is not None:
            self._client.give_up_cancelled()

    def num_in_flight(self, shard: int) -> int:
        """Return how many calls of a shard await a response."""
        return self._in_flight.get(shard, 0)

    # --- more

    async def outcomes(self, request: GroupOutcomesRequest, timeout_ms: int) -> ApplyResponse:
        """Return the outcomes of a group on a shard, once it is applied there.

        Raises:
            ServiceError: it is gone, or not in time.
        """
        answer: ApplyResponse = await self._connected().call(GROUP_OUTCOMES, request, timeout_ms)
        if request.seq > self.applied:
            self.applied = request.seq
            self.moved_at = time.monotonic()
            self._placed.update()
        return answer

    def _connected(self) -> RpcClient:
        if self._client is None:
            raise Unavailable(f"host {self.name} is away; try again shortly")
        return self._client

    async def _run(self) -> None:
        """Connect, follow its progress until the connection ends, repeat."""
        last_reason = ""
        while True:
            try:
                await self._follow()
            except (ServiceError, OSError) as error:
                reason = str(error)
                if reason != last_reason:
                    _log.warning("a host is away", host=self.name, reason=reason)
                    last_reason = reason
            except Exception as error:
                _log.error("connection to a host failed", host=self.name, cause=error)
            finally:
                if self._client is not None:
                    self._client.close("given up")
                self._note_gone()
            await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self) -> None:
        host, port = parse_address(self.address)
        client, _ = await RpcClient.connect(
            host,
            port,
            self._hello,
            timeout_ms=CONNECT_MS,
            on_close=lambda reason: self._note_gone(),
            name=f"host {self.name}",
            tls=None if self._tls is None else self._tls(),
        )
        self._client = client
        self._epoch += 1
        self.applied = self.prepared = -1  # its data may have been lost
        while True:
            held = self._placed.oldest_needed if self._is_serving() else -1
            request = HostProgress(self._own_address, held, self.applied, self.prepared)
            self._take(await client.call(PROGRESS, request, SILENT_MS))
            if not self.is_connected:
                self.is_connected = True
                _log.info("a host is connected", host=self.name, seq=self.applied)

    def _take(self, progress: OtherProgress) -> None:
        """Take a report of its progress."""
        applied = max(self.applied, progress.applied)
        if progress.prepared <= applied:
            self.in_force = max(self.in_force, progress.prepared)
        if (applied, progress.prepared) != (self.applied, self.prepared):
            self.moved_at = time.monotonic()
            self.applied, self.prepared = applied, progress.prepared
        elif progress.kept_from == self._kept_from:
            return
        self._kept_from = progress.kept_from
        self._placed.update()

    def _note_gone(self) -> None:
        """Stop using it."""
        self._client = None
        if self.is_connected:
            self.lost_at = time.monotonic()
        was_known = bool(self._kept_from)
        self._kept_from = {}
        self.is_connected = False
        if was_known:
            self._placed.update()

    @property
    def is_gone(self) -> bool:
        """Whether it has been away for long."""
        return not self.is_connected and time.monotonic() - self.lost_at >= GONE_SECONDS

    @property
    def shown(self) -> dict[str, Any]:
        """Return its status for operators."""
        return {
            "address": self.address,
            "name": self.name,
            "shards": list(self.row.shards),
            "serving": sorted(self._kept_from),
            "seq": self.applied,
            "is_connected": self.is_connected,
        }
