"""Calls over a connection: each gets its response, or fails by its deadline."""

from __future__ import annotations

import asyncio
import struct
from typing import Any, cast

import msgspec
import pytest

from common.deadline import CALL_DEADLINE
from common.errors import DeadlineExceeded, InternalError, InvalidRequest, NotFound, Unavailable
from common.protocol import client as client_end
from common.protocol import framing, server
from common.protocol.client import RpcClient
from common.protocol.messages import GetRequest, GetResponse, GivenUpCalls, Welcome
from common.protocol.methods import GET, GIVE_UP, Method
from common.protocol.server import Handler
from tests.common.protocol.scripted_server import (
    DANCE,
    FAIL,
    GET_LATER,
    HELLO,
    NOTE,
    READ_LONG,
    REFUSE,
    TAKE,
    WAIT,
    WRONG,
    RecordingServer,
    ScriptedServer,
    get,
    tap,
)
from tests.transport import connect, open_link
from tests.waiting import until


@pytest.mark.parametrize("piece_bytes", [0, 1, 3])
async def test_responses_reach_their_calls_in_any_order(piece_bytes: int) -> None:
    scripted = ScriptedServer()
    client, _ = await connect(scripted.server, HELLO, piece_bytes=piece_bytes)
    waiting = client.call(WAIT, None)
    later = [client.call(GET_LATER, get(b"%d" % i)) for i in range(20)]
    atonce = [client.call(GET, get(b"x%d" % i)) for i in range(20)]
    assert [r.document for r in await asyncio.gather(*later)] == [b"%d" % i for i in range(20)]
    assert [r.document for r in await asyncio.gather(*atonce)] == [b"x%d" % i for i in range(20)]
    assert not waiting.done()
    scripted.gate.set_result(GetResponse(None))
    assert (await waiting).document is None
    assert client.num_in_flight == 0


async def test_a_service_error_crosses_with_all_its_parts() -> None:
    client, _ = await connect(ScriptedServer().server, HELLO)
    with pytest.raises(NotFound) as caught:
        await client.call(REFUSE, None)
    error = caught.value
    assert (error.code, error.message) == ("item_not_found", "no such item")
    assert (error.param, error.details) == ("id", {"id": 5})


@pytest.mark.parametrize("method", [FAIL, WRONG], ids=lambda method: method.name)
async def test_a_bug_in_a_handler_is_an_internal_error_without_its_text(
    method: Method[None, GetResponse],
) -> None:
    client, _ = await connect(ScriptedServer().server, HELLO)
    with pytest.raises(InternalError) as caught:
        await client.call(method, None)
    assert "ZeroDivision" not in caught.value.message
    assert client.is_open


async def test_an_unknown_method_is_answered() -> None:
    client, _ = await connect(ScriptedServer().server, HELLO)
    with pytest.raises(InvalidRequest, match="no method 'dance'"):
        await client.call(DANCE, None)


async def test_calls_in_flight_fail_at_once_when_the_peer_goes_away() -> None:
    reasons: list[str] = []
    scripted = ScriptedServer()
    client, link = open_link(scripted.server, on_close=reasons.append)
    await client.greet(HELLO)
    calls = [client.call(WAIT, None, 60_000) for _ in range(3)]
    link.cut()
    for result in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(result, Unavailable)
        assert result.code == "shard_unavailable"
    assert len(reasons) == 1
    with pytest.raises(Unavailable, match="not connected"):
        client.call(GET, get(b"5"))


async def test_a_late_read_is_forgotten_and_the_connection_goes_on() -> None:
    scripted = ScriptedServer()
    client, _ = await connect(scripted.server, HELLO)
    with pytest.raises(DeadlineExceeded):
        await client.call(WAIT, None, 1)
    scripted.gate.set_result(GetResponse(b"late"))
    assert (await client.call(GET, get(b"5"))).document == b"5"


async def test_a_late_write_closes_the_connection() -> None:
    client, _ = await connect(ScriptedServer().server, HELLO)
    other = client.call(WAIT, None, 60_000)
    with pytest.raises(DeadlineExceeded):
        await client.call(WAIT, None, 1, is_write=True)
    assert not client.is_open
    with pytest.raises(Unavailable):
        await other


async def test_the_earliest_deadline_counts_whatever_the_order_of_calls() -> None:
    client, _ = await connect(ScriptedServer().server, HELLO)
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
    scripted = ScriptedServer()
    client, _ = await connect(scripted.server, HELLO)
    call = client.call(WAIT, None, 1_000, is_write=True)
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    now = loop.time() + 60  # the machine slept; the peer has answered meanwhile
    monkeypatch.setattr(loop, "time", lambda: now)
    assert client._timer is not None
    client._timer.cancel()
    client._expire()
    scripted.gate.set_result(GetResponse(b"in time"))
    assert (await call).document == b"in time"
    assert client.is_open


@pytest.mark.parametrize("piece_bytes", [0, 3])
async def test_reading_overtakes_an_attachment_and_writes_keep_their_order(
    monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(framing, "PIECE_BYTES", 10)
    recording = RecordingServer()
    client, _ = await connect(recording.server, HELLO, piece_bytes=piece_bytes)
    done: list[bytes | None] = []

    async def ask(method: Method[GetRequest, GetResponse], text: bytes, *attachment: bytes) -> None:
        answer = await client.call(
            method, get(text), is_write=method is TAKE, attachment=attachment
        )
        done.append(answer.document)

    large = [b"x" * 150, b"", b"y" * 151]
    await asyncio.gather(
        ask(TAKE, b"1", *large),
        ask(TAKE, b"2"),
        ask(TAKE, b"3", b"z" * 200),
        ask(GET, b"soon"),
    )
    assert recording.taken == [b"1" + b"".join(large), b"2", b"3" + b"z" * 200]
    assert done == [b"soon", *recording.taken]
    assert client.num_in_flight == 0


async def test_a_full_socket_gets_no_further_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "PIECE_BYTES", 10)
    recording = RecordingServer()
    client, link = await connect(recording.server, HELLO)
    sent = tap(link)
    client.pause_writing()
    call = client.call(TAKE, get(b"1"), is_write=True, attachment=[b"x" * 100])
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
    recording = RecordingServer()
    client, link = await connect(recording.server, HELLO)
    call = client.call(TAKE, get(b"1"), is_write=True, attachment=[b"x" * 1000])
    await asyncio.sleep(0)
    link.cut()
    with pytest.raises(Unavailable):
        await call
    for _ in range(10):
        await asyncio.sleep(0)
    assert recording.taken == []


async def test_an_attachment_for_a_method_without_one_closes_the_connection() -> None:
    client, _ = await connect(RecordingServer().server, HELLO)
    with pytest.raises(Unavailable):
        await client.call(GET, get(b"1"), attachment=[b"x"])
    assert not client.is_open


async def test_too_many_calls_are_overload_not_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_end, "CALLS_IN_FLIGHT_MAX", 2)
    client, _ = await connect(ScriptedServer().server, HELLO)
    calls = [client.call(WAIT, None) for _ in range(2)]
    with pytest.raises(Unavailable) as caught:
        client.call(WAIT, None)
    assert caught.value.code == "overloaded"
    for call in calls:
        call.cancel()


async def test_a_result_of_the_wrong_type_closes_the_connection() -> None:
    client, _ = await connect(ScriptedServer().server, HELLO)
    with pytest.raises(Unavailable, match="cannot be read"):
        await client.call(Method("get", GetRequest, Welcome), get(b"5"))
    assert not client.is_open


async def test_a_response_to_no_call_closes_the_connection() -> None:
    client, _ = await connect(ScriptedServer().server, HELLO)
    body = msgspec.msgpack.encode((1, 999, None, None))
    client.data_received(struct.pack("<I", len(body)) + body)
    assert not client.is_open


async def test_undecodable_params_close_only_that_connection() -> None:
    scripted = ScriptedServer()
    client, _ = await connect(scripted.server, HELLO)
    with pytest.raises(Unavailable):
        await client.call(GET, cast(GetRequest, "nonsense"))
    again, _ = await connect(scripted.server, HELLO)
    assert (await again.call(GET, get(b"5"))).document == b"5"


async def test_a_caller_that_gave_up_disturbs_no_other_call() -> None:
    scripted = ScriptedServer()
    client, _ = await connect(scripted.server, HELLO)
    client.call(WAIT, None).cancel()
    scripted.gate.set_result(GetResponse(None))
    assert (await client.call(GET, get(b"5"))).document == b"5"


async def test_a_read_that_is_given_up_ends_at_the_server() -> None:
    scripted = ScriptedServer()
    client, _ = await connect(scripted.server, HELLO)
    given_up, wanted = (client.call(READ_LONG, get(text), 60_000) for text in (b"1", b"2"))
    await until(lambda: len(scripted.reading) == 2)
    deadlines = dict(scripted.reading)

    given_up.cancel()
    client.give_up_cancelled()
    await until(lambda: len(scripted.reading) == 1)

    assert [deadlines[text].has_passed for text in (b"1", b"2")] == [True, False]
    await until(lambda: client.num_in_flight == scripted.server.num_in_flight == 1)
    scripted.gate.set_result(GetResponse(None))
    assert (await wanted).document == b"2"
    assert client.is_open


async def test_other_calls_run_to_their_end_when_they_are_given_up() -> None:
    scripted = ScriptedServer()
    client, _ = await connect(scripted.server, HELLO)
    for is_write in (True, False):
        client.call(WAIT, None, is_write=is_write).cancel()
        client.give_up_cancelled()
    assert (await client.call(GET, get(b"5"))).document == b"5"
    # A client that names them all the same gets no more than that.
    await client.call(GIVE_UP, GivenUpCalls((1, 2, 3, 1 << 40)))

    assert not scripted.gate.cancelled()
    assert scripted.server.num_in_flight == 2


async def test_a_server_that_cannot_give_up_changes_nothing() -> None:
    def refuse(_: object) -> None:
        raise InvalidRequest("there is no method 'give_up'")

    scripted = ScriptedServer()
    client, _ = await connect(scripted.server, HELLO)
    (connection,) = scripted.server.connections
    connection._giving_up = Handler(GIVE_UP, refuse)
    call = client.call(READ_LONG, get(b"1"), 60_000)
    await until(lambda: scripted.reading)
    call.cancel()
    client.give_up_cancelled()

    assert (await client.call(GET, get(b"5"))).document == b"5"
    scripted.gate.set_result(GetResponse(None))
    await until(lambda: not scripted.server.num_in_flight)
    assert (await client.call(GET, get(b"6"))).document == b"6"


async def test_reads_of_a_connection_that_ends_are_given_up() -> None:
    scripted = ScriptedServer()
    client, link = open_link(scripted.server)
    await client.greet(HELLO)
    calls = [client.call(READ_LONG, get(b"1"), 60_000), client.call(WAIT, None, 60_000)]
    await until(lambda: scripted.reading)
    link.cut()
    await asyncio.gather(*calls, return_exceptions=True)
    await until(lambda: not scripted.reading)

    assert not scripted.gate.cancelled()
    await until(lambda: scripted.server.num_in_flight == 1)


async def test_stopping_waits_for_calls_in_flight() -> None:
    scripted = ScriptedServer()
    client, _ = await connect(scripted.server, HELLO)
    call = client.call(WAIT, None)
    await asyncio.sleep(0)
    stopping = asyncio.create_task(scripted.server.close(grace_seconds=10))
    await asyncio.sleep(0)
    scripted.gate.set_result(GetResponse(b"done"))
    assert (await call).document == b"done"
    await stopping
    await asyncio.sleep(0)
    assert not scripted.server.connections


async def test_large_results_arrive_whole_over_a_real_socket() -> None:
    scripted = ScriptedServer()
    port = await scripted.server.listen("127.0.0.1")
    client, welcome = await RpcClient.connect("127.0.0.1", port, HELLO)
    assert welcome == Welcome(4711, 12)
    large = b"x" * 3_000_000
    results: list[Any] = await asyncio.gather(*[client.call(GET, get(large)) for _ in range(5)])
    assert all(result.document == large for result in results)
    await scripted.server.close()
    with pytest.raises(Unavailable):
        await RpcClient.connect("127.0.0.1", port, HELLO)


async def test_a_call_that_comes_too_late_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """No caller waits for its answer: a shard with a full socket would work in vain."""
    clock = [1_000.0]
    monkeypatch.setattr("common.protocol.server.time.monotonic", lambda: clock[0])
    begun = []

    def note(_: None) -> None:
        begun.append(CALL_DEADLINE.get().at - clock[0])

    scripted = ScriptedServer()
    scripted.server.handlers[NOTE.name] = server.Handler(NOTE, note)
    client, _ = await connect(scripted.server, HELLO)
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


async def test_a_read_for_which_no_time_is_left_is_no_call_without_a_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("common.protocol.server.time.monotonic", lambda: 1_000.0)
    scripted = ScriptedServer()
    begun: list[float] = []
    scripted.server.handlers[NOTE.name] = server.Handler(
        NOTE, lambda _: begun.append(CALL_DEADLINE.get().at)
    )
    client, _ = await connect(scripted.server, HELLO)
    with pytest.raises(DeadlineExceeded):
        await client.call(NOTE, None, 0)
    assert begun == [1_000.001]


def test_a_clock_that_stood_still_makes_no_call_late() -> None:
    transit = server._Transit()
    assert transit.took_ms(1_000.0, 500) == 0
    assert transit.took_ms(1_210.0, 700) == 10
    suspended_ms = 2 * server._Transit.WINDOW_MS
    assert transit.took_ms(1_310.0 + suspended_ms, 800) == 0  # of the caller's machine
    assert transit.took_ms(1_430.0 + suspended_ms, 900) == 20
    assert transit.took_ms(1_550.0 + suspended_ms, 1_000) == 40


def test_the_time_in_transit_does_not_depend_on_the_offset_of_two_clocks() -> None:
    transit = server._Transit()
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


async def test_a_server_takes_no_calls_from_a_client_that_does_not_read_its_responses() -> None:
    recording = RecordingServer()
    client, link = await connect(recording.server, HELLO)
    (connection,) = recording.server.connections
    connection.pause_writing()
    call = client.call(TAKE, get(b"1"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert link.far.is_reading_paused
    assert recording.taken == []
    connection.resume_writing()
    assert (await call).document == b"1"
