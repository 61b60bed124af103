"""Calls of all shards: what becomes of the others when one fails, or the caller gives up."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from common.deadline import Deadline
from common.errors import Unavailable
from common.protocol.methods import SEARCH
from coordinator.cluster.fan_out import call_all, gather

PARAMS: Any = object()


class FakeShard:
    """A shard that answers when it is told to."""

    def __init__(self) -> None:
        self.calls: list[asyncio.Future[Any]] = []
        self.given_up: list[bool] = []
        """Whether each call was cancelled when the shard was last told."""

    def call(self, *_: object) -> asyncio.Future[Any]:
        call: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.calls.append(call)
        return call

    def give_up_cancelled(self) -> None:
        self.given_up = [call.cancelled() for call in self.calls]


def cluster_of(*shards: FakeShard) -> Any:
    timeouts = SimpleNamespace(of_read=lambda remaining_ms, is_partial: remaining_ms)
    return SimpleNamespace(shards=shards, timeouts=timeouts)


async def test_when_one_shard_fails_the_others_end_what_they_do_for_the_call() -> None:
    one, other = FakeShard(), FakeShard()
    asking = asyncio.ensure_future(
        gather(cluster_of(one, other), SEARCH, PARAMS, Deadline.after_ms(60_000))
    )
    await asyncio.sleep(0)
    other.calls[0].set_exception(Unavailable("it went away"))
    with pytest.raises(Unavailable):
        await asking

    assert (one.given_up, other.given_up) == ([True], [False])


async def test_when_the_caller_is_cancelled_all_shards_end_what_they_do_for_it() -> None:
    one, other = FakeShard(), FakeShard()
    cluster = cluster_of(one, other)
    askings = [
        asyncio.ensure_future(gather(cluster, SEARCH, PARAMS, Deadline.after_ms(60_000))),
        asyncio.ensure_future(call_all(cluster, SEARCH, [(0, PARAMS), (1, PARAMS)], 60_000)),
    ]
    await asyncio.sleep(0)
    for asking in askings:
        asking.cancel()
    await asyncio.gather(*askings, return_exceptions=True)

    assert (one.given_up, other.given_up) == ([True, True], [True, True])


async def test_shards_that_have_answered_are_told_nothing() -> None:
    one, other = FakeShard(), FakeShard()
    asking = asyncio.ensure_future(
        gather(cluster_of(one, other), SEARCH, PARAMS, Deadline.after_ms(60_000))
    )
    await asyncio.sleep(0)
    found: list[Any] = [object(), object()]
    for shard, result in zip((one, other), found, strict=True):
        shard.calls[0].set_result(result)

    assert await asking == found
    assert (one.given_up, other.given_up) == ([], [])
