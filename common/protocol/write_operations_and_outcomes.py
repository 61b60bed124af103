"""Codes of write operations and of their outcomes; one byte each on the wire."""

from __future__ import annotations

from enum import IntEnum


class Operation(IntEnum):
    """The kind of a write to one item."""

    PUT = 0
    """Add, or replace where the id exists."""
    REPLACE = 1
    """Replace; the id must exist."""
    MERGE = 2
    """Shallow merge of the given fields into the stored item; the id must exist."""
    DELETE = 3
    """Remove; the id must exist."""
    UPSERT = 4
    """MERGE where the id exists, else PUT."""
    REPLACE_KEEPING_ID = 5
    """Replace; the id must exist. That of the item only names it: it keeps its stored form."""
    PUT_KEEPING_ID = 6
    """PUT; where the id exists, it keeps its stored form."""
    MERGE_CHANGES = 7
    """MERGE; values may say how to change the stored ones (`common.partial_updates`)."""
    UPSERT_CHANGES = 8
    """MERGE_CHANGES where the id exists, else PUT of what they make of nothing."""


class Outcome(IntEnum):
    """The outcome of one operation."""

    CREATED = 0
    UPDATED = 1
    DELETED = 2
    NOT_FOUND = 3
    CONFLICT = 4
    """The stored version, or record, is not the one that the precondition names."""
    INVALID = 5
    """The merged item would break a limit, or a stored value cannot be changed like that."""
    CORRUPT = 6
    """The stored item is damaged: nothing can be merged into it, or compared with it."""
    UNCHANGED = 7
    """A condition of a change does not hold: the item is unchanged."""
