"""Rows of typed values (Parquet, databases) as items.

Types that JSON lacks are mapped to the nearest ones: dates to ISO texts, decimals to numbers, UUIDs
to texts. Nulls, non-finite numbers and bytes are dropped.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from coordinator.cli.sources.exact_json_codec import pieces_of
from coordinator.cli.sources.source import SourceError, shown

_KINDS: Final = {
    bool: "boolean",
    int: "integer",
    str: "text",
    float: "number",
    list: "list",
    dict: "json",
}


def plain(value: Any) -> Any:
    """Return a value in JSON types; None if it is dropped."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        if not value.is_finite():
            return None
        whole = value.to_integral_value()
        if value == whole:
            return plain(int(value)) if abs(value) < 2**64 else format(whole, "f")
        number = float(value)
        return number if math.isfinite(number) else format(value, "f")
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        members = {str(name): plain(inner) for name, inner in value.items()}
        return {name: inner for name, inner in members.items() if inner is not None}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [inner for inner in map(plain, value) if inner is not None]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return None
    if isinstance(value, uuid.UUID):
        return str(value)
    return str(value)


def kind_of(value: Any) -> str:
    """Return the kind of a value, as `Column.kind` has it; that of a null is unknown."""
    if isinstance(value, (datetime.datetime, datetime.date)):
        return "date"
    if isinstance(value, (float, decimal.Decimal)):
        return "number"
    shown = plain(value)
    return _KINDS.get(type(shown), "not loaded" if value is not None else "null")


def example_of(value: Any) -> str:
    """Return a value as an example of its column: as it is stored."""
    stored = plain(value)
    if stored is None:
        return ""
    text = stored if isinstance(stored, str) else json.dumps(stored, ensure_ascii=False)
    return shown(text)


def id_name(names: Sequence[str], wanted: str | None, what: str) -> str | None:
    """Return the column that holds the ids.

    Raises:
        SourceError: there is no column of the wanted name.
    """
    if wanted is not None:
        if wanted not in names:
            raise SourceError(
                f"--id-field: {what} has no column {wanted!r}; its columns are {', '.join(names)}"
            )
        return wanted
    named = [name for name in names if name.lower() == "id"]
    return named[0] if len(named) == 1 else None


def to_items(rows: Iterable[Mapping[str, Any]], id_column: str | None) -> Iterator[bytes]:
    """Yield rows as items, one per line, in pieces."""
    return pieces_of(_item(row, id_column) for row in rows)


def _item(row: Mapping[str, Any], id_column: str | None) -> dict[str, Any]:
    """Return a row as an item, with its id."""
    item: dict[str, Any] = plain(row)
    if id_column is not None and id_column in item:
        value = item[id_column]
        is_id = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
        item["id"] = value if is_id or isinstance(value, str) else str(value)
        if id_column.lower() == "id" and id_column != "id":
            del item[id_column]
    return item
