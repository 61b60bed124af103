"""What the disk or the system refuses, as errors of the service that say what to do."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Final

from common.errors import InternalError, StorageFull, Unavailable

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a full disk."""
SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Descriptors or memory ran out: they say nothing about the disk or a file, and pass."""

REMEDIES: Final = {
    errno.EACCES: "let the user of the service read and write it",
    errno.EPERM: "let the user of the service read and write it",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENFILE: "allow more open files",
    errno.ENOMEM: "allow more memory and address space (ulimit -v)",
    **dict.fromkeys(NO_ROOM, "make room on its disk"),
}
"""What to do, by number of the error."""


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
                f"{error.strerror}: {what}; try again shortly, or {REMEDIES[error.errno]}",
                code="overloaded",
            ) from error
        raise InternalError(
            f"the disk of the data directory failed ({error.strerror or error}): {what}"
        ) from error
