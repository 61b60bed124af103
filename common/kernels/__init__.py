"""Kernels: functions over arrays, compiled to machine code when the package is built.

    decorator      `@kernel`
    types          annotations of arguments and results; for numba: annotations_to_signatures
    intrinsics     unaligned words, counts of bits, prefetching: what numba has not
    order_checks   preconditions, asserted in a checked build
    extension_loading  loads the compiled kernels; in a changed checkout, rebuilds them first
    source_digests  which sources they were built from
    jit_cache      numba's cache, where no extension can be built
    build/         compiles and links the extension

Leaves of many kernels:

    big_endian     eight bytes as a number that orders as they do
    byte_equality  whether two runs of bytes are equal
    array_growth   larger copies of full arrays
    top_k_heap     the k greatest keys so far
    utf8           code points
"""
