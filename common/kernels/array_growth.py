"""Larger copies of full arrays, for kernels whose output outgrows what they have allocated.

They copy value by value: for each slice assignment numba also compiles the formatting of its error
message (arrays of different lengths), which takes half a second of every build.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import I64Array, Rows, U8Array, U16Array, U32Array, U64Array

Numbers = TypeVar("Numbers", U8Array, U16Array, U32Array, U64Array, I64Array)


@kernel
def grown(array: Numbers, size: int) -> Numbers:
    """Return a copy of an array with `size` values: its own, then undefined ones."""
    copied = np.empty(size, array.dtype)
    for i in range(len(array)):
        copied[i] = array[i]
    return copied


@kernel
def grown_rows(array: Rows[np.int64], size: int) -> Rows[np.int64]:
    """Return a copy of an array of rows with `size` rows: its own, then undefined ones."""
    width = array.shape[1]
    copied = np.empty((size, width), np.int64)
    for i in range(len(array)):
        for j in range(width):
            copied[i, j] = array[i, j]
    return copied
