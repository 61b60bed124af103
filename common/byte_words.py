"""Eight bytes of a byte array at a time: the leaves of kernels that read JSON or hash.

numba has no unaligned load and no count of trailing zeros, so both come as LLVM intrinsics; where
kernels come compiled there is nothing to call. Words are little-endian, like every machine that
facetd runs on: byte i of the array is bits 8 i … 8 i + 7 of the word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from common.kernels import needs_numba

if TYPE_CHECKING or not needs_numba:

    def load_u64(array: Any, position: int) -> Any:
        """Return the eight bytes from `position` as uint64."""

    def load_u32(array: Any, position: int) -> Any:
        """Return the four bytes from `position` as uint32."""

    def trailing_zeros(word: Any) -> int:
        """Return the number of zero bits below the lowest set bit (64 for 0)."""
        return 64

    def count_ones(word: Any) -> int:
        """Return the number of set bits of a uint64."""
        return 0

else:
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    def _loader(num_bits, result_type):
        def load(typingctx, array, position):
            signature = result_type(array, position)

            def generate(context, builder, signature, arguments):
                array_type = signature.args[0]
                struct = context.make_array(array_type)(context, builder, arguments[0])
                start = builder.gep(struct.data, [arguments[1]])
                pointer = builder.bitcast(start, ir.IntType(num_bits).as_pointer())
                return builder.load(pointer, align=1)

            return signature, generate

        return intrinsic(load)

    load_u64 = _loader(64, types.uint64)
    load_u32 = _loader(32, types.uint32)

    @intrinsic
    def trailing_zeros(typingctx, word):
        """Return the number of zero bits below the lowest set bit (64 for 0)."""

        def generate(context, builder, signature, arguments):
            return builder.cttz(arguments[0], cgutils.false_bit)

        return types.int64(types.uint64), generate

    @intrinsic
    def count_ones(typingctx, word):
        """Return the number of set bits of a uint64."""

        def generate(context, builder, signature, arguments):
            return builder.ctpop(arguments[0])

        return types.int64(types.uint64), generate


__all__ = ["count_ones", "load_u32", "load_u64", "trailing_zeros"]
