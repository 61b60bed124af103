"""Memory that is free goes back to the system when the process has grown."""

from __future__ import annotations

import asyncio
import ctypes

import numpy as np
import pytest
from numpy.typing import NDArray

from common import memory
from common.memory import GROWTH_BYTES, Trimmer, keep_small

MIB = 1 << 20

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc's allocator"
)


def fragments(num_bytes: int) -> list[NDArray[np.uint8]]:
    """Return pieces with free memory between them: what searches leave of an arena."""
    pieces = [np.ones(64 * 1024, np.uint8) for _ in range(num_bytes // (64 * 1024))]
    return pieces[::8]


def test_free_memory_between_pieces_goes_back() -> None:
    trimmer = Trimmer()
    before = memory._anonymous_bytes()
    kept = fragments(64 * MIB)
    assert memory._anonymous_bytes() - before > 48 * MIB
    assert trimmer.keep()
    assert memory._anonymous_bytes() - before < 24 * MIB
    assert all(piece[0] == 1 for piece in kept)


def test_nothing_is_done_without_growth() -> None:
    trimmer = Trimmer()
    assert not trimmer.keep()


async def test_a_running_process_looks_at_its_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([MIB, MIB, MIB + GROWTH_BYTES, MIB, *[MIB] * 100])
    trimmed = asyncio.Event()
    monkeypatch.setattr(memory, "_anonymous_bytes", lambda: next(sizes))
    monkeypatch.setattr(memory, "trim", trimmed.set)
    monkeypatch.setattr(memory, "LOOK_SECONDS", 0.01)
    keeping = asyncio.create_task(keep_small())
    async with asyncio.timeout(10):
        await trimmed.wait()
    keeping.cancel()


def test_memory_that_went_back_by_itself_counts_as_growth_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = iter([100 * MIB, 50 * MIB, 50 * MIB + GROWTH_BYTES, 50 * MIB])
    monkeypatch.setattr(memory, "_anonymous_bytes", lambda: next(sizes))
    trimmer = Trimmer()
    assert not trimmer.keep()
    assert trimmer.keep()
