"""Kernels that only a build can compile; tests do not import them."""

from __future__ import annotations

from common.kernels.decorator import kernel
from common.kernels.intrinsics import load_u64
from common.kernels.order_checks import expect_ascending, expect_sorted
from common.kernels.types import U8Array, U32Array, int64
from shard.segment.text.postings_cursor import gallop


@kernel(allocates=False)
def eight_bytes(values: U8Array, place: int) -> int:
    return int64(load_u64(values, place))


@kernel(allocates=False)
def first_of(docs: U32Array) -> int:
    expect_ascending(docs)
    return int64(docs[0])


@kernel(allocates=False)
def first_of_sorted(docs: U32Array) -> int:
    expect_sorted(docs)
    return int64(docs[0])


@kernel(allocates=False)
def gallop_to(docs: U32Array, wanted: int) -> int:
    return gallop(docs, 0, wanted)
