"""The kernel cache is filled once, before the first shard starts, so that no process compiles.

Importing a module with kernels compiles what the cache does not have: minutes after an
installation, a fraction of a second ever after. `python -m coordinator.kernel_cache` imports every
module of the three packages; `is_warm` answers without importing anything whether that is needed,
by a stamp next to the cached code that names interpreter, numba, machine and sources.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pkgutil
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from common.kernel_cache import cache_directory
from common.lifeline import ask_for_parent_death_signal

PACKAGES: Final = ("common", "shard", "coordinator")

_NO_KERNELS: Final = ("__main__", "cli", "demo", "dashboard", "kernel_cache")
"""Last part of the names of modules that are programs or data."""


def sources() -> Iterator[Path]:
    """Yield the Python files that have kernels; numba compiles again what is in a changed one."""
    for name in PACKAGES:
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            for path in sorted(Path(folder).rglob("*.py")):
                if b"@kernel(" in path.read_bytes():
                    yield path


def stamp_path() -> Path:
    """Return the file whose existence says that the cache is filled for just this program."""
    digest = hashlib.blake2b(digest_size=12)
    digest.update(f"{sys.version} {version('numba')} {version('numpy')} {processor()}".encode())
    for path in sources():
        status = path.stat()
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}".encode())
    folder = os.environ.get("NUMBA_CACHE_DIR")
    return (Path(folder) if folder else cache_directory()) / f"filled-{digest.hexdigest()}"


def processor() -> str:
    """Return what the processor is and can: machine code is made for one kind of it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    known = {line for line in lines if line.startswith(("model name", "flags", "Features"))}
    return f"{platform.machine()} {sorted(known)}"


def is_warm() -> bool:
    """Return whether no process has to compile anything."""
    return stamp_path().exists()


def module_names() -> Iterator[str]:
    """Yield the names of all modules that may have kernels."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if module.name.rpartition(".")[2] not in _NO_KERNELS and not module.ispkg:
                yield module.name


def fill() -> None:
    """Import everything, then leave the stamp (older ones go)."""
    stamp = stamp_path()
    for name in module_names():
        importlib.import_module(name)
    for old in stamp.parent.glob("filled-*"):
        old.unlink(missing_ok=True)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.touch()


if __name__ == "__main__":
    ask_for_parent_death_signal()
    fill()
