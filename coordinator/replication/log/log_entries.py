"""The content of the log: entries, each a change that every host applies in order.

    LogEntry kind      its effect when it is applied
           write    a group of operations on one index
           catalog  a change of indexes, aliases or keys
           piece    nothing; a part of a later entry that is longer than a message may be
           mark     nothing; hosts compute what identifies the state after it (`data_comparison`)
           report   nothing; what a host has found at a mark

An entry's number in the log is the `seq` of its group. What it does follows from the entries before
it and from nothing else, so all hosts that have applied the same entries have the same items.

An entry that is too long for one message is split. Its first parts are published as pieces; the
acknowledgement of each carries its number, and the last message names these numbers. So pieces need
not be adjacent, and those of a host that died halfway are never read.

Content is compressed and has a checksum over the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, Self

import msgspec
import numpy as np
import xxhash
import zstandard
from msgspec import Struct
from numpy.typing import NDArray

from common.decode_errors import UNDECODABLE
from common.item_placement import hash_id, shards_of
from common.protocol.write_operations_and_outcomes import Operation
from coordinator.catalog.catalog_state import CatalogState, StoredIndex
from coordinator.write.partitioning import Part, Parts, divide, on_all_shards, places_of
from coordinator.write.write_batch import Items, WriteBatch

FORMAT: Final = 1
"""Format of entries; in the metadata of the stream."""

CONTENT_BYTES_MAX: Final = 960 * 1024
"""Size limit of one message: the default of a NATS server is a mebibyte."""

_LEVEL: Final = 1


class EntryError(Exception):
    """An entry is damaged, or of a newer program."""


class Kind(IntEnum):
    """What an entry is."""

    WRITE = 0
    CATALOG = 1
    PIECE = 2
    MARK = 3
    REPORT = 4


class LogEntry(Struct, frozen=True, array_like=True):
    """One message of the log."""

    kind: int
    id: str
    """Unique; by it the log recognises an entry that is published twice."""
    content: bytes
    """For a piece, its part of an entry's content; otherwise the last part of the entry's own."""
    checksum: int = 0
    """xxh3_64 of the whole content."""
    pieces: tuple[int, ...] = ()
    """Numbers of the pieces that come before `content`."""


@dataclass(frozen=True, slots=True)
class Operations(Items):
    """Single operations, not yet partitioned among the shards.

    `starts` and `ends` delimit an item, or for a DELETE the id.
    """

    kinds: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    """`Operation` of each."""
    versions: dict[int, bytes] = field(default_factory=dict)
    """8-byte precondition by position."""


class WriteGroup(Struct, frozen=True, array_like=True):
    """Operations on one index, in order; not divided over shards."""

    index: int
    payload: bytes
    lengths: bytes
    """uint32 per operation."""
    operations: bytes
    """uint8 per operation: `Operation`; one byte if all are alike."""
    id_hashes: bytes
    """uint64 per operation; what places it."""
    without_id: bytes
    """uint32: positions of the items without id, which are placed by their number."""
    versions: dict[int, bytes] = {}
    """8-byte precondition by position."""
    sources: dict[str, str] = {}
    """By source of changes: its position after this group; empty: forget it."""

    @property
    def num_operations(self) -> int:
        """Number of operations."""
        return len(self.lengths) // 4

    @classmethod
    def of(cls, index: int, batches: list[WriteBatch]) -> Self:
        """Join batches of undivided items."""
        payloads: list[bytes] = []
        lengths: list[NDArray[np.uint32]] = []
        operations: list[NDArray[np.uint8]] = []
        hashes: list[NDArray[np.uint64]] = []
        has_id: list[NDArray[np.bool_]] = []
        versions: dict[int, bytes] = {}
        sources: dict[str, str] = {}
        num_operations = 0
        for batch in batches:
            items = batch.items
            assert items is not None
            payloads.append(_dense(items))
            lengths.append((items.ends - items.starts).astype(np.uint32))
            if isinstance(items, Operations):
                operations.append(items.kinds)
                for position, version in items.versions.items():
                    versions[num_operations + position] = version
            else:
                operations.append(np.full(len(items.starts), Operation.PUT, np.uint8))
            hashes.append(items.id_hashes)
            has_id.append(items.has_id)
            sources.update(batch.positions)
            num_operations += len(items.starts)
        kinds = np.concatenate(operations)
        is_uniform = num_operations > 0 and bool((kinds == kinds[0]).all())
        return cls(
            index,
            b"".join(payloads),
            np.concatenate(lengths).tobytes(),
            kinds[:1].tobytes() if is_uniform else kinds.tobytes(),
            np.concatenate(hashes).tobytes(),
            np.flatnonzero(~np.concatenate(has_id)).astype(np.uint32).tobytes(),
            versions,
            sources,
        )

    def divide(self, num_shards: int, seq: int) -> Parts:
        """Divide the operations over the shards of this host, as the group `seq`."""
        sizes = np.frombuffer(self.lengths, np.uint32).astype(np.int64)
        ends = np.cumsum(sizes)
        starts = ends - sizes
        has_id = np.ones(len(ends), np.bool_)
        has_id[np.frombuffer(self.without_id, np.uint32)] = False
        hashes = np.frombuffer(self.id_hashes, np.uint64).copy()  # kernels take what is writable
        shards = shards_of(hashes, has_id, places_of(seq, 0, len(ends)), num_shards)
        kinds = np.frombuffer(self.operations, np.uint8)
        parts = divide(
            np.frombuffer(self.payload, np.uint8).copy(), starts, ends, shards, num_shards
        )
        for part in parts.values():
            _complete(part, kinds, self.versions)
        return on_all_shards(parts, num_shards) if self.sources else parts


def operations_of(
    operations: Sequence[tuple[Operation, bytes, bytes]], versions: dict[int, bytes] | None = None
) -> Operations:
    """Return single operations in the form that is published.

    Args:
        operations: kind, canonical id, payload (an item; for a DELETE the id).
        versions: 8-byte precondition by ordinal in `operations`.
    """
    sizes = np.array([len(payload) for _, _, payload in operations], np.int64)
    ends = np.cumsum(sizes)
    return Operations(
        np.frombuffer(b"".join(payload for _, _, payload in operations), np.uint8).copy(),
        ends - sizes,
        ends,
        np.array([hash_id(canonical) for _, canonical, _ in operations], np.uint64),
        np.ones(len(operations), np.bool_),
        np.array([kind for kind, _, _ in operations], np.uint8),
        versions or {},
    )


def _dense(items: Items) -> bytes:
    """Return the bytes of the items alone, without the bytes between them."""
    if len(items.starts) == 1:
        return items.payload[items.starts[0] : items.ends[0]].tobytes()
    owners = np.zeros(len(items.starts), np.int64)
    parts = divide(items.payload, items.starts, items.ends, owners, 1)
    return bytes(parts[0].payload) if parts else b""


def _complete(part: Part, kinds: NDArray[np.uint8], versions: dict[int, bytes]) -> None:
    """Add to a part the kinds of its operations, and their preconditions."""
    if len(kinds) == 1:
        part.operations = np.full(len(part.lengths), kinds[0], np.uint8)
    else:
        part.operations = kinds[part.positions]
    if versions:
        ordinals = {int(position): ordinal for ordinal, position in enumerate(part.positions)}
        part.versions = {
            ordinals[position]: version
            for position, version in versions.items()
            if position in ordinals
        }


class CatalogChange(Struct, frozen=True, array_like=True):
    """The difference of two states of the catalog, in force only on top of the first one."""

    base: int
    """Revision that the catalog must have."""
    revision: int
    next_number: int
    put: tuple[StoredIndex, ...] = ()
    """Indexes that are new, or have another configuration."""
    dropped: tuple[int, ...] = ()
    """Numbers of indexes."""
    aliases: dict[str, str] | None = None
    """All of them, if they change."""
    sections: dict[str, dict[str, Any]] = {}
    """Those that change."""

    @classmethod
    def between(cls, before: CatalogState, after: CatalogState) -> Self:
        """Return what turns one state into another."""
        former = {index.number: index for index in before.indexes}
        return cls(
            base=before.revision,
            revision=after.revision,
            next_number=after.next_number,
            put=tuple(index for index in after.indexes if former.get(index.number) != index),
            dropped=tuple(former.keys() - {index.number for index in after.indexes}),
            aliases=None if after.aliases == before.aliases else after.aliases,
            sections={
                name: content
                for name, content in after.sections.items()
                if before.sections.get(name) != content
            },
        )

    def applied_to(self, state: CatalogState) -> CatalogState:
        """Return the state after the change."""
        put = {index.number: index for index in self.put}
        kept = [
            put.pop(index.number, index)
            for index in state.indexes
            if index.number not in self.dropped
        ]
        return msgspec.structs.replace(
            state,
            revision=self.revision,
            next_number=self.next_number,
            indexes=(*kept, *put.values()),
            aliases=state.aliases if self.aliases is None else self.aliases,
            sections={**state.sections, **self.sections},
        )


class ComparisonMark(Struct, frozen=True, array_like=True):
    """At this entry hosts compare their data."""

    host: str
    """The host that requested it."""


class IndexFingerprint(Struct, frozen=True, array_like=True):
    """Digest of the items of an index."""

    num_items: int
    num_damaged: int
    fingerprint: int


class HostReport(Struct, frozen=True, array_like=True):
    """The digests of a host's data at a mark."""

    host: str
    name: str
    """Name of the host, for people."""
    mark: int
    """Number of the mark's entry."""
    catalog: int
    """xxh3_64 of the catalog."""
    indexes: dict[int, IndexFingerprint]
    """By number; empty where each host holds some of the shards."""
    parts: dict[int, dict[int, IndexFingerprint]] = {}
    """By number and shard, of the shards of this host, where each holds some of them."""


Content = WriteGroup | CatalogChange | ComparisonMark | HostReport

_TYPES: Final[dict[int, Any]] = {
    Kind.WRITE: WriteGroup,
    Kind.CATALOG: CatalogChange,
    Kind.MARK: ComparisonMark,
    Kind.REPORT: HostReport,
}
_KINDS: Final = frozenset(int(kind) for kind in Kind)
_decode_entry = msgspec.msgpack.Decoder(LogEntry).decode
_decoders: Final = {kind: msgspec.msgpack.Decoder(type_).decode for kind, type_ in _TYPES.items()}
_encode = msgspec.msgpack.Encoder().encode


def pack(content: Content) -> bytes:
    """Return content as it is published, compressed."""
    return zstandard.ZstdCompressor(_LEVEL).compress(_encode(content))


def unpack(kind: int, checksum: int, parts: list[bytes]) -> Content:
    """Return content from its parts.

    Raises:
        EntryError: it is damaged.
    """
    packed = b"".join(parts)
    if xxhash.xxh3_64_intdigest(packed) != checksum:
        raise EntryError("its checksum differs")
    try:
        content: Content = _decoders[kind](zstandard.ZstdDecompressor().decompress(packed))
    except (zstandard.ZstdError, *UNDECODABLE) as error:
        raise EntryError(str(error)) from error
    return content


def encode_entry(entry: LogEntry) -> bytes:
    """Return an entry as a message."""
    return _encode(entry)


def decode_entry(message: bytes) -> LogEntry:
    """Return the entry of a message.

    Raises:
        EntryError: it is damaged, or of a newer program.
    """
    try:
        entry = _decode_entry(message)
    except UNDECODABLE as error:
        raise EntryError(str(error)) from error
    if entry.kind not in _KINDS:
        raise EntryError(f"its kind {entry.kind} is not known: install a newer version")
    return entry


def checksum_of(packed: bytes) -> int:
    """Return the checksum of packed content."""
    return xxhash.xxh3_64_intdigest(packed)
