"""Connecting to the log ends in time, closing ends it, a frozen server is left for another one."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import time
from collections.abc import AsyncIterator, Coroutine
from types import SimpleNamespace
from typing import Any

import nats.aio.client
import pytest
from nats.aio.client import Client
from nats.errors import OutboundBufferLimitError

from coordinator.replication.following import gapless_message_reader
from coordinator.replication.log import nats_connection
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.log.nats_connection import LogConnection

SECONDS = 1.2
"""For which one server is tried, with the shorter CONNECT_SECONDS of the tests."""


async def test_servers_that_refuse_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_connection, "CONNECT_SECONDS", 0.2)
    assert await gives_up() < SECONDS + 2


async def test_the_error_does_not_tell_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    async def give_up(_: float, connecting: Coroutine[Any, Any, None]) -> None:
        connecting.close()
        raise TimeoutError

    monkeypatch.setattr(nats_connection, "_within", give_up)
    with pytest.raises(LogAway) as caught:
        await LogConnection("nats://facetd:secret@a:4222,nats://facetd:secret@b:4222").connect()

    assert str(caught.value) == "no server of the log answers: nats://a:4222, nats://b:4222"


async def test_a_refusal_in_the_moment_of_giving_up_does_not_prolong_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nats_connection, "CONNECT_SECONDS", 0.2)
    begun_at = time.monotonic()

    async def refuse(**_: Any) -> Any:
        left = begun_at + SECONDS - time.monotonic()
        if 0 < left < 0.15:
            await asyncio.sleep(left / 2)
            time.sleep(0.2)  # noqa: ASYNC251 - the process has no core: then all is due at once
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio, "open_connection", refuse)
    assert await gives_up() < SECONDS + 2


async def test_a_closed_connection_reconnects_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = 0
    tries = asyncio.Event()

    async def select(client: Client) -> None:
        """Try server after server, and lose some cancellations."""
        nonlocal losses
        while True:
            tries.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                losses += 1
                if losses > 3:
                    raise

    server = NatsServer()
    async with server.listening():
        connection = LogConnection(f"nats://127.0.0.1:{server.port}")
        await connection.connect()
        monkeypatch.setattr(Client, "_select_next_server", select)
    async with asyncio.timeout(10):
        await tries.wait()
    reconnecting = connection._client._reconnection_task  # type: ignore[union-attr]
    assert reconnecting is not None
    await connection.close()
    assert reconnecting.done()
    assert losses > 3


async def gives_up() -> float:
    """Return after how many seconds a connection is given up."""
    begun_at = time.monotonic()
    connecting = asyncio.ensure_future(LogConnection("nats://127.0.0.1:9").connect())
    await asyncio.wait([connecting], timeout=8)
    seconds = time.monotonic() - begun_at
    is_done = connecting.done()
    connecting.cancel()
    with pytest.raises(LogAway):
        await connecting
    assert is_done
    return seconds


class NatsServer:
    """As much of a server as a client needs to connect; may freeze."""

    def __init__(self) -> None:
        self.connected = asyncio.Event()
        self.is_frozen = False
        self.num_connections = 0
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Accept connections for the body of a `with`."""

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._tasks.add(asyncio.create_task(self._serve(reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0.01)  # until both sides have closed their sockets

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected.set()
        self.num_connections += 1
        writer.write(b'INFO {"server_id": "x", "version": "2.12.2", "headers": true}\r\n')
        try:
            while not self.is_frozen and (line := await reader.readline()):
                if line.startswith(b"PING"):
                    writer.write(b"PONG\r\n")
            await asyncio.sleep(60)
        finally:
            writer.transport.abort()


class _Client:
    """A client whose server answers over a socket, as that of NATS does."""

    is_connected = True

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def read(self) -> None:
        reader, writer = await asyncio.open_connection(sock=self._connection)
        try:
            if line := await reader.readline():
                self._answer.set_result(line)
        finally:
            writer.transport.abort()

    async def request(
        self,
        subject: str,
        content: bytes,
        timeout: float,  # noqa: ASYNC109 - as nats-py has it
        headers: Any,
    ) -> bytes:
        return await asyncio.wait_for(asyncio.shield(self._answer), timeout)


@pytest.mark.parametrize("is_repeated", [False, True])
@pytest.mark.parametrize("is_answered", [False, True])
async def test_an_answer_that_came_while_the_process_had_no_core_counts(
    is_answered: bool, is_repeated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        client = _Client(ours)
        reading = asyncio.create_task(client.read())
        connection = LogConnection("nats://127.0.0.1:9")
        connection._client = client  # type: ignore[assignment]
        ask = connection.ask_repeatedly if is_repeated else connection.ask
        asking: asyncio.Task[Any] = asyncio.create_task(ask("x", b"", 0.05))
        await asyncio.sleep(0.01)
        selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        select = selector.select

        def stand_still(seconds: float | None) -> Any:
            monkeypatch.undo()
            if is_answered:
                theirs.send(b"here it is\n")
            time.sleep(0.15)
            return select(0)

        monkeypatch.setattr(selector, "select", stand_still)
        if is_answered:
            assert await asking == b"here it is\n"
        else:
            with pytest.raises(LogAway):
                await asking
    await reading
    await asyncio.sleep(0.01)  # until our socket is closed


class _LostClient:
    """A client that has just lost its connection, with all that it may keep unsent.

    Attributes:
        arrived: takes what a server sends.
    """

    is_connected = True

    def __init__(self) -> None:
        self.arrived: Any = None

    def new_inbox(self) -> str:
        return "inbox"

    async def subscribe(self, subject: str, cb: Any, **_: Any) -> Any:
        self.arrived = cb
        return SimpleNamespace(unsubscribe=asyncio.Event().wait)

    async def publish(self, subject: str, content: bytes = b"", reply: str = "") -> None:
        raise OutboundBufferLimitError


async def test_what_a_lost_connection_cannot_send_is_an_error_of_the_log() -> None:
    """Any other error would end the task that follows the log, or watches it."""
    connection = LogConnection("nats://127.0.0.1:9")
    connection._client = _LostClient()  # type: ignore[assignment]
    with pytest.raises(LogAway):
        await connection.tell("x", b"")

    client = _LostClient()
    consumer = gapless_message_reader._Consumer(client)  # type: ignore[arg-type]
    await consumer.subscribe()
    flow_control: Any = SimpleNamespace(headers={"Status": "100"}, reply="go on", data=b"")
    with pytest.raises(LogAway):
        await consumer.entry_of(flow_control)


async def test_requests_that_fail_together_leave_no_error_to_the_event_loop() -> None:
    class Client:
        is_connected = True

        async def request(self, *_: Any, **__: Any) -> None:
            await asyncio.Event().wait()

    connection = LogConnection("nats://127.0.0.1:9")
    connection._client = Client()  # type: ignore[assignment]
    unhandled: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unhandled.append(context))
    asking = asyncio.create_task(connection.ask_repeatedly("x", b"", 5.0))
    while len(connection._asking) < 3:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)

    await connection._give_up_asking()

    with pytest.raises(LogAway):
        await asking
    await asyncio.sleep(0)
    del asking
    gc.collect()
    assert unhandled == []


@pytest.mark.parametrize("num_unsent", [0, 12])
async def test_a_frozen_server_is_left_whatever_is_unsent(
    num_unsent: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="facetd")
    # The worst of the orders in which the client would try its servers again: the lost one first.
    monkeypatch.setattr(nats.aio.client, "shuffle", lambda servers: servers.reverse())
    one, two = NatsServer(), NatsServer()
    async with one.listening(), two.listening():
        connection = LogConnection(f"nats://127.0.0.1:{one.port},127.0.0.1:{two.port}")
        await connection.connect()
        frozen, other = (one, two) if one.connected.is_set() else (two, one)
        frozen.is_frozen = True
        content = bytes(1_000_000)
        asking = [
            asyncio.create_task(connection.request("x", content, 0.5)) for _ in range(num_unsent)
        ]
        async with asyncio.timeout(12):
            await other.connected.wait()
            await asyncio.gather(*asking, return_exceptions=True)
            while not connection.is_connected:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert frozen.num_connections == 1
        assert not any(isinstance(one.exception(), TimeoutError) for one in asking)
        async with asyncio.timeout(12):
            while len(caplog.records) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await connection.close()
    assert [record.getMessage() for record in caplog.records] == [
        "connection to a server of the log lost",
        "connected to a server of the log",
    ]
    assert caplog.records[1].fields == {"server": f"127.0.0.1:{other.port}"}  # type: ignore[attr-defined]


async def test_a_failure_in_what_handles_a_message_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def connect(_: Client, **options: Any) -> None:
        await options["error_cb"](ConnectionRefusedError())  # as for each server that is away
        await options["error_cb"](KeyError("a mistake of ours"))

    monkeypatch.setattr(Client, "connect", connect)
    connection = LogConnection("nats://a:4222")
    with caplog.at_level("ERROR", logger="facetd"):
        await connection.connect()
    await connection.close()
    assert ["was not handled" in record.message for record in caplog.records] == [True]
