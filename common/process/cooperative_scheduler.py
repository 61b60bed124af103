"""A cooperative, fair scheduler of one event loop: long steps queue, short ones pass them.

An event loop reads all sockets, runs everything that has become ready, and reads again. If twenty
requests of one index become ready together, each of which takes 3 ms, whatever arrives meanwhile
waits 60 ms; and a search needs several ticks of two loops.

A long computation on the loop is a generator that yields regularly: `run` cuts it into steps. A
coroutine of many steps, any of which may be long, goes through `run_coroutine`.

So a loop spends about `TICK_SECONDS` of each tick (one iteration of the loop) on steps that may be
long. The others queue in lanes, one per index, which are served round-robin:

    lane 3   ■ ■ ■ ■ …       tick 1: 3      reads the sockets in between; what arrives for
    lane 8   ■               tick 2: 8, 3   lane 9 finds time left and is served at once
"""

from __future__ import annotations

import asyncio
import time
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Final, NamedTuple, TypeVar, cast

from common.process.request_id_context import carried

TICK_SECONDS: Final = 0.001
"""Once a tick has taken this long, further steps wait for the next one."""

ALONE_SECONDS: Final = 0.004
"""The same where no other lane has steps: a step that waits costs a tenth of a cheap search more,
and only what arrives in these milliseconds would gain from it."""

STEP_SECONDS: Final = 0.0005
"""A long computation ends its step at the first `yield` after this time."""

T = TypeVar("T")


def run_to_completion(steps: Generator[None, None, T]) -> T:
    """Run a long computation in one piece, where no event loop is held up."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


class _Step(NamedTuple):
    """A queued step."""

    function: Callable[[], Any] | None
    """None: the step is whatever the caller does after its `await`."""
    outcome: asyncio.Future[Any]


class LoopScheduler:
    """The queued steps of one event loop; used on that loop only."""

    __slots__ = ("_began", "_is_scheduled", "_waiting")

    def __init__(self) -> None:
        self._began = 0.0
        self._waiting: OrderedDict[int, deque[_Step]] = OrderedDict()
        self._is_scheduled = False

    def __len__(self) -> int:
        """Return the number of queued steps."""
        return sum(map(len, self._waiting.values()))

    def begin_tick(self) -> None:
        """Start the clock of a tick; called when the loop has just read its sockets."""
        self._began = time.perf_counter()

    def has_time(self, lane: int, *, is_alone: bool = False) -> bool:
        """Return whether a lane may run a step now: time is left, and its queue is empty.

        Args:
            lane: of the step.
            is_alone: whether no other lane has had steps recently.
        """
        seconds = ALONE_SECONDS if is_alone else TICK_SECONDS
        return lane not in self._waiting and time.perf_counter() - self._began < seconds

    def run_later(self, lane: int, step: Callable[[], T]) -> asyncio.Future[T]:
        """Run a step in a later tick, in the caller's context.

        Args:
            lane: the queue that the step joins.
            step: a plain function, no coroutine.

        Returns:
            The outcome. If it is cancelled before the step runs, the step is skipped.
        """
        return self._wait(lane, carried(step))

    async def wait_turn(self, lane: int) -> None:
        """Return when the caller may begin a long step, which ends at its next `await`.

        Works on loops on which nothing calls `begin_tick`: the first step begins the tick.
        """
        if not self._is_scheduled:
            self.begin_tick()
            self._schedule()
        if not self.has_time(lane):
            await self._wait(lane, None)

    async def run(self, lane: int, steps: Generator[None, None, T], *, is_long: bool = True) -> T:
        """Run a long computation over as many ticks as it needs.

        Args:
            lane: the queue that its steps join.
            steps: yields wherever it can be interrupted; its input must not change between steps.
            is_long: whether it may take longer than a step; if not, it runs at once, in one piece.

        Returns:
            What the generator returns.
        """
        if not is_long:
            return run_to_completion(steps)
        while True:
            await self.wait_turn(lane)
            end = time.perf_counter() + STEP_SECONDS
            try:
                while time.perf_counter() < end:
                    next(steps)
            except StopIteration as done:
                return cast(T, done.value)

    @types.coroutine
    def run_coroutine(self, lane: int, steps: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run a coroutine, queueing for every step, which lasts from one `await` to the next.

        Args:
            lane: the queue that its steps join.
            steps: a coroutine that has not started.

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
                    yield from self.wait_turn(lane).__await__()
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
            # In a separate context: it runs the steps of many requests.
            asyncio.get_running_loop().call_soon(self._run_queued, context=Context())

    def _run_queued(self) -> None:
        """Run queued steps, lane by lane, until the time is over."""
        self._is_scheduled = False
        self.begin_tick()
        while self._waiting:
            lane, steps = self._waiting.popitem(last=False)
            step = steps.popleft()
            if steps:
                self._waiting[lane] = steps
            if step.outcome.done():
                continue  # the caller has given up
            if step.function is None:
                step.outcome.set_result(None)  # the caller runs its step in the next tick
                self._schedule()
                return
            try:
                step.outcome.set_result(step.function())
            except Exception as error:
                step.outcome.set_exception(error)
            if time.perf_counter() - self._began >= TICK_SECONDS:
                break
        if self._waiting:
            self._schedule()
