"""Damaged pages are found before a cursor steps into them, which would end the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from common.errors import InternalError
from common.protocol.messages import IndexEntry
from common.shard_settings import ShardSettings
from shard.maintenance.reshard import _Source
from shard.partition.stored_index_entry import write_entry
from shard.storage.lmdb_codecs import as_bytes_array, number_key
from shard.storage.lmdb_environment import Environment, SubDatabase
from shard.storage.lmdb_meta_page import read_meta_page
from shard.storage.lmdb_page_check import END, DamagedPage, Pages
from shard.storage.storage_errors import DamagedEnvironment
from shard.storage.stored_documents import DocumentStore
from shard.storage.write_group_log import State, write_state

NUM_ITEMS = 4_000
LARGE = 1_234
"""One item is on pages of its own."""


def _item(number: int) -> bytes:
    return b'{"id":%d,"text":"%b"}' % (number, b"x" * (9_000 if number == LARGE else number % 300))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An environment with several hundred pages of items, closed."""
    with closing(Environment.create(tmp_path, 1 << 30)) as environment:
        store = DocumentStore(environment)
        for first in range(0, NUM_ITEMS, 500):
            items = [_item(number) for number in range(first, first + 500)]
            sizes = np.array([len(item) for item in items], np.int64)
            places = np.arange(first, first + 500, dtype=np.uint64)
            content = as_bytes_array(b"".join(items))
            encoded = store.encode(content, np.cumsum(sizes) - sizes, sizes, places, first)
            with environment.write() as txn:
                for batch in encoded.batches():
                    txn.append(SubDatabase.DOCUMENTS, batch)
    return tmp_path


def _leaves(folder: Path) -> list[int]:
    """Return the pages that have items, in the order of their records."""
    meta = read_meta_page(folder / "data.mdb")
    pages = Pages(folder / "data.mdb", meta.page_size, meta.last_page + 1)
    root = pages.root_of(meta.main_root, b"documents")
    return [page for page, _, _ in pages._leaves(root, b"", END, 0)]


def _change(folder: Path, page: int, at: int, content: bytes) -> None:
    path = folder / "data.mdb"
    whole = bytearray(path.read_bytes())
    start = page * read_meta_page(path).page_size + at
    whole[start : start + len(content)] = content
    path.write_bytes(whole)


def _scan(folder: Path, first: int = 0) -> Iterator[int]:
    with closing(Environment.open(folder, 1 << 30)) as environment, environment.read() as txn:
        for item in DocumentStore(environment).scan(txn, first):
            assert item.document == _item(item.record)
            yield item.record


def test_whole_pages_are_walked_through(folder: Path) -> None:
    assert list(_scan(folder)) == list(range(NUM_ITEMS))
    assert list(_scan(folder, 3_990)) == list(range(3_990, NUM_ITEMS))
    assert list(_scan(folder, NUM_ITEMS)) == []
    assert len(_leaves(folder)) > 150


@pytest.mark.parametrize(
    ("at", "content"),
    [
        (0, bytes(4096)),
        (10, b"\1\0"),
        (12, b"\xff\xff"),
        (14, b"\0\0"),
        (16, b"\xf8\xff"),
        (18, b"\0\0"),
    ],
    ids=["zeros", "flags", "lower", "upper", "offset past the page", "offset before the nodes"],
)
def test_a_damaged_leaf_is_an_error_where_it_begins(folder: Path, at: int, content: bytes) -> None:
    leaves = _leaves(folder)
    _change(folder, leaves[100], at, content)
    found: list[int] = []
    with pytest.raises(InternalError, match="restore the index") as caught:
        found.extend(_scan(folder))  # keeps what came before the error
    assert caught.value.code == "item_corrupt"
    assert found == list(range(len(found)))
    assert len(found) > 98 * NUM_ITEMS / (2 * len(leaves))
    later = list(_scan(folder, NUM_ITEMS - 20))  # these pages are whole
    assert later == list(range(NUM_ITEMS - 20, NUM_ITEMS))


def test_a_large_item_past_the_end_is_an_error(folder: Path) -> None:
    path = folder / "data.mdb"
    content = path.read_bytes()
    first = content.index(b"x" * 5_000) // 4096
    key = number_key(LARGE)
    leaf, at = divmod(content.index(key + first.to_bytes(8, "little")), 4096)
    _change(folder, leaf, at + len(key), (1 << 40).to_bytes(8, "little"))
    with pytest.raises(InternalError, match="past the end"):
        list(_scan(folder))


def test_what_every_open_walks_through_is_looked_at(folder: Path) -> None:
    """The names of the sub-databases too."""
    meta = read_meta_page(folder / "data.mdb")
    _change(folder, meta.main_root, 10, b"\1")
    with pytest.raises(DamagedPage):
        _leaves(folder)
    with pytest.raises(DamagedEnvironment):
        Environment.open(folder, 1 << 30)


def test_resharding_looks_at_pages_too(folder: Path) -> None:
    with closing(Environment.open(folder, 1 << 30)) as environment:
        write_entry(environment, IndexEntry(1, "things", 1, {}))
        environment.change(lambda txn: write_state(txn, State(NUM_ITEMS, 1, 1, NUM_ITEMS)))
    _change(folder, _leaves(folder)[7], 12, b"\xff\xff")
    with pytest.raises(InternalError, match=r"pages of data\.mdb are damaged"):
        _Source.open(folder, ShardSettings(map_bytes_max=1 << 30))
