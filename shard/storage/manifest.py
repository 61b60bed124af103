"""The manifest: the derived files of an index on this shard, and the truth that they reflect.

    <shard folder>/
      shard.json                which indexes this shard has made            ShardManifest
      index-<number>/
        data.mdb, lock.mdb      the truth                                    lmdb_environment.py
        MANIFEST.json           names the files below                        IndexManifest
        segment-<n>.seg         derived                                      segment/segment_file.py
        facets-<n>.seg          derived: a piece of a facet dictionary       segment/segment_file.py
        texts-<n>.seg           derived: texts of a field of a segment       segment/segment_file.py

All three are replaced as a whole: temporary file, sync, rename, sync of the folder.
A derived file is complete and synced before a manifest names it, and removed only after no manifest
names it; so at any moment of a crash the manifest names whole files, and files that it does not
name are leftovers. File numbers are never reused.

Each is one line of checksum and one of JSON. An index manifest that fails its checksum is
treated as missing: the truth is whole without it, and the derived files are rebuilt.

The manifests also guard against an *older or empty* data.mdb: LMDB opens a file of zero bytes as an
empty database, and no file can tell of itself that it is last week's copy.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import xxhash
from msgspec import Struct

from common.data_directory import DataDirectoryError
from common.decode_errors import UNDECODABLE
from common.durable_files import write_atomically

FORMAT = 1
"""Version of both manifests. With another one, an index manifest is rebuilt, shard.json refused."""

MANIFEST_FILE = "MANIFEST.json"
SHARD_FILE = "shard.json"

_READ_BYTES = 16 << 10

T = TypeVar("T", bound=Struct)


class SegmentEntry(Struct, frozen=True):
    """A segment file."""

    file: str
    checksum: str
    num_docs: int


class DictionaryEntry(Struct, frozen=True):
    """A facet dictionary: its files, in order of their values."""

    pieces: tuple[SegmentEntry, ...]
    num_values: int


class TextsEntry(Struct, frozen=True):
    """The texts of a field of a segment, of which searches have made a column."""

    segment: str
    """File of the segment."""
    field: int
    """Number of the field."""
    column: SegmentEntry


class Settled(Struct, frozen=True):
    """Counters of the truth when the manifest was written: an unchanged index stays closed."""

    txn_id: int
    """The counters hold while this is the last transaction of data.mdb."""
    seq_max: int
    num_docs: int
    num_bytes: int
    """Size of the folder."""
    meta_pages: str = ""
    """Digest of both meta pages, as they are on disk; empty: an older program wrote this."""


class IndexManifest(Struct, frozen=True):
    """The derived files of one index on one shard."""

    format: int
    number: int
    """Number of the index."""
    name: str
    revision: int
    configuration: dict[str, Any]
    """As posted: the files were built with it."""
    next_record: int
    """The files cover the live documents of all smaller records."""
    next_file: int
    """Number of the next derived file."""
    txn_id: int
    """Last transaction of data.mdb when this was written; without it, data.mdb is refused."""
    fields: tuple[str, ...]
    """Path by field number."""
    segments: tuple[SegmentEntry, ...]
    dictionaries: dict[str, DictionaryEntry]
    damaged: tuple[int, ...] = ()
    """Live records that the segments leave out, because their items cannot be read."""
    settled: Settled | None = None
    """None if a transaction was being written then."""
    texts: tuple[TextsEntry, ...] = ()


class ShardManifest(Struct, frozen=True):
    """The indexes that a shard has created."""

    format: int
    shard: int
    num_shards: int
    indexes: tuple[int, ...]
    seq_max: int = 0
    """No dropped index had a higher seq; none is ever reused."""


# Made once, at import: msgspec inspects a class at its first use, and the process crashes if two
# threads that open indexes do that at the same time.
_DECODERS: dict[type[Struct], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (IndexManifest, ShardManifest)
}


class _Header(Struct):
    """The part of a manifest that is read before the rest."""

    format: Any = None


_decode_header = msgspec.json.Decoder(_Header).decode


class UnreadableManifest(Exception):
    """The file exists, but is truncated, damaged, or of another format."""


def write_manifest(path: Path, manifest: Struct) -> None:
    """Replace a manifest.

    Raises:
        OSError: the disk is full, or the device failed; the previous manifest stays in force.
    """
    content = msgspec.json.encode(manifest)
    checksum = xxhash.xxh3_64_hexdigest(content).encode()
    write_atomically(path, checksum + b"\n" + content + b"\n")


def read_manifest(path: Path | str, kind: type[T]) -> T | None:
    """Read a manifest of an index or a shard; None if there is none.

    Raises:
        UnreadableManifest: it is damaged, or of a format that this program does not know.
        OSError: it cannot be read, which says nothing about its content.
    """
    name = os.path.basename(path)
    try:
        lines = _read(path).split(b"\n")
    except FileNotFoundError:
        return None
    if len(lines) != 3 or lines[2] or xxhash.xxh3_64_hexdigest(lines[1]).encode() != lines[0]:
        raise UnreadableManifest(f"{name}: checksum differs")
    try:
        header = _decode_header(lines[1])
        if header.format != FORMAT:
            raise UnreadableManifest(f"{name}: format {header.format}, not {FORMAT}")
        manifest: T = _DECODERS[kind].decode(lines[1])
        return manifest
    except UNDECODABLE as error:
        raise UnreadableManifest(f"{name}: {error}") from error


def read_shard_manifest(folder: Path) -> ShardManifest | None:
    """Read the manifest of a shard; None if there is none.

    Raises:
        DataDirectoryError: it is damaged; the message says what to do.
        OSError: it cannot be read, which says nothing about its content.
    """
    path = folder / SHARD_FILE
    try:
        return read_manifest(path, ShardManifest)
    except UnreadableManifest as error:
        raise DataDirectoryError(
            f"{path} cannot be read ({error}); restore it from a backup"
        ) from error


def _read(path: Path | str) -> bytes:
    """Return the content of a file; without a file object, because a start reads many."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(file, _READ_BYTES):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(file)
