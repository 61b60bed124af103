"""Kernels that only a build can compile; tests do not import them."""

from __future__ import annotations

from common.kernels.byte_words import load_u64
from common.kernels.contracts import expect_ascending
from common.kernels.decorator import kernel
from common.kernels.types import U8Array, U32Array, int64


@kernel(allocates=False)
def eight_bytes(values: U8Array, place: int) -> int:
    return int64(load_u64(values, place))


@kernel(allocates=False)
def first_of(docs: U32Array) -> int:
    expect_ascending(docs)
    return int64(docs[0])
