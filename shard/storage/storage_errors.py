"""The errors of storage, for refused operations and damaged files, and their causes in words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.disk_errors import NO_ROOM, REFUSALS
from common.errors import InternalError, StorageFull


class DamagedEnvironment(Exception):
    """data.mdb cannot have all acknowledged writes; the message names the file and the remedy."""


class StorageFailure(Exception):
    """The device refused a write or a sync: nothing may be written before a reopen.

    After a failed sync the kernel may have dropped the dirty pages, and reports success next time.
    So the only safe reaction is to end the process; the next one makes the disk have what it reads.

    Attributes:
        is_full: whether the disk is full.
    """

    def __init__(self, message: str, *, is_full: bool = False) -> None:
        super().__init__(message)
        self.is_full = is_full


def is_disk_full(error: OSError | StorageFailure) -> bool:
    """Return whether a write was refused because the disk, or the user's quota, is full."""
    if isinstance(error, StorageFailure):
        return error.is_full
    return error.errno in NO_ROOM


def cause_of(error: OSError | StorageFailure) -> str:
    """Return why the system refused an operation, and what to do, in words without paths."""
    if isinstance(error, StorageFailure) or error.errno is None:
        return "the disk refused it"
    if error.errno in REFUSALS:
        cause, remedy = REFUSALS[error.errno]
        return f"{cause}; {remedy}"
    return f"the disk refused it ({os.strerror(error.errno)})"


@contextmanager
def explaining_refusal(what: str) -> Iterator[None]:
    """Turn errors of the system into ones for clients, without paths.

    Args:
        what: the operation: "to make the index".

    Raises:
        StorageFull: instead of an OSError or StorageFailure, if the disk is full.
        InternalError: instead of any other.
    """
    try:
        yield
    except (OSError, StorageFailure) as error:
        if is_disk_full(error):
            raise StorageFull(f"there is no room on the disk {what}") from error
        raise InternalError(f"it was not possible {what}: {cause_of(error)}") from error


def has_no_block(folder: Path) -> bool:
    """Return whether the disk of a folder has no free block."""
    try:
        return os.statvfs(folder).f_bavail == 0
    except OSError:
        return False
