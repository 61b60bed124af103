"""Larger copies of full arrays, for kernels that find more than they allocated room for.

They copy value by value. An assignment of slices would do the same, but numba compiles its error
message for arrays of different lengths, with numbers put into text, into every kernel that has one:
half a second of a build each.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import I64Array, Rows, U8Array, U16Array, U32Array, U64Array

Numbers = TypeVar("Numbers", U8Array, U16Array, U32Array, U64Array, I64Array)


@kernel
def with_room(array: Numbers, size: int) -> Numbers:
    """Return a copy of an array with room for `size` values, which are at least its own."""
    copied = np.empty(size, array.dtype)
    for i in range(len(array)):
        copied[i] = array[i]
    return copied


@kernel
def rows_with_room(array: Rows[np.int64], size: int) -> Rows[np.int64]:
    """Return a copy of an array of rows with room for `size` of them, at least its own."""
    width = array.shape[1]
    copied = np.empty((size, width), np.int64)
    for i in range(len(array)):
        for j in range(width):
            copied[i, j] = array[i, j]
    return copied
