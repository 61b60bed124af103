"""How many files a process may have open, and the kernel's table of those that it has.

Linux doubles the table when it is full, at 64, 128, 256, … descriptors. In a process of several
threads it then waits until no processor still reads the old table (`synchronize_rcu`): `open` and
`accept` take 5 to 20 ms, on whatever thread, the event loop included. A process of one thread does
not wait, so the table gets its size before threads start.
"""

from __future__ import annotations

import fcntl
import os
import resource
from typing import Final

DESCRIPTORS_WANTED: Final = 65_536
TABLE_SIZE: Final = 16_384
"""Descriptors that need no larger table; one of this size takes 130 KB of the kernel's memory."""


def raise_descriptor_limit() -> None:
    """Raise the limit of open files to the maximum: for connections, segments, environments."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def enlarge_descriptor_table() -> None:
    """Make room for `TABLE_SIZE` descriptors, or as many as are allowed; before threads start."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    size = TABLE_SIZE if allowed == resource.RLIM_INFINITY else min(allowed, TABLE_SIZE)
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        os.close(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, size - 1))
    except OSError:
        pass  # the last one is in use, so the table is large enough
    finally:
        os.close(descriptor)
