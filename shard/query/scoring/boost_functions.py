"""The functions of boosts, and scores times their factors, value by value.

Every shard and machine computes the same bits: logarithm and power are additions, multiplications
and divisions of doubles, each rounded as IEEE 754 prescribes, in a fixed order. (The logarithms of
numpy and of C libraries differ in the last bit between processors.)

Cost: 5 to 20 ns a value for its factor, 2 ns to raise a score.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from common.boosts import FUNCTIONS, MILLISECONDS_MIN
from common.kernels.decorator import kernel
from common.kernels.types import F64Array, U32Array, U64Array, int64, uint64
from shard.query.scoring.bm25f import SCORE_UNIT
from shard.segment.columns.sort_keys import EMPTY_TEXT_KEY, FALSE_KEY, MISSING_KEY, plain_double
from shard.segment.doc_sets import has_bit

FACTOR_MAX: Final = 1e6

_FACTOR_UNIT: Final = 2.0**20
_LN_2: Final = 0.6931471805599453
_SQRT_HALF: Final = 0.7071067811865476
_SERIES_TERMS: Final = 9
"""Terms of the logarithm's series; the remainder is below 2^-50."""
_POWER_TERMS: Final = 16
_HALF_LIVES_MAX: Final = 64.0
_UNITS_MAX: Final = 2.0**900
"""The most units of a score: its product with one more factor is finite."""

_LOG: Final = FUNCTIONS.index("log")
_LINEAR: Final = FUNCTIONS.index("linear")
_SATURATION: Final = FUNCTIONS.index("saturation")
_DECAY: Final = FUNCTIONS.index("decay")

_EMPTY_TEXT: Final = uint64(EMPTY_TEXT_KEY)
_FALSE: Final = uint64(FALSE_KEY)
_TRUE: Final = uint64(FALSE_KEY + 1)
_MISSING: Final = uint64(MISSING_KEY)
_EXPONENT_MASK: Final = uint64(0x7FF)
_MANTISSA_MASK: Final = uint64((1 << 52) - 1)
_EXPONENT_OF_HALF: Final = uint64(1022)


@kernel(inline=True)
def _double_of(bits: int) -> float:
    """Return the double with these bits."""
    return float(np.uint64(bits).view(np.float64))


@kernel(inline=True)
def logarithm(value: float) -> float:
    """Return the natural logarithm of a normal positive double.

    With x = m · 2^e and s = (m - 1) / (m + 1): ln x = e · ln 2 + 2 (s + s^3/3 + s^5/5 + …).
    """
    bits = uint64(np.float64(value).view(np.uint64))
    exponent = int64((bits >> uint64(52)) & _EXPONENT_MASK) - 1022
    mantissa = _double_of((bits & _MANTISSA_MASK) | (_EXPONENT_OF_HALF << uint64(52)))
    # m between sqrt(1/2) and sqrt(2), so that s is small.
    if mantissa < _SQRT_HALF:
        mantissa *= 2.0
        exponent -= 1
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    total = 1.0 / (2 * _SERIES_TERMS + 1)
    for i in range(_SERIES_TERMS - 1, -1, -1):
        total = total * square + 1.0 / (2 * i + 1)
    return exponent * _LN_2 + 2.0 * ratio * total


@kernel(inline=True)
def halved(time: float) -> float:
    """Return 2^-t for t >= 0, by the series of e^x."""
    time = min(time, _HALF_LIVES_MAX)
    whole = np.floor(time)
    power = (whole - time) * _LN_2
    total = 1.0
    for i in range(_POWER_TERMS, 0, -1):
        total = total * power / i + 1.0
    # 2^-whole: its exponent alone.
    return total * _double_of(uint64(int64(1023) - int64(whole)) << uint64(52))


@kernel(allocates=False)
def read_numbers(keys: U64Array, values: F64Array) -> None:
    """Write the number of each sort key (true is 1, false 0); NaN for other values, and none."""
    for i in range(len(keys)):
        key = keys[i]
        if key < _EMPTY_TEXT:
            values[i] = plain_double(key)
        elif key >= _FALSE and key != _MISSING:
            values[i] = 1.0 if key == _TRUE else 0.0
        else:
            values[i] = np.nan


@kernel(allocates=False)
def read_moments(keys: U64Array, by_rank: F64Array, values: F64Array) -> None:
    """Write the moment of each sort key, in seconds since 1970; NaN for what is none.

    Args:
        keys: by document.
        by_rank: the moment of each text, NaN if it is no date.
        values: the moments.
    """
    for i in range(len(keys)):
        key = keys[i]
        if key < _EMPTY_TEXT:
            value = plain_double(key)
            values[i] = value / 1_000.0 if abs(value) >= MILLISECONDS_MIN else value
        elif key > _EMPTY_TEXT and key < _FALSE:
            values[i] = by_rank[key - _EMPTY_TEXT - uint64(1)]
        else:
            values[i] = np.nan


@kernel(allocates=False)
def write_factors(
    values: F64Array,
    function: int,
    weight: float,
    scale: float,
    origin: float,
    is_age: bool,
    factors: F64Array,
) -> None:
    """Write the factor of each value; 1 for NaN.

    A value near the greatest double overflows to infinity, of which each function has the limit.

    Args:
        values: numbers, moments in seconds, or distances in metres.
        function: its place in `FUNCTIONS`.
        weight: of the boost.
        scale: of the boost.
        origin: from which distances are measured.
        is_age: whether only distances before the origin count.
        factors: multiples of 2^-20.
    """
    for i in range(len(values)):
        value = values[i]
        if value != value:
            factors[i] = 1.0
            continue
        if function == _LOG:
            gain = logarithm(1.0 + max(value, 0.0))
        elif function == _LINEAR:
            gain = max(value, 0.0)
        elif function == _SATURATION:
            gain = max(value, 0.0) / (max(value, 0.0) + scale)
        else:
            distance = max(origin - value, 0.0) if is_age else abs(value - origin)
            ratio = distance / scale
            gain = halved(ratio) if function == _DECAY else 1.0 / (1.0 + ratio)
        factor = 1.0 + min(weight * gain, FACTOR_MAX)
        factors[i] = np.rint(factor * _FACTOR_UNIT) / _FACTOR_UNIT


@kernel(allocates=False)
def pick_factors(by_doc: F64Array, docs: U32Array, factors: F64Array) -> None:
    """Write the factor of each of some documents."""
    for i in range(len(docs)):
        factors[i] = by_doc[docs[i]]


@kernel(allocates=False)
def write_rule_factors(bitset: U64Array, docs: U32Array, factor: float, factors: F64Array) -> None:
    """Write the factor of each of some documents: `factor` if it is in a bitset, else 1."""
    for i in range(len(docs)):
        factors[i] = factor if has_bit(bitset, docs[i]) else 1.0


@kernel(allocates=False)
def raise_scores(scores: F64Array, factors: F64Array, raised: F64Array) -> None:
    """Write scores times factors, rounded to whole score units.

    However many factors there are, a hit keeps a score: a positive one stays so, and none becomes
    infinite.
    """
    for i in range(len(scores)):
        score = scores[i]
        units = np.rint(score * SCORE_UNIT * factors[i])
        least = 1.0 if score > 0.0 else 0.0
        raised[i] = min(max(units, least), _UNITS_MAX) / SCORE_UNIT
