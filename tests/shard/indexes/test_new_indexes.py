"""New indexes are made in the background, or at their first use, whatever fails meanwhile."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from common import durable_files
from common.errors import StorageFull, Unavailable
from common.protocol.messages import CatalogUpdate, IndexEntry
from shard.indexes import opening_indexes
from shard.indexes.closed_index_facts import ClosedIndex
from shard.indexes.created_index_numbers import CreatedIndexes
from shard.storage.manifest import SHARD_FILE, ShardManifest, read_manifest
from tests.shard.indexes.shard_indexes import (
    CATALOG,
    EMPTY,
    SETTINGS,
    ShardIndexes,
    one_item_group,
    stopped,
    stopped_without_files,
)


@pytest.mark.parametrize("fails_behind_the_rename", [False, True])
async def test_the_next_start_finds_what_a_failed_making_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_behind_the_rename: bool
) -> None:
    sync_folder = durable_files.sync_folder
    indexes = ShardIndexes(tmp_path)
    indexes.start()

    def refuse(path: Path) -> None:
        if path == tmp_path:
            raise OSError(errno.EIO, "refused")
        sync_folder(path)

    def refuse_file(_: CreatedIndexes, folder: Path) -> None:
        raise OSError(errno.EIO, "refused", folder)

    with monkeypatch.context() as patch:
        if fails_behind_the_rename:
            patch.setattr(durable_files, "sync_folder", refuse)
        else:
            patch.setattr(CreatedIndexes, "write", refuse_file)
        await indexes.catalog.take(CATALOG)
        with pytest.raises(Unavailable, match="cannot be made now: the disk refused"):
            await indexes.opened(1)
    assert (tmp_path / "index-1").exists() == fails_behind_the_rename
    await indexes.close()

    again = ShardIndexes(tmp_path)
    again.start()
    await again.catalog.take(EMPTY)
    assert not (tmp_path / "index-1").exists()
    await again.close()


async def test_a_making_of_which_the_disk_refused_only_the_last_sync_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore that failed there kept its files until the next index was made."""
    indexes = ShardIndexes(tmp_path)
    indexes.start()
    sync_folder = durable_files.sync_folder
    refused: list[Path] = []

    def refuse_once(path: Path) -> None:
        if path == tmp_path and not refused:
            refused.append(path)
            raise OSError(errno.EIO, "refused")
        sync_folder(path)

    monkeypatch.setattr(durable_files, "sync_folder", refuse_once)
    with pytest.raises(OSError, match="refused"):
        indexes.folders.make(CATALOG.indexes[0])
    assert refused
    assert not (tmp_path / "index-1").exists()
    manifest = read_manifest(tmp_path / SHARD_FILE, ShardManifest)
    assert manifest is not None
    assert manifest.indexes == ()
    await indexes.close()


@pytest.mark.parametrize("fails_behind_the_rename", [False, True])
@pytest.mark.parametrize("is_dropped", [False, True])
async def test_an_index_that_could_not_be_made_is_made_by_the_next_use_or_dropped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fails_behind_the_rename: bool,
    is_dropped: bool,
) -> None:
    indexes = ShardIndexes(tmp_path)
    indexes.start()
    await indexes.catalog.take(EMPTY)
    sync_folder = durable_files.sync_folder

    def refuse(path: Path) -> None:
        if path == tmp_path or not fails_behind_the_rename:
            raise OSError(errno.ENOSPC, "refused")
        sync_folder(path)

    entry = IndexEntry(1, "things", 3, {})
    with monkeypatch.context() as patch:
        patch.setattr(durable_files, "sync_folder", refuse)
        await indexes.catalog.prepare(entry)  # succeeds: it is made in the background
        await indexes.catalog.take(CatalogUpdate(3, (entry,), base=2))
        with pytest.raises(StorageFull, match="no room"):
            await indexes.groups.apply(one_item_group(1, seq=4))
    assert [number for number, _ in indexes.closed.items()] == [1]
    if is_dropped:
        await indexes.catalog.take(CatalogUpdate(5, (), base=3, gone=(1,)))
        assert indexes.all_numbers() == []
    else:
        await indexes.groups.apply(one_item_group(1, seq=4))
    await stopped(indexes)

    again = ShardIndexes(tmp_path)
    again.start()
    assert [one.num_docs for _, one in again.closed.items()] == ([] if is_dropped else [1])
    assert (tmp_path / "index-1").exists() != is_dropped
    await again.close()


async def test_a_new_index_needs_nothing_on_disk_until_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill before it was made: the catalog still names it, and so it is made empty."""
    monkeypatch.setattr(opening_indexes, "MAKING_MAX", 0)
    indexes = ShardIndexes(tmp_path)
    indexes.start()
    await indexes.catalog.take(EMPTY)
    entries = tuple(IndexEntry(n, f"index{n}", 3, {}) for n in (1, 2))
    for entry in entries:
        await indexes.catalog.prepare(entry)
    await indexes.catalog.take(CatalogUpdate(3, entries, base=2))
    assert indexes.all_numbers() == [1, 2]
    assert [one.num_docs for _, one in indexes.closed.items()] == [0, 0]
    assert not any(name.startswith("index-") for name in os.listdir(tmp_path))
    await indexes.opened(1)
    # Another configuration reaches it before it was made, and one that was only prepared.
    changed = IndexEntry(2, "index2", 4, {"stop_words": ["the"]})
    await indexes.catalog.take(CatalogUpdate(4, (changed,), base=3))
    assert (await indexes.opened(2)).partition.generation.entry == changed
    await indexes.catalog.prepare(IndexEntry(3, "index3", 5, {}))
    await stopped_without_files(indexes, monkeypatch)

    again = ShardIndexes(tmp_path)
    again.start()
    wanted = (entries[0], changed, IndexEntry(3, "index3", 6, {"stop_words": ["a"]}))
    await again.catalog.take(CatalogUpdate(6, wanted))
    for entry in wanted:
        assert (await again.opened(entry.number)).partition.generation.entry == entry
    await again.close()


async def test_indexes_that_are_made_at_the_same_time_are_all_listed(tmp_path: Path) -> None:
    indexes = ShardIndexes(tmp_path)
    indexes.start()
    await indexes.catalog.take(EMPTY)
    entries = tuple(IndexEntry(n, f"index{n}", 3, {}) for n in range(1, 13))
    await indexes.catalog.take(CatalogUpdate(3, entries, base=2))
    await asyncio.gather(*(indexes.opened(one.number) for one in entries))
    await stopped(indexes)
    again = ShardIndexes(tmp_path)
    again.start()
    assert again.all_numbers() == [one.number for one in entries]
    await again.close()


async def test_a_copy_has_indexes_that_were_not_made_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening_indexes, "MAKING_MAX", 0)
    indexes = ShardIndexes(tmp_path / "shard")
    (tmp_path / "shard").mkdir()
    indexes.start()
    await indexes.catalog.take(CATALOG)
    await indexes.copy(1, tmp_path / "copy", 0)
    assert ClosedIndex.of(tmp_path / "copy", SETTINGS.map_bytes_max).num_docs == 0
    await indexes.close()
