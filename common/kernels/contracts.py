"""Preconditions of kernels, verified where they are built with checks.

A merge of unsorted lists, or a walk along documents that go back, silently reads out of bounds or
finds too little. In the usual build these calls are empty.
"""

from __future__ import annotations

from common.kernels.decorator import IS_CHECKED, kernel
from common.kernels.types import U32Array


@kernel(inline=True, allocates=False)
def expect_ascending(docs: U32Array) -> None:
    """Fail unless documents are in ascending order, each once."""
    if IS_CHECKED:
        for i in range(1, len(docs)):
            assert docs[i - 1] < docs[i], "the documents are not in ascending order"


@kernel(inline=True, allocates=False)
def expect_sorted(docs: U32Array) -> None:
    """Fail unless documents are in ascending order; some may be equal."""
    if IS_CHECKED:
        for i in range(1, len(docs)):
            assert docs[i - 1] <= docs[i], "the documents are not in order"
