"""Snapshots that cannot be completed."""

from __future__ import annotations

import asyncio
import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common import data_directory
from common.disk_errors import user_name
from common.errors import InternalError, InvalidRequest, StorageFull
from coordinator.settings import Settings
from coordinator.snapshots import snapshot_maker
from coordinator.snapshots.snapshot_maker import SnapshotMaker, refused_folder
from coordinator.snapshots.snapshots_on_disk import list_snapshots
from tests.coordinator.conftest import MakeService, Service


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


def test_a_folder_that_will_refuse_snapshots_is_known_before_one_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "disk" / "snapshots"
    assert refused_folder(folder) is None
    assert not folder.parent.exists()
    (tmp_path / "disk").write_text("a file")
    reason = refused_folder(folder)
    assert reason is not None
    assert reason.startswith(f"cannot write to {folder}: Not a directory; {tmp_path}/disk is not a")
    folder = tmp_path / "snapshots"
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    reason = refused_folder(folder)
    assert reason is not None
    assert reason.startswith(f"cannot write to {folder}: Permission denied; ")
    assert reason.endswith(f"install -d -o {user_name(os.geteuid())} {folder}")


async def test_a_snapshot_in_a_file_is_refused_with_the_remedy(
    make_service: MakeService, tmp_path: Path
) -> None:
    service = await make_service(1)
    folder = tmp_path / "snapshots"
    folder.write_text("a file")
    settings = replace(Settings(), data_dir=service.data, snapshot_dir=str(folder))
    with pytest.raises(InternalError, match="is not a folder: name another with --snapshot-dir"):
        await SnapshotMaker(settings, service.cluster, service.catalog).make("monday", shards=())


@pytest.mark.parametrize(("is_named", "disk"), [(True, "snapshot_dir"), (False, "the data dir")])
async def test_a_full_disk_is_named(
    make_service: MakeService,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    is_named: bool,
    disk: str,
) -> None:
    service = await make_service(1)
    folder = str(tmp_path / "snapshots") if is_named else ""
    settings = replace(Settings(), data_dir=service.data, snapshot_dir=folder)

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(snapshot_maker, "make_folder", refuse)
    with pytest.raises(StorageFull, match=f"^the disk of {disk}"):
        await SnapshotMaker(settings, service.cluster, service.catalog).make("monday", shards=())


async def test_a_folder_of_snapshots_that_cannot_be_written_is_named_with_its_owner(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service = await make_service(1)
    folder = tmp_path / "snapshots"
    settings = replace(Settings(), data_dir=service.data, snapshot_dir=str(folder))
    maker = SnapshotMaker(settings, service.cluster, service.catalog)
    mkdir = Path.mkdir

    def refuse(path: Path, *args: Any, **options: Any) -> None:
        if path.parent == folder:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        mkdir(path, *args, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(InternalError) as caught:
        await maker.make("monday", shards=())
    message = str(caught.value)
    assert message.startswith(f"no snapshot was made: cannot write to {folder}: Permission denied;")
    assert message.endswith(f"use it (chmod -R u+rwX {folder})")


async def test_services_with_one_folder_leave_the_snapshots_of_each_other(
    make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each removed what it took for its own unfinished ones, while others were making them."""
    shared = tmp_path / "shared"
    one, other = _makers_with_one_folder(await make_service(1), shared)
    has_begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def copy_slowly(partial: Path, copied: object) -> None:
        has_begun.set()
        await may_go_on.wait()

    monkeypatch.setattr(one, "_copy_shards", copy_slowly)
    making = asyncio.create_task(one.make("monday", shards=()))
    await has_begun.wait()
    assert (await other.make("tuesday", shards=())).name == "tuesday"
    may_go_on.set()
    assert (await making).name == "monday"
    assert sorted(snapshot.name for snapshot in list_snapshots(shared)) == ["monday", "tuesday"]

    has_begun.clear()
    may_go_on.clear()
    making = asyncio.create_task(one.make("friday", shards=()))
    await has_begun.wait()
    await other.make("friday", shards=())
    may_go_on.set()
    with pytest.raises(InvalidRequest, match="there is a snapshot 'friday' already"):
        await making


async def test_a_copy_of_an_index_stays_while_another_service_with_its_folder_makes_one(
    make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its shards may need it after a restart; without it, they could not make the new index."""
    shared = tmp_path / "shared"
    service = await make_service(1)
    await service.administration.create("films", {})
    films = service.catalog.index("films")
    one, other = _makers_with_one_folder(service, shared)
    for maker in (one, other):
        monkeypatch.setattr(maker, "_copy_shards", _write_empty_files)

    async with one.copied_index(films, "films-test") as source:
        async with other.copied_index(films, "films-test"):
            assert len(list(shared.iterdir())) == 2
        assert [str(folder) for folder in shared.iterdir()] == [source.source.folder]
    assert list(shared.iterdir()) == []


def _makers_with_one_folder(service: Service, shared: Path) -> list[SnapshotMaker]:
    """Return the makers of two services, which differ in nothing but their data directories."""
    makers = []
    for name in ("one", "other"):
        data = service.data / name
        data.mkdir()
        data_directory.write_manifest(data, 1, "test")
        settings = replace(Settings(), data_dir=data, snapshot_dir=str(shared))
        makers.append(SnapshotMaker(settings, service.cluster, service.catalog))
    return makers


async def _write_empty_files(partial: Path, copied: Any) -> None:
    for index in copied.indexes:
        folder = partial / "shard-0" / f"index-{index.number}"
        folder.mkdir(parents=True)
        (folder / "data.mdb").touch()
        (folder.parent / "shard.json").touch()
