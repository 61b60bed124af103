"""Leases: states that cursors keep, limited in number and time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from common.errors import InvalidRequest, TooManyRequests
from common.limits import Limits
from coordinator.cluster.cursor_leases import Leases
from tests.waiting import until


class FakeCluster:
    """Horizons, and how often each is held."""

    def __init__(self) -> None:
        self.seq = 1
        self.held: list[tuple[int, int]] = []
        self.horizons = SimpleNamespace(release=self._release)

    def horizon(self, index: int) -> int:
        return self.seq

    def begin_read(self, index: int) -> int:
        self.held.append((index, self.seq))
        return self.seq

    def _release(self, index: int, seq: int) -> None:
        self.held.remove((index, seq))


def make(**limits: int) -> tuple[Leases, FakeCluster]:
    cluster: Any = FakeCluster()
    return Leases(cluster, Limits(**limits)), cluster


async def test_states_are_limited() -> None:
    leases, cluster = make(cursor_states_max=2, cursor_lease_ms=60_000)
    for cluster.seq in (1, 2):
        leases.begin(7)
    leases.begin(7)  # the same state again

    cluster.seq = 3
    with pytest.raises(TooManyRequests, match=r"2 \(limit cursor_states_max\)"):
        leases.begin(7)

    assert cluster.held == [(7, 1), (7, 2)]


async def test_states_whose_cursors_are_at_their_end_make_room() -> None:
    leases, cluster = make(cursor_states_max=3, cursor_lease_ms=60_000)
    cluster.seq = 1
    leases.begin(7)
    leases.begin(7)
    leases.note_page(7, 1, None, has_next=True)
    leases.note_page(7, 1, None, has_next=True)
    for _ in range(2):  # asked for twice: the other cursor has pages left
        leases.note_page(7, 1, "last page of one", has_next=False)
    cluster.seq = 2
    leases.begin(7)
    leases.note_page(7, 2, None, has_next=False)
    cluster.seq = 3
    leases.begin(7)
    assert cluster.held == [(7, 1), (7, 2), (7, 3)], "a last page may be asked for again"
    leases.renew(7, 2)

    cluster.seq = 4
    leases.begin(7)
    assert cluster.held == [(7, 1), (7, 3), (7, 4)]
    cluster.seq = 5
    with pytest.raises(TooManyRequests):
        leases.begin(7)
    leases.note_page(7, 1, "last page of the other", has_next=False)
    leases.begin(7)
    assert cluster.held == [(7, 3), (7, 4), (7, 5)]


async def test_lease_ends_by_itself() -> None:
    leases, cluster = make(cursor_lease_ms=30)
    horizon = leases.begin(7)
    leases.renew(7, horizon)
    await until(lambda: not cluster.held)

    with pytest.raises(InvalidRequest, match=r"30 \(limit cursor_lease_ms\) ms"):
        leases.renew(7, horizon)
