"""Which copy of a shard is read, how far searches see, and what happens when a copy is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from common.errors import Unavailable
from common.protocol.messages import GetRequest
from common.protocol.methods import GET, PING
from coordinator.cluster import shard_copies
from coordinator.cluster.shard_client import ShardState
from coordinator.cluster.shard_copies import PlacedShards, shown_shards

ITEM = GetRequest(1, 5, b"5")


class FakeHost:
    """A host whose shards answer with its name."""

    def __init__(self, name: str, *shards: int, applied: int = 10, kept_from: int = 0) -> None:
        self.name = name
        self.applied = applied
        self.prepared = applied
        self.in_force = 0
        self.moved_at = 0.0
        self.serving = dict.fromkeys(shards, kept_from)
        self.connection = 1
        self.fails = False
        self.told: list[int] = []
        """Shards that were told of calls that are given up."""

    def kept_from(self, shard: int) -> int | None:
        return self.serving.get(shard)

    def epoch(self, shard: int) -> int:
        return self.connection

    def num_in_flight(self, shard: int) -> int:
        return 0

    def give_up_cancelled(self, shard: int) -> None:
        self.told.append(shard)

    def call(self, shard: int, method: Any, params: Any, timeout_ms: int) -> asyncio.Future[Any]:
        call: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.fails:
            call.set_exception(Unavailable("it went away"))
        else:
            call.set_result(self.name)
        return call

    def lose(self, placed: PlacedShards) -> None:
        """End the connection."""
        self.serving, self.connection = {}, self.connection + 1
        placed.update()


def placing(
    own: FakeHost, *others: FakeHost, num: int = 2, in_use: Callable[[], int | None] = lambda: None
) -> PlacedShards:
    placed = PlacedShards(num, own, in_use)
    placed.hosts = (own, *others)
    placed.update()
    return placed


def is_serving(placed: PlacedShards, shard: int) -> bool:
    return placed.shards[shard].state is ShardState.SERVING


def chosen(placed: PlacedShards) -> list[str | None]:
    return [None if one.host is None else one.host.name for one in placed.shards]


def test_searches_see_what_the_chosen_copies_have() -> None:
    seen: list[int] = []
    own, b, c = FakeHost("a", 0), FakeHost("b", 1, applied=8), FakeHost("c", 1, applied=7)
    placed = PlacedShards(2, own, lambda: None)
    placed.on_floor = seen.append
    placed.update()
    assert (placed.floor, chosen(placed)) == (-1, ["a", None])
    placed.hosts = (own, b, c)
    placed.update()
    assert (placed.floor, chosen(placed)) == (8, ["a", "b"])
    c.applied = 12
    placed.update()
    assert (placed.floor, chosen(placed)) == (8, ["a", "b"])
    b.applied = 12
    placed.update()
    assert placed.floor == 10  # this host has no more
    b.lose(placed)
    assert (placed.floor, chosen(placed)) == (10, ["a", "c"])
    assert seen == [8, 10]


def test_a_copy_that_lacks_what_searches_see_is_not_read() -> None:
    own, b, c = FakeHost("a", 0), FakeHost("b", 1), FakeHost("c", 1, applied=9)
    placed = placing(own, b, c)
    b.lose(placed)
    assert not is_serving(placed, 1)
    assert not placed.is_readable
    c.applied = 10
    placed.update()
    assert is_serving(placed, 1)
    c.serving = {1: 11}  # it was restarted with newer data: older states are gone
    placed.update()
    assert not is_serving(placed, 1)
    own.applied = c.applied = 11
    placed.update()
    assert is_serving(placed, 1)


def test_a_copy_that_cannot_be_read_is_left_for_one_that_can() -> None:
    own, b, c = FakeHost("a", 0, 1), FakeHost("b", 1), FakeHost("c", 1)
    placed = placing(own, b, c)
    assert chosen(placed) == ["a", "a"]
    own.serving[1] = 11  # it was restarted with more than searches see
    placed.update()
    assert chosen(placed)[1] in ("b", "c")
    former = b if chosen(placed)[1] == "b" else c
    former.serving = {1: 11}
    placed.update()
    assert chosen(placed)[1] == ("c" if former is b else "b")
    assert placed.is_readable
    own.serving[1] = 10
    placed.update()
    assert chosen(placed) == ["a", "a"]


def test_a_copy_that_cannot_be_read_is_kept_if_no_other_can() -> None:
    own, b = FakeHost("a", 0, 1), FakeHost("b", 1, applied=9)
    placed = placing(own, b)
    own.serving[1] = 11
    placed.update()
    assert chosen(placed) == ["a", "a"]
    assert not placed.is_readable


def test_a_copy_that_comes_no_further_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    own, b, c = FakeHost("a", 0, applied=20), FakeHost("b", 1), FakeHost("c", 1, applied=9)
    placed = placing(own, b, c)
    now = 200.0
    c.applied = 11  # the first write after a long rest arrives there first
    placed.update()
    assert chosen(placed) == ["a", "b"]
    now += shard_copies.STALLED_SECONDS + 0.1
    placed.update()
    assert chosen(placed) == ["a", "c"]
    assert placed.floor == 11


async def test_a_request_reads_from_one_copy_and_runs_again_when_that_is_lost() -> None:
    own, b, c = FakeHost("a", 0), FakeHost("b", 1), FakeHost("c", 1, applied=9)
    placed = placing(own, b, c)
    c.applied = 10
    runs: list[list[str]] = []

    async def request() -> list[str]:
        read: list[str] = []
        runs.append(read)
        shard = placed.shards[1]
        answer = await shard.call(GET, ITEM)
        read.append(str(answer))
        if len(runs) == 1:
            host = placed.shards[1].host
            assert isinstance(host, FakeHost)
            host.lose(placed)
            host.serving = {1: 0}  # the same host again, possibly with another copy
            placed.update()
        answer = await shard.call(GET, ITEM)
        read.append(str(answer))
        return read

    again = await placed.read(request, may_repeat=True)
    assert len(runs) == 2
    assert runs[0] == ["b"]
    assert len(set(again)) == 1

    runs.clear()
    with pytest.raises(Unavailable):
        await placed.read(request, may_repeat=False)
    assert len(runs) == 1


@pytest.mark.parametrize("num_losses", [shard_copies.READS_MAX - 1, shard_copies.READS_MAX])
async def test_a_request_that_loses_one_copy_after_the_other_runs_again(num_losses: int) -> None:
    own, b, c = FakeHost("a", 0), FakeHost("b", 1), FakeHost("c", 1)
    placed = placing(own, b, c)
    num_runs = 0

    async def request() -> Any:
        nonlocal num_runs
        num_runs += 1
        host = placed.shards[1].host
        assert isinstance(host, FakeHost)
        host.fails = num_runs <= num_losses
        try:
            return await placed.shards[1].call(GET, ITEM)
        finally:
            if host.fails:
                host.lose(placed)
                host.serving = {1: 0}
                placed.update()

    if num_losses < shard_copies.READS_MAX:
        assert await placed.read(request, may_repeat=True) in ("b", "c")
    else:
        with pytest.raises(Unavailable, match="went away"):
            await placed.read(request, may_repeat=True)
    assert num_runs == shard_copies.READS_MAX


async def test_a_request_that_is_given_up_ends_its_calls_at_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, b = FakeHost("a", 0), FakeHost("b", 1)
    placed = placing(own, b)
    call: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(b, "call", lambda *_: call)

    async def request() -> Any:
        return await placed.shards[1].call(GET, ITEM)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(placed.read(request, may_repeat=True), 0.01)
    await asyncio.sleep(0)
    assert call.cancelled()
    assert (own.told, b.told) == ([], [1])


async def test_a_copy_that_fails_is_not_left_out_of_a_partial_answer() -> None:
    own, b, c = FakeHost("a", 0), FakeHost("b", 1), FakeHost("c", 1, applied=9)
    placed = placing(own, b, c)
    c.applied = 10
    b.fails = True

    async def request() -> Any:
        try:
            return await placed.shards[1].call(GET, ITEM)
        except Unavailable:
            return "left out"
        finally:
            b.lose(placed)

    assert await placed.read(request, may_repeat=True) == "c"


async def test_without_any_copy_requests_fail_and_not_too_late() -> None:
    own, b = FakeHost("a", 0), FakeHost("b", 1)
    placed = placing(own, b)
    b.lose(placed)

    async def request() -> Any:
        return await placed.shards[1].call(PING, None)

    placed_since = asyncio.get_running_loop().time()
    placed._unreadable_since = -1e9  # for long
    with pytest.raises(Unavailable, match="no host that has shard 1"):
        await placed.read(request, may_repeat=True)
    assert asyncio.get_running_loop().time() - placed_since < shard_copies.TAKE_OVER_SECONDS


def test_states_that_others_need_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    placed = placing(FakeHost("a", 0), FakeHost("b", 1), in_use=lambda: 7)
    assert placed.oldest_held is None
    placed.hold("b", 5)
    placed.hold("c", 6)
    assert placed.oldest_held == 5
    assert placed.oldest_needed == 7
    placed.pending.add(6)
    now += 1
    assert placed.oldest_needed == 5
    now += shard_copies.HELD_SECONDS
    placed.hold("c", 6)
    assert placed.oldest_held == 6
    for _ in range(int(shard_copies.HELD_SECONDS_MAX)):
        now += 1
        placed.hold("c", 6)
    assert placed.oldest_held is None  # it holds the same for too long
    placed.hold("c", 8)
    assert placed.oldest_held == 8


def test_a_state_is_not_old_while_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a quiet quarter of an hour, the first write took it from exports on other hosts."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    own, b = FakeHost("a", 0), FakeHost("b", 1)
    placed = placing(own, b)
    assert placed.floor == 10
    for _ in range(2 * int(shard_copies.HELD_SECONDS_MAX)):
        now += 1
        placed.hold("b", 10)
    assert placed.oldest_held == 10
    own.applied = b.applied = 11
    placed.update()
    for _ in range(int(shard_copies.HELD_SECONDS_MAX)):
        assert placed.oldest_held == 10
        now += 1
        placed.hold("b", 10)
    assert placed.oldest_held is None


def test_how_far_so_many_hosts_are() -> None:
    hosts = (FakeHost("a", 0, 1), FakeHost("b", 1, applied=8), FakeHost("c", 0, applied=7))
    placed = PlacedShards(2, hosts[0], lambda: None)
    placed.hosts = hosts
    assert placed.applied_by(1) == 10
    assert placed.applied_by(2) == 7
    assert placed.applied_by(3) == 0


@pytest.mark.parametrize(
    ("ordinals", "text"), [([0, 1, 2], "0-2"), ([5, 0, 1], "0-1,5"), ([3], "3"), ([], "")]
)
def test_ordinals_are_shown_as_ranges(ordinals: list[int], text: str) -> None:
    assert shown_shards(ordinals) == text


def test_a_change_of_the_catalog_counts_where_a_copy_that_is_read_has_made_it() -> None:
    own, b, c = FakeHost("a", 0), FakeHost("b", 1), FakeHost("c", 0)
    placed = placing(own, b, c)
    assert placed.newest_in_force == 0
    c.in_force = 10  # nothing is read there
    assert placed.newest_in_force == 0
    b.in_force = 11  # it has announced it, and has not applied it
    assert placed.newest_in_force == 0
    b.applied = 11
    assert placed.newest_in_force == 11
    b.lose(placed)
    assert placed.newest_in_force == 0
