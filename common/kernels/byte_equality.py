"""Whether two runs of bytes are equal, within kernels."""

from __future__ import annotations

from common.kernels.decorator import kernel
from common.kernels.intrinsics import load_u64
from common.kernels.types import U8Array


@kernel(inline=True, allocates=False)
def are_equal(left: U8Array, left_start: int, right: U8Array, right_start: int, size: int) -> bool:
    """Return whether two spans of `size` bytes are equal; eight bytes a step."""
    position = 0
    while position + 8 <= size:
        if load_u64(left, left_start + position) != load_u64(right, right_start + position):
            return False
        position += 8
    while position < size:
        if left[left_start + position] != right[right_start + position]:
            return False
        position += 1
    return True
