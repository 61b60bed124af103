"""A group of operations is written as a whole: outcomes, places, conditions, refusals."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from common.errors import InternalError, StorageFull, Unavailable
from common.process import fault_injection
from common.protocol.messages import ApplyResponse, OutcomesResponse
from common.protocol.write_operations_and_outcomes import Operation, Outcome
from common.shard_settings import ShardSettings
from shard.partition.merge_and_flush import work
from shard.partition.partition import Partition
from shard.partition.write_group_planner import PLAN_SINGLY_MAX
from shard.partition.writer import BUILT_FIRST_DOCS_MAX, Writer
from shard.segment.builder.segment_builder import SegmentBuilder
from shard.storage.change_source_positions import read_positions
from shard.storage.lmdb_environment import Environment, SubDatabase
from shard.storage.write_group_log import read_state
from tests.shard.partition.local_shard import (
    Shard,
    index_entry,
    live_items,
    no_failure,
    put_all,
    write_group,
)
from tests.threads import no_new_threads


def test_outcomes_and_items_of_single_writes(shard: Shard) -> None:
    assert shard.put({"id": 1, "a": 1}, {"id": "b"}, {"a": 3}) == [Outcome.CREATED] * 3
    assert shard.put({"id": "1", "a": 2}) == [Outcome.UPDATED]
    assert shard.apply((Operation.DELETE, "b"), (Operation.DELETE, "b")) == [
        Outcome.DELETED,
        Outcome.NOT_FOUND,
    ]
    assert shard.apply((Operation.REPLACE, {"id": "b"})) == [Outcome.NOT_FOUND]
    assert shard.apply((Operation.MERGE, {"id": 1, "b": None})) == [Outcome.UPDATED]

    items = list(shard.live().values())

    assert sorted(items, key=str) == sorted([{"a": 3}, {"id": "1", "a": 2, "b": None}], key=str)


def test_update_keeps_the_place(shard: Shard) -> None:
    shard.put({"id": 1})
    place = live_items(shard.partition.newest)["1"][1]
    shard.put(*[{"id": number} for number in range(100)])

    assert live_items(shard.partition.newest)["1"][1] == place


def test_bulk_and_single_plans_agree(tmp_path: Path) -> None:
    random_items = random.Random(5)
    items = [
        {"id": random_items.randrange(400), "n": n, "color": random_items.choice("rgb")}
        for n in range(900)
    ]
    shards = []
    for name, size in (("bulk", 300), ("single", 30)):
        shard = Shard(tmp_path / name, index_entry(aggregations={"color": {}}))
        for at in range(0, len(items), size):
            unique = {item["id"]: item for item in items[at : at + size]}
            shard.put(*unique.values())
        shards.append(shard)

    expected = {str(item["id"]): item for item in items}
    for shard in shards:
        assert shard.live() == expected
        shard.crash()


def test_resent_group_changes_nothing_and_answers_the_same(shard: Shard) -> None:
    shard.put({"id": 1})
    group = write_group(7, [(Operation.PUT, {"id": 1}), (Operation.DELETE, "x")])
    first = shard.writer.apply(group)
    state = shard.partition.state

    again = shard.writer.apply(group)

    assert again == first == ApplyResponse(bytes([Outcome.UPDATED, Outcome.NOT_FOUND]))
    assert shard.partition.state == state
    shard.crash()
    shard.open()
    assert shard.writer.apply(group) == first


def test_a_group_that_got_no_thread_is_not_written_later(shard: Shard) -> None:
    """Its plan is of an older state by then: item 7 would be there twice."""
    with no_new_threads(), pytest.raises(RuntimeError):
        shard.put(*[{"id": number, "refused": True} for number in range(100)])
    shard.put({"id": 7, "small": True})
    shard.put(*[{"id": number} for number in range(200, 300)])

    expected: dict[str, Any] = {"7": {"id": 7, "small": True}}
    expected |= {str(number): {"id": number} for number in range(200, 300)}
    assert shard.live() == expected
    shard.crash()
    shard.open()
    assert shard.live() == expected


def test_change_is_made_only_if_the_record_is_the_one_that_was_selected(shard: Shard) -> None:
    shard.put({"id": 1}, {"id": 2}, {"id": "3"})
    shard.put({"id": 2, "new": True})  # record 3
    operations: list[tuple[Operation, dict[str, Any] | str]] = [
        (Operation.DELETE, "1"),
        (Operation.MERGE, {"id": 2, "seen": True}),
        (Operation.MERGE, {"id": 3, "seen": True}),
        (Operation.DELETE, "3"),
        (Operation.DELETE, "9"),
    ]
    group = msgspec.structs.replace(
        write_group(7, operations), records={0: 0, 1: 1, 2: 2, 3: 2, 4: 0}
    )

    assert list(shard.writer.apply(group).outcomes) == [
        Outcome.DELETED,
        Outcome.CONFLICT,
        Outcome.UPDATED,
        Outcome.CONFLICT,
        Outcome.NOT_FOUND,
    ]
    assert shard.live() == {"2": {"id": 2, "new": True}, "3": {"id": "3", "seen": True}}


@pytest.mark.parametrize("num_items", [1, PLAN_SINGLY_MAX + 1])
def test_item_is_replaced_only_if_the_record_is_the_one_that_was_selected(
    shard: Shard, num_items: int
) -> None:
    shard.put(*[{"id": number} for number in range(num_items)])
    others = put_all([{"id": number, "new": True} for number in range(num_items)])
    group = msgspec.structs.replace(write_group(7, others), records={0: 99})

    outcomes = list(shard.writer.apply(group).outcomes)

    assert outcomes == [Outcome.CONFLICT] + [Outcome.UPDATED] * (num_items - 1)
    assert shard.live()["0"] == {"id": 0}


def test_full_map_refuses_additions_but_not_deletes(tmp_path: Path) -> None:
    small = ShardSettings(map_bytes_max=1 << 20)
    partition = Partition.create(tmp_path / "index-1", index_entry(), small)
    writer = Writer(partition, no_failure)
    noise = random.Random(1)
    seqs = itertools.count(1)

    def fill() -> None:
        for number in itertools.count():
            item = {"id": number, "noise": noise.randbytes(5_000).hex()}
            seq = next(seqs)
            writer.apply(write_group(seq, put_all([item]), horizon=seq))

    with pytest.raises(StorageFull, match="greatest size"):
        fill()
    num_docs = partition.newest.num_docs
    assert num_docs > 50
    assert live_items(partition.newest)
    for number in range(num_docs - 5):
        writer.apply(write_group(next(seqs), [(Operation.DELETE, str(number))], horizon=1 << 40))
    writer.retire_open_segment()
    while work(partition, is_idle=True):
        pass
    while writer.purge():
        pass
    writer.apply(write_group(next(seqs), put_all([{"id": "room again"}])))
    assert partition.newest.num_docs == 6
    writer.close()
    partition.close()


def test_failed_commit_ends_the_process_and_changes_nothing(shard: Shard) -> None:
    shard.put({"id": 1})
    failures: list[BaseException] = []
    writer = Writer(shard.partition, failures.append)
    fault_injection.arm("writer.commit=error")
    try:
        with pytest.raises(InternalError, match="disk"):
            writer.apply(write_group(2, put_all([{"id": 2}])))
    finally:
        fault_injection.arm("")

    assert len(failures) == 1
    assert set(shard.live()) == {"1"}
    with pytest.raises(Unavailable, match="restarting"):
        writer.apply(write_group(3, put_all([{"id": 3}])))
    writer.close()


@pytest.mark.parametrize("num_new", [1, 100], ids=["before the commit", "after it"])
def test_group_that_cannot_be_indexed_is_undone(
    shard: Shard, monkeypatch: pytest.MonkeyPatch, num_new: int
) -> None:
    shard.put({"id": 1, "v": 1}, {"id": 0})

    def fail(*_: object) -> None:
        raise ValueError("poison")

    with monkeypatch.context() as patch:
        patch.setattr(SegmentBuilder, "build", fail)
        with pytest.raises(InternalError, match="indexed"):
            shard.put({"id": 1, "v": 2}, *[{"id": 2 + number} for number in range(num_new)])

    expected: dict[str, Any] = {"0": {"id": 0}, "1": {"id": 1, "v": 1}}
    assert shard.live() == expected
    shard.put({"id": 3})
    expected["3"] = {"id": 3}
    for _ in range(2):
        assert shard.live() == expected
        with shard.partition.environment.read() as txn:
            assert txn.count(SubDatabase.DOCUMENTS) == len(expected)
            assert read_state(txn).num_docs == len(expected)
        shard.crash()
        shard.open()


def test_an_undone_group_reports_no_outcomes_and_no_positions(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard.writer.apply(msgspec.structs.replace(write_group(1, []), positions={"feed": "1"}))
    items = put_all([{"id": number} for number in range(100)])
    group = msgspec.structs.replace(write_group(2, items), positions={"feed": "2"})

    def fail(*_: object) -> None:
        raise ValueError("no segment")

    with monkeypatch.context() as patch:
        patch.setattr(SegmentBuilder, "build", fail)
        with pytest.raises(InternalError, match="indexed"):
            shard.writer.apply(group)

    assert shard.writer.apply(group).outcomes == b"", "sent again: it was not applied"
    assert shard.writer.outcomes_of(2) == OutcomesResponse(True, b"")
    with shard.partition.environment.read() as txn:
        assert read_positions(txn) == {"feed": (1, "1")}


def test_records_that_could_not_be_purged_are_purged_later(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in range(2):
        shard.put(*[{"id": number, "size": size} for number in range(50)])
    shard.writer.settle(shard.seq)
    shard.merge()
    num_dead = len(shard.partition.purge_queue)
    assert num_dead

    def refuse(*_: object) -> None:
        raise StorageFull("the map is full")

    with monkeypatch.context() as patch:
        patch.setattr(Environment, "change", refuse)
        with pytest.raises(StorageFull):
            shard.writer.purge()
    assert len(shard.partition.purge_queue) == num_dead
    while shard.writer.purge():
        pass
    with shard.partition.environment.read() as txn:
        assert txn.count(SubDatabase.DOCUMENTS) == 50


def test_the_process_ends_if_a_group_that_cannot_be_indexed_cannot_be_undone(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[BaseException] = []
    monkeypatch.setattr(shard.writer, "_on_failure", failures.append)
    change = Environment.change
    num_changes = itertools.count()

    def refuse_second(environment: Environment, work: Any) -> Any:
        if next(num_changes):
            raise StorageFull("the map is full")
        return change(environment, work)

    def fail(*_: object) -> None:
        raise ValueError("no segment")

    with monkeypatch.context() as patch:
        patch.setattr(SegmentBuilder, "build", fail)
        patch.setattr(Environment, "change", refuse_second)
        with pytest.raises(StorageFull):
            shard.put(*[{"id": number} for number in range(100)])
    assert len(failures) == 1
    with pytest.raises(Unavailable):
        shard.put({"id": "next"})
    shard.crash()
    shard.open()
    assert len(shard.live()) == 100, "it was committed"


def test_the_process_ends_if_a_committed_group_cannot_be_shown(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent again, it would be confirmed, although no search finds it."""
    failures: list[BaseException] = []
    monkeypatch.setattr(shard.writer, "_on_failure", failures.append)

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Partition, "publish", fail)
        with pytest.raises(MemoryError):
            shard.put({"id": 1})
    assert len(failures) == 1
    with pytest.raises(Unavailable):
        shard.writer.apply(write_group(shard.seq, put_all([{"id": 1}])))
    shard.crash()
    shard.open()
    assert shard.live() == {"1": {"id": 1}}


@pytest.mark.parametrize("num_items", [BUILT_FIRST_DOCS_MAX, BUILT_FIRST_DOCS_MAX + 1])
def test_the_file_of_a_group_that_was_not_committed_is_removed(
    shard: Shard, monkeypatch: pytest.MonkeyPatch, num_items: int
) -> None:
    def refuse(*_: object) -> None:
        raise StorageFull("the map is full")

    with monkeypatch.context() as patch:
        patch.setattr(Partition, "memory_bytes", property(lambda _: 1 << 40))
        patch.setattr(Environment, "change", refuse)
        with pytest.raises(StorageFull):
            shard.put(*[{"id": number} for number in range(num_items)])
    assert not list(shard.folder.glob("segment-*"))
    assert not shard.partition.derived.reserved
