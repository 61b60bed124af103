"""Kernels with every kind of argument and result, for tests of the build."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import (
    I8,
    U8,
    U64,
    I32Array,
    I64Array,
    ReadOnly,
    Rows,
    U8Array,
    U32Array,
)


@arguments
class Series(NamedTuple):
    starts: I64Array
    values: U8Array
    factors: Rows[np.float64]
    offset: int


@arguments
class Pair(NamedTuple):
    left: Series
    right: Series
    rest: I64Array


Values = TypeVar("Values", U8Array, I64Array, ReadOnly[U32Array])


@kernel
def total(values: Values) -> int:
    """Add up."""
    result = 0
    for value in values:
        result += value
    return result


@kernel
def scalars(
    signed: int, unsigned: U64, small: U8, tiny: I8, flag: bool, real: float
) -> tuple[int, U64, U8, I8, bool, float]:
    return signed, unsigned, small, tiny, flag, real


@kernel
def fill(values: I64Array, value: int) -> None:
    values[:] = value


@kernel
def ramps(count: int) -> tuple[I32Array, Rows[np.float64], Rows[np.float64]]:
    flat = np.empty(count, np.int32)
    rows = np.zeros((count, 2))
    for i in range(count):
        flat[i] = i
        rows[i, 1] = i
    return flat, rows[: count // 2], rows


@kernel
def corner(rows: Rows[np.float64]) -> float:
    return rows[len(rows) - 1, rows.shape[1] - 1]


@kernel
def arrange(values: I64Array) -> None:
    values.sort()


@kernel
def same(values: I64Array) -> I64Array:
    return values


@kernel
def spin(count: int) -> int:
    state = 1
    for _ in range(count):
        state = (state * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return state


@kernel
def weigh(before: float, series: Series, row: int) -> float:
    result = before + series.offset
    for i in range(series.starts[row], series.starts[row + 1]):
        result += series.values[i] * series.factors[row, 1]
    return result


@kernel
def scaled(series: Series, factor: int) -> tuple[I64Array, int]:
    result = np.empty(len(series.values), np.int64)
    for i in range(len(result)):
        result[i] = series.values[i] * factor
    return result, series.offset


@kernel
def weigh_pair(pair: Pair, row: int) -> int:
    return pair.left.values[row] * pair.right.offset + len(pair.rest)


@kernel
def values_of(series: Series) -> U8Array:
    return series.values


@kernel
def element(values: I64Array, place: int) -> int:
    return values[place]


@kernel(inline=True, allocates=False)
def doubled(values: I64Array, place: int) -> int:
    return element(values, place) * 2
