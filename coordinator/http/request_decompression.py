"""Decompression of request bodies (gzip, deflate, br), in bounded parts.

No chunk is ever decompressed beyond what is needed next, so a small bomb takes no memory.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import brotli

from common.errors import InvalidRequest, UnsupportedMediaType

INFLATED_CHUNK_BYTES: Final = 256 * 1024
"""How much of a compressed body to decompress at a time."""
COMPRESSED_PART_BYTES: Final = 16 * 1024
"""How much input the decoder gets at a time: each gzip member copies the input that follows it."""
GZIP_MEMBERS_MAX: Final = 1_000
GZIP_MEMBER_BYTES_MIN: Final = 256
"""A gzip body may have this many members, plus one per `GZIP_MEMBER_BYTES_MIN` bytes: even an empty
member costs some microseconds."""

_ENCODINGS: Final = frozenset(("gzip", "x-gzip", "deflate", "br"))


def inflater_of(encoding: str) -> Inflater | None:
    """Return the decompressor for a content encoding, in lower case; None: nothing is compressed.

    Raises:
        UnsupportedMediaType: there is none.
    """
    if encoding in ("", "identity"):
        return None
    if encoding not in _ENCODINGS:
        raise UnsupportedMediaType(
            f"content encoding {encoding[:40]!r} is not supported; use gzip, deflate or br"
        )
    return Inflater(encoding)


async def inflated(chunk: bytes, inflate: Inflater | None) -> AsyncIterator[bytes]:
    """Yield a chunk decompressed, in parts; yield to the event loop after each."""
    if inflate is None:
        yield chunk
        return
    for part in inflate.feed(chunk):
        yield part
        await asyncio.sleep(0)


class Inflater:
    """Decompresses a stream in bounded parts.

    `deflate` means zlib by the standard, but raw deflate for some clients; the first byte shows
    which.
    """

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._is_brotli = encoding == "br"
        self._stream: Any = None
        self._is_finished = False
        self._num_fed = 0
        self._num_members = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield a chunk decompressed, in parts of at most (roughly) `INFLATED_CHUNK_BYTES`.

        Raises:
            InvalidRequest: code invalid_encoding; the data is not what the header says, or a gzip
                stream has too many members.
        """
        feed = self._feed_brotli if self._is_brotli else self._feed_zlib
        try:
            for start in range(0, len(chunk), COMPRESSED_PART_BYTES):
                part = chunk[start : start + COMPRESSED_PART_BYTES]
                self._num_fed += len(part)
                yield from feed(part)
        except (zlib.error, brotli.error):
            raise InvalidRequest(
                f"the body is not a valid {self._encoding} stream", code="invalid_encoding"
            ) from None

    def finish(self) -> None:
        """Check that the stream is complete at the end of the body.

        Raises:
            InvalidRequest: the stream is truncated.
        """
        if self._stream is None:
            return
        is_whole = self._stream.is_finished() if self._is_brotli else self._is_finished
        if not is_whole:
            raise InvalidRequest(
                f"the body's {self._encoding} stream is cut off", code="invalid_encoding"
            )

    def _feed_brotli(self, chunk: bytes) -> Iterator[bytes]:
        if self._stream is None:
            self._stream = brotli.Decompressor()
        stream = self._stream
        part = stream.process(chunk, output_buffer_limit=INFLATED_CHUNK_BYTES)
        yield part
        # The decoder may accept more input while some output is still pending.
        while not stream.is_finished() and (part or not stream.can_accept_more_data()):
            part = stream.process(b"", output_buffer_limit=INFLATED_CHUNK_BYTES)
            yield part

    def _feed_zlib(self, chunk: bytes) -> Iterator[bytes]:
        if self._stream is None:
            self._stream = zlib.decompressobj(self._window_bits(chunk[0]))
        is_full = False
        # A full part may leave output pending although all input is consumed.
        while chunk or is_full:
            if self._is_finished:
                # A gzip file may consist of several streams (members), one after another.
                if self._encoding == "deflate":
                    raise zlib.error("data after the end")
                self._begin_member()
            stream = self._stream
            part = stream.decompress(chunk, INFLATED_CHUNK_BYTES)
            yield part
            self._is_finished = stream.eof
            chunk = stream.unused_data if stream.eof else stream.unconsumed_tail
            is_full = not stream.eof and len(part) == INFLATED_CHUNK_BYTES

    def _begin_member(self) -> None:
        """Start the next member of a gzip stream."""
        self._num_members += 1
        if self._num_members > GZIP_MEMBERS_MAX + self._num_fed // GZIP_MEMBER_BYTES_MIN:
            raise InvalidRequest(
                f"the body is a gzip stream of more than {GZIP_MEMBERS_MAX} members, most of them "
                f"of less than {GZIP_MEMBER_BYTES_MIN} bytes; compress it as one",
                code="invalid_encoding",
            )
        self._stream = zlib.decompressobj(31)
        self._is_finished = False

    def _window_bits(self, first_byte: int) -> int:
        """Return zlib's code for the expected wrapper: gzip 31, zlib 15, raw -15."""
        if self._encoding != "deflate":
            return 31
        return 15 if first_byte & 0x0F == 8 else -15
