"""Fan-out: one call to every shard, one list of results.

A failed shard fails the whole call (and is named), unless the request allows partial results: then
its slot in the list is None, and the response must say so. Nothing is ever left out silently.

Costs: two futures and no task; for two shards 3 µs on top of the calls themselves.
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
"""Params of a method without any; None would skip the shard."""


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
        method: name of a read method.
        params: its struct, or None if the method has none.
        result_type: struct of the results.
        deadline: for the responses of all shards.
        is_partial: whether a shard that is down yields None instead of failing the whole call.

    Returns:
        The results in the order of the shards.

    Raises:
        Unavailable: a shard (if partial: every shard) is down, busy or late.
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
    """Call a method of every shard with its own params; None skips the shard (result None).

    Otherwise as `gather`.
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
        # Await the last call first: by then most others are done and need no suspension.
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
            raise first_error  # no shard responded: there is no partial result either
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
    """Call a method of some shards, possibly several times per shard; the first failure fails all.

    Args:
        cluster: the shards.
        method: name of a read method.
        params: (shard ordinal, params) of each call.
        result_type: struct of the results.
        timeout_ms: for each response.

    Returns:
        The results in the order of the params.

    Raises:
        Unavailable: a shard is down, busy or late.
        ServiceError: a shard refused.
    """
    calls: list[asyncio.Future[T] | None] = []
    try:
        for shard, shard_params in params:
            # Not a comprehension: after a failure, the calls already made must be released.
            calls.append(cluster.shards[shard].call(method, shard_params, result_type, timeout_ms))
        return [await call for call in calls if call is not None]
    finally:
        _let_go(calls)


def _let_go(calls: Sequence[asyncio.Future[Any] | None]) -> None:
    """Cancel calls in flight; retrieve the exceptions of those that failed after the first."""
    for call in calls:
        if call is not None and not call.done():
            call.cancel()
        elif call is not None and not call.cancelled():
            call.exception()
