"""Sizes of cache keys: part of what a value is charged for, since a query may have many words."""

from __future__ import annotations

import sys
from typing import Final

from msgspec import Struct, structs

_STR_BYTES: Final = 49
"""Of a text, beside its characters: one byte each (other than ASCII 2 or 4, not counted)."""


def bytes_of(part: object) -> int:
    """Return about how many bytes a key takes, or a part of one."""
    if isinstance(part, Struct):
        part = structs.astuple(part)
    if isinstance(part, tuple):
        # A filter may have a thousand values: `getsizeof` for each takes 3 to 5 times as long.
        sizes = [_STR_BYTES + len(one) if isinstance(one, str) else bytes_of(one) for one in part]
        return sys.getsizeof(part) + sum(sizes)
    return sys.getsizeof(part)
