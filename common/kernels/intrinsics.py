"""LLVM intrinsics for kernels: unaligned words, counts of bits, prefetching.

numba has none of these. Kernels that read JSON, hash or copy short rows work on words of eight
bytes; where kernels come compiled there is nothing to call. Words are little-endian, like every
machine that facetd runs on: byte i of the array is bits 8 i … 8 i + 7 of the word. A build with
checks (`FACETD_KERNELS=checked`) verifies that the whole word is within the array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from common.kernels.decorator import needs_numba

if TYPE_CHECKING or not needs_numba:

    def load_u64(array: Any, position: int) -> Any:
        """Return the eight bytes from `position` as uint64."""

    def load_u32(array: Any, position: int) -> Any:
        """Return the four bytes from `position` as uint32."""

    def store_u64(array: Any, position: int, word: Any) -> None:
        """Write the eight bytes of a uint64 from `position` on."""

    def copy_32(source: Any, position: Any, target: Any, at: Any) -> None:
        """Copy 32 bytes from an element of one array to an element of another, as one word."""

    def prefetch(array: Any, position: int) -> None:
        """Let the processor load the cache line of an element that will be read soon."""

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

    from common.kernels.decorator import IS_CHECKED

    def _check(context, builder, array, array_type, position, position_type, num_bytes):
        """Fail, in a build with checks, where a word would begin or end outside of its array."""
        if IS_CHECKED:
            first = context.cast(builder, position, position_type, types.intp)
            num_elements = num_bytes * 8 // array_type.dtype.bitwidth
            last = builder.add(first, first.type(num_elements - 1))
            for place in (first, last):
                cgutils.do_boundscheck(context, builder, place, array.nitems)

    def _loader(num_bits, result_type):
        def load(typingctx, array, position):
            signature = result_type(array, position)

            def generate(context, builder, signature, arguments):
                array_type = signature.args[0]
                struct = context.make_array(array_type)(context, builder, arguments[0])
                place = (arguments[1], signature.args[1])
                _check(context, builder, struct, array_type, *place, num_bits // 8)
                start = builder.gep(struct.data, [arguments[1]])
                pointer = builder.bitcast(start, ir.IntType(num_bits).as_pointer())
                return builder.load(pointer, align=1)

            return signature, generate

        return intrinsic(load)

    load_u64 = _loader(64, types.uint64)
    load_u32 = _loader(32, types.uint32)

    @intrinsic
    def store_u64(typingctx, array, position, word):
        """Write the eight bytes of a uint64 from `position` on."""

        def generate(context, builder, signature, arguments):
            array_type = signature.args[0]
            struct = context.make_array(array_type)(context, builder, arguments[0])
            _check(context, builder, struct, array_type, arguments[1], signature.args[1], 8)
            start = builder.gep(struct.data, [arguments[1]])
            pointer = builder.bitcast(start, ir.IntType(64).as_pointer())
            builder.store(arguments[2], pointer, align=1)
            return context.get_dummy_value()

        return types.void(array, position, types.uint64), generate

    @intrinsic
    def copy_32(typingctx, source, position, target, at):
        """Copy 32 bytes from an element of one array to an element of another, as one word."""

        def generate(context, builder, signature, arguments):
            def pointer(array, element):
                array_type = signature.args[array]
                struct = context.make_array(array_type)(context, builder, arguments[array])
                place = (arguments[element], signature.args[element])
                _check(context, builder, struct, array_type, *place, 32)
                start = builder.gep(struct.data, [arguments[element]])
                return builder.bitcast(start, ir.VectorType(ir.IntType(64), 4).as_pointer())

            word = builder.load(pointer(0, 1), align=1)
            builder.store(word, pointer(2, 3), align=1)
            return context.get_dummy_value()

        return types.void(source, position, target, at), generate

    @intrinsic
    def prefetch(typingctx, array, position):
        """Let the processor load the cache line of an element that will be read soon."""

        def generate(context, builder, signature, arguments):
            array_type = signature.args[0]
            struct = context.make_array(array_type)(context, builder, arguments[0])
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            form = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            call = builder.module.declare_intrinsic("llvm.prefetch", [byte], form)
            start = builder.bitcast(builder.gep(struct.data, [arguments[1]]), byte)
            # To be read, into all caches, as data.
            builder.call(call, [start, *(ir.Constant(number, value) for value in (0, 3, 1))])
            return context.get_dummy_value()

        return types.void(array, position), generate

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


__all__ = [
    "copy_32",
    "count_ones",
    "load_u32",
    "load_u64",
    "prefetch",
    "store_u64",
    "trailing_zeros",
]
