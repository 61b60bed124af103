"""The values of an item, as filters, facets and orders see them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from common.value_kinds_and_facet_keys import FACET_KEY_BYTES_MAX, facet_key

Item = dict[str, Any]


Json = dict[str, Any]


def leaves(value: Any, path: str = "", arrays: int = 0, way: int = 0) -> Iterator[tuple[Any, ...]]:
    """Yield (path, value, shape) of all that holds no further value: 0 scalar, 1 of many, 2 nested.

    `arrays` counts those between the value and its key, `way` those before (2 means two in a row).
    """
    if isinstance(value, dict) and (value or not path):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key, 0, max(way, min(arrays, 2)))
    elif isinstance(value, list) and value:
        for inner in value:
            yield from leaves(inner, path, arrays + 1, way)
    else:
        yield path, value, 2 if arrays > 1 else max(way, arrays)


NUM_KEPT_MAX = 20_000
_kept: dict[int, tuple[Item, dict[str, list[tuple[Any, ...]]]]] = {}
"""Items with their leaves by path; items are never changed, and each search asks for all."""


def leaves_at(item: Item, name: str) -> list[tuple[Any, ...]]:
    """Return (value, shape) of the leaves of a path."""
    if id(item) not in _kept:
        if len(_kept) == NUM_KEPT_MAX:
            _kept.clear()
        by_path: dict[str, list[tuple[Any, ...]]] = {}
        for path, value, shape in leaves(item):
            by_path.setdefault(path, []).append((value, shape))
        _kept[id(item)] = (item, by_path)  # while an item is kept, no other one has its id
    return _kept[id(item)][1].get(name, [])


def values_of(item: Item, name: str) -> list[Any]:
    """Return the values that an item has for filters and facets."""
    return [value for value, shape in leaves_at(item, name) if shape < 2 and not is_too_long(value)]


def keys_of(item: Item, name: str) -> set[str]:
    """Return the facet values of an item."""
    return {key for value in values_of(item, name) if (key := facet_key(value)) is not None}


def is_too_long(value: Any) -> bool:
    """Return whether a text is too long to be more than searched."""
    return isinstance(value, str) and len(value.encode()) > FACET_KEY_BYTES_MAX


def exists(item: Item, name: str) -> bool:
    """Return whether the field, or anything inside it, is there and not null.

    An object is there by its members, so one of fields that are null is, and an array of nulls not.
    """
    found = [(path, value) for path, value, _ in leaves(item)]
    return any(path == name and value is not None for path, value in found) or any(
        path.startswith(f"{name}.") for path, _ in found
    )


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def compact(item: Item) -> str:
    """Return an item as a text that equal items share."""
    return json.dumps(item, sort_keys=True, ensure_ascii=False)
