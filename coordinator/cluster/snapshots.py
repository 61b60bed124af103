"""Snapshots: a copy of all data that cannot be rebuilt, as of one moment, made while serving.

    <snapshots>/<name>/
      shard-0/shard.json, index-1/data.mdb …    written by the shards (`shard.partition.backup`)
      catalog.json, MANIFEST.json               as in a data directory; keys are hashes, no secret
      snapshot.json                             written last: every file with size and checksum

The moment. One step of the event loop takes the horizons of all indexes and keeps them in use, so
the shards discard nothing of these states; what they copy later is rolled back to them. The copy
holds every write acknowledged before, on all shards. Writes continue meanwhile, index changes wait.

A snapshot is made under `<name>.partial`, which cannot be a snapshot's name, and renamed once all
of it is on disk. Over HTTP a client gives a name, never a path. A snapshot is a data directory
without what can be rebuilt: `facetd restore` checks every byte and puts it in place, and
`POST /_snapshots/{name}/restore` creates new indexes from it while the service runs
(`IndexAdministration.restore`).
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import xxhash
from msgspec import Struct

from common import data_directory
from common.data_directory import (
    DataDirectoryError,
    explaining_full_disk,
    sync_folder,
    write_atomically,
)
from common.errors import CommandError, Conflict, InternalError, InvalidRequest, NotFound
from common.process.faults import fault
from common.process.logs import Log
from common.protocol.messages import BackupRequest, SnapshotSource
from common.protocol.methods import BACKUP
from coordinator.cluster.catalog import Catalog, Index, program_version
from coordinator.cluster.catalog_file import read_state
from coordinator.cluster.catalog_state import Restored

if TYPE_CHECKING:
    from common.limits import Limits
    from coordinator.cluster.cluster import Cluster
    from coordinator.settings import Settings

SNAPSHOT_FORMAT: Final = 1
SNAPSHOT_FILE: Final = "snapshot.json"

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PARTIAL: Final = ".partial"
_COLLECTED: Final = ".collected"
"""The same while the shards of several hosts are copied: meanwhile each of these hosts, this one
too, may make a snapshot of its own."""
_COPY: Final = ".copy-"
"""Prefix of the snapshots through which indexes are copied; no client can name these."""
_FILE: Final = re.compile(
    r"shard-\d{1,2}/(?:shard\.json|index-\d{1,19}/data\.mdb)|catalog\.json|MANIFEST\.json"
)
_READ_BYTES: Final = 1 << 20

_log = Log("snapshots")


CollectShards = Callable[[Path], Awaitable[None]]


class SnapshotError(CommandError):
    """A folder is not a snapshot, or a damaged one; the message says why."""


class SnapshotFile(Struct, frozen=True):
    """One file of a snapshot."""

    path: str
    bytes: int
    checksum: str
    """xxh3_64 in hexadecimal."""


class SnapshotIndex(Struct, frozen=True):
    """One index of a snapshot, and the sequence number of its newest write."""

    number: int
    name: str
    seq: int


class ServiceSnapshot(Struct, frozen=True):
    """The contents of a complete snapshot; stored in its last file."""

    format: int
    name: str
    created_at: str
    created_by: str
    shards: int
    indexes: tuple[SnapshotIndex, ...]
    files: tuple[SnapshotFile, ...]

    @property
    def num_bytes(self) -> int:
        """Total bytes of its files."""
        return sum(file.bytes for file in self.files)


class _SnapshotFile(Struct):
    """The two parts of the last file."""

    checksum: str
    snapshot: msgspec.Raw


# Created at import: two threads that use such a class for the first time together would crash.
_decode_file = msgspec.json.Decoder(_SnapshotFile).decode
_decode_snapshot = msgspec.json.Decoder(ServiceSnapshot).decode


# --- making


def check_name(name: object) -> str:
    """Check and return a snapshot's name.

    Raises:
        InvalidRequest: `invalid_snapshot`.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidRequest(
            "name must have 1 to 64 letters, digits, - or _", code="invalid_snapshot", param="name"
        )
    return name


async def make_snapshot(
    name: str,
    *,
    cluster: Cluster,
    catalog: Catalog,
    settings: Settings,
    only: Index | None = None,
    shards: Sequence[int] | None = None,
    horizons: Mapping[int, int] | None = None,
    collect: CollectShards | None = None,
) -> ServiceSnapshot:
    """Make a snapshot; no index may be created, configured or deleted meanwhile.

    Args:
        name: not taken.
        cluster: whose data are copied.
        catalog: of its indexes.
        settings: of the service.
        only: the index to copy; None for all.
        shards: those to copy; None for all of this host.
        horizons: the states to copy, by number of the index; None: the newest ones. The snapshot
            has no other indexes.
        collect: puts the files of all shards into the snapshot's folder, where several hosts hold
            the shards together; None: the shards of this host write theirs.

    Raises:
        InvalidRequest: `invalid_snapshot`: the name is taken, or there are too many.
        Unavailable: a shard is down.
        StorageFull: no room. Nothing remains of an unfinished snapshot.
    """
    folder = settings.snapshot_folder
    suffix = _PARTIAL if collect is None else _COLLECTED
    partial = folder / (name + suffix)
    with ExitStack() as reading:
        # One moment for all indexes: nothing else runs between these lines.
        content = catalog.content()

        def held(index: Index) -> SnapshotIndex:
            number = index.number
            seq = reading.enter_context(
                cluster.reading_here(number)
                if horizons is None
                else cluster.reading_at(number, horizons[number])
            )
            return SnapshotIndex(number, index.name, seq)

        chosen_indexes = catalog.indexes.values() if only is None else (only,)
        indexes = tuple(
            held(one) for one in chosen_indexes if horizons is None or one.number in horizons
        )
        with _failure_told(), explaining_full_disk("no snapshot was made"):
            await asyncio.to_thread(_begin, folder, name, suffix, settings.limits)
            try:
                number = None if only is None else only.number
                if collect is not None:
                    chosen = tuple(range(cluster.num_shards))
                    await collect(partial)
                else:
                    chosen = tuple(cluster.here) if shards is None else tuple(shards)
                    timeout_ms = settings.configure_timeout_ms
                    await _copy_shards(partial, indexes, number, chosen, cluster, timeout_ms)
                snapshot = await asyncio.to_thread(
                    _finish,
                    partial,
                    folder / name,
                    content,
                    indexes,
                    chosen,
                    cluster.num_shards,
                    settings,
                )
            except BaseException:
                await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
                raise
    _log.info("snapshot made", name=name, bytes=snapshot.num_bytes)
    return snapshot


@contextmanager
def _failure_told() -> Iterator[None]:
    """Report what the system refused, instead of a bare internal error."""
    try:
        yield
    except OSError as error:
        _log.error("snapshot failed", cause=error)
        raise InternalError(
            f"the snapshot could not be written: {error.strerror or error}"
        ) from error


def _begin(folder: Path, name: str, suffix: str, limits: Limits) -> None:
    """Prepare the folder of a snapshot; remove what earlier ones left unfinished."""
    data_directory.make_folder(folder)
    if (folder / name).exists():
        raise InvalidRequest(
            f"there is a snapshot {name!r} already", code="invalid_snapshot", param="name"
        )
    for unfinished in list(folder.glob("*" + suffix)):
        shutil.rmtree(unfinished, ignore_errors=True)
    num_others = sum(1 for one in folder.iterdir() if NAME.fullmatch(one.name))
    if NAME.fullmatch(name) and num_others >= limits.snapshots_max:
        raise InvalidRequest(
            f"there may be {limits.shown('snapshots_max')} snapshots; delete one first",
            code="invalid_snapshot",
        )
    (folder / (name + suffix)).mkdir(mode=0o700)


async def _copy_shards(
    partial: Path,
    indexes: tuple[SnapshotIndex, ...],
    only: int | None,
    shards: tuple[int, ...],
    cluster: Cluster,
    timeout_ms: int,
) -> None:
    """Have all shards copy their data; return or raise only once none is still copying."""
    horizons = {index.number: index.seq for index in indexes}

    async def copy(shard: int) -> None:
        directory = data_directory.shard_folder(partial, shard)
        request = BackupRequest(str(directory), horizons, only)
        await cluster.here[shard].call(BACKUP, request, timeout_ms)

    copies = (copy(shard) for shard in shards)
    for result in await asyncio.gather(*copies, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def _finish(
    partial: Path,
    final: Path,
    catalog: bytes,
    indexes: tuple[SnapshotIndex, ...],
    shards: tuple[int, ...],
    num_shards: int,
    settings: Settings,
) -> ServiceSnapshot:
    """Write the coordinator's files, list all files, and give the snapshot its name."""
    fault("snapshot.finish")
    write_atomically(data_directory.catalog_path(partial), catalog, mode=0o600)
    manifest = data_directory.manifest_path(settings.data_dir).read_bytes()
    write_atomically(data_directory.manifest_path(partial), manifest)
    paths = ["MANIFEST.json", "catalog.json"]
    for shard in shards:
        paths.append(f"shard-{shard}/shard.json")
        paths += [f"shard-{shard}/index-{index.number}/data.mdb" for index in indexes]
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
        shards=num_shards,
        indexes=indexes,
        files=tuple(describe_file(partial, path) for path in paths),
    )
    sync_folders(partial, paths)
    document = msgspec.json.encode(snapshot)
    checksum = xxhash.xxh3_64_hexdigest(document).encode()
    write_atomically(
        partial / SNAPSHOT_FILE, b'{"checksum":"%b","snapshot":%b}\n' % (checksum, document)
    )
    partial.rename(final)
    sync_folder(final.parent)
    return snapshot


@asynccontextmanager
async def copied_index(
    index: Index, new_name: str, *, cluster: Cluster, catalog: Catalog, settings: Settings
) -> AsyncGenerator[Restored, None]:
    """Make a snapshot of one index, to be restored under another name; remove it at the end.

    What a process that was killed has left is removed by the next copy. The snapshot stays while a
    shard may still need it.

    Raises:
        As `make_snapshot` and `plan_restore`.
    """
    folder = settings.snapshot_folder
    await asyncio.to_thread(_remove_copies, folder, catalog)
    name = f"{_COPY}{secrets.token_hex(8)}"
    await make_snapshot(name, cluster=cluster, catalog=catalog, settings=settings, only=index)
    try:
        (source,) = await asyncio.to_thread(
            plan_restore, folder / name, {index.name: new_name}, None, cluster.num_shards
        )
        yield source
    finally:
        await asyncio.to_thread(_remove_copies, folder, catalog)


def _remove_copies(folder: Path, catalog: Catalog) -> None:
    """Remove snapshots that indexes were copied through, except those that a shard may need."""
    sources = {one.source.folder for one in catalog.state.indexes if one.source is not None}
    for entry in folder.glob(f"{_COPY}*"):
        if str(entry) not in sources:
            remove_snapshot(folder, entry.name)


def remove_unfinished(folder: Path, catalog: Catalog) -> None:
    """Remove what a killed process has left in a folder that no other service uses.

    Such a copy may be as large as the data, and no list shows it.
    """
    for suffix in (_PARTIAL, _COLLECTED):
        for unfinished in list(folder.glob("*" + suffix)):
            _log.info("unfinished snapshot removed", folder=unfinished.name)
            shutil.rmtree(unfinished, ignore_errors=True)
    with suppress(OSError):
        _remove_copies(folder, catalog)


# --- reading


def plan_restore(
    folder: Path,
    renamed: Mapping[str, str],
    wanted: Sequence[str] | None,
    num_shards: int,
    may_see: Callable[[str], bool] = lambda _: True,
) -> list[Restored]:
    """Return what must be created to restore indexes from a snapshot.

    Args:
        folder: of the snapshot.
        renamed: new names, by name in the snapshot.
        wanted: names of indexes in the snapshot; None for all.
        num_shards: of the service.
        may_see: whether the client may learn that the snapshot has an index of this name.

    Raises:
        NotFound: `snapshot_not_found`, or `index_not_found` in it.
        Conflict: `shards_differ`.
        InternalError: `snapshot_damaged`.
    """
    if not folder.is_dir():
        raise _no_snapshot(folder.name)
    try:
        snapshot = read_snapshot(folder)
        data_directory.check_manifest(folder, snapshot.shards)  # formats, and the hash function
        files = {file.path: file for file in snapshot.files}
        state = read_state(data_directory.catalog_path(folder))
        documents = {index.number: index.configuration for index in state.indexes}
        found = {}
        for index in snapshot.indexes:
            paths = [f"shard-{i}/index-{index.number}/data.mdb" for i in range(snapshot.shards)]
            source = SnapshotSource(
                str(folder),
                index.number,
                index.seq,
                tuple((files[path].bytes, files[path].checksum) for path in paths),
            )
            found[index.name] = Restored(
                renamed.get(index.name, index.name), index.name, documents[index.number], source
            )
    except (SnapshotError, DataDirectoryError, OSError, KeyError) as error:
        raise InternalError(
            f"snapshot {folder.name!r} is damaged: {str(error).replace(f'{folder}/', '')}",
            code="snapshot_damaged",
        ) from error
    if snapshot.shards != num_shards:
        raise Conflict(
            f"snapshot {folder.name!r} was made with {snapshot.shards} shards, this service has "
            f"{num_shards}: stop it and run facetd restore --data-dir OTHER, then "
            f"facetd reshard --shards {num_shards} --data-dir OTHER",
            code="shards_differ",
        )
    names = list(found) if wanted is None else wanted
    for name in (*names, *renamed):
        if name not in found:
            seen = ", ".join(filter(may_see, found)) or "no index that you may use"
            raise NotFound(
                f"snapshot {folder.name!r} has no index {name!r}; it has {seen}",
                code="index_not_found",
            )
    return [found[name] for name in names]


def list_snapshots(folder: Path) -> list[ServiceSnapshot]:
    """Return the complete snapshots in a folder, oldest first."""
    found = []
    if folder.is_dir():
        for entry in folder.iterdir():
            if NAME.fullmatch(entry.name):
                try:
                    found.append(read_snapshot(entry))
                except SnapshotError as error:
                    _log.warning("not a snapshot", folder=entry.name, reason=str(error))
    return sorted(found, key=lambda one: (one.created_at, one.name))


def remove_snapshot(folder: Path, name: str) -> None:
    """Delete a snapshot, complete or damaged: first its name, then its files.

    Raises:
        NotFound: `snapshot_not_found`.
    """
    gone = folder / (name + _PARTIAL)
    shutil.rmtree(gone, ignore_errors=True)  # leftovers of an earlier snapshot of that name
    try:
        (folder / name).rename(gone)
    except FileNotFoundError:
        raise _no_snapshot(name) from None
    sync_folder(folder)
    shutil.rmtree(gone)
    _log.info("snapshot removed", name=name)


def _no_snapshot(name: str) -> NotFound:
    return NotFound(
        f"there is no snapshot {name!r}",
        advice="GET /_snapshots lists those that are",
        code="snapshot_not_found",
    )


def read_snapshot(folder: Path) -> ServiceSnapshot:
    """Return a snapshot's own description; its files are not checked.

    Raises:
        SnapshotError: it is unfinished, damaged, or from a newer program.
    """
    path = folder / SNAPSHOT_FILE
    try:
        file = _decode_file(path.read_bytes())
        if xxhash.xxh3_64_hexdigest(bytes(file.snapshot)) != file.checksum:
            raise SnapshotError(f"{path} is damaged: its checksum differs")
        number = msgspec.json.decode(file.snapshot)["format"]
        if number != SNAPSHOT_FORMAT:
            raise SnapshotError(
                f"{folder} has format {number}, this program reads {SNAPSHOT_FORMAT}; "
                "restore it with the version that made it"
            )
        snapshot = _decode_snapshot(file.snapshot)
    except FileNotFoundError:
        raise SnapshotError(
            f"{folder} is no backup, or one that was not finished: it has no {SNAPSHOT_FILE}"
        ) from None
    except OSError as error:
        raise SnapshotError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise SnapshotError(f"{path} is damaged: {error}") from error
    for listed in snapshot.files:
        if not _FILE.fullmatch(listed.path):
            raise SnapshotError(f"{path} names a file that no backup has: {listed.path[:100]!r}")
    return snapshot


def verify(folder: Path, snapshot: ServiceSnapshot) -> None:
    """Compare every file with the snapshot's description.

    Raises:
        SnapshotError: a file is missing or differs.
    """
    for file in snapshot.files:
        try:
            found = describe_file(folder, file.path)
        except OSError as error:
            raise SnapshotError(f"{folder / file.path} cannot be read: {error.strerror}") from error
        if found != file:
            raise SnapshotError(f"{folder / file.path} is damaged: its checksum or size differs")


def is_file_of_snapshot(path: str) -> bool:
    """Return whether a snapshot may have a file of this path."""
    return path == SNAPSHOT_FILE or _FILE.fullmatch(path) is not None


def describe_file(folder: Path, path: str) -> SnapshotFile:
    """Read a file for its size and checksum."""
    checksum = xxhash.xxh3_64()
    num_bytes = 0
    with (folder / path).open("rb") as file:
        while piece := file.read(_READ_BYTES):
            checksum.update(piece)
            num_bytes += len(piece)
    return SnapshotFile(path, num_bytes, checksum.hexdigest())


def sync_folders(folder: Path, paths: list[str]) -> None:
    """Make the names of files below a folder durable, and the folder's own."""
    parents = {parent for path in paths for parent in (folder / path).parents}
    for parent in sorted(parents, reverse=True):
        if parent.is_relative_to(folder):
            sync_folder(parent)
