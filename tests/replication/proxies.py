"""TCP proxies between all processes of several hosts: cut, hold, slow down what one of them says.

    host 0 ──▶ proxy ──▶ server 0        one proxy for each pair of who connects and who listens;
    host 0 ──▶ proxy ──▶ server 1        all run on one event loop, in a process of their own: what
    server 1 ▶ proxy ──▶ server 0        a test does meanwhile does not hold them up

A cut proxy accepts nothing and says nothing: what is on its connections is neither delivered nor
ended, as behind a firewall that drops packets. After it, connections are ended, so both sides learn
that they have lost something.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from types import TracebackType
from typing import Any, NamedTuple, Self

import uvloop

from tests.service import ROOT, free_port

PIECE_BYTES = 16 * 1024
END_SECONDS = 10


class Way(NamedTuple):
    """One direction between two parties, and its proxy.

    Attributes:
        number: of the proxy.
        source: who connects.
        target: who listens.
        port: of the proxy.
    """

    number: int
    source: str
    target: str
    port: int


class Proxies:
    """All proxies, as the test sees them.

    Attributes:
        all: the ways on which there is one.
    """

    def __init__(self) -> None:
        self.all: list[Way] = []
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.replication.proxies"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process is not None
        try:
            self._process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _do(self, what: str, *arguments: Any) -> None:
        """Have the process do something; return when it is done."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([what, *arguments]) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n", "the proxies have ended"

    def add(self, source: str, target: str, target_port: int) -> int:
        """Make a proxy; return the port to connect to."""
        way = Way(len(self.all), source, target, free_port())
        self._do("add", way.port, target_port)
        self.all.append(way)
        return way.port

    def of(self, name: str) -> list[Way]:
        """Return the directions from and to a party."""
        return [one for one in self.all if name in (one.source, one.target)]

    def cut(self, ways: list[Way]) -> None:
        self._do("cut", [one.number for one in ways])

    def slow(self, ways: list[Way], delay: float, bytes_per_second: int) -> None:
        """Slow down some ways.

        Args:
            ways: which.
            delay: seconds that each piece takes, in both directions.
            bytes_per_second: in each direction; 0: no limit.
        """
        self._do("slow", [one.number for one in ways], delay, bytes_per_second)

    def mend(self) -> None:
        """Let everything pass again."""
        self._do("mend")


class Proxy:
    """The proxy of one way, in the process of all of them.

    Attributes:
        delay: seconds that each piece takes, in both directions.
        bytes_per_second: in each direction; 0: no limit.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self.delay = 0.0
        self.bytes_per_second = 0
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self, port: int) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)

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
            far_reader, far = await asyncio.open_connection("127.0.0.1", self._target_port)
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


async def serve() -> None:
    """Do what the test says, line by line, until it says no more."""
    proxies: list[Proxy] = []
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    while line := await lines.readline():
        what, *arguments = json.loads(line)
        if what == "add":
            port, target_port = arguments
            proxies.append(Proxy(target_port))
            await proxies[-1].start(port)
        elif what == "mend":
            for proxy in proxies:
                proxy.mend()
        else:
            for number in arguments[0]:
                if what == "cut":
                    proxies[number].cut()
                else:
                    proxies[number].delay, proxies[number].bytes_per_second = arguments[1:]
        print("done", flush=True)


if __name__ == "__main__":
    uvloop.run(serve())
