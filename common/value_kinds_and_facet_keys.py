"""The values of items, and the canonical text by which facets, filters and keys name each.

The coordinator (filters), the shards (facet dictionaries; `shard.segment.items` has the same rules
as kernels) and the test oracle must all agree on the text of a value, so the rules are here:

    "drama"              → drama       unchanged; the empty text has none, nor has one of more than
                                       FACET_KEY_BYTES_MAX bytes (such a text is searched, no more)
    true, false          → true, false
    1994, -0             → 1994, 0
    9.0, 9.50, 1e3       → 9, 9.5, 1000      shortest text that gives the same double
    1e21, 1e-7           → 1e+21, 1e-07      with an exponent where Python's repr has one,
                                             whole numbers from 1e21 on
    null, [], {}, nested → nothing
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

WHOLE_FLOAT_MAX: Final = 1e21
"""Whole doubles below this are written without exponent, as JavaScript does; clients compare such
texts."""

INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**64 - 1
"""Integers between these are exact everywhere; what lies beyond them is read as a double."""

FACET_KEY_BYTES_MAX: Final = 32_766
"""UTF-8 bytes of the longest text that is a value: counted, filtered, sorted and grouped by.

Columns are derived from items and must be the same on all shards and hosts, so this is not a
setting. It is the longest term of Lucene.
"""

NO_TOKEN: Final = 2**64 - 1
"""The token of a missing value, where 64-bit tokens represent values
(`shard.segment.columns.grouping_keys`)."""


class ValueKind(IntEnum):
    """The type of a leaf value."""

    STRING = 0
    INTEGER = 1
    FLOAT = 2
    TRUE = 3
    FALSE = 4
    NULL = 5
    EMPTY_ARRAY = 6
    EMPTY_OBJECT = 7


class Shape(IntEnum):
    """How a value belongs to its key."""

    SCALAR = 0
    """The value of its key, reached through objects only: there is one in an item."""
    ELEMENT = 1
    """An element of the array that is the key's value, or a value inside an object of an array: one
    of many."""
    NESTED = 2
    """Inside an array of an array: searchable, but no facet value."""


def number_text(value: int | float) -> str:
    """Return the canonical text of a number that is not a boolean."""
    if isinstance(value, float):
        if not (value.is_integer() and abs(value) < WHOLE_FLOAT_MAX):
            return repr(value)
        value = int(value)
    return str(value)


def facet_key(value: Any) -> str | None:
    """Return the text that names a JSON value among the values of a facet.

    Args:
        value: a decoded JSON value.

    Returns:
        The text; None for null, empty text, arrays and objects. No item has one that is longer than
        `FACET_KEY_BYTES_MAX`.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return number_text(value)
        case str():
            return value or None
        case _:
            return None
