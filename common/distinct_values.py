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
    return without_repeats(np.sort(values))


def without_repeats(ordered: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Return each value of an ascending array once."""
    return ordered[starts_run(ordered)]


def counted_runs(ordered: NDArray[_Scalar]) -> tuple[NDArray[_Scalar], NDArray[np.int64]]:
    """Return each value of an ascending array once, and how many times it is there."""
    starts = np.flatnonzero(starts_run(ordered))
    return ordered[starts], np.diff(starts, append=len(ordered))


def starts_run(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each row of some columns differs from the one before it, as the first does."""
    starts = np.zeros(len(columns[0]), np.bool_)
    starts[:1] = True
    for column in columns:
        starts[1:] |= column[1:] != column[:-1]
    return starts
