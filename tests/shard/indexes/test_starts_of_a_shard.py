"""A start: what it knows of indexes that it does not open, what it opens, what ends it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from common.data_directory import DataDirectoryError
from common.errors import InternalError
from common.process.thread_priority import WRITER_NICENESS, run_in_background
from common.protocol.messages import CatalogUpdate, IndexEntry
from shard.indexes import indexes as module
from shard.indexes.closed_index_facts import ClosedIndex
from shard.indexes.created_index_numbers import CreatedIndexes
from shard.storage.lmdb_meta_page import read_meta_page
from shard.storage.manifest import MANIFEST_FILE
from shard.storage.storage_errors import DamagedEnvironment
from tests.shard.indexes.shard_indexes import (
    ShardIndexes,
    one_item_group,
    restarted,
    started,
    stopped,
    stopped_without_files,
)


async def test_what_a_kill_left_is_opened_once_the_shard_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill, a start read and built 250 of 1,225 indexes before it served: 35 s."""
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await restarted(tmp_path, 6)
    for number in (2, 5):
        await indexes.groups.apply(one_item_group(number, seq=10 + number))
    await stopped_without_files(indexes, monkeypatch)
    (tmp_path / "index-5" / "MANIFEST.json").unlink()

    again = ShardIndexes(tmp_path)
    again.start()
    assert again.folders.seq_max == 15
    closed = dict(again.closed.items())
    assert [one.num_docs for one in closed.values()] == [0, 1, 0, 0, 1, 0]
    assert [number for number, one in closed.items() if not one.is_settled] == [2, 5]
    assert all(one.num_bytes > 0 for one in closed.values())
    assert again.open.all() == []
    entries = tuple(IndexEntry(n, f"index{n}", n, {}) for n in range(1, 7))
    await again.catalog.take(CatalogUpdate(6, entries))
    assert again.is_ready
    assert again._settling is not None
    async with asyncio.timeout(30):
        await again._settling
    assert sorted(index.partition.number for index in again.open.all()) == [2, 5]
    assert (await again.opened(5)).partition.newest.num_docs == 1
    await again.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads share one nice value")
async def test_after_a_start_with_work_left_writes_do_not_get_the_mergers_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes = await started(tmp_path, 1)
    await indexes.groups.apply(one_item_group(1, seq=1))
    await stopped_without_files(indexes, monkeypatch)
    indexes = await started(tmp_path, 1)
    index = await indexes.opened(1)

    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    with ThreadPoolExecutor(1, initializer=run_in_background) as merger:
        found = merger.submit(lambda: index.submit(niceness).result()).result()
    await stopped(indexes)

    assert found == max(niceness(), WRITER_NICENESS)


async def test_damage_found_on_opening_concerns_that_index_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await restarted(tmp_path, 3)
    path = tmp_path / "index-2" / "data.mdb"
    content = path.read_bytes()
    at = content.rindex(b"configuration")
    assert at > 8192  # after the meta pages
    path.write_bytes(content[:8192] + bytes(len(content) - 8192))
    (tmp_path / "index-2" / "MANIFEST.json").write_bytes(b"damaged")

    for _ in range(2):
        with pytest.raises(InternalError):
            await indexes.opened(2)

    assert (await indexes.opened(1)).partition.number == 1
    await indexes.close()


async def test_data_file_that_was_cut_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    await (await restarted(tmp_path, 2)).close()
    (tmp_path / "index-2" / "data.mdb").write_bytes(b"")
    with pytest.raises(DamagedEnvironment, match=r"index-2/data\.mdb is empty or damaged"):
        ShardIndexes(tmp_path).start()


async def test_an_older_data_file_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await restarted(tmp_path, 2)
    path = tmp_path / "index-2" / "data.mdb"
    older = path.read_bytes()
    await indexes.groups.apply(one_item_group(2, seq=7))
    opened = indexes.open.all()
    await indexes.close()
    for index in opened:
        index.partition.close()
    path.write_bytes(older)
    with pytest.raises(DamagedEnvironment, match="older than the index was"):
        ShardIndexes(tmp_path).start()


@pytest.fixture
async def resting_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shard of five indexes, which are many here, with an item in the second."""
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await started(tmp_path, 5)
    await indexes.groups.apply(one_item_group(2, seq=7))
    await stopped(indexes)
    return tmp_path


def _known(folder: Path) -> dict[int, ClosedIndex]:
    """Return what a start knows of the indexes."""
    indexes = ShardIndexes(folder)
    indexes.start()
    indexes.merge_scheduler.stop()
    known = dict(indexes.closed.items())
    assert indexes.folders.seq_max == max(one.seq_max for one in known.values())
    assert all(one.num_bytes > 0 for one in known.values())
    return known


async def test_a_start_knows_the_counters_of_indexes_that_it_does_not_open(
    resting_folder: Path,
) -> None:
    known = _known(resting_folder)
    assert [one.num_docs for one in known.values()] == [0, 1, 0, 0, 0]
    assert known[2].seq_max == 7
    assert all(one.is_settled for one in known.values())
    indexes = await started(resting_folder, 5)
    assert indexes.open.all() == []
    assert (await indexes.opened(2)).partition.newest.num_docs == 1
    await stopped(indexes)


async def test_a_start_knows_what_only_the_log_has(
    resting_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes = await started(resting_folder, 5)
    await indexes.groups.apply(one_item_group(3, seq=8))
    await stopped_without_files(indexes, monkeypatch)
    known = _known(resting_folder)
    assert (known[3].num_docs, known[3].seq_max, known[3].is_settled) == (1, 8, False)
    assert [n for n, one in known.items() if not one.is_settled] == [3]


async def test_a_start_does_without_a_manifest(resting_folder: Path) -> None:
    (resting_folder / "index-2" / MANIFEST_FILE).unlink()
    known = _known(resting_folder)
    assert (known[2].num_docs, known[2].seq_max, known[2].is_settled) == (1, 7, False)


@pytest.mark.parametrize("content", [None, b""])
async def test_a_data_file_that_was_lost_ends_the_start(
    resting_folder: Path, content: bytes | None
) -> None:
    path = resting_folder / "index-3" / "data.mdb"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DamagedEnvironment, match=r"index-3/data\.mdb is (missing|empty)"):
        ShardIndexes(resting_folder).start()


async def test_a_start_removes_leftovers_but_no_folder_of_the_operator(
    resting_folder: Path,
) -> None:
    for name in ("index-77", "index-77.old"):
        (resting_folder / name).mkdir()
    assert list(_known(resting_folder)) == [1, 2, 3, 4, 5]
    assert not (resting_folder / "index-77").exists()
    assert (resting_folder / "index-77.old").exists()


async def test_a_start_syncs_an_index_whose_last_commit_failed(resting_folder: Path) -> None:
    """LMDB has put the former transaction number back; the disk may have the refused one."""
    path = resting_folder / "index-2" / "data.mdb"
    meta = read_meta_page(path)
    with path.open("r+b") as file:
        older = (meta.txn_id + 1) % 2 * meta.page_size
        file.seek(older + 128)  # the root of its tree of sub-databases
        root = int.from_bytes(file.read(8), "little")
        file.seek(older + 128)
        file.write((root + 1).to_bytes(8, "little"))
    assert read_meta_page(path).txn_id == meta.txn_id
    known = _known(resting_folder)
    assert (known[2].num_docs, known[2].seq_max) == (1, 7)
    assert [number for number, one in known.items() if not one.is_settled] == [2]


def test_the_folder_of_another_shard_is_refused_with_a_remedy(tmp_path: Path) -> None:
    CreatedIndexes(tmp_path, 0, 2, lambda: 0).read()
    with pytest.raises(DataDirectoryError, match="shard 0 of 2, not shard 1 of 2; restore it from"):
        CreatedIndexes(tmp_path, 1, 2, lambda: 0).read()
