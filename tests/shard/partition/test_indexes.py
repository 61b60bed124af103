"""The indexes of a shard match the catalog, whatever fails meanwhile."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common import data_directory
from common.errors import Conflict, InternalError, NotFound, StorageFull, Unavailable
from common.process.priority import WRITER_NICENESS, run_in_background
from common.protocol.messages import ApplyRequest, CatalogUpdate, IndexEntry
from common.protocol.write_operations import Operation
from common.shard_settings import ShardSettings
from shard.partition import catalog_follower, closing_indexes, opening_indexes
from shard.partition import indexes as module
from shard.partition.catalog_follower import CatalogFollower
from shard.partition.closed_index import ClosedIndex
from shard.partition.created_indexes import CreatedIndexes
from shard.partition.index_folders import IndexFolders
from shard.partition.indexes import Indexes
from shard.partition.open_index import OpenIndex
from shard.partition.opening_progress import OpeningProgress
from shard.partition.partition import Partition
from shard.partition.write_groups import WriteGroups
from shard.storage import environment
from shard.storage.manifest import MANIFEST_FILE
from shard.storage.refusals import DamagedEnvironment
from tests.waiting import until

CATALOG = CatalogUpdate(1, (IndexEntry(1, "things", 1, {}),))
EMPTY = CatalogUpdate(2, ())
_SETTINGS = ShardSettings()


def _fail(error: BaseException) -> None:
    raise AssertionError(error)


class _Shard(Indexes):
    """The indexes of a shard, and what follows the catalog for them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, shard=0, num_shards=1, settings=_SETTINGS, on_failure=_fail)
        self.catalog = CatalogFollower(self, _fail)
        self.groups = WriteGroups(self)


@pytest.mark.parametrize("fails_behind_the_rename", [False, True])
async def test_the_next_start_finds_what_a_failed_making_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_behind_the_rename: bool
) -> None:
    sync_folder = data_directory.sync_folder
    indexes = _Shard(tmp_path)
    indexes.start()

    def refuse(path: Path) -> None:
        if path == tmp_path:
            raise OSError(errno.EIO, "refused")
        sync_folder(path)

    def refuse_file(_: CreatedIndexes, folder: Path) -> None:
        raise OSError(errno.EIO, "refused", folder)

    with monkeypatch.context() as patch:
        if fails_behind_the_rename:
            patch.setattr(data_directory, "sync_folder", refuse)
        else:
            patch.setattr(CreatedIndexes, "write", refuse_file)
        await indexes.catalog.take(CATALOG)
        with pytest.raises(Unavailable, match="cannot be made now: the disk refused"):
            await indexes.opened(1)
    assert (tmp_path / "index-1").exists() == fails_behind_the_rename
    await indexes.close()

    again = _Shard(tmp_path)
    again.start()
    await again.catalog.take(EMPTY)
    assert not (tmp_path / "index-1").exists()
    await again.close()


@pytest.mark.parametrize("fails_behind_the_rename", [False, True])
@pytest.mark.parametrize("is_dropped", [False, True])
async def test_an_index_that_could_not_be_made_is_made_by_the_next_use_or_dropped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fails_behind_the_rename: bool,
    is_dropped: bool,
) -> None:
    indexes = _Shard(tmp_path)
    indexes.start()
    await indexes.catalog.take(EMPTY)
    sync_folder = data_directory.sync_folder

    def refuse(path: Path) -> None:
        if path == tmp_path or not fails_behind_the_rename:
            raise OSError(errno.ENOSPC, "refused")
        sync_folder(path)

    entry = IndexEntry(1, "things", 3, {})
    with monkeypatch.context() as patch:
        patch.setattr(data_directory, "sync_folder", refuse)
        await indexes.catalog.prepare(entry)  # succeeds: it is made in the background
        await indexes.catalog.take(CatalogUpdate(3, (entry,), base=2))
        with pytest.raises(StorageFull, match="no room"):
            await indexes.groups.apply(_group(1, seq=4))
    assert [number for number, _ in indexes.closed.items()] == [1]
    if is_dropped:
        await indexes.catalog.take(CatalogUpdate(5, (), base=3, gone=(1,)))
        assert indexes.all_numbers() == []
    else:
        await indexes.groups.apply(_group(1, seq=4))
    await _stopped(indexes)

    again = _Shard(tmp_path)
    again.start()
    assert [one.num_docs for _, one in again.closed.items()] == ([] if is_dropped else [1])
    assert (tmp_path / "index-1").exists() != is_dropped
    await again.close()


@pytest.mark.parametrize("is_soon", [False, True])
async def test_an_index_that_could_not_be_dropped_gives_another_one_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_soon: bool
) -> None:
    """A number that the catalog never named is used again."""
    indexes = _Shard(tmp_path)
    indexes.start()
    await indexes.catalog.take(CATALOG)
    await indexes.groups.apply(_group(1, seq=1))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "refused")

    monkeypatch.setattr(catalog_follower, "DROP_PAUSE_SECONDS", 0.01)
    entry = IndexEntry(1, "others", 3, {})
    with monkeypatch.context() as patch:
        patch.setattr(CreatedIndexes, "strike", refuse)
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


async def test_a_new_index_needs_nothing_on_disk_until_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill before it was made: the catalog still names it, and so it is made empty."""
    monkeypatch.setattr(opening_indexes, "MAKING_MAX", 0)
    indexes = _Shard(tmp_path)
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
    await _stopped_without_files(indexes, monkeypatch)

    again = _Shard(tmp_path)
    again.start()
    wanted = (entries[0], changed, IndexEntry(3, "index3", 6, {"stop_words": ["a"]}))
    await again.catalog.take(CatalogUpdate(6, wanted))
    for entry in wanted:
        assert (await again.opened(entry.number)).partition.generation.entry == entry
    await again.close()


async def test_indexes_that_are_made_at_the_same_time_are_all_listed(tmp_path: Path) -> None:
    indexes = _Shard(tmp_path)
    indexes.start()
    await indexes.catalog.take(EMPTY)
    entries = tuple(IndexEntry(n, f"index{n}", 3, {}) for n in range(1, 13))
    await indexes.catalog.take(CatalogUpdate(3, entries, base=2))
    await asyncio.gather(*(indexes.opened(one.number) for one in entries))
    await _stopped(indexes)
    again = _Shard(tmp_path)
    again.start()
    assert again.all_numbers() == [one.number for one in entries]
    await again.close()


async def test_a_thread_that_lists_the_indexes_may_meet_one_that_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes = _Shard(tmp_path)
    indexes.start()
    await indexes.catalog.take(CATALOG)
    index = await indexes.opened(1)
    state = index.partition.state

    def opens_another(_: Partition) -> Any:
        indexes.open._indexes[2] = index  # as the event loop may at this moment
        return state

    with monkeypatch.context() as patch:
        patch.setattr(Partition, "state", property(opens_another))
        indexes.folders.write_manifest(tmp_path)
    del indexes.open._indexes[2]
    await indexes.close()


async def test_a_copy_has_indexes_that_were_not_made_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening_indexes, "MAKING_MAX", 0)
    indexes = _Shard(tmp_path / "shard")
    (tmp_path / "shard").mkdir()
    indexes.start()
    await indexes.catalog.take(CATALOG)
    await indexes.copy(1, tmp_path / "copy", 0)
    assert ClosedIndex.of(tmp_path / "copy", _SETTINGS.map_bytes_max).num_docs == 0
    await indexes.close()


async def _started(folder: Path, num_indexes: int) -> _Shard:
    """Return the indexes of a shard that was started, and made if they were not there."""
    entries = tuple(IndexEntry(n, f"index{n}", n, {}) for n in range(1, num_indexes + 1))
    indexes = _Shard(folder)
    indexes.start()
    await indexes.catalog.take(CatalogUpdate(num_indexes, entries))
    for number, closed in indexes.closed.items():
        if closed.num_bytes == 0:
            await indexes.opened(number)
    return indexes


async def _stopped(indexes: _Shard) -> None:
    """Stop in order."""
    opened = indexes.open.all()
    await indexes.close()
    for index in opened:
        index.partition.close()


async def _restarted(folder: Path, num_indexes: int) -> _Shard:
    """Return the indexes of a shard that was stopped in order, all at rest."""
    await _stopped(await _started(folder, num_indexes))
    return await _started(folder, num_indexes)


async def _stopped_without_files(indexes: _Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop as a kill does: what is in memory is written to no file."""
    opened = indexes.open.all()
    with monkeypatch.context() as patch:
        patch.setattr(module, "CLOSE_SECONDS", 0.0)
        await indexes.close()
    for index in opened:
        index.thread.shutdown()
        index.writer.close()
        index.partition.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads share one nice value")
async def test_after_a_start_with_work_left_writes_do_not_get_the_mergers_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes = await _started(tmp_path, 1)
    await indexes.groups.apply(_group(1, seq=1))
    await _stopped_without_files(indexes, monkeypatch)
    indexes = await _started(tmp_path, 1)
    index = await indexes.opened(1)

    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    with ThreadPoolExecutor(1, initializer=run_in_background) as merger:
        found = merger.submit(lambda: index.submit(niceness).result()).result()
    await _stopped(indexes)

    assert found == max(niceness(), WRITER_NICENESS)


def _group(index: int, *, seq: int) -> ApplyRequest:
    """Return a group that adds one item."""
    item = b'{"id":1,"title":"one"}'
    return ApplyRequest(
        index=index,
        seq=seq,
        horizon=seq - 1,
        payload=item,
        lengths=np.array([len(item)], np.uint32).tobytes(),
        operations=bytes([Operation.PUT]),
        places=np.array([seq], np.uint64).tobytes(),
    )


async def test_differences_of_the_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await _restarted(tmp_path, 4)
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


async def test_damage_found_on_opening_concerns_that_index_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await _restarted(tmp_path, 3)
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
    await (await _restarted(tmp_path, 2)).close()
    (tmp_path / "index-2" / "data.mdb").write_bytes(b"")
    with pytest.raises(DamagedEnvironment, match=r"index-2/data\.mdb is empty or damaged"):
        _Shard(tmp_path).start()


async def test_those_used_longest_ago_close_and_open_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    settings = ShardSettings(open_indexes_max=2)
    monkeypatch.setattr(f"{__name__}._SETTINGS", settings)
    indexes = await _restarted(tmp_path, 5)
    for number in (1, 2, 1, 3, 1, 4, 5):
        assert (await indexes.opened(number)).partition.number == number
    async with asyncio.timeout(10):
        await indexes.closing.wait_for_all()
    assert sorted(index.partition.number for index in indexes.open.all()) == [4, 5]
    assert sorted(number for number, _ in indexes.closed.items()) == [1, 2, 3]
    # One in use stays.
    with indexes.open.using(await indexes.opened(4)):
        for number in (1, 2, 3):
            await indexes.opened(number)
        assert indexes.open.get(4) is not None
    await indexes.close()


async def test_an_index_that_is_being_closed_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a run of all tests: it was missing, so its index was shown as degraded."""
    may_close = threading.Event()
    close = OpenIndex.close

    def close_when_told(index: OpenIndex) -> None:
        assert may_close.wait(10)
        close(index)

    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    monkeypatch.setattr(f"{__name__}._SETTINGS", ShardSettings(open_indexes_max=1))
    indexes = await _restarted(tmp_path, 3)
    monkeypatch.setattr(OpenIndex, "close", close_when_told)
    for number in (1, 2, 3):
        await indexes.opened(number)
    for _ in range(2):  # while they close, and afterwards
        listed = [index.partition.number for index in indexes.open.all()]
        closed = dict(indexes.closed.items())
        assert sorted([*listed, *closed]) == [1, 2, 3]
        assert all(one.num_bytes > 0 for one in closed.values())
        may_close.set()
        await indexes.closing.wait_for_all()
    await indexes.close()


@pytest.mark.parametrize("is_open", [False, True])
async def test_a_call_that_comes_while_an_index_is_dropped_leaves_nothing_of_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_open: bool,
) -> None:
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    monkeypatch.setattr(f"{__name__}._SETTINGS", ShardSettings(open_indexes_max=1))
    indexes = await _restarted(tmp_path, 2)
    if is_open:
        await indexes.opened(1)
    may_strike, struck = threading.Event(), threading.Event()
    strike, open_index, close = CreatedIndexes.strike, IndexFolders.open, OpenIndex.close

    def strike_when_told(created: CreatedIndexes, number: int) -> None:
        assert may_strike.wait(10)
        strike(created, number)
        struck.set()

    def open_later(folders: IndexFolders, number: int, opening: OpeningProgress) -> Partition:
        partition = open_index(folders, number, opening)
        if number == 1:
            assert struck.wait(10)
            time.sleep(0.05)
        return partition

    def close_later(index: OpenIndex) -> None:
        assert index.partition.number == 2 or struck.wait(10)
        time.sleep(0.05)
        close(index)

    monkeypatch.setattr(CreatedIndexes, "strike", strike_when_told)
    monkeypatch.setattr(IndexFolders, "open", open_later)
    monkeypatch.setattr(OpenIndex, "close", close_later)
    dropping = asyncio.ensure_future(indexes.drop(1))
    await asyncio.sleep(0)
    # Its number is still there: it opens, or it closes because another one opens.
    call = asyncio.ensure_future(indexes.opened(2 if is_open else 1))
    await until(lambda: 1 in (indexes.closing if is_open else indexes.opening).numbers())
    may_strike.set()
    await asyncio.gather(dropping, call, return_exceptions=True)
    async with asyncio.timeout(10):
        await indexes.closing.wait_for_all()

    assert not dropping.exception()
    assert not caplog.records
    assert indexes.open.get(1) is None
    assert indexes.closed.get(1) is None
    assert not indexes.has(1)
    await indexes.close()


async def test_a_file_is_not_copied_as_it_is_while_its_index_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as it is open it may be written to, and the copy would be torn."""
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    (tmp_path / "shard").mkdir()
    indexes = await _restarted(tmp_path / "shard", 1)
    may_open = _holding_opening(monkeypatch)

    def refuse(*_: object) -> None:
        raise AssertionError("the file of an open index is copied")

    monkeypatch.setattr(module, "copy_file", refuse)
    writing = asyncio.ensure_future(indexes.groups.apply(_group(1, seq=2)))
    await until(lambda: indexes.opening.numbers() == [1])
    copying = asyncio.ensure_future(indexes.copy(1, tmp_path / "copy", 1))
    await asyncio.sleep(0)
    may_open.set()
    await asyncio.gather(writing, copying)

    assert ClosedIndex.of(tmp_path / "copy", _SETTINGS.map_bytes_max).num_docs == 0
    await indexes.close()


async def test_the_newest_groups_are_listed_though_an_index_is_dropped_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await _started(tmp_path, 2)
    for number in (1, 2):
        await indexes.groups.apply(_group(number, seq=10 + number))
    await _stopped(indexes)
    indexes = await _started(tmp_path, 2)
    may_open = _holding_opening(monkeypatch)
    listing = asyncio.ensure_future(indexes.groups.newest(10))
    await until(lambda: indexes.opening.numbers() == [1])
    await indexes.drop(2)
    may_open.set()

    assert [(group.index, group.seq) for group in await listing] == [(1, 11)]
    await indexes.close()


async def test_a_revision_that_was_given_up_is_not_taken_for_another_of_its_number(
    tmp_path: Path,
) -> None:
    indexes = await _started(tmp_path, 1)
    await indexes.catalog.prepare(IndexEntry(1, "index1", 2, {"stop_words": ["the"]}))
    entry = IndexEntry(1, "index1", 2, {"stop_words": ["a"]})
    await indexes.catalog.take(CatalogUpdate(2, (entry,), base=1))

    assert (await indexes.opened(1)).partition.generation.entry == entry
    await indexes.close()


def _holding_opening(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let indexes that are opened from now on wait until an event is set."""
    may_open = threading.Event()
    open_index = IndexFolders.open

    def open_when_told(folders: IndexFolders, number: int, opening: OpeningProgress) -> Partition:
        assert may_open.wait(10)
        return open_index(folders, number, opening)

    monkeypatch.setattr(IndexFolders, "open", open_when_told)
    return may_open


async def test_openings_wait_while_many_indexes_are_being_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of closed but not yet released indexes had held 8,000 threads and all mappings."""
    may_close = threading.Semaphore(0)
    close = OpenIndex.close

    def close_when_told(index: OpenIndex) -> None:
        assert may_close.acquire(timeout=10)
        close(index)

    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    monkeypatch.setattr(closing_indexes, "CLOSING_MAX", 2)
    monkeypatch.setattr(f"{__name__}._SETTINGS", ShardSettings(open_indexes_max=1))
    indexes = await _restarted(tmp_path, 4)
    monkeypatch.setattr(OpenIndex, "close", close_when_told)
    for number in (1, 2, 3):
        await indexes.opened(number)
    waiting = asyncio.ensure_future(indexes.opened(4))
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not waiting.done()
    may_close.release()
    async with asyncio.timeout(10):
        assert (await waiting).partition.number == 4
    may_close.release(10)
    await indexes.close()


async def test_an_environment_that_takes_long_to_close_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shut = environment._shut

    def shut_slowly(*arguments: Any) -> None:
        time.sleep(0.05)
        shut(*arguments)

    monkeypatch.setattr(environment, "_shut", shut_slowly)
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    monkeypatch.setattr(f"{__name__}._SETTINGS", ShardSettings(open_indexes_max=1))
    indexes = await _restarted(tmp_path, 2)
    for number in (1, 2) * 4:
        assert (await indexes.opened(number)).partition.number == number
    await indexes.close()


async def test_a_stop_that_has_no_time_left_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.0)
    indexes = await _restarted(tmp_path, 3)
    assert indexes.all_numbers() == [1, 2, 3]
    assert len(indexes.open.all()) == 3  # as they are few
    await indexes.close()


async def test_what_a_kill_left_is_opened_once_the_shard_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill, a start read and built 250 of 1,225 indexes before it served: 35 s."""
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await _restarted(tmp_path, 6)
    for number in (2, 5):
        await indexes.groups.apply(_group(number, seq=10 + number))
    await _stopped_without_files(indexes, monkeypatch)
    (tmp_path / "index-5" / "MANIFEST.json").unlink()

    again = _Shard(tmp_path)
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


async def test_an_older_data_file_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await _restarted(tmp_path, 2)
    path = tmp_path / "index-2" / "data.mdb"
    older = path.read_bytes()
    await indexes.groups.apply(_group(2, seq=7))
    opened = indexes.open.all()
    await indexes.close()
    for index in opened:
        index.partition.close()
    path.write_bytes(older)
    with pytest.raises(DamagedEnvironment, match="older than the index was"):
        _Shard(tmp_path).start()


# --- what a start knows of indexes that it does not open


@pytest.fixture
async def resting_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shard of five indexes, which are many here, with an item in the second."""
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await _started(tmp_path, 5)
    await indexes.groups.apply(_group(2, seq=7))
    await _stopped(indexes)
    return tmp_path


def _known(folder: Path) -> dict[int, ClosedIndex]:
    """Return what a start knows of the indexes."""
    indexes = _Shard(folder)
    indexes.start()
    indexes.merger.stop()
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
    indexes = await _started(resting_folder, 5)
    assert indexes.open.all() == []
    assert (await indexes.opened(2)).partition.newest.num_docs == 1
    await _stopped(indexes)


async def test_a_start_knows_what_only_the_log_has(
    resting_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes = await _started(resting_folder, 5)
    await indexes.groups.apply(_group(3, seq=8))
    await _stopped_without_files(indexes, monkeypatch)
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
        _Shard(resting_folder).start()
