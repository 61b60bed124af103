"""The file of the catalog: a whole state, then a line for each change since.

    DATA/catalog.json   {"checksum": "…", "state": {"format": 1, "revision": 17, "next_number": 4,
                          "indexes": [{"number": 3, "name": "films", "revision": 16,
                                       "configuration": {…as posted…}}],
                          "aliases": {"movies": "films"},
                          "sections": {"keys": {…}}}}
                        {"checksum": "…", "change": {"base": 17, "revision": 18, …}}
                        …

With 10,000 indexes a state takes three megabytes, and a change of one of them a line of 0.3 KB: a
line is appended and synced. When the lines take as much room as the state, all of it is replaced by
one whole state, atomically; so the cost of a change does not grow with the number of indexes.

A crash may leave the last line in part: cut, or with zeros where a sector was not written. It was
not acknowledged and is ignored, and the next change replaces the file. Any other line that fails
its checksum is damage, which is refused: a catalog that lacks an index would make the shards remove
it. (JSON has neither zeros nor ends of lines in itself.)
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import xxhash
from msgspec import Struct

from common import data_directory
from common.chunked_file_io import write_all
from common.data_directory import DataDirectoryError
from common.decode_errors import UNDECODABLE
from common.durable_files import sync_file, sync_folder, write_again, write_atomically
from coordinator.catalog.catalog_difference import StateChange
from coordinator.catalog.catalog_state import CATALOG_FORMAT, CatalogState

LINES_BYTES_MIN: Final = 64 << 10
"""Changes may take this many bytes, however small the state is."""


class CatalogInDoubt(Exception):
    """After a failed change, the next process may find either state."""


class CatalogFile:
    """The catalog file of a process that owns the data directory.

    Args:
        path: of the file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._num_bytes = 0
        """Length of the part of the file known to be intact; 0: the next change replaces the
        file."""
        self._num_bytes_max = 0

    def open(self) -> CatalogState:
        """Return the state, which is on disk then: a killed process may have left it in memory.

        Raises:
            DataDirectoryError: it is damaged or was written by a newer program.
            FileNotFoundError: it does not exist.
        """
        content = self._path.read_bytes()
        last = content.rfind(b"\n", 0, -1) + 1  # each line is synced before the next one is begun
        write_again(self._path, [(last, len(content) - last)])
        sync_folder(self._path.parent)
        read = _read(self._path)
        if not read.is_cut:
            self._note(read.num_bytes, read.num_bytes_whole)
        return read.state

    def replace(self, state: CatalogState) -> None:
        """Store a whole state, whatever the file has.

        Raises:
            OSError: no room, or the device failed.
        """
        content = whole(state)
        self._num_bytes = 0
        write_atomically(self._path, content, mode=0o600)
        self._note(len(content), len(content))

    def store(self, former: CatalogState, state: CatalogState) -> None:
        """Store the change from one state, which the file has, to another.

        Raises:
            OSError: no room, or the device failed; the file has the former state.
            CatalogInDoubt: the device kept failing; the file may have either state.
        """
        change = StateChange.between(former, state)
        line = b"" if change is None else _line("change", change)
        try:
            if 0 < len(line) <= self._num_bytes_max - self._num_bytes and self._num_bytes:
                self._append(line)
            else:
                self.replace(state)
        except OSError as error:
            if self._num_bytes:  # it could not be opened: nothing was written
                raise
            try:
                self._make_sure_of(former)
            except (OSError, DataDirectoryError) as doubt:
                raise CatalogInDoubt(f"{error}; then {doubt}") from error
            raise

    def _make_sure_of(self, former: CatalogState) -> None:
        """Leave the former state on disk, although the new one may have got there.

        A sync may fail when all is written, and a new file may have its name already.
        """
        if read_state(self._path).revision == former.revision:
            with contextlib.suppress(OSError):
                sync_file(self._path)
                sync_folder(self._path.parent)
                return
        self.replace(former)

    def _note(self, num_bytes: int, num_bytes_whole: int) -> None:
        self._num_bytes = num_bytes
        self._num_bytes_max = 2 * num_bytes_whole + LINES_BYTES_MIN

    def _append(self, line: bytes) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        num_bytes, self._num_bytes = self._num_bytes, 0
        try:
            try:
                os.lseek(file, num_bytes, os.SEEK_SET)
                write_all(file, memoryview(line))
                os.fdatasync(file)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(file, num_bytes)
                raise
        finally:
            os.close(file)
        self._num_bytes = num_bytes + len(line)


def whole(state: CatalogState) -> bytes:
    """Return the content of a file that has a state and no changes."""
    return _line("state", state)


def _line(kind: str, value: Struct) -> bytes:
    content = msgspec.json.encode(value)
    checksum = xxhash.xxh3_64_hexdigest(content)
    return b'{"checksum":"%b","%b":%b}\n' % (checksum.encode(), kind.encode(), content)


# --- reading


class _Line(Struct):
    """A line of the file; it has one of the two others."""

    checksum: str
    state: msgspec.Raw = msgspec.Raw()
    change: msgspec.Raw = msgspec.Raw()


class _Format(Struct):
    """The part of a state that is read first."""

    format: int


class _Read(NamedTuple):
    """The content of a catalog file."""

    state: CatalogState
    is_cut: bool
    """Whether its last line is there in part."""
    num_bytes: int
    num_bytes_whole: int
    """Of the first line."""


class _Damaged(Exception):
    """A line does not match its checksum."""


def read_state(path: Path) -> CatalogState:
    """Read a catalog file, which another process may be writing.

    Raises:
        DataDirectoryError: it is damaged or was written by a newer program.
        FileNotFoundError: it does not exist.
    """
    return _read(path).state


def holds_data(data: Path) -> bool:
    """Return whether a data directory has data: a service's, or a key made before its first start.

    Raises:
        DataDirectoryError: manifest or catalog are damaged, or were written by a newer program.
    """
    if data_directory.read_manifest(data) is not None:
        return True
    with contextlib.suppress(FileNotFoundError):
        return read_state(data_directory.catalog_path(data)).revision > 0
    return False


def _read(path: Path) -> _Read:
    content = path.read_bytes()
    first, *lines = content.split(b"\n")
    last = lines.pop() if lines else b""
    is_cut = last != b""
    if not is_cut and lines and _has_unwritten(lines[-1]):
        is_cut = True
        lines.pop()
    try:
        raw = _checked(first, "state")
        state_format = msgspec.json.decode(raw, type=_Format).format
        if state_format > CATALOG_FORMAT:
            raise DataDirectoryError(
                f"{path} has format {state_format}, this program reads up to {CATALOG_FORMAT}; "
                "install a newer version"
            )
        state = msgspec.json.decode(raw, type=CatalogState)
        for line in lines:
            state = _changed(state, line)
    except (_Damaged, *UNDECODABLE) as error:
        raise DataDirectoryError(
            f"{path} is damaged ({error}); restore it from a backup"
        ) from error
    for line in (last, last[:-1]) if last else ():  # only its end may be missing, or damaged
        try:
            state = _changed(state, line)
            break
        except (_Damaged, *UNDECODABLE):
            continue
    return _Read(state, is_cut, len(content), len(first) + 1)


def _has_unwritten(line: bytes) -> bool:
    """Whether a sector of a line was not written; a single zero may be a damaged byte."""
    return line.startswith(b"\0") or b"\0\0" in line


def _changed(state: CatalogState, line: bytes) -> CatalogState:
    change = msgspec.json.decode(_checked(line, "change"), type=StateChange)
    if change.base != state.revision:
        raise _Damaged(f"a change of revision {change.base} follows revision {state.revision}")
    return change.applied(state)


def _checked(line: bytes, kind: str) -> Any:
    """Return the content of a line."""
    parsed = msgspec.json.decode(line, type=_Line)
    content = bytes(getattr(parsed, kind))
    if xxhash.xxh3_64_hexdigest(content) != parsed.checksum:
        raise _Damaged("its checksum differs")
    return content
