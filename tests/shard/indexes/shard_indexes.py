"""The indexes of a shard in the test's own process, to be started, stopped and killed."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from common.protocol.messages import ApplyRequest, CatalogUpdate, IndexEntry
from common.protocol.write_operations_and_outcomes import Operation
from common.shard_settings import ShardSettings
from shard.indexes import indexes as module
from shard.indexes.catalog_follower import CatalogFollower
from shard.indexes.index_folders import IndexFolders
from shard.indexes.indexes import Indexes
from shard.indexes.write_dispatcher import WriteDispatcher
from shard.partition.opening_progress import OpeningProgress
from shard.partition.partition import Partition

CATALOG = CatalogUpdate(1, (IndexEntry(1, "things", 1, {}),))
EMPTY = CatalogUpdate(2, ())
SETTINGS = ShardSettings()


def _fail(error: BaseException) -> None:
    raise AssertionError(error)


class ShardIndexes(Indexes):
    """The indexes of a shard, and what follows the catalog for them."""

    def __init__(self, folder: Path, settings: ShardSettings = SETTINGS) -> None:
        super().__init__(folder, shard=0, num_shards=1, settings=settings, on_failure=_fail)
        self.catalog = CatalogFollower(self, _fail)
        self.groups = WriteDispatcher(self)


def one_item_group(index: int, *, seq: int) -> ApplyRequest:
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


async def started(
    folder: Path, num_indexes: int, settings: ShardSettings = SETTINGS
) -> ShardIndexes:
    """Return the indexes of a shard that was started, and made if they were not there."""
    entries = tuple(IndexEntry(n, f"index{n}", n, {}) for n in range(1, num_indexes + 1))
    indexes = ShardIndexes(folder, settings)
    indexes.start()
    await indexes.catalog.take(CatalogUpdate(num_indexes, entries))
    for number, closed in indexes.closed.items():
        if closed.num_bytes == 0:
            await indexes.opened(number)
    return indexes


async def stopped(indexes: ShardIndexes) -> None:
    """Stop in order."""
    opened = indexes.open.all()
    await indexes.close()
    for index in opened:
        index.partition.close()


async def restarted(
    folder: Path, num_indexes: int, settings: ShardSettings = SETTINGS
) -> ShardIndexes:
    """Return the indexes of a shard that was stopped in order, all at rest."""
    await stopped(await started(folder, num_indexes, settings))
    return await started(folder, num_indexes, settings)


async def stopped_without_files(indexes: ShardIndexes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop as a kill does: what is in memory is written to no file."""
    opened = indexes.open.all()
    with monkeypatch.context() as patch:
        patch.setattr(module, "CLOSE_SECONDS", 0.0)
        await indexes.close()
    for index in opened:
        index.thread.shutdown()
        index.writer.close()
        index.partition.close()


def holding_opening(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let indexes that are opened from now on wait until an event is set."""
    may_open = threading.Event()
    open_index = IndexFolders.open

    def open_when_told(folders: IndexFolders, number: int, opening: OpeningProgress) -> Partition:
        assert may_open.wait(10)
        return open_index(folders, number, opening)

    monkeypatch.setattr(IndexFolders, "open", open_when_told)
    return may_open
