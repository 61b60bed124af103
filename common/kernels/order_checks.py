"""Preconditions of kernels, asserted in a checked build; empty calls in any other.

A kernel that merges or walks lists that are not sorted would silently read out of bounds, or find
too little.
"""

from __future__ import annotations

from common.kernels.decorator import IS_CHECKED, kernel
from common.kernels.types import U32Array


@kernel(inline=True, allocates=False)
def expect_ascending(docs: U32Array) -> None:
    """Assert that documents ascend strictly."""
    if IS_CHECKED:
        for i in range(1, len(docs)):
            assert docs[i - 1] < docs[i], "documents do not ascend strictly"


@kernel(inline=True, allocates=False)
def expect_sorted(docs: U32Array) -> None:
    """Assert that documents never descend."""
    if IS_CHECKED:
        for i in range(1, len(docs)):
            assert docs[i - 1] <= docs[i], "documents descend"
