"""Fan-out: one call to every shard, one list of answers.

A failed shard fails the whole (naming it), unless the request allows a partial answer: then its
place in the list is None, and the answer must say so. Nothing is ever left out silently.

Costs: two futures and no task; for two shards 3 µs beyond the calls themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import msgspec

from common.deadline import Deadline
from common.errors import DeadlineExceeded, Unavailable

if TYPE_CHECKING:
    from coordinator.cluster.cluster import Cluster

T = TypeVar("T")

_NIL = msgspec.Raw(b"\xc0")
"""What a method without params gets; None would leave the shard out."""


@overload
async def gather(
    cluster: Cluster,
    method: str,
    params: Any,
    result_type: type[T],
    deadline: Deadline,
    *,
    is_partial: Literal[False] = False,
) -> list[T]: ...


@overload
async def gather(
    cluster: Cluster,
    method: str,
    params: Any,
    result_type: type[T],
    deadline: Deadline,
    *,
    is_partial: bool,
) -> list[T | None]: ...


async def gather(
    cluster: Cluster,
    method: str,
    params: Any,
    result_type: type[T],
    deadline: Deadline,
    *,
    is_partial: bool = False,
) -> list[T] | list[T | None]:
    """Call a method of every shard with the same params.

    Args:
        cluster: the shards.
        method: name of a reading method.
        params: its struct, or None for a method without.
        result_type: struct of the results.
        deadline: by which all must have answered.
        is_partial: whether a shard that is away leaves None instead of failing the whole.

    Returns:
        The results in the order of the shards.

    Raises:
        Unavailable: a shard is away (all of them, if partial), busy or late.
        ServiceError: a shard refused.
    """
    return await gather_each(
        cluster,
        method,
        [_NIL if params is None else params] * len(cluster.shards),
        result_type,
        deadline,
        is_partial=is_partial,
    )


@overload
async def gather_each(
    cluster: Cluster,
    method: str,
    params: Sequence[Any],
    result_type: type[T],
    deadline: Deadline,
    *,
    is_partial: Literal[False] = False,
) -> list[T]: ...


@overload
async def gather_each(
    cluster: Cluster,
    method: str,
    params: Sequence[Any],
    result_type: type[T],
    deadline: Deadline,
    *,
    is_partial: bool,
) -> list[T | None]: ...


async def gather_each(
    cluster: Cluster,
    method: str,
    params: Sequence[Any],
    result_type: type[T],
    deadline: Deadline,
    *,
    is_partial: bool = False,
) -> list[T] | list[T | None]:
    """Call a method of shards with their own params; params None leaves a shard out (None).

    Like `gather` otherwise.
    """
    timeout_ms = min(deadline.remaining_ms, cluster.shard_timeout_ms)
    if timeout_ms <= 0:
        raise DeadlineExceeded("the request's deadline passed before the shards were asked")
    calls: list[asyncio.Future[T] | None] = []
    results: list[T | None] = []
    first_error: Unavailable | None = None
    try:
        for shard, shard_params in zip(cluster.shards, params, strict=True):
            call = None
            if shard_params is not None:
                try:
                    call = shard.call(method, shard_params, result_type, timeout_ms)
                except Unavailable as error:
                    if not is_partial:
                        raise
                    first_error = first_error or error
            calls.append(call)
        num_answered = 0
        # The last one asked comes first: by then most others have answered, and need no wait.
        for call in reversed(calls):
            result: T | None = None
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
            raise first_error  # a part of nothing is no answer
        return results
    finally:
        _let_go(calls)


async def call_all(
    cluster: Cluster,
    method: str,
    params: Sequence[tuple[int, Any]],
    result_type: type[T],
    timeout_ms: int,
) -> list[T]:
    """Call a method of some shards, of one perhaps several times; the first failure fails all.

    Args:
        cluster: the shards.
        method: name of a reading method.
        params: ordinal of a shard and params, by call.
        result_type: struct of the results.
        timeout_ms: within which each must have answered.

    Returns:
        The results in the order of the params.

    Raises:
        Unavailable: a shard is away, busy or late.
        ServiceError: a shard refused.
    """
    calls: list[asyncio.Future[T] | None] = []
    try:
        for shard, shard_params in params:
            # One by one: what was called before a failure must be let go.
            calls.append(cluster.shards[shard].call(method, shard_params, result_type, timeout_ms))
        return [await call for call in calls if call is not None]
    finally:
        _let_go(calls)


def _let_go(calls: Sequence[asyncio.Future[Any] | None]) -> None:
    """Give up what is still under way, and look at failures that came behind the first."""
    for call in calls:
        if call is not None and not call.done():
            call.cancel()
        elif call is not None and not call.cancelled():
            call.exception()
