"""A check finds damage, and has no false alarms."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import orjson
import pytest
from click.testing import CliRunner

from common import data_directory
from common.errors import Unavailable
from common.protocol.messages import ApplyRequest, IndexEntry
from common.protocol.write_operations_and_outcomes import Operation
from common.shard_settings import ShardSettings
from shard.maintenance import check_and_rebuild
from shard.maintenance.check_and_rebuild import check_index, main, rebuild_index
from shard.partition import stored_item_batches
from shard.partition.merge_and_flush import flush, work
from shard.partition.partition import Partition
from shard.partition.stored_item_batches import StoredBatch
from shard.partition.writer import Writer
from shard.segment.doc_records_and_places import places_of, records_of
from shard.segment.segment import Segment
from shard.storage.lmdb_codecs import number_key
from shard.storage.lmdb_environment import Environment, SubDatabase
from shard.storage.manifest import (
    FORMAT,
    SHARD_FILE,
    IndexManifest,
    SegmentEntry,
    ShardManifest,
    read_manifest,
    write_manifest,
)
from shard.storage.write_group_log import State, read_state, write_state

_SETTINGS = ShardSettings(map_bytes_max=1 << 30, flush_docs=50)


def _put(writer: Writer, seq: int, items: list[dict[str, Any]]) -> None:
    contents = [orjson.dumps(item) for item in items]
    writer.apply(
        ApplyRequest(
            index=1,
            seq=seq,
            horizon=seq - 1,
            payload=b"".join(contents),
            lengths=np.array([len(one) for one in contents], np.uint32).tobytes(),
            operations=bytes([Operation.PUT] * len(items)),
            places=(np.arange(len(items), dtype=np.uint64) + np.uint64(seq << 32)).tobytes(),
        )
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An index of 250 items with updates, of merged and written segments."""
    folder = tmp_path / "shard-0" / "index-1"
    folder.parent.mkdir()
    entry = IndexEntry(1, "things", 1, {"aggregations": {"color": {}, "tags": {}}})
    partition = Partition.create(folder, entry, _SETTINGS)
    writer = Writer(partition, lambda error: None)
    for seq in range(1, 6):
        items: list[dict[str, Any]] = [
            {
                "id": number,
                "title": f"thing number {number} of {seq}",
                "color": "rgb"[number % 3],
                "tags": [f"t{number % 7}", f"t{number % 5}"],
                "price": number / 4,
            }
            for number in range(40 * seq, 40 * seq + 90)
        ]
        _put(writer, seq, items)
        work(partition, is_idle=False)
    _put(writer, 6, [{"id": "ä", "title": None}])
    writer.retire_open_segment()
    while work(partition, is_idle=True):
        pass
    flush(partition)
    writer.close()
    partition.close()
    return folder


def test_sound_index_has_no_problems(folder: Path) -> None:
    report = check_index(folder, _SETTINGS)

    assert report.problems == []
    assert report.num_items == 251


def test_fields_that_a_merge_has_dropped_are_ignored(tmp_path: Path) -> None:
    """No item has them any more; neither has the segment, whose own pieces for elements too."""
    folder = tmp_path / "shard-0" / "index-1"
    folder.parent.mkdir()
    entry = IndexEntry(1, "shirts", 1, {"aggregations": {"color": {}}, "nested": ["variants"]})
    partition = Partition.create(folder, entry, _SETTINGS)
    writer = Writer(partition, lambda error: None)
    former = {"old": 1, "color": 7, "variants": [{"size": 1, "worn": True}, {"size": "M"}]}
    later = {"color": "red", "variants": [{"size": "L"}]}
    _put(writer, 1, [{"id": n, **(former if n < 60 else later)} for n in range(100)])
    writer.retire_open_segment()
    _put(writer, 2, [{"id": number, **later} for number in range(60)])
    writer.retire_open_segment()
    writer.settle(2)
    while work(partition, is_idle=True):
        pass
    flush(partition)
    (view,) = partition.newest.views
    number = partition.generation.registry.number("old")
    assert number is not None
    assert number not in view.segment["presence.fields"]
    writer.close()
    partition.close()

    report = check_index(folder, _SETTINGS)
    assert (report.problems, report.num_items) == ([], 100)


def test_items_are_indexed_in_batches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    make = StoredBatch.of

    def noting(items: Sequence[tuple[int, int, bytes]]) -> StoredBatch:
        sizes.append(len(items))
        return make(items)

    monkeypatch.setattr(stored_item_batches, "BATCH_ITEMS_MAX", 40)
    monkeypatch.setattr(StoredBatch, "of", noting)
    report = check_index(folder, _SETTINGS)
    assert (report.problems, report.num_items) == ([], 251)
    manifest = read_manifest(folder / "MANIFEST.json", IndexManifest)
    assert manifest is not None
    assert sum(sizes) == sum(entry.num_docs for entry in manifest.segments)
    assert max(sizes) == 40


def test_what_the_system_refuses_is_reported_as_that(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not damage: a file that cannot be opened for now, memory that LMDB does not get."""

    def no_descriptor(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def no_memory(*_: object) -> None:
        raise Unavailable("memory ran out; try again")

    with monkeypatch.context() as patch:
        patch.setattr(check_and_rebuild, "verify_segment", no_descriptor)
        (problem,) = check_index(folder, _SETTINGS).problems
        assert os.strerror(errno.EMFILE) in problem
    write_manifest(folder.parent / SHARD_FILE, ShardManifest(FORMAT, 0, 1, (1,)))
    with monkeypatch.context() as patch:
        patch.setattr(Environment, "look_ahead", no_memory)
        assert check_index(folder, _SETTINGS).problems == ["memory ran out; try again"]
        for option in ((), ("--rebuild",), ("--drop-damaged",)):
            arguments = ["--data-dir", str(folder.parents[1]), *option]
            ended = CliRunner().invoke(main, arguments)
            assert isinstance(ended.exception, SystemExit)
            assert (ended.exit_code, "memory ran out; try again" in ended.output) == (1, True)
            (folder.parent / "lock").unlink()  # as the end of a process releases it
    assert check_index(folder, _SETTINGS).problems == []


def test_damaged_item_is_found(folder: Path) -> None:
    environment = Environment.open(folder, 1 << 30)
    with environment.write() as txn:
        *_, (key, _) = txn.items(SubDatabase.DOCUMENTS)
        record = int.from_bytes(key, "big")
        value = bytearray(txn.get(SubDatabase.DOCUMENTS, number_key(record)) or b"")
        value[-1] ^= 1
        txn.put(SubDatabase.DOCUMENTS, number_key(record), bytes(value))
    environment.close()

    (problem,) = check_index(folder, _SETTINGS).problems
    assert f"item of record {record} is damaged" in problem


def test_lost_item_and_wrong_counter_are_found(folder: Path) -> None:
    environment = Environment.open(folder, 1 << 30)
    with environment.write() as txn:
        *_, (last, _) = txn.items(SubDatabase.DOCUMENTS)
        txn.delete(SubDatabase.DOCUMENTS, last)
    environment.close()

    problems = check_index(folder, _SETTINGS).problems

    assert any("250 live items, but the counter says 251" in one for one in problems)
    assert any("1 of its items are not stored" in one for one in problems)


def test_damaged_file_is_found(folder: Path) -> None:
    path = next(iter(folder.glob("segment-*.seg")))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    (problem,) = check_index(folder, _SETTINGS).problems
    assert path.name in problem


@pytest.mark.parametrize("array", ["docs.place", "ids.doc", "facet.color", "number.price", "text"])
def test_file_that_is_whole_but_wrong_is_found(folder: Path, array: str) -> None:
    manifest = read_manifest(folder / "MANIFEST.json", IndexManifest)
    assert manifest is not None
    prefix, _, path = array.partition(".")
    if prefix in ("facet", "number"):
        array = f"{prefix}.{manifest.fields.index(path)}"
    segment = Segment.open(folder / manifest.segments[0].file)
    name = next(name for name in segment if name.startswith(array) and segment[name].size)
    segment[name][0] += 1
    Segment(
        {one: segment[one] for one in segment}, num_docs=segment.num_docs, meta=segment.meta
    ).write(folder / "segment-99.seg")
    wrong = Segment.open(folder / "segment-99.seg")
    entry = SegmentEntry("segment-99.seg", wrong.checksum, wrong.num_docs)
    fields = {one: getattr(manifest, one) for one in manifest.__struct_fields__}
    write_manifest(folder / "MANIFEST.json", IndexManifest(**fields | {"segments": (entry,)}))

    problems = check_index(folder, _SETTINGS).problems

    assert any("segment-99.seg" in one for one in problems)
    rebuild_index(folder, 1, _SETTINGS)
    assert check_index(folder, _SETTINGS).problems == []


@pytest.mark.parametrize("wrong", [None, "docs.place", "docs.record"])
def test_segments_of_version_8_are_compared_by_value(folder: Path, wrong: str | None) -> None:
    """They have records and places in 64 bits: each was reported to differ from its items."""
    manifest = read_manifest(folder / "MANIFEST.json", IndexManifest)
    assert manifest is not None
    segment = Segment.open(folder / manifest.segments[0].file)
    arrays: dict[str, Any] = {one: segment[one] for one in segment if not one.startswith("docs.")}
    arrays |= {"docs.record": records_of(segment), "docs.place": places_of(segment)}
    if wrong is not None:
        arrays[wrong][-1] += 1
    meta = {one: fact for one, fact in segment.meta.items() if one != "first_record"}
    Segment(arrays, num_docs=segment.num_docs, meta=meta).write(folder / "segment-99.seg")
    old = Segment.open(folder / "segment-99.seg")
    entries = (SegmentEntry("segment-99.seg", old.checksum, old.num_docs), *manifest.segments[1:])
    write_manifest(folder / "MANIFEST.json", msgspec.structs.replace(manifest, segments=entries))

    report = check_index(folder, _SETTINGS)

    assert bool(report.problems) == (wrong is not None)
    if wrong is None:
        assert report.notes == [
            "segment-99.seg: an earlier program wrote it; its next merge makes it smaller"
        ]


def test_empty_truth_is_found(folder: Path) -> None:
    (folder / "data.mdb").write_bytes(b"")

    (problem,) = check_index(folder, _SETTINGS).problems
    assert "data.mdb" in problem


def test_wrong_counter_is_found(folder: Path) -> None:
    environment = Environment.open(folder, 1 << 30)
    with environment.write() as txn:
        state = read_state(txn)
        write_state(txn, State(state.next_record, 0, 0, state.num_docs))
    environment.close()

    assert check_index(folder, _SETTINGS).problems


def test_command_reports_and_sets_its_status(folder: Path) -> None:
    data = folder.parents[1]
    write_manifest(folder.parent / SHARD_FILE, ShardManifest(FORMAT, 0, 1, (1,)))
    sound = CliRunner().invoke(main, ["--data-dir", str(data)])
    assert (sound.exit_code, "251 items, 0 problems" in sound.output) == (0, True)


def test_command_rebuilds(folder: Path) -> None:
    data = folder.parents[1]
    write_manifest(folder.parent / SHARD_FILE, ShardManifest(FORMAT, 0, 1, (1,)))
    for path in folder.glob("*.seg"):
        path.write_bytes(b"")
    rebuilt = CliRunner().invoke(main, ["--data-dir", str(data), "--rebuild"])

    assert (rebuilt.exit_code, "251 items, 0 problems" in rebuilt.output) == (0, True)


def test_folder_in_use_is_refused(folder: Path) -> None:
    data_directory.acquire_lock(folder.parent)

    refused = CliRunner().invoke(main, ["--data-dir", str(folder.parents[1])])

    assert refused.exit_code == 2


def test_a_file_of_another_manifest_is_reported_and_left_where_it_is(folder: Path) -> None:
    manifest = read_manifest(folder / "MANIFEST.json", IndexManifest)
    assert manifest is not None
    path = folder / manifest.segments[0].file
    Segment({"docs.record": np.arange(3)}, num_docs=3).write(path)
    (problem,) = check_index(folder, _SETTINGS).problems
    assert "not the file that the manifest names" in problem
    assert path.exists()
