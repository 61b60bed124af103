"""Encodings of text files: as the user named it, else by the first bytes."""

from __future__ import annotations

import codecs
import io
from typing import BinaryIO, Final

from coordinator.cli.sources.source import SourceError

_PIECE_BYTES: Final = 64 * 1024
UTF_16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def checked_encoding(name: str | None) -> str | None:
    """Return the encoding that the user named; UTF-8 may begin with a byte order mark.

    Raises:
        SourceError: there is no such encoding of text.
    """
    if name is None:
        return None
    try:
        "".encode(name)
        b"a".decode(name, "replace")
        codec = codecs.lookup(name).name
    except (LookupError, ValueError) as error:
        raise SourceError(
            f"--encoding: {name!r} is not an encoding of text; there are utf-8, utf-16, latin-1, "
            "cp1252, shift_jis and all others that Python knows"
        ) from error
    return "utf-8-sig" if codec == "utf-8" else name


def marked_encoding(start: bytes) -> str:
    """Return the encoding that the start of a text says: a byte order mark, or every other zero."""
    if start.startswith(UTF_16_MARKS):
        return "utf-16"
    for name, first in (("utf-16-le", 1), ("utf-16-be", 0)):
        zeros = start[first::2]
        if len(start) > 1 and zeros.count(0) > 0.9 * len(zeros):
            return name
    return "utf-8-sig" if start.startswith(codecs.BOM_UTF8) else "utf-8"


def first_wrong_line(stream: BinaryIO, encoding: str) -> int:
    """Return the first line (from 1) of a text that is not in an encoding; the last, if all are."""
    inner = codecs.getincrementaldecoder(encoding)()
    decoder = io.IncrementalNewlineDecoder(inner, translate=True)
    line = 1
    while piece := stream.read(_PIECE_BYTES):
        state = decoder.getstate()
        try:
            line += decoder.decode(piece).count("\n")
        except UnicodeError:
            decoder.setstate(state)
            return line + _num_lines_of_good_bytes(decoder, piece)
    return line


def _num_lines_of_good_bytes(decoder: io.IncrementalNewlineDecoder, piece: bytes) -> int:
    """Return how many lines end in a piece before its first wrong byte."""
    num_lines = 0
    for place in range(len(piece)):
        try:
            num_lines += decoder.decode(piece[place : place + 1]).count("\n")
        except UnicodeError:
            break
    return num_lines
