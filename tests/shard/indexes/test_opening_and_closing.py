"""Indexes open when they are needed and close when others are, while calls come."""

from __future__ import annotations

import asyncio
import resource
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from common.errors import InternalError, Unavailable
from common.process.thread_pool import ThreadPool
from common.shard_settings import ShardSettings
from shard.indexes import closing_indexes, open_index, open_indexes
from shard.indexes import indexes as module
from shard.indexes.closed_index_facts import ClosedIndex
from shard.indexes.closing_indexes import ClosingIndexes
from shard.indexes.open_index import OpenIndex
from shard.partition.merge_flush_and_purge_scheduler import MergeScheduler
from shard.partition.partition import Partition
from shard.storage import lmdb_environment
from tests.shard.indexes.shard_indexes import (
    CATALOG,
    SETTINGS,
    ShardIndexes,
    holding_opening,
    one_item_group,
    restarted,
    started,
    stopped,
    stopped_without_files,
)
from tests.shard.partition.local_shard import put_all, write_group
from tests.threads import no_new_threads
from tests.waiting import until


async def test_those_used_longest_ago_close_and_open_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    settings = ShardSettings(open_indexes_max=2)
    indexes = await restarted(tmp_path, 5, settings)
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


async def test_an_index_comes_to_rest_by_itself(tmp_path: Path) -> None:
    indexes = await started(tmp_path, 1, ShardSettings(idle_ms=1, flush_docs=40))
    partition = indexes.open[1].partition
    for seq in (1, 2):
        items: list[dict[str, Any]] = [{"id": 100 * seq + number} for number in range(40)]
        await indexes.groups.apply(write_group(seq, put_all(items), horizon=seq - 1))

    await until(lambda: partition.is_at_rest)
    assert partition.newest.num_docs == 80
    await stopped(indexes)


@pytest.mark.parametrize(
    ("allowed", "num_open"),
    [
        (resource.RLIM_INFINITY, 256),
        (65_536, 256),
        (open_indexes.DESCRIPTORS_OF_OTHERS + 2 * 256, 256),
        (open_indexes.DESCRIPTORS_OF_OTHERS + 100, 50),
        (64, open_indexes.OPEN_AT_LEAST),
    ],
)
def test_fewer_indexes_are_open_where_descriptors_are_few(
    monkeypatch: pytest.MonkeyPatch, allowed: int, num_open: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (allowed, allowed))
    assert open_indexes.num_open_max(256) == num_open
    assert open_indexes.num_open_max(5) == 5


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
    indexes = await restarted(tmp_path, 3, ShardSettings(open_indexes_max=1))
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


async def test_damage_that_a_stop_meets_is_told_in_words_and_concerns_no_other_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The stop ended there with a traceback, and others were left for the next start to index."""
    flushed: list[int] = []

    def flush(partition: Partition) -> None:
        if partition.number in (3, 4):
            raise InternalError("a page is damaged: restore the index", code="item_corrupt")
        flushed.append(partition.number)

    indexes = await started(tmp_path, 4)
    for number in range(1, 5):
        await indexes.groups.apply(one_item_group(number, seq=10 + number))
    monkeypatch.setattr(open_index, "flush", flush)
    await stopped(indexes)

    assert sorted(flushed) == [1, 2]
    told = [one for one in caplog.records if one.message == "closing failed"]
    assert all(one.exc_info is None for one in told)
    fields = [one.fields for one in told]  # type: ignore[attr-defined]
    assert sorted(one["index"] for one in fields) == [3, 4]
    assert {one["reason"] for one in fields} == {"a page is damaged: restore the index"}


async def test_indexes_open_and_close_where_the_system_starts_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await restarted(tmp_path, 3, ShardSettings(open_indexes_max=1))
    indexes.opening.threads = ThreadPool(1)
    with no_new_threads(), pytest.raises(Unavailable, match="memory or threads ran out"):
        await indexes.opened(1)
    await indexes.opened(1)
    with no_new_threads():
        async with asyncio.timeout(10):
            for number in (2, 3, 1):
                assert (await indexes.opened(number)).partition.number == number
                await indexes.closing.wait_for_all()
    await indexes.close()


async def test_an_index_with_work_to_do_opens_where_the_system_starts_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes = await started(tmp_path, 1)
    await indexes.groups.apply(one_item_group(1, seq=2))
    await stopped_without_files(indexes, monkeypatch)
    indexes = ShardIndexes(tmp_path)

    def refuse(_: ThreadPool) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPool, "start_thread", refuse)
    indexes.start()
    await indexes.catalog.take(CATALOG)
    assert (await indexes.opened(1)).partition.newest.num_docs == 1
    await indexes.close()


async def test_a_thread_that_lists_the_indexes_may_meet_one_that_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes = ShardIndexes(tmp_path)
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


async def test_a_file_is_not_copied_as_it_is_while_its_index_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as it is open it may be written to, and the copy would be torn."""
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    (tmp_path / "shard").mkdir()
    indexes = await restarted(tmp_path / "shard", 1)
    may_open = holding_opening(monkeypatch)

    def refuse(*_: object) -> None:
        raise AssertionError("the file of an open index is copied")

    monkeypatch.setattr(module, "copy_file", refuse)
    writing = asyncio.ensure_future(indexes.groups.apply(one_item_group(1, seq=2)))
    await until(lambda: indexes.opening.numbers() == [1])
    copying = asyncio.ensure_future(indexes.copy(1, tmp_path / "copy", 1))
    await asyncio.sleep(0)
    may_open.set()
    await asyncio.gather(writing, copying)

    assert ClosedIndex.of(tmp_path / "copy", SETTINGS.map_bytes_max).num_docs == 0
    await indexes.close()


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
    indexes = await restarted(tmp_path, 4, ShardSettings(open_indexes_max=1))
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
    shut = lmdb_environment._shut

    def shut_slowly(*arguments: Any) -> None:
        time.sleep(0.05)
        shut(*arguments)

    monkeypatch.setattr(lmdb_environment, "_shut", shut_slowly)
    monkeypatch.setattr(module, "FEW_INDEXES", 0)
    indexes = await restarted(tmp_path, 2, ShardSettings(open_indexes_max=1))
    for number in (1, 2) * 4:
        assert (await indexes.opened(number)).partition.number == number
    await indexes.close()


async def test_a_stop_that_has_no_time_left_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.0)
    indexes = await restarted(tmp_path, 3)
    assert indexes.all_numbers() == [1, 2, 3]
    assert len(indexes.open.all()) == 3  # as they are few
    await indexes.close()


async def test_a_copy_that_is_cancelled_twice_is_waited_for_until_it_ends() -> None:
    closing = ClosingIndexes(MergeScheduler())
    copy = asyncio.get_running_loop().create_future()
    copying = asyncio.ensure_future(closing.copying(1, copy))
    for _ in range(2):
        await asyncio.sleep(0)
        copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await copying
    assert 1 in closing
    copy.set_result(None)
    async with asyncio.timeout(5):
        await closing.wait_for(1)
    assert 1 not in closing
    closing.stop()
