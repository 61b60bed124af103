"""Orders: texts in a language, hits by a field."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

from tests.oracle.distinct import sole_value
from tests.oracle.items import Item

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


def sorted_by(
    items: list[Item], name: str, is_descending: bool, collation: str = "none"
) -> list[Item]:
    """Order by a scalar field: numbers, texts, booleans; without value last in both directions.

    An array, and several values under both spellings of a path, are no value to sort by.
    """

    def sort_key(item: Item) -> tuple[int, Any] | None:
        match sole_value(item, name):
            case bool(value):
                return (2, value)
            case int(value) | float(value):
                return (0, value)
            case str(value):
                return (1, by_text(value))
        return None

    by_text = text_order(collation)
    keyed = [(key, item) for item in items if (key := sort_key(item)) is not None]
    # Ties keep their order in both directions: sorted() is stable, in reverse too.
    keyed.sort(key=lambda pair: pair[0], reverse=is_descending)
    return [item for _, item in keyed] + [item for item in items if sort_key(item) is None]
