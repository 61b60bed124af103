"""One index on a shard behaves like a dict: through writes, merges, crashes and damaged files.

A crash is simulated by closing the environment without writing what is in memory; what LMDB has
committed stays, segments in memory are lost.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import orjson
import pytest
import xxhash
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from common.errors import InternalError, InvalidRequest, StorageFull, Unavailable
from common.process import faults, logs
from common.protocol.messages import ApplyRequest, ApplyResponse, IndexEntry, SnapshotSource
from common.protocol.operations import Operation, Outcome
from common.shard_settings import ShardSettings
from shard.collect.facet_counts import facet_counter
from shard.maintenance.check import check_index, drop_damaged, rebuild_index
from shard.partition import rebuild as rebuild_module
from shard.partition.backup import copy_truth, put_back
from shard.partition.merger import flush, work
from shard.partition.opening import Opening
from shard.partition.partition import Partition
from shard.partition.rebuild import Rebuild
from shard.partition.writer import Writer
from shard.segment.snapshot import Snapshot
from shard.storage.codecs import number_key
from shard.storage.environment import Environment, SubDatabase
from shard.storage.refusals import DamagedEnvironment

_ADDING = (
    Operation.PUT,
    Operation.UPSERT,
    Operation.UPSERT_CHANGES,
    Operation.PUT_KEEPING_ID,
)
_MERGING = (
    Operation.MERGE,
    Operation.UPSERT,
    Operation.MERGE_CHANGES,  # of plain values, which replace those that are there
    Operation.UPSERT_CHANGES,
)
_KEEPING_ID = (Operation.REPLACE_KEEPING_ID, Operation.PUT_KEEPING_ID)
_SETTINGS = ShardSettings(map_bytes_max=1 << 30, flush_docs=40)


def _entry(revision: int = 1, **configuration: Any) -> IndexEntry:
    return IndexEntry(1, "things", revision, configuration)


def _no_failure(error: BaseException) -> None:
    raise AssertionError from error


def _group(
    seq: int,
    operations: list[tuple[Operation, dict[str, Any] | str]],
    *,
    horizon: int = 0,
    versions: dict[int, bytes] | None = None,
) -> ApplyRequest:
    contents = [
        what.encode() if isinstance(what, str) else orjson.dumps(what) for _, what in operations
    ]
    return ApplyRequest(
        index=1,
        seq=seq,
        horizon=horizon,
        payload=b"".join(contents),
        lengths=np.array([len(one) for one in contents], np.uint32).tobytes(),
        operations=bytes(operation for operation, _ in operations),
        places=(np.arange(len(contents), dtype=np.uint64) + np.uint64(seq << 32)).tobytes(),
        versions=versions or {},
    )


def _puts(items: list[dict[str, Any]]) -> list[tuple[Operation, dict[str, Any] | str]]:
    return [(Operation.PUT, item) for item in items]


def _live(snapshot: Snapshot) -> dict[str, tuple[dict[str, Any], int]]:
    """Return item and place of every live document by id; the states must agree everywhere."""
    found = {}
    for view in snapshot.views:
        deleted = view.deleted or ()
        records = view.segment["docs.record"]
        assert (np.diff(records.astype(np.int64)) > 0).all()
        ordinals = [doc for doc in range(view.segment.num_docs) if doc not in deleted]
        documents = snapshot.read_documents(records[ordinals])
        places = view.segment["docs.place"][ordinals].tolist()
        for document, place in zip(documents, places, strict=True):
            item = orjson.loads(document)
            key = str(item.get("id", f"place {place}"))
            assert key not in found
            found[key] = (item, place)
    assert len(found) == snapshot.num_docs
    return found


def _facet_counts(snapshot: Snapshot, path: str) -> dict[str, int]:
    """Count a single-valued facet over live documents through codes and dictionary."""
    dictionary = snapshot.dictionaries[path]
    field = snapshot.registry.number(path)
    counts: dict[str, int] = {}
    for view in snapshot.views:
        codes = view.segment.get(f"facet.{field}.codes")
        if codes is None:
            continue
        assert view.segment.get(f"facet.{field}.starts") is None
        for doc, code in enumerate(codes.tolist()):
            if code and doc not in (view.deleted or ()):
                (key,) = dictionary.values(code - 1, code)
                counts[key] = counts.get(key, 0) + 1
    return counts


class Shard:
    """A partition with its writer, as the process has them, but on one thread."""

    def __init__(self, folder: Path, entry: IndexEntry | None = None) -> None:
        self.folder = folder
        self.partition = Partition.create(folder, entry or _entry(), _SETTINGS)
        self.writer = Writer(self.partition, _no_failure)
        self.seq = 0
        self.held: int | None = None
        """The oldest horizon that some cursor has; else the last group is all that is asked for."""

    def apply(self, *operations: tuple[Operation, dict[str, Any] | str]) -> list[Outcome]:
        self.seq += 1
        horizon = self.seq - 1 if self.held is None else self.held
        response = self.writer.apply(_group(self.seq, list(operations), horizon=horizon))
        return [Outcome(one) for one in response.outcomes]

    def put(self, *items: dict[str, Any]) -> list[Outcome]:
        return self.apply(*_puts(list(items)))

    def close(self) -> None:
        self.writer.close()
        self.writer.compact()
        flush(self.partition)
        self.partition.close()

    def crash(self) -> None:
        self.writer.close()
        self.partition.environment.close()

    def open(self) -> None:
        self.partition = Partition.open(self.folder, 1, _SETTINGS)
        self.writer = Writer(self.partition, _no_failure)

    def merge(self) -> None:
        self.writer.retire_open_segment()
        while work(self.partition, is_idle=True):
            pass

    def live(self) -> dict[str, dict[str, Any]]:
        return {key: item for key, (item, _) in _live(self.partition.newest).items()}


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    shard = Shard(tmp_path / "index-1", _entry(aggregations={"color": {}}))
    yield shard
    shard.crash()


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
    place = _live(shard.partition.newest)["1"][1]
    shard.put(*[{"id": number} for number in range(100)])

    assert _live(shard.partition.newest)["1"][1] == place


def test_bulk_and_single_plans_agree(tmp_path: Path) -> None:
    random_items = random.Random(5)
    items = [
        {"id": random_items.randrange(400), "n": n, "color": random_items.choice("rgb")}
        for n in range(900)
    ]
    shards = []
    for name, size in (("bulk", 300), ("single", 30)):
        shard = Shard(tmp_path / name, _entry(aggregations={"color": {}}))
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
    group = _group(7, [(Operation.PUT, {"id": 1}), (Operation.DELETE, "x")])
    first = shard.writer.apply(group)
    state = shard.partition.state

    again = shard.writer.apply(group)

    assert again == first == ApplyResponse(bytes([Outcome.UPDATED, Outcome.NOT_FOUND]))
    assert shard.partition.state == state
    shard.crash()
    shard.open()
    assert shard.writer.apply(group) == first


def test_horizon_sees_the_groups_up_to_it_also_after_a_restart(shard: Shard) -> None:
    shard.writer.apply(_group(3, _puts([{"id": 1, "v": 1}, {"id": 2}]), horizon=0))
    shard.writer.apply(_group(5, _puts([{"id": 1, "v": 2}, {"id": 3}]), horizon=3))
    shard.writer.apply(_group(8, [(Operation.DELETE, "2")], horizon=3))

    def states() -> list[dict[str, Any]]:
        partition = shard.partition
        return [
            {key: item for key, (item, _) in _live(partition.snapshot_at(horizon)).items()}
            for horizon in (9, 7, 4, 3)
        ]

    before = states()
    newer, older = ["1", "2", "3"], ["1", "2"]
    assert [sorted(state) for state in before] == [["1", "3"], newer, older, older]
    assert [state["1"]["v"] for state in before] == [2, 2, 1, 1]
    shard.merge()
    assert states() == before
    shard.crash()
    shard.open()
    assert states() == before
    shard.close()
    shard.open()
    shard.merge()
    assert states() == before


def test_every_state_since_the_oldest_horizon_in_use_can_be_had(shard: Shard) -> None:
    states: dict[int, dict[str, Any]] = {}
    generator = random.Random(2)
    for seq in range(1, 60):
        operations: list[tuple[Operation, dict[str, Any] | str]] = [
            (Operation.DELETE, str(generator.randrange(90)))
            if generator.random() < 0.2
            else (Operation.PUT, {"id": generator.randrange(90), "seq": seq})
            for _ in range(generator.choice([1, 5, 70]))
        ]
        shard.writer.apply(_group(seq, operations, horizon=min(seq - 1, 10)))
        shard.seq = seq
        states[seq] = shard.live()
        if seq % 7 == 0:
            work(shard.partition, is_idle=True)
        if seq == 40:
            shard.close()
            shard.open()
    for seq in generator.sample(range(10, 60), 50):
        live = _live(shard.partition.snapshot_at(seq))
        assert {key: item for key, (item, _) in live.items()} == states[seq]
    assert shard.partition.num_states <= 10


def test_older_states_share_the_merged_segment(shard: Shard) -> None:
    """So that the parts, and the pages that a merge has touched, can go."""
    for start in (0, 200, 400):
        shard.put(*[{"id": number} for number in range(start, start + 200)])
    shard.put({"id": 0, "v": 1}, {"id": "new"})
    shard.put({"id": 1, "v": 1})
    partition = shard.partition
    before = {seq: _live(partition.snapshot_at(seq)) for seq in (4, 5)}
    shard.merge()

    assert {seq: _live(partition.snapshot_at(seq)) for seq in (4, 5)} == before
    uids = {view.segment.uid for seq in (4, 5) for view in partition.snapshot_at(seq).views}
    assert len(uids) == 1


def test_state_keeps_what_died_in_it_for_the_states_before(shard: Shard) -> None:
    """A state may have nothing of a merged segment to show; the one before is restored from it."""
    shard.held = 1
    shard.put(*[{"id": number} for number in range(200)])
    shard.put({"id": "short-lived"})
    shard.writer.retire_open_segment()
    assert shard.apply((Operation.DELETE, "short-lived")) == [Outcome.DELETED]
    for number in range(8):
        shard.put({"id": f"later {number}"})
        shard.writer.retire_open_segment()
    partition = shard.partition
    assert "short-lived" not in _live(partition.snapshot_at(3))
    shard.merge()
    assert [view.segment.num_docs for view in partition.newest.views] == [200, 9]

    assert "short-lived" in _live(partition.snapshot_at(2))
    assert "short-lived" not in _live(partition.snapshot_at(3))


def test_state_that_was_folded_is_refused(shard: Shard) -> None:
    for _ in range(600):
        shard.put({"id": 1})
    shard.crash()
    shard.open()

    with pytest.raises(InvalidRequest, match="cursor"):
        shard.partition.snapshot_at(20)


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


@pytest.mark.parametrize("how", ["flip", "cut", "remove"])
@pytest.mark.parametrize("pattern", ["segment-*.seg", "facets-*.seg", "MANIFEST.json"])
def test_damaged_derived_file_is_built_again(shard: Shard, pattern: str, how: str) -> None:
    items = [{"id": number, "color": "rgb"[number % 3]} for number in range(300)]
    for start in range(0, 300, 100):
        shard.put(*items[start : start + 100])
        flush(shard.partition)
    shard.put({"id": 0, "color": "new"})
    shard.close()
    for path in sorted(shard.folder.glob(pattern))[:1]:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        if how == "remove":
            path.unlink()
        else:
            path.write_bytes(content if how == "flip" else content[:-1])

    shard.open()

    expected = {str(item["id"]): item for item in [*items, {"id": 0, "color": "new"}]}
    assert shard.live() == expected
    counts = _facet_counts(shard.partition.newest, "color")
    assert counts == {"r": 99, "g": 100, "b": 100, "new": 1}
    shard.close()
    shard.open()
    assert shard.live() == expected


def test_an_open_tells_how_much_it_indexes_again(shard: Shard) -> None:
    shard.put(*({"id": i} for i in range(50)))
    shard.close()
    shard.open()
    shard.put(*({"id": i} for i in range(40, 70)))
    shard.crash()

    opening = Opening()
    shard.partition = Partition.open(shard.folder, 1, _SETTINGS, opening=opening)
    shard.writer = Writer(shard.partition, _no_failure)
    assert opening.num_records == opening.num_built == 30

    shard.close()
    opening = Opening()
    shard.partition = Partition.open(shard.folder, 1, _SETTINGS, opening=opening)
    shard.writer = Writer(shard.partition, _no_failure)
    assert opening.num_records == opening.num_built == 0, "all is in segments"
    shard.close()

    for path in shard.folder.glob("MANIFEST*"):
        path.unlink()
    opening = Opening()
    shard.partition = Partition.open(shard.folder, 1, _SETTINGS, opening=opening)
    shard.writer = Writer(shard.partition, _no_failure)
    assert opening.num_records == opening.num_built == 80, "records, dead ones included"
    shard.close()
    shard.open()


def test_older_or_empty_truth_is_refused(shard: Shard) -> None:
    shard.put({"id": 1})
    shard.close()
    old = (shard.folder / "data.mdb").read_bytes()
    shard.open()
    shard.put({"id": 2})
    shard.close()
    new = (shard.folder / "data.mdb").read_bytes()

    for content in (old, b"", new[:8192]):
        (shard.folder / "data.mdb").write_bytes(content)
        with pytest.raises(DamagedEnvironment, match=r"data\.mdb"):
            Partition.open(shard.folder, 1, _SETTINGS)
    (shard.folder / "data.mdb").unlink()
    with pytest.raises(DamagedEnvironment, match=r"data\.mdb"):
        Partition.open(shard.folder, 1, _SETTINGS)
    (shard.folder / "data.mdb").write_bytes(new)
    shard.open()
    assert set(shard.live()) == {"1", "2"}


def test_damaged_item_is_never_served_and_can_be_written_again(shard: Shard) -> None:
    shard.put({"id": 1}, {"id": 2})
    with shard.partition.environment.write() as txn:
        value = bytearray(txn.get(SubDatabase.DOCUMENTS, number_key(0)) or b"")
        value[-2] ^= 1
        txn.put(SubDatabase.DOCUMENTS, number_key(0), bytes(value))

    with pytest.raises(InternalError, match="damaged"):
        shard.live()
    assert shard.partition.documents.num_corrupt == 1
    assert shard.put({"id": 1, "v": 2}) == [Outcome.UPDATED]
    assert shard.live() == {"1": {"id": 1, "v": 2}, "2": {"id": 2}}


def _damage(shard: Shard, record: int) -> None:
    """Flip one bit of a stored item."""
    with shard.partition.environment.write() as txn:
        value = bytearray(txn.get(SubDatabase.DOCUMENTS, number_key(record)) or b"")
        value[-2] ^= 1
        txn.put(SubDatabase.DOCUMENTS, number_key(record), bytes(value))


def _configure(shard: Shard, revision: int, **configuration: Any) -> None:
    rebuild = Rebuild(shard.partition, _entry(revision, **configuration))
    rebuild.run()
    rebuild.finish()


@pytest.mark.parametrize("way", ["crash", "configuration", "lost segment"])
def test_damaged_item_that_no_segment_has_is_nowhere(
    shard: Shard, way: str, capfd: pytest.CaptureFixture[str]
) -> None:
    logs.configure("test", level="warning")
    shard.put(*[{"id": i, "color": "r"} for i in range(50)])
    if way == "lost segment":
        shard.close()
        for path in shard.folder.glob("segment-*.seg"):
            path.unlink()
        shard.open()
    _damage(shard, 7)
    if way == "configuration":
        _configure(shard, 2, aggregations={"color": {}, "other": {}})
    else:
        shard.crash()
        shard.open()
    assert "damaged items are left out" in capfd.readouterr().err

    def expect(ids: set[int]) -> None:
        newest = shard.partition.newest
        assert set(shard.live()) == {str(i) for i in ids}
        assert newest.num_docs == len(ids)
        assert _facet_counts(newest, "color") == {"r": len(ids)}
        assert shard.partition.damaged == {7}

    others = set(range(50)) - {7}
    expect(others)
    assert shard.apply((Operation.DELETE, "7")) == [Outcome.NOT_FOUND]
    for _ in range(2):  # the manifest knows of it, also after merges
        shard.merge()
        shard.close()
        shard.open()
        expect(others)
    log = capfd.readouterr().err
    assert "records=7" in log
    assert "disagree" not in log
    assert shard.put({"id": 7, "color": "r"}) == [Outcome.CREATED]
    expect(others | {7})

    shard.close()
    problems = check_index(shard.folder, _SETTINGS).problems
    assert len(problems) == 1
    assert "item of record 7 is damaged" in problems[0]
    assert drop_damaged(shard.folder, _SETTINGS) == [7]
    rebuild_index(shard.folder, 1, _SETTINGS)
    assert check_index(shard.folder, _SETTINGS).problems == []
    shard.open()
    assert shard.partition.damaged == set()
    assert shard.partition.state.num_docs == len(shard.live()) == 50


def test_damaged_item_can_be_deleted_by_id_and_by_record(shard: Shard) -> None:
    shard.put(*[{"id": i} for i in range(5)])
    for record in (1, 2):
        _damage(shard, record)
    newest = shard.partition.newest
    assert newest.documents.read_some([0, 1, 3], 1) == [b'{"id":0}']
    assert newest.documents.read_some([1, 0, 2], 100) == [None, b'{"id":0}', None]

    assert shard.apply((Operation.DELETE, "1")) == [Outcome.DELETED]
    group = msgspec.structs.replace(_group(9, [(Operation.DELETE, "")] * 3), records={0: 2, 1: 2})
    assert list(shard.writer.apply(group).outcomes) == [
        Outcome.DELETED,
        Outcome.NOT_FOUND,
        Outcome.NOT_FOUND,
    ]
    assert set(shard.live()) == {"0", "3", "4"}
    assert shard.partition.state.num_docs == 3
    shard.close()
    assert check_index(shard.folder, _SETTINGS).problems == []
    shard.open()


def test_damage_that_was_written_over_is_forgotten(shard: Shard) -> None:
    shard.put(*[{"id": i} for i in range(5)])
    _damage(shard, 3)
    assert shard.put({"id": 3, "new": True}) == [Outcome.UPDATED]
    shard.close()

    assert check_index(shard.folder, _SETTINGS).problems == []
    shard.open()
    assert shard.live()["3"] == {"id": 3, "new": True}


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
    group = msgspec.structs.replace(_group(7, operations), records={0: 0, 1: 1, 2: 2, 3: 2, 4: 0})

    assert list(shard.writer.apply(group).outcomes) == [
        Outcome.DELETED,
        Outcome.CONFLICT,
        Outcome.UPDATED,
        Outcome.CONFLICT,
        Outcome.NOT_FOUND,
    ]
    assert shard.live() == {"2": {"id": 2, "new": True}, "3": {"id": "3", "seen": True}}


def test_only_what_all_items_depend_on_keeps_an_index_closed(shard: Shard) -> None:
    shard.put(*[{"id": i, "text": f"some text {i % 50}"} for i in range(1_500)])
    with shard.partition.environment.write() as txn:
        value = txn.get(SubDatabase.META, b"words/1")
        assert value is not None, "there are enough items to train one"
        txn.put(SubDatabase.META, b"words/1", value[:-1])
    shard.crash()
    with pytest.raises(DamagedEnvironment, match="dictionary is damaged"):
        Partition.open(shard.folder, 1, _SETTINGS)
    environment = Environment.open(shard.folder, _SETTINGS.map_bytes_max)
    with environment.write() as txn:
        txn.put(SubDatabase.META, b"words/1", value)
    environment.close()
    manifest = shard.folder / "MANIFEST.json"
    manifest.unlink()
    manifest.mkdir()  # what cannot be read as a file
    shard.open()
    assert shard.partition.newest.num_docs == 1_500
    shard.partition.commit_derived()
    assert manifest.is_file()


def test_full_map_refuses_additions_but_not_deletes(tmp_path: Path) -> None:
    small = ShardSettings(map_bytes_max=1 << 20)
    partition = Partition.create(tmp_path / "index-1", _entry(), small)
    writer = Writer(partition, _no_failure)
    noise = random.Random(1)
    seqs = itertools.count(1)

    def fill() -> None:
        for number in itertools.count():
            item = {"id": number, "noise": noise.randbytes(5_000).hex()}
            seq = next(seqs)
            writer.apply(_group(seq, _puts([item]), horizon=seq))

    with pytest.raises(StorageFull, match="greatest size"):
        fill()
    num_docs = partition.newest.num_docs
    assert num_docs > 50
    assert _live(partition.newest)
    for number in range(num_docs - 5):
        writer.apply(_group(next(seqs), [(Operation.DELETE, str(number))], horizon=1 << 40))
    writer.retire_open_segment()
    while work(partition, is_idle=True):
        pass
    while writer.purge():
        pass
    writer.apply(_group(next(seqs), _puts([{"id": "room again"}])))
    assert partition.newest.num_docs == 6
    writer.close()
    partition.close()


def test_failed_commit_ends_the_process_and_changes_nothing(shard: Shard) -> None:
    shard.put({"id": 1})
    failures: list[BaseException] = []
    writer = Writer(shard.partition, failures.append)
    faults.arm("writer.commit=error")
    try:
        with pytest.raises(InternalError, match="disk"):
            writer.apply(_group(2, _puts([{"id": 2}])))
    finally:
        faults.arm("")

    assert len(failures) == 1
    assert set(shard.live()) == {"1"}
    with pytest.raises(Unavailable, match="restarting"):
        writer.apply(_group(3, _puts([{"id": 3}])))
    writer.close()


def test_group_that_cannot_be_indexed_is_taken_back(shard: Shard) -> None:
    shard.put({"id": 1, "v": 1})
    builder = shard.partition.generation.builder
    build = builder.build

    def fail(*arguments: Any) -> Any:
        raise ValueError("poison")

    builder.build = fail  # type: ignore[method-assign, assignment]
    with pytest.raises(InternalError, match="indexed"):
        shard.put({"id": 1, "v": 2}, {"id": 2})
    builder.build = build  # type: ignore[method-assign]

    assert shard.live() == {"1": {"id": 1, "v": 1}}
    shard.put({"id": 3})
    shard.crash()
    shard.open()
    assert shard.live() == {"1": {"id": 1, "v": 1}, "3": {"id": 3}}


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


@pytest.mark.parametrize("step", ["before", "prepared", "active"])
def test_configuration_is_all_or_nothing_over_a_crash(shard: Shard, step: str) -> None:
    items = [{"id": number, "color": "rg"[number % 2], "size": number % 3} for number in range(90)]
    shard.put(*items)
    entry = _entry(2, aggregations={"color": {}, "size": {}})
    rebuild = Rebuild(shard.partition, entry)
    if step != "before":
        rebuild.run()
    if step == "active":
        shard.put({"id": 0, "color": "late", "size": 9})
        shard.apply((Operation.DELETE, "1"))
        rebuild.finish()
        assert shard.partition.newest.revision == 2
    shard.crash()
    shard.open()

    snapshot = shard.partition.newest
    if step == "active":
        assert snapshot.revision == 2
        assert _facet_counts(snapshot, "color") == {"r": 44, "g": 44, "late": 1}
        assert _facet_counts(snapshot, "size") == {"0": 29, "1": 29, "2": 30, "9": 1}
    else:
        assert snapshot.revision == 1
        assert "size" not in snapshot.dictionaries
        assert _facet_counts(snapshot, "color") == {"r": 45, "g": 45}
    shard.close()
    shard.open()
    assert len(shard.live()) == (89 if step == "active" else 90)
    names = {path.name for path in shard.folder.glob("*.seg")}
    manifest = (shard.folder / "MANIFEST.json").read_text()
    assert all(name in manifest for name in names)


def test_change_of_what_acts_at_query_time_builds_nothing(shard: Shard) -> None:
    shard.put({"id": 1, "color": "r"})
    views = shard.partition.newest.views
    rebuild = Rebuild(shard.partition, _entry(2, aggregations={"color": {"size": 3}}, match="any"))
    rebuild.run()
    rebuild.finish()

    snapshot = shard.partition.newest
    assert snapshot.views == views
    assert snapshot.configuration.match == "any"
    shard.put({"id": 2, "color": "r"})
    assert _facet_counts(shard.partition.newest, "color") == {"r": 2}


def test_states_before_a_configuration_are_whole_after_a_restart(shard: Shard) -> None:
    """What died shortly before is hidden in the new segments, not left out of them."""
    shard.put({"id": 0, "v": 1}, {"id": 1})
    shard.put({"id": 0, "v": 2})
    rebuild = Rebuild(shard.partition, _entry(2, aggregations={"color": {}, "v": {}}))
    rebuild.run()
    rebuild.finish()
    shard.close()
    shard.open()

    before = {key: item for key, (item, _) in _live(shard.partition.snapshot_at(1)).items()}
    assert before == {"0": {"id": 0, "v": 1}, "1": {"id": 1}}
    assert shard.live() == {"0": {"id": 0, "v": 2}, "1": {"id": 1}}


def test_dead_records_leave_lmdb_also_after_a_configuration(shard: Shard) -> None:
    """A rebuilt segment leaves them out, so no merge ever drops them."""
    for revision in range(2, 6):
        for _ in range(300):  # more groups than the log keeps
            shard.put({"id": 0}, {"id": 1})
        rebuild = Rebuild(shard.partition, _entry(revision, aggregations={f"f{revision}": {}}))
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


@pytest.mark.parametrize("num_rounds", [1, 2, 5])
def test_same_configuration_lets_go_of_dead_facet_values(
    shard: Shard, monkeypatch: pytest.MonkeyPatch, num_rounds: int
) -> None:
    monkeypatch.setattr(rebuild_module, "DEAD_VALUES_MIN", 25)
    for number in range(num_rounds):
        shard.put(*[{"id": key, "color": f"{number} {key}"} for key in range(20)])
    shard.put({"id": 20, "color": "late"})
    shard.partition.advance(shard.seq)
    shard.writer.compact()  # recently deleted documents stay, hidden: cursors may see them
    former = shard.partition.newest
    expected = _facet_counts(former, "color")
    rebuild = Rebuild(shard.partition, _entry(2, aggregations={"color": {}}))
    rebuild.run()
    rebuild.finish()

    snapshot = shard.partition.newest
    assert _facet_counts(snapshot, "color") == expected
    is_built_anew = snapshot.dictionaries["color"] is not former.dictionaries["color"]
    assert is_built_anew == (num_rounds > 2)  # 21 live, 20 or 80 dead
    assert len(snapshot.dictionaries["color"]) == (21 if is_built_anew else 20 * num_rounds + 1)
    shard.put({"id": 0, "color": "later"})
    shard.close()
    shard.open()
    assert _facet_counts(shard.partition.newest, "color") == {
        **{key: 1 for key in expected if not key.endswith(" 0")},
        "later": 1,
    }


@pytest.mark.parametrize("is_finished", [True, False])
def test_nothing_is_purged_while_a_configuration_is_built(shard: Shard, is_finished: bool) -> None:
    """Segments of the build have what was dead but not compacted then: a tombstone hides it."""
    shard.put({"id": 0, "v": 1}, {"id": 1})
    shard.put({"id": 0, "v": 2})
    rebuild = Rebuild(shard.partition, _entry(2, aggregations={"color": {}, "v": {}}))
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


def test_older_state_knows_all_values_of_a_segment_that_it_shares(shard: Shard) -> None:
    """A merged segment has later documents too, hidden; what counts begins with all of them."""
    shard.put({"id": 0, "color": "r"}, {"id": 1, "color": "g"})
    shard.held = 1
    older = shard.partition.snapshot_at(1)
    before = _facet_counts(older, "color")
    for number in range(2, 90):
        shard.put({"id": number, "color": f"new {number}"})
        shard.partition.snapshot_at(1)
    shard.merge()

    older = shard.partition.snapshot_at(1)
    counter = facet_counter(older, "color")
    assert counter is not None
    (view,) = older.views
    field = older.registry.number("color")
    assert int(view.segment[f"facet.{field}.codes"].max()) > 2
    assert int(view.segment[f"facet.{field}.codes"].max()) <= counter.num_values
    assert counter.totals.num_present == 2
    assert _facet_counts(older, "color") == before == {"r": 1, "g": 1}


def test_state_before_a_configuration_is_restored_from_its_own_segments(shard: Shard) -> None:
    """The kept states of the former configuration have other numbers for the same values."""
    shard.held = 0
    for number in range(12):
        shard.put({"id": number, "color": f"c{number}"})
    shard.apply((Operation.DELETE, "0"))
    rebuild = Rebuild(shard.partition, _entry(2, aggregations={"color": {}, "id": {}}))
    rebuild.run()
    rebuild.finish()

    for seq in (2, 5, 8):  # of the newest ones, those of the former configuration are kept
        state = shard.partition.snapshot_at(seq, 2)
        assert state.revision == 2
        assert _facet_counts(state, "color") == {f"c{number}": 1 for number in range(seq)}


def test_prepared_revision_that_is_discarded_leaves_no_file(shard: Shard) -> None:
    shard.put(*[{"id": number, "size": 1} for number in range(90)])
    rebuild = Rebuild(shard.partition, _entry(2, aggregations={"size": {}}))
    rebuild.run()
    rebuild.discard()
    shard.put({"id": "more"})
    flush(shard.partition)

    manifest = (shard.folder / "MANIFEST.json").read_text()
    assert all(path.name in manifest for path in shard.folder.glob("*.seg"))
    assert len(shard.live()) == 91


def test_backup_holds_the_groups_up_to_its_horizon(shard: Shard, tmp_path: Path) -> None:
    shard.put({"id": 1, "v": 1}, {"id": 2})
    shard.put({"id": 1, "v": 2}, {"id": 3})
    shard.writer.apply(_group(9, [(Operation.DELETE, "2")], horizon=1))
    for horizon, expected in ((None, {"1", "3"}), (2, {"1", "2", "3"}), (1, {"1", "2"})):
        target = tmp_path / f"copy-{horizon}"
        copy_truth(shard.partition, target, horizon)
        copied = Partition.open(target, 1, _SETTINGS)
        live = _live(copied.newest)
        assert set(live) == expected
        assert live["1"][0]["v"] == (1 if horizon == 1 else 2)
        copied.close()


def _source(shard: Shard, snapshot: Path) -> SnapshotSource:
    """Copy an index as a snapshot has it; returns what an entry says of it."""
    target = snapshot / "shard-0" / "index-1"
    target.parent.mkdir(parents=True)
    copy_truth(shard.partition, target, shard.seq)
    content = (target / "data.mdb").read_bytes()
    files = ((len(content), xxhash.xxh3_64_hexdigest(content)),)
    return SnapshotSource(str(snapshot), 1, shard.seq, files)


def test_copy_is_put_back_as_another_index(shard: Shard, tmp_path: Path) -> None:
    shard.put(*[{"id": number, "color": "r"} for number in range(90)])
    shard.put({"id": 1, "color": "b"})
    expected = _live(shard.partition.newest)
    configuration: dict[str, Any] = {"aggregations": {"color": {}}}
    entry = IndexEntry(7, "other", 9, configuration, _source(shard, tmp_path / "snapshot"))
    folder = tmp_path / "index-7"

    restored = put_back(folder, entry, 0, _SETTINGS)

    assert _live(restored.newest) == expected
    assert _facet_counts(restored.newest, "color") == {"r": 89, "b": 1}
    assert restored.generation.entry == entry.without_source()
    restored.close()
    again = Partition.open(folder, 7, _SETTINGS)
    assert again.generation.entry == entry.without_source()
    assert _live(again.newest) == expected
    again.close()


@pytest.mark.parametrize("problem", ["no room", "other bytes", "cut", "missing"])
def test_copy_that_cannot_be_put_back_is_told(
    shard: Shard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    shard.put({"id": 1})
    entry = IndexEntry(7, "other", 9, {}, _source(shard, tmp_path / "snapshot"))
    path = tmp_path / "snapshot" / "shard-0" / "index-1" / "data.mdb"
    content = path.read_bytes()
    error: type[Exception] = InternalError
    if problem == "no room":
        monkeypatch.setattr(ShardSettings, "leave_room", lambda *_: False)
        error = StorageFull
    elif problem == "other bytes":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif problem == "cut":
        path.write_bytes(content[:-4096])
    else:
        path.unlink()

    with pytest.raises(error) as caught:
        put_back(tmp_path / "index-7", entry, 0, _SETTINGS)

    code = "insufficient_storage" if problem == "no room" else "snapshot_damaged"
    assert caught.value.code == code  # type: ignore[attr-defined]


class PartitionMachine(RuleBasedStateMachine):
    """Random operations on one partition and on a dict."""

    folder: Path
    make_folder: Callable[[], Path]

    @initialize()
    def start(self) -> None:
        self.shard = Shard(self.make_folder() / "index-1", _entry(aggregations={"color": {}}))
        self.model: dict[str, dict[str, Any]] = {}
        self.past: dict[int, dict[str, dict[str, Any]]] = {0: {}}
        self.revision = 1

    def _note(self) -> None:
        self.past = {self.shard.seq - 1: self.past.get(self.shard.seq - 1, {})}
        self.past[self.shard.seq] = dict(self.model)

    @rule(
        ids=st.lists(st.integers(0, 120), min_size=1, max_size=90),
        value=st.integers(0, 5),
        color=st.sampled_from(["r", "g", "ä"]),
    )
    def put(self, ids: list[int], value: int, color: str) -> None:
        items = [
            {"id": one, "value": value, "color": color, "at": at} for at, one in enumerate(ids)
        ]
        outcomes = self.shard.put(*items)
        for item, outcome in zip(items, outcomes, strict=True):
            is_known = str(item["id"]) in self.model
            assert outcome == (Outcome.UPDATED if is_known else Outcome.CREATED)
            self.model[str(item["id"])] = item
        self._note()

    @rule(
        steps=st.lists(
            st.tuples(st.sampled_from(Operation), st.integers(0, 120), st.integers(0, 9)),
            min_size=1,
            max_size=12,
        )
    )
    def mixed(self, steps: list[tuple[Operation, int, int]]) -> None:
        operations: list[tuple[Operation, dict[str, Any] | str]] = []
        expected = []
        for operation, id, value in steps:
            key = str(id)
            # (The id that only names an item has the form in which ids are shown: a number.)
            is_text = value % 2 and operation not in _KEEPING_ID
            item: dict[str, Any] = {"id": key if is_text else id, f"v{value % 3}": value}
            operations.append((operation, key if operation == Operation.DELETE else item))
            stored = self.model.get(key)
            if stored is None and operation not in _ADDING:
                expected.append(Outcome.NOT_FOUND)
            elif operation == Operation.DELETE:
                del self.model[key]
                expected.append(Outcome.DELETED)
            elif stored is None:
                self.model[key] = item
                expected.append(Outcome.CREATED)
            else:
                if operation not in (Operation.PUT, Operation.REPLACE):
                    item = {**item, "id": stored["id"]}
                if operation in _MERGING:
                    item = {**stored, **item}
                self.model[key] = item
                expected.append(Outcome.UPDATED)
        assert self.shard.apply(*operations) == expected
        self._note()

    @rule()
    def merge(self) -> None:
        self.shard.merge()

    @rule()
    def one_step_of_merging(self) -> None:
        work(self.shard.partition, is_idle=False)

    @rule()
    def purge(self) -> None:
        self.shard.writer.purge()

    @rule()
    def flush(self) -> None:
        self.shard.writer.retire_open_segment()
        flush(self.shard.partition)

    @rule()
    def reopen(self) -> None:
        self.shard.close()
        self.shard.open()

    @rule()
    def crash(self) -> None:
        self.shard.crash()
        self.shard.open()

    @rule(data=st.data())
    def crash_and_damage(self, data: st.DataObject) -> None:
        self.shard.crash()
        files = sorted(self.shard.folder.glob("*.seg")) + sorted(
            self.shard.folder.glob("MANIFEST.json")
        )
        if files:
            path = data.draw(st.sampled_from(files))
            content = bytearray(path.read_bytes())
            position = data.draw(st.integers(0, len(content) - 1))
            content[position] ^= data.draw(st.integers(1, 255))
            path.write_bytes(content)
        self.shard.open()

    @precondition(lambda self: self.revision < 4)
    @rule(facets=st.sets(st.sampled_from(["color", "value", "v1"])))
    def configure(self, facets: set[str]) -> None:
        self.revision += 1
        entry = _entry(self.revision, aggregations={facet: {} for facet in facets} | {"color": {}})
        rebuild = Rebuild(self.shard.partition, entry)
        rebuild.run()
        rebuild.finish()

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "shard"):
            return
        partition = self.shard.partition
        for horizon, expected in self.past.items():
            snapshot = partition.snapshot_at(horizon)
            live = {key: item for key, (item, _) in _live(snapshot).items()}
            assert live == expected
        colors: dict[str, int] = {}
        for item in self.model.values():
            if "color" in item:
                colors[item["color"]] = colors.get(item["color"], 0) + 1
        assert _facet_counts(partition.newest, "color") == colors
        assert partition.state.num_docs == len(self.model)

    def teardown(self) -> None:
        if hasattr(self, "shard"):
            self.shard.crash()


def test_partition_equals_a_dict(tmp_path_factory: pytest.TempPathFactory) -> None:
    PartitionMachine.make_folder = staticmethod(lambda: tmp_path_factory.mktemp("partition"))
    run_state_machine_as_test(
        PartitionMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_environment_is_locked_to_its_map_size(tmp_path: Path) -> None:
    Shard(tmp_path / "index-1").close()

    Environment.open(tmp_path / "index-1", 1 << 30).close()
