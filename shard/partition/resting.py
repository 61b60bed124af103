"""The facts that a shard keeps about indexes that are not open, and their file.

    <shard folder>/resting.json   {"format": 1, "probe": …, "indexes": {"7": [digest, …, stamp], …}}

Reading what a start needs to know of an index takes two files, 0.1 ms. So what was read of all of
them is kept in one file: each entry with a stamp, a hash of LMDB's newest transaction and of what
the system says of the two files (inode, size, time of the last change). A start takes an entry
whose stamp still holds, and reads the index itself otherwise. Nothing depends on the file: without
it, or if it is damaged, older than an index, or copied from elsewhere, a start only takes longer.

The time of the last change alone would not do. The system's clock has ticks of up to 10 ms: a file
that was changed less than `TICK_NS` ago may be changed again without showing it, so it gets no
stamp yet. And a commit makes data durable, not times: after a power loss data.mdb may have a newer
transaction under an older time.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
import xxhash
from msgspec import Struct

from common.errors import InternalError
from common.protocol.messages import IndexEntry, IndexStatisticsResponse
from shard.partition.derived_files import bytes_on_disk
from shard.partition.partition import Partition, check_truth, manifest_entry, read_entry
from shard.storage.environment import DATA_FILE, DamagedEnvironment, Environment, read_meta_page
from shard.storage.group_log import read_state
from shard.storage.manifest import (
    FORMAT,
    MANIFEST_FILE,
    IndexManifest,
    UnreadableManifest,
    read_manifest,
    read_manifest_with,
    write_manifest,
)

RESTING_FILE: Final = "resting.json"

LARGE_BYTES: Final = 4 << 20
"""Size of data.mdb from which an index takes longer to open than a first search should."""

TICK_NS: Final = 50_000_000
"""Files that were changed more recently get no stamp."""

_STAMP: Final = struct.Struct("<7Q")


class Resting(Struct, frozen=True, array_like=True, gc=False):
    """An index that is not open, as its manifest has it, or else LMDB."""

    digest: int
    """Digest of its configuration."""
    num_docs: int
    """Live items."""
    seq_max: int
    """Its newest write group."""
    num_segments: int
    """Its files."""
    num_damaged: int
    """Items that cannot be read."""
    num_bytes: int
    """On disk."""
    is_large: bool
    """Whether it takes long to open."""
    is_settled: bool
    """Whether the files have all of it, so that opening it builds nothing."""
    stamp: int = 0
    """Stamp of the files that this describes; 0: none was made."""

    @classmethod
    def of(cls, folder: Path, map_bytes_max: int) -> Resting:
        """Read an index's manifest, and LMDB's counters where these are newer.

        Raises:
            DamagedEnvironment: data.mdb is missing, empty, cut, or not an LMDB file.
            OSError: the system refused it.
        """
        files = _identities(str(folder))
        meta = read_meta_page(folder / DATA_FILE)
        is_large = (meta.last_page + 1) * meta.page_size >= LARGE_BYTES
        try:
            manifest = read_manifest(folder / MANIFEST_FILE, IndexManifest)
        except (UnreadableManifest, PermissionError, IsADirectoryError):
            manifest = None
        if (
            manifest is None
            or manifest.settled is None
            or manifest.settled.txn_id != meta.txn_id
            or manifest.txn_id > meta.txn_id
        ):
            return cls._peek(folder, map_bytes_max, manifest, is_large)
        settled = manifest.settled
        return cls(
            digest_of(manifest_entry(manifest)),
            settled.num_docs,
            settled.seq_max,
            len(manifest.segments),
            len(manifest.damaged),
            settled.num_bytes,
            is_large,
            True,
            0 if files is None else _stamp(files, meta.txn_id),
        )

    @classmethod
    def _peek(
        cls, folder: Path, map_bytes_max: int, manifest: IndexManifest | None, is_large: bool
    ) -> Resting:
        """Read what LMDB has, without opening the derived data."""
        environment = Environment.open(folder, map_bytes_max)
        try:
            check_truth(environment, manifest)
            with environment.read() as txn:
                state = read_state(txn)
            entry = read_entry(environment) if manifest is None else manifest_entry(manifest)
        except InternalError as error:
            raise DamagedEnvironment(
                f"the counters in {folder} are damaged: restore the index from a backup"
            ) from error
        finally:
            environment.close()
        return cls(
            digest_of(entry),
            state.num_docs,
            state.seq_max,
            0 if manifest is None else len(manifest.segments),
            0 if manifest is None else len(manifest.damaged),
            bytes_on_disk(folder),
            is_large,
            False,
        )

    @classmethod
    def after(cls, partition: Partition) -> Resting:
        """Return the facts about an index that is, or is being, closed."""
        return cls(
            digest_of(partition.generation.entry),
            partition.state.num_docs,
            partition.state.seq_max,
            len(partition.newest.views),
            len(partition.damaged),
            partition.derived.bytes_on_disk(),
            partition.environment.file_bytes() >= LARGE_BYTES,
            partition.is_settled,
        )

    def statistics(self) -> IndexStatisticsResponse:
        """Return its sizes, as of an index that is open and idle."""
        return IndexStatisticsResponse(
            num_docs=self.num_docs,
            num_records=self.num_docs,
            bytes_on_disk=self.num_bytes,
            segments=({},) * self.num_segments,
            fields=(),
            is_merging=False,
            map_bytes_used=0,
            map_bytes_max=0,
        )


class RestingIndexes(Struct, frozen=True):
    """The content of the file."""

    format: int
    probe: int
    """Digest of a known configuration: another program may compute digests in another way."""
    indexes: dict[int, Resting]


_decoder = msgspec.json.Decoder(RestingIndexes)  # once: see shard/storage/manifest.py


def digest_of(entry: IndexEntry) -> int:
    """Return the digest of an index's number, name, revision and configuration."""
    return xxhash.xxh3_64_intdigest(msgspec.msgpack.encode(entry.without_source()))


@cache
def _probe() -> int:
    return digest_of(IndexEntry(1, "probe", 2, {"language": "english"}))


def stamp_of(folder: str) -> int:
    """Return the stamp of an index's files; 0 if one is missing, damaged or just changed."""
    files = _identities(folder)
    if files is None:
        return 0
    try:
        return _stamp(files, read_meta_page(Path(folder, DATA_FILE)).txn_id)
    except (OSError, DamagedEnvironment):
        return 0


def _stamp(files: tuple[int, ...], txn_id: int) -> int:
    return xxhash.xxh3_64_intdigest(_STAMP.pack(txn_id, *files)) | 1


def _identities(folder: str) -> tuple[int, ...] | None:
    """Return what the system says of an index's files; None if one is missing or just changed."""
    try:
        data = _identity(f"{folder}/{DATA_FILE}")
        manifest = _identity(f"{folder}/{MANIFEST_FILE}")
    except OSError:
        return None
    if time.time_ns() - max(data[-1], manifest[-1]) < TICK_NS:
        return None
    return (*data, *manifest)


def _identity(path: str) -> tuple[int, int, int]:
    """Return inode, size and time of the last change, in ns."""
    stat = os.stat(path)
    return stat.st_ino, stat.st_size, stat.st_ctime_ns


def read_resting(folder: Path) -> Mapping[int, Resting]:
    """Return what the file of a shard's folder has, by number; nothing if it cannot be used."""
    try:
        stored = read_manifest_with(folder / RESTING_FILE, _decoder)
    except (OSError, UnreadableManifest):
        return {}
    return stored.indexes if stored is not None and stored.probe == _probe() else {}


def write_resting(folder: Path, indexes: Mapping[int, Resting]) -> None:
    """Write the facts about the resting indexes; those without a stamp are left out.

    Raises:
        OSError: no room, or the device failed; the former file stands.
    """
    stamped = {number: one for number, one in indexes.items() if one.stamp and one.is_settled}
    write_manifest(folder / RESTING_FILE, RestingIndexes(FORMAT, _probe(), stamped))
