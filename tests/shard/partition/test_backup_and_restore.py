"""A copy holds one state, and can be put back as another index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import xxhash

from common.errors import InternalError, InvalidRequest, StorageFull
from common.protocol.messages import IndexEntry, SnapshotSource
from common.protocol.write_operations_and_outcomes import Operation
from common.shard_settings import ShardSettings
from shard.partition.backup_and_restore import copy_truth, put_back
from shard.partition.partition import Partition
from tests.shard.partition.local_shard import SETTINGS, Shard, facet_counts, live_items, write_group


def test_backup_holds_the_groups_up_to_its_horizon(shard: Shard, tmp_path: Path) -> None:
    shard.put({"id": 1, "v": 1}, {"id": 2})
    shard.put({"id": 1, "v": 2}, {"id": 3})
    shard.writer.apply(write_group(9, [(Operation.DELETE, "2")], horizon=1))
    for horizon, expected in ((None, {"1", "3"}), (2, {"1", "2", "3"}), (1, {"1", "2"})):
        target = tmp_path / f"copy-{horizon}"
        copy_truth(shard.partition, target, horizon)
        copied = Partition.open(target, 1, SETTINGS)
        live = live_items(copied.newest)
        assert set(live) == expected
        assert live["1"][0]["v"] == (1 if horizon == 1 else 2)
        copied.close()


def test_a_state_that_has_left_the_log_cannot_be_copied(shard: Shard, tmp_path: Path) -> None:
    """Who removed what is forgotten: the copy would lack items that the state had."""
    shard.put({"id": 1, "v": 1})
    shard.put({"id": 1, "v": 2}, {"id": 2})
    shard.put({"id": 3})
    shard.writer.settle(2)

    with pytest.raises(InvalidRequest, match="oldest that can be copied is 2"):
        copy_truth(shard.partition, tmp_path / "too old", 1)
    copy_truth(shard.partition, tmp_path / "oldest", 2)

    copied = Partition.open(tmp_path / "oldest", 1, SETTINGS)
    assert {key: item for key, (item, _) in live_items(copied.newest).items()} == {
        "1": {"id": 1, "v": 2},
        "2": {"id": 2},
    }
    assert (copied.state.seq_max, copied.state.num_docs) == (2, 2)
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
    expected = live_items(shard.partition.newest)
    configuration: dict[str, Any] = {"aggregations": {"color": {}}}
    entry = IndexEntry(7, "other", 9, configuration, _source(shard, tmp_path / "snapshot"))
    folder = tmp_path / "index-7"

    restored = put_back(folder, entry, 0, SETTINGS)

    assert live_items(restored.newest) == expected
    assert facet_counts(restored.newest, "color") == {"r": 89, "b": 1}
    assert restored.generation.entry == entry.without_source()
    restored.close()
    again = Partition.open(folder, 7, SETTINGS)
    assert again.generation.entry == entry.without_source()
    assert live_items(again.newest) == expected
    again.close()


@pytest.mark.parametrize("problem", ["no room", "other bytes", "cut", "missing"])
def test_copy_that_cannot_be_put_back_is_an_error(
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
        put_back(tmp_path / "index-7", entry, 0, SETTINGS)

    code = "insufficient_storage" if problem == "no room" else "snapshot_damaged"
    assert caught.value.code == code  # type: ignore[attr-defined]
