"""Files that survive a crash: written atomically, with their names, and folders that are durable.

A file that must never be seen half written is written under a temporary name, synced and renamed,
and its folder is synced (`write_atomically`).

What a killed process wrote may be in memory only, and a sync alone does not settle that: once a
sync has failed, in another process too, the kernel counts the pages as written, and reports success
from then on. A process that relies on such bytes writes them once more (`write_again`).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Final

from common.chunked_file_io import write_all
from common.disk_errors import NO_ROOM

COPY_BYTES: Final = 1 << 20

_WRITER: Final = re.compile(r"\.([0-9]{1,9})\.tmp\Z", re.ASCII)
"""The end of a temporary name: the process that writes it."""


def write_atomically(path: Path, content: bytes | bytearray, *, mode: int = 0o644) -> None:
    """Replace a file so that a crash at any moment leaves the old or the new one, whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_unfinished_writes(folder: Path) -> None:
    """Remove the temporary files of processes that were killed in `write_atomically`."""
    with contextlib.suppress(OSError):
        for path in folder.glob(".*.tmp"):
            writer = _WRITER.search(path.name)
            if writer is not None and not _may_write(int(writer[1])):
                path.unlink(missing_ok=True)


def _may_write(process: int) -> bool:
    """Return whether another process that runs has this number."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def sync_file(path: Path) -> None:
    """Wait until all writes to a file are on disk, whichever process made them."""
    with path.open("rb", buffering=0) as file:
        os.fsync(file.fileno())


def copy_synced(source: IO[bytes], target: Path) -> None:
    """Copy the rest of a file into another one, and sync that by the descriptor that wrote it.

    A sync by another descriptor, some time later, may succeed though the disk has refused a part:
    the kernel reports that once, and not at all when it has dropped the file from its memory.
    """
    with target.open("wb", buffering=0) as file:
        while piece := source.read(COPY_BYTES):
            write_all(file.fileno(), memoryview(piece))
        os.fsync(file.fileno())


def write_again(path: Path, parts: Iterable[tuple[int, int]]) -> None:
    """Write parts of a file over themselves and sync it, so that the disk has what is read here.

    A file system that never writes in place may have no room for that; then it is only synced.

    Args:
        path: of a file that no other process changes.
        parts: where each begins, and how long it is.

    Raises:
        OSError: the device failed.
    """
    with path.open("r+b", buffering=0) as file:
        number = file.fileno()
        try:
            for start, num_bytes in parts:
                part = os.pread(number, num_bytes, start)
                while part:
                    num_written = os.pwrite(number, part, start)
                    part, start = part[num_written:], start + num_written
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
        os.fsync(number)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder (readable by its owner only) if it is not there, and its name durable.

    A later sync of its files is worthless if the folder's own name is lost.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)
