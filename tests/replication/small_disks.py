"""Small disks that a test can fill."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

DISK_BYTES = 192 << 20


def fill(path: Path) -> None:
    """Leave no room on a disk."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


@contextmanager
def small_disks(folders: list[Path]) -> Iterator[bool]:
    """Mount a small disk at each folder; whether that was possible."""
    with ExitStack() as stack:
        for folder in folders:
            folder.mkdir(parents=True)
            mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
            done = subprocess.run(mount, capture_output=True, check=False)
            if done.returncode:
                yield False
                return
            stack.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)
        yield True
