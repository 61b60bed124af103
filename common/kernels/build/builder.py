"""One build of the extension: plan, compile missing parts on all processors, link.

    plan            the kernels, what they call, and the keys of their results   `plan`
    front end       each kernel, after those that it calls                       `numba_front_end`
    machine code    each module and level, after all kernels that it calls       `machine_code`
    link            one extension                                                `link`

Results are kept in the user's cache folder (or in FACETD_KERNEL_BUILD) under keys derived from
their inputs. So a change recompiles a kernel and its callers only, and a branch that was built
before takes a second.
"""

from __future__ import annotations

import fcntl
import gc
import heapq
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from common.kernels import jit_cache, source_digests

if TYPE_CHECKING:
    from common.kernels.build.machine_code import ProcessorLevel
    from common.kernels.build.numba_front_end import FrontEnd
    from common.kernels.build.plan import Kernel, Plan

KEPT_SECONDS: Final = 14 * 24 * 3600
"""How long a result is kept after the last build that used it."""

_TOLD_EVERY_SECONDS: Final = 5.0


class CannotBuild(Exception):
    """The build cannot run; the message names the missing tool or the failure."""


def build_folder() -> Path:
    """Return the folder of build results, which all checkouts of a user share."""
    chosen = os.environ.get("FACETD_KERNEL_BUILD")
    if chosen:
        return Path(chosen)
    shared = jit_cache.user_folder("build")
    if shared is not None and os.access(shared, os.W_OK):
        return shared
    return source_digests.ROOT / "build" / "kernels"


def build(
    extension: Path,
    *,
    is_checked: bool,
    modules: Sequence[str] = (),
) -> None:
    """Build the extension unless it is current.

    Args:
        extension: the file to write.
        is_checked: whether kernels check indexes and contracts.
        modules: build only their kernels, whether or not the file is current; empty: all kernels.

    Raises:
        CannotBuild: a tool is missing or fails.
    """
    folder = build_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        if not modules and source_digests.is_current(extension):
            return
        speed = os.environ.get("FACETD_KERNEL_SPEED")
        if speed not in (None, "0", "1", "2", "3"):
            raise CannotBuild(f"FACETD_KERNEL_SPEED is {speed!r}; it can be 0, 1, 2 or 3")
        # Before anything imports the decorator, which would load the extension that is being built.
        os.environ["FACETD_KERNELS"] = "record-checked" if is_checked else "record"
        gc.disable()  # the tools make millions of objects that live as long as the build
        from common.kernels.build.link import CannotLink, check_tools, link
        from common.kernels.build.machine_code import chosen_levels, object_path
        from common.kernels.build.numba_front_end import CannotCompile, CannotEnter
        from common.kernels.build.plan import CannotPlan, make_plan

        try:
            _check_levels()
            check_tools()
            levels = chosen_levels()
            plan = make_plan(
                modules
                or [source_digests.module_name(path) for path in source_digests.kernel_files()]
            )
            _Build(plan, folder, levels).run()
            objects = [
                object_path(folder, kernels, level)
                for kernels in plan.modules().values()
                for level in levels
            ]
            link(plan, folder, objects, levels, extension, is_checked=is_checked)
        except (CannotPlan, CannotEnter, CannotCompile, CannotLink) as error:
            raise CannotBuild(str(error)) from error
        except BrokenProcessPool as error:
            raise CannotBuild(
                "a process that compiles was killed: is there enough memory?"
            ) from error
        _remove_old(folder)


def _check_levels() -> None:
    """Refuse unknown levels: an extension without any level would load on no processor."""
    from common.kernels.build.machine_code import LEVELS

    for name in os.environ.get("FACETD_KERNEL_LEVELS", "").split():
        if name not in LEVELS:
            raise CannotBuild(f"FACETD_KERNEL_LEVELS names {name}; known are {', '.join(LEVELS)}")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: one build at a time."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_old(folder: Path) -> None:
    oldest = time.time() - KEPT_SECONDS
    for path in folder.iterdir():
        if path.is_file() and path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)


@dataclass(frozen=True, order=True, slots=True)
class _Task:
    """A step of a build; the smallest task runs first.

    Attributes:
        is_last: whether it makes machine code, for which no task waits.
        priority: lower, and so earlier, the more waits for a kernel, or the larger a module is: the
            last tasks are small, so that all processors finish together.
        name: of a kernel, or of a module.
        level: suffix of the processor level; empty for a kernel.
    """

    is_last: bool
    priority: int
    name: str
    level: str = ""


class _Build:
    """The remaining work of one build."""

    def __init__(self, plan: Plan, folder: Path, levels: Sequence[ProcessorLevel]) -> None:
        self._plan = plan
        self._folder = folder
        self._levels = {level.suffix: level for level in levels}
        self._modules = plan.modules()
        self._waits: dict[_Task, set[str]] = {}
        self._ready: list[_Task] = []
        self._num_workers = len(os.sched_getaffinity(0))

    def run(self) -> None:
        """Compile all missing parts."""
        self._find_tasks()
        total = len(self._waits) + len(self._ready)
        if not total:
            return
        _tell(f"compiling {total} parts of the kernels with {self._num_workers} processors")
        # Forked, so that workers need not import again what the plan has imported.
        context = multiprocessing.get_context("fork")
        started = partial(_start_worker, self._plan, self._folder, self._levels)
        with ProcessPoolExecutor(self._num_workers, context, started) as pool:
            running: dict[Future[None], _Task] = {}
            done, told_at = 0, time.monotonic()
            while self._ready or running:
                while self._ready and len(running) < self._num_workers:
                    task = heapq.heappop(self._ready)
                    running[pool.submit(_run_task, task.name, task.level)] = task
                for ended in wait(running, return_when=FIRST_COMPLETED).done:
                    ended.result()
                    done += 1
                    self._release(running.pop(ended))
                if time.monotonic() - told_at > _TOLD_EVERY_SECONDS:
                    told_at = time.monotonic()
                    _tell(f"compiled {done} of {total} parts")

    def _find_tasks(self) -> None:
        """Find the missing parts, and the tasks for which each waits."""
        from common.kernels.build.machine_code import object_path
        from common.kernels.build.numba_front_end import result_paths

        missing = set()
        for name, kernel in self._plan.kernels.items():
            paths = result_paths(self._folder, kernel.front_key)
            if not (_touch(paths.module) and _touch(paths.description)):
                missing.add(name)
        heights = self._heights()
        for name in missing:
            waits = missing & set(self._plan.kernels[name].callees)
            self._add(_Task(False, -heights[name], name), waits)
        for module, kernels in self._modules.items():
            names = self._plan.closure([one.name for one in kernels])
            waits, size = missing & set(names), sum(map(_code_bytes, names))
            for suffix, level in self._levels.items():
                if not _touch(object_path(self._folder, kernels, level)):
                    self._add(_Task(True, -size, module, suffix), waits)

    def _add(self, task: _Task, waits: set[str]) -> None:
        if waits:
            self._waits[task] = set(waits)
        else:
            heapq.heappush(self._ready, task)

    def _release(self, task: _Task) -> None:
        """Release the tasks that waited for one."""
        if task.level:
            return
        for waiting in [one for one, names in self._waits.items() if task.name in names]:
            self._waits[waiting].discard(task.name)
            if not self._waits[waiting]:
                del self._waits[waiting]
                heapq.heappush(self._ready, waiting)

    def _heights(self) -> dict[str, int]:
        """Return, by kernel, the code size of the longest chain of callers that starts with it."""
        heights: dict[str, int] = {}
        callers: dict[str, list[Kernel]] = {name: [] for name in self._plan.kernels}
        for kernel in self._plan.kernels.values():
            for callee in kernel.callees:
                callers[callee].append(kernel)

        def height(name: str) -> int:
            if name not in heights:
                above = max((height(one.name) for one in callers[name]), default=0)
                heights[name] = _code_bytes(name) + above
            return heights[name]

        for name in callers:
            height(name)
        return heights


def _code_bytes(name: str) -> int:
    """Return the size of a kernel's bytecode, an estimate of the work to compile it."""
    from common.kernels import decorator

    return len(decorator.recorded[name].py_func.__code__.co_code)


_worker: dict[str, Any] = {}


def _start_worker(plan: Plan, folder: Path, levels: dict[str, ProcessorLevel]) -> None:
    """Prepare a process of the pool."""
    _worker.update(plan=plan, folder=folder, levels=levels, modules=plan.modules())


def _run_task(name: str, level: str) -> None:
    """Run a task, in a process of the pool."""
    from common.kernels.build.machine_code import compile_module
    from common.kernels.build.numba_front_end import FrontEnd

    plan, folder = _worker["plan"], _worker["folder"]
    if "front_end" not in _worker:
        _worker["front_end"] = FrontEnd(plan, folder)
    if level:
        compile_module(plan, folder, _worker["modules"][name], _worker["levels"][level])
        return
    front_end: FrontEnd = _worker["front_end"]
    front_end.compile(name)


def _touch(path: Path) -> bool:
    """Return whether a file exists, and note that it is in use."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _tell(text: str) -> None:
    print(f"facetd: {text}", file=sys.stderr, flush=True)
