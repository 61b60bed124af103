"""The result of every source: JSON in pieces, and what is known about it in advance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

BAD_ROWS_SHOWN: Final = 20
"""How many rows that cannot become items are listed."""


class SourceError(Exception):
    """The source cannot be read; the message says where, and what would be valid."""


@contextmanager
def importing_extra(extra: str, what: str) -> Iterator[None]:
    """Say how to install an extra if its library cannot be imported.

    Raises:
        SourceError: it cannot.
    """
    try:
        yield
    except ImportError as error:
        raise SourceError(
            f"{what} needs a library that is not installed: pip install 'facetd[{extra}]'"
        ) from error


@dataclass(frozen=True, slots=True)
class Column:
    """One field of the items, as detected.

    Attributes:
        name: of the field.
        kind: text, integer, number, boolean, list, json, date or id.
        num_filled: number of rows with a value.
        example: the first value.
        comma_example: a value with a decimal comma, if the texts are numbers by that.
        group_example: a value such as 1,299.00, if the texts are numbers by that.
        rounded_example: a whole number that a double would change, if the texts are numbers.
        price_example: an amount of money, if the texts are those of one currency.
        price_decimal: what divides these amounts from their fraction.
        currency: of these amounts.
        null_texts: cells such as NA by which the column is text, if the others are not.
        has_other_dates: whether the texts look like dates that do not begin with the year.
        date_orders: kinds of dates that the texts can be read as.
        greatest: absolute value of the greatest number; None if it is not known, or none is there.
        separator: what divides the texts, if they seem to be lists; else "".
        parts: of these lists, the most frequent.
    """

    name: str
    kind: str
    num_filled: int
    example: str
    comma_example: str = ""
    has_other_dates: bool = False
    date_orders: tuple[str, ...] = ()
    greatest: float | None = None
    separator: str = ""
    parts: tuple[str, ...] = ()
    group_example: str = ""
    rounded_example: str = ""
    price_example: str = ""
    price_decimal: str = ""
    currency: str = ""
    null_texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot become an item.

    Attributes:
        place: such as "line 5".
        message: what is wrong, and what would be valid.
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
        pieces: yields the JSON, as an array or one item per line; to be called once.
        columns: detected columns; empty for JSON, which has its own types.
        sample: items from the start of JSON; empty for tables.
        num_items: number of items, if known.
        num_bad: number of skipped rows.
        bad_rows: the first of them.
        place_of: returns the position in the source of the n-th line sent (from 1).
        opened: a resource that must stay open while the source is used.
        inner_arrays: members that are arrays of objects, seen at the start of JSON, each by the
            names on the way to it. If there is one item only, these may have been meant.
        seems_headless: whether the header of a table seems to be a row.
        numbered: names of columns that were numbered, because others before have the same.
        starts_blank: whether JSON has nothing but white space at its start: if it has no items, it
            is empty.
    """

    name: str
    pieces: Callable[[], Iterator[bytes]]
    columns: list[Column] = field(default_factory=list)
    sample: list[dict[str, Any]] = field(default_factory=list)
    num_items: int | None = None
    num_bad: int = 0
    bad_rows: list[BadRow] = field(default_factory=list)
    place_of: Callable[[int], str] = _line
    opened: Any = None
    inner_arrays: list[str] = field(default_factory=list)
    seems_headless: bool = False
    numbered: list[str] = field(default_factory=list)
    starts_blank: bool = False

    def note_bad(self, place: str, message: str) -> None:
        """Record a skipped row."""
        self.num_bad += 1
        if len(self.bad_rows) < BAD_ROWS_SHOWN:
            self.bad_rows.append(BadRow(place, message))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of the command line about reading.

    Attributes:
        style: name of the format; None: detect it.
        encoding: of text; None: UTF-8, or by byte order mark.
        delimiter: between cells; None: detect it.
        id_field: the field whose value becomes the item's id.
        kinds: of fields, overriding the detected ones.
        separators: of fields whose cells are lists.
        query: for a database.
        table: for a database.
        point_fields: the fields of latitude and longitude that become the item's geo point.
        decimal: what divides the whole part of a number in a cell from its fraction.
        has_header: whether the first row of a table names its columns.
        column_names: of a table without a header; empty: it has one, or they are numbered.
        null_texts: of cells that are read as empty.
        has_quotes: whether a quote at the start of a cell encloses it, or is a part of its text.
        items_path: of JSON, the member that holds the array of items; None: the text is the items.
    """

    style: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    id_field: str | None = None
    kinds: dict[str, str] = field(default_factory=dict)
    separators: dict[str, str] = field(default_factory=dict)
    query: str | None = None
    table: str | None = None
    point_fields: tuple[str, str] | None = None
    decimal: str = "."
    has_header: bool = True
    column_names: tuple[str, ...] = ()
    null_texts: tuple[str, ...] = ()
    has_quotes: bool = True
    items_path: str | None = None


def shown(value: Any, chars_max: int = 40) -> str:
    """Return a value as an example: on one line, of limited length."""
    text = " ".join(str(value).split())
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def counted(number: int, what: str) -> str:
    """Return a number of things."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
