"""Fair turns on an event loop: long steps wait for one another, short ones pass.

An event loop reads all sockets, runs everything that has become ready, and reads again. If twenty
requests of one index become ready together, each good for 3 ms, then whatever arrives meanwhile
waits 60 ms; and a search needs several turns of two loops.

A long computation on the loop is a generator that yields now and then: `run` cuts it into steps. A
coroutine that has many steps, of which any may be long, is `paced`.

So a loop spends about `TURN_SECONDS` a turn on steps that may be long. Further ones wait, in lanes
(one per index), and the lanes take turns:

    lane 3   ■ ■ ■ ■ …       turn 1: 3      reads the sockets in between; what arrives for
    lane 8   ■               turn 2: 8, 3   lane 9 finds time left and is served at once
"""

from __future__ import annotations

import asyncio
import time
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Final, NamedTuple, TypeVar, cast

from common.process.request_ids import carried

TURN_SECONDS: Final = 0.001
"""Once a turn of the loop has taken so long, further steps wait for the next one."""

STEP_SECONDS: Final = 0.0005
"""A long computation ends its step at the first `yield` after this time."""

T = TypeVar("T")


def completed(steps: Generator[None, None, T]) -> T:
    """Run a long computation at once, where there is no event loop to hold up."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            outcome: T = done.value
            return outcome


class _Step(NamedTuple):
    """A step that waits for its turn."""

    function: Callable[[], Any] | None
    """None: the step is what the code that awaits the outcome does next."""
    outcome: asyncio.Future[Any]


class Turns:
    """The waiting steps of one event loop; used on that loop only."""

    __slots__ = ("_began", "_is_scheduled", "_waiting")

    def __init__(self) -> None:
        self._began = 0.0
        self._waiting: OrderedDict[int, deque[_Step]] = OrderedDict()
        self._is_scheduled = False

    def __len__(self) -> int:
        """Return how many steps wait."""
        return sum(map(len, self._waiting.values()))

    def begin(self) -> None:
        """Note that a turn of the loop begins, with what has just been read."""
        self._began = time.perf_counter()

    def has_time(self, lane: int) -> bool:
        """Return whether a step of a lane may run now: time is left, and none of the lane waits."""
        return lane not in self._waiting and time.perf_counter() - self._began < TURN_SECONDS

    def later(self, lane: int, step: Callable[[], T]) -> asyncio.Future[T]:
        """Run a step in a later turn, in the caller's context.

        Args:
            lane: whose turn it takes.
            step: no coroutine.

        Returns:
            Its outcome. If that is cancelled before, the step is not run.
        """
        return self._wait(lane, carried(step))

    async def take(self, lane: int) -> None:
        """Return when the caller may begin a long step, which ends when it next waits.

        For loops on which `begin` is never called: the first step begins the turn.
        """
        if not self._is_scheduled:
            self.begin()
            self._schedule()
        if not self.has_time(lane):
            await self._wait(lane, None)

    async def run(self, lane: int, steps: Generator[None, None, T]) -> T:
        """Run a long computation in as many turns as it needs.

        Args:
            lane: whose turns it takes.
            steps: yields wherever it can be interrupted; what it needs must not change meanwhile.

        Returns:
            What the generator returns.
        """
        while True:
            await self.take(lane)
            end = time.perf_counter() + STEP_SECONDS
            try:
                while time.perf_counter() < end:
                    next(steps)
            except StopIteration as done:
                return cast(T, done.value)

    @types.coroutine
    def paced(self, lane: int, steps: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run a coroutine whose every step takes a turn: from where it has waited to the next wait.

        Args:
            lane: whose turns it takes.
            steps: a coroutine that was not begun.

        Returns:
            What the coroutine returns.
        """
        waits_for: Any = None
        has_begun = False
        try:
            while True:
                try:
                    if has_begun:
                        yield waits_for
                    has_begun = True
                    yield from self.take(lane).__await__()
                except BaseException as error:  # cancelled, here or in a step
                    waits_for = steps.throw(error)
                else:
                    waits_for = steps.send(None)
        except StopIteration as done:
            return cast(T, done.value)

    def _wait(self, lane: int, function: Callable[[], Any] | None) -> asyncio.Future[Any]:
        outcome = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(lane, deque()).append(_Step(function, outcome))
        self._schedule()
        return outcome

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            # In a context of its own: it runs the steps of many requests.
            asyncio.get_running_loop().call_soon(self._go_on, context=Context())

    def _go_on(self) -> None:
        """Run waiting steps, a lane after the other, until the time is over."""
        self._is_scheduled = False
        self.begin()
        while self._waiting:
            lane, steps = self._waiting.popitem(last=False)
            step = steps.popleft()
            if steps:
                self._waiting[lane] = steps
            if step.outcome.done():
                continue  # the caller has given up
            if step.function is None:
                step.outcome.set_result(None)  # its step runs after this, in the next turn
                self._schedule()
                return
            try:
                step.outcome.set_result(step.function())
            except Exception as error:
                step.outcome.set_exception(error)
            if time.perf_counter() - self._began >= TURN_SECONDS:
                break
        if self._waiting:
            self._schedule()
