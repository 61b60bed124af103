"""Snapshots that cannot be completed."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from common import data_directory
from common.errors import InternalError
from coordinator.settings import Settings
from coordinator.snapshots import snapshot_maker
from coordinator.snapshots.snapshot_maker import SnapshotMaker
from tests.coordinator.conftest import MakeService


async def test_a_snapshot_whose_name_the_disk_refuses_can_be_made_again(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = await make_service(1)
    data_directory.write_manifest(service.data, 1, "test")
    settings = replace(Settings(), data_dir=service.data)
    maker = SnapshotMaker(settings, service.cluster, service.catalog)

    def refuse(_: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot_maker, "sync_folder", refuse)
        with pytest.raises(InternalError, match="no snapshot was made"):
            await maker.make("monday", shards=())
    assert list(settings.snapshot_folder.iterdir()) == []

    made = await maker.make("monday", shards=())
    assert made.name == "monday"
