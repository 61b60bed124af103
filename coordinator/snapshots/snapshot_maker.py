"""Makes snapshots: copies of all data that cannot be rebuilt, as of one moment, while serving.

The moment. One step of the event loop takes the horizons of all indexes and keeps them in use, so
the shards discard nothing of these states; what they copy later is rolled back to them. The copy
holds every write acknowledged before, on all shards. Writes continue meanwhile, index changes wait.

The files of a snapshot are described in `snapshots`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from common import data_directory
from common.disk_errors import NOT_PERMITTED, explaining_disk_failure, remedy_of
from common.durable_files import make_folder, sync_folder, write_atomically
from common.errors import InternalError, InvalidRequest, Unavailable
from common.process.fault_injection import fault
from common.process.logs import Log
from common.process.thread_pool import to_the_end
from common.protocol.messages import BackupRequest
from common.protocol.methods import BACKUP
from coordinator.catalog.catalog import Catalog, Index, program_version
from coordinator.catalog.catalog_state import RestoredIndex
from coordinator.snapshots.restore_plan import plan_restore
from coordinator.snapshots.snapshots_on_disk import (
    NAME,
    PARTIAL,
    SNAPSHOT_FORMAT,
    ServiceSnapshot,
    SnapshotIndex,
    describe_file,
    remove_snapshot,
    sync_folders,
    unfinished_name,
    write_snapshot,
)

if TYPE_CHECKING:
    from common.limits import Limits
    from coordinator.cluster.all_shards import Cluster
    from coordinator.settings import Settings

_COLLECTED: Final = ".collected"
"""Suffix while the shards of several hosts are copied: meanwhile each of these hosts, this one too,
may make a snapshot of its own."""
_COPY: Final = ".copy-"
"""Prefix of the snapshots through which indexes are copied, before the mark of their service; no
client can name these."""

_NO_FOLDER: Final = (errno.ENOTDIR, errno.EEXIST)
"""Numbers of the errors of a folder whose name a file has."""

_log = Log("snapshots")

CollectShards = Callable[[Path], Awaitable[None]]
"""Puts the files of all shards into a snapshot's folder."""


class _CopiedState(NamedTuple):
    """What a snapshot is a copy of."""

    catalog: bytes
    """The content of its file."""
    indexes: tuple[SnapshotIndex, ...]
    shards: tuple[int, ...]
    only: int | None
    """Number of the only index that shards copy; None: they copy all."""


class SnapshotMaker:
    """Makes snapshots of a running service.

    No index may be created, configured or deleted while one is made.

    Args:
        settings: of the service.
        cluster: whose data are copied.
        catalog: of its indexes.

    Attributes:
        mark: what tells its snapshots in the making from those of other services.
    """

    def __init__(self, settings: Settings, cluster: Cluster, catalog: Catalog) -> None:
        self.mark: Final = data_directory.mark(settings.data_dir)
        self._settings = settings
        self._cluster = cluster
        self._catalog = catalog

    async def make(
        self,
        name: str,
        shards: tuple[int, ...] | None = None,
        horizons: Mapping[int, int] | None = None,
        *,
        only: Index | None = None,
        collect: CollectShards | None = None,
    ) -> ServiceSnapshot:
        """Make a snapshot.

        Args:
            name: not taken.
            shards: those to copy; None for all of this host.
            horizons: the states to copy, by number of the index; None: the newest ones. The
                snapshot has no other indexes.
            only: the index to copy; None for all.
            collect: puts the files of all shards into the snapshot's folder, where several hosts
                hold the shards together; None: the shards of this host write theirs.

        Raises:
            InvalidRequest: `invalid_snapshot`: the name is taken, or there are too many.
            Unavailable: a shard is down.
            StorageFull: no room. Nothing remains of an unfinished snapshot.
        """
        if collect is not None:
            shards = tuple(range(self._cluster.num_shards))
        elif shards is None:
            shards = tuple(self._cluster.here)
        suffix = PARTIAL if collect is None else _COLLECTED
        with ExitStack() as held:
            # One moment for all indexes: nothing else runs between these lines.
            catalog = self._catalog.content()
            indexes = self._hold(held, horizons, only)
            copied = _CopiedState(catalog, indexes, shards, None if only is None else only.number)
            with explaining_disk_failure("no snapshot was made", self._settings.snapshot_disk):
                snapshot = await self._write(name, suffix, copied, collect)
        _log.info("snapshot made", name=name, bytes=snapshot.num_bytes)
        return snapshot

    def _hold(
        self, held: ExitStack, horizons: Mapping[int, int] | None, only: Index | None
    ) -> tuple[SnapshotIndex, ...]:
        """Keep the states to copy in use until `held` is closed; return them."""
        states = []
        for index in self._catalog.indexes.values() if only is None else (only,):
            number = index.number
            if horizons is None:
                reading = self._cluster.reading_here(number)
            elif number in horizons:
                reading = self._cluster.reading_at(number, horizons[number])
            else:
                continue
            states.append(SnapshotIndex(number, index.name, held.enter_context(reading)))
        return tuple(states)

    async def _write(
        self, name: str, suffix: str, copied: _CopiedState, collect: CollectShards | None
    ) -> ServiceSnapshot:
        """Write all files of a snapshot; remove them all if that fails."""
        folder = self._settings.snapshot_folder
        partial = folder / unfinished_name(name, self.mark, suffix)
        await asyncio.to_thread(_begin, partial, name, suffix, self.mark, self._settings.limits)
        try:
            if collect is None:
                await self._copy_shards(partial, copied)
            else:
                await collect(partial)
            return await to_the_end(self._finish, partial, folder / name, copied)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
            raise

    async def _copy_shards(self, partial: Path, copied: _CopiedState) -> None:
        """Have all shards copy their data; return or raise only once none is still copying."""
        horizons = {index.number: index.seq for index in copied.indexes}

        async def copy(shard: int) -> None:
            directory = data_directory.shard_folder(partial, shard)
            request = BackupRequest(str(directory), horizons, copied.only)
            timeout_ms = self._settings.configure_timeout_ms
            client = self._cluster.here.get(shard)
            if client is None:
                raise Unavailable(f"shard {shard} has moved to another host meanwhile")
            await client.call(BACKUP, request, timeout_ms)

        copies = (copy(shard) for shard in copied.shards)
        for result in await asyncio.gather(*copies, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    def _finish(self, partial: Path, final: Path, copied: _CopiedState) -> ServiceSnapshot:
        """Write the coordinator's files, list all files, and give the snapshot its name."""
        fault("snapshot.finish")
        write_atomically(data_directory.catalog_path(partial), copied.catalog, mode=0o600)
        manifest = data_directory.manifest_path(self._settings.data_dir).read_bytes()
        write_atomically(data_directory.manifest_path(partial), manifest)
        paths = ["MANIFEST.json", "catalog.json"]
        for shard in copied.shards:
            paths.append(f"shard-{shard}/shard.json")
            paths += [f"shard-{shard}/index-{one.number}/data.mdb" for one in copied.indexes]
        missing = [path for path in paths if not (partial / path).is_file()]
        if missing:
            raise InternalError(
                f"the shards did not write {missing[0]}: they must see the folder {partial}"
            )
        snapshot = ServiceSnapshot(
            format=SNAPSHOT_FORMAT,
            name=final.name,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            created_by=f"facetd {program_version()}",
            shards=self._cluster.num_shards,
            indexes=copied.indexes,
            files=tuple(describe_file(partial, path) for path in paths),
        )
        sync_folders(partial, paths)
        write_snapshot(partial, snapshot)
        try:
            partial.rename(final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            raise _name_taken(final.name) from error  # by another service meanwhile
        try:
            sync_folder(final.parent)
        except OSError:
            final.rename(partial)  # whose caller removes it: the client is told of a failure
            raise
        return snapshot

    @asynccontextmanager
    async def copied_index(
        self, index: Index, new_name: str
    ) -> AsyncGenerator[RestoredIndex, None]:
        """Make a snapshot of one index, to be restored under another name; remove it at the end.

        What a process that was killed has left is removed by the next copy. The snapshot stays
        while a shard may still need it.

        Raises:
            As `make` and `plan_restore`.
        """
        folder = self._settings.snapshot_folder

        await asyncio.to_thread(_remove_copies, folder, self._catalog, self.mark)
        name = f"{_COPY}{self.mark}-{secrets.token_hex(8)}"
        await self.make(name, only=index)
        renamed, num_shards = {index.name: new_name}, self._cluster.num_shards
        try:
            (source,) = await asyncio.to_thread(
                plan_restore, folder / name, renamed, None, num_shards
            )
            yield source
        finally:
            await asyncio.to_thread(_remove_copies, folder, self._catalog, self.mark)


def _remove_copies(folder: Path, catalog: Catalog, mark: str, *, of_any: bool = False) -> None:
    """Remove snapshots that indexes were copied through, except those that a shard may need.

    Args:
        folder: of snapshots.
        catalog: of the service's indexes, which names those that are needed.
        mark: of the service.
        of_any: whether all in the folder are the service's.
    """
    sources = {one.source.folder for one in catalog.state.indexes if one.source is not None}
    for entry in folder.glob(f"{_COPY}*" if of_any else f"{_COPY}{mark}-*"):
        if str(entry) not in sources:
            try:
                remove_snapshot(folder, entry.name, mark)
            except OSError as error:  # the next copy, or the next start, tries again
                _log.warning("copy not removed", folder=entry.name, reason=error.strerror)


def remove_unfinished_snapshots(folder: Path, catalog: Catalog, mark: str) -> None:
    """Remove what a killed process has left in a folder that no other service uses.

    Such a copy may be as large as the data, and no list shows it.

    Args:
        folder: of snapshots, in the data directory.
        catalog: of the service's indexes.
        mark: of the service.
    """
    for suffix in (PARTIAL, _COLLECTED):
        for unfinished in list(folder.glob("*" + suffix)):
            _log.info("unfinished snapshot removed", folder=unfinished.name)
            shutil.rmtree(unfinished, ignore_errors=True)
    with suppress(OSError):  # of the folder itself
        _remove_copies(folder, catalog, mark, of_any=True)


def _begin(partial: Path, name: str, suffix: str, mark: str, limits: Limits) -> None:
    """Make the folder of a snapshot; remove what earlier ones of this service left unfinished."""
    try:
        _make_partial(partial, name, suffix, mark, limits)
    except OSError as error:
        if error.errno not in (*NOT_PERMITTED, *_NO_FOLDER):
            raise
        refused = _refused(partial.parent, error)
        raise InternalError(f"no snapshot was made: {refused}") from error


def refused_folder(folder: Path) -> str | None:
    """Say why no snapshot can be made in a folder, and what to do; None: none is known to fail.

    It is only looked at: a folder that is not there is made with the first snapshot.
    """
    nearest = folder
    try:
        while not nearest.exists():
            nearest = nearest.parent
        if not nearest.is_dir():
            raise _error_of(errno.ENOTDIR, nearest)
        if not os.access(nearest, os.W_OK | os.X_OK):
            is_read_only = os.statvfs(nearest).f_flag & os.ST_RDONLY
            raise _error_of(errno.EROFS if is_read_only else errno.EACCES, folder)
    except OSError as error:
        return _refused(folder, error)
    return None


def _error_of(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))


def _refused(folder: Path, error: OSError) -> str:
    """Say that a folder of snapshots cannot be written to, why, and what to do."""
    remedy = remedy_of(error, folder)
    if error.errno in _NO_FOLDER:
        remedy = f"{error.filename} is not a folder: name another with --snapshot-dir"
    return f"cannot write to {folder}: {error.strerror}; {remedy}"


def _make_partial(partial: Path, name: str, suffix: str, mark: str, limits: Limits) -> None:
    folder = partial.parent
    make_folder(folder)
    if (folder / name).exists():
        raise _name_taken(name)
    for unfinished in list(folder.glob(unfinished_name("*", mark, suffix))):
        shutil.rmtree(unfinished, ignore_errors=True)
    num_others = sum(1 for one in folder.iterdir() if NAME.fullmatch(one.name))
    if NAME.fullmatch(name) and num_others >= limits.snapshots_max:
        raise InvalidRequest(
            f"there may be {limits.shown('snapshots_max')} snapshots; delete one first",
            code="invalid_snapshot",
        )
    partial.mkdir(mode=0o700)


def _name_taken(name: str) -> InvalidRequest:
    return InvalidRequest(
        f"there is a snapshot {name!r} already", code="invalid_snapshot", param="name"
    )
