"""Snapshots on disk."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from coordinator.snapshots.snapshots_on_disk import (
    SNAPSHOT_FILE,
    SNAPSHOT_FORMAT,
    ServiceSnapshot,
    SnapshotError,
    SnapshotFile,
    list_snapshots,
    read_snapshot,
    write_snapshot,
)

MADE = ServiceSnapshot(SNAPSHOT_FORMAT, "monday", "2026-11-27", "facetd", 1, (), ())


def test_a_snapshot_is_listed_by_the_name_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "monday").mkdir()
    write_snapshot(tmp_path / "monday", MADE)
    assert read_snapshot(tmp_path / "monday") == MADE

    (tmp_path / "monday").rename(tmp_path / "kept")

    assert [one.name for one in list_snapshots(tmp_path)] == ["kept"]


@pytest.mark.parametrize(
    "path",
    [
        "../catalog.json",
        "/etc/passwd",
        "shard-0/../../catalog.json",
        "shard-0/index-1/../data.mdb",
        "shard-0/index-1/data.mdb/",
        "shard-0/index-1/data.mdb\n",
        "shard-0/secret",
        "catalog.json.tmp",
        "",
    ],
)
def test_a_snapshot_that_names_a_file_of_another_kind_is_refused(tmp_path: Path, path: str) -> None:
    """What it names is read, copied and sent to other hosts."""
    files = (SnapshotFile("catalog.json", 1, ""), SnapshotFile(path, 1, ""))
    write_snapshot(tmp_path, msgspec.structs.replace(MADE, files=files))

    with pytest.raises(SnapshotError, match="names a file that no backup has"):
        read_snapshot(tmp_path)


def test_a_snapshot_of_another_format_or_with_a_changed_byte_is_refused(tmp_path: Path) -> None:
    write_snapshot(tmp_path, msgspec.structs.replace(MADE, format=SNAPSHOT_FORMAT + 1))
    with pytest.raises(SnapshotError, match=f"has format {SNAPSHOT_FORMAT + 1}"):
        read_snapshot(tmp_path)

    write_snapshot(tmp_path, MADE)
    content = (tmp_path / SNAPSHOT_FILE).read_bytes()
    for position in range(len(content) - 1):
        damaged = bytearray(content)
        damaged[position] ^= 1
        (tmp_path / SNAPSHOT_FILE).write_bytes(damaged)
        with pytest.raises(SnapshotError, match="is damaged"):
            read_snapshot(tmp_path)
