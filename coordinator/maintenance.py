"""Work on a data directory that no service uses: check it, build it anew.

    facetd check      every stored item, every counter, every segment against the items
    facetd rebuild    the same, after everything derived was made anew

Each takes the lock of the directory first, so it refuses while a service runs, and a service
refuses while it runs. What needs LMDB is done by a program of the shard package in a process of its
own; it inherits the descriptor of the lock, so that the directory stays owned until both have
ended, also if this one is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from common import data_directory
from common.data_directory import DataDirectoryError, Manifest
from coordinator.catalog import Catalog

SHARD_FILE: Final = "shard.json"
"""What a shard's folder has as soon as the shard has made anything."""


@dataclass(frozen=True, slots=True)
class OwnedData:
    """A data directory that is ours for the moment.

    Attributes:
        folder: its absolute path, links resolved.
        manifest: what it was made for.
        lock: descriptor that holds the lock.
    """

    folder: Path
    manifest: Manifest
    lock: int

    def run(self, module: str, *arguments: str) -> int:
        """Run a program of the shard package; returns its exit status."""
        sys.stdout.flush()
        return subprocess.run(
            [sys.executable, "-m", module, *arguments], pass_fds=(self.lock,), check=False
        ).returncode


@contextmanager
def owned(data: Path) -> Iterator[OwnedData]:
    """Own a data directory for the body of a `with` statement.

    Raises:
        DataDirectoryError: it has no data, a service uses it, or a newer program made it.
    """
    data = data.resolve()
    manifest = data_directory.read_manifest(data)
    if manifest is None:
        raise DataDirectoryError(f"{data} has no data of facetd; name another with --data-dir")
    data_directory.check_manifest(data, manifest.shards)  # the hash function
    lock = data_directory.acquire_lock(data, wait_seconds=0)
    try:
        yield OwnedData(data, manifest, lock)
    finally:
        os.close(lock)


def check(data: Path, *, rebuilds: bool = False) -> int:
    """Check all of a data directory and report on stdout.

    Args:
        data: the directory.
        rebuilds: first remove everything derived and build it anew from the items.

    Returns:
        The exit status: 0 if all is well.

    Raises:
        DataDirectoryError: it cannot be checked: in use, no data, or the catalog is damaged.
    """
    with owned(data) as ours:
        problems = _check_layout(ours)
        for problem in problems:
            print(f"PROBLEM {problem}")
        options = ("--rebuild",) if rebuilds else ()
        status = ours.run("shard.check", "--data-dir", str(ours.folder), *options)
    return 1 if problems or status else 0


def _check_layout(ours: OwnedData) -> list[str]:
    """Return what is missing beside the indexes themselves."""
    catalog = Catalog.open(ours.folder, ours.manifest.shards)
    if not catalog.indexes:
        return []
    folders = [
        data_directory.shard_folder(ours.folder, shard) for shard in range(ours.manifest.shards)
    ]
    return [
        f"{folder.name}/{SHARD_FILE} is missing; restore the directory from a backup"
        for folder in folders
        if not (folder / SHARD_FILE).exists()
    ]
