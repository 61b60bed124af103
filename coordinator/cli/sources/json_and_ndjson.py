"""JSON and NDJSON: as UTF-8, objects on one line each; values, where ids or points are made."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, BinaryIO

from coordinator.cli.sources.encodings import UTF_16_MARKS, checked_encoding
from coordinator.cli.sources.exact_json_codec import decoded, encoded
from coordinator.cli.sources.items_path import inner_arrays, only_array
from coordinator.cli.sources.json_object_splitting import (
    are_spread,
    divide_objects,
    edit_objects,
    first_objects,
    on_one_line,
    value_at,
)
from coordinator.cli.sources.opening_and_decompression import (
    BROKEN,
    PEEK_BYTES,
    READ_BYTES,
    OpenedSource,
)
from coordinator.cli.sources.source import ReadOptions, Source, SourceError, shown


def read(opened: OpenedSource, options: ReadOptions) -> Source:
    """Return JSON as UTF-8, objects on one line each; the rest is for the service to validate."""
    id_field = options.id_field
    encoding = checked_encoding(options.encoding)

    def read_text() -> Iterator[bytes]:
        with opened.open_once() as stream:
            yield from _as_utf8(stream, encoding, opened.name)

    texts = read_text()
    start = next(texts, b"")
    peeked = start.removeprefix(codecs.BOM_UTF8)[:PEEK_BYTES]
    arrays = inner_arrays(peeked)
    path = options.items_path
    if path is not None:
        peeked = b"".join(only_array([peeked], path))

    def pieces() -> Iterator[bytes]:
        pieces = _until_broken(chain([start], texts), opened.name)
        if path is not None:
            return _array_of(pieces, path, arrays, opened.name)
        return edit_objects(pieces, on_one_line) if are_spread(peeked) else pieces

    source = Source(
        opened.name,
        pieces,
        sample=first_objects(peeked),
        inner_arrays=arrays,
        starts_blank=not peeked.strip(),
    )
    if id_field is None:
        return source
    return replace(source, pieces=lambda: _with_ids(source.pieces(), id_field, opened.name))


def _until_broken(pieces: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield pieces of a stream that may turn out to be cut off.

    Raises:
        SourceError: it is.
    """
    try:
        yield from pieces
    except BROKEN as error:
        raise SourceError(f"{name} is cut off or damaged: {error}") from error


def _array_of(pieces: Iterator[bytes], path: str, arrays: list[str], name: str) -> Iterator[bytes]:
    """Yield JSON text with nothing but one of its arrays.

    Raises:
        SourceError: there is none at the path.
    """
    is_empty = True
    for piece in only_array(pieces, path):
        is_empty = is_empty and (not piece or piece.isspace())
        yield piece
    if is_empty:
        found = f"; it has {', '.join(arrays)}" if arrays else ""
        raise SourceError(f"--items: {name} has no array {path!r}{found}")


def _as_utf8(stream: BinaryIO, encoding: str | None, name: str) -> Iterator[bytes]:
    """Yield the bytes of a text, as UTF-8 if they are in another encoding.

    Args:
        stream: the text.
        encoding: of it; None: as its byte order mark says, else UTF-8.
        name: of the source, for errors.

    Raises:
        SourceError: it is not in that encoding.
    """
    piece = stream.read(READ_BYTES)
    if encoding is None and piece.startswith(UTF_16_MARKS):
        encoding = "utf-16"
    decoder = None if encoding is None else codecs.getincrementaldecoder(encoding)()
    while piece:
        if decoder is None:
            yield piece
        else:
            try:
                yield decoder.decode(piece).encode()
            except UnicodeError as error:
                raise SourceError(
                    f"{name} is not {encoding}; name its encoding, for example --encoding cp1252"
                ) from error
        piece = stream.read(READ_BYTES)
    if decoder is not None:
        try:
            yield decoder.decode(b"", final=True).encode()
        except UnicodeError as error:
            raise SourceError(f"{name} is cut off: its last character is not whole") from error


def _with_ids(pieces: Iterator[bytes], id_field: str, name: str) -> Iterator[bytes]:
    """Yield items with the value of a field as their id, one per line.

    The field may be one of an object: MongoDB exports {"_id": {"$oid": "…"}}.
    """
    for place, item in parsed_items(pieces, name):
        value = value_at(item, id_field) if isinstance(item, dict) else None
        if value is None or isinstance(value, (bool, float, list, dict)):
            raise SourceError(f"{place}: {id_field!r} must hold an integer or a text to be the id")
        with_id = {"id": value, **{k: v for k, v in item.items() if k != "id"}}
        yield encoded(with_id) + b"\n"


def parsed_items(pieces: Iterator[bytes], name: str) -> Iterator[tuple[str, Any]]:
    """Yield the place and value of each item of an array, or of JSON with one item per line.

    Args:
        pieces: of the text.
        name: of the source, for places and errors.

    Raises:
        SourceError: it is not JSON, or an array of something else than objects.
    """
    start = b""
    for piece in pieces:
        start = (start + piece).removeprefix(codecs.BOM_UTF8)
        if start.strip() and not codecs.BOM_UTF8.startswith(start):
            break
    read = _items_of_array if start.lstrip().startswith(b"[") else _items_of_lines
    return read(chain([start], pieces), name)


def placed_items(source: Source) -> Iterator[tuple[str, Any]]:
    """Yield the place and value of each item of a source; of a table, where its row is.

    Raises:
        SourceError: as `parsed_items`.
    """
    for number, (place, item) in enumerate(parsed_items(source.pieces(), source.name), 1):
        is_row = bool(source.columns)
        yield f"{source.name}, {source.place_of(number)}" if is_row else place, item


def _items_of_lines(pieces: Iterator[bytes], name: str) -> Iterator[tuple[str, Any]]:
    rest = b""
    number = 0
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            number += 1
            if line.strip():
                yield _parsed(line, f"{name}, line {number}")
    if rest.strip():
        yield _parsed(rest, f"{name}, line {number + 1}")


def _items_of_array(pieces: Iterator[bytes], name: str) -> Iterator[tuple[str, Any]]:
    """Yield the objects of an array, of which one at a time is in memory."""
    number = 0
    gap = b""
    for *parts, rest in divide_objects(pieces):
        for before, text in zip(parts[::2], parts[1::2], strict=True):
            _check_gap(gap + before, b"," if number else b"[", number, name)
            yield _parsed(text, f"{name}, item {number}")
            number += 1
            gap = b""
        gap += b"".join(rest.split())
        if len(gap) > len(b"[]"):
            break  # it is none, however it goes on
    _check_gap(gap, b"]" if number else b"[]", number, name)


def _check_gap(text: bytes, wanted: bytes, number: int, name: str) -> None:
    """Raise unless the text before an object of an array, or after the last one, is as in JSON."""
    if b"".join(text.split()) != wanted:
        where = f"after item {number - 1}" if number else "at its start"
        found = shown(text.decode(errors="replace"))
        raise SourceError(
            f"{name} is not a JSON array of objects: {where}, expected {wanted.decode()!r}, found "
            f"{found!r}"
        )


def _parsed(text: bytes, place: str) -> tuple[str, Any]:
    try:
        return place, decoded(text)
    except ValueError as error:
        raise SourceError(f"{place}: {error}") from error
