"""What a start knows of indexes that it does not open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from common.protocol.messages import ApplyRequest, CatalogUpdate, IndexEntry
from common.protocol.operations import Operation
from common.shard_settings import ShardSettings
from shard.partition import indexes as indexes_module
from shard.partition.indexes import Indexes
from shard.partition.resting import Resting
from shard.storage.environment import DamagedEnvironment
from shard.storage.manifest import MANIFEST_FILE

NUM_INDEXES = 5


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let five indexes be many."""
    monkeypatch.setattr(indexes_module, "FEW_INDEXES", 0)


def _indexes(folder: Path) -> Indexes:
    def fail(error: BaseException) -> None:
        raise AssertionError(error)

    settings = ShardSettings()
    return Indexes(folder, shard=0, num_shards=1, settings=settings, on_failure=fail)


async def _started(folder: Path) -> Indexes:
    indexes = _indexes(folder)
    indexes.start()
    entries = tuple(IndexEntry(n, f"index{n}", n, {}) for n in range(1, NUM_INDEXES + 1))
    await indexes.take_catalog(CatalogUpdate(NUM_INDEXES, entries))
    return indexes


async def _stop(indexes: Indexes) -> None:
    opened = indexes.all_open()
    await indexes.close()
    for index in opened:
        index.partition.close()


async def _made(folder: Path) -> None:
    """Make the indexes, write an item to the second, and stop in order."""
    indexes = await _started(folder)
    await indexes.apply(_group(2, seq=7))
    await _stop(indexes)


def _group(index: int, *, seq: int) -> ApplyRequest:
    item = b'{"id":%d,"title":"one"}' % seq
    return ApplyRequest(
        index=index,
        seq=seq,
        horizon=seq - 1,
        payload=item,
        lengths=np.array([len(item)], np.uint32).tobytes(),
        operations=bytes([Operation.PUT]),
        places=np.array([seq], np.uint64).tobytes(),
    )


def _read(folder: Path) -> dict[int, Resting]:
    """Return what a start knows of the indexes."""
    indexes = _indexes(folder)
    indexes.start()
    indexes.merger.stop()
    known = dict(indexes.all_resting())
    assert indexes.seq_max == max(one.seq_max for one in known.values())
    assert all(one.num_bytes > 0 for one in known.values())
    return known


async def test_a_start_knows_the_counters_of_indexes_that_it_does_not_open(tmp_path: Path) -> None:
    await _made(tmp_path)
    known = _read(tmp_path)
    assert [one.num_docs for one in known.values()] == [0, 1, 0, 0, 0]
    assert known[2].seq_max == 7
    assert all(one.is_settled for one in known.values())
    indexes = await _started(tmp_path)
    assert indexes.all_open() == []
    assert (await indexes.opened(2)).partition.newest.num_docs == 1
    await _stop(indexes)


async def test_a_start_knows_what_only_the_log_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _made(tmp_path)
    indexes = await _started(tmp_path)
    await indexes.apply(_group(3, seq=8))
    with monkeypatch.context() as patch:  # as after a kill: nothing goes to files
        patch.setattr(indexes_module, "CLOSE_SECONDS", 0.0)
        opened = indexes.all_open()
        await indexes.close()
        for index in opened:
            index.thread.shutdown()
            index.writer.close()
            index.partition.close()
    known = _read(tmp_path)
    assert (known[3].num_docs, known[3].seq_max, known[3].is_settled) == (1, 8, False)
    assert [n for n, one in known.items() if not one.is_settled] == [3]


async def test_a_start_does_without_a_manifest(tmp_path: Path) -> None:
    await _made(tmp_path)
    (tmp_path / "index-2" / MANIFEST_FILE).unlink()
    known = _read(tmp_path)
    assert (known[2].num_docs, known[2].seq_max, known[2].is_settled) == (1, 7, False)


@pytest.mark.parametrize("content", [None, b""])
async def test_a_data_file_that_was_lost_ends_the_start(
    tmp_path: Path, content: bytes | None
) -> None:
    await _made(tmp_path)
    path = tmp_path / "index-3" / "data.mdb"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DamagedEnvironment, match=r"index-3/data\.mdb is (missing|empty)"):
        _indexes(tmp_path).start()
