"""The plan of a build: the kernels, their dependencies, and the keys of their results.

The key of a kernel covers all that its machine code depends on: the bytecode of its function, its
signature with the groups in it, its options, the constants that it uses, the kernels that it calls.
Comments, formatting and other functions do not change it. So a build compiles exactly the kernels
whose results are missing, whatever else an edit has touched.
"""

from __future__ import annotations

import enum
import hashlib
import importlib
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from common.kernels import source_digests
from common.kernels.annotations_to_signatures import group_type, interface_of, signatures_of
from common.kernels.build.optimizer import SPEED

_LIBRARIES: Final = ("numba", "numpy", "llvmlite")
_FRONT_END_FILES: Final = ("numba_front_end.py", "optimizer.py")
_INTRINSICS: Final = Path(__file__).parent.parent / "intrinsics.py"


class CannotPlan(Exception):
    """A kernel uses a value whose changes the plan could not notice."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel to compile.

    Attributes:
        name: "module.function".
        module: that defines it.
        callees: names of the kernels that it calls.
        front_key: key of the front end's result, which does not depend on the callees' bodies.
        full_key: key of its machine code, which does.
    """

    name: str
    module: str
    callees: tuple[str, ...]
    front_key: str
    full_key: str


@dataclass(frozen=True, slots=True)
class Plan:
    """All kernels, callees before their callers.

    Attributes:
        kernels: by name.
        files: all that the kernels depend on.
    """

    kernels: dict[str, Kernel]
    files: tuple[Path, ...]

    def modules(self) -> dict[str, list[Kernel]]:
        """Return the kernels of each module."""
        modules: dict[str, list[Kernel]] = {}
        for kernel in self.kernels.values():
            modules.setdefault(kernel.module, []).append(kernel)
        return modules

    def closure(self, names: list[str]) -> list[str]:
        """Return the names of kernels and of all that they call, directly or not, sorted."""
        found: dict[str, None] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = None
                waiting.extend(self.kernels[name].callees)
        return sorted(found)


def make_plan(modules: Sequence[str]) -> Plan:
    """Import modules and plan the build of their kernels; FACETD_KERNELS must be "record".

    Raises:
        CannotPlan: a kernel uses something that is neither a constant nor a kernel.
    """
    files = []
    for name in modules:
        file = importlib.import_module(name).__file__
        assert file is not None
        files.append(Path(file))
    return _Planner().plan(files)


@cache
def tools_key() -> str:
    """Return the key of the front end: machine, Python, the libraries, its options and code."""
    machine = (platform.machine(), sys.version_info[:2], SPEED)
    digest = hashlib.blake2b(repr(machine).encode(), digest_size=16)
    for library in _LIBRARIES:
        digest.update(f"{library} {importlib.import_module(library).__version__}\n".encode())
    for path in (*(Path(__file__).with_name(name) for name in _FRONT_END_FILES), _INTRINSICS):
        digest.update(path.name.encode())  # results name its classes by module
        digest.update(path.read_bytes())
    return digest.hexdigest()


def key_of(*parts: Any) -> str:
    """Return a digest of strings, numbers, bytes and tuples of them."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


class _Planner:
    """Makes the plan of all kernels that this process has recorded."""

    def __init__(self) -> None:
        from common.kernels import decorator

        self._recorded = decorator.recorded
        self._names = {id(one): name for name, one in self._recorded.items()}
        self._kernels: dict[str, Kernel] = {}
        self._interfaces: dict[str, str] = {}
        self._constant_modules: set[str] = set()

    def plan(self, files: list[Path]) -> Plan:
        for name in self._recorded:
            self._add(name)
        known = set(files)
        for name in sorted(self._constant_modules):
            known |= set(_project_files(name))
        return Plan(self._kernels, tuple(sorted(known | {_INTRINSICS})))

    def _add(self, name: str) -> Kernel:
        if name in self._kernels:
            return self._kernels[name]
        dispatcher = self._recorded[name]
        function = dispatcher.py_func
        callees: dict[str, None] = {}
        uses = []
        for used in sorted(set(_names_of(function.__code__))):
            if used in function.__globals__:
                value = function.__globals__[used]
                if id(value) in self._names:
                    callees[self._names[id(value)]] = None
                uses.append((used, self._describe(value, f"{used} of {name}")))
                self._note_module(function.__globals__["__name__"], used)
        interface = self._interface(name)
        options = sorted(dispatcher.targetoptions.items(), key=repr)
        front = key_of(
            tools_key(), name, _describe_code(function), interface, repr(options), tuple(uses)
        )
        full = key_of(front, tuple(self._add(callee).full_key for callee in callees))
        kernel = Kernel(name, function.__module__, tuple(callees), front, full)
        self._kernels[name] = kernel
        return kernel

    def _interface(self, name: str) -> str:
        """Return what callers depend on of a kernel: its signatures."""
        if name not in self._interfaces:
            signatures = signatures_of(self._recorded[name].py_func)
            self._interfaces[name] = repr([interface_of(signature) for signature in signatures])
        return self._interfaces[name]

    def _describe(self, value: Any, what: str) -> Any:
        """Return the key of a global name's value."""
        import numpy as np

        if id(value) in self._names:
            name = self._names[id(value)]
            return name, self._interface(name)  # the name: of the symbol that is called
        if isinstance(value, bool | int | float | str | bytes | None):
            return repr(value)
        if isinstance(value, np.ndarray):
            content = hashlib.blake2b(value.tobytes(), digest_size=16).hexdigest()
            return (value.dtype.str, value.shape, content)
        if isinstance(value, np.generic):
            return (value.dtype.str, repr(value.item()))
        if isinstance(value, tuple):
            return (type(value).__name__, *(self._describe(one, what) for one in value))
        if isinstance(value, enum.EnumType):
            members: Any = value
            return (value.__name__, *((one.name, repr(one.value)) for one in members))
        if isinstance(value, type) and hasattr(value, "_fields"):
            return (value.__module__, value.__qualname__, value._fields, str(group_type(value)))
        if isinstance(value, ModuleType) and value.__name__ in ("numpy", "math"):
            return value.__name__
        module = getattr(value, "__module__", "")
        if module == "common.kernels.intrinsics":
            return "intrinsics"  # a part of the tools
        if isinstance(value, type) and module in ("numpy", "builtins"):
            return value.__qualname__
        raise CannotPlan(f"{what} is neither a constant nor a kernel: {value!r}")

    def _note_module(self, module: str, used: str) -> None:
        """Note the module that a kernel's name was imported from."""
        origin = _imports_of(module).get(used)
        if origin is not None and origin.partition(".")[0] in source_digests.PACKAGES:
            self._constant_modules.add(origin)


def _names_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_of(constant)


def _describe_code(function: Any) -> Any:
    """Return what a function does: its bytecode and constants, without its docstring."""

    def describe(code: CodeType, documentation: str | None) -> Any:
        constants = [
            describe(one, None) if isinstance(one, CodeType) else repr(one)
            for one in code.co_consts
            if not (documentation is not None and one == documentation)
        ]
        return (code.co_code, code.co_varnames, code.co_names, code.co_freevars, constants)

    return describe(function.__code__, function.__doc__)


@cache
def _imports_of(module: str) -> dict[str, str]:
    """Return the module of each name that a module imports by ``from … import …``."""
    import ast

    path = sys.modules[module].__file__
    assert path is not None
    found = {}
    for node in ast.walk(ast.parse(Path(path).read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = node.module
    return found


def _project_files(module: str) -> Iterator[Path]:
    """Yield the files of a module and of all modules of this project that it imports from."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        file = getattr(sys.modules.get(name), "__file__", None)
        if name in seen or file is None or name.partition(".")[0] not in source_digests.PACKAGES:
            continue
        seen.add(name)
        yield Path(file)
        waiting.extend(_imports_of(name).values())
