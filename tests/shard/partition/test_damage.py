"""Damaged files are built again; a damaged item is left out; without the truth nothing opens."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import msgspec
import pytest

from common.errors import InternalError
from common.process import logs
from common.protocol.write_operations_and_outcomes import Operation, Outcome
from shard.maintenance.check_and_rebuild import check_index, drop_damaged, rebuild_index
from shard.partition.merge_and_flush import flush
from shard.partition.partition import Partition
from shard.segment import segment
from shard.storage.lmdb_codecs import number_key
from shard.storage.lmdb_environment import Environment, SubDatabase
from shard.storage.storage_errors import DamagedEnvironment
from tests.shard.partition.local_shard import (
    SETTINGS,
    Shard,
    damage_item,
    facet_counts,
    reconfigure,
    write_group,
)


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
    counts = facet_counts(shard.partition.newest, "color")
    assert counts == {"r": 99, "g": 100, "b": 100, "new": 1}
    shard.close()
    shard.open()
    assert shard.live() == expected


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
def test_files_are_not_set_aside_where_descriptors_or_memory_ran_out(
    shard: Shard, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    shard.put(*[{"id": i, "color": "r"} for i in range(100)])
    shard.close()
    names = {path.name for path in shard.folder.glob("*.seg")}

    def refuse(_: Path) -> mmap.mmap:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(segment, "_map", refuse)
        with pytest.raises(OSError, match=os.strerror(number)):
            shard.open()

    assert {path.name for path in shard.folder.glob("*.seg*")} == names
    assert shard.open().num_built == 0


def test_an_open_reports_how_much_it_indexes_again(shard: Shard) -> None:
    shard.put(*({"id": i} for i in range(50)))
    shard.close()
    shard.open()
    shard.put(*({"id": i} for i in range(40, 70)))
    shard.crash()

    opening = shard.open()
    assert opening.num_records == opening.num_built == 30

    shard.close()
    opening = shard.open()
    assert opening.num_records == opening.num_built == 0, "all is in segments"
    shard.close()

    for path in shard.folder.glob("MANIFEST*"):
        path.unlink()
    opening = shard.open()
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
            Partition.open(shard.folder, 1, SETTINGS)
    (shard.folder / "data.mdb").unlink()
    with pytest.raises(DamagedEnvironment, match=r"data\.mdb"):
        Partition.open(shard.folder, 1, SETTINGS)
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


def test_a_damaged_item_at_the_end_is_counted_once(shard: Shard) -> None:
    shard.put({"id": 1}, {"id": 2})
    damage_item(shard, 1)
    shard.crash()
    shard.open()
    assert shard.partition.damaged == {1}
    assert shard.partition.documents.num_corrupt == 1


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
    damage_item(shard, 7)
    if way == "configuration":
        reconfigure(shard, 2, aggregations={"color": {}, "other": {}})
    else:
        shard.crash()
        shard.open()
    assert "damaged items are left out" in capfd.readouterr().err

    def expect(ids: set[int]) -> None:
        newest = shard.partition.newest
        assert set(shard.live()) == {str(i) for i in ids}
        assert newest.num_docs == len(ids)
        assert facet_counts(newest, "color") == {"r": len(ids)}
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
    problems = check_index(shard.folder, SETTINGS).problems
    assert len(problems) == 1
    assert "item of record 7 is damaged" in problems[0]
    assert drop_damaged(shard.folder, SETTINGS) == [7]
    rebuild_index(shard.folder, 1, SETTINGS)
    assert check_index(shard.folder, SETTINGS).problems == []
    shard.open()
    assert shard.partition.damaged == set()
    assert shard.partition.state.num_docs == len(shard.live()) == 50


def test_damaged_item_can_be_deleted_by_id_and_by_record(shard: Shard) -> None:
    shard.put(*[{"id": i} for i in range(5)])
    for record in (1, 2):
        damage_item(shard, record)
    newest = shard.partition.newest
    assert newest.documents.read_some([0, 1, 3], 1) == [b'{"id":0}']
    assert newest.documents.read_some([1, 0, 2], 100) == [None, b'{"id":0}', None]

    assert shard.apply((Operation.DELETE, "1")) == [Outcome.DELETED]
    group = msgspec.structs.replace(
        write_group(9, [(Operation.DELETE, "")] * 3), records={0: 2, 1: 2}
    )
    assert list(shard.writer.apply(group).outcomes) == [
        Outcome.DELETED,
        Outcome.NOT_FOUND,
        Outcome.NOT_FOUND,
    ]
    assert set(shard.live()) == {"0", "3", "4"}
    assert shard.partition.state.num_docs == 3
    shard.close()
    assert check_index(shard.folder, SETTINGS).problems == []
    shard.open()


def test_damage_that_was_written_over_is_forgotten(shard: Shard) -> None:
    shard.put(*[{"id": i} for i in range(5)])
    damage_item(shard, 3)
    assert shard.put({"id": 3, "new": True}) == [Outcome.UPDATED]
    shard.close()

    assert check_index(shard.folder, SETTINGS).problems == []
    shard.open()
    assert shard.live()["3"] == {"id": 3, "new": True}


def test_only_what_all_items_depend_on_keeps_an_index_closed(shard: Shard) -> None:
    shard.put(*[{"id": i, "text": f"some text {i % 50}"} for i in range(1_500)])
    with shard.partition.environment.write() as txn:
        value = txn.get(SubDatabase.META, b"words/1")
        assert value is not None, "there are enough items to train one"
        txn.put(SubDatabase.META, b"words/1", value[:-1])
    shard.crash()
    with pytest.raises(DamagedEnvironment, match="dictionary is damaged"):
        Partition.open(shard.folder, 1, SETTINGS)
    environment = Environment.open(shard.folder, SETTINGS.map_bytes_max)
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


def test_an_environment_opens_with_another_greatest_size(shard: Shard) -> None:
    shard.put({"id": 1})
    shard.close()

    environment = Environment.open(shard.folder, SETTINGS.map_bytes_max // 2)

    with environment.read() as txn:
        assert txn.count(SubDatabase.DOCUMENTS) == 1
    environment.close()
