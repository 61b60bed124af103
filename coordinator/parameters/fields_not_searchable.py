"""Which of the fields that a search names are searched at all (pure).

The setting `searchable_fields` decides which fields' words are in the index, so a search in another
field would find nothing. A field covers what is inside it: `author` covers `author.name`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from common.search_option_parsers import SearchableField

_LISTED_CHARS_MAX: Final = 300


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
    return [one.path for one in named if not any(_overlap(one.path, it.path) for it in searchable)]


def not_searched(path: str, searchable: Sequence[SearchableField]) -> str:
    """Say that a field is not searched, and which are."""
    listed = ", ".join(one.path for one in searchable) or "none"
    if len(listed) > _LISTED_CHARS_MAX:
        listed = f"{listed[:_LISTED_CHARS_MAX]}, …"
    return (
        f"names {path[:100]!r}, which searchable_fields of the configuration leaves out of every "
        f"search; it has {listed}"
    )


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")
