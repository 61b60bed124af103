"""Which fields a search searches, of those that it names (pure).

The setting `searchable_fields` decides which fields' words are in the index, so a search in another
field would find nothing. A field covers what is inside it: `author` covers `author.name`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from common.search_option_parsers import (
    ALL_FIELDS,
    EVERY_FIELD,
    WEIGHT_MAX,
    SearchableField,
    all_fields_last,
)
from coordinator.parameters.parsed_parameters import overlap

_LISTED_CHARS_MAX: Final = 300


def searched_fields(
    named: Sequence[SearchableField], searchable: Sequence[SearchableField] | None
) -> tuple[SearchableField, ...] | None:
    """Return the fields that a search searches, each before those that it overrides; None: all.

    "*" stands for all that the configuration searches and the request does not name, with the
    weights of the configuration, times that of "*".

    Args:
        named: `search_fields` of a request.
        searchable: those of the configuration; None: every text is searched.
    """
    *fields, last = all_fields_last(named)
    if last.path != ALL_FIELDS:
        return (*fields, last)
    configured = (EVERY_FIELD,) if searchable is None else searchable
    others = [
        SearchableField(one.path, min(one.weight * last.weight, WEIGHT_MAX)) for one in configured
    ]
    return None if [*fields, *others] == [EVERY_FIELD] else (*fields, *others)


def unsearched(
    named: Sequence[SearchableField], searchable: Sequence[SearchableField] | None
) -> list[str]:
    """Return the paths in which a search finds nothing, whatever the items have there.

    Args:
        named: `search_fields` of a request.
        searchable: those of the configuration; None: every text is searched.
    """
    if searchable is None:
        return []
    return [
        one.path
        for one in named
        if not any(_searches_some_of(one.path, it.path) for it in searchable)
    ]


def not_searched(path: str, searchable: Sequence[SearchableField]) -> str:
    """Say that a field is not searched, and which are."""
    listed = ", ".join(one.path for one in searchable) or "none"
    if len(listed) > _LISTED_CHARS_MAX:
        listed = f"{listed[:_LISTED_CHARS_MAX]}, …"
    return (
        f"names {path[:100]!r}, which searchable_fields of the configuration leaves out of every "
        f"search; it has {listed}"
    )


def _searches_some_of(one: str, other: str) -> bool:
    return ALL_FIELDS in (one, other) or overlap(one, other)
