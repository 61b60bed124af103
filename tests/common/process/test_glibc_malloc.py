"""Free memory is returned to the system when the process has grown."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from common.process import glibc_malloc
from common.process.glibc_malloc import (
    GROWTH_BYTES,
    Allocated,
    Trimmer,
    allocated,
    trim_periodically,
)

MIB = 1 << 20
ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc's allocator"
)


FRAGMENTS = """
import numpy as np
from common.process import glibc_malloc
from common.process.glibc_malloc import Trimmer

MIB = 1 << 20
trimmer = Trimmer()
before = glibc_malloc._anonymous_bytes()
# Pieces with free memory between them: what searches leave of an arena.
kept = [np.ones(64 * 1024, np.uint8) for _ in range(64 * MIB // (64 * 1024))][::8]
assert glibc_malloc._anonymous_bytes() - before > 48 * MIB
assert trimmer.trim_if_due()
assert glibc_malloc._anonymous_bytes() - before < 24 * MIB
assert all(piece[0] == 1 for piece in kept)
"""


def test_free_memory_between_pieces_goes_back() -> None:
    # In a process of its own: this one may have room from other tests, and would not grow.
    done = subprocess.run(
        [sys.executable, "-c", FRAGMENTS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


SPARSE = """
import numpy as np
from common.process import glibc_malloc
from common.process.glibc_malloc import zeros_on_new_pages

MIB = 1 << 20
glibc_malloc.configure_allocator()
# What a load leaves of an arena: free memory below a piece that is in use, returned to the system.
free, kept = [np.ones(16 * MIB, np.uint8) for _ in range(16)], np.ones(MIB // 2, np.uint8)
del free
glibc_malloc.trim()
before = glibc_malloc._anonymous_bytes()
sparse = zeros_on_new_pages(64 * MIB)
sparse[::32 * MIB] = 1
assert glibc_malloc._anonymous_bytes() - before < MIB // 2
assert sparse.sum() == 2
small = zeros_on_new_pages(1000)
assert len(small) == 1000 and not small.any()
"""


def test_sparse_arrays_take_what_is_written_and_touch_no_free_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SPARSE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_giving_back_leaves_nothing_to_the_collector() -> None:
    glibc_malloc.trim()
    gc.collect()
    glibc_malloc.trim()
    assert gc.collect() == 0


def test_what_is_kept_is_counted_and_what_is_free_is_not() -> None:
    before = allocated()
    arrays = [np.ones(64 * 1024, np.uint8) for _ in range(256)]
    large = np.ones(32 * MIB, np.uint8)
    texts = [f"text {number}" for number in range(10_000)]
    kept = allocated()
    assert len(arrays) + len(large) + len(texts) > 0
    assert 48 * MIB <= kept.num_bytes - before.num_bytes < 50 * MIB
    assert 10_000 <= kept.num_blocks - before.num_blocks < 11_000
    del arrays, large, texts
    after = allocated()
    assert abs(after.num_bytes - before.num_bytes) < 256 * 1024
    assert abs(after.num_blocks - before.num_blocks) < 500


def test_nothing_is_done_without_growth() -> None:
    trimmer = Trimmer()
    assert not trimmer.trim_if_due()


async def test_a_running_process_looks_at_its_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([MIB, MIB, MIB + GROWTH_BYTES, MIB, *[MIB] * 100])
    trimmed = asyncio.Event()
    monkeypatch.setattr(glibc_malloc, "_anonymous_bytes", lambda: next(sizes))
    monkeypatch.setattr(glibc_malloc, "trim", trimmed.set)
    monkeypatch.setattr(glibc_malloc, "POLL_SECONDS", 0.01)
    keeping = asyncio.create_task(trim_periodically())
    async with asyncio.timeout(10):
        await trimmed.wait()
    keeping.cancel()


async def test_a_running_process_trims_once_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    trims = 0
    trimmed = asyncio.Event()

    def trim() -> None:
        nonlocal trims
        trims += 1
        trimmed.set()

    monkeypatch.setattr(glibc_malloc, "_anonymous_bytes", lambda: MIB)
    monkeypatch.setattr(glibc_malloc, "allocated", lambda: Allocated(MIB, 0))
    monkeypatch.setattr(glibc_malloc, "trim", trim)
    monkeypatch.setattr(glibc_malloc, "POLL_SECONDS", 0.005)
    glibc_malloc.trim_soon()
    keeping = asyncio.create_task(trim_periodically())
    async with asyncio.timeout(10):
        await trimmed.wait()
    await asyncio.sleep(0.05)
    assert trims == 1
    keeping.cancel()


async def test_a_request_to_trim_that_comes_during_a_check_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class AskedLate(threading.Event):
        """Another thread asks just after the event loop has looked."""

        def is_set(self) -> bool:
            was_set = super().is_set()
            self.set()
            return was_set

    trimmed = asyncio.Event()
    monkeypatch.setattr(glibc_malloc, "_trim_wanted", AskedLate())
    monkeypatch.setattr(glibc_malloc, "_anonymous_bytes", lambda: MIB)
    monkeypatch.setattr(glibc_malloc, "allocated", lambda: Allocated(MIB, 0))
    monkeypatch.setattr(glibc_malloc, "trim", trimmed.set)
    monkeypatch.setattr(glibc_malloc, "POLL_SECONDS", 0.005)
    keeping = asyncio.create_task(trim_periodically())
    async with asyncio.timeout(10):
        await trimmed.wait()
    keeping.cancel()


def test_memory_that_went_back_by_itself_counts_as_growth_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = iter([100 * MIB, 50 * MIB, 50 * MIB + GROWTH_BYTES, 50 * MIB])
    monkeypatch.setattr(glibc_malloc, "_anonymous_bytes", lambda: next(sizes))
    trimmer = Trimmer()
    assert not trimmer.trim_if_due()
    assert trimmer.trim_if_due()


def test_memory_that_is_no_longer_used_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    in_use = [9 * MIB, 40 * MIB, 41 * MIB, 41 * MIB - GROWTH_BYTES, 38 * MIB, 8 * MIB, 8 * MIB]
    monkeypatch.setattr(glibc_malloc, "_anonymous_bytes", lambda: 50 * MIB)
    sizes = (Allocated(size, 0) for size in in_use)
    monkeypatch.setattr(glibc_malloc, "allocated", lambda: next(sizes))
    trimmer = Trimmer()
    trims = [trimmer.trim_if_due() for _ in in_use[1:]]
    assert trims == [False, False, True, False, True, False]


def test_large_arrays_use_freed_pages_again() -> None:
    # In a process of its own: the thresholds hold for all of it.
    program = """
import resource
import numpy as np
from common.process.glibc_malloc import configure_allocator

configure_allocator()
def faults(num_bytes):
    first = np.ones(num_bytes, np.uint8)
    behind = np.ones(100_000, np.uint8)
    del first
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        np.ones(num_bytes, np.uint8)
    assert behind[0]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
num_bytes = 3 << 20  # of larger ones numpy asks for huge pages
assert faults(num_bytes) < num_bytes // resource.getpagesize() // 4
"""
    for _ in range(3):  # the system may take pages meanwhile
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr


def test_sizes_are_zero_where_the_system_does_not_tell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert glibc_malloc.resident_bytes() > MIB
    monkeypatch.setattr(glibc_malloc, "_STATM", tmp_path / "absent")
    assert glibc_malloc.resident_bytes() == 0
