"""A reader, one of several coordinators, changes nothing that the owner has."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from common import data_directory
from common.errors import InternalError
from common.limits import Limits
from common.protocol.messages import SnapshotSource
from coordinator.catalog.catalog import Catalog
from coordinator.catalog.catalog_file import CatalogFile
from coordinator.catalog.catalog_state import CatalogState
from coordinator.cluster.read_only_cluster_and_catalog import OwnerOnly, ReaderCatalog
from coordinator.cluster.shared_memory import SharedState, create_shared_state
from coordinator.settings import Settings
from coordinator.write.index_administration import IndexAdministration


async def test_a_reader_leaves_the_file_of_the_catalog_alone(tmp_path: Path) -> None:
    """It may learn before the owner that all shards have what was restored.

    Replaced beneath the owner, which appends to what it knows, the file was damaged for good.
    """
    owner = Catalog.open(tmp_path, 1)

    def restored(state: CatalogState) -> CatalogState:
        source = SnapshotSource("/snapshots/one", 1, 0, ((0, ""),))
        return state.with_index(
            msgspec.structs.replace(state.new_entry("films", {}), source=source)
        )

    await owner.change(restored)
    memory = create_shared_state(2)
    try:
        shared = SharedState(memory, 2, 0)
        shared.publish_catalog(owner.state.revision)
        reader = ReaderCatalog(Settings(data_dir=tmp_path), SharedState(memory, 2, 1))
        await reader.catch_up()
        assert reader.state.indexes[0].source is not None
        listeners: list[Callable[[Any], None]] = []
        cluster: Any = SimpleNamespace(is_ready=True, on_state=listeners.append)
        log: Any = None
        administration = IndexAdministration(cluster, reader, Limits(), log)
        path = data_directory.catalog_path(tmp_path)
        before = path.read_bytes(), path.stat().st_ino

        for listener in listeners:
            listener(None)
        await asyncio.sleep(0.2)
        with pytest.raises(OwnerOnly):
            await reader.change(CatalogState.without_sources)

        assert (path.read_bytes(), path.stat().st_ino) == before
        assert reader.state.indexes[0].source is not None
        del administration
    finally:
        os.close(memory)


async def test_a_reader_has_the_catalog_of_a_new_service_before_its_first_change(
    tmp_path: Path,
) -> None:
    """Otherwise it would not listen, and the owner would get all connections."""
    owner = Catalog.open(tmp_path, 1)
    assert owner.state.revision == 0
    memory = create_shared_state(2)
    try:
        shared = SharedState(memory, 2, 0)
        reader = ReaderCatalog(Settings(data_dir=tmp_path), SharedState(memory, 2, 1))
        with pytest.raises(OwnerOnly):
            await reader.catch_up()  # nothing is published yet
        shared.publish_catalog(None)
        with pytest.raises(OwnerOnly):
            await reader.catch_up()  # a change is under way
        shared.publish_catalog(owner.state.revision)
        await reader.catch_up()
        assert reader.is_current
    finally:
        os.close(memory)


async def test_a_reader_answers_again_after_a_change_that_it_read_was_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Catalog.open(tmp_path, 1)
    memory = create_shared_state(2)
    loop, is_read = asyncio.get_running_loop(), threading.Event()
    is_stored = asyncio.Event()
    store = CatalogFile.store

    def store_and_undo(file: CatalogFile, former: CatalogState, state: CatalogState) -> None:
        store(file, former, state)
        loop.call_soon_threadsafe(is_stored.set)
        is_read.wait(30)
        file.replace(former)
        raise OSError(errno.EIO, "Input/output error")

    try:
        shared = SharedState(memory, 2, 0)
        owner.on_stored = lambda: shared.publish_catalog(owner.state.revision)
        await owner.change(lambda state: state.with_section("keys", {}))
        reader = ReaderCatalog(Settings(data_dir=tmp_path), SharedState(memory, 2, 1))
        monkeypatch.setattr(CatalogFile, "store", store_and_undo)
        changing = asyncio.ensure_future(
            owner.change(lambda state: state.with_section("keys", {"one": {}}))
        )
        await is_stored.wait()
        with pytest.raises(OwnerOnly):
            await reader.catch_up()  # the file has what no request sees yet
        is_read.set()
        with pytest.raises(InternalError, match="nothing was changed"):
            await changing

        await reader.catch_up()
        assert reader.is_current
        assert reader.section("keys") == {}
    finally:
        is_read.set()
        os.close(memory)
