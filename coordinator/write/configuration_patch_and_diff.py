"""Configuration documents: merge patches, differences, and empty lists for objects (pure).

document {"aggregations": {"tags": {}, "year": {}}, "typo": 0}
patch    {"aggregations": {"year": null, "genre": {}}}           JSON Merge Patch, RFC 7396
merged   {"aggregations": {"tags": {}, "genre": {}}, "typo": 0}
changes  aggregations.genre: null -> {}, aggregations.year: {} -> null
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_OBJECTS: Final = frozenset(
    (
        "aggregations",
        "algolia",
        "boost",
        "display",
        "field_collations",
        "field_languages",
        "field_typo_lengths",
        "hierarchies",
        "ranking",
        "suggestions",
    )
)
"""Settings that are objects."""


def with_empty_objects(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document, or patch, with {} where [] is given for an object of settings.

    Some languages, such as PHP, encode an empty object as an empty list.
    """
    result = {
        name: {} if name in _OBJECTS and value == [] else value for name, value in document.items()
    }
    facets = result.get("aggregations")
    if isinstance(facets, dict):
        result["aggregations"] = {
            name: {} if options == [] else options for name, options in facets.items()
        }
    return result


def merged(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with a merge patch applied; neither argument is modified.

    Args:
        document: the current one.
        patch: objects are merged member by member, null removes, anything else replaces.
    """
    result = dict(document)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            inner = result.get(name)
            result[name] = merged(inner if isinstance(inner, dict) else {}, value)
        else:
            result[name] = value
    return result


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the differences by path: `{"path", "before", "after"}`, null where absent.

    Two objects are compared member by member, anything else as a whole.
    """
    return list(_changes(before, after, ""))


def _changes(
    before: Mapping[str, Any], after: Mapping[str, Any], prefix: str
) -> Iterator[dict[str, Any]]:
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        path = f"{prefix}{name}"
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _changes(old, new, f"{path}.")
        elif old != new or isinstance(old, bool) != isinstance(new, bool):
            yield {"path": path, "before": old, "after": new}


def removals(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return a warning for each setting that the old configuration had and the new one lacks.

    A client that posts a single setting may well mean to change only that one.
    """
    return [
        f"{name} was configured before and is not any more: this document replaces the whole "
        f"configuration; PATCH merges instead"
        for name, value in before.items()
        if value not in ({}, [], None) and name not in after
    ]
