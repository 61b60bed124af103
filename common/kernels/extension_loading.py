"""Loads the extension module of compiled kernels; in a changed checkout, rebuilds it first.

The system's loader maps the extension, so all processes share its pages. It holds the kernels once
for each processor level that it was built for (x86-64-v3, …), and uses the highest that runs here.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from common.kernels import source_digests
from common.process.python_command import let_processes_find_us, python_command

_VOUCHED: Final = "FACETD_KERNELS_VOUCHED"
"""Environment variable: the stamp of an extension that the parent process has found current."""


class KernelsMissing(SystemExit):
    """No compiled kernels can run here; the message says why.

    Modules load their kernels when they are imported. A process that needs them exits there with
    status 1, and prints this line instead of a traceback of imports.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"facetd: {reason}")


def load(path: Path) -> Mapping[str, Callable[..., Any]] | None:
    """Return the kernels of an extension by "module.function"; None if numba must compile them.

    Raises:
        KernelsMissing: no extension fits these sources and this processor, and none can be built.
    """
    if not prepare(path):
        return None
    kernels: Mapping[str, Callable[..., Any]] = _import(path).load()
    return kernels


def chosen() -> Path | None:
    """Return the extension that FACETD_KERNELS chooses; None if it chooses numba.

    Raises:
        KernelsMissing: the value is unknown.
    """
    mode = os.environ.get("FACETD_KERNELS", "")
    if mode == "numba":
        return None
    if mode not in ("", "checked"):
        raise KernelsMissing(f"FACETD_KERNELS is {mode!r}: use checked or numba, or leave it unset")
    return source_digests.CHECKED_EXTENSION if mode == "checked" else source_digests.EXTENSION


def can_build(path: Path) -> bool:
    """Return whether an extension can probably be built here, without trying to."""
    return importlib.util.find_spec("numba") is not None and os.access(path.parent, os.W_OK)


def prepare(path: Path) -> bool:
    """Build the extension if it is not current; return False if numba must compile instead.

    Raises:
        KernelsMissing: as `load`.
    """
    if not _is_vouched(path) and not source_digests.is_current(path):
        if importlib.util.find_spec("numba") is None:
            raise KernelsMissing(
                f"the compiled kernels ({path.name}) are missing or were built from other sources,"
                " and numba, which could compile them, is not installed: reinstall facetd, or"
                " install facetd[numba]"
            )
        if not can_build(path) or not _build(path):
            print("facetd: kernels are compiled by numba, in each process", file=sys.stderr)
            return False
    if _import(path).level() is None:
        raise KernelsMissing(f"the compiled kernels ({path.name}) need a newer processor")
    return True


def vouch(path: Path) -> None:
    """Tell processes that this one starts that an extension is current, so they need not check."""
    os.environ[_VOUCHED] = _stamp(path)


def _is_vouched(path: Path) -> bool:
    return os.environ.get(_VOUCHED) == _stamp(path)


def _stamp(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return "missing"
    return f"{path}:{status.st_mtime_ns}:{status.st_size}"


def build_command(path: Path) -> list[str]:
    """Return the command that builds an extension unless it is current."""
    arguments = ["--checked"] if path == source_digests.CHECKED_EXTENSION else []
    return python_command("common.kernels.build", *arguments)


def _build(path: Path) -> bool:
    """Build an extension in another process; return whether it is current now."""
    let_processes_find_us()
    ended = subprocess.run(build_command(path), stdin=subprocess.DEVNULL, check=False)
    return ended.returncode == 0 and source_digests.is_current(path)


def loaded() -> ModuleType:
    """Return the extension whose kernels this process uses; only where numba does not compile."""
    path = chosen()
    assert path is not None
    return sys.modules[_name(path)]


def _name(path: Path) -> str:
    return f"common.kernels.{path.name.partition('.')[0]}"


def _import(path: Path) -> ModuleType:
    """Import the extension, once a process."""
    name = _name(path)
    if name in sys.modules:
        return sys.modules[name]
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise KernelsMissing(f"the compiled kernels do not load: {error}") from error
    sys.modules[name] = module
    return module
