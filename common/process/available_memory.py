"""How much memory a process may count on: what the machine has left, within its control groups."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")


def available_bytes(proc: Path = _PROC, groups: Path = _GROUPS) -> int:
    """Return how much memory this process could fill with cached pages.

    It is what the kernel estimates for the machine, or less if a control group of the process (or
    one around it) has a limit. 0 where the system does not report it.
    """
    try:
        info = (proc / "meminfo").read_text()
        found = re.search(r"^MemAvailable:\s+(\d+) kB", info, re.MULTILINE)
        available = int(found[1]) << 10 if found else 0
        own = re.search(r"^0::/(.*)$", (proc / "self" / "cgroup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    folder = groups / own[1] if own else groups
    for group in (folder, *folder.parents):
        if not group.is_relative_to(groups):
            break
        with contextlib.suppress(OSError, ValueError):  # no limit here
            limit = int((group / "memory.max").read_text())
            available = min(available, limit - _unreclaimable_bytes(group / "memory.stat"))
    return max(0, available)


def _unreclaimable_bytes(path: Path) -> int:
    """Return the memory of a control group that is not a cached file."""
    counts = dict(line.split() for line in path.read_text().splitlines())
    return sum(int(counts.get(name, 0)) for name in ("anon", "kernel", "shmem"))
