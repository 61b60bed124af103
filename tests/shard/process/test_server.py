"""The shard as a process: handshake, durability over SIGKILL, orderly and disorderly ends."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from common.errors import (
    ConfigurationSwitched,
    InternalError,
    ServiceError,
    Unauthorized,
    Unavailable,
)
from common.process.parent_death import EXIT_CANNOT_START, EXIT_STORAGE_FAILED
from common.protocol.messages import (
    BackupRequest,
    IndexStatisticsRequest,
    PrepareConfiguration,
)
from common.protocol.methods import BACKUP, INDEX_STATISTICS, PREPARE, PROCESS_STATISTICS
from tests.common.protocol.packed_model import unpack
from tests.shard.shard_process import ShardProcess, make_entry


@pytest.fixture
async def shard(tmp_path: Path) -> AsyncIterator[ShardProcess]:
    shard = ShardProcess(tmp_path)
    yield shard
    await shard.kill()


async def test_writes_are_found_counted_and_survive_a_kill(shard: ShardProcess) -> None:
    shard.start()
    assert (await shard.connect()).seq_max == 0
    await shard.take_catalog(make_entry())
    await shard.put(1, {"id": 1, "color": "red"}, {"id": 2, "color": "blue"})
    await shard.put(2, {"id": 2, "color": "red"})

    async def check() -> None:
        found = await shard.search()
        assert found.total == 2
        assert [orjson.loads(one)["id"] for one in found.documents] == [1, 2]
        assert await shard.get("2") == b'{"id":2,"color":"red"}'
        assert await shard.get("3") is None
        assert await shard.get("2", horizon=1) == b'{"id":2,"color":"blue"}'

    await check()
    await shard.kill()
    shard.start()
    assert (await shard.connect()).seq_max == 2
    await shard.take_catalog(make_entry())
    await check()
    statistics = await shard.call(PROCESS_STATISTICS, None)
    assert statistics.is_ready
    assert statistics.num_corrupt == 0
    ((number, index),) = statistics.indexes
    assert (number, index.num_docs, index.fields) == (7, 2, ())
    index = await shard.call(INDEX_STATISTICS, IndexStatisticsRequest(7))
    assert {one["path"] for one in index.fields} == {"id", "color"}


async def test_sigterm_ends_with_status_0_and_loses_nothing(shard: ShardProcess) -> None:
    shard.start()
    await shard.connect()
    await shard.take_catalog(make_entry())
    await shard.put(1, {"id": 1})
    assert shard.process is not None
    shard.process.send_signal(signal.SIGTERM)
    assert shard.wait() == 0
    assert len(list((shard.data / "shard-0" / "index-7").glob("segment-*"))) == 1
    await shard.kill()

    shard.start()
    await shard.connect()
    await shard.take_catalog(make_entry())
    assert await shard.get("1") == b'{"id":1}'


async def test_end_of_the_parents_pipe_ends_the_shard(shard: ShardProcess) -> None:
    shard.start(with_pipe=True)
    await shard.connect()
    assert shard.pipe_end is not None
    os.close(shard.pipe_end)

    assert shard.wait() == 1


async def test_stranger_is_refused(shard: ShardProcess) -> None:
    shard.start()

    with pytest.raises(Unauthorized):
        await shard.connect(secret="guess")
    with pytest.raises(ServiceError, match="shard 0 of 1"):
        await shard.connect(num_shards=2)


async def test_second_process_on_one_folder_ends(shard: ShardProcess) -> None:
    shard.start()
    await shard.connect()
    second = ShardProcess(shard.data)
    second.start()

    try:
        assert second.wait() == EXIT_CANNOT_START
        assert b"in use" in second.errors
    finally:
        await second.kill()


async def test_other_number_of_shards_is_refused(shard: ShardProcess) -> None:
    shard.start()
    await shard.connect()
    await shard.kill()
    shard.start(num_shards=2)

    assert shard.wait() == EXIT_CANNOT_START


async def test_lost_index_refuses_to_start(shard: ShardProcess) -> None:
    shard.start()
    await shard.connect()
    await shard.take_catalog(make_entry())
    await shard.put(5, {"id": 1})
    await shard.kill()
    (shard.data / "shard-0" / "index-7" / "data.mdb").write_bytes(b"")
    shard.start()

    assert shard.wait() == EXIT_CANNOT_START
    assert b"restore" in shard.errors


async def test_index_appears_and_goes_with_the_catalog(shard: ShardProcess) -> None:
    shard.start()
    await shard.connect()
    with pytest.raises(Unavailable, match="opening"):
        await shard.search()
    await shard.take_catalog(make_entry())
    await shard.put(5, {"id": 1})
    await shard.take_catalog(revision=2)
    with pytest.raises(ConfigurationSwitched, match="index has been deleted"):
        await shard.search()
    assert list((shard.data / "shard-0").glob("index-*")) == []
    await shard.take_catalog(make_entry(), revision=1)  # a late one
    with pytest.raises(ConfigurationSwitched, match="index has been deleted"):
        await shard.search()
    await shard.kill()
    shard.start()
    assert (await shard.connect()).seq_max == 5


async def test_configuration_is_prepared_then_switched(shard: ShardProcess) -> None:
    shard.start()
    await shard.connect()
    await shard.take_catalog(make_entry(aggregations={}))
    await shard.put(1, {"id": 1, "color": "red"})
    entry = make_entry(2, aggregations={"color": {}})
    await shard.call(PREPARE, PrepareConfiguration(entry))
    await shard.put(2, {"id": 2, "color": "blue"})
    with pytest.raises(ConfigurationSwitched, match="switched"):
        await shard.search(revision=2)
    await shard.take_catalog(entry, revision=2)

    found = await shard.search(revision=2)

    assert found.total == 2
    assert unpack(found.facet_counts, 1) == [{0: 1, 1: 1}]


async def test_an_index_that_was_prepared_and_never_came_leaves_nothing(
    shard: ShardProcess,
) -> None:
    """Number and revision are given again, to what comes instead."""
    shard.start()
    await shard.connect()
    await shard.take_catalog()
    await shard.call(PREPARE, PrepareConfiguration(make_entry(2, aggregations={"size": {}})))
    await shard.take_catalog(make_entry(2, aggregations={"color": {}}), revision=2)
    await shard.put(1, {"id": 1, "color": "red"})

    found = await shard.search(revision=2)

    assert unpack(found.facet_counts, 1) == [{0: 1}]
    await shard.take_catalog(revision=3)
    await shard.call(PREPARE, PrepareConfiguration(make_entry(4)))
    await shard.take_catalog(revision=3)
    assert not list((shard.data / "shard-0").glob("index-*"))


@pytest.mark.parametrize(
    ("point", "is_there"),
    [
        ("writer.receive", False),
        ("writer.commit", False),
        ("writer.committed", True),
        ("writer.index", True),
        ("writer.publish", True),
        ("writer.reply", True),
    ],
)
async def test_kill_at_each_step_leaves_the_group_whole_or_absent(
    shard: ShardProcess, point: str, is_there: bool
) -> None:
    shard.start(faults=f"{point}=kill@2")
    await shard.connect()
    await shard.take_catalog(make_entry())
    await shard.put(1, {"id": 1, "v": 1})
    with pytest.raises(Unavailable):
        await shard.put(2, {"id": 1, "v": 2}, {"id": 2})
    assert shard.wait() == -signal.SIGKILL
    await shard.kill()
    shard.start()
    await shard.connect()
    await shard.take_catalog(make_entry())

    assert (await shard.search()).total == (2 if is_there else 1)
    assert await shard.get("1") == (b'{"id":1,"v":2}' if is_there else b'{"id":1,"v":1}')
    again = await shard.put(2, {"id": 1, "v": 2}, {"id": 2})
    assert list(again.outcomes) == [1, 0]
    assert (await shard.search()).total == 2


@pytest.mark.parametrize(
    ("point", "is_there"), [("writer.commit", False), ("writer.committed", True)]
)
async def test_kill_in_the_middle_of_a_joined_commit_leaves_all_its_groups_or_none(
    shard: ShardProcess, point: str, is_there: bool
) -> None:
    first, second, third = (2, {"id": 1, "v": 2}), (3, {"id": 2}), (5, {"id": 1, "v": 3})
    shard.start(faults=f"{point}=kill@2")
    await shard.connect()
    await shard.take_catalog(make_entry())
    await shard.put(1, {"id": 1, "v": 1})
    with pytest.raises(Unavailable):
        await shard.put_joined(first, second)
    assert shard.wait() == -signal.SIGKILL
    await shard.kill()
    shard.start()
    await shard.connect()
    await shard.take_catalog(make_entry())

    assert (await shard.search()).total == (2 if is_there else 1)
    assert await shard.get("1") == (b'{"id":1,"v":2}' if is_there else b'{"id":1,"v":1}')
    again = await shard.put_joined(first, second, third)  # joined in another way
    assert list(again.outcomes) == ([1] if is_there else [1, 0, 1])
    assert (await shard.search()).total == 2
    assert await shard.get("1") == b'{"id":1,"v":3}'


async def test_refused_commit_is_answered_and_ends_the_process(shard: ShardProcess) -> None:
    shard.start(faults="writer.commit=error@2")
    await shard.connect()
    await shard.take_catalog(make_entry())
    await shard.put(1, {"id": 1})

    with pytest.raises(InternalError, match="disk"):
        await shard.put(2, {"id": 2})

    assert shard.wait() == EXIT_STORAGE_FAILED
    await shard.kill()
    shard.start()
    await shard.connect()
    await shard.take_catalog(make_entry())
    assert (await shard.search()).total == 1


async def test_backup_can_be_served(shard: ShardProcess, tmp_path: Path) -> None:
    shard.start()
    await shard.connect()
    await shard.take_catalog(make_entry())
    await shard.put(1, {"id": 1})
    await shard.put(2, {"id": 2})
    target = tmp_path / "backup"
    await shard.call(BACKUP, BackupRequest(str(target), {7: 1}))

    assert (target / "index-7" / "data.mdb").stat().st_size > 0
    with pytest.raises(InternalError, match="copy"):
        await shard.call(BACKUP, BackupRequest(str(target), {7: 1}))
