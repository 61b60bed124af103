"""Which known name an unknown one was probably meant to be.

Comparing two names takes a tenth of a millisecond, more if they are long, and there may be a
thousand known ones while other requests wait. So of more than a few, only those are compared that
share the most letters, and pairs of letters, with the unknown one; these are counted in arrays, all
at once: a thousand names of 60 letters take 0.6 ms.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KNOWN_LETTERS_MAX: Final = 200_000
"""Letters of all known names, two milliseconds; those that follow are left out."""
COMPARED_MAX: Final = 20
FEW_MAX: Final = 64
FEW_COST_MAX: Final = 4_000
"""Up to this many names, of this cost, are all compared, in a millisecond: to say that there is no
such command takes no numpy."""
GUESSES_MAX: Final = 10
"""Unknown names of a request for which the one meant is looked for."""
COMPARED_COST_MAX: Final = 20_000
"""Products of the lengths of compared names, added up: a millisecond."""
_CODES: Final = 1 << 12
"""Pairs of letters are told apart by a code below this; a few share one."""


def did_you_mean(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return "; did you mean …?", as the end of an error message; empty if no name is near."""
    near = nearest_name(name, known, likeness)
    return "" if near is None else f"; did you mean {near}?"


def nearest_name(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the known name that is most like an unknown one; None if no name is near.

    A name that differs in case alone is the nearest.

    Args:
        name: unknown.
        known: the names there are; empty ones are never meant.
        likeness: the least, from 0 to 1 (`difflib.SequenceMatcher.ratio`).
    """
    names: list[str] = []
    num_letters = 0
    for one in filter(None, known):
        num_letters += len(one)
        if num_letters > KNOWN_LETTERS_MAX:
            break
        names.append(one)
    other_case = (one for one in names if one != name and one.casefold() == name.casefold())
    if (same := next(other_case, None)) is not None:
        return same
    if len(names) > FEW_MAX or num_letters * len(name) > FEW_COST_MAX:
        names = _likely(name, names)
    costs = accumulate(len(name) * len(one) for one in names)
    compared = [one for one, cost in zip(names, costs, strict=True) if cost <= COMPARED_COST_MAX]
    near = difflib.get_close_matches(name, compared or names[:1], n=1, cutoff=likeness)
    return near[0] if near else None


def _likely(name: str, known: Sequence[str]) -> list[str]:
    """Return the names that share the most letters and pairs of letters with one, best first."""
    import numpy as np

    def letters(text: str) -> NDArray[np.uint32]:
        return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")

    def pairs(letters: NDArray[np.uint32]) -> NDArray[np.uint32]:
        return (letters[:-1] * 31 + letters[1:]) % _CODES

    own, others = letters(name), letters("".join(known))
    has_letter, has_pair = np.zeros(_CODES, bool), np.zeros(_CODES, bool)
    has_letter[own % _CODES] = True
    has_pair[pairs(own)] = True
    lengths = np.array([len(one) for one in known])
    ends = np.cumsum(lengths)
    shared = has_letter[others % _CODES].astype(np.uint8)
    found = has_pair[pairs(others)]
    found[ends[:-1] - 1] = False  # pairs of two names
    shared[:-1] += found
    counts = np.add.reduceat(shared, ends - lengths, dtype=np.int64)
    likeness = counts / (lengths + len(name))
    best = np.argsort(-likeness, kind="stable")[:COMPARED_MAX]
    return [known[place] for place in best.tolist()]
