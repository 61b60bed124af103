"""Merges drop what died, which is then purged; what dies meanwhile is carried over."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.process import fault_injection
from common.protocol.write_operations_and_outcomes import Operation
from common.shard_settings import ShardSettings
from shard.partition import derived_files
from shard.partition.derived_files import DerivedFiles
from shard.partition.merge_and_flush import flush, work
from shard.partition.partition import Partition
from shard.partition.reindex import Reindex
from shard.segment.columns.sort_columns import sort_column
from shard.segment.columns.text_ordinal_columns import needs_documents
from shard.segment.segment import Segment
from shard.storage.lmdb_codecs import number_key
from shard.storage.lmdb_environment import SubDatabase
from tests.shard.partition.local_shard import Shard, damage_item, index_entry, reconfigure


def test_dead_records_leave_lmdb_after_a_merge(shard: Shard) -> None:
    for _ in range(5):
        shard.put(*[{"id": number} for number in range(100)])
    shard.put({"id": "last"})
    shard.put({"id": "last 2"})
    shard.merge()
    while shard.writer.purge():
        pass

    with shard.partition.environment.read() as txn:
        assert txn.count(SubDatabase.DOCUMENTS) == 102
        assert txn.count(SubDatabase.TOMBSTONES) == 0
    assert len(shard.live()) == 102
    shard.crash()
    shard.open()
    assert len(shard.live()) == 102


def test_records_that_merges_dropped_are_not_indexed_again(shard: Shard) -> None:
    for _ in range(6):
        shard.put(*[{"id": number} for number in range(2_000)])
        shard.merge()
    flush(shard.partition)
    shard.crash()
    shard.open()

    assert sum(view.segment.num_docs for view in shard.partition.newest.views) <= 6_000
    shard.put({"id": 0})  # tells how old a state may still be named
    shard.close()
    shard.open()
    assert sum(view.segment.num_docs for view in shard.partition.newest.views) <= 4_001


def test_deletions_during_a_merge_are_carried_over(shard: Shard) -> None:
    for start in (0, 100, 200):
        shard.put(*[{"id": number} for number in range(start, start + 100)])
    partition = shard.partition
    replace_segments = partition.replace_segments

    def delete_first(*arguments: Any) -> bool:
        shard.apply(*[(Operation.DELETE, str(number)) for number in range(50, 250)])
        return replace_segments(*arguments)

    partition.replace_segments = delete_first  # type: ignore[method-assign, assignment]
    assert work(partition, is_idle=True)

    assert set(shard.live()) == {str(number) for number in [*range(50), *range(250, 300)]}


def test_full_disk_during_a_merge_leaves_all_as_it_was(shard: Shard) -> None:
    for start in (0, 100, 200):
        shard.put(*[{"id": number} for number in range(start, start + 100)])
    fault_injection.arm("merge.write=error")
    try:
        with pytest.raises(OSError, match="injected"):
            work(shard.partition, is_idle=True)
    finally:
        fault_injection.arm("")

    assert len(shard.live()) == 300
    shard.merge()
    assert len(shard.live()) == 300


def test_a_merge_is_not_begun_without_room(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the room that writes need, and fail at its end."""
    for start in (0, 100, 200):
        shard.put(*[{"id": number} for number in range(start, start + 100)])
    segments = [view.segment.uid for view in shard.partition.newest.views]
    size = sum(view.segment.size for view in shard.partition.newest.views)
    asked: list[int] = []

    def refuse(_: object, folder: Path, num_bytes: int) -> bool:
        asked.append(num_bytes)
        return False

    with monkeypatch.context() as patch:
        patch.setattr(ShardSettings, "leave_room", refuse)
        with pytest.raises(OSError, match="no room") as caught:
            work(shard.partition, is_idle=True)

    assert caught.value.errno == errno.ENOSPC
    assert size < min(asked)
    assert [view.segment.uid for view in shard.partition.newest.views] == segments
    assert not list(shard.folder.glob("*.seg"))


def test_a_merge_whose_file_cannot_be_mapped_leaves_no_file(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again every ten seconds, and each left one more file of its size."""
    for start in (0, 100, 200):
        shard.put(*[{"id": number} for number in range(start, start + 100)])

    def refuse(_: Path) -> Segment:
        raise OSError(errno.ENOMEM, "refused")

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "map", refuse)
        with pytest.raises(OSError, match="refused"):
            work(shard.partition, is_idle=True)

    assert not list(shard.folder.glob("*.seg"))
    assert not shard.partition.derived.reserved
    shard.merge()
    assert len(shard.live()) == 300


def test_dead_records_leave_lmdb_also_after_a_configuration(shard: Shard) -> None:
    """A rebuilt segment leaves them out, so no merge ever drops them."""
    for revision in range(2, 6):
        for _ in range(300):  # more groups than the log keeps
            shard.put({"id": 0}, {"id": 1})
        reindex = Reindex(shard.partition, index_entry(revision, aggregations={f"f{revision}": {}}))
        reindex.run()
        shard.put({"id": 0})
        reindex.finish()
    shard.put({"id": "last"})
    shard.merge()
    while shard.writer.purge():
        pass

    with shard.partition.environment.read() as txn:
        assert txn.count(SubDatabase.DOCUMENTS) < 10
    shard.crash()
    shard.open()
    assert set(shard.live()) == {"0", "1", "last"}


def test_a_commit_spares_what_another_thread_begins(
    shard: Shard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A configuration is built while the merger looks for files that no manifest names."""
    shard.put(*[{"id": number, "color": "red"} for number in range(100)])
    reindex = Reindex(shard.partition, index_entry(2, aggregations={"color": {}, "id": {}}))
    listed = Path.iterdir
    building = iter([reindex.run])

    def list_after_the_build(folder: Path) -> Iterator[Path]:
        for build in building:
            build()
        return listed(folder)

    remove_unnamed = DerivedFiles._remove_unnamed

    def remove(files: DerivedFiles, segments: Sequence[Segment]) -> None:
        with monkeypatch.context() as late:
            late.setattr(Path, "iterdir", list_after_the_build)
            remove_unnamed(files, segments)

    monkeypatch.setattr(DerivedFiles, "_remove_unnamed", remove)
    flush(shard.partition)
    assert next(building, None) is None
    reindex.finish()
    shard.crash()
    shard.open()
    assert not caplog.records  # such as "derived file cannot be used, building it again"


@pytest.mark.parametrize("is_finished", [True, False])
def test_nothing_is_purged_while_a_configuration_is_built(shard: Shard, is_finished: bool) -> None:
    """Segments of the build have what was dead but not compacted then: a tombstone hides it."""
    shard.put({"id": 0, "v": 1}, {"id": 1})
    shard.put({"id": 0, "v": 2})
    reindex = Reindex(shard.partition, index_entry(2, aggregations={"color": {}, "v": {}}))
    reindex.run()
    for _ in range(3):
        shard.put(*[{"id": number} for number in range(1, 100)])
    shard.merge()
    assert len(shard.partition.purge_queue) == 101  # ids 0 and 1, then 1 to 99
    while shard.writer.purge():
        pass
    if is_finished:
        reindex.finish()
    else:
        reindex.discard()
        reindex.discard()

    expected = {str(number): {"id": number} for number in range(100)} | {"0": {"id": 0, "v": 2}}
    assert shard.live() == expected
    for _ in range(2):
        shard.put(*[{"id": number} for number in range(1, 100)])
    shard.merge()
    while shard.writer.purge():
        pass
    with shard.partition.environment.read() as txn:
        assert txn.get(SubDatabase.DOCUMENTS, number_key(0)) is None
    shard.crash()
    shard.open()
    assert shard.live() == expected


def _purge_all(shard: Shard) -> int:
    """Purge what is dead; return how many items are stored then."""
    shard.merge()
    while shard.writer.purge():
        pass
    shard.partition.commit_derived()
    assert not shard.partition.purge_queue, "what was purged is not queued again"
    with shard.partition.environment.read() as txn:
        return txn.count(SubDatabase.DOCUMENTS)


def _files_are_named(shard: Shard) -> bool:
    """Return whether the manifest names just the files that are there."""
    manifest = shard.partition.derived.read_manifest()
    assert manifest is not None
    pieces = [piece for one in manifest.dictionaries.values() for piece in one.pieces]
    named = {entry.file for entry in (*manifest.segments, *pieces)}
    return named == {path.name for path in shard.folder.glob("*.seg")}


def _write_twice(shard: Shard) -> None:
    """Put 50 items, and replace them: a merge may drop the first ones."""
    for size in range(2):
        shard.put(*[{"id": number, "size": size} for number in range(50)])
    shard.writer.settle(shard.seq)


def test_a_merge_whose_manifest_is_refused_is_completed_later(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_twice(shard)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "refused")

    with monkeypatch.context() as patch:
        patch.setattr(derived_files, "write_manifest", refuse)
        for _ in range(2):
            with pytest.raises(OSError, match="refused"):
                shard.merge()
    assert not shard.partition.purge_queue  # the files that the manifest names still have them

    assert _purge_all(shard) == 50
    assert _files_are_named(shard)
    shard.crash()
    shard.open()
    assert shard.live() == {str(number): {"id": number, "size": 1} for number in range(50)}


@pytest.mark.parametrize("is_shared", [True, False])
def test_what_a_merge_drops_is_purged_though_the_configuration_is_switched_meanwhile(
    shard: Shard, is_shared: bool
) -> None:
    _write_twice(shard)
    replace = shard.partition.replace_segments

    def switch_then(*arguments: Any) -> bool:
        is_replaced = replace(*arguments)
        aggregations: dict[str, Any] = {"color": {}} if is_shared else {"size": {}}
        reconfigure(shard, 2, aggregations=aggregations, match="any")
        return is_replaced

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard.partition, "replace_segments", switch_then)
        assert work(shard.partition, is_idle=True)
    assert shard.partition.newest.revision == 2

    shard.put({"id": 50, "size": 1})
    assert _purge_all(shard) == 51
    shard.crash()
    shard.open()
    assert shard.live() == {str(number): {"id": number, "size": 1} for number in range(51)}


def test_a_switch_keeps_the_segments_of_a_merge_that_ends_at_that_moment(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_twice(shard)
    shard.merge()
    shard.put(*[{"id": number} for number in range(50, 100)])
    switch = Partition.switch_generation

    def merge_then(*arguments: Any) -> None:
        shard.merge()  # as the merger's thread may
        switch(*arguments)

    monkeypatch.setattr(Partition, "switch_generation", merge_then)
    reconfigure(shard, 2, aggregations={"color": {}}, match="any")

    assert _files_are_named(shard)
    shard.crash()
    shard.open()
    assert len(shard.live()) == 100


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_merged_segment_has_the_order_that_was_in_use(shard: Shard, is_damaged: bool) -> None:
    """Unless an item that it has to read is damaged: the search that needs it will say so."""
    for first in range(0, 60, 20):
        shard.put(*({"id": i, "name": f"name {i * 7 % 60:02}"} for i in range(first, first + 20)))
        flush(shard.partition)
    shard.apply((Operation.DELETE, "5"))
    newest = shard.partition.newest
    field = newest.registry.number("name")
    assert field is not None
    for view in newest.views[:2]:
        sort_column(newest, view, field)
    if is_damaged:
        damage_item(shard, 50)

    shard.merge()

    (view,) = shard.partition.newest.views
    assert needs_documents(newest, view, field) == is_damaged
    if not is_damaged:
        docs = np.arange(view.segment.num_docs, dtype=np.uint32)
        docs = np.setdiff1d(docs, [] if view.deleted_docs is None else view.deleted_docs)
        names = sort_column(shard.partition.newest, view, field).values(docs)
        assert names == [f"name {i * 7 % 60:02}" for i in range(60) if i != 5]
