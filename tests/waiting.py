"""Waiting in tests: for a condition until a deadline, never for a fixed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

WAIT_SECONDS: Final = 30.0
"""On a busy machine too; a wait that ends takes as long as what it waits for."""
_PAUSE_SECONDS: Final = 0.01
_PAUSE_SECONDS_MAX: Final = 0.1
"""A condition that asks a service takes milliseconds of a processor, which the service may need."""


def wait_until(
    condition: Callable[[], T],
    seconds: float = WAIT_SECONDS,
    *,
    problem: Callable[[], object] | None = None,
    ignoring: tuple[type[Exception], ...] = (),
) -> T:
    """Return what a condition returns as soon as that is true.

    Args:
        condition: polled.
        seconds: until then, at most.
        problem: says what is wrong when it never came true.
        ignoring: exceptions of the condition that mean "not yet".

    Raises:
        AssertionError: it was not true in time.
    """
    give_up_at = time.monotonic() + seconds
    pause = _PAUSE_SECONDS
    while True:
        try:
            found = condition()
        except ignoring:
            pass
        else:
            if found:
                return found
        if time.monotonic() >= give_up_at:
            raise AssertionError(f"not within {seconds:g} s: {problem() if problem else condition}")
        time.sleep(pause)
        pause = min(1.2 * pause, _PAUSE_SECONDS_MAX)


async def until(condition: Callable[[], object]) -> None:
    """Return when something has become true; the test's time limit ends a wait in vain."""
    while not condition():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.0005)
