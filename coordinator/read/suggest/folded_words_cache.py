"""The folded words of suggested texts; recently used ones are cached.

Each further letter usually needs the titles and items of the letter before.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import orjson

from common.analysis.analyzer import Analyzer

TEXTS_REMEMBERED_MAX: Final = 2_048
"""Texts, and as many items."""
TEXT_CHARS_REMEMBERED_MAX: Final = 500
ITEM_BYTES_REMEMBERED_MAX: Final = 4_096
"""Longer ones are folded each time, so the caches take a few megabytes at most."""


class FoldedWordsCache:
    """Folds texts and items.

    Args:
        analyzer: splits texts into words.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._words = lru_cache(TEXTS_REMEMBERED_MAX)(self._fold)
        self._words_in = lru_cache(TEXTS_REMEMBERED_MAX)(self._fold_item)

    def words(self, text: str) -> tuple[str, ...]:
        """Return the folded words of a text."""
        is_short = len(text) <= TEXT_CHARS_REMEMBERED_MAX
        return self._words(text) if is_short else self._fold(text)

    def words_in(self, item: bytes, fields: tuple[str, ...]) -> tuple[str, ...]:
        """Return the folded words of some fields of a stored item, and of their subfields."""
        is_short = len(item) <= ITEM_BYTES_REMEMBERED_MAX
        return self._words_in(item, fields) if is_short else self._fold_item(item, fields)

    def _fold(self, text: str) -> tuple[str, ...]:
        return tuple(self._analyzer.words(text))

    def _fold_item(self, item: bytes, fields: tuple[str, ...]) -> tuple[str, ...]:
        document = orjson.loads(item)
        words: list[str] = []
        for name in fields:
            for text in _texts_at(document, name, ""):
                words += self._analyzer.words(text)
        return tuple(words)


def _texts_at(value: Any, name: str, path: str) -> Iterator[str]:
    """Yield the texts of a field and its subfields.

    Args:
        value: at a path, of an item.
        name: of the field.
        path: followed by a dot if it is not empty.
    """
    if isinstance(value, list):
        for one in value:
            yield from _texts_at(one, name, path)
    elif isinstance(value, dict):
        for key, inside in value.items():
            at = f"{path}{key}"
            if at == name or at.startswith(name + "."):
                yield from _texts_inside(inside)
            elif name.startswith(at + "."):
                yield from _texts_at(inside, name, at + ".")


def _texts_inside(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for one in value if isinstance(value, list) else value.values():
            yield from _texts_inside(one)
