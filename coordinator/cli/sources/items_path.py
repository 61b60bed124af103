"""Finds the array of items inside a JSON object, such as the response of another service.

    {"took": 3, "data": {"items": [{"id": 1}, {"id": 2}]}}     --items data.items
                                  ─────────────────────────

The text around the array is replaced by spaces, but line feeds stay, so errors of the service name
the line in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import orjson

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)|[{}\[\]:]', re.DOTALL)
"""A text, with its end unless that is in the next piece, or what stands between values."""
_BLANK: Final = bytes(byte if byte == ord("\n") else ord(" ") for byte in range(256))
_OBJECT_FOLLOWS: Final = re.compile(rb"\s*\{").match
_NAMES_MAX: Final = 10


class _Members:
    """The names of the members that enclose a place of JSON text; None for an array."""

    def __init__(self) -> None:
        self._names: list[str | None] = []
        self._text = b""

    @property
    def path(self) -> str | None:
        """The names, as the user writes them; None outside of objects, and within arrays."""
        if not self._names or None in self._names:
            return None
        return ".".join(name for name in self._names if name is not None)

    def read(self, token: bytes) -> None:
        """Go on after a token."""
        if token in (b"{", b"["):
            self._names.append("" if token == b"{" else None)
        elif token in (b"}", b"]"):
            del self._names[-1:]
        elif token != b":":
            self._text = token
        elif self._names:
            self._names[-1] = _decoded(self._text)


def _decoded(text: bytes) -> str:
    try:
        return str(orjson.loads(text))
    except orjson.JSONDecodeError:
        return ""


def inner_arrays(start: bytes) -> list[str]:
    """Return the paths of the first members that are arrays of objects, in the start of JSON."""
    found: dict[str, None] = {}
    members = _Members()
    for token in _TOKEN.finditer(start):
        if token[0] == b"[" and (path := members.path) and _OBJECT_FOLLOWS(start, token.end()):
            found[path] = None
            if len(found) == _NAMES_MAX:
                break
        members.read(token[0])
    return list(found)


def only_array(pieces: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Yield JSON text with nothing but the array at a path; nothing of it if there is none.

    Args:
        pieces: of the text; each may end anywhere.
        path: the names of the members that enclose the array, joined by dots.
    """
    members = _Members()
    text = b""
    depth = 0  # of arrays, once the one at the path has begun
    is_over = False
    for piece in pieces:
        text += piece
        done, end = 0, len(text)
        parts: list[bytes] = []
        for token in () if is_over else _TOKEN.finditer(text):
            if text[token.start()] == ord('"') and token[1] != b'"':
                end = token.start()
                break
            if depth:
                depth += (token[0] == b"[") - (token[0] == b"]")
                if not depth:
                    parts.append(text[done : token.end()])
                    done, is_over = token.end(), True
                    break
            elif token[0] == b"[" and members.path == path:
                parts.append(text[done : token.start()].translate(_BLANK))
                done, depth = token.start(), 1
            else:
                members.read(token[0])
        rest = text[done:end]
        yield b"".join((*parts, rest if depth else rest.translate(_BLANK)))
        text = text[end:]
    yield text if depth else text.translate(_BLANK)
