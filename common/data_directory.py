"""The data directory: its layout, its format and its owner.

    DATA/
      MANIFEST.json     format, shard count, hash function: checked before anything else is read
      lock              flock of the one coordinator (or supervisor); holds its pid
      secret            proves to a shard that the coordinator may read DATA; mode 0600
      catalog.json      indexes, configurations, aliases, keys: the coordinator's truth
      coordinator.json  where the coordinator listens, for the command line
      replica.json      how far this copy has followed the log of several hosts, if it follows one
      placement.json    which host has which shards, if there are several
      analytics/        what people search for and click, one file a day
      spool/            bulk bodies that are being read; emptied at start
      snapshots/        copies of everything else here, unless a setting names another folder
      shard-0/
        lock            flock of the shard process
        endpoint.json   where the shard listens, and its pid; replaced at every start
        ...             one folder per index (the shard's own matter)

`endpoint_files` has the files that say who listens where; `durable_files` writes files atomically.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from common.disk_errors import remedy_of
from common.durable_files import (
    make_folder,
    remove_unfinished_writes,
    sync_folder,
    write_atomically,
)
from common.errors import CommandError

FORMAT: Final = 3
"""Version of the whole layout that this program writes."""

MIN_READER: Final = 3
"""Oldest program (by its FORMAT) that can read what this one writes."""

HASH: Final = "xxh64"
"""Function that maps ids to slots."""

LOCK_WAIT_SECONDS: Final = 5.0
"""How long a start waits for a previous owner that is about to end."""

_PID_BYTES: Final = 15
"""Fixed, so that the file can be overwritten on a disk without a free block."""


class DataDirectoryError(CommandError):
    """The directory cannot be used; the message says why and what to do."""


class Manifest(Struct, frozen=True):
    """The layout that the data were created for."""

    format: int
    min_reader: int
    shards: int
    hash: str
    created_by: str


# Made once: a concurrent first use of a class by two threads would crash the process.
_decode_manifest = msgspec.json.Decoder(Manifest).decode


def manifest_path(data: Path) -> Path:
    """Return the file that says what the data were made for."""
    return data / "MANIFEST.json"


def catalog_path(data: Path) -> Path:
    """Return the coordinator's file."""
    return data / "catalog.json"


def replica_path(data: Path) -> Path:
    """Return the file that says how far the data have followed a shared log."""
    return data / "replica.json"


def placement_path(data: Path) -> Path:
    """Return the path of the copy of the table that says which host has which shards."""
    return data / "placement.json"


def spool_folder(data: Path) -> Path:
    """Return the folder of bulk bodies that are being read."""
    return data / "spool"


def snapshots_folder(data: Path) -> Path:
    """Return the folder of snapshots, unless a setting names another one."""
    return data / "snapshots"


def analytics_folder(data: Path) -> Path:
    """Return the folder of the analytics, by day."""
    return data / "analytics"


def shard_folder(data: Path, shard: int) -> Path:
    """Return the folder of one shard."""
    return data / f"shard-{shard}"


@contextlib.contextmanager
def start_explained(data: Path) -> Iterator[None]:
    """Report what the system refused at a start in one line that says what to do.

    Raises:
        DataDirectoryError: instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise refusal_explained(data, error) from error


def refusal_explained(data: Path, error: OSError) -> DataDirectoryError:
    """Return what the system refused at a start as one line that says what to do."""
    if isinstance(error, NotADirectoryError):
        return DataDirectoryError(f"{data} is not a folder; name another with --data-dir")
    what = error.strerror or str(error)
    return DataDirectoryError(
        f"{error.filename or data} cannot be used: {what}; {remedy_of(error, data)} and start "
        "again, or name another directory with --data-dir"
    )


def unusable_path(folder: Path) -> str | None:
    """Say why a folder's path cannot be used, and what would be valid; None if it can.

    Messages and responses have it in UTF-8, LMDB encodes it in the encoding of the locale.
    """
    path, encoding = str(folder.absolute()), sys.getfilesystemencoding()
    try:
        path.encode()
        path.encode(encoding)
    except UnicodeEncodeError:
        return (
            f"the path {path!r} is not text in the encoding of the locale ({encoding}); set a "
            "locale of UTF-8 (LC_ALL=C.UTF-8), or name another folder"
        )
    return None


def create(data: Path) -> None:
    """Make the directory if it is not there.

    Raises:
        DataDirectoryError: it cannot be made or used; says what would be valid.
    """
    if fault := unusable_path(data):
        raise DataDirectoryError(f"{fault} with --data-dir")
    try:
        make_folder(data)
    except FileExistsError as error:
        what = "is not a folder"
        if data.is_symlink() and not data.exists():
            what = f"is a symbolic link to {data.readlink()}, which does not exist"
        raise DataDirectoryError(f"{data} {what}; name another with --data-dir") from error
    except OSError as error:
        raise DataDirectoryError(
            f"cannot make the data directory {data}: {error.strerror}; {remedy_of(error)}, or name "
            "another with --data-dir"
        ) from error


def read_manifest(data: Path) -> Manifest | None:
    """Return the layout that the data were created for; None for a directory without data.

    Raises:
        DataDirectoryError: the file cannot be read or was made by a newer program.
    """
    path = manifest_path(data)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refusal_explained(data, error) from error
    try:
        fields = json.loads(content)
        if int(fields["min_reader"]) > FORMAT:
            raise DataDirectoryError(
                f"{data} was made by {fields.get('created_by', 'a newer program')} in format "
                f"{fields['format']}, which this program (format {FORMAT}) cannot read; "
                "install that version or a newer one"
            )
        return _decode_manifest(content)
    except (ValueError, KeyError, TypeError) as error:
        raise DataDirectoryError(
            f"{path} cannot be read ({error}); restore it from a backup"
        ) from error


def check_manifest(data: Path, num_shards: int) -> Manifest | None:
    """Refuse data that were partitioned for another number of shards or by another hash.

    Returns:
        The manifest; None for a directory without data.

    Raises:
        DataDirectoryError: it does not fit; the message names the remedy.
    """
    manifest = read_manifest(data)
    if manifest is None:
        return None
    if manifest.shards != num_shards:
        raise DataDirectoryError(
            f"{data} was made with {manifest.shards} shard{'s' if manifest.shards != 1 else ''}; "
            f"start with --shards {manifest.shards} or run "
            f"facetd reshard --data-dir {data} --shards {num_shards}"
        )
    if manifest.hash != HASH:
        raise DataDirectoryError(
            f"{data} places ids by {manifest.hash}; this program knows only {HASH}: start with the "
            "version that made the data, or restore them from a backup"
        )
    return manifest


def write_manifest(data: Path, num_shards: int, created_by: str) -> Manifest:
    """Write what the data are made for; only a program with a newer format changes it."""
    manifest = Manifest(FORMAT, MIN_READER, num_shards, HASH, created_by)
    write_atomically(manifest_path(data), msgspec.json.encode(manifest) + b"\n")
    return manifest


def acquire_lock(folder: Path, *, wait_seconds: float = LOCK_WAIT_SECONDS) -> int:
    """Become the owner of a folder for as long as this process lives.

    The lock is an flock of the file `lock`: the system releases it when the last process that
    holds the descriptor ends, however it ends. The descriptor is not inherited by child processes
    unless it is passed on purpose.

    Args:
        folder: the data directory or a shard's folder.
        wait_seconds: how long to wait for a previous owner that is about to end.

    Returns:
        The descriptor that holds the lock.

    Raises:
        DataDirectoryError: another process owns it, or it cannot be written to.
    """
    path = folder / "lock"
    descriptor = _open_lock(path)
    give_up_at = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_file(descriptor, path):
                break
            # While we waited, another folder replaced this one (reshard does that).
            os.close(descriptor)
            descriptor = _open_lock(path)
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
                os.close(descriptor)
                raise DataDirectoryError(
                    f"{folder} is in use by another facetd (process {owner or 'unknown'}); "
                    "stop it first, or start with another --data-dir"
                ) from None
            time.sleep(0.05)
    with contextlib.suppress(OSError):  # the pid is for people; the lock is ours without it
        os.pwrite(descriptor, f"{os.getpid():<{_PID_BYTES}}\n".encode(), 0)
    remove_unfinished_writes(folder)
    return descriptor


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DataDirectoryError(
            f"cannot write to {path.parent}: {error.strerror}; {remedy_of(error, path.parent)}"
        ) from error


def _is_file(descriptor: int, path: Path) -> bool:
    """Return whether a descriptor still refers to the file at the path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def read_or_create_secret(data: Path) -> str:
    """Return the secret that coordinator and shards share; the first process makes it.

    Raises:
        DataDirectoryError: the file is damaged.
    """
    path = data / "secret"
    for _ in range(2):
        try:
            return _read_secret(path)
        except FileNotFoundError:
            temporary = data / f".secret.{secrets.token_hex(4)}.{os.getpid()}.tmp"
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32) + "\n")
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(temporary, path)  # fails if another process was first: its one counts
            except FileExistsError:
                pass
            finally:
                temporary.unlink()
            sync_folder(data)
    return _read_secret(path)


def mark(data: Path) -> str:
    """Return what tells a data directory from all others: a digest of its secret.

    It is for names in folders that several services may use.

    Raises:
        DataDirectoryError: as `read_or_create_secret`.
    """
    secret = read_or_create_secret(data).encode()
    return hashlib.blake2b(secret, digest_size=6, person=b"facetd mark").hexdigest()


def _read_secret(path: Path) -> str:
    secret = path.read_bytes().strip()
    if not secret or not secret.isascii():
        raise DataDirectoryError(
            f"{path} is damaged: remove it while no process runs; the next start makes a new one"
        )
    return secret.decode("ascii")
