"""The event loop of a simulated process: asyncio's own, except its clock, sockets and threads."""

from __future__ import annotations

import asyncio
import heapq
import math
import signal
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from tests.simulation.primitives import Executor
from tests.simulation.world import Killed, Process, World

if TYPE_CHECKING:
    from tests.simulation.network import BoundSocket, Listener, Network


class EventLoop(asyncio.BaseEventLoop):
    """Runs callbacks in the order in which they were scheduled, one a step of the world.

    So within one process the order is asyncio's. What comes from outside (bytes, results of
    threads, timers) comes at moments that chance decides.
    """

    _ready: Any
    _scheduled: Any

    def __init__(self, world: World, process: Process, network: Network) -> None:
        super().__init__()
        self.process = process
        self.signal_handlers: dict[int, Callable[[], Any]] = {}
        self.tasks: list[Any] = []
        """All of them: a task that is suspended when its process dies must not unwind."""
        self._world = world
        self._network = network
        self._threads = Executor(world, process, 4, "thread")

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """Run until `main` is done; called on the strand of this loop."""
        asyncio._set_running_loop(self)
        try:
            task = self.create_task(main)
            while not task.done():
                self._run_one()
            return task.result()
        finally:
            asyncio._set_running_loop(None)

    def _run_one(self) -> None:
        """Wait for a callback, and run it."""
        self._world.pause(self._ready.__len__, self._next_timer())
        timers = self._scheduled
        while timers and timers[0].when() <= self._world.now:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            self._ready.append(timer)
        if self._ready:
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _next_timer(self) -> float:
        timers = self._scheduled
        while timers and timers[0].cancelled():
            heapq.heappop(timers)._scheduled = False
        return timers[0].when() if timers else math.inf

    # --- what asyncio asks of a loop

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Any:
        task = super().create_task(coro, name=name, context=context)
        self.tasks.append(task)
        return task

    def time(self) -> float:
        return self._world.now

    def _write_to_self(self) -> None:
        """Do nothing: the world looks at the queue itself."""

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: cancelled timers go when they are due."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self.process.is_dead or isinstance(error, Killed):
            return
        if error is None:
            error = AssertionError(context.get("message"))
        self._world.note(f"unhandled: {context.get('message')}")
        self._world.fail(error)

    def set_default_executor(self, executor: Any) -> None:
        self._threads = executor

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Any, *args: Any
    ) -> Any:
        chosen = self._threads if executor is None else executor
        return asyncio.wrap_future(chosen.submit(func, *args), loop=self)

    def add_signal_handler(  # type: ignore[override]
        self, sig: int, callback: Any, *args: Any
    ) -> None:
        self.signal_handlers[sig] = lambda: callback(*args)

    def terminate(self) -> None:
        """Deliver SIGTERM."""
        handler = self.signal_handlers.get(signal.SIGTERM)
        if handler is not None:
            self.call_soon_threadsafe(handler)

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Any,
        host: Any = None,
        port: Any = None,
        *,
        sock: BoundSocket | None = None,
        **options: Any,
    ) -> Listener:
        return self._network.listen(self, protocol_factory, port if sock is None else sock.port)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> tuple[Any, Any]:
        return await self._network.connect(self, protocol_factory, port)
