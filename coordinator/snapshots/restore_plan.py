"""Plans the indexes that are created from a snapshot while the service runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from common import data_directory
from common.data_directory import DataDirectoryError
from common.errors import Conflict, InternalError, NotFound
from common.protocol.messages import SnapshotSource
from coordinator.catalog.catalog_file import read_state
from coordinator.catalog.catalog_state import RestoredIndex
from coordinator.snapshots.snapshots_on_disk import SnapshotError, no_snapshot, read_snapshot


def plan_restore(
    folder: Path,
    renamed: Mapping[str, str],
    wanted: Sequence[str] | None,
    num_shards: int,
    may_see: Callable[[str], bool] = lambda _: True,
) -> list[RestoredIndex]:
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
        raise no_snapshot(folder.name)
    try:
        shards, found = _indexes_of(folder, renamed)
    except (SnapshotError, DataDirectoryError, OSError, KeyError) as error:
        raise InternalError(
            f"snapshot {folder.name!r} is damaged: {str(error).replace(f'{folder}/', '')}",
            code="snapshot_damaged",
        ) from error
    if shards != num_shards:
        raise Conflict(
            f"snapshot {folder.name!r} was made with {shards} shards, this service has "
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


def _indexes_of(folder: Path, renamed: Mapping[str, str]) -> tuple[int, dict[str, RestoredIndex]]:
    """Return a snapshot's number of shards, and by name what each of its indexes is created from.

    Raises:
        SnapshotError, DataDirectoryError, OSError, KeyError: the snapshot is damaged.
    """
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
        name = renamed.get(index.name, index.name)
        found[index.name] = RestoredIndex(name, index.name, documents[index.number], source)
    return snapshot.shards, found
