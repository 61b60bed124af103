"""LLVM as back end: from the front end's modules to object files.

One object file for each of our modules and each level of processors. Into it go the kernels of the
module with everything that they call, also of other modules: so LLVM can inline them. It is
optimized as a whole; what no entry reaches is left out.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import llvmlite.binding as llvm

from common.kernels.build.numba_front_end import (
    memory_management,
    read_entries,
    result_paths,
    write,
)
from common.kernels.build.optimizer import machine_of, optimize_module
from common.kernels.build.plan import Kernel, Plan, key_of

_SOURCES: Final = (Path(__file__), Path(__file__).with_name("optimizer.py"))


@dataclass(frozen=True, slots=True)
class ProcessorLevel:
    """A kind of processors.

    Attributes:
        name: "x86-64-v3", as of LLVM and gcc.
        suffix: of the symbols of its entries.
    """

    name: str
    suffix: str


GENERIC: Final = ProcessorLevel("", "generic")
LEVELS: Final = {
    name: ProcessorLevel(name, name.rpartition("-")[2])
    for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4")
}

_V3_FEATURES: Final = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")


def chosen_levels() -> list[ProcessorLevel]:
    """Return the levels that a build makes code for, the lowest first.

    Those that FACETD_KERNEL_LEVELS names ("x86-64-v2 x86-64-v3", for packages that others install),
    else the highest that runs here: most builds are for this machine, and each level takes time.
    """
    names = os.environ.get("FACETD_KERNEL_LEVELS", "").split()
    if names and host_level() != GENERIC:
        return [level for name, level in LEVELS.items() if name in names]
    return [host_level()]


def host_level() -> ProcessorLevel:
    """Return the level that a build for this machine alone is for."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return GENERIC
    features = llvm.get_host_cpu_features()
    return LEVELS["x86-64-v3" if all(features[one] for one in _V3_FEATURES) else "x86-64-v2"]


def object_path(folder: Path, kernels: list[Kernel], level: ProcessorLevel) -> Path:
    """Return the file of the kernels of a module for a level."""
    key = key_of(
        *(path.read_bytes() for path in _SOURCES),
        level.name,
        tuple((one.name, one.full_key) for one in kernels),
    )
    return folder / f"{key}.o"


def compile_module(plan: Plan, folder: Path, kernels: list[Kernel], level: ProcessorLevel) -> None:
    """Leave the object file of a module's kernels in the folder; their results must be there."""
    linked = llvm.parse_assembly(memory_management())
    for name in plan.closure([one.name for one in kernels]):
        path = result_paths(folder, plan.kernels[name].front_key).module
        linked.link_in(llvm.parse_bitcode(path.read_bytes()))
    entries = {entry.symbol for one in kernels for entry in read_entries(folder, one.front_key)}
    for value in [*linked.functions, *linked.global_variables]:
        if value.is_declaration:
            continue
        if value.name in entries:
            value.name = f"{value.name}_{level.suffix}"
            value.visibility = "hidden"
        else:
            value.linkage = "internal"
    linked.verify()
    machine = machine_of(level.name)
    optimize_module(linked, machine)
    write(object_path(folder, kernels, level), machine.emit_object(linked))
