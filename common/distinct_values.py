"""Distinct values of arrays, found by sorting.

Since numpy 2.3, `numpy.unique` without further results hashes numbers: 2.9 instead of 0.5 ms for
35,000 unsigned 64-bit integers, 510 instead of 19 ms for a million (2026-11-30, AMD EPYC with other
work).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Scalar = TypeVar("_Scalar", bound=np.generic)


def distinct_values(values: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Return the different values of an array, ascending. Not-a-numbers are all different."""
    ordered = np.sort(values)
    return ordered[starts_run(ordered)]


def starts_run(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each element of an array differs from the one before it, as the first does."""
    starts = np.empty(len(ordered), np.bool_)
    starts[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=starts[1:])
    return starts
