"""Detects the format of a file: by its suffix, or by its first bytes."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from coordinator.cli.sources import delimited
from coordinator.cli.sources.opening_and_decompression import PEEK_BYTES, OpenedSource
from coordinator.cli.sources.source import SourceError
from coordinator.cli.sources.unsupported_formats import START_BYTES, unsupported_format

FORMATS: Final = ("csv", "tsv", "json", "ndjson", "parquet", "sqlite")
_BY_SUFFIX: Final = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
    ".ldjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db": "sqlite",
}

_ANY_TEXT: Final = ("", ".txt")
"""Suffixes of which a table of one column may be; after others it is more likely another format."""


def format_of(opened: OpenedSource) -> str:
    """Return the format indicated by the name or the first bytes."""
    by_name = _BY_SUFFIX.get(PurePosixPath(opened.file_name).suffix.lower())
    if by_name is not None and opened.file_name:
        return by_name
    with opened.open() as stream:
        start = stream.read(PEEK_BYTES)
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"SQLite format 3\0"):
        return "sqlite"
    if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[", b""):
        return "json"
    header = start.split(b"\n", 1)[0]
    if b"\t" in header:
        return "tsv"
    suffix = PurePosixPath(opened.file_name).suffix.lower()
    has_cells = any(delimiter.encode() in header for delimiter in delimited.DELIMITERS)
    if (
        suffix not in _ANY_TEXT
        and not has_cells
        and unsupported_format(start[:START_BYTES]) is None
    ):
        raise SourceError(
            f"{opened.name}: {suffix} is not a format that is read; they are {', '.join(FORMATS)}. "
            "If it is a table of one column, say --format csv"
        )
    return "csv"
