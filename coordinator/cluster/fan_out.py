"""Fan-out: one call to every shard, one list of results.

A failed shard fails the whole call (and is named), unless the request allows partial results: then
its slot in the list is None, and the response must say so. Nothing is ever left out silently.

Shards end what they still do for a call whose caller is gone, or that has failed on another shard.

Costs: two futures and no task; for two shards 3 µs on top of the calls themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from common.deadline import Deadline
from common.errors import DeadlineExceeded, Unavailable

if TYPE_CHECKING:
    from common.protocol.methods import Method
    from coordinator.cluster.all_shards import Cluster

P = TypeVar("P")
R = TypeVar("R")


async def gather(cluster: Cluster, method: Method[P, R], params: P, deadline: Deadline) -> list[R]:
    """Call a method of every shard with the same params.

    Args:
        cluster: the shards.
        method: a read.
        params: of the method.
        deadline: for the responses of all shards.

    Returns:
        The results in the order of the shards.

    Raises:
        Unavailable: a shard is down, busy or late.
        ServiceError: a shard refused.
    """
    every = [params] * len(cluster.shards)
    results = await gather_each(cluster, method, every, deadline, is_partial=False)
    return cast(list[R], results)  # without partial results there is one of every shard


def gather_partial(
    cluster: Cluster, method: Method[P, R], params: P, deadline: Deadline, *, is_partial: bool
) -> Coroutine[Any, Any, list[R | None]]:
    """Call a method of every shard with the same params; None for a shard that is down.

    Args:
        cluster: the shards.
        method: a read.
        params: of the method.
        deadline: for the responses of all shards.
        is_partial: False makes a shard that is down fail the whole call.

    Raises:
        Unavailable: a shard (if partial: every shard) is down, busy or late.
        ServiceError: a shard refused.
    """
    every = [params] * len(cluster.shards)
    return gather_each(cluster, method, every, deadline, is_partial=is_partial)


async def gather_each(
    cluster: Cluster,
    method: Method[P, R],
    params: Sequence[P | None],
    deadline: Deadline,
    *,
    is_partial: bool,
) -> list[R | None]:
    """Call a method of every shard with its own params; None skips the shard (result None).

    Otherwise as `gather_partial`. A late shard may use all the time of a request that asks for more
    than is usual, unless the others are to be answered without it.
    """
    timeout_ms = cluster.timeouts.of_read(deadline.remaining_ms, is_partial=is_partial)
    if timeout_ms <= 0:
        raise DeadlineExceeded("the request's deadline passed before the shards were asked")
    calls: list[asyncio.Future[R] | None] = []
    results: list[R | None] = []
    first_error: Unavailable | None = None
    try:
        for shard, shard_params in zip(cluster.shards, params, strict=True):
            call = None
            if shard_params is not None:
                try:
                    call = shard.call(method, shard_params, timeout_ms)
                except Unavailable as error:
                    if not is_partial:
                        raise
                    first_error = first_error or error
            calls.append(call)
        num_answered = 0
        # Await the last call first: by then most others are done and need no suspension.
        for call in reversed(calls):
            result: R | None = None
            if call is not None:
                try:
                    result = await call
                    num_answered += 1
                except Unavailable as error:
                    if not is_partial:
                        raise
                    first_error = first_error or error
            results.append(result)
        results.reverse()
        if first_error is not None and num_answered == 0:
            raise first_error  # no shard responded: there is no partial result either
    except BaseException:
        _release(cluster, calls)
        raise
    return results


async def call_all(
    cluster: Cluster, method: Method[P, R], params: Sequence[tuple[int, P]], timeout_ms: int
) -> list[R]:
    """Call a method of some shards, possibly several times per shard; the first failure fails all.

    Args:
        cluster: the shards.
        method: a read.
        params: (shard ordinal, params) of each call.
        timeout_ms: for each response.

    Returns:
        The results in the order of the params.

    Raises:
        Unavailable: a shard is down, busy or late.
        ServiceError: a shard refused.
    """
    calls: list[asyncio.Future[R]] = []
    try:
        for shard, shard_params in params:
            # Not a comprehension: after a failure, the calls already made must be released.
            calls.append(cluster.shards[shard].call(method, shard_params, timeout_ms))
        return [await call for call in calls]
    except BaseException:
        _release(cluster, calls)
        raise


def _release(cluster: Cluster, calls: Sequence[asyncio.Future[Any] | None]) -> None:
    """Give up calls in flight; retrieve the exceptions of those that failed after the first."""
    for call in calls:
        if call is not None and not call.done():
            call.cancel()
        elif call is not None and not call.cancelled():
            call.exception()
    for shard in cluster.shards:
        shard.give_up_cancelled()
