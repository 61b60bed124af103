"""The strings of a decoded document, with the paths of their fields."""

from __future__ import annotations

from typing import Any


def texts_of(value: Any, path: str = "") -> list[tuple[str, str]]:
    """Return path and text of every string, in document order.

    Args:
        value: a decoded JSON value.
        path: of the value: the keys from the top, joined by "."; arrays add nothing.
    """
    found: list[tuple[str, str]] = []
    _add_texts(value, path, found)
    return found


def _add_texts(value: Any, path: str, found: list[tuple[str, str]]) -> None:
    if isinstance(value, str):
        found.append((path, value))
    elif isinstance(value, dict):
        for key, child in value.items():
            if isinstance(child, str | dict | list):
                _add_texts(child, f"{path}.{key}" if path else key, found)
    elif isinstance(value, list):
        for child in value:
            _add_texts(child, path, found)
