"""Keys that compare as integers: one uint64 orders values of all types; smaller comes first.

    0x0010…  – 0xFFEF…      numbers: the double's bits, made monotone (negative ones inverted)
    0xFFF0 0000 0000 0000   the empty text
    0xFFF0 0000 0000 0001 + rank   texts, in the order of a collation
    0xFFF8 0000 0000 0000   false;  …1 true
    0xFFFF FFFF FFFF FFFF   no value

JSON has no infinity and no NaN; texts and booleans take their place. Descending order inverts a
key; a missing value then gets the greatest key again, so that it stays last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import U64, F64Array, U64Array, uint64

if TYPE_CHECKING:
    from numpy.typing import NDArray

EMPTY_TEXT_KEY: Final = 0xFFF0_0000_0000_0000
FALSE_KEY: Final = 0xFFF8_0000_0000_0000
MISSING_KEY: Final = 0xFFFF_FFFF_FFFF_FFFF

_SIGN: Final = uint64(1 << 63)
_MISSING: Final = uint64(MISSING_KEY)
_NO_FLIP: Final = uint64(0)


@kernel(inline=True)
def ordered_bits(value: float) -> U64:
    """Return a double's bits such that they compare, as integers, like the doubles."""
    bits = uint64(np.float64(value).view(np.uint64))
    return ~bits if bits >> uint64(63) else bits | _SIGN


@kernel
def _fill_keys(values: F64Array, flip: U64, keys: U64Array) -> None:
    for i in range(len(values)):
        keys[i] = ordered_bits(values[i]) ^ flip


def ordered_keys(values: NDArray[np.float64], *, is_descending: bool = False) -> NDArray[np.uint64]:
    """Return the keys of doubles."""
    keys = np.empty(len(values), np.uint64)
    _fill_keys(values, _MISSING if is_descending else _NO_FLIP, keys)
    return keys


@kernel(inline=True)
def plain_double(key: U64) -> float:
    """Return the double of an ascending key; meaningless for keys of other types."""
    bits = key ^ _SIGN if key & _SIGN else ~key
    return float(np.uint64(bits).view(np.float64))


@kernel(allocates=False)
def _fill_doubles(keys: U64Array, doubles: F64Array) -> None:
    for i in range(len(keys)):
        doubles[i] = plain_double(keys[i])


def plain_doubles(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the doubles of ascending keys; meaningless for keys of other types."""
    doubles = np.empty(len(keys))
    _fill_doubles(keys, doubles)
    return doubles
