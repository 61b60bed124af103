"""The extension of compiled kernels: loaded here, and built first where a checkout has changed.

The system's loader maps it; its pages are shared by all processes. It holds the kernels once for
each level of processors that it was built for (x86-64-v3, …) and takes the highest that runs here.
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

from common.kernels import sources
from common.process.python import let_processes_find_us, python_command

_VOUCHED: Final = "FACETD_KERNELS_VOUCHED"
"""In the environment: an extension that the parent process has found current."""


class KernelsMissing(SystemExit):
    """There is no machine code that could run here; says why.

    Modules load their kernels when they are imported. A process that needs them ends there, with
    status 1 and this line instead of a traceback of imports.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"facetd: {reason}")


def load(path: Path) -> Mapping[str, Callable[..., Any]] | None:
    """Return the kernels of an extension by "module.function"; None if numba is to compile them.

    Raises:
        KernelsMissing: there is no extension for these sources or this processor, and none can be
            built.
    """
    if not prepare(path):
        return None
    kernels: Mapping[str, Callable[..., Any]] = _import(path).load()
    return kernels


def chosen() -> Path | None:
    """Return the extension that FACETD_KERNELS asks for, None if numba is to do without.

    Raises:
        KernelsMissing: it asks for something else.
    """
    mode = os.environ.get("FACETD_KERNELS", "")
    if mode == "numba":
        return None
    if mode not in ("", "checked"):
        raise KernelsMissing(f"FACETD_KERNELS is {mode!r}, not checked or numba")
    return sources.CHECKED_EXTENSION if mode == "checked" else sources.EXTENSION


def can_build(path: Path) -> bool:
    """Return whether an extension can probably be built here, without trying."""
    return importlib.util.find_spec("numba") is not None and os.access(path.parent, os.W_OK)


def prepare(path: Path) -> bool:
    """Make sure that there is an extension that runs here; False: numba has to do without.

    Raises:
        KernelsMissing: as `load`.
    """
    if not _is_vouched(path) and not sources.is_current(path):
        if importlib.util.find_spec("numba") is None:
            raise KernelsMissing(
                f"the compiled kernels ({path.name}) are missing or belong to other sources, and"
                " numba, which could compile them, is not installed: install facetd again, or with"
                " its extra, facetd[numba]"
            )
        if not can_build(path) or not _build(path):
            print("facetd: kernels are compiled by numba, in each process", file=sys.stderr)
            return False
    if _import(path).level() is None:
        raise KernelsMissing(f"the compiled kernels ({path.name}) need a newer processor")
    return True


def vouch(path: Path) -> None:
    """Spare processes that this one starts the comparison of an extension with the sources."""
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
    """Return the command that builds an extension, or does nothing if it is current."""
    arguments = ["--checked"] if path == sources.CHECKED_EXTENSION else []
    return python_command("common.kernels.build", *arguments)


def _build(path: Path) -> bool:
    """Build an extension in another process; returns whether there is one now."""
    let_processes_find_us()
    ended = subprocess.run(build_command(path), stdin=subprocess.DEVNULL, check=False)
    return ended.returncode == 0 and sources.is_current(path)


def loaded() -> ModuleType:
    """Return the extension whose kernels this process uses; there must be one."""
    path = chosen()
    assert path is not None
    return sys.modules[_name(path)]


def _name(path: Path) -> str:
    return f"common.kernels.{path.name.partition('.')[0]}"


def _import(path: Path) -> ModuleType:
    """Return the extension as a module."""
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
