"""Sizes of cache keys: part of what a value is charged for, since a query may have many words."""

from __future__ import annotations

import sys
from typing import Final

from msgspec import Struct, structs

_STR_BYTES: Final = 49
"""Of a text, beside its characters: one byte each (other than ASCII 2 or 4, not counted)."""
_TUPLE_BYTES: Final = 40
_SLOT_BYTES: Final = 32
"""Of a member: its pointer, and what a number takes."""


def bytes_of(part: object) -> int:
    """Return about how many bytes a key takes, or a part of one."""
    if isinstance(part, Struct):
        part = structs.astuple(part)
    if not isinstance(part, tuple):
        return sys.getsizeof(part)
    size = _TUPLE_BYTES + _SLOT_BYTES * len(part)
    for one in part:
        # Most parts of a word are numbers or empty, and a filter may have a thousand texts.
        if isinstance(one, str):
            size += _STR_BYTES + len(one)
        elif one and not isinstance(one, int):
            size += bytes_of(one)
    return size
