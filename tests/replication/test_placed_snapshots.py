"""A snapshot of shards that several hosts hold: who copies them, and when there is none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from common.errors import Conflict, Unavailable
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.placement.placed_snapshots import Collector

SEQ = 7


class Host:
    """A host that serves some shards."""

    def __init__(self, name: str, shards: set[int], applied: int = SEQ) -> None:
        self.name = name
        self.applied = applied
        self._shards = shards

    def kept_from(self, shard: int) -> int | None:
        return 0 if shard in self._shards else None


def collector(hosts: list[Host], copied: list[tuple[str, tuple[int, ...]]], **errors: Any) -> Any:
    """Return one that notes who is asked; the hosts named in `errors` fail."""
    placed = SimpleNamespace(hosts=tuple(hosts), shards=range(3))
    this: Any = SimpleNamespace(cluster=SimpleNamespace(placed=placed))
    made: Any = Collector(this, None)  # type: ignore[arg-type]

    async def copy(host: Any, request: Any, revisions: Any, target: Path) -> None:
        copied.append((host.name, request.shards))
        if host.name in errors:
            raise errors[host.name]

    made._copy = copy
    return made


def collect(made: Any) -> None:
    asyncio.run(made._collect(Path("nowhere"), {1: SEQ}, {1: 1}))


def test_each_shard_is_copied_once_and_this_host_first() -> None:
    copied: list[tuple[str, tuple[int, ...]]] = []
    hosts = [Host("a", {0, 1}), Host("b", {1, 2}), Host("c", {2, 0})]
    collect(collector(hosts, copied))
    assert copied == [("a", (0, 1)), ("b", (2,))]


def test_a_host_that_fails_is_replaced_by_another_one_with_its_shards() -> None:
    copied: list[tuple[str, tuple[int, ...]]] = []
    hosts = [Host("a", {0, 1}), Host("b", {1, 2}), Host("c", {2, 0})]
    collect(collector(hosts, copied, b=LogAway("gone")))
    assert copied == [("a", (0, 1)), ("b", (2,)), ("c", (2,))]


def test_a_shard_without_another_copy_says_why_there_is_no_snapshot() -> None:
    copied: list[tuple[str, tuple[int, ...]]] = []
    hosts = [Host("a", {0, 1}), Host("b", {1, 2}), Host("c", {2, 0}, applied=SEQ - 1)]
    with pytest.raises(Unavailable, match="no host could copy shard 2; b: gone"):
        collect(collector(hosts, copied, b=LogAway("gone")))


def test_a_changed_index_ends_the_snapshot_at_once() -> None:
    copied: list[tuple[str, tuple[int, ...]]] = []
    hosts = [Host("a", {0, 1}), Host("b", {1, 2}), Host("c", {2, 0})]
    with pytest.raises(Conflict):
        collect(collector(hosts, copied, b=Conflict("changed", code="index_changed_meanwhile")))
    assert [name for name, _ in copied] == ["a", "b"]
