"""Detects the format of a source: by option, by file name suffix, or by its first bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

import orjson

from coordinator.cli.sources import databases, delimited, parquet
from coordinator.cli.sources.opening import BROKEN, PEEK_BYTES, READ_BYTES, Opened
from coordinator.cli.sources.source import ReadOptions, Source, SourceError

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


def read(name: str, options: ReadOptions) -> Source:
    """Open the source that the user named.

    Raises:
        SourceError: it cannot be read; says what would be valid.
    """
    if databases.is_database(name):
        return databases.read(name, options)
    opened = Opened(name)
    try:
        return _read_file(opened, options)
    except BROKEN as error:
        raise SourceError(f"{opened.name} is cut off or damaged: {error}") from error


def _read_file(opened: Opened, options: ReadOptions) -> Source:
    """Open a file, a URL or stdin."""
    name = opened.name
    style = options.style or _format_of(opened)
    if style != "sqlite" and (options.query or options.table):
        raise SourceError(f"--query and --table are for databases; {name} is {style.upper()}")
    if style in ("csv", "tsv"):
        if style == "tsv" and options.delimiter is None:
            options = replace(options, delimiter="\t")
        return delimited.read(opened, options)
    if options.kinds or options.separators:
        raise SourceError("--type and --split are for CSV and TSV; other formats have types")
    if style == "parquet":
        return parquet.read(opened, options)
    if style == "sqlite":
        source = databases.read_sqlite(str(opened.plain_path()), options)
        return replace(source, name=opened.name, opened=opened)
    return _json(opened, options)


def _format_of(opened: Opened) -> str:
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
    return "tsv" if b"\t" in start.split(b"\n", 1)[0] else "csv"


def _json(opened: Opened, options: ReadOptions) -> Source:
    """Return JSON unchanged; the service validates it."""
    id_field = options.id_field

    def pieces() -> Iterator[bytes]:
        try:
            with opened.open_once() as stream:
                while piece := stream.read(READ_BYTES):
                    yield piece
        except BROKEN as error:
            raise SourceError(f"{opened.name} is cut off or damaged: {error}") from error

    if id_field is None:
        return Source(opened.name, pieces)
    return Source(opened.name, lambda: _with_ids(pieces(), id_field, opened.name))


def _with_ids(pieces: Iterator[bytes], id_field: str, name: str) -> Iterator[bytes]:
    """Yield items with the value of a field as their id, one per line."""
    rest = b""
    number = 0
    is_array: bool | None = None
    for piece in pieces:
        rest += piece
        if is_array is None and rest.strip():
            is_array = rest.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        if is_array:
            continue  # an array is a single value: wait until it is complete
        *lines, rest = rest.split(b"\n")
        for line in lines:
            number += 1
            if line.strip():
                yield _with_id(line, id_field, f"{name}, line {number}")
    if is_array:
        try:
            items = orjson.loads(rest)
        except orjson.JSONDecodeError as error:
            raise SourceError(f"{name} is no JSON: {error}") from error
        for position, item in enumerate(items):
            yield _with_id(orjson.dumps(item), id_field, f"{name}, item {position}")
    elif rest.strip():
        yield _with_id(rest, id_field, f"{name}, line {number + 1}")


def _with_id(line: bytes, id_field: str, place: str) -> bytes:
    """Return an item with the value of a field as its id."""
    try:
        item = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise SourceError(f"{place}: {error}") from error
    value = item.get(id_field) if isinstance(item, dict) else None
    if value is None or isinstance(value, (bool, float, list, dict)):
        raise SourceError(f"{place}: {id_field!r} must hold an integer or a text to be the id")
    return orjson.dumps({"id": value, **{k: v for k, v in item.items() if k != "id"}}) + b"\n"
