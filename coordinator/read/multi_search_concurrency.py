"""Several searches in one request run a few at a time, so that others get their turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from common.deadline import Deadline
from common.errors import DeadlineExceeded

SEARCHES_AT_ONCE: Final = 4
"""Concurrent searches of one request."""

T = TypeVar("T")


async def run_fairly(searches: Sequence[Callable[[], Awaitable[T]]], deadline: Deadline) -> list[T]:
    """Run searches, a few at a time, and return their results in order.

    After a failure, no further search starts.

    Raises:
        DeadlineExceeded: some searches did not finish in time.
        Exception: the error of the first search, in order, that failed.
    """
    results: dict[int, T] = {}
    failures: dict[int, Exception] = {}
    pending = iter(enumerate(searches))

    async def answer_next() -> None:
        for i, search in pending:
            try:
                results[i] = await search()
            except Exception as error:
                failures[i] = error
            if failures:
                return

    try:
        async with asyncio.timeout(deadline.remaining_seconds):
            await asyncio.gather(*(answer_next() for _ in range(SEARCHES_AT_ONCE)))
    except TimeoutError:
        raise DeadlineExceeded(
            f"{len(results)} of {len(searches)} searches were answered within the deadline"
        ) from None
    if failures:
        raise failures[min(failures)]
    return [results[i] for i in range(len(searches))]
