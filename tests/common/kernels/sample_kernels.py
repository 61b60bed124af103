"""Kernels with every kind of argument and result, for tests of the build."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.kernels.decorator import Rows, arguments, kernel


@arguments
class Series(NamedTuple):
    starts: NDArray[np.int64]
    values: NDArray[np.uint8]
    factors: Rows[np.float64]
    offset: int


@arguments
class Pair(NamedTuple):
    left: Series
    right: Series
    rest: NDArray[np.int64]


@kernel(["int64(uint8[::1])", "int64(int64[::1])", "int64(Array(uint32, 1, 'C', readonly=True))"])
def total(values: Any) -> Any:
    """Add up."""
    result = 0
    for value in values:
        result += value
    return result


@kernel("(int64, uint64, uint8, int8, boolean, float64)")
def scalars(signed: Any, unsigned: Any, small: Any, tiny: Any, flag: Any, real: Any) -> Any:
    return signed, unsigned, small, tiny, flag, real


@kernel("void(int64[::1], int64)")
def fill(values: Any, value: Any) -> None:
    values[:] = value


@kernel("(int64,)")
def ramps(count: Any) -> Any:
    flat = np.empty(count, np.int32)
    rows = np.zeros((count, 2))
    for i in range(count):
        flat[i] = i
        rows[i, 1] = i
    return flat, rows[: count // 2], rows


@kernel("float64(float64[:, ::1])")
def corner(rows: Any) -> Any:
    return rows[len(rows) - 1, rows.shape[1] - 1]


@kernel("void(int64[::1])")
def arrange(values: Any) -> None:
    values.sort()


@kernel("int64[::1](int64[::1])")
def same(values: Any) -> Any:
    return values


@kernel("int64(int64)")
def spin(count: Any) -> Any:
    state = 1
    for _ in range(count):
        state = (state * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return state


@kernel("float64(float64, Series, int64)")
def weigh(before: Any, series: Any, row: Any) -> Any:
    result = before + series.offset
    for i in range(series.starts[row], series.starts[row + 1]):
        result += series.values[i] * series.factors[row, 1]
    return result


@kernel("(Series, int64)")
def scaled(series: Any, factor: Any) -> Any:
    result = np.empty(len(series.values), np.int64)
    for i in range(len(result)):
        result[i] = series.values[i] * factor
    return result, series.offset


@kernel("int64(Pair, int64)")
def weigh_pair(pair: Any, row: Any) -> Any:
    return pair.left.values[row] * pair.right.offset + len(pair.rest)


@kernel("(Series,)")
def values_of(series: Any) -> Any:
    return series.values


@kernel("int64(int64[::1], int64)")
def element(values: Any, place: Any) -> Any:
    return values[place]


@kernel("int64(int64[::1], int64)", inline=True, allocates=False)
def doubled(values: Any, place: Any) -> Any:
    return element(values, place) * 2
