"""Which known name an unknown one was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return "; did you mean …?", or nothing."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=likeness)
    return f"; did you mean {near[0]}?" if near else ""
