"""The service in a simulated world: a coordinator, shards, and a supervisor.

The processes run the same `_run` and `_serve` that the real ones run, on a real directory (in
memory, if there is one). A process that was killed leaves its directory as it is; LMDB drops what
was not committed.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import coordinator.process.coordinator_process
import coordinator.routes.search
import shard.process.shard_process
from common import data_directory
from common.process.parent_death import EXIT_STORAGE_FAILED
from common.shard_settings import ShardSettings
from coordinator.cluster.shard_copies import shown_shards
from coordinator.process.coordinator_process import Inheritance
from coordinator.replication.host.replica_file import shards_to_run
from coordinator.settings import Settings
from tests.simulation.event_loop import EventLoop
from tests.simulation.network import Network
from tests.simulation.seams import standing_in
from tests.simulation.world import Process, World

PORT = 3_000
START_SECONDS_MAX = 1.0
LOOK_SECONDS = 0.3
UNWINDINGS_MAX = 20
_MEMORY = Path("/dev/shm")
_FOLDER = re.compile(r"facetd-simulation-\w+")
"""A directory; its name differs from run to run, while a seed is one trace."""

HARMLESS = ("shard hangs and is killed",)
"""Errors that the service logs when the world is as bad as that; any other is a failure."""


class Machine:
    """Everything that runs on the simulated host.

    Args:
        world: decides.
        num_shards: how many.
        shard_settings: small ones, so that files and merges come early.
        result_cache_bytes: of the coordinator.
        beside: another host of the same world, if this is not the first one.
        log_url: of the log that several hosts share; empty: this host is alone.
        shards_here: ordinals of the shards that this host holds; empty: all.

    Attributes:
        is_down: nothing of this host is started again before it is False.
        slots: of the processes that run here: ordinals of shards, and -1, the coordinator.
    """

    def __init__(
        self,
        world: World,
        num_shards: int,
        shard_settings: ShardSettings,
        result_cache_bytes: int,
        *,
        beside: Machine | None = None,
        log_url: str = "",
        shards_here: tuple[int, ...] = (),
    ) -> None:
        self.world = world
        self.num_shards = num_shards
        self.network: Network = Network(world) if beside is None else beside.network
        self.number: int = 0 if beside is None else beside.number + 1
        folder = str(_MEMORY) if os.access(_MEMORY, os.W_OK) else None
        self.data = Path(tempfile.mkdtemp(prefix="facetd-simulation-", dir=folder))
        self.settings = Settings(
            data_dir=self.data,
            shards=num_shards,
            port=PORT + self.number,
            result_cache_bytes=result_cache_bytes,
            log_url=log_url,
            log_create=True,
            log_compare_seconds=3.0,
            shards_here=shown_shards(shards_here),
            shards_of=num_shards if shards_here else 0,
            rpc_listen=f"127.0.0.1:{PORT + 100 + self.number}",
        )
        self.slots = {-1, *self.settings.own_shards}
        self.is_down = False
        self._processes: dict[int, Process] = {}
        self.loops: list[EventLoop] = []
        self._shard_settings = shard_settings
        self.deaths: list[Process] = []
        self._everybody: dict[int, Process] = {}
        self._beside = beside
        if beside is not None:
            self.loops, self.deaths = beside.loops, beside.deaths
            self._everybody = beside._everybody
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._beside is None:
            self._stack.enter_context(standing_in(self.world, self._kill_pid))
            self._stack.enter_context(_listening_to_logs(self.world))
        self._stack.callback(shutil.rmtree, self.data, ignore_errors=True)
        data_directory.create(self.data)
        data_directory.read_or_create_secret(self.data)
        for number in self.settings.own_shards:
            self._processes[number] = self._start_shard(number)
        self._processes[-1] = self._start_coordinator()
        keepers = self.world.new_process(f"keeper{self._suffix}")
        for slot in range(-1, self.num_shards):
            self.world.spawn(keepers, str(slot), partial(self._keep, slot))
        if self.settings.has_placed_shards:
            self.world.spawn(keepers, "supervisor", self._supervise)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._beside is not None:
            self._beside._stack.push(self._stack.pop_all())  # the first one ends the world
            return
        self.world.end()
        for process in self._everybody.values():
            self._close_environments(process)
        with _deaf_to_the_dead():
            # On a thread without event loop: what unwinds must not find one to start tasks on.
            thread = threading.Thread(target=_let_go_of_tasks, args=(self.loops,))
            thread.start()
            thread.join()
            self.loops.clear()
            gc.collect()
        self._stack.close()

    # --- processes

    @property
    def shards(self) -> list[Process]:
        """Processes of shards, by ordinal."""
        return [self._processes[one] for one in sorted(self.slots & self._processes.keys() - {-1})]

    @property
    def coordinator(self) -> Process:
        return self._processes[-1]

    def start(
        self, name: str, main: Callable[[], Coroutine[Any, Any, Any]]
    ) -> tuple[Process, EventLoop]:
        """Start a process with an event loop."""
        process = self.world.new_process(name)
        self._everybody[process.pid] = process
        loop = EventLoop(self.world, process, self.network)
        self.loops.append(loop)
        process.on_death.append(lambda: self.network.bury(process))

        def run() -> None:
            process.status = loop.run(main())
            self.world.kill(process, f"ended with status {process.status}")

        self.world.spawn(process, "loop", run)
        return process, loop

    @property
    def _suffix(self) -> str:
        return f" of {self.number}" if self.settings.log_url else ""

    def _start_shard(self, number: int) -> Process:
        identity = shard.process.shard_process.Identity(
            self.data, number, self.num_shards, "127.0.0.1", 0, parent_pipe=None
        )
        folder = data_directory.shard_folder(self.data, number)
        folder.mkdir(mode=0o700, exist_ok=True)
        settings = self._shard_settings
        return self._watched(
            f"shard {number}{self._suffix}",
            lambda: shard.process.shard_process._serve(identity, settings, folder),
        )

    def _start_coordinator(self) -> Process:
        lock = os.open(self.data, os.O_RDONLY)
        self._stack.callback(os.close, lock)
        return self._watched(
            f"coordinator{self._suffix}",
            lambda: coordinator.process.coordinator_process._run(self.settings, Inheritance(lock)),
        )

    def _watched(self, name: str, main: Callable[[], Coroutine[Any, Any, Any]]) -> Process:
        """Start a process of the service."""
        process, _ = self.start(name, main)
        process.on_death.append(lambda: self.deaths.append(process))
        return process

    def loop_of(self, process: Process) -> EventLoop:
        return next(loop for loop in reversed(self.loops) if loop.process is process)

    def _keep(self, slot: int) -> None:
        """Start a shard (or the coordinator, -1) again whenever it has ended."""
        world = self.world
        while True:
            process = self._processes.get(slot)
            if process is not None:
                world.wait_gone(process)
                if process.status not in (None, 0, EXIT_STORAGE_FAILED):
                    raise AssertionError(f"{process.name} ended with status {process.status}")
                self._close_environments(process)
            world.pause(at=world.now + world.random.uniform(0, START_SECONDS_MAX))
            if self.is_down or slot not in self.slots:
                world.pause(lambda: not self.is_down and slot in self.slots)
            started = self._start_coordinator() if slot < 0 else self._start_shard(slot)
            self._processes[slot] = started
            world.note(f"started {started.name} again")

    def _supervise(self) -> None:
        """Start and end processes of shards as replica.json says, while the host runs."""
        world = self.world
        while True:
            world.pause(at=world.now + world.random.uniform(0, 2 * LOOK_SECONDS))
            if self.is_down:
                continue
            wanted = {-1, *shards_to_run(self.settings)}
            gone = self.slots - wanted
            self.slots = wanted
            for slot in gone & self._processes.keys():
                process = self._processes[slot]
                world.note(f"SIGTERM to {process.name}, which has left")
                if not process.is_dead:
                    self.loop_of(process).terminate()

    def restart(self, why: str, change: Callable[[], Any]) -> None:
        """End all processes of this host, change something, and start again; called on a strand.

        Args:
            why: for the trace.
            change: called while nothing of the host runs; returns a coroutine to be run then.
        """
        world = self.world
        self.is_down = True
        processes = list(self._processes.values())
        for process in processes:
            world.kill(process, why)
        world.wait_gone(*processes)
        for process in processes:
            self._close_environments(process)
        first = self.start(f"joiner{self._suffix}", change)[0]
        world.wait_gone(first)
        if self.settings.has_placed_shards:
            self.slots = {-1, *shards_to_run(self.settings)}
        self.is_down = False

    def _close_environments(self, process: Process) -> None:
        for environment in process.environments:
            environment.close()
        process.environments.clear()

    def _kill_pid(self, pid: int, number: int) -> None:
        if number:
            self.world.kill(self._everybody[pid], f"signal {number}")
        elif pid not in self._everybody or self._everybody[pid].is_dead:
            raise ProcessLookupError(pid)


class _LogHandler(logging.Handler):
    """Puts log lines into the trace; errors end the simulation."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        world = self._world
        if world.current.process.is_dead:
            return
        fields = getattr(record, "fields", {})
        line = f"log: {record.levelname} {record.getMessage()} {fields}"
        world.note(_FOLDER.sub("facetd-simulation", line))
        harmless = {*HARMLESS, *world.expected_errors}
        if record.levelno >= logging.ERROR and record.getMessage() not in harmless:
            cause = record.exc_info
            if isinstance(cause, tuple) and cause[1] is not None:
                world.fail(cause[1])
            else:
                world.fail(AssertionError(f"{record.getMessage()} {fields}"))


@contextmanager
def _deaf_to_the_dead() -> Iterator[None]:
    """Silence what a killed process unwinds: logs, and errors that are never retrieved."""
    hook = sys.unraisablehook
    logging.disable()
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.unraisablehook = hook
        logging.disable(logging.NOTSET)


class _listening_to_logs:  # noqa: N801 - used like a function
    """Receives what the service logs, instead of stderr."""

    def __init__(self, world: World) -> None:
        self._handler = _LogHandler(world)
        self._logger = logging.getLogger("facetd")

    def __enter__(self) -> None:
        self._former = (self._logger.level, self._logger.propagate)
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False
        self._logger.addHandler(self._handler)

    def __exit__(self, *exception: object) -> None:
        self._logger.removeHandler(self._handler)
        self._logger.level, self._logger.propagate = self._former


def _let_go_of_tasks(loops: list[EventLoop]) -> None:
    """End what was suspended when its process died; it has no effects any more."""
    for loop in loops:
        for task in loop.tasks:
            coroutine = task.get_coro()
            for _ in range(UNWINDINGS_MAX):
                try:
                    coroutine.close()
                    break
                except BaseException:
                    continue  # it waits again while it unwinds
            task._log_destroy_pending = False
        loop.tasks.clear()
        loop.close()
