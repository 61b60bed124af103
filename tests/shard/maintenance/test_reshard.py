"""What another number of shards keeps, besides the items (`tests/coordinator/process`)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from msgspec import structs

from common import data_directory
from common.errors import StorageFull
from common.protocol.write_operations_and_outcomes import Operation
from shard.maintenance import reshard as reshard_program
from shard.maintenance.reshard import reshard
from shard.partition.partition import Partition
from shard.partition.stored_index_entry import read_restored, write_restored
from shard.partition.writer import Writer
from shard.storage.change_source_positions import read_positions
from shard.storage.lmdb_environment import Environment
from shard.storage.manifest import FORMAT, SHARD_FILE, ShardManifest, write_manifest
from shard.storage.write_group_log import read_state
from tests.shard.partition.local_shard import SETTINGS, index_entry, no_failure, write_group


def _make_shard(data: Path, shard: int, groups: list[dict[str, str]]) -> None:
    """Make one of two shards, with an item and the positions of each group."""
    folder = data_directory.shard_folder(data, shard)
    folder.mkdir()
    partition = Partition.create(folder / "index-1", index_entry(), SETTINGS)
    writer = Writer(partition, no_failure)
    for seq, positions in enumerate(groups, 1):
        group = write_group(seq, [(Operation.PUT, {"id": 2 * seq + shard})])
        writer.apply(structs.replace(group, positions=positions))
    writer.close()
    partition.close()
    write_manifest(folder / SHARD_FILE, ShardManifest(FORMAT, shard, 2, (1,)))


def test_sources_of_changes_keep_their_positions(tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "new"
    data.mkdir()
    target.mkdir()
    data_directory.write_manifest(data, 2, "test")
    _make_shard(data, 0, [{"shop": "a", "left": "x"}, {"shop": "b", "stock": "7"}, {"shop": "c"}])
    _make_shard(data, 1, [{"shop": "a"}, {"shop": "b", "stock": "7"}])

    assert reshard(data, target, 3, SETTINGS) == 5

    for shard in range(3):
        folder = data_directory.shard_folder(target, shard) / "index-1"
        environment = Environment.open(folder, SETTINGS.map_bytes_max)
        with environment.read() as txn:
            assert read_positions(txn) == {"shop": (2, "b"), "stock": (2, "7")}
        environment.close()


def test_an_index_from_a_snapshot_stays_one_that_nothing_was_written_to(tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "new"
    data.mkdir()
    target.mkdir()
    data_directory.write_manifest(data, 2, "test")
    for shard, num_groups in enumerate((1, 2)):
        _make_shard(data, shard, [{}] * num_groups)
        folder = data_directory.shard_folder(data, shard) / "index-1"
        environment = Environment.open(folder, SETTINGS.map_bytes_max)
        write_restored(environment, index_entry(), 2)
        environment.close()

    assert reshard(data, target, 3, SETTINGS) == 3

    for shard in range(3):
        folder = data_directory.shard_folder(target, shard) / "index-1"
        environment = Environment.open(folder, SETTINGS.map_bytes_max)
        with environment.read() as txn:
            assert read_state(txn).seq_max == 2
        assert read_restored(environment) == 2
        environment.close()


def test_a_full_disk_is_said_in_words_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
    for refusal in (OSError(errno.ENOSPC, "no room for a merge"), StorageFull("no room")):

        def refuse(*_arguments: object, error: Exception = refusal) -> int:
            raise error

        monkeypatch.setattr(reshard_program, "reshard", refuse)
        arguments = ["--source", "source", "--target", "target", "--shards", "2"]
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as ended:
            reshard_program.main(arguments)
        assert ended.value.code == 1
        said = capsys.readouterr().err
        assert "Errno" not in said
        assert "no room" in said
        assert said.endswith("or name a folder on another with --output\n")
