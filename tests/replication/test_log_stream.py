"""The stream on a real server: numbers, duplicates, positions that do not fit, trimming."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from nats.aio.msg import Msg

from common.limits import Limits
from coordinator.replication.following import gapless_message_reader
from coordinator.replication.following.gapless_message_reader import follow
from coordinator.replication.host.replica_file import Position
from coordinator.replication.log.jetstream_info import StreamInfo
from coordinator.replication.log.log_durability import metadata_of
from coordinator.replication.log.log_errors import LogAway, LogBroken
from coordinator.replication.log.log_stream import LogStream, StreamMessage
from coordinator.replication.peers import log_trimming
from coordinator.replication.peers.log_trimming import LogTrimmer
from tests.replication.several_hosts import Hosts, SharedLogServers
from tests.waiting import wait_until

NUM_BACKLOG = 50


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[SharedLogServers]:
    with SharedLogServers(tmp_path, 1) as started:
        yield started


@pytest_asyncio.fixture
async def stream(servers: SharedLogServers) -> AsyncIterator[LogStream]:
    made = LogStream(servers.url, "test")
    await made.connect()
    await made.create(1, 41, metadata_of(Limits(), 41))
    yield made
    await made.close()


async def first(stream: LogStream, position: Position, num: int) -> list[StreamMessage]:
    found = []
    async for message in follow(stream, position):
        found.append(message)
        if len(found) == num:
            break
    return found


async def test_a_repeated_message_is_one(stream: LogStream) -> None:
    assert await stream.publish("a", b"one") == 41
    assert await stream.publish("b", b"two") == 42
    assert await stream.publish("a", b"one") == 41
    messages = await first(stream, Position(40, 0), 2)
    assert [(one.seq, one.content) for one in messages] == [(41, b"one"), (42, b"two")]
    (second,) = await first(stream, Position(41, messages[0].stored_at), 1)
    assert second == messages[1]
    assert await stream.get(42) == b"two"


async def test_a_backlog_is_not_fetched_one_by_one_once_the_consumer_sends(
    stream: LogStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(NUM_BACKLOG):
        await stream.publish(str(number), b"x")
    make, fetch = gapless_message_reader._make_consumer, LogStream.entry
    num_fetched = 0
    wanted = asyncio.Event()

    async def make_when_fetching(stream: LogStream, *arguments: Any) -> None:
        await wanted.wait()
        await make(stream, *arguments)

    async def fetch_when_sent(stream: LogStream, *arguments: Any) -> StreamMessage | None:
        nonlocal num_fetched
        num_fetched += 1
        wanted.set()
        while stream.client().stats["in_msgs"] < before + NUM_BACKLOG:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return await fetch(stream, *arguments)

    monkeypatch.setattr(gapless_message_reader, "_make_consumer", make_when_fetching)
    monkeypatch.setattr(LogStream, "entry", fetch_when_sent)
    before = stream.client().stats["in_msgs"]
    messages = await first(stream, Position(40, 0), NUM_BACKLOG)
    assert [one.seq for one in messages] == list(range(41, 41 + NUM_BACKLOG))
    assert num_fetched == 1


async def test_a_host_that_stood_still_keeps_its_consumer(
    stream: LogStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = gapless_message_reader._make_consumer
    num_made = 0

    async def make_counted(stream: LogStream, *arguments: Any) -> None:
        nonlocal num_made
        num_made += 1
        await make(stream, *arguments)

    monkeypatch.setattr(gapless_message_reader, "_make_consumer", make_counted)
    await stream.publish("a", b"one")
    messages = follow(stream, Position(40, 0))
    assert (await anext(messages)).seq == 41
    next_message = asyncio.ensure_future(anext(messages))
    for number in range(3):
        await asyncio.sleep(2 * gapless_message_reader.HEARTBEAT_SECONDS)
        time.sleep(1.5 * gapless_message_reader.SILENT_SECONDS)  # noqa: ASYNC251 - no core, or SIGSTOP
        assert not next_message.done(), number
    await asyncio.sleep(2 * gapless_message_reader.HEARTBEAT_SECONDS)
    await stream.publish("b", b"two")
    assert (await next_message).seq == 42
    await messages.aclose()
    assert num_made == 1


async def test_a_log_that_was_replaced_is_noticed(stream: LogStream) -> None:
    await stream.publish("a", b"one")
    with pytest.raises(LogBroken, match="not the one"):
        await first(stream, Position(41, 12345), 1)


async def test_trimming(stream: LogStream) -> None:
    for number in range(5):
        await stream.publish(str(number), b"x")
    assert await stream.first_seq_since(time.time() - 3600) == 41
    assert await stream.first_seq_since(time.time() + 3600) == 46
    await stream.trim(44)
    info = await stream.info()
    assert info is not None
    assert (info.first_seq, info.last_seq, info.origin) == (44, 45, 41)
    with pytest.raises(LogBroken, match="away for too long"):
        await first(stream, Position(42, 0), 1)
    assert [one.seq for one in await first(stream, Position(43, 0), 2)] == [44, 45]


@pytest.mark.parametrize("hours", [-30, 0, 30])
async def test_what_is_trimmed_does_not_depend_on_this_hosts_clock(
    stream: LogStream, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    for number in range(3):
        await stream.publish(str(number), b"x")
    await asyncio.sleep(1.5)
    await stream.publish("young", b"x")

    async def two_have_all(trimmer: LogTrimmer) -> int:
        return 44

    monkeypatch.setattr(log_trimming, "TRIM_ENTRIES_MIN", 1)
    monkeypatch.setattr(LogTrimmer, "_applied_by_two", two_have_all)
    actual = time.time
    monkeypatch.setattr(time, "time", lambda: actual() + 3600 * hours)
    serving = SimpleNamespace(is_withheld=False)
    host = SimpleNamespace(stream=stream, cluster=SimpleNamespace(placed=None), serving=serving)
    await LogTrimmer(host).trim(1.0)  # type: ignore[arg-type]
    info = await stream.info()
    assert info is not None
    assert info.first_seq == 44


async def test_a_log_whose_only_server_left_answers_has_no_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replicas = [{"name": name, "current": name == "a", "active": 1} for name in "abc"]
    answer = {
        "state": {"first_seq": 1, "last_seq": 9},
        "config": {"num_replicas": 3},
        "cluster": {"name": "facetd", "raft_group": "S-R3F-x", "replicas": replicas},
    }

    async def respond(stream: LogStream, subject: str, content: bytes, seconds: float) -> Msg:
        return Msg(_client=None, data=json.dumps(answer).encode())  # type: ignore[arg-type]

    monkeypatch.setattr(LogStream, "ask_repeatedly", respond)
    with pytest.raises(LogAway, match="no leader"):
        await LogStream("nats://a", "test").info()
    answer["cluster"]["leader"] = "a"  # type: ignore[index]
    assert await LogStream("nats://a", "test").info() is not None


def follower(name: str, active_s: float, **what: Any) -> dict[str, Any]:
    return {"name": name, "current": True, "active": int(active_s * 1e9), **what}


def info_of(*replicas: dict[str, Any], led_s: float | None = 60.0) -> StreamInfo:
    cluster: dict[str, Any] = {"leader": "a", "replicas": list(replicas)}
    if led_s is not None:
        since = datetime(2026, 11, 26, 12, tzinfo=UTC)
        cluster["leader_since"] = since.isoformat()
        # As NATS writes it: with nanoseconds.
        answered_at = (since + timedelta(seconds=led_s)).strftime("%Y-%m-%dT%H:%M:%S.%f123Z")
    return StreamInfo.read(
        {
            "state": {"first_seq": 1, "last_seq": 9},
            "config": {"num_replicas": 3},
            "cluster": cluster,
            **({} if led_s is None else {"ts": answered_at}),
        }
    )


def test_a_server_is_current_if_its_leader_has_recently_heard_it() -> None:
    assert info_of(follower("b", 0.9), follower("c", 0.01)).num_current == 3
    assert info_of(follower("b", 0.9), follower("c", 0.01), led_s=None).num_current == 3
    silent = info_of(follower("b", 2.6), follower("c", 0.01))
    assert silent.num_current == 2
    assert [one.is_current for one in silent.servers] == [True, False, True]
    assert info_of(follower("b", 0.1, offline=True), follower("c", 0.1)).num_current == 2
    assert info_of(follower("b", 0.1, current=False), follower("c", 0.1)).num_current == 2


def test_a_new_leader_counts_whom_it_has_heard_since_it_leads() -> None:
    new = info_of(follower("b", 0.9), follower("c", 0.1), led_s=0.5)
    assert new.num_current == 2
    assert info_of(follower("b", 0), follower("c", 0), led_s=0.5).num_current == 1
    assert new.has_majority


def test_writes_are_not_refused_because_a_leader_is_new() -> None:
    assert info_of(follower("b", 0), follower("c", 0), led_s=0.0).has_majority
    gone = follower("b", 3, offline=True)
    assert info_of(gone, follower("c", 0.1)).has_majority
    assert not info_of(gone, follower("c", 3, current=False)).has_majority


def test_reads_can_ask_for_freshness(tmp_path: Path, servers: SharedLogServers) -> None:
    with Hosts(tmp_path, servers, (1, 1)) as hosts:
        a, b = (service.client() for service in hosts.services)
        reply = a.post("/films/configuration", {})
        assert reply.status == 200
        for number in range(10):
            seq = a.post("/films/items", [{"id": number}]).json["seq"]
            found = b.request("GET", "/films/search?per_page=0", headers={"x-min-seq": str(seq)})
            assert found.status == 200
            assert found.json["pagination"]["total"] == number + 1
        headers = {"x-max-lag-ms": "5000"}
        wait_until(lambda: b.request("GET", "/films/search", headers=headers).status == 200)
        refused = b.request("GET", "/films/search", headers={"x-max-lag-ms": "0"})
        assert refused.status == 503
        assert refused.json["error"]["code"] == "replica_lags"
        assert b.request("GET", "/films/search", headers={"x-min-seq": "no"}).status == 400
        metrics = b.get("/_metrics").body.decode()
        assert "\nfacetd_log_up 1.0" in metrics
        assert f"\nfacetd_replica_seq {float(seq)}" in metrics
        a.close()
        b.close()
