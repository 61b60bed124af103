"""The indexes of a shard are those of the catalog, whatever fails on the way there."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from common import data_directory
from common.errors import InternalError
from common.protocol.messages import CatalogUpdate, IndexEntry
from common.shard_settings import ShardSettings
from shard.partition.indexes import Indexes

CATALOG = CatalogUpdate(1, (IndexEntry(1, "things", 1, {}),))
EMPTY = CatalogUpdate(2, ())


def _indexes(folder: Path) -> Indexes:
    def fail(error: BaseException) -> None:
        raise AssertionError(error)

    return Indexes(folder, shard=0, num_shards=1, settings=ShardSettings(), on_failure=fail)


@pytest.mark.parametrize("fails_behind_the_rename", [False, True])
async def test_the_next_start_finds_what_a_failed_making_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_behind_the_rename: bool
) -> None:
    sync_folder = data_directory.sync_folder
    indexes = _indexes(tmp_path)
    indexes.start()

    def refuse(path: Path) -> None:
        if path == tmp_path:
            raise OSError(errno.EIO, "refused")
        sync_folder(path)

    def refuse_file(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EIO, "refused", path)

    with monkeypatch.context() as patch:
        if fails_behind_the_rename:
            patch.setattr(data_directory, "sync_folder", refuse)
        else:
            patch.setattr(indexes, "write_manifest", refuse_file)
        with pytest.raises(InternalError, match="the disk refused"):
            await indexes.take_catalog(CATALOG)
    assert (tmp_path / "index-1").exists() == fails_behind_the_rename
    await indexes.close()

    again = _indexes(tmp_path)
    again.start()
    await again.take_catalog(EMPTY)
    assert not (tmp_path / "index-1").exists()
    await again.close()
