"""Threads, locks, conditions, executors and futures of the simulated world.

They have the interface of `threading` and `concurrent.futures` as far as the service uses it; who
has to wait gives the baton back to the world.
"""

from __future__ import annotations

import concurrent.futures
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from tests.simulation.world import Killed, Process, Strand, World


class Lock:
    """`threading.Lock`; reentrant if it is asked for."""

    def __init__(self, world: World, *, is_reentrant: bool = False) -> None:
        self._world = world
        self._is_reentrant = is_reentrant
        self._holder: Strand | None = None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        world = self._world
        me = world.current
        if self._is_reentrant and self._holder is me:
            self._depth += 1
            return True
        world.maybe_pause()
        if self._holder is not None:
            if not blocking:
                return False
            at = world.now + timeout if timeout >= 0 else math.inf
            world.pause(lambda: self._holder is None, at)
            if self._holder is not None:
                return False
        self._holder = me
        self._depth = 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._holder = None

    def locked(self) -> bool:
        return self._holder is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.release()


class Condition:
    """`threading.Condition`."""

    def __init__(self, world: World, lock: Lock | None = None) -> None:
        self._world = world
        self._lock = Lock(world, is_reentrant=True) if lock is None else lock
        self._waiting: list[Strand] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        world = self._world
        me = world.current
        self._waiting.append(me)
        self._lock.release()
        try:
            at = math.inf if timeout is None else world.now + timeout
            world.pause(lambda: me not in self._waiting, at, is_woken=True)
        finally:
            is_notified = me not in self._waiting
            if not is_notified:
                self._waiting.remove(me)
            self._lock.acquire()
        return is_notified

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        end = math.inf if timeout is None else self._world.now + timeout
        while not predicate():
            if self._world.now >= end:
                return False
            self.wait(None if end == math.inf else end - self._world.now)
        return True

    def notify(self, n: int = 1) -> None:
        self._world.wake(self._waiting[:n])
        self._waiting = self._waiting[n:]

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class Thread:
    """`threading.Thread`: a strand of the process that makes it."""

    def __init__(
        self,
        world: World,
        target: Callable[..., Any],
        name: str = "thread",
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        daemon: bool | None = None,
    ) -> None:
        self._world = world
        self._process = world.current.process
        self._function = lambda: target(*args, **(kwargs or {}))
        self._strand: Strand | None = None
        self.name = name

    def start(self) -> None:
        self._strand = self._world.spawn(self._process, self.name, self._function)

    def is_alive(self) -> bool:
        return self._strand is not None and not self._strand.is_done

    def join(self, timeout: float | None = None) -> None:
        at = math.inf if timeout is None else self._world.now + timeout
        self._world.pause(lambda: not self.is_alive(), at)


class Outcome(concurrent.futures.Future[Any]):
    """A future whose waiter lets others run."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def result(self, timeout: float | None = None) -> Any:
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        if not self.done():
            self._world.pause(self.done, math.inf if timeout is None else self._world.now + timeout)


class Executor:
    """`ThreadPool`."""

    def __init__(
        self,
        world: World,
        process: Process,
        max_workers: int | None = None,
        thread_name_prefix: str = "worker",
        initializer: Callable[..., object] | None = None,
        initargs: Sequence[Any] = (),
    ) -> None:
        self._world = world
        self._process = process
        self._max_workers = max_workers or 4
        self._name = thread_name_prefix
        self._begin = None if initializer is None else partial(initializer, *initargs)
        self._waiting: deque[tuple[Outcome, Callable[[], Any]]] = deque()
        self._workers: list[Strand] = []
        self._num_idle = 0
        self._is_shut = False

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Outcome:
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        outcome = Outcome(self._world)
        self._waiting.append((outcome, lambda: function(*args, **kwargs)))
        self._world.wake(self._workers)
        if len(self._waiting) > self._num_idle and len(self._workers) < self._max_workers:
            name = f"{self._name}-{len(self._workers)}"
            self._workers.append(self._world.spawn(self._process, name, self._work))
        return outcome

    def start_thread(self) -> None:
        self.submit(lambda: None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._is_shut = True
        self._world.wake(self._workers)
        if wait and not all(worker.is_done for worker in self._workers):
            self._world.pause(lambda: all(worker.is_done for worker in self._workers))

    def _work(self) -> None:
        if self._begin is not None:
            self._begin()
        while True:
            self._num_idle += 1
            self._world.pause(lambda: self._waiting or self._is_shut, is_woken=True)
            self._num_idle -= 1
            if not self._waiting:
                return
            outcome, function = self._waiting.popleft()
            if not outcome.set_running_or_notify_cancel():
                continue
            try:
                result = function()
            except Killed:
                raise
            except BaseException as error:
                outcome.set_exception(error)
            else:
                outcome.set_result(result)
