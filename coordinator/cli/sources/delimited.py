"""CSV and TSV: read twice, first to find the kinds of the columns, then to make items.

    id;name;tags                        {"id":1,"name":"Sea","tags":["a","b"]}
    1;Sea;a|b            ─────────▶
    2;"Land; dry";                      {"id":2,"name":"Land; dry"}

The first pass inspects every row, so a code with a leading zero in the last row still makes its
column text. A row with more or fewer cells than the header is bad; it is reported by its line. A
first line `sep=;`, which Excel reads and other programs write, is not a row: it names the
delimiter. A first column without a name is the one in which pandas and R number the rows; any other
without a name is left out if it has no text, as spreadsheets export columns that only divide. Of
columns of one name all but the first are numbered: `price`, `price_2`.
"""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, count, islice, pairwise
from typing import Any, Final

from coordinator.cli.sources.column_type_inference import (
    DATE_ORDERS,
    KINDS,
    TRUTHS,
    ColumnKind,
    chosen_checks_of,
    converters_of,
    is_comma_number,
)
from coordinator.cli.sources.encodings import checked_encoding, first_wrong_line, marked_encoding
from coordinator.cli.sources.exact_json_codec import pieces_of
from coordinator.cli.sources.opening_and_decompression import BROKEN, PEEK_BYTES, OpenedSource
from coordinator.cli.sources.prices import amount_of
from coordinator.cli.sources.source import Column, ReadOptions, Source, SourceError, shown
from coordinator.cli.sources.unsupported_formats import START_BYTES, unsupported_format

DELIMITERS: Final = (",", ";", "\t", "|")
ROW_FIELD: Final = "row"
"""Name of a first column that has none."""
CELL_CHARS_MAX: Final = 16 * 1024 * 1024
"""Length limit of one cell: that of an item."""
_SEPARATOR: Final = re.compile(r'"?sep=(.)"?', re.IGNORECASE | re.DOTALL)
_QUOTE_NOT_CLOSED: Final = (
    'a quote (") that opens in this row is never closed; close it, or write it twice where it '
    "belongs to the text; --no-quotes reads all quotes as text"
)
_QUOTE_CLOSED_EARLY: Final = (
    'a cell that begins with a quote (") goes on after the closing one; write a quote twice where '
    "it belongs to the text; --no-quotes reads all quotes as text"
)
_NO_HEADER: Final = "--no-header reads the first line as a row"
_DIGITS: Final = re.compile(r"[0-9]+")


def read(opened: OpenedSource, options: ReadOptions) -> Source:
    """Inspect a file of delimited cells.

    Raises:
        SourceError: it is malformed, or has another encoding.
    """
    csv.field_size_limit(CELL_CHARS_MAX)
    table = _Table(opened, options)
    source = Source(opened.name, table.pieces)
    table.inspect(source)
    return source


class _Table:
    """One file, and what is known about its columns."""

    def __init__(self, opened: OpenedSource, options: ReadOptions) -> None:
        self._opened = opened
        self._options = options
        start = _start_of(opened)
        self._encoding = checked_encoding(options.encoding) or marked_encoding(start)
        self._quoting: Final = csv.QUOTE_MINIMAL if options.has_quotes else csv.QUOTE_NONE
        self._delimiter = options.delimiter or self._find_delimiter()
        self._has_header = options.has_header and not options.column_names
        self._names: list[str] = []
        self._width = 0
        """Cells of a row, with those of columns that have no name."""
        self._places: list[int] = []
        """Of the columns that have one, among all."""
        self._numbered: list[str] = []
        """Names that the header has without their number."""
        self._kinds: list[str] = []
        self._id_column: int | None = None
        self._currencies: dict[str, str] = {}
        """Of columns that the user reads as numbers, by name."""
        self._bad: set[int] = set()
        """Numbers of the skipped rows, from 0."""
        self._num_rows = 0
        self._lines = array("q")
        """Line of each row that becomes an item."""

    def inspect(self, source: Source) -> None:
        """Find the names and kinds of columns, and the rows that cannot become items."""
        rows = self._rows()
        first = next(rows, None)
        names = self._find_names(first)
        self._width = len(names)
        self._places = [place for place, name in enumerate(names) if name]
        self._names = [names[place] for place in self._places]
        self._check_options()
        if first is not None and not self._has_header:
            rows = chain([first], rows)
        self._id_column = self._find_id()
        options = self._options
        found = [ColumnKind(options.decimal) for _ in self._names]
        wanted = [options.kinds.get(name) for name in self._names]
        self._check_rows(rows, found, wanted, source)
        for name, column, kind in zip(self._names, found, wanted, strict=True):
            column.finish()
            self._kinds.append(kind or ("list" if name in options.separators else column.kind))
        if self._id_column is not None and not found[self._id_column].can_be_id:
            self._kinds[self._id_column] = "text"
        source.columns = self._described(found)
        source.seems_headless = self._has_header and _is_like_a_row(self._names, found)
        source.numbered = self._numbered
        source.num_items = len(self._lines)
        source.place_of = self._place_of

    def _check_rows(
        self,
        rows: Iterator[tuple[int, list[str]]],
        found: list[ColumnKind],
        wanted: list[str | None],
        source: Source,
    ) -> None:
        """Note the rows that cannot become items, and learn of each column from its cells."""
        checks = chosen_checks_of(self._options.decimal)
        lines: list[int] = []
        for number, (line, cells) in enumerate(rows):
            row = self._cells_of(cells)
            message = self._mistake_of_width(len(row))
            if message is None:
                row = self._named_cells(row)
                message = self._mistake_of_id(row)
            if message is None:
                for cell, column in zip(row, found, strict=True):
                    column.add(cell)
                message = self._mistake_of_cells(row, wanted, checks)
            if message is None:
                lines.append(line)
            else:
                self._bad.add(number)
                source.note_bad(f"line {line}", message)
        self._lines = array("q", lines)
        self._num_rows = len(lines) + len(self._bad)

    def _cells_of(self, row: list[str]) -> list[str]:
        """Return a row without the empty cells after those that have a name, and without nulls."""
        nulls = self._options.null_texts
        if nulls:
            row = ["" if cell.strip() in nulls else cell for cell in row]
        has_rest = len(row) > self._width and not any(row[self._width :])
        return row[: self._width] if has_rest else row

    def _named_cells(self, row: list[str]) -> list[str]:
        """Return the cells of the columns that have a name.

        Raises:
            SourceError: one of another column has text.
        """
        if len(self._places) == self._width:
            return row
        for place in set(range(self._width)).difference(self._places):
            if row[place].strip():
                raise SourceError(
                    f"{self._opened.name}: column {place + 1} has no name, and a cell with "
                    f"{shown(row[place])!r}; the first line must name the columns; {_NO_HEADER}"
                )
        return [row[place] for place in self._places]

    def _mistake_of_width(self, width: int) -> str | None:
        """Return why a row of this many cells can be no item; None if it can."""
        if width == self._width:
            return None
        if self._has_header:
            wanted = f"the header has {self._width}"
        elif self._options.column_names:
            wanted = f"--columns names {self._width}"
        else:
            wanted = f"the first line has {self._width}"
        return (
            f"{width} cell{'' if width == 1 else 's'}, and {wanted}; quote a cell that "
            f"has {_shown_delimiter(self._delimiter)} or a line break in it"
        )

    def _mistake_of_id(self, row: list[str]) -> str | None:
        """Return why a row can be no item for lack of an id; None if it can."""
        if self._id_column is not None and not row[self._id_column].strip():
            return f"{self._names[self._id_column]} is empty, and it is to be the id"
        return None

    def _wrong_kind(self, text: str, kind: str) -> str:
        """Return the message about a cell that is not of the kind that was chosen."""
        example = DATE_ORDERS.get(kind)
        wanted = f"a date such as {example}" if example else f"of type {kind}"
        if kind == "boolean":
            wanted += f", which is one of {', '.join(TRUTHS)}"
        message = f"{shown(text)!r} is not {wanted}"
        if kind == "number" and is_comma_number(amount_of(text)[1]):
            message += "; --decimal , reads decimal commas"
        elif kind == "number" and "," in text and self._options.decimal == ".":
            message += f"; without groups it is {text.replace(',', '')}"
        return message

    def _described(self, found: list[ColumnKind]) -> list[Column]:
        """Return what is shown of each column.

        Where others have decimal commas, numbers such as 1.200 have them, too.
        """
        columns = [self._description(i, column) for i, column in enumerate(found)]
        if not any(column.comma_example for column in columns):
            return columns
        return [
            replace(shown_column, comma_example=column.point_example)
            if shown_column.kind == "number" and name not in self._options.kinds
            else shown_column
            for name, shown_column, column in zip(self._names, columns, found, strict=True)
        ]

    def _description(self, i: int, column: ColumnKind) -> Column:
        name, kind, is_id = self._names[i], self._kinds[i], i == self._id_column
        may_be_other = kind == "text" and not column.null_texts
        return Column(
            "id" if is_id and name.lower() == "id" else name,
            f"{kind}, the id" if is_id else kind,
            column.num_filled,
            shown(column.example),
            shown(column.comma_example) if may_be_other else "",
            may_be_other and column.has_other_dates,
            column.date_orders,
            column.greatest if kind == column.kind else None,
            *_list_of(column, kind),
            shown(column.group_example) if may_be_other else "",
            shown(column.rounded_example) if may_be_other else "",
            *_price_of(column, may_be_other),
            column.null_texts if kind == "text" and column.is_text_by_nulls else (),
        )

    def _mistake_of_cells(
        self,
        row: list[str],
        wanted: list[str | None],
        checks: Mapping[str, Callable[[str], bool]],
    ) -> str | None:
        """Return why the cells of a row are not of the kinds that the user has chosen."""
        for name, cell, kind in zip(self._names, row, wanted, strict=True):
            text = cell.strip()
            if kind is None or kind not in checks or not text:
                continue
            if not checks[kind](text):
                return self._wrong_kind(text, kind)
            currency = amount_of(text)[0] if kind == "number" else ""
            if currency and self._currencies.setdefault(name, currency) != currency:
                return (
                    f"{shown(text)!r} is an amount of {currency}, and the first is of "
                    f"{self._currencies[name]}; a number has no currency"
                )
        return None

    def pieces(self) -> Iterator[bytes]:
        """Yield the items, one per line."""
        return pieces_of(self._items())

    def _items(self) -> Iterator[dict[str, object]]:
        """Yield the items of the rows that were checked, even if the file has grown since.

        Raises:
            SourceError: the file has changed since.
        """
        rows = self._rows()
        if self._has_header:
            next(rows, None)
        num_read = 0
        try:
            for item in self._converted(islice(rows, self._num_rows)):
                num_read += 1
                if item is not None:
                    yield item
        except (IndexError, KeyError, ValueError) as error:  # for which all cells were checked
            raise self._changed() from error
        if num_read < self._num_rows:
            raise self._changed()

    def _changed(self) -> SourceError:
        return SourceError(f"{self._opened.name} has changed while it was read; load it again")

    def _converted(
        self, rows: Iterable[tuple[int, list[str]]]
    ) -> Iterator[dict[str, object] | None]:
        """Yield the item of each row; None for a skipped one."""
        makers = []
        converters = converters_of(self._options.decimal)
        for i, (name, kind) in enumerate(zip(self._names, self._kinds, strict=True)):
            separator = self._options.separators.get(name)
            is_id = i == self._id_column
            names = ["id", *([name] if name.lower() != "id" else [])] if is_id else [name]
            convert = None if separator is not None else converters[kind]
            if convert is not None and name in self._currencies:
                convert = _of_amounts(convert)
            makers.append((i, names, convert, separator))
        for number, (_, cells) in enumerate(rows):
            if number in self._bad:
                yield None
                continue
            row = self._named_cells(self._cells_of(cells))
            item: dict[str, object] = {}
            for i, names, convert, separator in makers:
                cell = row[i]
                if not cell or cell.isspace():
                    continue
                if convert is not None:
                    value: object = convert(cell)
                else:
                    value = [one.strip() for one in cell.split(separator) if one.strip()]
                for name in names:
                    item[name] = value
            yield item

    def _place_of(self, number: int) -> str:
        """Return the line of the file that the n-th item (from 1) came from."""
        if 1 <= number <= len(self._lines):
            return f"line {self._lines[number - 1]}"
        return f"item {number}"

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows that have a cell with text, each with the line it starts on."""
        stream = self._opened.open()
        line = 1
        try:
            with io.TextIOWrapper(stream, encoding=self._encoding, newline="") as text:
                reader = csv.reader(
                    text, delimiter=self._delimiter, quoting=self._quoting, strict=True
                )
                for row in reader:
                    is_separator = line == 1 and _SEPARATOR.fullmatch(self._delimiter.join(row))
                    is_empty = all(not cell or cell.isspace() for cell in row)
                    if not is_empty and not is_separator:
                        yield line, row
                    line = reader.line_num + 1
        except UnicodeError as error:
            with self._opened.open() as again:  # the text was decoded some lines ahead of the rows
                wrong = first_wrong_line(again, self._encoding)
            raise SourceError(
                f"{self._opened.name} is not {self._encoding} in line {wrong}; name its encoding, "
                "for example --encoding cp1252 (Windows, Western European)"
            ) from error
        except csv.Error as error:
            raise SourceError(f"{self._opened.name}, line {line}: {_explained(error)}") from error
        except BROKEN as error:
            raise SourceError(f"{self._opened.name} is cut off or damaged: {error}") from error

    def _find_names(self, first: tuple[int, list[str]] | None) -> list[str]:
        """Return the names of the columns: of the header ("": none), of an option, or by number."""
        if first is None:
            what = "its first line must name the columns" if self._has_header else "it has no row"
            raise SourceError(f"{self._opened.name} is empty; {what}")
        if self._has_header:
            return self._read_header(first[1])
        if self._options.column_names:
            return list(self._options.column_names)
        return [f"column{i}" for i in range(1, len(first[1]) + 1)]

    def _check_options(self) -> None:
        """Raise for options that name no column, or no kind."""
        for what, given in (
            ("--type", self._options.kinds),
            ("--split", self._options.separators),
        ):
            for name in given:
                self._check_name(what, name)
        for kind in self._options.kinds.values():
            if kind not in KINDS:
                raise SourceError(f"--type: {kind!r} is none of {', '.join(KINDS)}")
        if self._options.id_field is not None:
            self._check_name("--id-field", self._options.id_field)

    def _read_header(self, cells: list[str]) -> list[str]:
        """Return the names in the header; "" for a column that has none."""
        names = [cell.strip() for cell in cells]
        while not names[-1]:
            names.pop()
        if not names[0] and ROW_FIELD not in names:
            names[0] = ROW_FIELD
        distinct = _distinct(names)
        self._numbered = [one for name, one in zip(names, distinct, strict=True) if name != one]
        return distinct

    def _check_name(self, option: str, name: str) -> None:
        if name not in self._names:
            raise SourceError(
                f"{option}: {self._opened.name} has no column {name!r}; its columns are "
                f"{', '.join(self._names)}"
            )

    def _find_id(self) -> int | None:
        """Return the column that holds the items' ids."""
        if self._options.id_field is not None:
            return self._names.index(self._options.id_field)
        named = [i for i, name in enumerate(self._names) if name.lower() == "id"]
        return named[0] if len(named) == 1 else None

    def _find_delimiter(self) -> str:
        """Return the delimiter that the file names, or that splits the first rows most evenly."""
        if self._opened.file_name.lower().endswith((".tsv", ".tab")):
            return "\t"
        with self._opened.open() as stream:
            start = stream.read(PEEK_BYTES)
        text = start.decode(self._encoding, "replace")
        named = _SEPARATOR.match(text)
        if named is not None and text[named.end() : named.end() + 1] in ("\r", "\n"):
            return named[1]
        best, best_score = ",", 0.0
        for delimiter in DELIMITERS:
            lines = io.StringIO(text, newline="")  # those of an old Mac end in \r
            try:
                reader = csv.reader(lines, delimiter=delimiter, quoting=self._quoting)
                rows = [row for row in reader if row]
            except csv.Error:
                continue
            rows = rows[:-1] if len(start) == PEEK_BYTES and len(rows) > 1 else rows
            if not rows or len(rows[0]) < 2:
                continue
            width = len(rows[0])
            score = sum(len(row) == width for row in rows) / len(rows) * min(width, 20)
            if score > best_score:
                best, best_score = delimiter, score
        return best


def _start_of(opened: OpenedSource) -> bytes:
    """Return the first bytes of a file.

    Raises:
        SourceError: they are those of a workbook, an archive or a web page, not of a table.
    """
    with opened.open() as stream:
        start = stream.read(START_BYTES)
    if what := unsupported_format(start):
        raise SourceError(f"{opened.name} {what}")
    return start


def _explained(error: csv.Error) -> str:
    """Return what is wrong with a row, and what would be valid, for an error of the library."""
    message = str(error)
    if "unexpected end" in message or "field limit" in message:
        return _QUOTE_NOT_CLOSED
    return _QUOTE_CLOSED_EARLY if "expected after" in message else message


def _distinct(names: list[str]) -> list[str]:
    """Return the names, a repeated one with the least number that makes a new name of it."""
    taken, seen, distinct = set(names), set[str](), list[str]()
    for name in names:
        one = name
        if name and name in seen:
            one = next(new for n in count(2) if (new := f"{name}_{n}") not in taken)
            taken.add(one)
        seen.add(name)
        distinct.append(one)
    return distinct


def _is_like_a_row(names: list[str], columns: list[ColumnKind]) -> bool:
    """Return whether a header seems to be a row: a name has digits where its cells have them.

    Years in turn, as names of columns of numbers, are a header.
    """
    alike = [
        name
        for name, column in zip(names, columns, strict=True)
        if (shape := _DIGITS.sub("0", name)) != _DIGITS.sub("", name)
        and shape == _DIGITS.sub("0", column.example.strip())
    ]
    numbers = [int(name) for name in alike if name.isascii() and name.isdecimal()]
    are_in_turn = len(numbers) > 1 and all(b == a + 1 for a, b in pairwise(numbers))
    return bool(alike) and not are_in_turn


def _shown_delimiter(delimiter: str) -> str:
    return "a tab" if delimiter == "\t" else f"a {delimiter!r}"


def _of_amounts(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return what converts an amount of money by its number."""
    return lambda cell: convert(amount_of(cell.strip())[1])


def _price_of(column: ColumnKind, may_be_other: bool) -> tuple[str, str, str]:
    """Return example, decimal separator and currency of a column of amounts of money."""
    if not may_be_other or not column.price_decimal:
        return "", "", ""
    return shown(column.example), column.price_decimal, column.currency


def _list_of(column: ColumnKind, kind: str) -> tuple[str, tuple[str, ...]]:
    """Return the separator and parts of a column of texts that seem to be lists."""
    separator, parts = column.lists.found() if kind == "text" else ("", [])
    return separator, tuple(map(shown, parts))
