"""A new configuration is in force as a whole or not at all."""

from __future__ import annotations

import errno

import pytest

from common.protocol.write_operations_and_outcomes import Operation
from common.shard_settings import ShardSettings
from shard.partition import derived_files
from shard.partition import reindex as reindex_module
from shard.partition.merge_and_flush import flush
from shard.partition.partition import Partition
from shard.partition.reindex import Reindex
from tests.shard.partition.local_shard import Shard, facet_counts, index_entry, reconfigure


@pytest.mark.parametrize("step", ["before", "prepared", "active"])
def test_configuration_is_all_or_nothing_over_a_crash(shard: Shard, step: str) -> None:
    items = [{"id": number, "color": "rg"[number % 2], "size": number % 3} for number in range(90)]
    shard.put(*items)
    entry = index_entry(2, aggregations={"color": {}, "size": {}})
    reindex = Reindex(shard.partition, entry)
    if step != "before":
        reindex.run()
    if step == "active":
        shard.put({"id": 0, "color": "late", "size": 9})
        shard.apply((Operation.DELETE, "1"))
        reindex.finish()
        assert shard.partition.newest.revision == 2
    shard.crash()
    shard.open()

    snapshot = shard.partition.newest
    if step == "active":
        assert snapshot.revision == 2
        assert facet_counts(snapshot, "color") == {"r": 44, "g": 44, "late": 1}
        assert facet_counts(snapshot, "size") == {"0": 29, "1": 29, "2": 30, "9": 1}
    else:
        assert snapshot.revision == 1
        assert "size" not in snapshot.dictionaries
        assert facet_counts(snapshot, "color") == {"r": 45, "g": 45}
    shard.close()
    shard.open()
    assert len(shard.live()) == (89 if step == "active" else 90)
    names = {path.name for path in shard.folder.glob("*.seg")}
    manifest = (shard.folder / "MANIFEST.json").read_text()
    assert all(name in manifest for name in names)


def test_change_of_what_acts_at_query_time_builds_nothing(shard: Shard) -> None:
    shard.put({"id": 1, "color": "r"})
    views = shard.partition.newest.views
    reindex = Reindex(
        shard.partition, index_entry(2, aggregations={"color": {"size": 3}}, match="any")
    )
    reindex.run()
    reindex.finish()

    snapshot = shard.partition.newest
    assert snapshot.views == views
    assert snapshot.configuration.match == "any"
    shard.put({"id": 2, "color": "r"})
    assert facet_counts(shard.partition.newest, "color") == {"r": 2}


@pytest.mark.parametrize("num_rounds", [1, 2, 5])
def test_same_configuration_drops_dead_facet_values(
    shard: Shard, monkeypatch: pytest.MonkeyPatch, num_rounds: int
) -> None:
    monkeypatch.setattr(reindex_module, "DEAD_VALUES_MIN", 25)
    for number in range(num_rounds):
        shard.put(*[{"id": key, "color": f"{number} {key}"} for key in range(20)])
    shard.put({"id": 20, "color": "late"})
    shard.partition.advance(shard.seq)
    shard.writer.compact()  # recently deleted documents stay, hidden: cursors may see them
    former = shard.partition.newest
    expected = facet_counts(former, "color")
    reindex = Reindex(shard.partition, index_entry(2, aggregations={"color": {}}))
    reindex.run()
    reindex.finish()

    snapshot = shard.partition.newest
    assert facet_counts(snapshot, "color") == expected
    is_built_anew = snapshot.dictionaries["color"] is not former.dictionaries["color"]
    assert is_built_anew == (num_rounds > 2)  # 21 live, 20 or 80 dead
    assert len(snapshot.dictionaries["color"]) == (21 if is_built_anew else 20 * num_rounds + 1)
    shard.put({"id": 0, "color": "later"})
    shard.close()
    shard.open()
    assert facet_counts(shard.partition.newest, "color") == {
        **{key: 1 for key in expected if not key.endswith(" 0")},
        "later": 1,
    }


def test_prepared_revision_that_is_discarded_leaves_no_file(shard: Shard) -> None:
    shard.put(*[{"id": number, "size": 1} for number in range(90)])
    reindex = Reindex(shard.partition, index_entry(2, aggregations={"size": {}}))
    reindex.run()
    reindex.discard()
    shard.put({"id": "more"})
    flush(shard.partition)

    manifest = (shard.folder / "MANIFEST.json").read_text()
    assert all(path.name in manifest for path in shard.folder.glob("*.seg"))
    assert len(shard.live()) == 91


def test_a_switch_that_fails_leaves_no_file(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    shard.put(*[{"id": number, "size": 1} for number in range(90)])
    reindex = Reindex(shard.partition, index_entry(2, aggregations={"size": {}}))
    reindex.run()

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "refused")

    with monkeypatch.context() as patch:
        patch.setattr(Partition, "switch_generation", refuse)
        with pytest.raises(OSError, match="refused"):
            reindex.finish()
    flush(shard.partition)

    manifest = (shard.folder / "MANIFEST.json").read_text()
    assert all(path.name in manifest for path in shard.folder.glob("*.seg"))
    assert not shard.partition.derived.reserved


def test_a_commit_keeps_the_files_of_a_configuration_that_is_being_built(shard: Shard) -> None:
    """No manifest names them yet; without them the next start would index everything again."""
    shard.put(*[{"id": number, "size": number % 3} for number in range(90)])
    reindex = Reindex(shard.partition, index_entry(2, aggregations={"size": {}}))
    reindex.run()
    files = set(shard.folder.glob("*.seg"))
    assert files

    shard.partition.commit_derived()
    reindex.finish()

    assert files <= set(shard.folder.glob("*.seg"))
    shard.crash()
    shard.open()
    assert facet_counts(shard.partition.newest, "size") == {"0": 30, "1": 30, "2": 30}
    assert {view.segment.path for view in shard.partition.newest.views} == files


def test_a_configuration_is_not_built_without_room(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard.put(*[{"id": number, "size": 1} for number in range(90)])
    reindex = Reindex(shard.partition, index_entry(2, aggregations={"size": {}}))

    with monkeypatch.context() as patch:
        patch.setattr(ShardSettings, "leave_room", lambda *_: False)
        with pytest.raises(OSError, match="no room") as caught:
            reindex.run()
    reindex.discard()

    assert caught.value.errno == errno.ENOSPC
    assert not list(shard.folder.glob("*.seg"))
    assert shard.partition.newest.revision == 1


def test_facet_values_of_a_commit_that_failed_leave_no_file(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconfigure(shard, 2, aggregations={"size": {}})

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "refused")

    shard.put(*[{"id": number, "size": number} for number in range(90)])
    with monkeypatch.context() as patch:
        patch.setattr(derived_files, "write_manifest", refuse)
        for _ in range(3):
            with pytest.raises(OSError, match="refused"):
                shard.partition.commit_derived()
    flush(shard.partition)

    manifest = (shard.folder / "MANIFEST.json").read_text()
    assert all(path.name in manifest for path in shard.folder.glob("*.seg"))
