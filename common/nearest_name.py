"""Which known name an unknown one was probably meant to be.

Comparing two names takes a tenth of a millisecond, more if they are long, and there may be a
thousand known ones while other requests wait. So only those are compared that share the most
letters, and pairs of letters, with the unknown one; among many, all at once, they are counted in
arrays: a thousand names of 60 letters take 0.6 ms.
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
GUESSES_MAX: Final = 10
"""Unknown names of a request for which the one meant is looked for."""
COMPARED_COST_MAX: Final = 20_000
"""Products of the lengths of compared names, added up: a millisecond."""
_CODES: Final = 1 << 12
"""Pairs of letters are told apart by a code below this; a few share one."""


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return "; did you mean …?", or nothing."""
    names: list[str] = []
    num_letters = 0
    for one in filter(None, known):
        num_letters += len(one)
        if num_letters > KNOWN_LETTERS_MAX:
            break
        names.append(one)
    other_case = (one for one in names if one != name and one.casefold() == name.casefold())
    if (same := next(other_case, None)) is not None:
        return f"; did you mean {same}?"
    if len(names) > COMPARED_MAX:
        names = _likely(name, names)
    costs = accumulate(len(name) * len(one) for one in names)
    compared = [one for one, cost in zip(names, costs, strict=True) if cost <= COMPARED_COST_MAX]
    near = difflib.get_close_matches(name, compared or names[:1], n=1, cutoff=likeness)
    return f"; did you mean {near[0]}?" if near else ""


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
