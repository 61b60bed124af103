"""Connections to the shards of this host, among hosts that hold some each; what these have."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from common.errors import Unavailable
from common.protocol.methods import Method
from coordinator.cluster.shard_client import Locate, ShardClient, ShardState

P = TypeVar("P")
R = TypeVar("R")


class LocalShards:
    """The shards of this host; in the role of a `ShardHost`.

    Args:
        connect: makes the connection to a shard.
        held: the shards of this host, and where each is found.

    Attributes:
        clients: the shards of this host, by ordinal; they come and go.
        arriving: shards that it is about to hold, by ordinal; not read yet.
        name, applied, prepared, in_force, moved_at: as in `ShardHost`.
        begun_at: by shard: the oldest state that it had when it came last, if known.
        released: states before it may be gone on all shards.
        is_stopped: whether its data differ from the other hosts', so that it must not be read.
        leaving: shards that no new request may read here.
    """

    def __init__(
        self, connect: Callable[[int, Locate], ShardClient], held: Iterable[tuple[int, Locate]]
    ) -> None:
        self._connect = connect
        self.clients = {shard: connect(shard, locate) for shard, locate in held}
        self.arriving: dict[int, ShardClient] = {}
        self.name = "this host"
        self.applied = -1
        self.prepared = -1
        self.in_force = -1
        self.moved_at = time.monotonic()
        self.is_stopped = False
        self.leaving: set[int] = set()
        self.begun_at = dict.fromkeys(self.clients, 0)
        self.released = 0

    def begin_arriving(self, shard: int, locate: Locate) -> ShardClient:
        """Connect to a shard of this host that is not read yet."""
        client = self._connect(shard, locate)
        self.arriving[shard] = client
        client.start()
        return client

    async def end_arriving(self, shard: int) -> None:
        """Disconnect from a shard, unless this host has it now."""
        client = self.arriving.pop(shard, None)
        if client is not None:
            await client.stop()

    def admit(self, shard: int, seq: int) -> None:
        """Add a shard to those of this host.

        Args:
            shard: one of `arriving`, which serves.
            seq: it has everything up to there; older states may be gone.
        """
        self.begun_at[shard] = max(self.begun_at[shard], seq)
        self.clients[shard] = self.arriving.pop(shard)

    def dismiss(self, shard: int) -> ShardClient:
        """Remove a shard from those of this host; return it, to be stopped."""
        return self.clients.pop(shard)

    def kept_from(self, shard: int) -> int | None:
        """Return the oldest state that a shard is sure to have; None if it does not serve here."""
        return None if shard in self.leaving else self.readable_from(shard)

    def readable_from(self, shard: int) -> int | None:
        """Return the same, also for a shard that is about to leave, for reads already begun."""
        client = self.clients.get(shard)
        if self.is_stopped or client is None or client.state is not ShardState.SERVING:
            return None
        return max(self.released, self.begun_at[shard])

    def epoch(self, shard: int) -> int:
        """Return the number of the connection: a shard that was away may lack older states."""
        client = self.clients.get(shard)
        return 0 if client is None else client.epoch

    def call(
        self, shard: int, method: Method[P, R], params: P, timeout_ms: int
    ) -> asyncio.Future[R]:
        """Call a method; see `ShardClient.call`."""
        client = self.clients.get(shard)
        if client is None:
            raise Unavailable(f"shard {shard} has been moved to another host")
        return client.call(method, params, timeout_ms)

    def give_up_cancelled(self, shard: int) -> None:
        """Let a shard end reads whose futures are cancelled."""
        client = self.clients.get(shard)
        if client is not None:
            client.give_up_cancelled()

    def num_in_flight(self, shard: int) -> int:
        """Calls of a shard that await a response."""
        client = self.clients.get(shard)
        return 0 if client is None else client.num_in_flight
