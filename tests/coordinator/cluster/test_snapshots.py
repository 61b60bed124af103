"""Snapshots on disk."""

from __future__ import annotations

from pathlib import Path

from coordinator.cluster.snapshots import (
    SNAPSHOT_FORMAT,
    ServiceSnapshot,
    list_snapshots,
    read_snapshot,
    write_snapshot,
)


def test_a_snapshot_is_listed_by_the_name_of_its_folder(tmp_path: Path) -> None:
    made = ServiceSnapshot(SNAPSHOT_FORMAT, "monday", "2026-11-27", "facetd", 1, (), ())
    (tmp_path / "monday").mkdir()
    write_snapshot(tmp_path / "monday", made)
    assert read_snapshot(tmp_path / "monday") == made

    (tmp_path / "monday").rename(tmp_path / "kept")

    assert [one.name for one in list_snapshots(tmp_path)] == ["kept"]
