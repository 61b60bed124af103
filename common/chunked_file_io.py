"""Reading and writing long files by short system calls.

Most servers run kernels that do not preempt a thread inside a system call: 8 MB take 3 ms from or
to the page cache, and a thread that was just woken to serve a search, on the same processor, waits
for the end of it.
"""

from __future__ import annotations

import errno
import os
from typing import Final

CALL_BYTES: Final = 256 << 10
"""Read or written by one call: 0.1 ms, and it fits a second-level cache."""


def write_all(file: int, content: memoryview) -> None:
    """Write all bytes at the file's position; on a full disk a call may write less."""
    while content:
        content = content[os.write(file, content[:CALL_BYTES]) :]


def read_all(file: int, target: memoryview, offset: int) -> None:
    """Fill `target` with the bytes of a file from an offset on.

    Raises:
        OSError: the file ends before.
    """
    while target:
        num_read = os.preadv(file, [target[:CALL_BYTES]], offset)
        if num_read == 0:
            raise OSError(errno.EIO, "the file ends too early")
        target, offset = target[num_read:], offset + num_read
