"""Merges drop what died, which is then purged; what dies meanwhile is carried over."""

from __future__ import annotations

from typing import Any

import pytest

from common.process import faults
from common.protocol.write_operations import Operation
from shard.partition.merger import flush, work
from shard.partition.rebuild import Rebuild
from shard.storage.codecs import number_key
from shard.storage.environment import SubDatabase
from tests.shard.partition.local_shard import Shard, index_entry


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
    faults.arm("merge.write=error")
    try:
        with pytest.raises(OSError, match="injected"):
            work(shard.partition, is_idle=True)
    finally:
        faults.arm("")

    assert len(shard.live()) == 300
    shard.merge()
    assert len(shard.live()) == 300


def test_dead_records_leave_lmdb_also_after_a_configuration(shard: Shard) -> None:
    """A rebuilt segment leaves them out, so no merge ever drops them."""
    for revision in range(2, 6):
        for _ in range(300):  # more groups than the log keeps
            shard.put({"id": 0}, {"id": 1})
        rebuild = Rebuild(shard.partition, index_entry(revision, aggregations={f"f{revision}": {}}))
        rebuild.run()
        shard.put({"id": 0})
        rebuild.finish()
    shard.put({"id": "last"})
    shard.merge()
    while shard.writer.purge():
        pass

    with shard.partition.environment.read() as txn:
        assert txn.count(SubDatabase.DOCUMENTS) < 10
    shard.crash()
    shard.open()
    assert set(shard.live()) == {"0", "1", "last"}


@pytest.mark.parametrize("is_finished", [True, False])
def test_nothing_is_purged_while_a_configuration_is_built(shard: Shard, is_finished: bool) -> None:
    """Segments of the build have what was dead but not compacted then: a tombstone hides it."""
    shard.put({"id": 0, "v": 1}, {"id": 1})
    shard.put({"id": 0, "v": 2})
    rebuild = Rebuild(shard.partition, index_entry(2, aggregations={"color": {}, "v": {}}))
    rebuild.run()
    for _ in range(3):
        shard.put(*[{"id": number} for number in range(1, 100)])
    shard.merge()
    assert len(shard.partition.purge_queue) == 101  # ids 0 and 1, then 1 to 99
    while shard.writer.purge():
        pass
    if is_finished:
        rebuild.finish()
    else:
        rebuild.discard()
        rebuild.discard()

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
