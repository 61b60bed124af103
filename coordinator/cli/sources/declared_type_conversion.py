"""Converts values of a database to the kind that the user or the database declares (pure).

MySQL and SQLite store truth as a number, and may store JSON and dates as text:

    1, 0, a bit, "yes"      boolean
    "12", true, 12.0        integer, number
    '{"a": 1}'              json
    "31.12.2024"            dmy, mdy, ymd
    anything                text
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from coordinator.cli.sources.column_type_inference import (
    DATE_ORDERS,
    KINDS,
    TRUTHS,
    chosen_date_of,
    is_integer,
    is_number,
)
from coordinator.cli.sources.exact_json_codec import decoded
from coordinator.cli.sources.rows_to_items import plain
from coordinator.cli.sources.source import SourceError, shown


class DeclaredKinds:
    """Converts the columns whose kind is not that of their values.

    Args:
        kinds: by column, as the user names them.
        separators: by column whose texts are lists.
        declared: by column, as the database has them, where the user names none.
    """

    def __init__(
        self, kinds: Mapping[str, str], separators: Mapping[str, str], declared: Mapping[str, str]
    ) -> None:
        for kind in kinds.values():
            if kind not in KINDS:
                raise SourceError(f"--type: {kind!r} is none of {', '.join(KINDS)}")
        self._named = kinds
        self._kinds = {**declared, **kinds}
        self._separators = separators

    @property
    def columns(self) -> dict[str, str]:
        """The kind of each column that is converted."""
        return {**self._kinds, **dict.fromkeys(self._separators, "list")}

    def convert(self, row: dict[str, Any], place: str) -> dict[str, Any]:
        """Return a row with its values converted.

        Raises:
            SourceError: a value is not of its kind.
        """
        changed = {
            name: self._converted(name, kind, row[name], place)
            for name, kind in self._kinds.items()
            if name in row
        }
        for name, separator in self._separators.items():
            if isinstance(row.get(name), str):
                parts = (part.strip() for part in row[name].split(separator))
                changed[name] = [part for part in parts if part]
        return {**row, **changed} if changed else row

    def _converted(self, name: str, kind: str, value: Any, place: str) -> Any:
        if value is None or (value == "" and kind != "text"):
            return None
        found = _CONVERTERS[kind](value)
        if found is not None:
            return found
        if name in self._named:
            raise SourceError(
                f"{place}: {name!r} holds {shown(value)!r}, which is not of type {kind}"
            )
        raise SourceError(
            f"{place}: {name!r} is declared as a {kind} and holds {shown(value)!r}; "
            f"--type {name}=integer loads the column as numbers"
        )


def _boolean(value: Any) -> bool | None:
    if isinstance(value, (bytes, bytearray)):
        value = int.from_bytes(value, "big")
    return TRUTHS.get(str(value).strip().lower())


def _integer(value: Any) -> int | None:
    if isinstance(value, (bytes, bytearray)):
        return int.from_bytes(value, "big")
    if isinstance(value, str):
        return int(value) if is_integer(value.strip()) else None
    number = plain(value)
    if isinstance(number, (int, float)) and number == int(number):
        return int(number)
    return None


def _number(value: Any) -> float | int | None:
    if isinstance(value, str):
        return float(value) if is_number(value.strip()) else None
    number = plain(value)
    if isinstance(number, bool):
        return int(number)
    return number if isinstance(number, (int, float)) else None


def _text(value: Any) -> str | None:
    found = plain(value)
    return found if isinstance(found, str) or found is None else orjson.dumps(found).decode()


def _json(value: Any) -> Any:
    if not isinstance(value, (str, bytes, bytearray)):
        return plain(value)
    try:
        return decoded(value.encode() if isinstance(value, str) else value)
    except ValueError:
        return None


def _date(order: str) -> Callable[[Any], Any]:
    return lambda value: chosen_date_of(value, order) if isinstance(value, str) else plain(value)


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "text": _text,
    "json": _json,
    **{order: _date(order) for order in DATE_ORDERS},
}
