"""What the disk or the system refuses, as errors of the service that say what to do."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Final, NamedTuple

from common.errors import InternalError, StorageFull, Unavailable

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a full disk."""
SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Descriptors or memory ran out: they say nothing about the disk or a file, and pass."""


class Refusal(NamedTuple):
    """Why the system refuses an operation, and what to do about it."""

    cause: str
    remedy: str


_NOT_PERMITTED: Final = Refusal(
    "the service may not use a file of its data directory (its permissions)",
    "let the user of the service read and write it",
)
REFUSALS: Final = {
    errno.EMFILE: Refusal(
        "the process has no file descriptors left", "allow more open files (ulimit -n)"
    ),
    errno.ENFILE: Refusal("the system has no file descriptors left", "allow more open files"),
    errno.ENOMEM: Refusal(
        "memory or address space ran out", "allow more memory and address space (ulimit -v)"
    ),
    errno.EACCES: _NOT_PERMITTED,
    errno.EPERM: _NOT_PERMITTED,
    errno.EROFS: Refusal("the disk is read-only", "mount it for writing"),
    errno.EBUSY: Refusal("it is being closed", "try again shortly"),
}
"""By errno: errors that say nothing about the content of a file."""


def remedy_of(error: OSError) -> str:
    """Return what to do about an error of the system."""
    if error.errno in NO_ROOM:
        return "make room on its disk"
    refusal = REFUSALS.get(error.errno or 0)
    return "look after its disk" if refusal is None else refusal.remedy


@contextlib.contextmanager
def explaining_disk_failure(what: str) -> Iterator[None]:
    """Report what the disk refused to the client, not as a failure of the program.

    Args:
        what: the consequence: "nothing was written".

    Raises:
        StorageFull, Unavailable, InternalError: instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StorageFull(f"the disk of the data directory is full: {what}") from error
        if error.errno in SHORTAGES:
            raise Unavailable(
                f"{error.strerror}: {what}; try again shortly, or {remedy_of(error)}",
                code="overloaded",
            ) from error
        raise InternalError(
            f"the disk of the data directory failed ({error.strerror or error}): {what}"
        ) from error
