"""Encodings of text files: as the user named it, else by the first bytes."""

from __future__ import annotations

import codecs
from typing import Final

from coordinator.cli.sources.source import SourceError

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
