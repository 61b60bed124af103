"""Opens a file, a URL or stdin; decompresses by the first bytes, which must be what the name says.

    -                          stdin, or a pipe by its name (<(zcat books.csv.gz))
    https://host/books.csv.gz  fetched
    books.json.zst             read

Formats that are read twice (first to find the types) are opened twice; a source that can be read
only once is copied to a temporary file.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import stat
import sys
import tempfile
import weakref
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Final, cast
from urllib.parse import unquote

import brotli
import zstandard

from common.disk_errors import remedy_of
from coordinator.cli.sources.source import SourceError
from coordinator.cli.sources.url_fetching import is_url, open_url, split_url

_GZIP: Final = b"\x1f\x8b"
_ZSTANDARD: Final = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", re.DOTALL).match
"""A frame, or one that is skipped, as pzstd writes."""
_MARKED_SUFFIXES: Final = (".gz", ".zst", ".zstd")
_SUFFIXES: Final = (*_MARKED_SUFFIXES, ".br")
PEEK_BYTES: Final = 64 * 1024
READ_BYTES: Final = 256 * 1024
BROKEN: Final = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError, brotli.error)
"""Errors raised by reading a truncated or malformed compressed stream."""


class OpenedSource:
    """A source that can be read from its beginning, more than once.

    Attributes:
        name: as the user gave it; "stdin" for -.
        file_name: without folders and compression suffix.
    """

    def __init__(self, name: str) -> None:
        self.name = "stdin" if name == "-" else name
        self._is_stdin = name == "-"
        path = unquote(split_url(name).path) if is_url(name) else name
        self.file_name = PurePosixPath(path).name if name != "-" else ""
        for suffix in _SUFFIXES:
            self.file_name = self.file_name.removesuffix(suffix)
        self._is_brotli = path.endswith(".br")
        self._is_marked = path.endswith(_MARKED_SUFFIXES)
        self._temporary: IO[bytes] | None = None
        self._unpacked_path: Path | None = None

    def open(self) -> BinaryIO:
        """Return the decompressed bytes, from the beginning.

        Raises:
            SourceError: it does not exist, cannot be fetched, or is not compressed although its
                name says so.
        """
        if self._temporary is not None:
            self._temporary.seek(0)
            return self._decompressed(cast(BinaryIO, self._temporary))
        if self._is_stdin:
            return self._decompressed(self._keep(sys.stdin.buffer))
        if is_url(self.name):
            return self._decompressed(self._keep(open_url(self.name)))
        try:
            file = Path(self.name).open("rb")  # noqa: SIM115 - the caller closes it
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return self._decompressed(file)
            with file:  # a pipe, which cannot be opened a second time
                return self._decompressed(self._keep(file))
        except OSError as error:
            if "://" in self.name:
                raise SourceError(
                    f"cannot read {self.name}: addresses begin with http:// or https://, databases "
                    "with postgres:// or mysql://"
                ) from error
            advice = ""
            if isinstance(error, IsADirectoryError):
                advice = "; name the files in it"
            elif isinstance(error, PermissionError):
                advice = f"; {remedy_of(error)}"
            raise SourceError(f"cannot read {self.name}: {error.strerror}{advice}") from error

    def open_once(self) -> BinaryIO:
        """Return the decompressed bytes, for a single reading."""
        if self._temporary is None and self._is_stdin:
            return self._decompressed(sys.stdin.buffer)
        if self._temporary is None and is_url(self.name):
            return self._decompressed(open_url(self.name))
        return self.open()

    def plain_path(self) -> Path:
        """Return a file with the decompressed bytes, for libraries that read files.

        It may be temporary; then it is deleted along with this object.
        """
        if self._unpacked_path is not None:
            return self._unpacked_path
        with self.open() as stream:
            is_file = isinstance(stream, io.BufferedReader) and isinstance(stream.raw, io.FileIO)
            return (
                Path(self.name) if is_file and self._temporary is None else self._unpacked(stream)
            )

    def _unpacked(self, stream: BinaryIO) -> Path:
        """Copy to a named temporary file that lives as long as this object."""
        unpacked = tempfile.NamedTemporaryFile()  # noqa: SIM115 - lives as we do
        weakref.finalize(self, unpacked.close)
        shutil.copyfileobj(stream, unpacked, READ_BYTES)
        unpacked.flush()
        self._unpacked_path = Path(unpacked.name)
        return self._unpacked_path

    def _keep(self, stream: BinaryIO) -> BinaryIO:
        """Copy a stream that can be read only once to a temporary file; return that."""
        self._temporary = tempfile.TemporaryFile()  # noqa: SIM115 - lives as we do
        weakref.finalize(self, self._temporary.close)
        shutil.copyfileobj(stream, self._temporary, READ_BYTES)
        self._temporary.seek(0)
        return cast(BinaryIO, self._temporary)

    def _decompressed(self, stream: BinaryIO) -> BinaryIO:
        """Return the decompressed content of a stream."""
        buffered = _unclosed(stream) if stream is self._temporary else stream
        if not isinstance(buffered, io.BufferedReader):
            buffered = io.BufferedReader(cast(io.RawIOBase, buffered), PEEK_BYTES)
        start = buffered.peek(4)[:4]
        raw: Any
        if start[:2] == _GZIP:
            raw = gzip.GzipFile(fileobj=buffered)
        elif _ZSTANDARD(start):
            raw = _Zstandard(buffered)
        elif self._is_brotli:
            raw = _Brotli(buffered)
        elif self._is_marked:
            buffered.close()
            raise SourceError(
                f"{self.name} is not compressed, although its name says so; plain text is read "
                "under another name, or from stdin (-)"
            )
        else:
            return buffered
        return _Decompressed(raw, buffered)


class _Decompressed(io.BufferedReader):
    """Decompressed bytes; closes the underlying stream as well."""

    def __init__(self, raw: Any, compressed: BinaryIO) -> None:
        super().__init__(raw, PEEK_BYTES)
        self._compressed = compressed

    def close(self) -> None:
        super().close()
        self._compressed.close()


class _Unclosed(io.RawIOBase):
    """A stream that stays open when its reader is closed."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._stream.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


def _unclosed(stream: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, _Unclosed(stream))


class _Inflated(io.RawIOBase):
    """A compressed stream, read piece by piece; it must end where its format says.

    zstandard's own reader mistakes a truncated file for a shorter one.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            piece = self._stream.read(READ_BYTES)
            if not piece:
                if not self.is_complete():
                    raise EOFError("the compressed stream ends too early")
                return 0
            self._ready = memoryview(self.inflate(piece))  # cutting bytes would copy the rest
        taken = self._ready[: len(buffer)]
        buffer[: len(taken)] = taken
        self._ready = self._ready[len(taken) :]
        return len(taken)

    def inflate(self, piece: bytes) -> bytes:
        """Decompress the next bytes."""
        raise NotImplementedError

    def is_complete(self) -> bool:
        """Return whether the stream may end here."""
        raise NotImplementedError


class _Brotli(_Inflated):
    """A brotli stream."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream)
        self._decompressor = brotli.Decompressor()

    def inflate(self, piece: bytes) -> bytes:
        return bytes(self._decompressor.process(piece))

    def is_complete(self) -> bool:
        return bool(self._decompressor.is_finished())


class _Zstandard(_Inflated):
    """Zstandard frames, one after another."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream)
        self._frame: Any = None

    def inflate(self, piece: bytes) -> bytes:
        found = []
        while piece:
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            found.append(self._frame.decompress(piece))
            piece = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = None
        return b"".join(found)

    def is_complete(self) -> bool:
        return self._frame is None
