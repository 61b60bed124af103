import asyncio
import struct
from types import NoneType
from typing import Any, cast

import msgspec
import pytest

from common.deadline import CALL_DEADLINE
from common.errors import (
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    NotFound,
    ServiceError,
    Unauthorized,
    Unavailable,
)
from common.protocol import connection, framing, methods
from common.protocol.connection import Authenticator, Handler, RpcClient, RpcServer, authenticator
from common.protocol.messages import (
    PROTOCOL_VERSION,
    GetRequest,
    GetResponse,
    Hello,
    Welcome,
)
from common.protocol.methods import GET, Method
from tests.transport import Link, connect, open_link

HELLO = Hello(PROTOCOL_VERSION, "secret", 0, 2)
GET_LATER = Method("get_later", GetRequest, GetResponse)
TAKE = Method("take", GetRequest, GetResponse)
WAIT = Method("wait", NoneType, GetResponse)
REFUSE = Method("refuse", NoneType, NoneType)
FAIL = Method("fail", NoneType, GetResponse)
WRONG = Method("wrong", NoneType, GetResponse)
DANCE = Method("dance", NoneType, NoneType)
NOTE = Method("note", NoneType, NoneType)


class Shard:
    """A server with a handler of each sort."""

    def __init__(self) -> None:
        self.gate: asyncio.Future[GetResponse] = asyncio.get_running_loop().create_future()
        self.server = RpcServer(
            (
                Handler(GET, lambda request: GetResponse(request.id)),
                Handler(GET_LATER, self.get_later),
                Handler(WAIT, lambda _: self.gate),
                Handler(REFUSE, self.refuse),
                Handler(FAIL, lambda _: GetResponse(b"%d" % (1 // 0))),
                Handler(WRONG, lambda _: cast(GetResponse, object())),
            ),
            authenticator(
                secret="secret", shard=0, num_shards=2, welcome=lambda: Welcome(4711, 12)
            ),
        )

    async def get_later(self, request: GetRequest) -> GetResponse:
        await asyncio.sleep(0)
        return GetResponse(request.id)

    def refuse(self, _: None) -> None:
        raise NotFound("no such item", code="item_not_found", param="id", details={"id": 5})


class _Gullible:
    """Lets anybody in."""

    def __init__(self, real: Authenticator) -> None:
        self.welcome = real.welcome

    def check(self, hello: Hello, nonce: bytes) -> None:
        pass


def _tap(link: Link) -> list[bytes]:
    """Collect what the client sends."""
    sent: list[bytes] = []
    write = link.near.write

    def write_and_collect(data: bytes | bytearray | memoryview) -> None:
        sent.append(bytes(data))
        write(data)

    link.near.write = write_and_collect  # type: ignore[method-assign]
    return sent


def _get(text: bytes) -> GetRequest:
    return GetRequest(1, 2, text)


@pytest.mark.parametrize("piece_bytes", [0, 1, 3])
async def test_answers_reach_their_calls_in_any_order(piece_bytes: int) -> None:
    shard = Shard()
    client, _ = await connect(shard.server, HELLO, piece_bytes=piece_bytes)
    waiting = client.call(WAIT, None)
    later = [client.call(GET_LATER, _get(b"%d" % i)) for i in range(20)]
    atonce = [client.call(GET, _get(b"x%d" % i)) for i in range(20)]
    assert [r.document for r in await asyncio.gather(*later)] == [b"%d" % i for i in range(20)]
    assert [r.document for r in await asyncio.gather(*atonce)] == [b"x%d" % i for i in range(20)]
    assert not waiting.done()
    shard.gate.set_result(GetResponse(None))
    assert (await waiting).document is None
    assert client.num_in_flight == 0


async def test_a_service_error_crosses_with_all_its_parts() -> None:
    client, _ = await connect(Shard().server, HELLO)
    with pytest.raises(NotFound) as caught:
        await client.call(REFUSE, None)
    error = caught.value
    assert (error.code, error.message) == ("item_not_found", "no such item")
    assert (error.param, error.details) == ("id", {"id": 5})


@pytest.mark.parametrize("method", [FAIL, WRONG], ids=lambda method: method.name)
async def test_a_bug_in_a_handler_is_an_internal_error_without_its_text(
    method: Method[None, GetResponse],
) -> None:
    client, _ = await connect(Shard().server, HELLO)
    with pytest.raises(InternalError) as caught:
        await client.call(method, None)
    assert "ZeroDivision" not in caught.value.message
    assert client.is_open


async def test_an_unknown_method_is_answered() -> None:
    client, _ = await connect(Shard().server, HELLO)
    with pytest.raises(InvalidRequest, match="no method 'dance'"):
        await client.call(DANCE, None)


@pytest.mark.parametrize(
    ("hello", "error"),
    [
        (Hello(PROTOCOL_VERSION, "guess", 0, 2), Unauthorized),
        (Hello(PROTOCOL_VERSION + 1, "secret", 0, 2), InvalidRequest),
        (Hello(PROTOCOL_VERSION, "secret", 1, 2), InvalidRequest),
        (Hello(PROTOCOL_VERSION, "secret", 0, 3), InvalidRequest),
    ],
)
async def test_a_wrong_handshake_is_refused_and_the_connection_closed(
    hello: Hello, error: type[ServiceError]
) -> None:
    shard = Shard()
    client, _ = open_link(shard.server)
    with pytest.raises(error):
        await client.greet(hello)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not client.is_open
    assert not shard.server.connections


async def test_the_secret_never_crosses_the_wire() -> None:
    client, link = open_link(Shard().server)
    sent = _tap(link)
    await client.greet(HELLO)
    assert sent
    assert not any(HELLO.secret.encode() in data for data in sent)


async def test_a_server_that_does_not_know_the_secret_is_not_believed() -> None:
    server = RpcServer(
        {}, authenticator(secret="guess", shard=0, num_shards=2, welcome=lambda: Welcome(1, 1))
    )
    # It lets anybody in, and answers as a shard would.
    server.authenticate = _Gullible(server.authenticate)  # type: ignore[assignment]
    client, _ = open_link(server)
    with pytest.raises(Unauthorized, match="does not know the secret"):
        await client.greet(HELLO)
    assert not client.is_open


async def test_a_proof_is_good_for_one_connection_only() -> None:
    shard = Shard()
    first, link = open_link(shard.server)
    sent = _tap(link)
    await first.greet(HELLO)
    replayed, link = open_link(shard.server)
    for data in sent:
        link.near.write(data)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not replayed.is_open
    assert first.is_open


async def test_nothing_is_answered_before_the_handshake() -> None:
    client, _ = open_link(Shard().server)
    with pytest.raises(Unavailable, match="went away"):
        await client.call(GET, _get(b"5"))


async def test_a_large_frame_before_the_handshake_ends_the_connection() -> None:
    client, _ = open_link(Shard().server)
    with pytest.raises(Unavailable):
        await client.call(methods.HELLO, Hello(PROTOCOL_VERSION, "x" * 5_000, 0, 2))


async def test_a_greeting_that_is_no_text_ends_the_connection() -> None:
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    _, link = open_link(Shard().server, on_close=ended.set_result)
    body = b"\x95\x00\x00\xa5hello\x94\x03\xa1\xff\x00\x02\x90"
    link.near.write(struct.pack("<I", len(body)) + body)
    async with asyncio.timeout(5):
        await ended


async def test_calls_in_flight_fail_at_once_when_the_peer_goes_away() -> None:
    reasons: list[str] = []
    shard = Shard()
    client, link = open_link(shard.server, on_close=reasons.append)
    await client.greet(HELLO)
    calls = [client.call(WAIT, None, 60_000) for _ in range(3)]
    link.cut()
    for result in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(result, Unavailable)
        assert result.code == "shard_unavailable"
    assert len(reasons) == 1
    with pytest.raises(Unavailable, match="not connected"):
        client.call(GET, _get(b"5"))


async def test_a_late_read_is_forgotten_and_the_connection_goes_on() -> None:
    shard = Shard()
    client, _ = await connect(shard.server, HELLO)
    with pytest.raises(DeadlineExceeded):
        await client.call(WAIT, None, 1)
    shard.gate.set_result(GetResponse(b"late"))
    assert (await client.call(GET, _get(b"5"))).document == b"5"


async def test_a_late_write_closes_the_connection() -> None:
    client, _ = await connect(Shard().server, HELLO)
    other = client.call(WAIT, None, 60_000)
    with pytest.raises(DeadlineExceeded):
        await client.call(WAIT, None, 1, is_write=True)
    assert not client.is_open
    with pytest.raises(Unavailable):
        await other


async def test_the_earliest_deadline_counts_whatever_the_order_of_calls() -> None:
    client, _ = await connect(Shard().server, HELLO)
    slow = client.call(WAIT, None, 60_000)
    with pytest.raises(DeadlineExceeded):
        await client.call(WAIT, None, 1)
    with pytest.raises(DeadlineExceeded):
        await client.call(WAIT, None, 2)
    assert not slow.done()
    slow.cancel()


async def test_after_a_pause_of_the_process_answers_are_read_before_calls_expire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shard = Shard()
    client, _ = await connect(shard.server, HELLO)
    call = client.call(WAIT, None, 1_000, is_write=True)
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    now = loop.time() + 60  # the machine slept; the peer has answered meanwhile
    monkeypatch.setattr(loop, "time", lambda: now)
    assert client._timer is not None
    client._timer.cancel()
    client._expire()
    shard.gate.set_result(GetResponse(b"in time"))
    assert (await call).document == b"in time"
    assert client.is_open


class Taker:
    """A server that notes what it gets, in order."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.server = RpcServer(
            (
                Handler(TAKE, self.take, self.attach),
                Handler(GET, lambda request: GetResponse(request.id)),
            ),
            authenticator(secret="secret", shard=0, num_shards=2, welcome=lambda: Welcome(7, 0)),
        )

    @staticmethod
    def attach(request: GetRequest, attachment: memoryview) -> GetRequest:
        return msgspec.structs.replace(request, id=request.id + bytes(attachment))

    def take(self, request: GetRequest) -> GetResponse:
        self.taken.append(request.id)
        return GetResponse(request.id)


@pytest.mark.parametrize("piece_bytes", [0, 3])
async def test_reading_overtakes_an_attachment_and_writes_keep_their_order(
    monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(framing, "PIECE_BYTES", 10)
    taker = Taker()
    client, _ = await connect(taker.server, HELLO, piece_bytes=piece_bytes)
    done: list[bytes | None] = []

    async def ask(method: Method[GetRequest, GetResponse], text: bytes, *attachment: bytes) -> None:
        answer = await client.call(
            method, _get(text), is_write=method is TAKE, attachment=attachment
        )
        done.append(answer.document)

    large = [b"x" * 150, b"", b"y" * 151]
    await asyncio.gather(
        ask(TAKE, b"1", *large),
        ask(TAKE, b"2"),
        ask(TAKE, b"3", b"z" * 200),
        ask(GET, b"soon"),
    )
    assert taker.taken == [b"1" + b"".join(large), b"2", b"3" + b"z" * 200]
    assert done == [b"soon", *taker.taken]
    assert client.num_in_flight == 0


async def test_a_full_socket_gets_no_further_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "PIECE_BYTES", 10)
    taker = Taker()
    client, link = await connect(taker.server, HELLO)
    sent = _tap(link)
    client.pause_writing()
    call = client.call(TAKE, _get(b"1"), is_write=True, attachment=[b"x" * 100])
    for _ in range(50):
        await asyncio.sleep(0)
    assert sent == []
    client.resume_writing()
    assert (await call).document == b"1" + b"x" * 100
    assert len(sent) > 10


async def test_a_connection_that_ends_inside_an_attachment_fails_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(framing, "PIECE_BYTES", 10)
    taker = Taker()
    client, link = await connect(taker.server, HELLO)
    call = client.call(TAKE, _get(b"1"), is_write=True, attachment=[b"x" * 1000])
    await asyncio.sleep(0)
    link.cut()
    with pytest.raises(Unavailable):
        await call
    for _ in range(10):
        await asyncio.sleep(0)
    assert taker.taken == []


async def test_an_attachment_that_nobody_takes_closes_the_connection() -> None:
    client, _ = await connect(Taker().server, HELLO)
    with pytest.raises(Unavailable):
        await client.call(GET, _get(b"1"), attachment=[b"x"])
    assert not client.is_open


async def test_too_many_calls_are_overload_not_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_CALLS_IN_FLIGHT", 2)
    client, _ = await connect(Shard().server, HELLO)
    calls = [client.call(WAIT, None) for _ in range(2)]
    with pytest.raises(Unavailable) as caught:
        client.call(WAIT, None)
    assert caught.value.code == "overloaded"
    for call in calls:
        call.cancel()


async def test_an_answer_of_a_wrong_type_closes_the_connection() -> None:
    client, _ = await connect(Shard().server, HELLO)
    with pytest.raises(Unavailable, match="cannot be read"):
        await client.call(Method("get", GetRequest, Welcome), _get(b"5"))
    assert not client.is_open


async def test_an_answer_to_no_call_closes_the_connection() -> None:
    client, _ = await connect(Shard().server, HELLO)
    body = msgspec.msgpack.encode((1, 999, None, None))
    client.data_received(struct.pack("<I", len(body)) + body)
    assert not client.is_open


async def test_undecodable_params_close_only_that_connection() -> None:
    shard = Shard()
    client, _ = await connect(shard.server, HELLO)
    with pytest.raises(Unavailable):
        await client.call(GET, cast(GetRequest, "nonsense"))
    again, _ = await connect(shard.server, HELLO)
    assert (await again.call(GET, _get(b"5"))).document == b"5"


async def test_a_new_connection_ends_the_former_one_and_waits_for_its_calls() -> None:
    shard = Shard()
    former, _ = await connect(shard.server, HELLO)
    call = former.call(WAIT, None)
    await asyncio.sleep(0)
    current, _ = open_link(shard.server)
    greeting = asyncio.ensure_future(current.greet(HELLO))
    with pytest.raises(Unavailable):
        await call
    assert not former.is_open
    assert not greeting.done()
    shard.gate.set_result(GetResponse(None))
    assert await greeting == Welcome(4711, 12)
    assert (await current.call(GET, _get(b"5"))).document == b"5"


async def test_a_caller_that_gave_up_disturbs_nobody() -> None:
    shard = Shard()
    client, _ = await connect(shard.server, HELLO)
    client.call(WAIT, None).cancel()
    shard.gate.set_result(GetResponse(None))
    assert (await client.call(GET, _get(b"5"))).document == b"5"


async def test_stopping_waits_for_calls_in_flight() -> None:
    shard = Shard()
    client, _ = await connect(shard.server, HELLO)
    call = client.call(WAIT, None)
    await asyncio.sleep(0)
    stopping = asyncio.create_task(shard.server.close(grace_seconds=10))
    await asyncio.sleep(0)
    shard.gate.set_result(GetResponse(b"done"))
    assert (await call).document == b"done"
    await stopping
    await asyncio.sleep(0)
    assert not shard.server.connections


async def test_the_same_over_a_real_socket() -> None:
    shard = Shard()
    port = await shard.server.listen("127.0.0.1")
    client, welcome = await RpcClient.connect("127.0.0.1", port, HELLO)
    assert welcome == Welcome(4711, 12)
    large = b"x" * 3_000_000
    results: list[Any] = await asyncio.gather(*[client.call(GET, _get(large)) for _ in range(5)])
    assert all(result.document == large for result in results)
    await shard.server.close()
    with pytest.raises(Unavailable):
        await RpcClient.connect("127.0.0.1", port, HELLO)


async def test_who_does_not_say_hello_has_to_go_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HANDSHAKE_SECONDS", 0.01)
    shard = Shard()
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    open_link(shard.server, on_close=ended.set_result)
    known, _ = await connect(shard.server, HELLO)
    async with asyncio.timeout(5):
        await ended
    assert len(shard.server.connections) == 1
    assert (await known.call(GET, _get(b"5"))).document == b"5"


async def test_who_does_not_say_hello_keeps_nobody_out() -> None:
    shard = Shard()
    known, _ = await connect(shard.server, HELLO)
    for _ in range(connection.STRANGERS_MAX + 50):
        open_link(shard.server)
    await asyncio.sleep(0)
    assert len(shard.server.connections) == connection.STRANGERS_MAX + 1
    assert known.is_open
    successor, _ = await connect(shard.server, HELLO)
    assert (await successor.call(GET, _get(b"5"))).document == b"5"


@pytest.mark.parametrize("hello", [HELLO, Hello(PROTOCOL_VERSION, "guess", 0, 2)])
async def test_strangers_are_forgotten_when_they_are_known_or_gone(hello: Hello) -> None:
    shard = Shard()
    client, link = open_link(shard.server)
    await asyncio.gather(client.greet(hello), return_exceptions=True)
    assert not shard.server._strangers or hello is not HELLO
    link.cut()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not shard.server._strangers
    assert not shard.server.connections


async def test_a_call_that_comes_too_late_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for its answer: a shard with a full socket would work for nobody."""
    clock = [1_000.0]
    monkeypatch.setattr("common.protocol.connection.time.monotonic", lambda: clock[0])
    begun = []

    def note(_: None) -> None:
        begun.append(CALL_DEADLINE.get().at - clock[0])

    shard = Shard()
    shard.server.table[NOTE.name] = (None, note)
    client, _ = await connect(shard.server, HELLO)
    first = client.call(NOTE, None, 2_000)
    await first
    in_time = client.call(NOTE, None, 2_000)
    clock[0] += 1.5  # in the socket
    await in_time
    late = client.call(NOTE, None, 2_000)
    clock[0] += 2.5
    with pytest.raises(DeadlineExceeded):
        await late
    write = client.call(NOTE, None, 2_000, is_write=True)
    clock[0] += 2.5
    await write
    assert begun == [2.0, 0.5, float("inf")], "a write is always begun"


def test_what_a_call_took_does_not_depend_on_the_clocks() -> None:
    transit = connection._Transit()
    sent = 5_000_000
    assert [
        transit.took_ms(now, sent + at)
        for now, at in [
            (103.0, 0),
            (105.0, 3),
            (110.0, 4),
            (70_000.0, 69_898),
            (131_000.0, 130_890),
        ]
    ] == [0, 0, 4, 0, 8]
