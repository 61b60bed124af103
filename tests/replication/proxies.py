"""TCP proxies between all processes of several hosts: cut, hold, slow down what one of them says.

    host 0 ──▶ proxy ──▶ server 0        one proxy for each pair of who connects and who listens;
    host 0 ──▶ proxy ──▶ server 1        all run in one thread, on an event loop of their own
    server 1 ▶ proxy ──▶ server 0

A cut proxy accepts nothing and says nothing: what is on its connections is neither delivered nor
ended, as behind a firewall that drops packets. After it, connections are ended, so both sides learn
that they have lost something.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType
from typing import Any, Self

from tests.service import free_port

PIECE_BYTES = 16 * 1024


class Proxy:
    """One direction between two parties.

    Attributes:
        port: to connect to.
        delay: seconds that each piece takes, in both directions.
        bytes_per_second: in each direction; 0: no limit.
    """

    def __init__(self, source: str, target: str, target_port: int) -> None:
        self.source, self.target, self.target_port = source, target, target_port
        self.port = free_port()
        self.delay = 0.0
        self.bytes_per_second = 0
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        self.end_connections()

    def cut(self) -> None:
        self._is_open.clear()

    def mend(self) -> None:
        """Let everything pass again, over new connections if this proxy was cut."""
        if not self._is_open.is_set():
            self.end_connections()
        self._is_open.set()
        self.delay = 0.0
        self.bytes_per_second = 0

    def end_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        far: asyncio.StreamWriter | None = None
        try:
            await self._is_open.wait()
            far_reader, far = await asyncio.open_connection("127.0.0.1", self.target_port)
            self._writers.add(far)
            ways = [
                asyncio.create_task(self._carry(reader, far)),
                asyncio.create_task(self._carry(far_reader, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for one in (writer, far):
                if one is not None:
                    self._writers.discard(one)
                    one.transport.abort()
            self._tasks.discard(task)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(PIECE_BYTES):
                if self.delay:
                    await asyncio.sleep(self.delay)
                if self.bytes_per_second:
                    await asyncio.sleep(len(piece) / self.bytes_per_second)
                await self._is_open.wait()
                writer.write(piece)
                await writer.drain()


class Proxies:
    """All proxies, on a thread."""

    def __init__(self) -> None:
        self.all: list[Proxy] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _stop(self) -> None:
        for proxy in self.all:
            await proxy.stop()
        await asyncio.sleep(0.05)

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def add(self, source: str, target: str, target_port: int) -> int:
        """Make a proxy; return the port to connect to."""
        proxy = Proxy(source, target, target_port)
        self._do(proxy.start())
        self.all.append(proxy)
        return proxy.port

    def of(self, name: str) -> list[Proxy]:
        """Return the directions from and to a party."""
        return [one for one in self.all if name in (one.source, one.target)]

    def cut(self, proxies: list[Proxy]) -> None:
        for proxy in proxies:
            self._loop.call_soon_threadsafe(proxy.cut)

    def slow(self, proxies: list[Proxy], delay: float, bytes_per_second: int) -> None:
        for proxy in proxies:
            proxy.delay, proxy.bytes_per_second = delay, bytes_per_second

    def mend(self) -> None:
        for proxy in self.all:
            self._loop.call_soon_threadsafe(proxy.mend)
