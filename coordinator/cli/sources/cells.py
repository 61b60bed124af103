"""Kinds of cells: the type of a column's texts (pure).

    "1", "-7", "12"          integer     not "007": a leading zero means a code
    "1.5", "2e3", "7"        number
    "true", "False"          boolean
    '["a","b"]', '{"x":1}'   json        in every cell
    anything else            text        the kind of a column holds for all of its cells

Empty cells have no value. White space around numbers and booleans is ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

import orjson

KINDS: Final = ("text", "integer", "number", "boolean", "json")
"""Kinds that a user may choose for a column."""

_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,19})", re.ASCII).fullmatch
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII).fullmatch
_BOOLEANS: Final = {"true": True, "false": False}
ID_INTEGER_MAX: Final = 2**63 - 1


def is_integer(text: str) -> bool:
    """Return whether a cell is an integer that can be stored exactly."""
    return _INTEGER(text) is not None and -(2**63) <= int(text) < 2**64


def is_number(text: str) -> bool:
    """Return whether a cell is a finite number."""
    return _NUMBER(text) is not None and math.isfinite(float(text))


def is_boolean(text: str) -> bool:
    """Return whether a cell is true or false."""
    return text.lower() in _BOOLEANS


def is_json(text: str) -> bool:
    """Return whether a cell is a JSON array or object."""
    if text[:1] not in ("[", "{"):
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


_CHECKS: Final[tuple[tuple[str, Callable[[str], bool]], ...]] = (
    ("integer", is_integer),
    ("number", is_number),
    ("boolean", is_boolean),
    ("json", is_json),
)


class ColumnKind:
    """Determines the kind of one column, cell by cell.

    Attributes:
        num_filled: number of non-empty cells.
        example: the first of them.
        can_be_id: whether all of them are valid integer ids.
    """

    __slots__ = ("_possible", "can_be_id", "example", "num_filled")

    def __init__(self) -> None:
        self.num_filled = 0
        self.example = ""
        self.can_be_id = True
        self._possible = list(_CHECKS)

    def add(self, cell: str) -> None:
        """Take a cell into account."""
        text = cell.strip()
        if not text:
            return
        if not self.num_filled:
            self.example = text
        self.num_filled += 1
        if self._possible:
            self._possible = [one for one in self._possible if one[1](text)]
            if self.can_be_id:
                self.can_be_id = is_integer(text) and 0 <= int(text) <= ID_INTEGER_MAX

    @property
    def kind(self) -> str:
        """The narrowest kind that fits all cells."""
        return self._possible[0][0] if self.num_filled and self._possible else "text"


def _text(cell: str) -> Any:
    return cell


def _boolean(cell: str) -> Any:
    return _BOOLEANS[cell.strip().lower()]


CONVERTERS: Final[dict[str, Callable[[str], Any]]] = {
    "text": _text,
    "integer": lambda cell: int(cell.strip()),
    "number": lambda cell: float(cell.strip()),
    "boolean": _boolean,
    "json": orjson.loads,
}
"""By kind: converts a non-empty cell to the item's value."""

CHECKS: Final[dict[str, Callable[[str], bool]]] = {**dict(_CHECKS), "text": lambda _: True}
"""By kind: whether a (stripped) cell is of a kind that the user chose."""
