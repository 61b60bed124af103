"""The simulated world: one random generator decides what runs next, and the time.

Everything that runs in the service, be it an event loop, a writer thread or an executor, runs here
as a *strand*: a real thread, of which exactly one has the baton. It gives the baton back at every
point where production code could be interrupted in a way that matters: between two callbacks of an
event loop, when it waits for a lock, a condition or a future, at every fault point
(`common.process.fault_injection`), before every rename and sync. Then the generator chooses among
all strands that could go on. So one seed is one schedule, the same every time, and other seeds are
other schedules.

A strand that waits says what for. Most conditions are asked at every step; where it is known what
makes one true, that wakes the strand, which is asked no more until then: most strands of a world
are idle workers.

Time is virtual: a step costs some random microseconds, and when no strand can go on it jumps to the
next moment at which one can. Ten seconds of a hanging disk cost nothing.

A *process* is a set of strands that dies at once. The strands of a dead process are woken to unwind
(`Killed`); what they do meanwhile has no effect: their connections are gone already. Tasks that
were suspended in its event loop are never resumed.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import threading
import zlib
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

STEP_SECONDS_MAX = 60e-6
STEPS_MAX = 3_000_000
TRACE_LINES = 400


class Killed(BaseException):
    """The process of this strand has been killed."""


class Stuck(Exception):
    """No strand can ever go on."""


class Process:
    """What dies at once.

    Attributes:
        name: for the trace: "shard 1".
        pid: unique in the world, never used again.
        strands: those that have not ended.
        is_dead: whether it was killed, or has ended.
        stopped_until: it gets no processor time before (SIGSTOP, swapping, a paused machine).
        steps_left: how many steps it has still to live, if its death is planned.
        on_death: called when it dies, before its strands unwind.
        awaited_by: strands that are woken when it dies, and when its last strand has ended.
        status: exit status, if it ended by itself.
    """

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        self.strands: list[Strand] = []
        self.is_dead = False
        self.stopped_until = 0.0
        self.steps_left: int | None = None
        self.on_death: list[Callable[[], None]] = []
        self.awaited_by: list[Strand] = []
        self.status: int | None = None
        self.environments: list[Any] = []


class Strand:
    """One line of execution.

    Attributes:
        number: strands of a world are in the order of their numbers.
        until: it can go on when this is true, or at `at`.
        is_woken: who makes `until` true wakes this strand.
        is_asleep: whether it is not asked before it is woken.
    """

    def __init__(
        self, world: World, process: Process, name: str, function: Callable[[], Any] | None
    ) -> None:
        self.process = process
        self.name = name
        self.number = next(world.strand_numbers)
        self.until: Callable[[], object] | None = None
        self.at = -math.inf
        self.is_woken = False
        self.is_asleep = False
        self.is_done = False
        self.encoded_name = name.encode()
        self.turn = threading.Lock()  # held, but for the moment in which the baton comes
        self.turn.acquire()
        self._world = world
        self._function = function

    def start(self) -> None:
        """Let the thread begin to wait for the baton."""
        threading.Thread(target=self._run, name=self.name, daemon=True).start()

    def _run(self) -> None:
        self.turn.acquire()
        world = self._world
        try:
            if not self.process.is_dead:
                assert self._function is not None
                self._function()
        except Killed:
            pass
        except BaseException as error:
            world.fail(error)
        self.is_done = True
        world.remove(self)
        world.hand_over()


class World:
    """Strands, clock, chance, and what happened.

    Args:
        seed: decides everything.
        is_verbose: print the trace as it comes.

    Attributes:
        now: virtual time, seconds.
        failure: the first thing that went wrong.
        expected_errors: messages that the service may log as errors.
    """

    def __init__(self, seed: int, *, is_verbose: bool = False) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = 1_000.0
        self.num_steps = 0
        self.strands: list[Strand] = []
        self.failure: BaseException | None = None
        self.expected_errors: set[str] = set()
        self.digest = 0
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)
        self._is_verbose = is_verbose
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count(1)
        self.strand_numbers = itertools.count()
        self.itself = Process("world", 1)
        self._main = Strand(self, self.itself, "main", None)
        self.strands.append(self._main)
        self._asked = [self._main]
        """Those that are not asleep, in order."""
        self.current = self._main

    # --- strands

    def new_process(self, name: str) -> Process:
        """Return a process without strands."""
        return Process(name, 100 + next(self._numbers))

    def spawn(self, process: Process, name: str, function: Callable[[], Any]) -> Strand:
        """Add a strand to a process."""
        if process.is_dead:
            raise Killed
        strand = Strand(self, process, f"{process.name}/{name}", function)
        process.strands.append(strand)
        self.strands.append(strand)
        self._asked.append(strand)
        strand.start()
        return strand

    def remove(self, strand: Strand) -> None:
        """Forget a strand, which has ended."""
        process = strand.process
        self.strands.remove(strand)
        self._asked.remove(strand)
        process.strands.remove(strand)
        if not process.strands:
            self.wake(process.awaited_by)

    def wake(self, strands: Iterable[Strand]) -> None:
        """Ask strands again whether they can go on."""
        for strand in strands:
            if strand.is_asleep:
                strand.is_asleep = False
                insort(self._asked, strand, key=attrgetter("number"))

    def wait_gone(self, *processes: Process) -> None:
        """Pause until processes are dead, and all of their strands have ended."""
        for process in processes:
            process.awaited_by.append(self.current)
        self.pause(lambda: all(one.is_dead and not one.strands for one in processes), is_woken=True)

    def pause(
        self,
        until: Callable[[], object] | None = None,
        at: float = math.inf,
        *,
        is_woken: bool = False,
    ) -> None:
        """Let others run.

        Args:
            until: go on when it is true (it must have no effects).
            at: go on at this time even so. With neither, go on at any time.
            is_woken: who makes `until` true calls `wake`, so it is not asked at every step.

        Raises:
            Killed: this process has been killed.
        """
        me = self.current
        if me.process.is_dead:
            raise Killed
        me.until = until
        me.is_woken = is_woken
        me.at = -math.inf if until is None and at == math.inf else at
        chosen = self._choose()
        if chosen is not me:
            self.current = chosen
            chosen.turn.release()
            me.turn.acquire()
        if me.process.is_dead:
            raise Killed

    def maybe_pause(self) -> None:
        """Let others run, or not: chance decides."""
        if self.random.random() < 0.5:
            self.pause()
        elif self.current.process.is_dead:
            raise Killed

    def hand_over(self) -> None:
        """Give the baton away for good (the strand has ended)."""
        self.current = self._choose()
        self.current.turn.release()

    def run(
        self, until: Callable[[], bool], seconds: float = math.inf, *, is_woken: bool = False
    ) -> bool:
        """Let the world run; called by its creator.

        Args:
            until: as of `pause`.
            seconds: at most.
            is_woken: as of `pause`.

        Returns:
            Whether it became true within that (virtual) time.

        Raises:
            Whatever went wrong in the world.
        """
        self.pause(until, self.now + seconds, is_woken=is_woken)  # goes on at a failure, too
        if self.failure is not None:
            raise self.failure
        return until()

    def call_at(self, at: float, function: Callable[[], None]) -> None:
        """Let something happen outside of all processes; it must not pause."""
        heapq.heappush(self._events, (max(at, self.now), next(self._numbers), function))

    def kill(self, process: Process, why: str) -> None:
        """End a process at once."""
        if process.is_dead:
            return
        self.note(f"{process.name} (pid {process.pid}) ends: {why}")
        process.is_dead = True
        self.wake((*process.strands, *process.awaited_by))
        for function in process.on_death:
            function()

    def end(self) -> None:
        """Kill everything, and wait until all threads have gone."""
        for process in {strand.process.pid: strand.process for strand in self.strands}.values():
            if process is not self.itself:
                process.on_death.clear()
                process.is_dead = True
        self.wake(self.strands)
        self._events.clear()
        self.failure = None
        self.pause(lambda: len(self.strands) == 1)

    def fail(self, error: BaseException) -> None:
        """Note that something is wrong; `run` will raise it."""
        if self.failure is None:
            self.note(f"FAILURE {type(error).__name__}: {error}")
            self.failure = error
            self.wake((self._main,))

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        line = f"{self.num_steps:7} {self.now - 1_000:9.4f} {self.current.name:24} {text}"
        self.digest = zlib.crc32(line.encode(), self.digest)
        self.trace.append(line)
        if self._is_verbose:
            print(line, flush=True)

    # --- who is next

    def _choose(self) -> Strand:
        try:
            return self._next_strand()
        except BaseException as error:
            self.fail(error)
            return self._main

    def _next_strand(self) -> Strand:
        if self.failure is not None:
            return self._main
        while True:
            self.num_steps += 1
            if self.num_steps > STEPS_MAX:
                raise Stuck(f"not at an end after {STEPS_MAX} steps")
            self.now += self.random.random() * STEP_SECONDS_MAX
            events = self._events
            while events and events[0][0] <= self.now:
                heapq.heappop(events)[2]()
            ready = self._ready()
            if not ready:
                self._jump()
                continue
            chosen = self.random.choice(ready)
            process = chosen.process
            self.digest = zlib.crc32(chosen.encoded_name, self.digest)
            if process.steps_left is not None and not process.is_dead:
                process.steps_left -= 1
                if process.steps_left < 0:
                    self.kill(process, "killed by chance")
            return chosen

    def _ready(self) -> list[Strand]:
        """Return the strands that can go on now; asked at every step, so it makes few calls."""
        now = self.now
        ready = []
        has_sleepers = False
        for strand in self._asked:
            process = strand.process
            if process.is_dead:
                ready.append(strand)
            elif process.stopped_until <= now:
                until = strand.until
                if now >= strand.at or (until is not None and until()):
                    ready.append(strand)
                elif strand.is_woken and strand.at == math.inf:
                    strand.is_asleep = has_sleepers = True
        if has_sleepers:
            self._asked = [strand for strand in self._asked if not strand.is_asleep]
        return ready

    def _jump(self) -> None:
        """Let time pass until something can happen."""
        moment = self._events[0][0] if self._events else math.inf
        now = self.now
        for strand in self._asked:
            at, stopped_until = strand.at, strand.process.stopped_until
            if stopped_until > now and (strand.until is not None or stopped_until > at):
                at = stopped_until  # it may be able to go on then
            if at < moment:
                moment = at
        if moment == math.inf:
            raise Stuck("; ".join(strand.name for strand in self.strands))
        self.now = max(self.now, moment)
