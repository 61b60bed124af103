"""A build compiles what has changed, and says what it lacks."""

from __future__ import annotations

import gc
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from common.kernels.build import builder, plan
from common.kernels.build.link import SLOTS_MAX, CannotLink, check_slots, try_out
from common.kernels.build.machine_code import chosen_levels, host_level
from common.kernels.build.numba_front_end import Entry
from common.kernels.build.plan import tools_key
from tests.common.kernels.built import MODULE, build, load
from tests.service import ROOT

KERNELS = """
from common.kernels.decorator import kernel

FACTOR = {factor}


@kernel(allocates=False)
def leaf(number: int) -> int:
    {comment}
    return number * FACTOR


@kernel(allocates=False)
def caller(number: int) -> int:
    return leaf(number) + 1


@kernel(allocates=False)
def other(number: int) -> int:
    return number
"""


class Workshop:
    """A module of kernels that is built repeatedly."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        monkeypatch.setenv("FACETD_KERNEL_BUILD", str(folder / "results"))
        monkeypatch.setenv("PYTHONPATH", f"{folder}:{ROOT}")

    def build(self, name: str, source: str = KERNELS, **values: Any) -> tuple[str, ModuleType]:
        """Build the module with these values; returns what was said, and the extension."""
        texts = {"factor": 3, "comment": "", **values}
        (self.folder / "workshop_kernels.py").write_text(source.format(**texts))
        path = self.folder / f"_{name}.abi3.so"
        program = f"""
from pathlib import Path
from common.kernels.build.builder import build

build(Path({str(path)!r}), is_checked=False, modules=["workshop_kernels"])
"""
        ended = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        )
        return ended.stderr, load(path)


def test_a_build_compiles_what_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop = Workshop(tmp_path, monkeypatch)
    num_levels = len(chosen_levels())
    said, first = workshop.build("first")
    assert f"compiling {3 + num_levels} parts" in said
    assert first.load()["workshop_kernels.caller"](5) == 16
    left = tmp_path / "results" / "link"  # by a build that was killed
    left.mkdir()
    said, _ = workshop.build("same", comment="# of interest to readers only")
    assert "compiling" not in said
    assert not left.exists()
    said, second = workshop.build("second", factor=4)
    assert f"compiling {1 + num_levels} parts" in said  # the leaf, and its module's machine code
    assert second.load()["workshop_kernels.caller"](5) == 21
    said, again = workshop.build("again")
    assert "compiling" not in said
    assert again.load()["workshop_kernels.caller"](5) == 16


def test_a_kernel_may_move_to_another_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop(tmp_path, monkeypatch)
    _, before = workshop.build("before")
    assert before.load()["workshop_kernels.caller"](5) == 16
    # The same leaf elsewhere: its callers call another symbol.
    (tmp_path / "workshop_leaves.py").write_text(KERNELS.format(factor=3, comment=""))
    moved = KERNELS.replace("def leaf(", "def former(") + "\nfrom workshop_leaves import leaf\n"
    _, after = workshop.build("after", moved)
    assert after.load()["workshop_kernels.caller"](5) == 16


GROUPS = """
from typing import NamedTuple

from common.kernels.decorator import arguments, kernel
from common.kernels.types import I64Array


@arguments
class Sizes(NamedTuple):
    {member}: int
    rest: I64Array


@kernel(allocates=False)
def length(sizes: Sizes) -> int:
    return len(sizes.rest)


@kernel(allocates=False)
def total(sizes: Sizes) -> int:
    return sizes.{member} + length(sizes)
"""


def test_a_member_of_a_group_may_be_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that did not use the member kept its result, and with it the former name."""
    workshop = Workshop(tmp_path, monkeypatch)
    for member in ("count", "number"):
        _, built = workshop.build(member, GROUPS, member=member)
        total = built.load()["workshop_kernels.total"]
        assert total((5, np.zeros(2, np.int64))) == 7


def test_the_module_of_a_group_may_be_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callee kept its result, which names the module of the group: its caller found none."""
    header, group, *kernels = GROUPS.format(member="count").split("\n\n\n")
    workshop = Workshop(tmp_path, monkeypatch)
    for number, module in enumerate(("workshop_sizes", "workshop_shapes")):
        (tmp_path / f"{module}.py").write_text(f"{header}\n\n\n{group}\n")
        source = "\n\n\n".join((f"{header}\nfrom {module} import Sizes", *kernels))
        changed = source.replace("+ length(sizes)", f"+ length(sizes) + {number}")
        _, built = workshop.build(module, changed)
        total = built.load()["workshop_kernels.total"]
        assert total((5, np.zeros(2, np.int64))) == 7 + number
        (tmp_path / f"{module}.py").unlink()


def test_a_kernel_that_does_not_compile_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken_kernels.py").write_text(
        KERNELS.format(factor=3, comment="number = number.upper()")
    )
    program = """
import sys
from pathlib import Path
from common.kernels.build.builder import CannotBuild, build

try:
    build(Path(sys.argv[1]), is_checked=False, modules=["broken_kernels"])
except CannotBuild as error:
    sys.exit(str(error))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "_broken.abi3.so")],
        check=False,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "FACETD_KERNEL_BUILD": str(tmp_path / "results"),
            "PYTHONPATH": f"{tmp_path}:{ROOT}",
        },
    )
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert "does not compile broken_kernels.leaf" in last
    assert "upper" in last
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("take", "message"),
    [
        (
            lambda patch: patch.setattr(sysconfig, "get_path", lambda _: "/nowhere"),
            "there is no /nowhere/Python.h: install",
        ),
        (
            lambda patch: patch.setattr(shutil, "which", lambda _: None),
            "there is no C compiler: install gcc",
        ),
        (
            lambda patch: patch.setenv("FACETD_KERNEL_LEVELS", "x86-64-v2 x86-64-3"),
            "FACETD_KERNEL_LEVELS names x86-64-3; known are x86-64-v2, x86-64-v3, x86-64-v4",
        ),
        (
            lambda patch: patch.setenv("FACETD_KERNEL_SPEED", "fast"),
            "FACETD_KERNEL_SPEED is 'fast'; it can be 0, 1, 2 or 3",
        ),
    ],
)
def test_what_a_build_lacks_is_said_before_anything_is_compiled(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    take: Callable[[pytest.MonkeyPatch], None],
    message: str,
) -> None:
    def plan_is_made(*_: object) -> None:
        raise AssertionError

    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        *(importlib.util, "find_spec"),
        lambda name, *more: None if name == "ziglang" else find_spec(name, *more),
    )
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FACETD_KERNEL_BUILD", str(tmp_path))  # another build holds its folder
    monkeypatch.setattr(plan, "make_plan", plan_is_made)
    take(monkeypatch)
    try:
        with pytest.raises(builder.CannotBuild, match="^" + re.escape(message)):
            builder.build(tmp_path / "_none.abi3.so", is_checked=False, modules=[MODULE])
    finally:
        gc.enable()


def test_a_compiler_that_is_killed_is_one_line(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from common.kernels.build import builder

def die(name, level):
    os.kill(os.getpid(), signal.SIGKILL)

builder._run_task = die
try:
    builder.build(Path({str(tmp_path / "_none.abi3.so")!r}), is_checked=False, modules=[{MODULE!r}])
except builder.CannotBuild as error:
    print(error)
"""
    environment = {**os.environ, "FACETD_KERNEL_BUILD": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, env=environment
    )
    assert ended.stdout == "a process that compiles was killed: is there enough memory?\n", (
        ended.stderr
    )


def test_a_build_that_does_not_know_this_processor_fails(tmp_path: Path) -> None:
    """Compilers exist whose code takes every processor for an old one."""
    extension = tmp_path / "blind.py"  # loaded as the compiled one is
    extension.write_text("def level(): return None\n")
    with pytest.raises(CannotLink, match="do not find their code for this processor"):
        try_out(extension, runs_here=True)
    try_out(extension, runs_here=False)  # built for other machines


def test_an_extension_of_several_levels_takes_the_one_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our look at the processor agrees with LLVM's."""
    monkeypatch.setenv("FACETD_KERNEL_LEVELS", "x86-64-v2 x86-64-v3")
    path = tmp_path / "_levels.abi3.so"
    build(path)
    assert load(path).level() == (host_level().name or "generic")


def test_results_are_named_by_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines of two architectures may share a folder of results."""
    here = tools_key.__wrapped__()
    assert here == tools_key.__wrapped__()
    monkeypatch.setattr(platform, "machine", lambda: "another")
    assert here != tools_key.__wrapped__()


def test_results_are_named_by_the_modules_that_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result names the module of its classes: after a rename, no earlier one can be read."""
    keys = set()
    for name in ("one.py", "other.py"):
        (tmp_path / name).write_text("")
        monkeypatch.setattr(plan, "_FRONT_END_FILES", (name,))
        monkeypatch.setattr(plan, "__file__", str(tmp_path / "plan.py"))
        keys.add(tools_key.__wrapped__())
    assert len(keys) == 2


def test_a_kernel_has_room_for_its_arguments_and_results() -> None:
    arrays = "rB1" * 100 + "wq2(dd?)"
    check_slots("full", Entry("entry", arrays + "i" * (SLOTS_MAX - 206), "n"))
    with pytest.raises(CannotLink, match="full takes or returns 257 values"):
        check_slots("full", Entry("entry", arrays + "i" * (SLOTS_MAX - 205), "n"))
    check_slots("giver", Entry("entry", "", "(" + "aI1" * 85 + "q)"))
    with pytest.raises(CannotLink, match="giver takes or returns 258 values"):
        check_slots("giver", Entry("entry", "", "(" + "aI1" * 86 + ")"))
