"""The extent of the newest group in LMDB."""

from __future__ import annotations

from pathlib import Path

from shard.storage.lmdb_codecs import encode_value
from shard.storage.lmdb_environment import Environment, SubDatabase
from shard.storage.newest_write_group_extent import Extent, read_extent, write_extent


def test_the_extent_of_the_newest_group_is_kept(tmp_path: Path) -> None:
    environment = Environment.create(tmp_path, 1 << 20)
    with environment.read() as txn:
        assert read_extent(txn) is None
    with environment.write() as txn:
        earlier = encode_value(0, bytes(18))  # what the first version of this stored
        txn.put(SubDatabase.META, b"extent", earlier)
        assert read_extent(txn) is None
        write_extent(txn, 7, 6, 7, (0,))
        write_extent(txn, 1 << 40, 1 << 39, 1 << 38, (0, 3, 511))
    with environment.read() as txn:
        assert read_extent(txn) == Extent(1 << 40, 1 << 39, 1 << 38, (0, 3, 511))
    environment.close()
