"""Key arenas of given keys."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from common.key_arena import KeyArena


def arena_of(keys: Iterable[bytes]) -> KeyArena:
    """Return an arena of some keys."""
    listed = list(keys)
    offsets = np.cumsum([0, *map(len, listed)], dtype=np.int64)
    return KeyArena(np.frombuffer(bytearray(b"".join(listed)), np.uint8), offsets)
