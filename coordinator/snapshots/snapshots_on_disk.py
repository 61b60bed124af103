"""Snapshots on disk: their files, how they are listed, read, verified and removed.

    <snapshots>/<name>/
      shard-0/shard.json, index-1/data.mdb …    written by the shards (`backup_and_restore`)
      catalog.json, MANIFEST.json               as in a data directory; keys are hashes, no secret
      snapshot.json                             written last: every file with size and checksum

A snapshot is made under `<name>.<mark>.partial`, which cannot be a snapshot's name, and renamed
once all of it is on disk (`snapshot_maker`). Several services may use one folder: the mark tells
whose it is (`data_directory.mark`), and each removes what it has left itself.

Over HTTP a client gives a name, never a path. A snapshot is a data directory without what can be
rebuilt: `facetd restore` checks every byte and puts it in place, and `POST
/_snapshots/{name}/restore` creates new indexes from it while the service runs (`restore_plan`,
`IndexRestorer.restore`).
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import msgspec
import xxhash
from msgspec import Struct

from common.decode_errors import UNDECODABLE
from common.durable_files import sync_folder, write_atomically
from common.errors import CommandError, InvalidRequest, NotFound
from common.process.logs import Log

SNAPSHOT_FORMAT: Final = 1
SNAPSHOT_FILE: Final = "snapshot.json"

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
PARTIAL: Final = ".partial"
"""Suffix of a snapshot that is being made or removed."""
_FILE: Final = re.compile(
    r"shard-\d{1,2}/(?:shard\.json|index-\d{1,19}/data\.mdb)|catalog\.json|MANIFEST\.json"
)
_READ_BYTES: Final = 1 << 20

_log = Log("snapshots")


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


def list_snapshots(folder: Path) -> list[ServiceSnapshot]:
    """Return the complete snapshots in a folder, oldest first, each by the name of its folder."""
    found = []
    if folder.is_dir():
        for entry in folder.iterdir():
            if NAME.fullmatch(entry.name):
                try:
                    snapshot = read_snapshot(entry)
                    # An operator may have renamed the folder; requests name it as it is now.
                    found.append(msgspec.structs.replace(snapshot, name=entry.name))
                except SnapshotError as error:
                    _log.warning("not a snapshot", folder=entry.name, reason=str(error))
    return sorted(found, key=lambda one: (one.created_at, one.name))


def unfinished_name(name: str, mark: str, suffix: str = PARTIAL) -> str:
    """Return the name under which a service makes or removes a snapshot.

    Args:
        name: of the snapshot; "*" for a pattern of all.
        mark: of the service's data directory.
        suffix: of what it is doing.
    """
    return f"{name}.{mark}{suffix}"


def remove_snapshot(folder: Path, name: str, mark: str) -> None:
    """Delete a snapshot, complete or damaged: first its name, then its files.

    Args:
        folder: of snapshots.
        name: of this one.
        mark: of the service's data directory.

    Raises:
        NotFound: `snapshot_not_found`.
    """
    gone = folder / unfinished_name(name, mark)
    shutil.rmtree(gone, ignore_errors=True)  # leftovers of an earlier snapshot of that name
    try:
        (folder / name).rename(gone)
    except FileNotFoundError:
        raise no_snapshot(name) from None
    sync_folder(folder)
    shutil.rmtree(gone)
    _log.info("snapshot removed", name=name)


def no_snapshot(name: str) -> NotFound:
    """Return the error of a name that no snapshot has."""
    return NotFound(
        f"there is no snapshot {name!r}",
        advice="GET /_snapshots lists the snapshots",
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
            f"{folder} is not a backup, or was not finished: it has no {SNAPSHOT_FILE}"
        ) from None
    except OSError as error:
        raise SnapshotError(f"{path} cannot be read: {error.strerror}") from error
    except (*UNDECODABLE, KeyError, TypeError) as error:
        raise SnapshotError(f"{path} is damaged: {error}") from error
    for listed in snapshot.files:
        if not _FILE.fullmatch(listed.path):
            raise SnapshotError(f"{path} names a file that no backup has: {listed.path[:100]!r}")
    return snapshot


def write_snapshot(folder: Path, snapshot: ServiceSnapshot) -> None:
    """Write a snapshot's description, which makes it complete."""
    document = msgspec.json.encode(snapshot)
    checksum = xxhash.xxh3_64_hexdigest(document).encode()
    write_atomically(
        folder / SNAPSHOT_FILE, b'{"checksum":"%b","snapshot":%b}\n' % (checksum, document)
    )


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
