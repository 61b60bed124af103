"""The facts that a shard keeps about indexes that are not open."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import xxhash
from msgspec import Struct

from common.errors import InternalError
from common.protocol.messages import IndexEntry, IndexStatisticsResponse
from shard.partition.derived_files import bytes_on_disk
from shard.partition.partition import Partition
from shard.partition.recovery import check_truth
from shard.partition.stored_index_entry import manifest_entry, read_entry
from shard.storage.lmdb_environment import DATA_FILE, Environment
from shard.storage.lmdb_meta_page import read_meta_page
from shard.storage.manifest import MANIFEST_FILE, IndexManifest, UnreadableManifest, read_manifest
from shard.storage.storage_errors import DamagedEnvironment
from shard.storage.write_group_log import read_state

LARGE_BYTES: Final = 4 << 20
"""Size of data.mdb from which an index takes longer to open than a first search should."""


class ClosedIndex(Struct, frozen=True, gc=False):
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

    @classmethod
    def of(cls, folder: Path | str, map_bytes_max: int) -> ClosedIndex:
        """Read an index's manifest, and LMDB's counters where these are newer.

        Raises:
            DamagedEnvironment: data.mdb is missing, empty, cut, or not an LMDB file.
            OSError: the system refused it.
        """
        meta = read_meta_page(f"{folder}/{DATA_FILE}")
        is_large = (meta.last_page + 1) * meta.page_size >= LARGE_BYTES
        try:
            manifest = read_manifest(f"{folder}/{MANIFEST_FILE}", IndexManifest)
        except (UnreadableManifest, PermissionError, IsADirectoryError):
            manifest = None
        if (
            manifest is None
            or manifest.settled is None
            or manifest.settled.meta_pages != meta.digest
            or manifest.txn_id > meta.txn_id
        ):
            return cls._peek(Path(folder), map_bytes_max, manifest, is_large)
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
        )

    @classmethod
    def unmade(cls, entry: IndexEntry) -> ClosedIndex:
        """Return the facts about an index of which nothing is on disk."""
        return cls(digest_of(entry), 0, 0, 0, 0, 0, is_large=False, is_settled=True)

    @classmethod
    def _peek(
        cls, folder: Path, map_bytes_max: int, manifest: IndexManifest | None, is_large: bool
    ) -> ClosedIndex:
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
    def after(cls, partition: Partition) -> ClosedIndex:
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


def digest_of(entry: IndexEntry) -> int:
    """Return the digest of an index's number, name, revision and configuration."""
    return xxhash.xxh3_64_intdigest(msgspec.msgpack.encode(entry.without_source()))
