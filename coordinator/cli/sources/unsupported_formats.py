"""Files that are not tables of text, known by their first bytes, and what to do instead (pure)."""

from __future__ import annotations

import re
from typing import Final

START_BYTES: Final = 512
"""How much of a file is looked at; the mark of a tar archive stands at byte 257."""
_TAR_MARK: Final = slice(257, 262)
_WEB_PAGE: Final = re.compile(rb"(\xef\xbb\xbf)?\s*(<!doctype html|<html)", re.IGNORECASE)
_XML: Final = re.compile(rb"(\xef\xbb\xbf)?\s*<(\?xml|!--)", re.IGNORECASE)

_ARCHIVE: Final = "unpack the file"
_MARKS: Final = (
    (
        (b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
        "an Excel workbook or a ZIP file",
        f"save the sheet as CSV (UTF-8), or {_ARCHIVE}",
    ),
    ((b"BZh",), "compressed by bzip2", f"{_ARCHIVE} (bzcat), or compress it by gzip or zstd"),
    ((b"\xfd7zXZ\0",), "compressed by xz", f"{_ARCHIVE} (xzcat), or compress it by gzip or zstd"),
    ((b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07"), "an archive", _ARCHIVE),
    ((b"%PDF-",), "a PDF", "take the data from where its table was made"),
)


def unsupported_format(start: bytes) -> str | None:
    """Say what a file is, and what to do, if it is not a table of text; None if it may be one.

    Args:
        start: its first `START_BYTES`.
    """
    for marks, what, advice in _MARKS:
        if start.startswith(marks):
            return f"is {what}, not text; {advice}"
    if start[_TAR_MARK] == b"ustar" or (len(start) == START_BYTES and not start.strip(b"\0")):
        return f"is a tar archive, not text; {_ARCHIVE}"
    if _WEB_PAGE.match(start):
        return "is a web page, not a table; name the file that the page offers"
    if _XML.match(start):
        return "is XML, which is not read; convert it to JSON or CSV"
    return None
