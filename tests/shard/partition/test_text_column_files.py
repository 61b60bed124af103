"""Text columns that searches have made are in files, so a start need not read all items again."""

from __future__ import annotations

import errno
from typing import Any

import msgspec
import numpy as np
import pytest

from common.protocol.write_operations_and_outcomes import Operation
from common.shard_settings import ShardSettings
from shard.caches.lru_cache import COLUMN_CACHE
from shard.maintenance.check_and_rebuild import check_index
from shard.partition.derived_files import DerivedFiles
from shard.partition.merge_and_flush import work
from shard.partition.merge_flush_and_purge_scheduler import Job, MergeScheduler
from shard.segment.columns import text_ordinal_columns, text_ordinal_files, text_ordinal_merge
from shard.segment.columns.sort_columns import sort_column
from shard.segment.columns.text_ordinal_columns import needs_documents, text_column
from shard.segment.snapshot import Snapshot
from shard.storage.manifest import MANIFEST_FILE, IndexManifest, read_manifest, write_manifest
from tests.shard.partition.local_shard import Shard, reconfigure
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_ordinal_files, "FILE_DOCS_MIN", 50)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many documents each segment had whose stored items were read for their texts."""
    found: list[int] = []
    extract = text_ordinal_columns.extract_texts

    def note(snapshot: Snapshot, view: Any, *arguments: Any) -> Any:
        found.append(view.segment.num_docs)
        return extract(snapshot, view, *arguments)

    for module in (text_ordinal_columns, text_ordinal_merge):
        monkeypatch.setattr(module, "extract_texts", note)
    return found


def _items(start: int, end: int) -> list[dict[str, Any]]:
    """Return items with a name, or two."""
    items: list[dict[str, Any]] = []
    for i in range(start, end):
        name = f"name {i * 7 % 90}"
        items.append({"id": i, "name": [name, f"é {i % 3}"] if i % 10 == 3 else name})
    return items


def _sorted_names(shard: Shard) -> list[Any]:
    """Sort by name as a search would; return the names, by segment and document."""
    snapshot = shard.partition.newest
    field = _field(shard)
    found: list[Any] = []
    for view in snapshot.views:
        docs = [doc for doc in range(view.segment.num_docs) if doc not in (view.deleted or ())]
        column = sort_column(snapshot, view, field, "de")
        found += column.values(np.array(docs, np.uint32))
    return found


def _field(shard: Shard) -> int:
    field = shard.partition.newest.registry.number("name")
    assert field is not None
    return field


def _texts_files(shard: Shard) -> set[str]:
    return {path.name for path in shard.folder.glob("texts-*.seg")}


def _reopen(shard: Shard) -> None:
    """Open the index as a process does that has just started."""
    shard.close()
    shard.open()


def test_a_start_reads_no_items_for_a_column_that_was_in_use(
    shard: Shard, sizes: list[int]
) -> None:
    shard.put(*_items(0, 100))
    shard.apply(*[(Operation.DELETE, str(i)) for i in (3, 17)])
    shard.merge()
    names = _sorted_names(shard)
    assert len(names) == 98
    assert not _texts_files(shard), "a search writes nothing"
    shard.merge()
    assert len(_texts_files(shard)) == 1
    before = sizes.copy()
    shard.apply((Operation.DELETE, "20"))

    _reopen(shard)

    names.remove("name 50")  # of item 20
    assert sorted(map(str, _sorted_names(shard))) == sorted(map(str, names))
    assert sizes == before
    (view,) = shard.partition.newest.views
    column = text_column(shard.partition.newest, view, _field(shard))
    expected = text_ordinal_columns._extract_texts(shard.partition.newest, view, _field(shard))
    assert column is not None
    assert set(column.all_keys()) >= set(expected.all_keys())
    assert column.longest == max(map(len, column.all_keys()))


def test_the_column_of_a_file_equals_the_one_that_was_written(shard: Shard) -> None:
    shard.put(*_items(0, 100))
    shard.merge()
    snapshot, field = shard.partition.newest, _field(shard)
    (view,) = snapshot.views
    made = text_column(snapshot, view, field)
    assert made is not None
    shard.merge()

    read = text_column(snapshot, view, field)

    assert read is not None
    assert read is not made, "the file takes the place of the arrays in memory"
    assert read.identity == made.identity, "what was derived from it stays"
    assert read.all_keys() == made.all_keys()
    assert read.column.codes.tolist() == made.column.codes.tolist()
    assert read.column.starts.tolist() == made.column.starts.tolist()
    assert (read.longest, read.size) == (made.longest, made.size)


def test_a_column_that_the_cache_dropped_comes_from_its_file(
    shard: Shard, sizes: list[int]
) -> None:
    shard.put(*_items(0, 100))
    shard.merge()
    names = _sorted_names(shard)
    shard.merge()
    snapshot, field = shard.partition.newest, _field(shard)
    (view,) = snapshot.views
    identity = text_ordinal_columns.texts_identity(snapshot, view, field)
    bytes_max, COLUMN_CACHE.bytes_max = COLUMN_CACHE.bytes_max, 0
    try:
        COLUMN_CACHE._evict()
        assert not needs_documents(snapshot, view, field)
        assert text_ordinal_columns.texts_identity(snapshot, view, field) == identity
        assert _sorted_names(shard) == names, "nor where the cache takes no column"
    finally:
        COLUMN_CACHE.bytes_max = bytes_max
    assert len(sizes) == 1


def test_a_merge_has_its_column_in_a_file_and_removes_those_of_its_parts(
    shard: Shard, sizes: list[int]
) -> None:
    shard.put(*_items(0, 100))
    shard.merge()
    _sorted_names(shard)
    shard.merge()
    old = _texts_files(shard)
    shard.put(*_items(90, 150))
    shard.merge()
    sizes.clear()

    assert len(shard.partition.newest.views) == 1
    new = _texts_files(shard)
    assert len(new) == 1
    assert not old & new
    names = _sorted_names(shard)
    _reopen(shard)
    assert _sorted_names(shard) == names
    assert not sizes


@pytest.mark.parametrize("how", ["flip", "cut", "remove"])
def test_a_damaged_column_is_extracted_again(shard: Shard, sizes: list[int], how: str) -> None:
    shard.put(*_items(0, 100))
    shard.merge()
    names = _sorted_names(shard)
    shard.merge()
    shard.close()
    (path,) = shard.folder.glob("texts-*.seg")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    if how == "remove":
        path.unlink()
    else:
        path.write_bytes(content if how == "flip" else content[:-1])
    before = {one.name for one in shard.folder.iterdir()}
    (problem,) = check_index(shard.folder).problems
    assert path.name in problem
    assert "made again by the search that needs it" in problem
    assert {one.name for one in shard.folder.iterdir()} == before, "a check changes nothing"

    assert shard.open().num_built == 0
    sizes.clear()
    assert _sorted_names(shard) == names
    assert sizes == [100]
    shard.merge()
    assert len(_texts_files(shard)) == 1
    shard.close()
    assert not check_index(shard.folder).problems
    shard.open()


def test_a_manifest_of_an_earlier_program_has_no_columns(shard: Shard, sizes: list[int]) -> None:
    shard.put(*_items(0, 100))
    shard.merge()
    names = _sorted_names(shard)
    shard.merge()
    shard.close()
    path = shard.folder / MANIFEST_FILE
    manifest = read_manifest(path, IndexManifest)
    assert manifest is not None
    assert [(one.field, one.column.num_docs) for one in manifest.texts] == [(_field(shard), 100)]
    members = msgspec.to_builtins(manifest)
    del members["texts"]
    write_manifest(path, msgspec.convert(members, IndexManifest))

    assert shard.open().num_built == 0
    sizes.clear()
    assert _sorted_names(shard) == names
    assert sizes == [100]
    shard.merge()
    assert len(_texts_files(shard)) == 1, "the file that nothing named is gone"


def test_columns_of_a_former_configuration_are_removed(shard: Shard) -> None:
    shard.put(*_items(0, 100))
    shard.merge()
    _sorted_names(shard)
    shard.merge()
    assert len(_texts_files(shard)) == 1

    reconfigure(shard, 2, aggregations={"id": {}})
    shard.merge()

    assert not _texts_files(shard)
    assert not shard.partition.derived.reserved


@pytest.mark.parametrize("what", ["room", "write"])
def test_where_a_column_cannot_be_written_nothing_else_waits(
    shard: Shard, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    shard.put(*_items(0, 100))
    shard.merge()
    names = _sorted_names(shard)

    def refuse(*_: object) -> Any:
        raise OSError(errno.ENOSPC, "refused")

    with monkeypatch.context() as patch:
        if what == "room":
            patch.setattr(ShardSettings, "leave_room", lambda *_: False)
        else:
            patch.setattr(DerivedFiles, "write_texts", refuse)
        assert not work(shard.partition, is_idle=True)
    assert not _texts_files(shard)
    assert _sorted_names(shard) == names
    assert work(shard.partition, is_idle=True)
    assert len(_texts_files(shard)) == 1


def test_columns_of_few_documents_and_of_facets_are_in_no_file(shard: Shard) -> None:
    shard.put(*_items(0, 49))
    shard.merge()
    _sorted_names(shard)
    shard.merge()
    assert not _texts_files(shard)

    reconfigure(shard, 2, aggregations={"name": {}})
    shard.put(*_items(49, 100))
    shard.merge()
    _sorted_names(shard)
    shard.merge()
    assert not _texts_files(shard)


def test_the_merger_writes_them_once_a_search_has_made_them(shard: Shard) -> None:
    shard.put(*_items(0, 100))
    shard.merge()
    scheduler = MergeScheduler()
    scheduler.start()
    try:
        scheduler.add(Job(shard.partition, shard.writer, lambda _: _never()))
        wait_until(lambda: scheduler.is_idle(1))
        scheduler.note_search(1)
        assert scheduler.is_idle(1), "there is nothing to write"
        _sorted_names(shard)
        scheduler.note_search(1)
        wait_until(lambda: _texts_files(shard))
        wait_until(lambda: scheduler.is_idle(1))
        scheduler.note_search(2)  # closed meanwhile
    finally:
        scheduler.stop()


def _never() -> Any:
    raise AssertionError("nothing is purged")


def test_segments_in_memory_have_none(shard: Shard) -> None:
    shard.put(*_items(0, 60))
    (view,) = shard.partition.newest.views
    assert view.segment.path is None
    _sorted_names(shard)
    assert not list(text_ordinal_files.texts_to_write(view.segment))
