"""Orders: texts in a language, hits by a field."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.oracle.distinct import sole_value
from tests.oracle.items import Item, Json

_KINDS = (" -,.'+", "0123456789", "abcdefghijklmnopqrstuvwxyz")
"""Those characters of the made-up texts that are not Kana or Han, in their order."""


def text_order(collation: str) -> Callable[[str], Any]:
    """Return what texts are compared by: Unicode's order, for the letters that are made up."""
    language, _, numeric = collation.partition("+")

    def key(text: str) -> Any:
        if language == "none":
            return text
        primaries: list[Any] = []
        accents: list[Any] = []
        cases: list[Any] = []
        for one in unicodedata.normalize("NFC", text).replace("ß", "ss").replace("ﬁ", "f\x01i\x01"):
            base, *marks = list(unicodedata.normalize("NFD", one))
            if base == "\x01":
                cases[-1] = 1
                continue
            low = base.lower()
            kind = next((i for i, known in enumerate(_KINDS) if low in known), 3)
            primaries.append((kind, _KINDS[kind].index(low) if kind < 3 else ord(low)))
            accents.append(tuple(marks))
            cases.append(2 if base != low else 0)
        if numeric:
            primaries, accents, cases = numbers_joined(primaries, accents, cases)
        return primaries, accents, cases, text

    return key


def numbers_joined(*levels: list[Any]) -> tuple[list[Any], ...]:
    """Return the levels of a text with each run of digits as one number."""
    joined: tuple[list[Any], ...] = ([], [], [])
    was_digit = False
    for primary, accent, case in zip(*levels, strict=True):
        is_digit = primary[0] == 1
        if is_digit and was_digit:
            joined[0][-1] = (1, joined[0][-1][1] * 10 + primary[1])
        else:
            for level, one in zip(joined, (primary, accent, case), strict=True):
                level.append(one)
        was_digit = is_digit
    return joined


class SortKey(NamedTuple):
    """A key of an order."""

    name: str
    is_descending: bool = False
    is_missing_first: bool = False


def sort_keys_of(parameters: Json) -> list[SortKey]:
    """Return the fields that a search orders its hits by, the first one first."""
    if parameters.get("sort_field"):
        return [SortKey(parameters["sort_field"], parameters.get("order") == "desc")]
    keys = [key.split(":") for key in parameters.get("sort", ())]
    return [SortKey(name, "desc" in more, "missing=first" in more) for name, *more in keys]


def kind_and_value(item: Item, name: str) -> tuple[int, Any] | None:
    """Return what an item is sorted by: numbers, texts, booleans; None without a value.

    An array, and several values under both spellings of a path, are no value to sort by.
    """
    match sole_value(item, name):
        case bool(value):
            return (2, value)
        case int(value) | float(value):
            return (0, value)
        case str(value):
            return (1, value)
    return None


def sorted_by(items: list[Item], key: SortKey, collation: str = "none") -> list[Item]:
    """Order by a scalar field; without value last in both directions, if not asked for first."""

    def compared(value: tuple[int, Any]) -> tuple[int, Any]:
        return (1, by_text(value[1])) if value[0] == 1 else value

    by_text = text_order(collation)
    keyed = [(kind_and_value(item, key.name), item) for item in items]
    missing = [item for value, item in keyed if value is None]
    present = [(compared(value), item) for value, item in keyed if value is not None]
    # Ties keep their order in both directions: sorted() is stable, in reverse too.
    present.sort(key=lambda pair: pair[0], reverse=key.is_descending)
    ordered = [item for _, item in present]
    return missing + ordered if key.is_missing_first else ordered + missing
