"""The kernel cache is filled once, before the first shard starts, so that no process compiles.

`python -m common.kernels.build.builder` imports every module of the three packages with numba,
which compiles what its own cache does not have (minutes after an installation), and links all
kernels into one image that the servers map (`common.kernels.image`). `is_warm` answers without
importing anything whether that is needed: whether there is an image for these sources, libraries
and machine.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from common.kernels.cache import PACKAGES, image_path
from common.process.lifeline import ask_for_parent_death_signal

NUM_WORKERS: Final = min(4, os.cpu_count() or 1)

VERSIONS_KEPT: Final = 64
"""Other installations of the same user may be of other versions."""
VERSION_NAME: Final = re.compile("[0-9a-f]{16}")

TOLD_EVERY_SECONDS: Final = 10.0
"""How often whoever waits for a first start hears how far it is."""

_NO_KERNELS: Final = frozenset(("__main__", "build", "cli", "dashboard", "demo"))
"""Parts of the names of modules that are programs or data."""


def is_warm() -> bool:
    """Return whether no process has to compile anything."""
    return image_path().exists()


def module_names() -> Iterator[str]:
    """Yield the names of all modules that may have kernels."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.ispkg and _NO_KERNELS.isdisjoint(module.name.split(".")):
                yield module.name


def compile_share(worker: int) -> None:
    """Import every module, in an order of this worker's own.

    Workers share the cache on disk, so each loads what another has compiled before it came there.
    Starting at different places and walking in both directions, they seldom meet before half of the
    work is done.
    """
    names = list(module_names())
    start = len(names) * (worker // 2) // NUM_WORKERS
    order = names[start:] + names[:start]
    told_at = time.monotonic()
    for number, name in enumerate(reversed(order) if worker % 2 else order):
        importlib.import_module(name)
        if worker == 0 and time.monotonic() - told_at > TOLD_EVERY_SECONDS:
            told_at = time.monotonic()
            print(f"facetd: kernels of {number + 1} of {len(names)} modules", file=sys.stderr)


def fill() -> None:
    """Compile everything with all processors, then leave the image; old versions go."""
    os.environ["FACETD_KERNELS"] = "numba"  # read when the first module with kernels is imported
    path = image_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    program = [sys.executable, "-m", "common.kernels.build.builder"]
    others = [subprocess.Popen([*program, str(worker)]) for worker in range(1, NUM_WORKERS)]
    compile_share(0)
    for other in others:
        if other.wait() != 0:
            raise RuntimeError(f"compiling kernels failed with status {other.returncode}")
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(make_image())
    temporary.rename(path)
    remove_old(path.parent)


def make_image() -> bytes:
    """Return the image of all kernels of this process; nothing where it cannot be made."""
    from common.kernels.build.entries import CannotEnter, compile_all
    from common.kernels.build.linker import CannotLink, link
    from common.kernels.decorator import dispatchers

    try:
        return link(*compile_all(dispatchers))
    except (CannotEnter, CannotLink, RuntimeError) as error:
        print(f"facetd: no kernel image, so servers need more memory: {error}", file=sys.stderr)
        return b""


def remove_old(current: Path) -> None:
    """Remove the folders of all but the latest versions of the kernels."""
    if not VERSION_NAME.fullmatch(current.name):
        return  # somebody else chose the folder
    versions = [path for path in current.parent.iterdir() if VERSION_NAME.fullmatch(path.name)]
    versions.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in versions[VERSIONS_KEPT:]:
        if path != current:  # a clock may have jumped
            shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    ask_for_parent_death_signal()
    if len(sys.argv) > 1:
        compile_share(int(sys.argv[1]))
    else:
        fill()
