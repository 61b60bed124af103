"""The connections to other hosts follow the table, also where two versions of it come together."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.placement import known_hosts, own_placement
from coordinator.replication.placement.known_hosts import KnownHosts
from coordinator.replication.placement.own_placement import OwnPlacement
from coordinator.replication.placement.placement_table import (
    TABLE_FORMAT,
    PlacedHost,
    PlacementTable,
)


class _Host:
    """A connection to another host that takes a while to close."""

    def __init__(self, address: str, row: PlacedHost, *_: Any) -> None:
        self.address = address
        self.row = row
        self.is_stopped = False

    def start(self) -> None:
        pass

    async def stop(self) -> None:
        await asyncio.sleep(0.01)
        self.is_stopped = True


def table(*addresses: str) -> PlacementTable:
    hosts = {address: PlacedHost(address, address, (0,)) for address in addresses}
    return PlacementTable(TABLE_FORMAT, 1, "secret", hosts)


def known_hosts_of(
    *, shards: tuple[int, ...], own_shards: tuple[int, ...], leaving: tuple[int, ...] = ()
) -> KnownHosts:
    """Return what host a, at address a, knows: it has some shards, by a setting; some may leave."""
    host: Any = SimpleNamespace(
        name="a",
        id="a",
        shards=shards,
        settings=SimpleNamespace(own_shards=own_shards),
        cluster=SimpleNamespace(local_shards=SimpleNamespace(leaving=leaving)),
    )
    known = KnownHosts(host, None, None, None)  # type: ignore[arg-type]
    known.address = "a"
    return known


@pytest.mark.parametrize(
    ("own", "other", "kept"),
    [
        (PlacedHost("a", "a", (0, 1), (0,), (0, 1)), PlacedHost("b", "b", (1,)), (0,)),
        (PlacedHost("a", "a", (0, 1), (0,), (0, 1)), PlacedHost("b", "b", (), (1,)), (0, 1)),
        (PlacedHost("a", "a", (0, 1), (0,), (0, 1)), PlacedHost("b", "b", (1,), (0,)), (0, 1)),
        (PlacedHost("a", "a", (0, 1), (0, 1), (0, 1)), PlacedHost("b", "b", (1,)), (0, 1)),
        (PlacedHost("a", "former", (0, 1), (0,), (0, 1)), PlacedHost("b", "b", (1,)), (0, 1)),
        (PlacedHost("a", "a", (0, 1), (0,), (0,)), PlacedHost("b", "b", (1,)), (0, 1)),
    ],
    ids=["other has it", "it lacks it", "it gives it up", "both keep it", "other copy", "setting"],
)
def test_a_shard_is_given_up_only_where_another_host_has_it_and_keeps_it(
    own: PlacedHost, other: PlacedHost, kept: tuple[int, ...]
) -> None:
    known = known_hosts_of(shards=(0, 1), own_shards=(0, 1))
    placed = PlacementTable(TABLE_FORMAT, 2, "secret", {"a": own, "b": other})
    assert known.table_without(placed, 1).hosts["a"].shards == kept


@pytest.mark.parametrize(
    ("former", "wanted"),
    [
        (PlacedHost("a", "a", (0,), (0, 1), (0,)), (0, 1)),
        (PlacedHost("a", "a", (0,), (0, 1), (0, 1)), None),
        (PlacedHost("a", "a", (1,), (0,), (0,)), None),
    ],
    ids=["ordered", "ordered under another setting", "done"],
)
def test_an_order_holds_until_it_is_done_or_the_setting_changes(
    former: PlacedHost, wanted: tuple[int, ...] | None
) -> None:
    known = known_hosts_of(shards=(0,), own_shards=(0,))
    placed = PlacementTable(TABLE_FORMAT, 2, "secret", {"a": former})
    assert known.with_own_row(placed).hosts["a"] == PlacedHost("a", "a", (0,), wanted, (0,))


def test_a_host_that_is_killed_while_a_shard_leaves_gives_it_up_again() -> None:
    """Until replica.json says that the shard has left, a start takes it up."""
    setting = (0, 1)
    ordered = PlacementTable(
        TABLE_FORMAT, 2, "secret", {"a": PlacedHost("a", "a", (0, 1), (0,), setting)}
    )
    leaves = known_hosts_of(shards=(0, 1), own_shards=setting, leaving=(1,)).with_own_row(ordered)
    assert leaves.hosts["a"].shards == (0,)

    started = known_hosts_of(shards=(0, 1), own_shards=setting).with_own_row(leaves)
    assert started.hosts["a"] == PlacedHost("a", "a", (0, 1), (0,), setting)

    has_left = known_hosts_of(shards=(0,), own_shards=setting).with_own_row(leaves)
    assert has_left.hosts["a"] == PlacedHost("a", "a", (0,), None, setting)


def test_a_namesake_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    known = known_hosts_of(shards=(0,), own_shards=(0,))
    other: Any = SimpleNamespace(is_connected=True, name="a")
    known.others = {"b": other, "c": SimpleNamespace(is_connected=True, name="c")}  # type: ignore[dict-item]
    with caplog.at_level("ERROR", logger="facetd"):
        known.warn_of_namesakes()
        known.warn_of_namesakes()
    assert [record.fields["address"] for record in caplog.records] == ["b"]  # type: ignore[attr-defined]


async def test_of_two_tables_that_are_taken_in_together_the_newer_one_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known_hosts, "OtherHost", _Host)
    placed: Any = SimpleNamespace(hosts=("own",))
    known = KnownHosts(None, placed, None, None)  # type: ignore[arg-type]
    await known.take(table("a", "b", "c"))
    before: list[Any] = list(known.others.values())

    await asyncio.gather(known.take(table("c", "d")), known.take(table("c")))

    assert known.others.keys() == {"c"}
    assert placed.hosts == ("own", known.others["c"])
    assert [one.is_stopped for one in before] == [True, True, False]


async def test_the_newest_table_holds_while_the_log_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An older one was taken again: hosts that had joined since were left."""
    monkeypatch.setattr(known_hosts, "OtherHost", _Host)
    monkeypatch.setattr(own_placement, "READ_SECONDS", 0)
    placed: Any = SimpleNamespace(hosts=("own",), update=lambda: None)
    is_away = asyncio.Event()

    async def change(_: object) -> PlacementTable:
        if not known.others:
            return table("a")
        is_away.set()
        raise LogAway("no server answers")

    async def first_table() -> PlacementTable:
        return table()

    async def listen(_: str) -> None:
        """Listen nowhere."""

    store: Any = SimpleNamespace(change=change)
    known = KnownHosts(None, placed, store, None)  # type: ignore[arg-type]
    monkeypatch.setattr(known, "warn_of_namesakes", lambda: None)
    placement = OwnPlacement.__new__(OwnPlacement)
    placement._known, placement._placed, placement._store = known, placed, store
    monkeypatch.setattr(placement, "_first_table", first_table)
    monkeypatch.setattr(placement, "_listen", listen)
    running = asyncio.create_task(placement._run())
    await is_away.wait()
    await known.take(table("a", "b"))  # as after an order to move a shard
    for _ in range(2):
        is_away.clear()
        await is_away.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert known.others.keys() == {"a", "b"}
