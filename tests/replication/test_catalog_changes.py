"""A change of the catalog is answered, whatever keeps this host from carrying it out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from common.deadline import Deadline
from common.errors import DeadlineExceeded, StorageFull
from coordinator.catalog.catalog_state import CatalogState
from coordinator.replication.applying.entry_applying import Applier
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.host.pending_changes import PendingChanges
from coordinator.replication.log.log_entries import Kind
from coordinator.replication.publishing import catalog_changes
from coordinator.replication.publishing.catalog_changes import CatalogChanges
from coordinator.replication.publishing.entry_publishing import Publisher
from coordinator.replication.publishing.publish_queue import PublishQueues
from coordinator.settings import Settings
from tests.waiting import until


class _Host:
    """A host whose changes the log confirms, and which does not come to carry them out.

    Attributes:
        blocked: what keeps it from that; None: it is only slow.
        num_published: changes.
    """

    def __init__(self) -> None:
        self.blocked: StorageFull | None = None
        self.num_published = 0
        catalog = SimpleNamespace(state=CatalogState(), check_complete=lambda: None)
        context = SimpleNamespace(
            settings=Settings(),
            catalog=catalog,
            cluster=None,
            serving=SimpleNamespace(why_stopped=""),
        )
        self.own = PendingChanges()
        self.changes = CatalogChanges(
            cast(HostContext, context),
            cast(Publisher, self),
            cast(Applier, self),
            self.own,
            cast(PublishQueues, None),
        )

    def check_writable(self) -> None:
        if self.blocked is not None:
            raise StorageFull("nothing was written")

    def next_id(self) -> str:
        return f"change-{self.num_published}"

    async def append(
        self, kind: Kind, id: str, packed: bytes, applied: asyncio.Future[bool]
    ) -> int:
        self.num_published += 1
        return self.num_published


@pytest.fixture
async def host(monkeypatch: pytest.MonkeyPatch) -> _Host:
    monkeypatch.setattr(catalog_changes, "BLOCKED_SECONDS", 0.01)
    return _Host()


def _named(alias: str) -> Callable[[CatalogState], CatalogState]:
    return lambda state: state.with_aliases({alias: "films"})


def _begin(host: _Host, alias: str, deadline: Deadline | None = None) -> asyncio.Task[Any]:
    return asyncio.create_task(host.changes.change(_named(alias), deadline))


async def test_a_disk_that_is_full_ends_the_change_that_finds_it_so(host: _Host) -> None:
    first = _begin(host, "movies")
    await until(lambda: host.num_published == 1)
    waiting = _begin(host, "cinema")
    host.blocked = StorageFull("the disk is full")

    with pytest.raises(StorageFull, match="the disk is full; the log has the change"):
        await asyncio.wait_for(first, 10)
    with pytest.raises(StorageFull, match="nothing was written"):
        await asyncio.wait_for(waiting, 10)
    assert host.num_published == 1
    assert not host.own


async def test_a_change_is_answered_within_its_deadline(host: _Host) -> None:
    first = _begin(host, "movies", Deadline.after_ms(200))
    await until(lambda: host.num_published == 1)
    waiting = _begin(host, "cinema", Deadline.after_ms(10))

    for one in (waiting, first):
        with pytest.raises(DeadlineExceeded, match="may still be carried out"):
            await asyncio.wait_for(one, 10)
    assert not host.own


async def test_a_change_that_would_be_refused_does_not_wait_for_others(
    host: _Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _begin(host, "movies")
    await until(lambda: host.num_published == 1)
    monkeypatch.setattr(host.changes, "_check_not_blocked", lambda _: None)
    host.blocked = StorageFull("the disk is full")

    with pytest.raises(StorageFull, match="nothing was written"):
        await asyncio.wait_for(_begin(host, "cinema"), 10)
    assert not first.done()
    first.cancel()


async def test_no_snapshot_waits_for_room(host: _Host) -> None:
    async with host.changes.holding_indexes():  # as a change does that is being carried out
        waiting = asyncio.create_task(host.changes.holding_indexes().__aenter__())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        host.blocked = StorageFull("the disk is full")
        with pytest.raises(StorageFull, match="the disk is full; nothing was done"):
            await asyncio.wait_for(waiting, 10)
    async with asyncio.timeout(10), host.changes.holding_indexes():
        pass
