"""Indexes are created, configured and deleted on all shards or on none."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from common.deadline import Deadline
from common.errors import (
    ConfigurationSwitched,
    Conflict,
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    NotFound,
    StorageFull,
    Unavailable,
)
from common.limits import Limits
from common.protocol.messages import IndexEntry, SnapshotSource
from coordinator.catalog.catalog import Catalog
from coordinator.catalog.catalog_file import CatalogFile
from coordinator.catalog.catalog_state import CatalogState, RestoredIndex
from coordinator.cluster.shard_client import ShardState
from coordinator.replication.shared_log import SharedLog
from coordinator.write import index_administration
from tests.coordinator.conftest import MakeService, soon
from tests.coordinator.model_shard import only
from tests.waiting import until


class TestConfiguration:
    async def test_it_is_prepared_then_committed_then_pushed(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(2)
        index, plan = await service.administration.configure("films", {"colour": 1})
        assert plan.warnings == ["colour is unknown and has no effect"]
        for shard in service.shards:
            assert (only(shard.prepared).entry,) == service.catalog.message().indexes
            assert shard.catalogs[-1].indexes == service.catalog.message().indexes
        stored = Catalog.open(service.data, 2).index("films")
        assert (stored.number, stored.revision) == (index.number, index.revision)
        assert stored.document == index.document
        assert stored.configuration == index.configuration

    async def test_numbers_and_revisions_are_never_used_again(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(1)
        first = await service.configure("films")
        again = await service.configure("films")
        await service.administration.delete_index("films")
        reborn = await service.configure("films")
        assert first.number == again.number < reborn.number
        assert first.revision < again.revision < reborn.revision

    async def test_a_wrong_document_changes_nothing(self, make_service: MakeService) -> None:
        service = await make_service(1)
        with pytest.raises(InvalidRequest):
            await service.administration.configure("films", {"aggregations": 7})
        assert service.shards[0].prepared == []
        with pytest.raises(NotFound, match="POST a configuration"):
            service.catalog.index("films")

    async def test_a_shard_that_cannot_prepare_leaves_the_old_one(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(2)
        index = await service.configure()
        service.shards[1].prepare_refusal = StorageFull("no room")
        with pytest.raises(StorageFull):
            await service.administration.configure("films", {"language": "english"})
        assert service.catalog.index("films") == index
        given_up = service.shards[0].prepared[-1].entry.revision
        last = service.shards[0].catalogs[-1]  # what it does not name is discarded
        assert last.revision == service.catalog.state.revision
        assert given_up not in [entry.revision for entry in last.indexes]
        service.shards[1].prepare_refusal = None
        changed, _ = await service.administration.configure("films", {"language": "english"})
        assert changed.revision > index.revision

    @pytest.mark.parametrize(("number", "expected"), [(28, StorageFull), (5, InternalError)])
    async def test_a_catalog_that_cannot_be_written_leaves_the_old_one(
        self,
        make_service: MakeService,
        monkeypatch: pytest.MonkeyPatch,
        number: int,
        expected: type[Exception],
    ) -> None:
        service = await make_service(2)
        index = await service.configure()
        with monkeypatch.context() as patch:
            patch.setattr(CatalogFile, "store", Mock(side_effect=OSError(number, "refused")))
            with pytest.raises(expected, match="nothing was changed"):
                await service.administration.configure("films", {"language": "english"})
        assert service.catalog.index("films") == index
        for shard in service.shards:
            prepared, last = shard.prepared[-1].entry, shard.catalogs[-1]
            assert prepared not in last.indexes  # so it is discarded, and takes no room
            assert len(shard.catalogs) > 2
            assert last.revision == service.catalog.state.revision

    async def test_restored_indexes_are_there_though_their_source_cannot_be_released_yet(
        self, make_service: MakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(index_administration, "RELEASE_PAUSE_SECONDS", 0.01)
        service = await make_service(2)
        source = SnapshotSource("/snapshots/one", 1, 0, ((0, ""), (0, "")))
        wanted = RestoredIndex("films", "films", {}, source)
        stores = CatalogFile.store
        num_calls = itertools.count(1)

        def refuse_the_second(*arguments: Any) -> None:
            if next(num_calls) in (2, 3):
                raise OSError(28, "No space left on device")
            stores(*arguments)

        monkeypatch.setattr(CatalogFile, "store", refuse_the_second)
        await service.administration.restore([wanted], soon())
        assert service.catalog.index("films").name == "films"
        (stored,) = service.catalog.state.indexes
        assert stored.source == source
        await until(lambda: service.catalog.state.indexes[0].source is None)

    async def test_writes_wait_while_an_index_is_rebuilt(self, make_service: MakeService) -> None:
        service = await make_service(1)
        index = await service.configure()
        shard = service.shards[0]
        shard.catalog_gate.clear()
        configuring = asyncio.ensure_future(service.configure())
        await until(lambda: len(shard.prepared) >= 2)
        write = asyncio.ensure_future(service.ingest.put_items(index, b'[{"id":1}]', soon()))
        with pytest.raises(DeadlineExceeded, match="nothing was written"):
            await service.ingest.put_items(index, b'[{"id":2}]', Deadline.after_ms(300))
        assert not write.done()
        shard.catalog_gate.set()
        await configuring
        assert (await write).created == 1

    async def test_requests_see_it_when_all_shards_have_it(self, make_service: MakeService) -> None:
        service = await make_service(2)
        first = await service.configure()
        service.shards[1].catalog_gate.clear()
        configuring = asyncio.ensure_future(service.configure())
        await until(lambda: service.catalog.state.revision > first.revision)
        assert service.catalog.index("films").revision == first.revision
        service.shards[1].catalog_gate.set()
        await configuring
        assert service.catalog.index("films").revision > first.revision

    async def test_a_shard_that_was_away_gets_it_with_its_handshake(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(2)
        await service.configure()
        await service.shards[1].die()
        await service.wait_state(1, ShardState.AWAY)
        with pytest.raises(Unavailable):
            await service.configure("books")
        await service.administration.delete_index("films")
        await service.shards[1].announce(service.data)
        await service.wait_state(1, ShardState.SERVING)
        assert service.shards[1].catalogs[-1].indexes == ()

    async def test_a_deleted_index_is_gone_for_writes_that_wait(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(1)
        index = await service.configure()
        await service.ingest.put_items(index, b'[{"id":1}]', soon())
        service.shards[0].catalog_gate.clear()
        deleting = asyncio.ensure_future(service.administration.delete_index("films"))
        await until(lambda: service.catalog.state.revision > index.revision)
        service.shards[0].catalog_gate.set()
        await deleting
        assert service.shards[0].documents == {}
        with pytest.raises(ConfigurationSwitched, match="nothing was written"):
            await service.ingest.put_items(index, b'[{"id":2}]', soon())
        with pytest.raises(NotFound):
            await service.administration.delete_index("films")

    async def test_an_index_renamed_meanwhile_is_not_deleted_by_its_alias(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(1)
        await service.configure()
        administration = service.administration
        renaming = administration.rename("films", "former", keeps_alias=True, deadline=soon())
        deleting = administration.delete_index("films")  # waits for its turn
        _, deleted = await asyncio.gather(renaming, deleting, return_exceptions=True)
        assert isinstance(deleted, NotFound)
        assert list(service.catalog.indexes) == ["former"]
        assert service.catalog.index("films").name == "former"

    async def test_it_goes_on_after_its_request(self, make_service: MakeService) -> None:
        service = await make_service(1)
        service.shards[0].catalog_gate.clear()
        with pytest.raises(DeadlineExceeded, match="continues"):
            await service.administration.configure("films", {}, Deadline.after_ms(20))
        service.shards[0].catalog_gate.set()
        await service.configure("books")  # waits for its turn
        assert service.catalog.index("films").name == "films"

    async def test_an_alias_set_meanwhile_keeps_its_name(
        self, make_service: MakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service = await make_service(1)
        await service.configure()
        log = service.administration._log
        prepare = log.prepare

        async def prepare_while_an_alias_is_set(entry: IndexEntry) -> None:
            await prepare(entry)
            await service.catalog.change(lambda state: state.with_aliases({"movies": "films"}))

        monkeypatch.setattr(log, "prepare", prepare_while_an_alias_is_set)
        with pytest.raises(InvalidRequest, match="alias of 'films'"):
            await service.configure("movies")
        assert list(service.catalog.indexes) == ["films"]
        assert service.catalog.index("movies").name == "films"

    async def test_an_alias_cannot_be_configured(self, make_service: MakeService) -> None:
        service = await make_service(1)
        await service.configure()
        await service.catalog.change(lambda state: state.with_aliases({"movies": "films"}))
        assert service.catalog.index("movies").name == "films"
        with pytest.raises(InvalidRequest, match="alias of 'films'"):
            await service.configure("movies")


class TestOtherHosts:
    """A change is made again when another host that shares the catalog was faster."""

    async def test_a_deletion_spares_an_index_that_has_taken_the_name(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(1)
        await service.configure()

        def other(state: CatalogState) -> CatalogState:
            state = state.renamed("films", "former", keeps_alias=False)
            return state.with_index(state.new_entry("films", {}))

        _let_another_host_be_faster(service.catalog, other)
        with pytest.raises(NotFound, match="no index 'films' any more"):
            await service.administration.delete_index("films")
        assert sorted(service.catalog.indexes) == ["films", "former"]

    async def test_an_index_is_not_moved_over_another_one_than_it_was_asked_for(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(1)
        await service.configure("new")
        await service.configure()

        def other(state: CatalogState) -> CatalogState:
            state = state.renamed("films", "former", keeps_alias=False)
            return state.with_index(state.new_entry("films", {}))

        _let_another_host_be_faster(service.catalog, other)
        with pytest.raises(NotFound):
            await service.administration.move("new", "films", soon())
        assert sorted(service.catalog.indexes) == ["films", "former", "new"]

    async def test_an_index_that_is_gone_is_not_renamed(self, make_service: MakeService) -> None:
        service = await make_service(1)
        await service.configure()
        _let_another_host_be_faster(service.catalog, lambda state: state.without_index("films"))
        with pytest.raises(NotFound):
            await service.administration.rename(
                "films", "movies", keeps_alias=True, deadline=soon()
            )
        assert service.catalog.state.aliases == {}

    async def test_no_index_gets_a_name_that_requests_do_not_see_yet(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(1)
        await service.configure()

        def other(state: CatalogState) -> CatalogState:
            return state.with_index(state.new_entry("movies", {}))

        _let_another_host_be_faster(service.catalog, other, is_seen=False)
        with pytest.raises(Conflict):
            await service.administration.rename(
                "films", "movies", keeps_alias=False, deadline=soon()
            )
        assert [one.name for one in service.catalog.state.indexes] == ["films", "movies"]

    async def test_settings_of_an_index_that_is_gone_do_not_create_it(
        self, make_service: MakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service = await make_service(1)
        await service.configure()
        _let_another_host_be_faster(service.catalog, lambda state: state.without_index("films"))
        shared = Mock(_changes=Mock(change=service.catalog.change))
        put_index = partial(SharedLog.put_index, shared)
        monkeypatch.setattr(service.administration._log, "put_index", put_index)
        with pytest.raises(NotFound):
            await service.administration.reconfigure("films", lambda before: {**before, "typo": 0})
        assert service.catalog.indexes == {}

    @pytest.mark.parametrize("what", ["configure", "create"])
    async def test_all_hosts_together_have_no_more_indexes_than_may_be(
        self, make_service: MakeService, monkeypatch: pytest.MonkeyPatch, what: str
    ) -> None:
        service = await make_service(1, limits=replace(Limits(), indexes_max=2))
        await service.configure()

        def other(state: CatalogState) -> CatalogState:
            return state.with_index(state.new_entry("theirs", {}))

        _let_another_host_be_faster(service.catalog, other)
        shared = Mock(_changes=Mock(change=service.catalog.change))
        put_index = partial(SharedLog.put_index, shared)
        monkeypatch.setattr(service.administration._log, "put_index", put_index)
        with pytest.raises(InvalidRequest, match="there may be 2 "):
            await getattr(service.administration, what)("ours", {})
        assert sorted(service.catalog.indexes) == ["films", "theirs"]


def _let_another_host_be_faster(
    catalog: Catalog, other: Callable[[CatalogState], CatalogState], *, is_seen: bool = True
) -> None:
    """Have another host change the catalog while the next change is proposed."""

    async def propose(
        function: Callable[[CatalogState], CatalogState], deadline: Deadline | None = None
    ) -> CatalogState:
        function(catalog.state)  # has no effect
        await catalog.change_here(other, is_active=False)
        if is_seen:
            catalog.activate()
        state = await catalog.change_here(function, is_active=False)
        catalog.activate()
        return state

    catalog.propose = propose
