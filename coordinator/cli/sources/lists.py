"""Which character divides the cells of a column into the parts of lists (pure).

red|oak      |     parts that recur in other cells: a list of tags
Sea; a tale        parts that do not: a text
"""

from __future__ import annotations

from collections import Counter
from typing import Final

SEPARATORS: Final = ("|", ";")
PARTS_MAX: Final = 2_000
"""Distinct parts of a column's lists; a column with more is taken for a text."""
PART_CHARS_MAX: Final = 60
REPEATED_MIN: Final = 2
"""How often a part must occur on average."""


class ListSeparator:
    """Finds the separator of one column, cell by cell."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: dict[str, Counter[str]] = {one: Counter() for one in SEPARATORS}

    def add(self, text: str) -> None:
        """Take a cell into account."""
        for separator, parts in tuple(self._parts.items()):
            if separator in text:
                found = [part.strip() for part in text.split(separator)]
                parts.update(found)
                if len(parts) > PARTS_MAX or max(map(len, found)) > PART_CHARS_MAX:
                    del self._parts[separator]

    def found(self) -> tuple[str, list[str]]:
        """Return the separator and the most frequent parts; "" if the cells are no lists."""
        for separator, parts in self._parts.items():
            parts.pop("", None)
            if parts and parts.total() >= REPEATED_MIN * len(parts):
                return separator, [part for part, _ in parts.most_common(3)]
        return "", []
