"""Links object files and C files to the extension module, by the system's C compiler.

Where the machine has no compiler, PyPI's ziglang provides one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numba
import numpy as np

from common.kernels import source_digests
from common.kernels.build.machine_code import ProcessorLevel, host_level
from common.kernels.build.numba_front_end import Entry, read_entries, write
from common.kernels.build.plan import Plan, key_of, tools_key

SLOTS_MAX: Final = 256
"""Slots of a call's arguments, and of its results."""

_HERE: Final = Path(__file__).parent

_TABLE_HEADER: Final = """\
#include <stdint.h>
union slot {{ int64_t integer; uint64_t natural; double real; void *address; }};
typedef int32_t (*entry)(const union slot *in, union slot *out);
struct signature {{ const char *arguments, *results; const entry *entries; }};
struct kernel {{
    const char *module, *name, *documentation;
    int num_signatures;
    const struct signature *signatures;
}};
enum {{ NUM_KERNELS = {num_kernels}, NUM_LEVELS = {num_levels}, IS_CHECKED = {is_checked} }};
enum {{ SLOTS_MAX = {slots_max} }};
#define INITIALIZER PyInit_{module}
#define HIDDEN __attribute__((visibility("hidden")))
extern HIDDEN const struct kernel kernels[];
extern HIDDEN const char *const levels[];
extern HIDDEN const char sources[];
"""


class CannotLink(Exception):
    """A compiler is missing or fails; the message says which and why."""


def find_compiler(*, for_cpp: bool = False) -> list[str]:
    """Return the command of a compiler.

    Raises:
        CannotLink: no compiler is found.
    """
    chosen = os.environ.get("CXX" if for_cpp else "CC")
    for command in (chosen, *(("c++", "g++", "clang++") if for_cpp else ("cc", "gcc", "clang"))):
        if command and shutil.which(command.split()[0]):
            return command.split()
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-P", "-m", "ziglang", "c++" if for_cpp else "cc"]
    raise CannotLink(
        "there is no C++ compiler: install g++ or clang, or ziglang from PyPI"
        if for_cpp
        else "there is no C compiler: install gcc or clang, or ziglang from PyPI"
    )


def check_tools() -> None:
    """Check for all that `link` needs, before a build spends minutes on machine code.

    Raises:
        CannotLink: there is no compiler, or no header of Python.
    """
    python = sysconfig.get_path("include")
    if not Path(python, "Python.h").exists():
        raise CannotLink(
            f"there is no {python}/Python.h: install Python's headers (Debian: python3-dev), or "
            "install without compiled kernels: FACETD_KERNELS=numba pip install '.[numba]'"
        )
    find_compiler()
    find_compiler(for_cpp=True)


def link(
    plan: Plan,
    folder: Path,
    objects: Sequence[Path],
    levels: Sequence[ProcessorLevel],
    extension: Path,
    *,
    is_checked: bool,
) -> None:
    """Make the extension.

    Args:
        plan: the kernels.
        folder: where results are kept.
        objects: the object files of all modules, for all levels.
        levels: the lowest first.
        extension: file to make.
        is_checked: whether a kernel may fail at a broken contract, and not only for lack of memory.

    Raises:
        CannotLink: there is no compiler, or something does not compile.
    """
    header = _TABLE_HEADER.format(
        num_kernels=len(plan.kernels),
        num_levels=len(levels),
        is_checked=int(is_checked),
        slots_max=SLOTS_MAX,
        module=extension.name.partition(".")[0],
    )
    table = "\n".join(_table(plan, folder, levels))
    lazy_verification = (_HERE / "lazy_verification.h").read_text()
    work = folder / "link"
    shutil.rmtree(work, ignore_errors=True)  # of a build that was killed
    work.mkdir()
    try:
        (work / "table.h").write_text(header)
        (work / "table.c").write_text('#include "table.h"\n' + table)
        (work / "sources.c").write_text(_sources(plan))
        parts = [
            _object(folder, work, _HERE / "extension.c", header + lazy_verification),
            _object(folder, work, _HERE / "lazy_verification.c", lazy_verification),
            _object(folder, work, work / "table.c", header + table),
            _memory_management(folder),
            *objects,
        ]
        made = work / extension.name
        listed = work / "objects"
        listed.write_text("\n".join(str(part) for part in parts))
        _run(
            [
                *(*find_compiler(), "-shared", "-O1", "-o", str(made), str(work / "sources.c")),
                *("-Wl,--gc-sections", "-Wl,-z,now", f"@{listed}", "-lm"),
            ]
        )
        # The names of the levels sort in the order of the levels.
        try_out(made, runs_here=any(one.name <= host_level().name for one in levels))
        write(extension, made.read_bytes())
    finally:
        shutil.rmtree(work)


def _table(plan: Plan, folder: Path, levels: Sequence[ProcessorLevel]) -> Iterator[str]:
    """Yield the lines of the table of kernels."""
    from common.kernels import decorator

    rows = []
    for number, (name, kernel) in enumerate(sorted(plan.kernels.items())):
        signatures = []
        for i, entry in enumerate(read_entries(folder, kernel.front_key)):
            check_slots(name, entry)
            symbols = [f"{entry.symbol}_{level.suffix}" for level in levels]
            for symbol in symbols:
                yield f"HIDDEN int32_t {symbol}(const union slot *in, union slot *out);"
            yield f"static const entry e{number}_{i}[] = {{{', '.join(symbols)}}};"
            signatures.append(f'{{"{entry.arguments}", "{entry.results}", e{number}_{i}}}')
        yield f"static const struct signature s{number}[] = {{{', '.join(signatures)}}};"
        function = decorator.recorded[name].py_func
        texts = (kernel.module, function.__qualname__, function.__doc__ or "")
        quoted = ", ".join(_quote(text) for text in texts)
        rows.append(f"    {{{quoted}, {len(signatures)}, s{number}}},")
    yield "const struct kernel kernels[] = {"
    yield from rows
    yield "};"
    yield f"const char *const levels[] = {{{', '.join(_quote(one.name) for one in levels)}}};"


def check_slots(name: str, entry: Entry) -> None:
    """Make sure that the extension has room for the arguments and results of a kernel.

    Raises:
        CannotLink: it does not.
    """
    for codes in (entry.arguments, entry.results):
        arrays = re.findall(r"([rwa]).(\d)", codes)
        others = re.sub(r"[rwa].\d|[()n]", "", codes)
        # An array takes its address and its lengths; one that a kernel made, its owner too.
        num_slots = len(others)
        num_slots += sum(1 + int(dimensions) + (kind == "a") for kind, dimensions in arrays)
        if num_slots > SLOTS_MAX:
            raise CannotLink(f"{name} takes or returns {num_slots} values, over {SLOTS_MAX}")


def _quote(text: str) -> str:
    """Return a text as a C string literal."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return f'"{escaped}"'


def _sources(plan: Plan) -> str:
    """Return the table of the files that the kernels come from, see `source_digests`."""
    files = (*plan.files, *source_digests.native_files())
    table = {
        os.path.relpath(path, source_digests.ROOT): source_digests.digest(path) for path in files
    }
    text = source_digests.MARK.decode() + json.dumps(table)
    return f'__attribute__((visibility("hidden"))) const char sources[] = {_quote(text)};\n'


def _object(folder: Path, work: Path, source: Path, includes: str) -> Path:
    """Compile a C file, unless its object file is in the folder."""
    python = sysconfig.get_path("include")
    flags = ("-O2", "-fPIC", "-fvisibility=hidden", "-Wall")
    compiler = find_compiler()
    key = key_of(tools_key(), _kind_of(compiler), flags, source.read_bytes(), includes)
    made = folder / f"{key}.o"
    if not made.exists():
        folders = (work, _HERE, python, np.get_include(), *_numba_folders())
        found = [f"-I{one}" for one in folders]
        temporary = work / "part.o"
        _run([*compiler, *flags, *found, "-c", str(source), "-o", str(temporary)])
        temporary.rename(made)
    return made


def _memory_management(folder: Path) -> Path:
    """Compile numba's own memory management, unless its object file is in the folder."""
    source = _numba_folders()[0] / "core" / "runtime" / "nrt.cpp"
    flags = ("-O2", "-fPIC", "-std=c++11", "-fno-exceptions", "-fno-rtti")
    compiler = find_compiler(for_cpp=True)
    made = folder / f"{key_of(tools_key(), _kind_of(compiler), flags, source.read_bytes())}.o"
    if not made.exists():
        temporary = made.with_suffix(f".{os.getpid()}")
        found = [f"-I{one}" for one in (*_numba_folders(), sysconfig.get_path("include"))]
        output = ("-c", str(source), "-o", str(temporary))
        _run([*compiler, *flags, *found, *output])
        temporary.rename(made)
    return made


def _kind_of(compiler: list[str]) -> tuple[str, ...]:
    """Return what identifies a compiler, whatever its path in the build's environment."""
    return ("ziglang", compiler[-1]) if "ziglang" in compiler else tuple(compiler)


def _numba_folders() -> list[Path]:
    return [Path(numba.__file__).parent]


def try_out(extension: Path, *, runs_here: bool) -> None:
    """Load the extension in another process, to find out whether it lacks a symbol.

    Args:
        extension: the file to load.
        runs_here: whether it has code for this machine's processor, and so must select it.

    Raises:
        CannotLink: it does not load, or does not select its code.
    """
    program = f"""
import importlib.util as u
spec = u.spec_from_file_location({extension.name.partition(".")[0]!r}, {str(extension)!r})
module = u.module_from_spec(spec)
spec.loader.exec_module(module)
if module.level() is not None:
    module.load()
elif {runs_here}:
    raise SystemExit("the kernels do not find their code for this processor")
"""
    _run([sys.executable, "-P", "-c", program])


def _run(command: list[str]) -> None:
    ended: Any = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise CannotLink(f"{' '.join(command[:3])} … failed:\n{ended.stderr.strip()}")
