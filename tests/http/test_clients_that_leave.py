"""A read whose client leaves ends everywhere; a write, and the same read of another, do not.

The searches of these tests go on until something ends them, or until they are let go.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, cast

import pytest
import pytest_asyncio

from common.deadline import check_call
from coordinator.http.aiohttp_connections import Connection
from coordinator.http.middleware import CLIENT_LEFT
from coordinator.http.responses import reset
from coordinator.settings import Settings
from shard.partition.writer import Writer
from shard.process.slow_read_threads import Readers
from shard.read import search_cost, searcher
from tests.http.local_service import NUM_SHARDS, LocalService, local_service
from tests.http.raw_client import RawConnection, exchange
from tests.http.raw_requests import get, post, request
from tests.waiting import until

SEARCH_ROUTE: Final = "GET /{index}/search"
SLOW: Final = get("/films/search", query="slow")
MULTI: Final = post("/_search", {"searches": [{"index": "films", "query": "slow"}] * 9})
EXPORT: Final = get("/films/items", filter="year >= 0")
FREE_SECONDS: Final = 2.0
"""Within which the threads of a read are free. On an idle machine it takes 45 ms, most of which is
the wait before the client is asked."""


class SlowSearches:
    """What the shards' searches wait for, and what became of them."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.num_begun = 0
        self.num_running = 0
        self.num_answered = 0
        self.readers: set[Readers] = set()
        self._lock = threading.Lock()
        self._search = searcher.search

    def search(self, snapshot: Any, request: Any) -> Any:
        """Search, once it may go on; end as any long search does, where it checks its deadline."""
        with self._lock:
            self.num_begun += 1
            self.num_running += 1
        try:
            while not self.go_on.wait(0.002):
                check_call()
            response = self._search(snapshot, request)
            self.num_answered += 1
            return response
        finally:
            with self._lock:
                self.num_running -= 1

    @property
    def num_waiting(self) -> int:
        """Searches without a thread."""
        return sum(len(reads) for one in self.readers for reads in one._waiting.values())


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowSearches:
    searches = SlowSearches()
    make = Readers.__init__

    def note(readers: Readers) -> None:
        make(readers)
        searches.readers.add(readers)

    monkeypatch.setattr(Readers, "__init__", note)
    monkeypatch.setattr(searcher, "search", searches.search)
    monkeypatch.setattr(search_cost, "is_slow", lambda *_: True)
    return searches


@pytest_asyncio.fixture
async def service(tmp_path: Path, slow: SlowSearches) -> AsyncIterator[LocalService]:
    settings = Settings(log_level="debug")
    async with local_service(tmp_path / "data", settings) as running:
        port = running.port
        configuration: dict[str, Any] = {"aggregations": {"year": {}}}
        made = await exchange(port, post("/films/configuration", configuration))
        assert made.status == 200, made.body
        items = [{"id": i, "name": f"slow {i}", "year": 1900 + i} for i in range(50)]
        assert (await exchange(port, post("/films/items", items))).status == 200
        yield running
        slow.go_on.set()


def close(connection: RawConnection) -> None:
    """Leave as most clients do: the service sees the end of what the client sends."""
    connection.writer.close()


def break_off(connection: RawConnection) -> None:
    """Leave as a client whose system resets its connections."""
    reset(cast("asyncio.Transport", connection.writer.transport))


LEAVE: Final = pytest.mark.parametrize("leave", [close, break_off])


async def sent(service: LocalService, data: bytes) -> RawConnection:
    """Send a request on a connection of its own."""
    connection = await RawConnection.open(service.port)
    await connection.send(data)
    return connection


def counted(service: LocalService, route: str = SEARCH_ROUTE) -> dict[int, int]:
    """Return how many requests of a route ended with each status."""
    return service.services.metrics.route(route).statuses


@LEAVE
@pytest.mark.parametrize(
    ("data", "route"),
    [
        (SLOW, SEARCH_ROUTE),
        (MULTI, "POST /_search"),
        (EXPORT, "GET /{index}/items"),
    ],
    ids=["search", "several", "export"],
)
async def test_a_read_ends_on_all_shards_when_its_client_leaves(
    service: LocalService,
    slow: SlowSearches,
    leave: Callable[[RawConnection], None],
    data: bytes,
    route: str,
) -> None:
    connection = await sent(service, data)
    await until(lambda: slow.num_running >= NUM_SHARDS)

    left_at = time.perf_counter()
    leave(connection)
    await until(lambda: not slow.num_running and not slow.num_waiting)

    assert time.perf_counter() - left_at < FREE_SECONDS
    assert not slow.num_answered
    await until(lambda: counted(service, route) == {CLIENT_LEFT: 1})
    assert not service.services.metrics.requests_in_flight
    assert [shard.num_in_flight for shard in service.services.cluster.shards] == [0] * NUM_SHARDS


async def test_reads_that_wait_for_a_thread_are_dropped_at_once(
    service: LocalService, slow: SlowSearches
) -> None:
    stays = await sent(service, SLOW)
    stays_too = await sent(service, SLOW)
    await until(lambda: slow.num_running == 2 * NUM_SHARDS)
    leaves = [await sent(service, SLOW) for _ in range(10)]
    await until(lambda: slow.num_waiting == 10 * NUM_SHARDS)

    for connection in leaves:
        close(connection)
    await until(lambda: not slow.num_waiting)

    assert slow.num_begun == slow.num_running == 2 * NUM_SHARDS
    slow.go_on.set()
    assert (await stays.read()).status == (await stays_too.read()).status == 200
    for connection in (stays, stays_too):
        await connection.close()


async def test_the_same_read_of_another_client_is_answered(
    service: LocalService, slow: SlowSearches
) -> None:
    stays = await sent(service, SLOW)
    await until(lambda: slow.num_running == NUM_SHARDS)
    leaves = await sent(service, SLOW)
    await until(lambda: slow.num_running == 2 * NUM_SHARDS)

    close(leaves)
    await until(lambda: slow.num_running == NUM_SHARDS)
    slow.go_on.set()

    assert (await stays.read()).json["pagination"]["total"] == 50
    assert counted(service) == {CLIENT_LEFT: 1, 200: 1}
    await stays.close()


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_client_that_only_ends_its_sending_waits_and_gets_its_answer(
    service: LocalService, slow: SlowSearches, version: str
) -> None:
    connection = await RawConnection.open(service.port)
    await connection.send(
        request("GET", "/films/search?query=slow", version=version), half_closes=True
    )
    await until(lambda: slow.num_running == NUM_SHARDS)
    if version == "1.1":
        interim = await connection.reader.readexactly(25)
        assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"
    slow.go_on.set()

    reply = await connection.read()

    assert (reply.status, reply.json["pagination"]["total"]) == (200, 50)
    assert await connection.reader.read() == b""
    await connection.close()


async def test_a_client_of_http_1_0_gets_no_interim_response(
    service: LocalService, slow: SlowSearches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.http.aiohttp_connections.PROBE_SECONDS", 0.0)
    connection = await RawConnection.open(service.port)
    data = request("GET", "/films/search?query=slow", version="1.0")
    await connection.send(data, half_closes=True)
    await until(lambda: slow.num_running == NUM_SHARDS)
    other = await RawConnection.open(service.port)
    await other.send(SLOW, half_closes=True)
    await other.reader.readuntil(b"\r\n\r\n")  # a client of HTTP/1.1 has been asked meanwhile
    slow.go_on.set()

    assert (await connection.reader.read()).startswith(b"HTTP/1.1 200 OK\r\n")
    for one in (connection, other):
        await one.close()


async def test_nothing_is_sent_within_the_answer_to_the_request_before(
    service: LocalService, slow: SlowSearches
) -> None:
    """Pipelined: the first is answered at once, the second is slow, the third waits for it."""
    connection = await RawConnection.open(service.port)
    fast = request("GET", "/films/items/7")
    await connection.send(fast + SLOW + fast, half_closes=True)
    await until(lambda: slow.num_running == NUM_SHARDS)

    assert (await connection.read()).json["name"] == "slow 7"
    assert await connection.reader.readexactly(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    slow.go_on.set()

    assert (await connection.read()).json["pagination"]["total"] == 50
    assert (await connection.read()).json["name"] == "slow 7"
    assert await connection.reader.read() == b""
    await connection.close()


@pytest.mark.parametrize(
    "data",
    [
        request("HEAD", "/films/search?query=slow"),
        post("/films/search", {"query": "slow"}, "Expect: 100-continue"),
        EXPORT,
    ],
    ids=["head", "expect", "export"],
)
async def test_whatever_a_client_that_has_ended_its_sending_waits_for_comes_whole(
    service: LocalService, slow: SlowSearches, data: bytes
) -> None:
    connection = await RawConnection.open(service.port)
    await connection.send(data, half_closes=True)
    await until(lambda: slow.num_running >= NUM_SHARDS)
    num_asked = 0
    while num_asked < 3:
        num_asked += await connection.reader.readline() == b"HTTP/1.1 100 Continue\r\n"
    assert await connection.reader.readline() == b"\r\n"
    slow.go_on.set()

    reply = await connection.read(is_head=data.startswith(b"HEAD"))

    assert reply.status == 200
    if data == EXPORT:
        assert len(reply.body.splitlines()) == 50
    elif data.startswith(b"HEAD"):
        assert int(reply.headers["content-length"]) > 1_000
    else:
        assert reply.json["pagination"]["total"] == 50
    assert await connection.reader.read() == b""
    await connection.close()


async def test_a_write_that_was_sent_after_a_read_is_done_though_the_client_has_left(
    service: LocalService, slow: SlowSearches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were sent in one go; what the client did not stay for is the answers."""
    monkeypatch.setattr("coordinator.http.aiohttp_connections.PROBE_SECONDS", 0.0)
    connection = await sent(service, SLOW + request("PUT", "/films/items/77", b'{"name":"new"}'))
    await until(lambda: slow.num_running == NUM_SHARDS)
    close(connection)
    other = await RawConnection.open(service.port)
    await other.send(SLOW, half_closes=True)
    await other.reader.readuntil(b"\r\n\r\n")  # it has been asked, as the first one would be
    slow.go_on.set()

    await until(lambda: counted(service, "PUT /{index}/items/{id}"))
    assert counted(service, "PUT /{index}/items/{id}") == {200: 1}
    assert (await exchange(service.port, request("GET", "/films/items/77"))).status == 200
    await other.close()


@LEAVE
async def test_a_write_whose_client_leaves_is_done(
    service: LocalService,
    slow: SlowSearches,
    leave: Callable[[RawConnection], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    noticed: list[Connection] = []
    apply = Writer.apply
    notice = getattr(Connection, "eof_received" if leave is close else "connection_lost")

    def note(connection: Connection, *arguments: Any) -> Any:
        noticed.append(connection)
        return notice(connection, *arguments)

    def apply_later(writer: Writer, *arguments: Any) -> Any:
        begun.set()
        go_on.wait()
        return apply(writer, *arguments)

    monkeypatch.setattr(Writer, "apply", apply_later)
    monkeypatch.setattr(Connection, notice.__name__, note)
    connection = await sent(service, request("PUT", "/films/items/77", b'{"name":"new"}'))
    await until(begun.is_set)

    leave(connection)
    await until(lambda: noticed)
    go_on.set()

    await until(lambda: counted(service, "PUT /{index}/items/{id}"))
    assert counted(service, "PUT /{index}/items/{id}") == {200: 1}
    assert (await exchange(service.port, request("GET", "/films/items/77"))).status == 200


async def test_a_connection_that_is_closed_between_requests_cancels_nothing(
    service: LocalService, slow: SlowSearches
) -> None:
    slow.go_on.set()
    connection = await sent(service, SLOW)
    assert (await connection.read()).status == 200
    await connection.close()
    await until(lambda: not service.services.metrics.num_connections())

    assert counted(service) == {200: 1}
