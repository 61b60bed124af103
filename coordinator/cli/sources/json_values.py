"""JSON values from text that comes in pieces, with one value and one piece in memory at a time."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

VALUE_CHARS_MAX: Final = 32 << 20
"""Of one value: more text that is not JSON is not read on in the hope that it becomes some."""
_SPACE: Final = " \t\r\n"


def read_values(pieces: Iterable[bytes]) -> Iterator[Any]:
    """Yield the values of arrays, and those that follow one another without an array.

    Args:
        pieces: of UTF-8, cut anywhere.

    Raises:
        ValueError: they are not JSON; the message says after how many values.
    """
    text = _Text(pieces)
    num_values = 0
    try:
        while first := text.next_char():
            for value in _values_of_array(text) if first == "[" else (text.take_value(),):
                num_values += 1
                yield value
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise ValueError(f"after {num_values:,} items: {reason}") from error


def _values_of_array(text: _Text) -> Iterator[Any]:
    text.take_char("[")
    if text.next_char() == "]":
        text.take_char("]")
        return
    while True:
        yield text.take_value()
        if text.take_char(",]") == "]":
            return


class _Text:
    """The text that is not yet used, as far as it has been read."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._json = json.JSONDecoder()
        self._text = ""
        self._at = 0

    def next_char(self) -> str:
        """Return the next character that is no space, without using it; at the end, none."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._read_on():
                return ""

    def take_char(self, expected: str) -> str:
        """Use the next character, which must be one of `expected`."""
        char = self.next_char()
        if not char or char not in expected:
            raise ValueError(f"expected {' or '.join(expected)}, found {char or 'the end'}")
        self._at += 1
        return char

    def take_value(self) -> Any:
        """Use the next value."""
        self.next_char()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except ValueError:
                if len(self._text) - self._at > VALUE_CHARS_MAX or not self._read_on():
                    raise
                continue
            if end == len(self._text) and self._read_on():
                continue  # digits may follow
            self._at = end
            return value

    def _read_on(self) -> bool:
        """Read a piece; return whether there was one."""
        piece = next(self._pieces, None)
        self._text = self._text[self._at :] + self._utf8.decode(piece or b"", final=piece is None)
        self._at = 0
        return piece is not None
