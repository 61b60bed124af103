"""Makes a snapshot of shards that several hosts hold together, on the host that is asked for it.

    asked host: the entry that searches see here; no host gives up this state meanwhile
      ├▶ this host   copies its shards at that entry ────────────────────┐
      └▶ host b …    copies the shards that are missing, at that entry ──┴▶ one snapshot of all

Every host compares its catalog of that moment with the asked host's: if an index was configured or
deleted in between, there is no snapshot. The hosts' own copies are removed in any case.
"""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from pathlib import Path
from typing import Final

from common import data_directory
from common.data_directory import DataDirectoryError
from common.deadline import Deadline
from common.errors import Conflict, ServiceError, Unavailable
from common.process.logs import Log
from coordinator.catalog.catalog_file import read_state
from coordinator.cluster.shard_copies import ShardHost, shown_shards
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.host.replica_file import new_host
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.placement.other_host import OtherHost
from coordinator.replication.snapshot_transfer.donor import MakeSnapshot, folder_name
from coordinator.replication.snapshot_transfer.recipient import PREFIX, CopyRequest, take_snapshot
from coordinator.snapshots import snapshots_on_disk
from coordinator.snapshots.snapshot_maker import SnapshotMaker
from coordinator.snapshots.snapshots_on_disk import ServiceSnapshot, SnapshotError
from coordinator.write.detached_tasks import DetachedTasks

SILENCE_SECONDS: Final = 10.0
"""A host that has not answered for this long is replaced by another one, since a client waits; one
that is known to be away already after the first question without an answer."""
_REVISIONS = dict[int, int]
"""Of configurations, by number of the index."""
_FOLDER: Final = "host-"

_log = Log("snapshots")


class Collector:
    """Makes snapshots of all shards.

    Args:
        host: this one.
        make: makes a snapshot of shards of this host.
    """

    def __init__(self, host: HostContext, make: MakeSnapshot) -> None:
        assert host.cluster.placed is not None
        self._host = host
        self._placed = host.cluster.placed
        self._make = make
        self._making = asyncio.Lock()
        self._tasks = DetachedTasks()

    async def make_snapshot(self, name: str, deadline: Deadline) -> ServiceSnapshot:
        """Make a snapshot; see `SnapshotMaker.make`.

        Raises:
            Conflict: `index_changed_meanwhile`: an index was configured or deleted meanwhile.
            Unavailable: a shard cannot be copied now.
        """
        made: ServiceSnapshot = await self._tasks.wait_for(self._collected(name), deadline)
        return made

    async def _collected(self, name: str) -> ServiceSnapshot:
        async with self._making:
            host = self._host
            # One moment: nothing else runs until all states are held.
            entries = host.catalog.state.indexes
            horizons = {one.number: host.cluster.horizon(one.number) for one in entries}
            revisions = {one.number: one.revision for one in entries}
            collect = partial(self._collect, horizons=horizons, revisions=revisions)
            here = SnapshotMaker(host.settings, host.cluster, host.catalog)
            return await here.make(name, horizons=horizons, collect=collect)

    async def _collect(self, target: Path, horizons: dict[int, int], revisions: _REVISIONS) -> None:
        """Have hosts copy all shards, and put their files into a folder.

        Raises:
            Conflict: an index was configured or deleted meanwhile.
            Unavailable: no host can copy a shard.
        """
        missing = set(range(len(self._placed.shards)))
        failed: dict[ShardHost, str] = {}
        while missing:
            chosen = self._choose(missing, max(horizons.values(), default=0), failed)
            copies = [
                self._copy(host, CopyRequest(shards, horizons), revisions, target)
                for host, shards in chosen
            ]
            results = await asyncio.gather(*copies, return_exceptions=True)
            for (host, shards), result in zip(chosen, results, strict=True):
                if isinstance(result, Unavailable | LogAway | SnapshotError | DataDirectoryError):
                    _log.warning("shards not copied", host=host.name, reason=str(result))
                    failed[host] = str(result)
                elif isinstance(result, BaseException):
                    raise result
                else:
                    missing -= set(shards)

    def _choose(
        self, missing: set[int], seq: int, failed: dict[ShardHost, str]
    ) -> list[tuple[ShardHost, tuple[int, ...]]]:
        """Divide shards over hosts that serve them and have an entry; this host first.

        Raises:
            Unavailable: there is none for a shard.
        """
        chosen = []
        left = set(missing)
        for host in self._placed.hosts:
            if host in failed or host.applied < seq:
                continue
            given = {shard for shard in left if host.kept_from(shard) is not None}
            if given:
                chosen.append((host, tuple(sorted(given))))
                left -= given
        if left:
            reasons = "".join(f"; {host.name}: {reason}" for host, reason in failed.items())
            which = f"shard{'s'[: len(left) > 1]} {shown_shards(sorted(left))}"
            raise Unavailable(
                f"no snapshot was made: no host could copy {which}{reasons}; see facetd cluster "
                "status, and try again"
            )
        return chosen

    async def _copy(
        self, host: ShardHost, request: CopyRequest, revisions: _REVISIONS, target: Path
    ) -> None:
        """Have a host copy some shards, and put their files into a folder.

        Raises:
            Conflict: its indexes are not the same any more.
            ServiceError, LogAway, SnapshotError, OSError: it could not.
        """
        if isinstance(host, OtherHost):
            folder = target / f"{_FOLDER}{host.row.host}"
            await asyncio.to_thread(folder.mkdir)
            try:
                await take_snapshot(
                    self._host.stream,
                    host.row.host,
                    folder,
                    request,
                    patience=lambda: SILENCE_SECONDS if host.is_connected else 0.0,
                )
                await asyncio.to_thread(_put_in_place, folder, request, revisions, target)
            finally:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            return
        name = folder_name(self._host.id, PREFIX + new_host())
        folder = self._host.settings.snapshot_folder / name
        try:
            await self._make(name, request.shards, request.horizons)
            await asyncio.to_thread(_put_in_place, folder, request, revisions, target)
        except ServiceError as error:
            raise Unavailable(error.message) from error
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _put_in_place(folder: Path, request: CopyRequest, revisions: _REVISIONS, target: Path) -> None:
    """Move the shards of a host's snapshot into the snapshot of all.

    Raises:
        Conflict: its indexes are others.
        SnapshotError: it is damaged.
    """
    state = read_state(data_directory.catalog_path(folder))
    found = {one.number: one.revision for one in state.indexes}
    if any(found.get(number) != revision for number, revision in revisions.items()):
        raise Conflict(
            "no snapshot was made: an index was configured or deleted meanwhile; try again",
            code="index_changed_meanwhile",
        )
    snapshots_on_disk.verify(folder, snapshots_on_disk.read_snapshot(folder))
    for shard in request.shards:
        copied = data_directory.shard_folder(target, shard)
        data_directory.shard_folder(folder, shard).rename(copied)
