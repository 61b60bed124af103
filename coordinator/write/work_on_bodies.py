"""Work on the bytes of bodies: of large ones on a thread, so that other requests go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

R = TypeVar("R")

BYTES_FAST_MAX: Final = 512 * 1024
"""So many are scanned in a millisecond; a switch to a thread takes 50 µs."""


async def run_on_bytes(num_bytes: int, work: Callable[[], R]) -> R:
    """Do work on this many bytes: on a thread where it takes milliseconds.

    Cancelled, the thread goes on to the end of its work, which must change nothing.
    """
    return await asyncio.to_thread(work) if num_bytes > BYTES_FAST_MAX else work()
