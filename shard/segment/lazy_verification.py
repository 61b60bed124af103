"""Mapped files whose blocks are verified when they are first touched.

So a start need not read gigabytes before it serves, and still no damaged byte is used. The mapping
is inaccessible at first. The thread that first touches a block, in whatever code, verifies it in a
signal handler (drawn in `common/kernels/build/lazy_verification.c`). Meanwhile another thread
verifies the blocks that most searches read, and later the rest
(`shard/storage/verify_and_warm_up.py`).
Reading a verified block costs what it costs in any mapping.

A damaged block cannot become an exception in the middle of a kernel. So the handler sets the file
aside and ends the process. The supervisor starts another one, which finds the file missing and
rebuilds it from the stored items, as a start does that finds the damage itself.

Only kernels and memory copies may touch such a mapping. A system call that is given an address in
it fails with EFAULT, so `verify_all` must precede writing it to another file.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from common.kernels.decorator import needs_numba
from common.kernels.extension_loading import loaded

CALL_BLOCKS = 4
"""Blocks verified by one call: a thread that is to stop finishes no more than these."""


class LazyVerification:
    """Verifies the blocks of one mapping; see `watch`."""

    def __init__(self, extension: ModuleType, handle: int, num_blocks: int, size: int) -> None:
        self._extension = extension
        self._handle = handle
        self._num_blocks = num_blocks
        self._block_bytes = size
        self._num_verified = 0

    @property
    def is_done(self) -> bool:
        """Whether `verify_all` has verified all blocks."""
        return self._num_verified >= self._num_blocks

    def verify_spans(
        self, spans: Iterable[tuple[int, int]], is_stopping: threading.Event | None = None
    ) -> None:
        """Verify the blocks of spans [start, end) of bytes; otherwise as `verify_all`."""
        for start, end in spans:
            self._verify(start // self._block_bytes, -(-end // self._block_bytes), is_stopping)

    def verify_all(self, is_stopping: threading.Event | None = None) -> None:
        """Verify the blocks that no thread has touched yet; the mapping must stay mapped meanwhile.

        It returns only if all blocks are sound, or once `is_stopping` is set.
        """
        self._num_verified = self._verify(self._num_verified, self._num_blocks, is_stopping)

    def _verify(self, block: int, end: int, is_stopping: threading.Event | None) -> int:
        """Verify the blocks [block, end); return the first one that was not verified."""
        while block < end and not (is_stopping is not None and is_stopping.is_set()):
            count = min(CALL_BLOCKS, end - block)
            self._extension.verify(self._handle, block, count)
            block += count
        return block


def watch(
    mapping: mmap.mmap,
    path: Path,
    checksums: bytes,
    *,
    first: int,
    end: int,
    block_bytes: int,
    exit_status: int,
) -> LazyVerification | None:
    """Let the blocks of a mapping be verified when they are first touched.

    Args:
        mapping: of the whole file, private and writable.
        path: of the file.
        checksums: XXH64 of each block, uint64 in this machine's byte order.
        first: offset of the first byte that the first block's checksum covers.
        end: offset after the last block.
        block_bytes: size of each block but the last; blocks begin at its multiples.
        exit_status: with which a process ends that touches a damaged block.

    Returns:
        None if it is not possible: where numba compiles the kernels, and with too many mappings.

    Raises:
        OSError: the file cannot be opened.
    """
    if needs_numba:
        return None
    extension = loaded()
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    message = f"facetd: {path}: checksum differs, or it cannot be read: set aside, to be rebuilt\n"
    handle = extension.watch(
        mapping,
        checksums,
        first,
        end,
        block_bytes,
        file,
        os.fsencode(path),
        os.fsencode(path.with_name(path.name + ".damaged")),
        os.fsencode(message),
        exit_status,
    )
    if handle < 0:
        os.close(file)
        return None
    forget = weakref.finalize(mapping, extension.forget, handle)
    forget.atexit = False  # threads may use the mapping to the end
    return LazyVerification(extension, handle, len(checksums) // 8, block_bytes)
