"""The strings of a decoded document, with the paths of their fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def texts_of(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and text of every string, in document order.

    Args:
        value: a decoded JSON value.
        path: of the value: the keys from the top, joined by "."; arrays add nothing.
    """
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from texts_of(child, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for child in value:
            yield from texts_of(child, path)
