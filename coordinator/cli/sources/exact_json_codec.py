"""Items as JSON, exactly: encoded, decoded, and in the pieces of lines that a load sends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

PIECE_BYTES: Final = 256 * 1024
_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")


def pieces_of(items: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield items, one per line, in pieces of about `PIECE_BYTES`."""
    piece = bytearray()
    for item in items:
        piece += encoded(item)
        piece += b"\n"
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def encoded(item: Mapping[str, Any]) -> bytes:
    """Return an item as JSON; the service refuses what must not be in it, and names its place."""
    try:
        return orjson.dumps(item)
    except TypeError:  # half a surrogate pair, or deeper than 254 levels
        return json.dumps(item).encode()


def decoded(text: bytes | bytearray) -> Any:
    """Decode JSON; integers stay exact, so that the service can refuse those it cannot store.

    Raises:
        ValueError: it is not JSON.
    """
    value = orjson.loads(text)
    # orjson rounds integers beyond 64 bits, which have at least 19 digits.
    if not _LONG_NUMBER.search(text):
        return value
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("values are nested too deep") from None
