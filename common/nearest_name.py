"""Which known name an unknown one was probably meant to be.

Comparing two names takes a tenth of a millisecond, and there may be a thousand known ones while
other requests wait. So only those are compared that share the most letters, and pairs of letters,
with the unknown one.
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable
from typing import Final

COMPARED_MAX: Final = 20


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return "; did you mean …?", or nothing."""
    parts = _parts(name)

    def shared(other: str) -> float:
        others = _parts(other)
        return len(parts & others) / (len(parts) + len(others) or 1)

    likely = heapq.nlargest(COMPARED_MAX, known, key=shared)
    near = difflib.get_close_matches(name, likely, n=1, cutoff=likeness)
    return f"; did you mean {near[0]}?" if near else ""


def _parts(name: str) -> set[str]:
    """Return the letters of a name, and the pairs of them that stand together."""
    return {*name, *map(str.__add__, name, name[1:])}
