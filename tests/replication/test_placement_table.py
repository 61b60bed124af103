"""The table of shards: orders to move them, what a host holds after one, hosts that are removed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import orjson
import pytest

from common.errors import Conflict, InvalidRequest, NotFound, Unavailable
from coordinator.replication.host.replica_file import (
    REPLICA_FORMAT,
    ReplicaFile,
    held_shards,
    shards_to_run,
    write_replica,
)
from coordinator.replication.log.log_stream import LogStream
from coordinator.replication.placement import placement_table as module
from coordinator.replication.placement.placement_table import PlacedHost, PlacementTable, TableStore
from coordinator.routes.hosts import remove_host
from coordinator.settings import Settings

TABLE = PlacementTable(
    1,
    3,
    "secret",
    {
        "a:1": PlacedHost("a", "host-a", (0, 1)),
        "b:1": PlacedHost("b", "host-b", (1, 2)),
        "c:1": PlacedHost("c", "host-c", (2,)),
    },
)


def targets(table: PlacementTable) -> dict[str, set[int]]:
    return {row.name: set(row.target) for row in table.hosts.values()}


def test_a_move_is_two_orders() -> None:
    moved = TABLE.with_move(1, "a", "c")

    assert targets(moved) == {"a": {0}, "b": {1, 2}, "c": {1, 2}}
    assert [row.shards for row in moved.hosts.values()] == [(0, 1), (1, 2), (2,)]
    assert targets(moved.with_move(1, "c", "a")) == targets(TABLE)  # taken back


def test_a_copy_is_added_or_removed() -> None:
    assert targets(TABLE.with_move(0, "", "c"))["c"] == {0, 2}
    assert targets(TABLE.with_move(1, "host-b", ""))["b"] == {2}


@pytest.mark.parametrize(
    ("shard", "source", "target", "problem"),
    [
        (3, "a", "c", "there are shards 0 to 2"),
        (-1, "a", "c", "there are shards 0 to 2"),
        (1, "", "", "name the host"),
        (1, "a", "d", "there is no host 'd'; there are a, b, c"),
        (2, "a", "", "does not hold shard 2"),
        (2, "a", "c", "holds shard 2 already"),
        (0, "a", "", "no host would hold shard 0"),
        (2, "c", "a", "is the only one of c"),
        (0, "a", "a", "are the same host, a"),
        (2, "a", "host-a", "are the same host, a"),
        (1, "d", "d", "there is no host 'd'"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(
    shard: int, source: str, target: str, problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        TABLE.with_move(shard, source, target)


def test_an_order_to_one_of_two_namesakes_is_refused() -> None:
    table = TABLE.with_host("d:1", PlacedHost("a", "host-d", (0,)))

    with pytest.raises(InvalidRequest, match="2 hosts are called 'a'"):
        table.with_move(2, "", "a")
    assert table.with_move(2, "", "host-a").hosts["a:1"].target == {0, 1, 2}


def test_two_orders_do_not_leave_a_shard_without_a_host() -> None:
    once = TABLE.with_move(1, "a", "")

    with pytest.raises(InvalidRequest, match="no host would hold shard 1"):
        once.with_move(1, "b", "")


def settings(data: Path, here: str) -> Settings:
    return Settings(data_dir=data, shards_here=here, shards_of=4, log_url="nats://a")


def test_what_was_moved_outlasts_a_restart_until_the_setting_changes(tmp_path: Path) -> None:
    replica = ReplicaFile(
        REPLICA_FORMAT, "log", "host", 7, 0, shards=(0, 3), arriving={2: 5}, configured=(0, 1)
    )
    write_replica(tmp_path, replica)

    assert held_shards(settings(tmp_path, "0,1"), replica) == (0, 3)
    assert held_shards(settings(tmp_path, "1,2"), replica) == (1, 2)
    assert held_shards(settings(tmp_path, "1,2"), None) == (1, 2)
    assert shards_to_run(settings(tmp_path, "0,1")) == (0, 2, 3)


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 1}', b'{"secret": "\xff"}'])
def test_a_copy_that_is_damaged_counts_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "placement.json"
    store = TableStore(cast(LogStream, None), 3, 1, path)
    path.write_bytes(msgspec.json.encode(TABLE))
    assert store.copied() == TABLE

    path.write_bytes(content)

    assert store.copied() is None


async def test_a_disk_that_refuses_the_copy_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The table is read once a second, and the disk may be full for days."""
    store = TableStore(cast(LogStream, None), 3, 1, tmp_path / "placement.json")
    content = msgspec.json.encode(TABLE)

    class Bucket:
        async def get(self, key: str) -> SimpleNamespace:
            return SimpleNamespace(value=content, revision=1)

    async def opened() -> Bucket:
        return Bucket()

    def refuse(path: Path, content: bytes, *, mode: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store, "_opened", opened)
    with caplog.at_level("WARNING", logger="facetd"):
        with monkeypatch.context() as full:
            full.setattr(module, "write_atomically", refuse)
            for _ in range(3):
                assert await store.read() == TABLE
        assert len(caplog.records) == 1

        await store.read()

    assert len(caplog.records) == 1
    assert store.copied() == TABLE


class _Hosts:
    """What one host knows of the others; stands for `OwnPlacement` and `Peers`."""

    def __init__(self, heard: dict[str, bool], connected: dict[str, bool]) -> None:
        self._heard = heard
        self._connected = connected
        self.is_log_away = False
        self.forgotten: list[str] = []
        self.dropped: frozenset[str] = frozenset()

    def shown(self) -> list[dict[str, Any]]:
        return [
            {"host": f"host-{name}", "name": name, "is_away": is_away}
            for name, is_away in self._heard.items()
        ]

    def hosts_called(self, name: str) -> list[Any]:
        return [
            SimpleNamespace(row=row, is_gone=not self._connected[row.name])
            for row in TABLE.hosts.values()
            if row.name in self._connected and name in (row.name, row.host)
        ]

    async def forget(self, names: str | frozenset[str]) -> None:
        if isinstance(names, str):
            self.forgotten.append(names)
        elif self.is_log_away:
            raise Unavailable("the log is away")
        else:
            self.dropped = names


async def removed(hosts: _Hosts, name: str) -> Any:
    services: Any = SimpleNamespace(shared_log=SimpleNamespace(peers=hosts, placement=hosts))
    request: Any = SimpleNamespace(arguments=[name])
    return orjson.loads((await remove_host(services, request)).body)["removed"]


async def test_a_host_that_only_the_table_knows_is_removed() -> None:
    """After a start of all others, or a day, it was an unknown host: its row stayed for good."""
    hosts = _Hosts({"a": False}, {"b": False, "c": True})
    assert await removed(hosts, "b") == ["host-b"]
    assert hosts.dropped == {"host-b"}
    for name in ("a", "c"):
        with pytest.raises(Conflict, match="still answers"):
            await removed(hosts, name)
    with pytest.raises(NotFound, match="there is no host 'd'"):
        await removed(hosts, "d")


async def test_a_host_whose_row_stays_can_be_removed_again() -> None:
    hosts = _Hosts({"a": False, "b": True}, {"b": False})
    hosts.is_log_away = True
    with pytest.raises(Unavailable):
        await removed(hosts, "b")
    assert hosts.forgotten == []
    hosts.is_log_away = False
    assert await removed(hosts, "b") == ["host-b"]
    assert hosts.forgotten == ["host-b"]
    assert hosts.dropped == {"b", "host-b"}
