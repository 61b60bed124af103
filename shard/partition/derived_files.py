"""The derived files of one index: written, named by the manifest, opened, set aside, removed.

Life of a file: written under a temporary name → synced → renamed → named by the manifest → no
longer named → removed. Whatever a crash leaves behind is a file that no manifest names, and the
next open removes it. A file that fails its checksum is renamed to `<name>.damaged` (the last ones
are kept for diagnosis) and rebuilt from the documents.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common.facet_dictionary import FacetDictionary
from common.process.fault_injection import fault
from common.process.logs import Log
from shard.partition.structures_per_configuration import Generation
from shard.segment.builder.segment_merge import merge_to_file
from shard.segment.columns.text_ordinal_files import adopt_texts
from shard.segment.merge_state import MergeState
from shard.segment.segment import Segment
from shard.segment.segment_file import DamagedSegment
from shard.storage.lmdb_meta_page import MetaPage
from shard.storage.manifest import (
    FORMAT,
    MANIFEST_FILE,
    DictionaryEntry,
    IndexManifest,
    SegmentEntry,
    Settled,
    TextsEntry,
    UnreadableManifest,
    read_manifest,
    write_manifest,
)
from shard.storage.write_group_log import State

PIECES_MAX = 8
"""A dictionary in more pieces is rewritten as one."""

DAMAGED_MAX = 4
"""Damaged files that are kept."""

_SUFFIX = ".seg"
_PIECE = "facets"
_TEXTS = "texts"
_log = Log("shard")


@dataclass(slots=True)
class Loaded:
    """The readable derived files of an index.

    Attributes:
        fields: path by field number.
        segments: the intact ones, in the order of their records.
        dictionaries: by path; with new epochs (see `DerivedFiles.load`).
    """

    fields: tuple[str, ...] = ()
    segments: list[Segment] = field(default_factory=list)
    dictionaries: dict[str, FacetDictionary] = field(default_factory=dict)


class DerivedFiles:
    """The derived files in the folder of one index.

    Several threads may write files (the merger, and a reindex in the background). A thread that
    commits holds `commit_lock` from the moment it decides what to commit.

    Attributes:
        folder: of the index.
        commit_lock: held during a commit.
        reserved: names of files that no manifest names yet, but one will: they are not removed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commit_lock = threading.Lock()
        self.reserved: set[str] = set()
        self._next_file = 0
        self._lock = threading.Lock()
        self._pieces: dict[str, DictionaryEntry] = {}
        self._epochs: dict[str, int] = {}
        self._texts: dict[tuple[str, int], SegmentEntry] = {}
        self._committed: IndexManifest | None = None

    def read_manifest(self) -> IndexManifest | None:
        """Return the manifest; None if it is missing or unreadable (then everything is rebuilt).

        Raises:
            OSError: it can neither be read nor set aside.
        """
        path = self.folder / MANIFEST_FILE
        try:
            return read_manifest(path, IndexManifest)
        except UnreadableManifest as error:
            reason = str(error)
        except (PermissionError, IsADirectoryError) as error:
            path.replace(path.with_name(path.name + ".damaged"))
            reason = str(error.strerror)
        _log.warning("manifest is damaged, building the index again", reason=reason)
        return None

    def load(self, manifest: IndexManifest | None, *, on_first_touch: bool = False) -> Loaded:
        """Open the files that a manifest names; set damaged ones aside.

        Large segments are verified when they are touched, if `on_first_touch`; see `Segment.open`.
        A dictionary gets a new epoch: the documents after the last manifest are indexed again and
        may number new values in another order than the process that ended.
        """
        self._next_file = self._first_free_number(manifest)
        loaded = Loaded()
        self._committed = manifest
        if manifest is None:
            return loaded
        loaded.fields = manifest.fields
        for path, entry in manifest.dictionaries.items():
            pieces = [self._open(piece) for piece in entry.pieces]
            intact = [piece for piece in pieces if piece is not None]
            if len(intact) < len(pieces):
                return Loaded(fields=manifest.fields)  # its numbers mean nothing any more
            arrays = [{"keys": piece["keys"], "offsets": piece["offsets"]} for piece in intact]
            restored = FacetDictionary.from_arrays(FacetDictionary().epoch, arrays)
            loaded.dictionaries[path] = restored
            self._pieces[path] = entry
            self._epochs[path] = restored.epoch
        opened = [self._open(entry, on_first_touch=on_first_touch) for entry in manifest.segments]
        loaded.segments = [segment for segment in opened if segment is not None]
        by_name = {_entry(segment).file: segment for segment in loaded.segments}
        for texts in manifest.texts:
            segment = by_name.get(texts.segment)
            if segment is not None:
                column = self._open(texts.column, on_first_touch=on_first_touch)
                if column is not None:
                    self._texts[texts.segment, texts.field] = texts.column
                    adopt_texts(segment, texts.field, column)
        return loaded

    def remove_leftovers(self) -> None:
        """Remove half-written files of a crash, and old damaged files; call it before any write."""
        paths = list(self.folder.iterdir())
        for path in paths:
            if path.suffix == ".tmp":
                path.unlink(missing_ok=True)
        damaged = sorted(
            (path for path in paths if path.suffix == ".damaged"),
            key=lambda path: path.stat().st_mtime,
        )
        for path in damaged[:-DAMAGED_MAX]:
            with contextlib.suppress(OSError):  # a folder, say: it does no harm
                path.unlink(missing_ok=True)

    def _first_free_number(self, manifest: IndexManifest | None) -> int:
        numbers = [manifest.next_file if manifest is not None else 0]
        for name in os.listdir(self.folder):
            number = name.partition("-")[2].partition(".")[0]
            if number.isdigit():
                numbers.append(int(number) + 1)
        return max(numbers)

    def _open(self, entry: SegmentEntry, *, on_first_touch: bool = False) -> Segment | None:
        path = self.folder / entry.file
        try:
            segment = Segment.open(path, on_first_touch=on_first_touch)
            if segment.checksum != entry.checksum:
                raise DamagedSegment(f"{entry.file}: not the file that the manifest names")
        except DamagedSegment as error:
            _log.warning("derived file cannot be used, building it again", reason=str(error))
            if path.exists():
                path.replace(path.with_name(path.name + ".damaged"))
            return None
        return segment

    def write(self, segment: Segment, kind: str = "segment") -> Segment:
        """Write a segment to a new file and return it as mapped from there.

        Raises:
            OSError: no space left, or the device failed; nothing is left.
        """
        with self._new_file(kind) as path:
            segment.write(path)
            return Segment.map(path)

    def merge(self, state: MergeState) -> Segment:
        """Merge segments into a new file and return the merged one as mapped from there.

        Args:
            state: what is merged.

        Raises:
            OSError: no space left, or the device failed; nothing is left.
        """
        with self._new_file("segment") as path:
            merge_to_file(state.remapped(), path)
            return Segment.map(path)

    def write_texts(self, segment: Segment, field: int, column: Segment) -> Segment:
        """Write the text column of a field of a segment, which is a file, to a file of its own.

        The next commit names it. Otherwise as `write`.
        """
        written = self.write(column, _TEXTS)
        with self._lock:
            self._texts[_entry(segment).file, field] = _entry(written)
        return written

    @contextlib.contextmanager
    def _new_file(self, kind: str) -> Iterator[Path]:
        """Reserve the path of a new file; if it cannot be written, or mapped, it is removed."""
        with self._lock:
            path = self.folder / f"{kind}-{self._next_file}{_SUFFIX}"
            self._next_file += 1
            self.reserved.add(path.name)
        try:
            fault("merge.write")
            yield path
        except BaseException:
            path.unlink(missing_ok=True)
            with self._lock:
                self.reserved.discard(path.name)
            raise

    def commit(
        self,
        generation: Generation,
        segments: Sequence[Segment],
        *,
        next_record: int,
        txn_id: int,
        damaged: Iterable[int],
        state: Callable[[], tuple[MetaPage, State] | None],
    ) -> None:
        """Write new dictionary values, then the manifest; remove files that it does not name.

        Args:
            generation: of the segments; its dictionaries are at least as long as these need.
            segments: all of them are files.
            next_record: greater than every record in the files.
            txn_id: last transaction of data.mdb.
            damaged: live records that the segments leave out.
            state: returns the meta page, both of which are on disk, and the counters that it left;
                None while one is being written.

        Raises:
            OSError: no room, or the device failed; the previous manifest stays in force.
        """
        entry, dictionaries = generation.entry, generation.dictionaries
        fields = tuple(generation.registry.paths)
        self._forget_texts(segments)
        try:
            pieces = {path: self._write_new_values(path, one) for path, one in dictionaries.items()}
            fault("manifest.write")
            settled = state()
            manifest = IndexManifest(
                format=FORMAT,
                number=entry.number,
                name=entry.name,
                revision=entry.revision,
                configuration=entry.configuration,
                next_record=next_record,
                next_file=self._next_file,
                txn_id=txn_id,
                fields=fields,
                segments=tuple(_entry(segment) for segment in segments),
                dictionaries=pieces,
                damaged=tuple(sorted(damaged)),
                settled=None if settled is None else _settled(*settled, self.bytes_on_disk()),
                texts=self._named_texts(),
            )
            write_manifest(self.folder / MANIFEST_FILE, manifest)
        except BaseException:
            self._release_new_pieces()
            raise
        fault("manifest.written")
        self._committed = manifest
        self._pieces = pieces
        self._epochs = {path: one.epoch for path, one in dictionaries.items()}
        self._remove_unnamed(segments)

    def covers(self, segments: Sequence[Segment], revision: int, txn_id: int) -> bool:
        """Return whether the manifest names just these segments, at the state of a transaction."""
        manifest = self._committed
        return (
            manifest is not None
            and manifest.settled is not None
            and manifest.settled.txn_id == txn_id
            and manifest.settled.meta_pages != ""
            and manifest.revision == revision
            and [one.file for one in manifest.segments]
            == [None if one.path is None else one.path.name for one in segments]
        )

    def discard(self, segments: Iterable[Segment]) -> None:
        """Remove files that no manifest named; their mappings stay valid until released."""
        for segment in segments:
            if segment.path is not None:
                segment.path.unlink(missing_ok=True)
                with self._lock:
                    self.reserved.discard(segment.path.name)

    def release(self, segments: Iterable[Segment]) -> None:
        """Release files that no manifest names or will name: the next commit removes them."""
        with self._lock:
            self.reserved -= {one.path.name for one in segments if one.path is not None}

    def _write_new_values(self, path: str, dictionary: FacetDictionary) -> DictionaryEntry:
        """Write the values of a dictionary that no piece has yet."""
        num_values = len(dictionary)
        entry = self._pieces.get(path)
        if entry is None or self._epochs.get(path) != dictionary.epoch:
            entry = DictionaryEntry(pieces=(), num_values=0)
        if entry.num_values == num_values:
            return entry
        if len(entry.pieces) >= PIECES_MAX:
            entry = DictionaryEntry(pieces=(), num_values=0)
        arrays = dictionary.to_arrays(entry.num_values, num_values)
        piece = self.write(Segment(arrays, num_docs=0), _PIECE)
        return DictionaryEntry(pieces=(*entry.pieces, _entry(piece)), num_values=num_values)

    def _release_new_pieces(self) -> None:
        """Release the pieces of a commit that failed: the next one writes these values again."""
        with self._lock:
            self.reserved -= {name for name in self.reserved if name.startswith(_PIECE)}

    def _forget_texts(self, segments: Sequence[Segment]) -> None:
        """Forget the text columns of segments that are gone."""
        names = {_entry(segment).file for segment in segments}
        with self._lock:
            for key in [key for key in self._texts if key[0] not in names]:
                self.reserved.discard(self._texts.pop(key).file)

    def _named_texts(self) -> tuple[TextsEntry, ...]:
        with self._lock:
            return tuple(TextsEntry(*key, entry) for key, entry in self._texts.items())

    def _remove_unnamed(self, segments: Sequence[Segment]) -> None:
        # First: a file that another thread begins from here on is reserved, but not among these.
        present = list(self.folder.iterdir())
        named = {segment.path.name for segment in segments if segment.path is not None}
        named.update(piece.file for entry in self._pieces.values() for piece in entry.pieces)
        with self._lock:
            named.update(column.file for column in self._texts.values())
            self.reserved -= named
            named |= self.reserved
        for path in present:
            if path.suffix == _SUFFIX and path.name not in named:
                path.unlink(missing_ok=True)

    def bytes_on_disk(self) -> int:
        """Return the size of everything in the folder."""
        return bytes_on_disk(self.folder)


def bytes_on_disk(folder: Path) -> int:
    """Return the size of everything in the folder of an index."""
    sizes = []
    for path in folder.iterdir():
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue  # removed meanwhile
        sizes.append(min(stat.st_size, stat.st_blocks * 512))
    return sum(sizes)


def _settled(meta: MetaPage, state: State, num_bytes: int) -> Settled:
    return Settled(meta.txn_id, state.seq_max, state.num_docs, num_bytes, meta.digest)


def _entry(segment: Segment) -> SegmentEntry:
    assert segment.path is not None
    return SegmentEntry(
        file=segment.path.name, checksum=segment.checksum, num_docs=segment.num_docs
    )
