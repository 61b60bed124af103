"""All shards together: their state, the newest write, and the states that searches may see.

Write sequence. One counter over all indexes numbers every group of writes (`seq`). At startup it
resumes from the shards' maxima, so the service accepts no writes until every shard has reported its
own.

Horizon. A search carries the horizon of its index: the newest state that searches may see
(`coordinator.cluster.read_horizons`). Shards receive only the oldest one in use
(`ApplyRequest.horizon`), so they keep every state that a request can still name.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from common import data_directory
from common.errors import ServiceError
from common.protocol.messages import NewestGroupsRequest, Welcome
from common.protocol.methods import NEWEST_GROUPS
from coordinator.addresses import parse_address
from coordinator.catalog.catalog import Catalog
from coordinator.cluster.catalog_delivery import CatalogDelivery
from coordinator.cluster.local_shard_clients import LocalShards
from coordinator.cluster.read_horizons import Horizons, Reading
from coordinator.cluster.readiness import Readiness
from coordinator.cluster.shard_client import Locate, ShardClient, ShardState, locate_at, locate_in
from coordinator.cluster.shard_copies import PlacedShard, PlacedShards
from coordinator.cluster.shared_memory import SharedState
from coordinator.cluster.start_progress import StartProgress
from coordinator.settings import Settings


@dataclass(frozen=True, slots=True)
class ShardTimeouts:
    """How long to wait for a shard.

    Attributes:
        read_ms: for its response to a read, unless the read has more time than is usual.
        configure_ms: for it to open all indexes.
        silent_seconds: after which a silent shard is killed.
        usual_ms: that a read has if its request does not say.
    """

    read_ms: int = 5_000
    configure_ms: int = 3_600_000
    silent_seconds: float = 10.0
    usual_ms: int = 10_000

    def of_read(self, remaining_ms: int, *, is_partial: bool) -> int:
        """Return how long to wait for a shard's response to a read.

        Args:
            remaining_ms: until the read is due.
            is_partial: whether the others are answered without a late shard.
        """
        has_more_time = remaining_ms > self.usual_ms and not is_partial
        return remaining_ms if has_more_time else min(remaining_ms, self.read_ms)


DEFAULT_TIMEOUTS: Final = ShardTimeouts()
_NO_GROUPS: Final = (1 << 63) - 1
"""A request for all newer groups gets none."""


class Cluster:
    """All shards of the service.

    Args:
        catalog: sent to the shards.
        locators: one per shard of this host; finds where it listens.
        secret: proves to the shards that we may talk to them.
        timeouts: of the shards.
        ordinals: of the shards of this host, where shards are placed over hosts; None: all.
        num_shards: of all hosts together, where shards are placed over hosts.

    Attributes:
        horizons: the states that searches may see.
        shards: by ordinal; what requests read from.
        here: the shards of this host, by ordinal; all of them unless they are placed over hosts.
        placed: which host has which shard; None where each host has all.
        local_shards: those of this host; they come and go.
        readiness: whether requests for data are answered.
        num_shards: number of shards.
        seq: the newest write sequence number assigned.
        starting: progress of the start.
    """

    def __init__(
        self,
        catalog: Catalog,
        locators: tuple[Locate, ...],
        secret: str,
        *,
        timeouts: ShardTimeouts = DEFAULT_TIMEOUTS,
        ordinals: tuple[int, ...] | None = None,
        num_shards: int = 0,
    ) -> None:
        self._catalog_delivery = CatalogDelivery(catalog, timeouts.configure_ms)
        self.timeouts = timeouts
        self.num_shards = num_shards or len(locators)
        self._secret = secret
        held = range(len(locators)) if ordinals is None else ordinals
        self.local_shards = LocalShards(self._client_of, zip(held, locators, strict=True))
        self.here = self.local_shards.clients
        self.horizons = Horizons()
        self.placed = (
            None
            if ordinals is None
            else PlacedShards(self.num_shards, self.local_shards, self.horizons.oldest_in_use)
        )
        self.shards: tuple[ShardClient | PlacedShard, ...] = (
            tuple(self.here.values()) if self.placed is None else self.placed.shards
        )
        self.starting = StartProgress(tuple(self.here.values()))
        self.readiness = Readiness(self.horizons, self.starting)
        self._watching: asyncio.Task[None] | None = None
        self.seq = 0
        self._shared: SharedState | None = None
        self._ready = asyncio.Event()
        self._listeners: list[Callable[[ShardClient], None]] = []

    def _client_of(self, shard: int, locate: Locate) -> ShardClient:
        return ShardClient(
            shard,
            self.num_shards,
            self._secret,
            locate,
            self._bring_up_to_date,
            silent_seconds=self.timeouts.silent_seconds,
            on_state=self._note_state,
        )

    @classmethod
    def from_settings(
        cls, settings: Settings, catalog: Catalog, held: tuple[int, ...] | None = None
    ) -> Self:
        """Create the cluster that the settings describe.

        Args:
            settings: of the service.
            catalog: sent to the shards.
            held: ordinals of the shards of this host; None: as the settings say.

        Raises:
            SettingError: a shard address is malformed.
        """
        data: Path = settings.data_dir
        held = settings.own_shards if held is None else held
        if settings.shard_addresses:
            locators = tuple(locate_at(*parse_address(text)) for text in settings.shard_addresses)
        else:
            locators = tuple(locate_in(data, shard) for shard in held)
        return cls(
            catalog,
            locators,
            data_directory.read_or_create_secret(data),
            timeouts=ShardTimeouts(
                settings.shard_timeout_ms,
                settings.configure_timeout_ms,
                settings.silent_shard_seconds,
                settings.limits.request_timeout_ms,
            ),
            ordinals=held if settings.has_placed_shards else None,
            num_shards=settings.all_shards if settings.has_placed_shards else 0,
        )

    # --- life

    def start(self) -> None:
        """Start to connect."""
        for shard in self.here.values():
            shard.start()
        self._watching = asyncio.create_task(self.starting.watch(self._ready))

    async def stop(self) -> None:
        """Close all connections."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        shards = (*self.here.values(), *self.local_shards.arriving.values())
        await asyncio.gather(*(shard.stop() for shard in shards))

    @property
    def is_ready(self) -> bool:
        """Whether all shards are serving."""
        return self._ready.is_set() and (self.placed is None or not self.failed_shards())

    @property
    def is_ready_here(self) -> bool:
        """Whether all shards of this host are serving."""
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        """Return once all shards of this host are serving."""
        await self._ready.wait()

    def failed_shards(self) -> list[int]:
        """Ordinals of the shards that are not serving."""
        return [s.shard for s in self.shards if s.state is not ShardState.SERVING]

    async def silent_shards(self, timeout_ms: int) -> list[int]:
        """Ordinals of the shards that do not serve, or do not answer a ping in time."""
        answers = await asyncio.gather(*(shard.answers(timeout_ms) for shard in self.shards))
        return [s.shard for s, is_well in zip(self.shards, answers, strict=True) if not is_well]

    def on_state(self, listener: Callable[[ShardClient], None]) -> None:
        """Call a function whenever a shard changes state."""
        self._listeners.append(listener)

    # --- shared with other coordinators of this service

    def share(self, shared: SharedState) -> None:
        """Begin to publish the searchable states to the reader coordinators."""
        self._shared = shared
        self.horizons.share(shared)
        self.readiness.share(shared)

    # --- sequence and horizon

    def next_seq(self) -> int:
        """Assign the sequence number of a new group of writes.

        Raises:
            Unavailable: `starting`; some shard has not reported what it has.
        """
        self.check_serving()
        self.seq += 1
        return self.seq

    def check_serving(self) -> None:
        """Raise until all shards have reported what they have on disk, and while data is withheld.

        Raises:
            Unavailable: `starting`, or why requests for data are refused.
        """
        self.readiness.check()

    def horizon(self, index: int) -> int:
        """Return the horizon that a search of an index (by number) may see now.

        Raises:
            Unavailable: `starting`.
        """
        self.check_serving()
        return self.horizons.newest(index)

    def take_up(self, index: int, seq: int) -> None:
        """Make the initial data of a new index visible; continue numbering after it."""
        self.seq = max(self.seq, seq)
        self.horizons.advance(index, seq)

    def begin_read(self, index: int) -> int:
        """Return the horizon for a request of several calls; `Horizons.release` must follow.

        Raises:
            Unavailable: `starting`.
        """
        return self.reading(index).__enter__()

    def reading(self, index: int) -> Reading:
        """Hold the horizon of an index for the body of a `with` statement, which follows at once.

        Raises:
            Unavailable: `starting`.
        """
        if not self.readiness.is_open:
            self.check_serving()
        return self.horizons.reading(index)

    def oldest_horizon(self, index: int) -> int:
        """Return the oldest horizon of an index that any request still uses."""
        states, floor = self.horizons.states(index), self.horizons.floor
        if self.placed is None:
            oldest = min(states.readers, default=states.seq)
            return oldest if self._shared is None else self._shared.oldest_in_use(index, oldest)
        held = self.placed.oldest_held
        oldest = min(states.readers, default=floor)
        oldest = min(oldest, self.placed.oldest_needed, floor if held is None else held)
        self.local_shards.released = max(self.local_shards.released, oldest)
        return oldest

    def reading_here(self, index: int) -> Reading:
        """Hold the newest state of this host's shards, for the body of a `with` statement.

        Where shards are placed over hosts, that may be more than what searches see, and it can be
        read before searches are answered, which takes a copy of every shard.

        Raises:
            Unavailable: `starting`, or this host has stopped.
        """
        if self.placed is None:
            return self.reading(index)
        if not self.readiness.has_started or self.local_shards.is_stopped:
            self.check_serving()
        return Reading(self.horizons.states(index), self.local_shards.applied)

    def reading_at(self, index: int, seq: int) -> Reading:
        """Hold a state of an index for the body of a `with` statement, if it is still there.

        Raises:
            Unavailable: `starting`, or this host has stopped.
        """
        if not self.readiness.has_started or self.local_shards.is_stopped:
            self.check_serving()
        return Reading(self.horizons.states(index), seq)

    # --- catalog

    async def push_catalog(self) -> None:
        """Send the shards the current catalog; return once every serving one has applied it."""
        await self._catalog_delivery.push(self.here, self.local_shards.arriving)

    async def _bring_up_to_date(self, shard: ShardClient, welcome: Welcome) -> None:
        """Note what a newly connected shard has, and send it the catalog."""
        self.seq = max(self.seq, welcome.seq_max)
        self.local_shards.begun_at[shard.shard] = welcome.seq_max
        self.horizons.resolve_doubts(shard.shard, welcome.seq_max)
        await self._catalog_delivery.begin_serving(shard)
        if self.placed is not None and self.here.get(shard.shard) is shard:
            with contextlib.suppress(ServiceError):  # then the floor will soon pass what it has
                await self.note_kept(shard)

    async def note_kept(self, shard: ShardClient) -> None:
        """Note which states a shard of this host still has, where shards are placed over hosts.

        Raises:
            ServiceError: it does not answer.
        """
        assert self.placed is not None
        request = NewestGroupsRequest(_NO_GROUPS)
        answer = await shard.call(NEWEST_GROUPS, request, self.timeouts.read_ms)
        self.local_shards.begun_at[shard.shard] = answer.kept_from
        self.placed.update()

    def _note_state(self, shard: ShardClient) -> None:
        """Update readiness when a shard changes state."""
        if self.here.get(shard.shard) is not shard:
            return  # it arrives, or has left
        self._update_readiness()
        if self.placed is not None:
            self.placed.update()
        for listener in self._listeners:
            listener(shard)

    def _update_readiness(self) -> None:
        """Find out whether all shards of this host are serving."""
        if all(one.state is ShardState.SERVING for one in self.here.values()):
            if not self.readiness.has_started:
                self.readiness.begin(self.seq)
            self._ready.set()
        else:
            self._ready.clear()

    # --- shards that move

    def admit(self, shard: int, seq: int) -> None:
        """Add a shard to those of this host; see `LocalShards.admit`."""
        self.local_shards.admit(shard, seq)
        self._update_readiness()

    def dismiss(self, shard: int) -> ShardClient:
        """Remove a shard from those of this host, whether it serves or not; return it."""
        client = self.local_shards.dismiss(shard)
        self._update_readiness()
        return client
