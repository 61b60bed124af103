"""What the disk or the system refuses, as errors of the service that say what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from common.errors import InternalError, StorageFull, Unavailable

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a full disk."""
NOT_PERMITTED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
"""Numbers of the errors that no retry changes: who may write is decided by an operator."""
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


def remedy_of(error: OSError, folder: Path | None = None) -> str:
    """Return what to do about an error of the system.

    Args:
        error: names the file, if it is about one.
        folder: of which all files must be of one user, such as the data directory.
    """
    if error.errno in NO_ROOM:
        return "make room on its disk"
    if isinstance(error, PermissionError) and isinstance(error.filename, str | os.PathLike):
        return _permission_remedy(Path(error.filename), folder)
    refusal = REFUSALS.get(error.errno or 0)
    return "look after its disk" if refusal is None else refusal.remedy


def _permission_remedy(path: Path, folder: Path | None) -> str:
    """Say who runs this process, whose the refused file or folder is, and what to do."""
    user = user_name(os.geteuid())
    try:
        owner = path.stat().st_uid
    except FileNotFoundError:
        if folder is not None and path.parent.is_relative_to(folder):
            return _permission_remedy(path.parent, folder)  # which refused to have it made
        return f"make it for {user}, who runs this process: install -d -o {user} {_quoted(path)}"
    except OSError:
        barrier = _barrier(path)
        if folder is None or not barrier.is_relative_to(folder):
            return f"let {user}, who runs this process, pass through {barrier} (its permissions)"
        return _permission_remedy(barrier, folder)
    whole = _quoted(folder if folder is not None and path.is_relative_to(folder) else path)
    if owner == os.geteuid():
        return f"let {user}, who owns it and runs this process, use it (chmod -R u+rwX {whole})"
    return (
        f"{path} belongs to {user_name(owner)}, and this process runs as {user}: start it as the "
        f"owner, or give {user} the files (chown -R {user} {whole})"
    )


def _barrier(path: Path) -> Path:
    """Return the folder on the way to a path that lets nothing through."""
    for folder in path.parents:
        try:
            folder.stat()
        except OSError:
            continue
        return folder
    return path


def user_name(number: int) -> str:
    """Return the name of a user; the number, if the system knows none, as in a container."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


@contextlib.contextmanager
def explaining_disk_failure(what: str, folder: str = "the data directory") -> Iterator[None]:
    """Report what the disk refused to the client, not as a failure of the program.

    Args:
        what: the consequence: "nothing was written".
        folder: whose disk it is.

    Raises:
        StorageFull, Unavailable, InternalError: instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StorageFull(f"the disk of {folder} is full: {what}") from error
        if error.errno in SHORTAGES:
            raise Unavailable(
                f"{error.strerror}: {what}; try again shortly, or {remedy_of(error)}",
                code="overloaded",
            ) from error
        raise InternalError(
            f"the disk of {folder} failed ({error.strerror or error}): {what}"
        ) from error
