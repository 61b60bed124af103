"""Elements of arrays of objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.oracle.filters import is_conjunctive, passes
from tests.oracle.items import Item, Json


def reached(value: Any, path: str, arrays: int = 0, way: int = 0) -> Iterator[tuple[Any, int]]:
    """Yield what stands at a path, and how deep in arrays its key stood: 0, 1, or 2 for deeper."""
    if isinstance(value, list):
        for inner in value:
            yield from reached(inner, path, arrays + 1, way)
    elif isinstance(value, dict):
        way = max(way, min(arrays, 2))
        for key, inner in value.items():
            if key == path:
                yield inner, way
            elif path.startswith(f"{key}."):
                yield from reached(inner, path[len(key) + 1 :], 0, way)


def elements_of(item: Item, path: str) -> list[Item]:
    """Return the elements of a field; one that is not an object has no fields.

    Those of an array in an array have fields, whose values lie too deep to be compared.
    """
    elements: list[Item] = []

    def add(value: Any, arrays: int, way: int) -> None:
        if isinstance(value, list):
            for inner in value:
                add(inner, arrays + 1, way)
        elif isinstance(value, dict):
            is_deep = max(arrays, way) > 1
            elements.append({key: [[one]] for key, one in value.items()} if is_deep else value)
        elif arrays or way:
            elements.append({})

    for value, way in reached(item, path):
        add(value, 0, way)
    return elements


def element_passes(element: Item, wanted: Json, facets: Json) -> bool:
    """Return whether one element has what `same` asks for."""
    return all(
        passes(element, name, one, any_will_do=not is_conjunctive(facets.get(name)))
        for name, one in wanted.items()
    )
