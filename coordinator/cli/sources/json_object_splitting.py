"""The objects of JSON text that is read in pieces: of its lines, or of its one array.

Bytes between them pass unchanged, as do objects that are invalid JSON: so the service refuses them
by the lines and positions of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import orjson

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)|[{}]', re.DOTALL)
"""A text, with its end unless that is in the next piece, or a brace outside of texts."""


def edit_objects(pieces: Iterable[bytes], edit: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """Yield JSON text with each outermost object replaced.

    Args:
        pieces: of the text; each may end anywhere.
        edit: returns what takes an object's place.
    """
    for parts in divide_objects(pieces):
        parts[1::2] = map(edit, parts[1::2])
        yield b"".join(parts)


def divide_objects(pieces: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield JSON text in lists of parts, of which every second one is an outermost object.

    Args:
        pieces: of the text; each may end anywhere.
    """
    text = b""
    place = depth = 0  # up to which the text is read; how many objects are open there
    for piece in pieces:
        text += piece
        parts: list[bytes] = []
        num_done = begin = 0
        for token in _TOKEN.finditer(text, place):
            place = token.end()
            first = text[token.start()]
            if first == ord("{"):
                begin = begin if depth else token.start()
                depth += 1
            elif first == ord("}"):
                depth -= 1
                if depth == 0:
                    parts += (text[num_done:begin], text[begin:place])
                    num_done = place
                depth = max(depth, 0)
            elif token[1] != b'"':
                place = token.start()
                break
        else:
            place = len(text)
        kept = begin if depth else place
        yield [*parts, text[num_done:kept]]
        text, place = text[kept:], place - kept
    yield [text]


def on_one_line(text: bytes) -> bytes:
    """Return an object on one line, and line feeds as many as it had.

    So other lines keep their numbers. What is invalid stays as it is, for the service to refuse.
    """
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    # JSON has no line break within a text.
    return text.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n" * text.count(b"\n")


def are_spread(start: bytes) -> bool:
    """Return whether objects of JSON text are spread over lines, as `jq` and people write them."""
    first_line = start.lstrip().split(b"\n", 1)[0]
    is_array = first_line.startswith(b"[")
    return not is_array and not first_objects(first_line) and bool(first_objects(start))


def first_objects(start: bytes) -> list[dict[str, Any]]:
    """Return the objects that are whole in the start of JSON text."""
    found: list[dict[str, Any]] = []

    def note(text: bytes) -> bytes:
        with suppress(orjson.JSONDecodeError):  # the service will say what is wrong with it
            found.append(orjson.loads(text))
        return text

    for _ in edit_objects([start], note):
        pass
    return found


def value_at(value: Any, field: str) -> Any:
    """Return the value of a field, which may be one of an object or list: "place.lat"."""
    if isinstance(value, list):
        return value[int(field)] if field.isdecimal() and int(field) < len(value) else None
    if not isinstance(value, dict):
        return None
    name, dot, inner = field.partition(".")
    return value.get(field) if field in value or not dot else value_at(value.get(name), inner)
