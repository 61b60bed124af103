"""`distinct`: the best hits of each value."""

from __future__ import annotations

from typing import Any

from tests.oracle.items import Item, is_number, leaves


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
    """Return what tells items apart: the set of the field's values, each with its type."""
    found = [(value, shape) for path, value, shape in leaves(item) if path == name]
    if any(shape > 0 for _, shape in found):
        values = [value for value, shape in found if shape == 1 and value != ""]
    else:
        values = [value for value, _ in found[-1:]]
    return frozenset(
        ("number" if is_number(value) else type(value).__name__, value)
        for value in values
        if value is not None and not isinstance(value, dict | list)
    )
