"""The supervisor: starts the shards and the coordinator, restarts what dies, stops all in order.

    facetd serve ── fork server ─┬─ shard 0
                                 ├─ shard 1 …
                                 ├─ coordinator    (HTTP in, RPC out)
                                 └─ reader 1 …     (with --coordinators N: N - 1 of them)

- A process that ends is restarted (`child_process`). A killed shard serves again within 2 s,
  because it is forked (`fork_server_client`). If the fork server ends, all end with it and are
  restarted.
- A process that ends with `EXIT_CANNOT_START` cannot start as things are (a wrong setting, data in
  another format): everything stops, with status 1. A shard that is moved to this host is tried
  again instead: until it is held here, its host serves without it.
- SIGTERM, SIGINT and SIGHUP (a terminal that closes) stop the coordinator first (it accepts no new
  requests and finishes the running ones), then the shards; status 0.
- Children end when this process does, however it ends: a parent-death signal and a pipe see to that
  (`common.process.parent_death`). This process takes the lock of the data directory and hands it to
  the coordinator, so it is held until both have ended.

This process imports neither numba nor any other large package.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from common import data_directory
from common.data_directory import DataDirectoryError
from common.endpoint_files import forget_endpoints
from common.errors import CommandError
from common.kernels.extension_loading import KernelsMissing
from common.process.descriptor_limit_and_table import raise_descriptor_limit
from common.process.logs import Log
from common.process.parent_death import EXIT_CANNOT_START
from common.process.python_command import let_processes_find_us
from coordinator.http.security.cors import AllowedOrigins
from coordinator.process.child_process import Child
from coordinator.process.fork_server_client import COORDINATOR, SHARD, ForkedProcess, ForkServer
from coordinator.process.inherited_coordinator_slots import CoordinatorSlot, CoordinatorSlots
from coordinator.process.kernel_preparation import prepare_kernels
from coordinator.process.port_conflict import (
    PORT_TRY_SECONDS,
    port_holder,
    port_taken,
)
from coordinator.process.refused_starts import check_start
from coordinator.process.startup_listener import StartupListener
from coordinator.replication.host.replica_file import arriving_shards, shards_to_run
from coordinator.settings import Settings

FAILED_STARTS_MAX: Final = 5
"""Once every process has failed to start this many times in a row, none ever will."""

CRASHES: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)
CRASH_ADVICE: Final = {
    "advice": "if this goes on, stop the service and run `facetd check`: it names damaged indexes"
}
"""Logged with the restart of a process that keeps crashing."""

SHARD_STOP_SECONDS: Final = 3.0
"""From SIGTERM to SIGKILL, for shards; killing them loses nothing."""

PORT_TAKEN_SECONDS: Final = data_directory.LOCK_WAIT_SECONDS
"""How long a start waits for a port that a previous process is about to release: a reader of a
killed service may take as long to end as its owner, which has the lock."""

LEAN: Final = {
    # No linear algebra here: its thread pool would only take memory, and make forking unsafe.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    # Each additional malloc arena keeps memory that one thread freed from the others.
    "MALLOC_ARENA_MAX": "2",
}
"""Environment of all processes, unless set already."""

_log = Log("supervisor")


class Supervisor:
    """All processes of one data directory.

    Args:
        settings: of the service.
        fill: called once the processes are started, to fill the service (the demo does), which is
            not ready before. If it raises, the service stops.
    """

    def __init__(
        self, settings: Settings, fill: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._settings = settings
        self._fill = fill
        self._pipe = -1
        self._filling_pipe, self._filling_end = os.pipe() if fill else (-1, -1)
        self._shards: dict[int, Child] = {}
        self._ending: dict[int, Child] = {}
        """Shards that have left this host."""
        self._coordinators: list[Child] = []
        self._fork_server: ForkServer | None = None
        self._startup_listener: StartupListener | None = None
        self._restarts: dict[Child, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._slots: CoordinatorSlots | None = None
        self._is_stopping = False
        self._status = 0

    def run(self) -> int:
        """Run until a signal arrives; return the exit status."""
        return asyncio.run(self._run())

    @property
    def _children(self) -> list[Child]:
        """All processes that are kept running."""
        return [*self._shards.values(), *self._coordinators]

    def _shard_child(self, shard: int) -> Child:
        assert self._fork_server is not None
        arguments = shard_arguments(self._settings, shard, self._pipe)
        return Child(
            f"shard {shard}", partial(self._fork_server.make, SHARD, arguments, (self._pipe,))
        )

    def _start_and_end_placed_shards(self) -> None:
        """Start and end shard processes where shards can be moved between hosts."""
        try:
            wanted = shards_to_run(self._settings)
        except DataDirectoryError as error:
            _log.warning("the shards of this host are not known", reason=str(error))
            return
        for shard in self._shards.keys() - wanted:
            child = self._ending[shard] = self._shards.pop(shard)
            timer = self._restarts.pop(child, None)
            if timer is not None:
                timer.cancel()
            child.signal(signal.SIGTERM)
            loop = asyncio.get_running_loop()
            loop.call_later(SHARD_STOP_SECONDS, child.signal, signal.SIGKILL)
        for shard in [one for one, child in self._ending.items() if not child.is_running]:
            _log.info("ended", what=self._ending.pop(shard).name)
        for shard in sorted(set(wanted) - self._shards.keys() - self._ending.keys()):
            self._shards[shard] = self._shard_child(shard)
            self._shards[shard].start()

    async def _run(self) -> int:
        """Lock the directory, start everything, watch, stop."""
        lock = self._claim_directory()
        if lock is None:
            return 1
        raise_descriptor_limit()
        for name, value in LEAN.items():
            os.environ.setdefault(name, value)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # by nohup
                loop.add_signal_handler(number, self._stop_on, number)
        # Children inherit this: they log to a terminal from its background.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        loop.add_signal_handler(signal.SIGCHLD, self._wake.set)
        let_processes_find_us()
        startup_listener = self._startup_listener = StartupListener(
            AllowedOrigins(self._settings.allowed_origins)
        )
        can_start = await self._take_port(startup_listener)
        if not can_start or not await self._prepare_kernels(startup_listener):
            startup_listener.end()
            return self._status
        if self._settings.has_placed_shards:
            loop.add_signal_handler(signal.SIGUSR1, self._wake.set)
        pipe, pipe_end = os.pipe()  # we keep the write end open for as long as we live
        self._start_children(pipe, lock)
        filling = asyncio.ensure_future(self._fill_service()) if self._fill else None
        try:
            while not self._is_stopping:
                await self._wake.wait()
                self._wake.clear()
                self._look_after_children()
        finally:
            if filling is not None:
                filling.cancel()
                await asyncio.gather(filling, return_exceptions=True)
            await self._stop_children()
            startup_listener.end()
            if self._slots is not None:
                self._slots.close()
            os.close(pipe_end)
        _log.info("stopped", status=self._status)
        return self._status

    def _claim_directory(self) -> int | None:
        """Create or check the data directory and lock it; return the lock.

        Returns:
            None if that is impossible, or the start is refused; stderr says why.
        """
        settings = self._settings
        try:
            check_start(settings)
            data_directory.create(settings.data_dir)
            lock = data_directory.acquire_lock(settings.data_dir)
            data_directory.check_manifest(settings.data_dir, settings.all_shards)
            with data_directory.start_explained(settings.data_dir):
                data_directory.read_or_create_secret(settings.data_dir)
                forget_endpoints(settings.data_dir, settings.all_shards)
        except CommandError as error:
            print(f"facetd: {error}", file=sys.stderr)
            return None
        return lock

    def _start_children(self, pipe: int, lock: int) -> None:
        """Start the shards, the coordinator and its readers, which end with our end of the pipe."""
        slots = self._slots
        self._fork_server = ForkServer(self._wake.set)
        self._pipe = pipe
        self._shards = {shard: self._shard_child(shard) for shard in shards_to_run(self._settings)}
        self._coordinators = [
            Child("coordinator", partial(self._start_coordinator, pipe, lock, slots)),
            *(
                Child(f"reader {slot.ordinal}", partial(self._start_reader, pipe, slot))
                for slot in ([] if slots is None else slots.slots[1:])
            ),
        ]
        for child in self._children:
            child.start()

    async def _take_port(self, startup_listener: StartupListener) -> bool:
        """Listen before anything is started; return False, and set the status, if that fails.

        The directory is ours, so the port belongs to another program, or to a part of a killed
        service that is about to end; only that is waited for, and holders that /proc does not tell.
        """
        settings = self._settings
        clock = asyncio.get_running_loop().time
        give_up_at = clock() + PORT_TAKEN_SECONDS
        while True:
            try:
                if settings.coordinators > 1:
                    self._slots = CoordinatorSlots(
                        settings.host, settings.port, settings.coordinators
                    )
                listeners = None if self._slots is None else self._slots.first_listeners()
                startup_listener.begin(settings.host, settings.port, listeners)
                return True
            except OSError as error:
                is_taken = error.errno == errno.EADDRINUSE
                holder = port_holder(settings.port) if is_taken else None
                is_final = not is_taken or (holder is not None and not holder.is_ending)
                if is_final or self._is_stopping or clock() >= give_up_at:
                    print(f"facetd: {port_taken(settings, error, holder)}", file=sys.stderr)
                    self._status = 1
                    return False
            await asyncio.sleep(PORT_TRY_SECONDS)

    def _start_coordinator(
        self, pipe: int, lock: int, slots: CoordinatorSlots | None
    ) -> ForkedProcess:
        """Start the coordinator; the first one takes over the port from the startup listener."""
        assert self._startup_listener is not None
        assert self._fork_server is not None
        takeover_pipe = self._startup_listener.takeover_end
        slot = None if slots is None else slots.slots[0]
        optional = (one for one in (takeover_pipe, self._filling_pipe) if one >= 0)
        inherited = (pipe, lock, *optional)
        arguments = [
            *("coordinator", "--supervisor", str(os.getpid())),
            *("--parent-pipe", str(pipe)),
            *("--lock", str(lock)),
            *(("--takeover-pipe", str(takeover_pipe)) if takeover_pipe >= 0 else ()),
            *(("--filling-pipe", str(self._filling_pipe)) if self._filling_pipe >= 0 else ()),
            *(("--slot", slot.argument()) if slot is not None else ()),
        ]
        descriptors = inherited if slot is None else (*inherited, *slot.descriptors)
        return self._fork_server.make(COORDINATOR, arguments, descriptors)

    def _start_reader(self, pipe: int, slot: CoordinatorSlot) -> ForkedProcess:
        """Start one of several coordinators that only reads."""
        assert self._fork_server is not None
        arguments = ["coordinator", "--parent-pipe", str(pipe), "--slot", slot.argument()]
        return self._fork_server.make(COORDINATOR, arguments, (pipe, *slot.descriptors))

    async def _prepare_kernels(self, startup_listener: StartupListener) -> bool:
        """Have kernels to run; return False, and set the status, if the start must be abandoned."""
        try:
            return await prepare_kernels(startup_listener, self._run_aside)
        except KernelsMissing as error:
            print(error, file=sys.stderr)
            self._status = 1
            return False

    async def _run_aside(self, command: list[str]) -> bool:
        """Run a process to its end; return False if we are told to stop first."""
        process = await asyncio.create_subprocess_exec(*command, process_group=0)
        waiting = asyncio.ensure_future(process.wait())
        while not waiting.done() and not self._is_stopping:
            self._wake.clear()
            waking = asyncio.ensure_future(self._wake.wait())
            await asyncio.wait((waiting, waking), return_when=asyncio.FIRST_COMPLETED)
            waking.cancel()
        if self._is_stopping:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await waiting
        return not self._is_stopping

    async def _fill_service(self) -> None:
        """Run `fill`; if it fails, stop the service."""
        assert self._fill is not None
        try:
            await self._fill()
        except CommandError as error:  # the service said why; its user can mend it
            print(f"facetd: {error}", file=sys.stderr)
            self._give_up()
        except Exception as error:
            _log.error("failed", cause=error)
            self._give_up()
        else:
            os.close(self._filling_end)  # which tells the coordinator

    def _stop_on(self, number: signal.Signals) -> None:
        """Start to stop."""
        _log.info("stopping", signal=signal.Signals(number).name)
        self._is_stopping = True
        self._wake.set()

    def _give_up(self) -> None:
        """Stop with a failure."""
        self._status = 1
        self._is_stopping = True
        self._wake.set()

    def _look_after_children(self) -> None:
        """Restart the processes that have ended."""
        if self._is_stopping:
            return
        assert self._fork_server is not None
        self._fork_server.poll()
        if self._settings.has_placed_shards:
            self._start_and_end_placed_shards()
        for child in self._children:
            status = child.reap()
            if status is None:
                continue
            if status == EXIT_CANNOT_START and not self._is_arriving(child):
                # It has logged the reason.
                self._give_up()
                return
            pause = child.back_off()
            if all(one.num_failed_starts >= FAILED_STARTS_MAX for one in self._children):
                print(
                    f"facetd: no process can start: {child.name} ended with status {status}, like"
                    f" all others, {child.num_failed_starts} times in a row; see what it said",
                    file=sys.stderr,
                )
                self._give_up()
                return
            if pause == 0:
                child.start()
                continue
            advice = CRASH_ADVICE if -status in CRASHES else {}
            _log.warning("restarts", what=child.name, in_seconds=pause, **advice)
            loop = asyncio.get_running_loop()
            self._restarts[child] = loop.call_later(pause, self._restart, child)

    def _is_arriving(self, child: Child) -> bool:
        """Return whether a process is that of a shard that this host does not hold yet."""
        try:
            arriving = arriving_shards(self._settings)
        except DataDirectoryError:
            return False
        return any(self._shards.get(shard) is child for shard in arriving)

    def _restart(self, child: Child) -> None:
        """Start a process after its pause."""
        del self._restarts[child]
        if not self._is_stopping:
            child.start()

    async def _stop_children(self) -> None:
        """Stop the coordinators, then the shards, then the fork server.

        Readers and owner stop at the same time: the owner answers what readers pass on until they
        have ended.
        """
        for timer in self._restarts.values():
            timer.cancel()
        if self._slots is not None:
            self._slots.stop_listening()
        await self._stop_group(self._coordinators, self._settings.stop_grace_seconds)
        shards = [*self._shards.values(), *self._ending.values()]
        await self._stop_group(shards, SHARD_STOP_SECONDS)
        if self._fork_server is not None:
            self._fork_server.kill()
            self._fork_server.close()

    async def _stop_group(self, children: list[Child], seconds: float) -> None:
        """Send SIGTERM, wait, send SIGKILL.

        One that is not created yet is not waited for: it ends with the fork server.
        """
        kill_at = asyncio.get_running_loop().time() + seconds
        for child in children:
            child.signal(signal.SIGTERM)
        while any(child.is_made for child in children):
            self._wake.clear()
            try:
                async with asyncio.timeout_at(kill_at):
                    await self._wake.wait()
            except TimeoutError:
                break
            assert self._fork_server is not None
            self._fork_server.poll()
        for child in children:
            if child.is_made:
                _log.warning("killed", what=child.name)
                child.signal(signal.SIGKILL)
            elif child.process is not None and not child.is_running:
                _log.info("ended", what=child.name, status=child.process.poll())


def shard_arguments(settings: Settings, shard: int, pipe: int) -> list[str]:
    """Return the arguments of a shard process; settings are passed in the environment."""
    return [
        *("--shard-id", str(shard)),
        *("--shards", str(settings.all_shards)),
        *("--data-dir", str(settings.data_dir)),
        *("--port", "0"),
        *("--parent-pipe", str(pipe)),
        *(("--replica",) if settings.log_url else ()),
    ]
