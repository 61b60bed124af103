"""`distinct`: the best hits of each value."""

from __future__ import annotations

from typing import Any

from tests.oracle.items import Item, is_number, is_too_long, leaves_at


def group_of(hits: list[Item], item: Item, field: str) -> list[Item]:
    """Return the hits of the same value as one of them, in order; without a value itself."""
    value = distinct_value(item, field)
    return [one for one in hits if distinct_value(one, field) == value] if value else [item]


def distinct_of(found: list[Item], field: str, limit: int = 1, **_: Any) -> list[Item]:
    """Return the hits that are among the best `limit` of their value; all without a value."""
    num_better: dict[frozenset[tuple[str, Any]], int] = {}
    left = []
    for item in found:
        key = distinct_value(item, field)
        if not key or num_better.get(key, 0) < limit:
            left.append(item)
        num_better[key] = num_better.get(key, 0) + 1
    return left


def distinct_value(item: Item, name: str) -> frozenset[tuple[str, Any]]:
    """Return what tells items apart: the set of the field's values, each with its type.

    The empty text is a value only where it stands alone and in no array.
    """
    found = [(value, shape) for value, shape in leaves_at(item, name) if shape < 2]
    values = [
        value
        for value, _ in found
        if value is not None and not isinstance(value, dict | list) and not is_too_long(value)
    ]
    if any(value != "" for value in values) or any(shape for _, shape in found):
        values = [value for value in values if value != ""]
    return frozenset(
        ("number" if is_number(value) else type(value).__name__, value) for value in values
    )


def sole_value(item: Item, name: str) -> Any:
    """Return the value of a field that has one; None for an array, and for several values."""
    is_array = any(shape > 0 for _, shape in leaves_at(item, name))
    values = distinct_value(item, name)
    return None if is_array or len(values) != 1 else next(iter(values))[1]
