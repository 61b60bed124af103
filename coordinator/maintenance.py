"""Work on a data directory that no service uses, and on backups.

    facetd check      every stored item, every counter, every segment against the items
    facetd rebuild    the same, after everything derived was made anew
    facetd restore    a backup (`coordinator.snapshots`) becomes a data directory
    facetd backup     moves a snapshot that the service has made to where it is wanted

A restore fills a folder beside the data directory, compares every byte with the checksums, syncs
all of it, and then renames: a kill at any moment leaves no data directory, or a whole one.

Each takes the lock of the directory first, so it refuses while a service runs, and a service
refuses while it runs. What needs LMDB is done by a program of the shard package in a process of its
own; it inherits the descriptor of the lock, so that the directory stays owned until both have
ended, also if this one is killed.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from common import data_directory
from common.data_directory import DataDirectoryError, Manifest, sync_folder
from coordinator.catalog import Catalog
from coordinator.snapshots import (
    SNAPSHOT_FILE,
    Snapshot,
    SnapshotError,
    read_snapshot,
    sync_folders,
    verify,
)

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


# --- backup and restore


def check_vacant(folder: Path) -> None:
    """Refuse a folder in which there is anything.

    Raises:
        DataDirectoryError: it is not empty, or no folder.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DataDirectoryError(f"{folder} exists and is no folder; name another one")
    if folder.exists() and any(folder.iterdir()):
        raise DataDirectoryError(f"{folder} is not empty; name a folder that is, or a new one")


def move_snapshot(source: Path, target: Path) -> Snapshot:
    """Move a snapshot to another place, which may be on another disk.

    Raises:
        DataDirectoryError: the target is not empty.
        SnapshotError: the copy differs from the snapshot.
    """
    target = target.absolute()
    check_vacant(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    snapshot = read_snapshot(source)
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _fill(target, lambda folder: _copy(source, folder, with_list=True))
        shutil.rmtree(source)
    sync_folder(target.parent)
    return snapshot


def write_archive(source: Path, output: BinaryIO) -> Snapshot:
    """Write a snapshot as a tar stream; its list of files comes last."""
    snapshot = read_snapshot(source)
    with tarfile.open(fileobj=output, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path in (*(file.path for file in snapshot.files), SNAPSHOT_FILE):
            archive.add(source / path, path, recursive=False)
    output.flush()
    return snapshot


def restore(source: Path | BinaryIO, data: Path) -> Snapshot:
    """Make a data directory of a backup.

    Args:
        source: folder of the backup, or a tar stream of it.
        data: must be empty, or not there.

    Raises:
        SnapshotError: the backup is unfinished, damaged, or of another program.
        DataDirectoryError: the directory is not empty, or cannot be replaced.
    """
    data = data.absolute()
    check_vacant(data)
    data.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(source, Path):
        folder = source
        return _fill(data, lambda work: _copy(folder, work, with_list=False))
    archive = source
    return _fill(data, lambda work: _unpack(archive, work))


def _fill(target: Path, fill: Callable[[Path], Snapshot]) -> Snapshot:
    """Fill a folder beside a target, check and sync it, and give it the target's name."""
    work = target.with_name(f"{target.name}.restoring")
    data_directory.create(work)
    lock = data_directory.acquire_lock(work, wait_seconds=0)
    try:
        _clear(work)
        snapshot = fill(work)
        verify(work, snapshot)
        paths = [file.path for file in snapshot.files]
        for path in paths:
            _sync_file(work / path)
        sync_folders(work, paths)
        try:
            work.rename(target)
        except OSError as error:
            raise DataDirectoryError(
                f"{target} cannot be put in place ({error.strerror}); name a folder that is not "
                "there yet, on a disk that can be written to"
            ) from error
        sync_folder(target.parent)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    finally:
        os.close(lock)
    return snapshot


def _clear(work: Path) -> None:
    """Remove what a former try has left; our lock stays."""
    for entry in work.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != "lock":
            entry.unlink()


def _copy(source: Path, work: Path, *, with_list: bool) -> Snapshot:
    """Copy the files that a snapshot lists."""
    snapshot = read_snapshot(source)
    for file in snapshot.files:
        (work / file.path).parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(source / file.path, work / file.path)
        except FileNotFoundError as error:
            raise SnapshotError(f"{source / file.path} is missing") from error
    if with_list:
        shutil.copyfile(source / SNAPSHOT_FILE, work / SNAPSHOT_FILE)
        _sync_file(work / SNAPSHOT_FILE)
    (work / "catalog.json").chmod(0o600)
    return snapshot


def _unpack(archive: BinaryIO, work: Path) -> Snapshot:
    """Unpack a tar stream; what is not a plain file of a backup is refused by its name."""
    try:
        with tarfile.open(fileobj=archive, mode="r|") as members:
            members.extractall(work, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise SnapshotError(f"this is no backup, or it is cut off: {error}") from error
    snapshot = read_snapshot(work)
    (work / SNAPSHOT_FILE).unlink()
    listed = {file.path for file in snapshot.files} | {"lock"}
    for path in work.rglob("*"):
        if not path.is_dir() and str(path.relative_to(work)) not in listed:
            raise SnapshotError(f"the backup has a file too many: {path.relative_to(work)}")
    (work / "catalog.json").chmod(0o600)
    return snapshot


def _sync_file(path: Path) -> None:
    """Wait until a file is on disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
