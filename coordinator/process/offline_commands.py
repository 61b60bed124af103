"""Offline work on a data directory, and on backups.

    facetd check      verifies every stored item, every counter, every segment against the items
    facetd rebuild    the same, after rebuilding all derived data
    facetd reshard    the same items on a different number of shards
    facetd restore    turns a backup (`snapshots.snapshots_on_disk`) into a data directory
    facetd backup     moves a snapshot that the service has made to its destination

A restore fills a folder next to the data directory, syncs every file, compares its bytes with the
checksum, then renames: a kill at any moment leaves either no data directory or a complete one. A
reshard likewise works next to the old data, then exchanges the two folders in one step of the file
system: a kill at any moment leaves either the old data or the new data in force, and the next run
removes the leftovers.

Each command takes the lock of the directory first, so it refuses to run while a service does, and
vice versa. Work that needs LMDB runs in a program of the shard package, in a process of its own. It
inherits the descriptor of the lock, so the directory stays owned until both processes have ended,
even if this one is killed.
"""

from __future__ import annotations

import ctypes
import errno
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from common import data_directory
from common.data_directory import DataDirectoryError, Manifest
from common.disk_errors import NO_ROOM, user_name
from common.durable_files import copy_synced, make_folder, sync_folder, write_atomically
from common.process.control_character_escaping import printable
from common.process.fault_injection import fault
from common.process.python_command import let_processes_find_us, python_command
from coordinator.catalog.catalog import Catalog, program_version
from coordinator.replication.host.replica_file import read_replica
from coordinator.snapshots.snapshots_on_disk import (
    SNAPSHOT_FILE,
    ServiceSnapshot,
    SnapshotError,
    read_snapshot,
    sync_folders,
    verify,
)

SHARD_FILE: Final = "shard.json"
"""Exists in a shard's folder once the shard has created anything."""
_ENDING_SECONDS: Final = 1.0
"""How long to wait for a service that was just killed: its last threads may still hold the lock."""


@dataclass(frozen=True, slots=True)
class OwnedData:
    """A data directory that this process owns for now.

    Attributes:
        folder: its absolute path, links resolved.
        manifest: says how many shards it is for, and its format.
        lock: descriptor that holds the lock.
    """

    folder: Path
    manifest: Manifest
    lock: int

    def run(self, module: str, *arguments: str, locks: tuple[int, ...] = ()) -> int:
        """Run a program of the shard package, which inherits our locks; return its exit status."""
        sys.stdout.flush()
        let_processes_find_us()
        command = python_command(module, *arguments)
        return subprocess.run(command, pass_fds=(self.lock, *locks), check=False).returncode


@contextmanager
def owned(data: Path) -> Iterator[OwnedData]:
    """Own a data directory for the body of a `with` statement.

    Raises:
        DataDirectoryError: it has no data, is in use by a service, or a newer program made it.
    """
    data = data.resolve()
    manifest = data_directory.read_manifest(data)
    if manifest is None:
        raise DataDirectoryError(f"{data} has no data of facetd; name another with --data-dir")
    data_directory.check_manifest(data, manifest.shards)  # the hash function
    lock = data_directory.acquire_lock(data, wait_seconds=_ENDING_SECONDS)
    try:
        yield OwnedData(data, manifest, lock)
    finally:
        os.close(lock)


def check(data: Path, *, rebuilds: bool = False, drops_damaged: bool = False) -> int:
    """Check a whole data directory and report on stdout.

    Args:
        data: the directory.
        rebuilds: first delete all derived data and rebuild it from the items.
        drops_damaged: before that, delete the items that cannot be read.

    Returns:
        The exit status: 0 if all is well.

    Raises:
        DataDirectoryError: it cannot be checked: in use, no data, or a damaged catalog.
    """
    with owned(data) as ours:
        problems = _check_layout(ours)
        for problem in problems:
            print(printable(f"PROBLEM {problem}"))
        options = (
            *(("--rebuild",) if rebuilds else ()),
            *(("--drop-damaged",) if drops_damaged else ()),
        )
        status = ours.run(
            "shard.maintenance.check_and_rebuild", "--data-dir", str(ours.folder), *options
        )
    if status < 0:
        print(
            f"PROBLEM the check was ended by {signal.Signals(-status).name} in what comes after "
            "the last index above; if the data are damaged there, restore them from a backup"
        )
    return 1 if problems or status else 0


def _check_layout(ours: OwnedData) -> list[str]:
    """Return what is missing other than the indexes themselves."""
    catalog = Catalog.open(ours.folder, ours.manifest.shards)
    if not catalog.indexes:
        return []
    replica = read_replica(ours.folder)
    placed = () if replica is None else replica.shards
    shards = placed or range(ours.manifest.shards)
    folders = [data_directory.shard_folder(ours.folder, shard) for shard in shards]
    return [
        f"{folder.name}/{SHARD_FILE} is missing; restore the directory from a backup"
        for folder in folders
        if not (folder / SHARD_FILE).exists()
    ]


# --- reshard


def reshard(data: Path, num_shards: int, output: Path | None = None) -> int:
    """Spread the data over a different number of shards.

    Args:
        data: the directory.
        num_shards: the new number of shards.
        output: the new directory; None: replace the old one.

    Returns:
        The exit status.

    Raises:
        DataDirectoryError: it is in use, damaged, or cannot be replaced; it is unchanged.
    """
    with owned(data) as ours:
        if data_directory.replica_path(ours.folder).exists():
            raise DataDirectoryError(
                f"{ours.folder} follows the log of several hosts: empty it and start with --shards "
                f"{num_shards}; it takes its data from another host"
            )
        target = ours.folder if output is None else output.absolute()
        work = target.with_name(f"{target.name}.resharding")
        if output is not None:
            check_place(target)
        elif ours.manifest.shards == num_shards:
            shutil.rmtree(work, ignore_errors=True)  # an earlier run was killed at its end
            print(f"{ours.folder} has {num_shards} shards already")
            return 0
        _make_folder(work, work if output is None else target)
        lock = data_directory.acquire_lock(work, wait_seconds=0)
        is_switched = False
        try:
            _clear(work)
            if output is None:
                _check_exchange(ours.folder, work)
            status = _reshard_into(work, ours, num_shards, lock)
            if status == 0:
                fault("reshard.switch")
                if output is None:
                    _exchange(work, target)
                else:
                    work.rename(target)
                is_switched = True
                sync_folder(target.parent)
                fault("reshard.switched")
            # By now this is the old data, unfinished data, or (after a rename) nothing.
            shutil.rmtree(work, ignore_errors=True)
        except BaseException:
            if not is_switched:  # else the old data stays until the exchange is known to be on disk
                shutil.rmtree(work, ignore_errors=True)
            raise
        finally:
            os.close(lock)
    return status


def _reshard_into(work: Path, ours: OwnedData, num_shards: int, lock: int) -> int:
    """Make a complete data directory with the new number of shards; return the exit status."""
    catalog = Catalog.open(ours.folder, ours.manifest.shards)
    arguments = ("--source", str(ours.folder), "--target", str(work), "--shards", str(num_shards))
    status = ours.run("shard.maintenance.reshard", *arguments, locks=(lock,))
    if status != 0:
        return 1
    snapshots = data_directory.snapshots_folder(ours.folder)
    if snapshots.is_dir():
        # Hard links: the old names go away with the old folder.
        kept = data_directory.snapshots_folder(work)
        shutil.copytree(snapshots, kept, copy_function=_link)
        for folder in (kept, *(path for path in kept.rglob("*") if path.is_dir())):
            sync_folder(folder)
    write_atomically(data_directory.catalog_path(work), catalog.content(), mode=0o600)
    data_directory.write_manifest(work, num_shards, f"facetd {program_version()}")
    return 0


def _link(source: str, target: str) -> None:
    """Hard-link a file, or copy it if it is on another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _check_exchange(folder: Path, work: Path) -> None:
    """Check, before the work starts, that two folders can be exchanged here.

    Raises:
        DataDirectoryError: they cannot.
    """
    if folder.is_mount():
        raise DataDirectoryError(
            f"{folder} is a mount point and cannot be exchanged; name another folder with --output"
        )
    probes = (work / "probe-a", work / "probe-b")
    for probe in probes:
        probe.mkdir()
    try:
        _exchange(*probes)
    finally:
        for probe in probes:
            probe.rmdir()


_AT_CWD: Final = -100
_RENAME_EXCHANGE: Final = 2


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders in one step.

    Raises:
        DataDirectoryError: the system cannot do that here.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        result = libc.renameat2(
            _AT_CWD, os.fsencode(one), _AT_CWD, os.fsencode(other), _RENAME_EXCHANGE
        )
        reason = os.strerror(ctypes.get_errno()) if result else ""
    except AttributeError:
        reason = "the C library has no renameat2"
    if reason:
        raise DataDirectoryError(
            f"{other} cannot be exchanged in one step ({reason}); name another folder with --output"
        )


# --- backup and restore


def check_vacant(folder: Path) -> None:
    """Check that a folder is empty or does not exist.

    Raises:
        DataDirectoryError: it is not empty, or not a folder.
    """
    if folder.is_symlink():  # which a rename would replace, not what it leads to
        raise DataDirectoryError(f"{folder} is a link; name {folder.resolve()}, where it leads")
    if folder.exists() and not folder.is_dir():
        raise DataDirectoryError(f"{folder} exists and is not a folder; name another one")
    if folder.exists() and any(folder.iterdir()):
        raise DataDirectoryError(f"{folder} is not empty; name a folder that is, or a new one")


def check_place(target: Path) -> None:
    """Check, before the work starts, that a folder can be put in place by a rename.

    Raises:
        DataDirectoryError: it is not vacant, a mount point, or in a folder that this user may not
            write to.
    """
    check_vacant(target)
    if not target.is_dir():
        return
    if target.is_mount():
        reason = "it is a mount point"
    elif not os.access(target.parent, os.W_OK | os.X_OK):
        reason = f"{user_name(os.geteuid())} may not write to {target.parent}"
    else:
        return
    raise DataDirectoryError(
        f"{target} is put in place by a rename, but {reason}; name a folder in it, such as "
        f"{target / 'data'}"
    )


def _make_folder(folder: Path, target: Path) -> None:
    """Make a folder, with those above it, on the way to the target.

    Raises:
        DataDirectoryError: it cannot be made; names the target, which is what the user named.
    """
    try:
        make_folder(folder)
    except OSError as error:
        raise _cannot_make(target, error) from error


def _cannot_make(target: Path, error: OSError) -> DataDirectoryError:
    return DataDirectoryError(
        f"cannot make {target}: {error.strerror}; name a folder on a disk that can be written to"
    )


def move_snapshot(source: Path, target: Path) -> ServiceSnapshot:
    """Move a snapshot to another place, possibly on another disk.

    Raises:
        DataDirectoryError: the target is not empty.
        SnapshotError: the copy differs from the snapshot.
    """
    target = target.absolute()
    check_place(target)
    _make_folder(target.parent, target)
    snapshot = read_snapshot(source)
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise _cannot_make(target, error) from error
        _fill(target, lambda folder: _copy(source, folder, with_list=True))
        shutil.rmtree(source)
    sync_folder(target.parent)
    return snapshot


def write_archive(source: Path, output: BinaryIO) -> ServiceSnapshot:
    """Write a snapshot as a tar stream; its list of files comes last."""
    snapshot = read_snapshot(source)
    with tarfile.open(fileobj=output, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path in (*(file.path for file in snapshot.files), SNAPSHOT_FILE):
            archive.add(source / path, path, recursive=False)
    output.flush()
    return snapshot


def restore(source: Path | BinaryIO, data: Path) -> ServiceSnapshot:
    """Turn a backup into a data directory.

    Args:
        source: folder of the backup, a file of a tar stream of it, or the stream.
        data: must be empty or absent.

    Raises:
        SnapshotError: the backup is unfinished, damaged, or of another program version.
        DataDirectoryError: the directory is not empty, or cannot be replaced.
    """
    data = data.absolute()
    check_place(data)
    if isinstance(source, Path) and source.is_file():
        with source.open("rb") as stream:
            return _fill(data, lambda work: _unpack(stream, work))
    if isinstance(source, Path):
        folder = source
        return _fill(data, lambda work: _copy(folder, work, with_list=False))
    archive = source
    return _fill(data, lambda work: _unpack(archive, work))


def _fill(target: Path, fill: Callable[[Path], ServiceSnapshot]) -> ServiceSnapshot:
    """Fill a folder next to the target, verify it, then rename it to the target.

    Args:
        target: must be empty or absent.
        fill: copies the files of a snapshot into a folder, and syncs them.

    Raises:
        DataDirectoryError: its disk has no room, or it cannot be put in place.
    """
    work = target.with_name(f"{target.name}.restoring")
    _make_folder(work, target)
    lock = data_directory.acquire_lock(work, wait_seconds=0)
    try:
        _clear(work)
        try:
            snapshot = fill(work)
            verify(work, snapshot)
            sync_folders(work, [file.path for file in snapshot.files])
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise DataDirectoryError(
                f"there is no room for {target}: {error.strerror}; make room on its disk, or name "
                "a folder on another (nothing was left there)"
            ) from error
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
    """Remove the leftovers of an earlier attempt; our lock stays."""
    for entry in work.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != "lock":
            entry.unlink()


def _copy(source: Path, work: Path, *, with_list: bool) -> ServiceSnapshot:
    """Copy the files that a snapshot lists."""
    snapshot = read_snapshot(source)
    for path in (*(file.path for file in snapshot.files), *([SNAPSHOT_FILE] * with_list)):
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        try:
            with (source / path).open("rb") as file:
                copy_synced(file, work / path)
        except FileNotFoundError as error:
            raise SnapshotError(f"{source / path} is missing") from error
    (work / "catalog.json").chmod(0o600)
    return snapshot


_DECOMPRESSORS: Final = {b"\x28\xb5\x2f\xfd": "zstd -dc", b"\x1f\x8b": "gzip -dc"}
"""Commands by the bytes with which what they decompress begins."""


def _unpack_file(archive: tarfile.TarFile, member: tarfile.TarInfo, work: Path) -> None:
    """Write a file of a tar stream; `extractall` has its filters only from Python 3.11.4 on."""
    if member.isdir():  # not from us, but `tar` names the folders that it packs
        return
    path = PurePosixPath(member.name)
    if not member.isreg() or path.is_absolute() or ".." in path.parts:
        raise SnapshotError(f"the backup has an unexpected file: {member.name}")
    content = archive.extractfile(member)
    assert content is not None  # of a regular file
    (work / path).parent.mkdir(parents=True, exist_ok=True)
    with content:
        copy_synced(content, work / path)


def _unpack(archive: BinaryIO, work: Path) -> ServiceSnapshot:
    """Unpack a tar stream; reject anything but the plain files of a backup."""
    start = archive.peek(4) if isinstance(archive, io.BufferedReader) else b""
    for mark, command in _DECOMPRESSORS.items():
        if start.startswith(mark):
            raise SnapshotError(
                f"the backup is compressed; {command} FILE | facetd restore - takes it decompressed"
            )
    try:
        with tarfile.open(fileobj=archive, mode="r|") as members:
            for member in members:
                _unpack_file(members, member, work)
    except (tarfile.TarError, EOFError) as error:
        raise SnapshotError(f"this is not a backup, or it is cut off: {error}") from error
    snapshot = read_snapshot(work)
    (work / SNAPSHOT_FILE).unlink()
    listed = {file.path for file in snapshot.files} | {"lock"}
    for found in work.rglob("*"):
        if not found.is_dir() and str(found.relative_to(work)) not in listed:
            raise SnapshotError(f"the backup has an unexpected file: {found.relative_to(work)}")
    (work / "catalog.json").chmod(0o600)
    return snapshot
