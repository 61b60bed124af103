"""Shards placed over hosts: the copies of each shard, their progress, and the copy that is read.

    shard   this host   host b   host c        floor = the entry of the log that this host and the
      0        ●          ○                            chosen copy (●) of every shard have
      1        ●                   ○                   applied: what searches here see
      2                   ●        ○

A request reads each shard from one copy, from its first call to its last: records are numbered by
each copy for itself. If that copy is lost meanwhile, the request runs again, with another one.

The chosen copy stays chosen while it serves, since this host's caches for a copy (the numbers of
facet values) are useless for another. It is left if it has not advanced for a while and another one
has, and if it lacks the floor's state and another one has it.

States. Every host keeps the states that requests of any host may still name: hosts keep exchanging
the oldest one (`held`). A host that has been silent for a while is not waited for. It also keeps
those that a host could name after a power cut, before it hears from the log: see
`coordinator.replication.startup.state_without_log`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import xxhash

from common.errors import ReplicaLost, ServiceError, Unavailable
from common.protocol.client import DEFAULT_TIMEOUT_MS
from common.protocol.framing import Attachment
from common.protocol.methods import PING, Method
from coordinator.cluster.shard_client import ShardState

STALLED_SECONDS: Final = 1.0
"""A copy that has not advanced for this long is abandoned for one that has."""
HELD_SECONDS: Final = 10.0
"""A host that has been silent for this long loses the states that it held."""
HELD_SECONDS_MAX: Final = 900.0
"""A host that holds one old state for this long loses it: it must not fill the others' memory."""
NEEDED_SECONDS: Final = 0.02
"""How long the oldest state in use is cached: there may be many indexes."""
TAKE_OVER_SECONDS: Final = 4.0
"""How long a request waits for another copy of a shard whose host is gone."""
READS_MAX: Final = 3
"""How often a request runs while it loses copies; the last loss is its error."""

P = TypeVar("P")
R = TypeVar("R")


class ShardHost(Protocol):
    """A host that has copies of some shards, as known here.

    Attributes:
        name: for people.
        applied: entry of the log up to which it has applied everything.
        prepared: newest change of the catalog that it could put in force at once.
        in_force: newest change of the catalog that it is known to have put in force.
        moved_at: when `applied` or `prepared` grew last; monotonic seconds.
    """

    name: str
    applied: int
    prepared: int
    in_force: int
    moved_at: float

    def kept_from(self, shard: int) -> int | None:
        """Return the oldest state that its copy of a shard has; None if it serves none."""
        ...

    def epoch(self, shard: int) -> int:
        """Return a number that changes when the copy may have become another one."""
        ...

    def call(
        self, shard: int, method: Method[P, R], params: P, timeout_ms: int
    ) -> asyncio.Future[R]:
        """Call a method of a shard.

        Raises:
            Unavailable: it does not serve.
        """
        ...

    def give_up_cancelled(self, shard: int) -> None:
        """Let a shard end reads whose futures are cancelled."""
        ...

    def num_in_flight(self, shard: int) -> int:
        """Return how many calls of a shard await a response."""
        ...


class ReadRoute:
    """The copy of each shard that a request reads.

    Args:
        may_repeat: whether the request may run again.
    """

    __slots__ = ("hosts", "may_repeat")

    def __init__(self, *, may_repeat: bool) -> None:
        self.may_repeat = may_repeat
        self.hosts: dict[int, tuple[ShardHost, int]] = {}


READ_ROUTE: Final[ContextVar[ReadRoute | None]] = ContextVar("READ_ROUTE", default=None)


class PlacedShard:
    """One shard, of which some hosts have copies; used as a `ShardClient`.

    Attributes:
        shard: its ordinal.
        name: for messages.
        host: whose copy is read; None: no host serves one.
        on_call: called with the method's name and the future of every call; None: no listener.
        pid: 0; its process may be on another host.
    """

    def __init__(self, shard: int, placed: PlacedShards) -> None:
        self.shard = shard
        self.name = f"shard {shard}"
        self.host: ShardHost | None = None
        self.on_call: Callable[[str, asyncio.Future[Any]], None] | None = None
        self.pid = 0
        self._placed = placed
        self._behind_since: float | None = None

    @property
    def state(self) -> ShardState:
        """Whether the chosen copy can be read."""
        return ShardState.SERVING if self._can_read(self.host) else ShardState.AWAY

    @property
    def epoch(self) -> int:
        """Number of the connection to the chosen copy; 0: no copy is chosen."""
        return 0 if self.host is None else self.host.epoch(self.shard)

    @property
    def num_in_flight(self) -> int:
        """Calls that await a response."""
        return 0 if self.host is None else self.host.num_in_flight(self.shard)

    def _can_read(self, host: ShardHost | None) -> bool:
        """Return whether a copy has the state that searches see."""
        if host is None:
            return False
        kept_from = host.kept_from(self.shard)
        return kept_from is not None and kept_from <= self._placed.floor <= host.applied

    def choose(self) -> None:
        """Choose the copy to read from."""
        serving = [host for host in self._placed.hosts if host.kept_from(self.shard) is not None]
        current = self.host
        if current is None or current not in serving or self._should_leave(current, serving):
            current = max(serving, key=self._preference, default=None)
        if current is not self.host:
            self._behind_since = None
        self.host = current

    def _should_leave(self, current: ShardHost, serving: Sequence[ShardHost]) -> bool:
        """Return whether another copy is to be read.

        Args:
            current: the copy that was chosen; it serves.
            serving: all that do.
        """
        own = self._placed.hosts[0]
        if not self._can_read(current) and any(map(self._can_read, serving)):
            return True
        if current is own:
            return False
        has_stalled = self._has_stalled(current, serving)
        return has_stalled or (own in serving and self._can_read(own))

    def _has_stalled(self, current: ShardHost, serving: Sequence[ShardHost]) -> bool:
        """Return whether a copy has not advanced for a while, and another one has."""
        now = time.monotonic()
        if not any(_is_ahead(host, current) for host in serving):
            self._behind_since = None
            return False
        if self._behind_since is None:
            self._behind_since = now
        return now - max(current.moved_at, self._behind_since) > STALLED_SECONDS

    def _preference(self, host: ShardHost) -> tuple[bool, bool, int, int, int]:
        is_own = host is self._placed.hosts[0]
        rank = xxhash.xxh3_64_intdigest(
            f"{self._placed.hosts[0].name} {host.name} {self.shard}".encode()
        )
        return self._can_read(host), is_own, host.applied, host.prepared, rank

    def call(
        self,
        method: Method[P, R],
        params: P,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        *,
        is_write: bool = False,
        attachment: Attachment = (),
    ) -> asyncio.Future[R]:
        """Call a read of the copy that the request reads from; writes go through the log.

        Raises:
            Unavailable: no copy serves.
            ReplicaLost: the copy is gone, and the request may run again.
        """
        assert not is_write
        assert not attachment
        route = READ_ROUTE.get()
        try:
            host = self._host_of(route if hasattr(params, "horizon") else None)
            call = host.call(self.shard, method, params, timeout_ms)
        except Unavailable as error:
            raise self._translated(error, route) from error
        if route is not None and route.may_repeat:
            call = self._translating(call, route, host)
        if self.on_call is not None:
            self.on_call(method.name, call)
        return call

    def _host_of(self, route: ReadRoute | None) -> ShardHost:
        """Return the host that a request reads this shard from.

        Raises:
            Unavailable: none, or it has gone away since the request's first call.
        """
        known = None if route is None else route.hosts.get(self.shard)
        if known is not None:
            host, epoch = known
            if host.epoch(self.shard) != epoch:
                raise Unavailable(f"{self.name} on {host.name} was lost while it was read")
            return host
        if self.host is None or not self._can_read(self.host):
            raise Unavailable(f"no host that has {self.name} serves it now; try again shortly")
        if route is not None:
            route.hosts[self.shard] = self.host, self.host.epoch(self.shard)
        return self.host

    def _translated(self, error: ServiceError, route: ReadRoute | None) -> ServiceError:
        """Return `ReplicaLost` for the loss of a copy if the request may run again."""
        is_lost = isinstance(error, Unavailable) and error.code in _LOST
        if is_lost and route is not None and route.may_repeat:
            return ReplicaLost(error.message)
        return error

    def give_up_cancelled(self) -> None:
        """Let the hosts end reads whose futures are cancelled."""
        for host in self._placed.hosts:
            host.give_up_cancelled(self.shard)

    def _translating(
        self, call: asyncio.Future[R], route: ReadRoute, host: ShardHost
    ) -> asyncio.Future[R]:
        """Return a future of the same response, with errors translated."""
        translated: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def pass_on(call: asyncio.Future[R]) -> None:
            error = None if call.cancelled() else call.exception()
            if translated.done():
                return
            if call.cancelled():
                translated.cancel()
            elif error is None:
                translated.set_result(call.result())
            elif isinstance(error, ServiceError):
                translated.set_exception(self._translated(error, route))
            else:
                translated.set_exception(error)

        def give_up(translated: asyncio.Future[R]) -> None:
            if translated.cancelled():
                call.cancel()
                host.give_up_cancelled(self.shard)

        call.add_done_callback(pass_on)
        translated.add_done_callback(give_up)
        return translated

    async def answers(self, timeout_ms: int) -> bool:
        """Return whether the chosen copy serves and answers a ping in time."""
        try:
            await self.call(PING, None, timeout_ms)
        except ServiceError:
            return False
        return True


_LOST: Final = frozenset(("shard_unavailable", "starting"))
"""Codes of `Unavailable` that mean that a copy is gone, not that it is busy."""


def _is_ahead(host: ShardHost, current: ShardHost) -> bool:
    return (host.applied, host.prepared) > (current.applied, current.prepared)


class _HostNeeds(NamedTuple):
    """The needs of another host."""

    seq: int
    """The oldest state."""
    since: float
    """When the host came to need it, or when it was last the newest one here."""
    heard_at: float


class PlacedShards:
    """All shards of a service whose hosts hold some of them each.

    Args:
        num_shards: of the whole.
        own: this host.
        oldest_in_use: returns the oldest state that requests here use; None: none is in use.

    Attributes:
        shards: by ordinal.
        hosts: that are known; the first one is this host.
        floor: all entries up to it are applied by this host and by the chosen copy of every shard;
            -1 before anything is known.
        on_floor: called with the floor when it has risen.
        pending: entries of our own that are not answered yet: their outcomes are still needed.
        certain_seq: returns the entry that this host would show if it started now without the log.
    """

    def __init__(
        self, num_shards: int, own: ShardHost, oldest_in_use: Callable[[], int | None]
    ) -> None:
        self.floor = -1
        self.hosts: tuple[ShardHost, ...] = (own,)
        self.shards = tuple(PlacedShard(shard, self) for shard in range(num_shards))
        self.on_floor: Callable[[int], None] = lambda floor: None
        self.pending: set[int] = set()
        self.certain_seq: Callable[[], int] = lambda: self.floor
        self._oldest_in_use = oldest_in_use
        self._held: dict[str, _HostNeeds] = {}
        self._unreadable_since: float | None = None
        self._changed = asyncio.Event()
        self._needed = 0
        self._needed_at = 0.0

    # --- how far

    def update(self) -> None:
        """Note that a host has made progress, has joined, or has gone."""
        for shard in self.shards:
            shard.choose()
        applied = [-1 if shard.host is None else shard.host.applied for shard in self.shards]
        floor = min(self.hosts[0].applied, *applied)
        if floor > self.floor:
            self.floor = floor
            self.on_floor(floor)
        if self.is_readable:
            self._unreadable_since = None
        elif self._unreadable_since is None:
            self._unreadable_since = time.monotonic()
        self._changed.set()

    def begin_serving(self) -> None:
        """Have the first requests wait for shards that cannot be read yet."""
        self._unreadable_since = time.monotonic()

    @property
    def is_readable(self) -> bool:
        """Whether every shard can be read."""
        return all(shard.state is ShardState.SERVING for shard in self.shards)

    @property
    def newest_in_force(self) -> int:
        """The newest change of the catalog that some chosen copy is under.

        This host may not have made it yet: the others wait for it only while they read its copies,
        and while it makes progress.
        """
        chosen = [shard.host for shard in self.shards if shard.host is not None]
        return max((one.in_force for one in chosen if one.in_force <= one.applied), default=-1)

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def changed_within(self, seconds: float) -> None:
        """Return once something has changed, or after some time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._next_change()

    async def all_prepared(self, seq: int) -> None:
        """Return once a change of the catalog can be put in force on the chosen copies."""
        while not all(
            shard.host is not None and max(shard.host.prepared, shard.host.applied) >= seq
            for shard in self.shards
        ):
            await self._next_change()

    async def readable(self, seconds: float) -> None:
        """Return once every shard can be read, or when one could not for some time."""
        since = self._unreadable_since
        if since is not None:
            seconds -= time.monotonic() - since
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):
                while not self.is_readable:
                    await self._next_change()

    def applied_by(self, num_hosts: int) -> int:
        """Return the entry up to which this many hosts have applied everything, of every shard."""
        found = []
        for shard in range(len(self.shards)):
            applied = [one.applied for one in self.hosts if one.kept_from(shard) is not None]
            found.append(sorted(applied, reverse=True)[num_hosts - 1 :][:1])
        return min((one[0] if one else 0) for one in found)

    # --- states

    @property
    def oldest_needed(self) -> int:
        """The oldest state that requests of this host use, or may begin to use, even after a start.

        It only grows, so a former one is true too.
        """
        now = time.monotonic()
        if now - self._needed_at > NEEDED_SECONDS:
            in_use = self._oldest_in_use()
            oldest = min(self.floor, self.certain_seq())
            oldest = oldest if in_use is None else min(oldest, in_use)
            self._needed = max(0, min(oldest, min(self.pending, default=oldest + 1) - 1))
            self._needed_at = now
        return self._needed

    def hold(self, address: str, seq: int) -> None:
        """Keep all states from one on for another host, until it reports another one."""
        now = time.monotonic()
        former = self._held.get(address)
        # Without writes, all hosts need the newest state for as long: that takes no memory.
        is_newest = seq >= self.floor
        since = now if former is None or former.seq != seq or is_newest else former.since
        self._held[address] = _HostNeeds(seq, since, now)

    @property
    def oldest_held(self) -> int | None:
        """The oldest state that another host needs; None if no host needs any."""
        if not self._held:
            return None
        now = time.monotonic()
        for address in [k for k, one in self._held.items() if now - one.heard_at > HELD_SECONDS]:
            del self._held[address]
        held = [one.seq for one in self._held.values() if now - one.since < HELD_SECONDS_MAX]
        return min(held, default=None)

    # --- requests

    async def read(self, run: Callable[[], Awaitable[R]], *, may_repeat: bool) -> R:
        """Run a request; run it again if a copy that it reads from is lost.

        Args:
            run: the request.
            may_repeat: False for one that changes something.
        """
        for number in range(1, READS_MAX + 1):
            route = ReadRoute(may_repeat=may_repeat and number < READS_MAX)
            # It stays until the next request of the connection: a stream reads on after `run`.
            READ_ROUTE.set(route)
            try:
                return await run()
            except ReplicaLost as error:
                if not may_repeat:
                    raise
                if number == READS_MAX:  # of a call that it shares with another request
                    raise Unavailable(error.message) from error
            finally:
                route.may_repeat = False
            await self.readable(TAKE_OVER_SECONDS)
        raise AssertionError


def shown_shards(ordinals: Sequence[int]) -> str:
    """Return ordinals in short form: "0-3,6"."""
    parts: list[str] = []
    first = last = -2
    for one in sorted(ordinals):
        if one == last + 1:
            last = one
            parts[-1] = f"{first}-{last}"
        else:
            first = last = one
            parts.append(str(one))
    return ",".join(parts)
