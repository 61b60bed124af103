"""What every source gives: JSON in pieces, and what is known of it beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

BAD_ROWS_SHOWN: Final = 20
"""Of the rows that cannot become items, so many are named."""


class SourceError(Exception):
    """What was named cannot be read; the message says where, and what would be valid."""


@dataclass(frozen=True, slots=True)
class Column:
    """One field of the items, as it was found.

    Attributes:
        name: of the field.
        kind: text, integer, number, boolean, list, json, date or id.
        num_filled: rows that have a value.
        example: the first value.
    """

    name: str
    kind: str
    num_filled: int
    example: str


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot become an item.

    Attributes:
        place: "line 5".
        message: what is wrong there, and what would be valid.
    """

    place: str
    message: str


def _line(number: int) -> str:
    return f"line {number}"


@dataclass(slots=True)
class Source:
    """Items that are ready to be sent.

    Attributes:
        name: for messages.
        pieces: makes the JSON, as an array or one item a line.
        columns: what was found by inspection; empty where JSON says the types itself.
        num_items: how many there are, if that is known.
        num_bad: rows that are left out.
        bad_rows: the first of them.
        place_of: says where the n-th line that is sent (from 1) stands in what was read.
        opened: what must stay open as long as the source is used.
    """

    name: str
    pieces: Callable[[], Iterator[bytes]]
    columns: list[Column] = field(default_factory=list)
    num_items: int | None = None
    num_bad: int = 0
    bad_rows: list[BadRow] = field(default_factory=list)
    place_of: Callable[[int], str] = _line
    opened: Any = None

    def note_bad(self, place: str, message: str) -> None:
        """Note a row that is left out."""
        self.num_bad += 1
        if len(self.bad_rows) < BAD_ROWS_SHOWN:
            self.bad_rows.append(BadRow(place, message))


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line says about how to read.

    Attributes:
        style: format by name; None: as it looks.
        encoding: of text; None: UTF-8, or as a byte order mark says.
        delimiter: between cells; None: as it looks.
        id_field: the field whose value is the item's id.
        kinds: of fields, instead of what is found.
        separators: of fields whose cells are lists.
        query: of a database.
        table: of a database.
    """

    style: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    id_field: str | None = None
    kinds: dict[str, str] = field(default_factory=dict)
    separators: dict[str, str] = field(default_factory=dict)
    query: str | None = None
    table: str | None = None


def shown(value: Any, chars_max: int = 40) -> str:
    """Return a value as an example: one line, not too long."""
    text = " ".join(str(value).split())
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"
