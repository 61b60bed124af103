"""Waiting for work that continues when its waiter is cancelled.

`asyncio.shield` lets work continue, too. But from Python 3.14 on it logs, with a traceback, an
error that comes after the cancellation, even if something else retrieves it: once for each client
that leaves during a write which is then refused.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, TypeVar

T = TypeVar("T")


async def result_of(work: asyncio.Future[T]) -> T:
    """Return the result of work, which continues if the caller is cancelled."""
    if not work.done():
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake(_: object) -> None:
            if not waiting.done():
                waiting.set_result(None)

        work.add_done_callback(wake)
        try:
            await waiting
        except asyncio.CancelledError:
            work.remove_done_callback(wake)
            work.add_done_callback(_retrieve)
            raise
    try:
        return work.result()
    finally:
        del work  # it has the error, which refers to this frame


async def until_done(work: asyncio.Future[Any]) -> None:
    """Wait until work is done; a cancellation of the caller is raised only then."""
    try:
        await asyncio.wait([work])
    finally:
        while not work.done():  # cancelled, maybe several times: the first one is raised
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        _retrieve(work)


def _retrieve(work: asyncio.Future[Any]) -> None:
    """Retrieve an error, else asyncio logs that nothing did."""
    if not work.cancelled():
        work.exception()
