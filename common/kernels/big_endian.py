"""Eight bytes as a number whose order is that of the bytes."""

from __future__ import annotations

from common.kernels.decorator import kernel
from common.kernels.intrinsics import load_u64
from common.kernels.types import U64, U8Array, uint64


@kernel(inline=True, allocates=False)
def load_big_endian(array: U8Array, position: int) -> U64:
    """Return the eight bytes from `position` as a number, the first byte highest."""
    word: U64 = load_u64(array, position)
    # Reverse the bytes: halves, then pairs, then single ones.
    word = (word & uint64(0x00000000FFFFFFFF)) << uint64(32) | word >> uint64(32)
    word = (word & uint64(0x0000FFFF0000FFFF)) << uint64(16) | (
        word >> uint64(16) & uint64(0x0000FFFF0000FFFF)
    )
    return (word & uint64(0x00FF00FF00FF00FF)) << uint64(8) | (
        word >> uint64(8) & uint64(0x00FF00FF00FF00FF)
    )
