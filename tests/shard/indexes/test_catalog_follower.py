"""The indexes of a shard follow the catalog: created, configured and dropped."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from pathlib import Path

import pytest

from common.errors import Conflict, NotFound, StorageFull
from common.protocol.messages import CatalogUpdate, IndexEntry
from common.shard_settings import ShardSettings
from shard.indexes import catalog_follower
from shard.indexes import indexes as module
from shard.indexes.created_index_numbers import CreatedIndexes
from shard.indexes.index_folders import IndexFolders
from shard.indexes.newest_write_groups import newest_groups
from shard.indexes.open_index import OpenIndex
from shard.partition.opening_progress import OpeningProgress
from shard.partition.partition import Partition
from tests.shard.indexes.shard_indexes import (
    CATALOG,
    ShardIndexes,
    holding_opening,
    one_item_group,
    restarted,
    started,
    stopped,
)
from tests.waiting import until


async def test_differences_of_the_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await restarted(tmp_path, 4)
    assert (len(indexes.open.all()), len(indexes.closed.items())) == (0, 4)

    with pytest.raises(Conflict, match="revision 4 here, not 3"):
        await indexes.catalog.take(CatalogUpdate(5, (), base=3, gone=(1,)))
    assert indexes.all_numbers() == [1, 2, 3, 4]

    # One that was only prepared, as the catalog never named it, goes with the next difference.
    await indexes.catalog.prepare(IndexEntry(9, "nine", 5, {}))
    changed = IndexEntry(2, "index2", 5, {"stop_words": ["the"]})
    await indexes.catalog.prepare(changed)
    await indexes.catalog.prepare(IndexEntry(3, "index3", 5, {"stop_words": ["a"]}))
    await indexes.catalog.take(CatalogUpdate(5, (changed,), base=4, gone=(1,)))

    assert indexes.all_numbers() == [2, 3, 4]
    names = [name for name in os.listdir(tmp_path) if name.startswith("index-")]
    assert sorted(names) == ["index-2", "index-3", "index-4"]
    assert (await indexes.opened(2)).partition.generation.entry == changed
    assert (await indexes.opened(3)).prepared is None
    assert (await indexes.opened(3)).partition.generation.entry.revision == 3
    with pytest.raises(NotFound):
        await indexes.opened(1)
    await indexes.close()


async def test_a_revision_that_was_given_up_is_not_taken_for_another_of_its_number(
    tmp_path: Path,
) -> None:
    indexes = await started(tmp_path, 1)
    await indexes.catalog.prepare(IndexEntry(1, "index1", 2, {"stop_words": ["the"]}))
    entry = IndexEntry(1, "index1", 2, {"stop_words": ["a"]})
    await indexes.catalog.take(CatalogUpdate(2, (entry,), base=1))

    assert (await indexes.opened(1)).partition.generation.entry == entry
    await indexes.close()


@pytest.mark.parametrize("is_soon", [False, True])
async def test_an_index_that_could_not_be_dropped_gives_another_one_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_soon: bool
) -> None:
    """A number that the catalog never named is used again."""
    indexes = ShardIndexes(tmp_path)
    indexes.start()
    await indexes.catalog.take(CATALOG)
    await indexes.groups.apply(one_item_group(1, seq=1))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "refused")

    monkeypatch.setattr(catalog_follower, "DROP_PAUSE_SECONDS", 0.01)
    entry = IndexEntry(1, "others", 3, {})
    with monkeypatch.context() as patch:
        patch.setattr(CreatedIndexes, "remove", refuse)
        await indexes.catalog.take(CatalogUpdate(2, (), base=1, gone=(1,)))
        assert (tmp_path / "index-1").exists()
        with pytest.raises(StorageFull, match="given up"):
            await indexes.catalog.prepare(entry)
        await asyncio.sleep(0.03)
    if not is_soon:
        await until(lambda: not (tmp_path / "index-1").exists())
    await indexes.catalog.prepare(entry)
    await indexes.catalog.take(CatalogUpdate(3, (entry,), base=2))
    with indexes.open.using(await indexes.opened(1)) as index:
        assert index.partition.newest.num_docs == 0
    await indexes.close()


@pytest.mark.parametrize("is_open", [False, True])
async def test_a_call_that_comes_while_an_index_is_dropped_leaves_nothing_of_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_open: bool,
) -> None:
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await restarted(tmp_path, 2, ShardSettings(open_indexes_max=1))
    if is_open:
        await indexes.opened(1)
    may_remove, removed = threading.Event(), threading.Event()
    remove, open_index, close = CreatedIndexes.remove, IndexFolders.open, OpenIndex.close

    def remove_when_told(created: CreatedIndexes, number: int) -> None:
        assert may_remove.wait(10)
        remove(created, number)
        removed.set()

    def open_later(folders: IndexFolders, number: int, opening: OpeningProgress) -> Partition:
        partition = open_index(folders, number, opening)
        if number == 1:
            assert removed.wait(10)
            time.sleep(0.05)
        return partition

    def close_later(index: OpenIndex) -> None:
        assert index.partition.number == 2 or removed.wait(10)
        time.sleep(0.05)
        close(index)

    monkeypatch.setattr(CreatedIndexes, "remove", remove_when_told)
    monkeypatch.setattr(IndexFolders, "open", open_later)
    monkeypatch.setattr(OpenIndex, "close", close_later)
    dropping = asyncio.ensure_future(indexes.drop(1))
    await asyncio.sleep(0)
    # Its number is still there: it opens, or it closes because another one opens.
    call = asyncio.ensure_future(indexes.opened(2 if is_open else 1))
    await until(lambda: 1 in (indexes.closing if is_open else indexes.opening).numbers())
    may_remove.set()
    await asyncio.gather(dropping, call, return_exceptions=True)
    async with asyncio.timeout(10):
        await indexes.closing.wait_for_all()

    assert not dropping.exception()
    assert not caplog.records
    assert indexes.open.get(1) is None
    assert indexes.closed.get(1) is None
    assert not indexes.has(1)
    await indexes.close()


async def test_the_newest_groups_are_listed_though_an_index_is_dropped_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await started(tmp_path, 2)
    for number in (1, 2):
        await indexes.groups.apply(one_item_group(number, seq=10 + number))
    await stopped(indexes)
    indexes = await started(tmp_path, 2)
    may_open = holding_opening(monkeypatch)
    listing = asyncio.ensure_future(newest_groups(indexes, 10))
    await until(lambda: indexes.opening.numbers() == [1])
    await indexes.drop(2)
    may_open.set()

    assert [(group.index, group.seq) for group in await listing] == [(1, 11)]
    await indexes.close()
