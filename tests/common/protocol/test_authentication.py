"""Which connections a server keeps, and which server a client believes."""

from __future__ import annotations

import asyncio
import struct

import pytest

from common.errors import InvalidRequest, ServiceError, Unauthorized, Unavailable
from common.protocol import methods, server
from common.protocol.authentication import Authenticator
from common.protocol.framing import HEADER_BYTES, decode_request
from common.protocol.messages import PROTOCOL_VERSION, GetResponse, Hello, Welcome
from common.protocol.methods import GET
from common.protocol.server import RpcServer
from tests.common.protocol.scripted_server import HELLO, WAIT, ScriptedServer, get, tap
from tests.transport import connect, open_link


class Gullible:
    """Lets any client in."""

    def __init__(self, real: Authenticator) -> None:
        self.welcome = real.welcome

    def check(self, hello: Hello, nonce: bytes) -> None:
        pass


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
    scripted = ScriptedServer()
    client, _ = open_link(scripted.server)
    with pytest.raises(error):
        await client.greet(hello)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not client.is_open
    assert not scripted.server.connections


async def test_the_secret_never_crosses_the_wire() -> None:
    client, link = open_link(ScriptedServer().server)
    sent = tap(link)
    await client.greet(HELLO)
    assert sent
    assert not any(HELLO.secret.encode() in data for data in sent)


async def test_a_server_that_does_not_know_the_secret_is_not_believed() -> None:
    impostor = RpcServer(
        {}, Authenticator(secret="guess", shard=0, num_shards=2, make_welcome=lambda: Welcome(1, 1))
    )
    # It lets any client in, and answers as a shard would.
    impostor.authenticate = Gullible(impostor.authenticate)  # type: ignore[assignment]
    client, _ = open_link(impostor)
    with pytest.raises(Unauthorized, match="does not know the secret"):
        await client.greet(HELLO)
    assert not client.is_open


async def test_a_proof_is_good_for_one_connection_only() -> None:
    scripted = ScriptedServer()
    first, link = open_link(scripted.server)
    sent = tap(link)
    await first.greet(HELLO)
    replayed, link = open_link(scripted.server)
    for data in sent:
        link.near.write(data)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not replayed.is_open
    assert first.is_open


async def test_both_steps_of_the_handshake_share_one_timeout() -> None:
    client, link = open_link(ScriptedServer().server)
    sent = tap(link)
    link.hold()
    greeting = asyncio.ensure_future(client.greet(HELLO, 10_000))
    await asyncio.sleep(0.05)
    link.release()
    await greeting
    hello = decode_request(memoryview(b"".join(sent))[HEADER_BYTES:])
    assert 0 < hello.timeout_ms <= 9_975  # a timer of 50 ms ends up to some ms early


async def test_nothing_is_answered_before_the_handshake() -> None:
    client, _ = open_link(ScriptedServer().server)
    with pytest.raises(Unavailable, match="went away"):
        await client.call(GET, get(b"5"))


async def test_a_large_frame_before_the_handshake_ends_the_connection() -> None:
    client, _ = open_link(ScriptedServer().server)
    with pytest.raises(Unavailable):
        await client.call(methods.HELLO, Hello(PROTOCOL_VERSION, "x" * 5_000, 0, 2))


async def test_a_hello_that_is_not_utf8_ends_the_connection() -> None:
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    _, link = open_link(ScriptedServer().server, on_close=ended.set_result)
    body = b"\x95\x00\x00\xa5hello\x94\x03\xa1\xff\x00\x02\x90"
    link.near.write(struct.pack("<I", len(body)) + body)
    async with asyncio.timeout(5):
        await ended


async def test_a_connection_without_hello_is_closed_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripted = ScriptedServer()
    known, _ = await connect(scripted.server, HELLO)
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 0.01)
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    open_link(scripted.server, on_close=ended.set_result)
    async with asyncio.timeout(5):
        await ended
    assert len(scripted.server.connections) == 1
    assert (await known.call(GET, get(b"5"))).document == b"5"


async def test_connections_without_hello_keep_no_client_out() -> None:
    scripted = ScriptedServer()
    known, _ = await connect(scripted.server, HELLO)
    for _ in range(server.STRANGERS_MAX + 50):
        open_link(scripted.server)
    await asyncio.sleep(0)
    assert len(scripted.server.connections) == server.STRANGERS_MAX + 1
    assert known.is_open
    successor, _ = await connect(scripted.server, HELLO)
    assert (await successor.call(GET, get(b"5"))).document == b"5"


@pytest.mark.parametrize("hello", [HELLO, Hello(PROTOCOL_VERSION, "guess", 0, 2)])
async def test_strangers_are_forgotten_when_they_are_known_or_gone(hello: Hello) -> None:
    scripted = ScriptedServer()
    client, link = open_link(scripted.server)
    await asyncio.gather(client.greet(hello), return_exceptions=True)
    assert not scripted.server._strangers or hello is not HELLO
    link.cut()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not scripted.server._strangers
    assert not scripted.server.connections


async def test_a_new_connection_ends_the_former_one_and_waits_for_its_calls() -> None:
    scripted = ScriptedServer()
    former, _ = await connect(scripted.server, HELLO)
    call = former.call(WAIT, None)
    await asyncio.sleep(0)
    current, _ = open_link(scripted.server)
    greeting = asyncio.ensure_future(current.greet(HELLO))
    with pytest.raises(Unavailable):
        await call
    assert not former.is_open
    assert not greeting.done()
    scripted.gate.set_result(GetResponse(None))
    assert await greeting == Welcome(4711, 12)
    assert (await current.call(GET, get(b"5"))).document == b"5"


async def test_of_two_clients_that_wait_for_earlier_calls_the_newer_one_is_welcomed() -> None:
    scripted = ScriptedServer()
    former, _ = await connect(scripted.server, HELLO)
    call = former.call(WAIT, None)
    await asyncio.sleep(0)
    older, _ = open_link(scripted.server)
    greeting_older = asyncio.ensure_future(older.greet(HELLO))
    await asyncio.sleep(0.01)
    newer, _ = open_link(scripted.server)
    greeting_newer = asyncio.ensure_future(newer.greet(HELLO))
    await asyncio.sleep(0.01)
    assert not greeting_newer.done()
    with pytest.raises(Unavailable):
        await call
    with pytest.raises(Unavailable):
        await greeting_older

    scripted.gate.set_result(GetResponse(None))

    assert await greeting_newer == Welcome(4711, 12)
    assert len(scripted.server.connections) == 1
