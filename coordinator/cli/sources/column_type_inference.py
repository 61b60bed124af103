"""Infers the type of a column from the texts of its cells: its kind (pure).

    "1", "-7", "12"          integer     not "007": a leading zero means a code
    "1.5", "2e3", "7"        number      with decimal commas: "1,5", "1.299,00"
    "9007199254740993", "1.5" text       whole numbers that a double would round, beside others
    "1,299.00", "€10.00", "12%" number   only where the user says so; also "1 299", "1'299"
    "true", "False"          boolean     where the user says so, also "yes", "N", "1"
    '["a","b"]', '{"x":1}'   json        in every cell
    "31.12.2024 14:05"       dmy, mdy    only if the user says so: becomes "2024-12-31T14:05", …
    "2024/12/31"             ymd         only if the user says so
    anything else            text        the kind of a column holds for all of its cells
    "NA", "NULL", "-"        text        also beside numbers, unless the user says they are empty
    "on request"             text        the same, if few of many cells have no digit

Empty cells have no value. White space around numbers and booleans is ignored.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import orjson

from coordinator.cli.sources.exact_json_codec import decoded
from coordinator.cli.sources.list_separator import ListSeparator
from coordinator.cli.sources.prices import amount_of

NULL_TEXTS: Final = frozenset(
    ("NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "\\N", "None", "-")
)
"""What programs write for no value. It is text, unless the user says that it is empty."""
ODD_TEXTS_MAX: Final = 3
"""Distinct texts without a digit that, beside numbers or dates, may stand for no value."""
ODD_SHARE_MAX: Final = 0.1
"""Share of the cells that may have one of them."""
DATE_ORDERS: Final = {"dmy": "31.12.2024", "mdy": "12/31/2024", "ymd": "2024/12/31"}
"""Kinds of dates in other notations, each with an example. A column is parsed this way only if the
user requests it: "1/3/2024" may be either of the first two."""
KINDS: Final = ("text", "integer", "number", "boolean", "json", *DATE_ORDERS)
"""Kinds that a user may choose for a column."""

_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,19})", re.ASCII).fullmatch
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII).fullmatch
_WHOLE: Final = re.compile(r"-?[0-9]{16,}", re.ASCII).fullmatch
"""Whole numbers that may be above 2^53, from where on a double does not have each."""
_COMMA_NUMBER: Final = re.compile(
    r"-?(0|[1-9][0-9]*|[1-9][0-9]{0,2}(\.[0-9]{3})+)(,[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII
).fullmatch
_COMMA_GROUPS: Final = re.compile(r"-?[1-9][0-9]{0,2}(,[0-9]{3})+", re.ASCII).fullmatch
_GROUPED: Final = re.compile(r"-?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?", re.ASCII).fullmatch
_MARKED: Final = re.compile(
    r"-?[1-9][0-9]{0,2}([ \u00a0\u2009\u202f'\u2019])[0-9]{3}(?:\1[0-9]{3})*([.,][0-9]+)?", re.ASCII
).fullmatch
"""Numbers in groups that spaces or apostrophes divide: French, Polish, Swedish, Swiss ones."""
_HAS_DIGIT: Final = re.compile(r"[0-9]", re.ASCII).search
_TIME: Final = r"(?:(?:,? |[Tt])([0-9]{1,2}):([0-9]{2})(:[0-9]{2})?(?: ?([AaPp])\.?[Mm]\.?)?)?"
_YEAR_LAST: Final = re.compile(
    rf"([0-9]{{1,2}})([./-])([0-9]{{1,2}})\2([0-9]{{4}}){_TIME}", re.ASCII
).fullmatch
_YEAR_FIRST: Final = re.compile(
    rf"([0-9]{{4}})([./-])([0-9]{{1,2}})\2([0-9]{{1,2}}){_TIME}", re.ASCII
).fullmatch
_ISO_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[^,]*[0-9])?", re.ASCII).fullmatch
"""Or what is to be one: not `2024-12-31, 14:05` nor `2024-12-31 2:05 PM`."""
_MONTH: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_NAMED_DATE: Final = re.compile(
    rf"[0-9]{{1,2}}\.? {_MONTH} [0-9]{{4}}|{_MONTH} [0-9]{{1,2}}, [0-9]{{4}}",
    re.ASCII | re.IGNORECASE,
).fullmatch
DECIMALS: Final = (".", ",")
"""Decimal separators."""
_NUMBERS: Final = ("integer", "number")
_BOOLEANS: Final = {"true": True, "false": False}
TRUTHS: Final = {
    **_BOOLEANS,
    "yes": True,
    "no": False,
    "y": True,
    "n": False,
    "t": True,
    "f": False,
    "1": True,
    "0": False,
}
"""The texts of a column that the user reads as booleans, in lower case."""
ID_INTEGER_MAX: Final = 2**63 - 1


def is_integer(text: str) -> bool:
    """Return whether a cell is an integer that can be stored exactly."""
    return _INTEGER(text) is not None and -(2**63) <= int(text) < 2**64


def is_number(text: str) -> bool:
    """Return whether a cell is a finite number."""
    return _NUMBER(text) is not None and math.isfinite(float(text))


def is_rounded(text: str) -> bool:
    """Return whether a number is whole, and a double would change its digits."""
    return _WHOLE(text) is not None and math.isfinite(float(text)) and int(float(text)) != int(text)


def is_comma_number(text: str) -> bool:
    """Return whether a cell is a finite number with a decimal comma, in groups of three or not."""
    text = _without_marks(text)
    return _COMMA_NUMBER(text) is not None and math.isfinite(_of_comma_number(text))


def _of_comma_number(cell: str) -> float:
    return float(_without_marks(cell.strip()).replace(".", "").replace(",", "."))


def _without_marks(text: str) -> str:
    """Return "1299,00" for "1 299,00" or "1'299,00"; any other text as it is."""
    found = _MARKED(text)
    return text if found is None else text.replace(found[1], "")


def _is_like_a_code(text: str) -> bool:
    """Return whether digits in groups of three may be a code: "110 001" is a town in India."""
    found = _MARKED(text)
    return found is not None and found[1] == " " and found[2] is None


def is_grouped_number(text: str) -> bool:
    """Return whether a cell is a finite number, in groups of three ("1,299.00") or not."""
    text = _without_marks(text)
    return is_number(text) or (_GROUPED(text) is not None and math.isfinite(_of_number(text)))


def _of_number(cell: str) -> float:
    return float(_without_marks(cell.strip()).replace(",", ""))


def is_other_date(text: str) -> bool:
    """Return whether a cell looks like a date, or date and time, in another notation than ISO's."""
    if _YEAR_LAST(text) is not None or _NAMED_DATE(text) is not None:
        return True
    return _YEAR_FIRST(text) is not None and _ISO_DATE(text) is None


_PLACES: Final = {"dmy": (4, 3, 1), "mdy": (4, 1, 3), "ymd": (1, 3, 4)}
"""By order, the groups of year, month and day."""


def date_of(text: str, order: str) -> str | None:
    """Return a date as `2024-12-31`, with a time as `2024-12-31T14:05`; None if it is neither.

    Args:
        text: the cell.
        order: one of `DATE_ORDERS`; the cell has its parts in this one.
    """
    found = (_YEAR_FIRST if order == "ymd" else _YEAR_LAST)(text.strip())
    if found is None:
        return None
    try:
        day = datetime.date(*(int(found[place]) for place in _PLACES[order])).isoformat()
    except ValueError:
        return None
    if found[5] is None:
        return day
    time = _time_of(int(found[5]), found[6], found[7] or "", (found[8] or "").lower())
    return None if time is None else f"{day}T{time}"


def _time_of(hour: int, minute: str, seconds: str, half: str) -> str | None:
    """Return a time as `14:05` or `14:05:30`; None if there is none such.

    Args:
        hour: from 1 to 12 if there is a half.
        minute: of two digits.
        seconds: with their colon; may be empty.
        half: `a` or `p` for the half of the day; may be empty.
    """
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "p" else 0)
    is_valid = hour <= 23 and minute <= "59" and seconds <= ":59"
    return f"{hour:02}:{minute}{seconds}" if is_valid else None


def chosen_date_of(text: str, order: str) -> str | None:
    """Return the same of a column that the user reads by an order; a year in front is plain."""
    return date_of(text, order) or date_of(text, "ymd")


def _is_date(order: str) -> Callable[[str], bool]:
    return lambda text: chosen_date_of(text, order) is not None


def _to_date(order: str) -> Callable[[str], Any]:
    return lambda cell: chosen_date_of(cell, order)


def is_boolean(text: str) -> bool:
    """Return whether a cell is true or false."""
    return text.lower() in _BOOLEANS


def _is_truth(text: str) -> bool:
    return text.lower() in TRUTHS


def is_json(text: str) -> bool:
    """Return whether a cell is a JSON array or object."""
    if text[:1] not in ("[", "{"):
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "integer": is_integer,
    "number": is_number,
    "boolean": is_boolean,
    "json": is_json,
    **{order: _is_date(order) for order in DATE_ORDERS},
}


def checks_of(decimal: str) -> dict[str, Callable[[str], bool]]:
    """Return, by kind but text, what says whether a (stripped) cell is of it; narrowest first.

    Args:
        decimal: one of `DECIMALS`.
    """
    return {**_CHECKS, "number": _is_plain_comma_number} if decimal == "," else _CHECKS


def _is_plain_comma_number(text: str) -> bool:
    return is_comma_number(text) and not _is_like_a_code(text)


_AMOUNTS: Final = {".": is_grouped_number, ",": is_comma_number}
"""By decimal separator, what says whether a cell is a number of any notation."""


def chosen_checks_of(decimal: str) -> dict[str, Callable[[str], bool]]:
    """Return the same for kinds that the user has chosen.

    Numbers may be in groups of three, amounts of money, or so long that they are rounded.
    """
    is_amount = _AMOUNTS[decimal]
    is_chosen_number = {"number": lambda text: is_amount(amount_of(text)[1])}
    return {**_CHECKS, **is_chosen_number, "boolean": _is_truth}


class ColumnKind:
    """Determines the kind of one column, cell by cell.

    Args:
        decimal: one of `DECIMALS`.

    Attributes:
        num_filled: number of non-empty cells.
        example: the first of them.
        can_be_id: whether all of them are valid integer ids.
        comma_example: a cell that has a decimal comma, if all are numbers by that; else "".
        point_example: one in groups such as 1.200, if all are numbers by decimal commas; else "".
        group_example: a cell in groups of three, if all are numbers by that; else "".
        currency: of the first cell; "" if it is no amount of money.
        has_other_dates: whether all look like dates in other notations than ISO's.
        date_orders: those of `DATE_ORDERS` that fit all of them.
        lists: finds what divides them, if they are lists.
        null_texts: those of `NULL_TEXTS` that are cells, and what few cells without a digit have
            beside numbers or dates; the other cells decide all the rest, but for `kind`.

    All of them hold after `finish`.
    """

    __slots__ = (
        "_can_have_commas",
        "_can_have_groups",
        "_greatest",
        "_group",
        "_num_nulls",
        "_odd",
        "_possible",
        "_price_decimals",
        "_rounded",
        "_to_number",
        "can_be_id",
        "comma_example",
        "currency",
        "date_orders",
        "example",
        "group_example",
        "has_other_dates",
        "lists",
        "null_texts",
        "num_filled",
        "point_example",
    )

    def __init__(self, decimal: str = ".") -> None:
        self.num_filled = 0
        self.example = ""
        self.can_be_id = True
        self.comma_example = ""
        self.point_example = ""
        self.group_example = ""
        self.currency = ""
        self.has_other_dates = False
        self.date_orders: tuple[str, ...] = ()
        self.lists = ListSeparator()
        self.null_texts: tuple[str, ...] = ()
        self._num_nulls = 0
        self._odd: dict[str, int] | None = {}
        self._greatest = 0.0
        self._to_number = converters_of(decimal)["number"]
        self._can_have_commas = self._can_have_groups = decimal == "."
        self._group = "," if decimal == "." else "."
        self._rounded = ""
        self._price_decimals: tuple[str, ...] = DECIMALS if decimal == "." else (",",)
        checks = checks_of(decimal)
        self._possible = [one for one in checks.items() if one[0] not in DATE_ORDERS]

    def add(self, cell: str) -> None:
        """Take a cell into account."""
        text = cell.strip()
        if not text:
            return
        if text in NULL_TEXTS:
            self._add_null(text)
        elif self._odd is None or _HAS_DIGIT(text):
            self._add_text(text)
        elif text in self._odd or len(self._odd) < ODD_TEXTS_MAX:
            self.example = self.example or text
            self._odd[text] = self._odd.get(text, 0) + 1
        else:
            self._add_odd_as_texts()
            self._add_text(text)

    def finish(self) -> None:
        """Decide what the cells without a digit are; call it once, after the last cell."""
        odd = self._odd or {}
        num_odd = sum(odd.values())
        are_few = num_odd <= ODD_SHARE_MAX * (self.num_filled - self._num_nulls + num_odd)
        if not are_few or not self._has_form or self._fits(odd):
            self._add_odd_as_texts()
            return
        for text, number in odd.items():
            for _ in range(number):
                self._add_null(text)

    def _fits(self, texts: Iterable[str]) -> bool:
        """Return whether any of the texts is of a kind that the column may be."""
        return any(check(text) for _, check in self._possible for text in texts)

    def _add_odd_as_texts(self) -> None:
        odd, self._odd = self._odd or {}, None
        for text, number in odd.items():
            for _ in range(number):
                self._add_text(text)

    def _add_text(self, text: str) -> None:
        if self.num_filled == self._num_nulls:
            self.example = self.example or text
            self.has_other_dates = True
            self.date_orders = tuple(DATE_ORDERS)
            self.currency = amount_of(text)[0]
            self._price_decimals = self._price_decimals if self.currency else ()
        self.num_filled += 1
        self.lists.add(text)
        if self.has_other_dates:
            self.has_other_dates = is_other_date(text)
            self.date_orders = tuple(one for one in self.date_orders if date_of(text, one))
        if self._possible:
            self._possible = [one for one in self._possible if one[1](text)]
            if self.can_be_id:
                self.can_be_id = is_integer(text) and 0 <= int(text) <= ID_INTEGER_MAX
            if self._is_numeric and not self._rounded and is_rounded(self._without_groups(text)):
                self._rounded = text
            if self.kind in _NUMBERS:
                self._greatest = max(self._greatest, abs(self._to_number(text)))
        if self._price_decimals:
            self._add_price(text)
        if self._can_have_commas:
            self._can_have_commas = is_comma_number(text)
            if not self._can_have_commas:
                self.comma_example = self.point_example = ""
            elif not self.comma_example and "," in text and not _COMMA_GROUPS(text):
                self.comma_example = text
            elif not self.point_example and "." in text:
                self.point_example = text
        if self._can_have_groups:
            self._can_have_groups = is_grouped_number(text) and not is_rounded(
                self._without_groups(text)
            )
            if not self._can_have_groups:
                self.group_example = ""
            elif not self.group_example and self._has_groups(text):
                self.group_example = text

    def _add_null(self, text: str) -> None:
        self.example = self.example or text
        self.can_be_id = False
        self.num_filled += 1
        self._num_nulls += 1
        if text not in self.null_texts:
            self.null_texts += (text,)

    @property
    def _is_numeric(self) -> bool:
        return bool(self._possible) and self._possible[0][0] in _NUMBERS

    def _without_groups(self, text: str) -> str:
        return _without_marks(text).replace(self._group, "")

    @staticmethod
    def _has_groups(text: str) -> bool:
        return "," in text or (_MARKED(text) is not None and not _is_like_a_code(text))

    def _add_price(self, text: str) -> None:
        currency, number = amount_of(text)
        self._price_decimals = tuple(
            decimal
            for decimal in self._price_decimals
            if currency == self.currency and _AMOUNTS[decimal](number)
        )

    @property
    def price_decimal(self) -> str:
        """The decimal separator of amounts of one currency; "" if these are none."""
        return next(iter(self._price_decimals), "")

    @property
    def kind(self) -> str:
        """The narrowest kind that fits all cells, and keeps their digits."""
        if self.null_texts or not self.num_filled or not self._possible or self.rounded_example:
            return "text"
        return self._possible[0][0]

    @property
    def is_text_by_nulls(self) -> bool:
        """Whether it would not be text, or need not be, if its null texts were empty cells."""
        return self._num_nulls > 0 and self._has_form

    @property
    def _has_form(self) -> bool:
        """Whether its other cells are not mere texts."""
        forms = (self._possible, self.comma_example, self.group_example, self._price_decimals)
        return self.num_filled > self._num_nulls and (any(forms) or self.has_other_dates)

    @property
    def rounded_example(self) -> str:
        """A whole number that a double would change, if all cells are numbers; else ""."""
        return self._rounded if self._possible and self._possible[0][0] == "number" else ""

    @property
    def greatest(self) -> float | None:
        """The greatest absolute value of a column of numbers."""
        return self._greatest if self.kind in _NUMBERS else None


def _text(cell: str) -> Any:
    return cell


def _boolean(cell: str) -> Any:
    return TRUTHS[cell.strip().lower()]


_CONVERTERS: Final[dict[str, Callable[[str], Any]]] = {
    "text": _text,
    "integer": lambda cell: int(cell.strip()),
    "number": _of_number,
    "boolean": _boolean,
    "json": lambda cell: decoded(cell.encode()),
    **{order: _to_date(order) for order in DATE_ORDERS},
}


def converters_of(decimal: str) -> dict[str, Callable[[str], Any]]:
    """Return, by kind, what converts a non-empty cell to the item's value.

    Args:
        decimal: one of `DECIMALS`.
    """
    return {**_CONVERTERS, "number": _of_comma_number} if decimal == "," else _CONVERTERS
