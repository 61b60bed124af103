"""Numba's cache of compiled code, for processes that have no extension to load.

One folder for each version of the kernels. numba recompiles a function when its *own* file has
changed, but not when a function that it calls, in another file, has: the caller would keep the old
one inlined. So the folder is named by a digest of all files with kernels or groups of arguments,
and a change of any of them starts a new one.

Code loaded from there is executed. So a folder is used only if it belongs to this user and no other
can write to it; otherwise one with an unpredictable name is made. numba cannot even read from a
folder that it cannot write to: a read-only one is copied.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from common.kernels import source_digests


@cache
def choose() -> None:
    """Set numba's cache folder, unless NUMBA_CACHE_DIR does."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    from numba.core import config

    settings: Any = config  # its attributes are set at run time, so stubs do not know them
    settings.CACHE_DIR = str(directory())
    os.environ["NUMBA_CACHE_DIR"] = settings.CACHE_DIR  # for processes that we start


def fill() -> None:
    """Compile all kernels, so that processes started later find them."""
    for path in source_digests.kernel_files():
        importlib.import_module(source_digests.module_name(path))


def directory() -> Path:
    """Return a writable folder for these kernels: in the user's cache, else a temporary one."""
    path = user_folder("kernels", sources_digest())
    if path is not None and os.access(path, os.W_OK):
        return path
    made = Path(tempfile.mkdtemp(prefix="facetd-kernels-"))
    if path is not None:
        for source in filter(Path.is_file, path.rglob("*")):
            copy = made / source.relative_to(path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    return made


def user_folder(*names: str) -> Path | None:
    """Return a folder in the user's cache folder; None if others could write to it, or no home."""
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    except RuntimeError:  # no home, as in some containers
        return None
    path = Path(home, "facetd", *names)
    with contextlib.suppress(OSError):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path if _is_ours(path) else None  # it may be read-only


def sources_digest() -> str:
    """Return a digest of all files that the machine code depends on."""
    names = (
        f"{path.relative_to(source_digests.ROOT)} {source_digests.digest(path)}\n"
        for path in files()
    )
    return hashlib.blake2b("".join(names).encode(), digest_size=8).hexdigest()


def files() -> list[Path]:
    """Return the files whose content the machine code depends on."""
    return [*source_digests.kernel_files(), Path(__file__).with_name("intrinsics.py")]


def _is_ours(path: Path) -> bool:
    """Return whether a folder belongs to this user, and no other can write to it."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.getuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


if __name__ == "__main__":
    fill()
