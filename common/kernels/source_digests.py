"""Digests of the kernels' sources, and whether the extension was built from them.

The extension (`common.kernels.build`) carries a table of the files that its machine code depends
on, with their digests. A starting process compares the table with the files, without loading the
extension, numpy or numba, so that stale code never runs. It reads every module for that, so files
are found and read by the system's calls: `pathlib` takes three times as long.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PACKAGES: Final = ("common", "coordinator", "shard")
ROOT: Final = Path(__file__).resolve().parent.parent.parent

EXTENSION: Final = Path(__file__).with_name("_compiled.abi3.so")
CHECKED_EXTENSION: Final = Path(__file__).with_name("_checked.abi3.so")

MARK: Final = b"facetd-kernel-sources:"
"""Precedes the table in the extension; the table is JSON and ends with a zero byte."""

_DECLARATIONS: Final = (b"\n@kernel\n", b"\n@kernel(", b"\n@arguments\n")


def kernel_files() -> list[Path]:
    """Return the files that have kernels or groups of arguments, in order."""
    return sorted(
        Path(path)
        for package in PACKAGES
        for path in _modules(os.path.join(ROOT, package))
        if _has_kernels(_content(path))
    )


def _modules(folder: str) -> Iterator[str]:
    """Yield the paths of the modules in a folder and those below."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path
            elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                yield from _modules(entry.path)


def _content(path: str | Path) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, os.fstat(file).st_size)
    finally:
        os.close(file)


def _has_kernels(content: bytes) -> bool:
    return any(one in content for one in _DECLARATIONS)


def native_files() -> Iterator[Path]:
    """Yield the C files and headers of the extension."""
    yield from sorted((ROOT / "common" / "kernels" / "build").glob("*.[ch]"))


def module_name(path: Path) -> str:
    """Return the module name of a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def digest(path: Path) -> str:
    """Return the digest of a file's content, in hexadecimal."""
    return hashlib.blake2b(_content(path), digest_size=8).hexdigest()


def recorded(extension: Path) -> dict[str, str] | None:
    """Return the table of an extension: digest by file; None if it is missing or unreadable."""
    try:
        content = extension.read_bytes()
    except OSError:
        return None
    start = content.find(MARK) + len(MARK)
    end = content.find(b"\0", start)
    try:
        table: dict[str, str] = json.loads(content[start:end])
    except ValueError:
        return None
    return table


def is_current(extension: Path) -> bool:
    """Return whether the extension exists and was built from exactly these sources."""
    table = recorded(extension)
    if table is None:
        return False
    try:
        return all(digest(ROOT / name) == known for name, known in table.items()) and all(
            str(path.relative_to(ROOT)) in table for path in (*kernel_files(), *native_files())
        )
    except OSError:  # a file has gone
        return False
