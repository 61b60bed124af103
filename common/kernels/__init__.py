"""Kernels: functions over arrays, compiled to machine code when the package is built.

    decorator      `@kernel`
    types          annotations of arguments and results; `signatures` translates them for numba
    order_checks   preconditions, asserted in a checked build
    extension      loads the compiled kernels; in a changed checkout, rebuilds them first
    sources        which sources they were built from
    jit_cache      numba's cache, where no extension can be built
    build/         compiles and links the extension

Leaves of many kernels:

    big_endian     eight bytes as a number that orders as they do
    byte_words     eight bytes at a time
    byte_spans     whether two runs of bytes are equal
    growth         larger copies of full arrays
    heaps          the k greatest keys so far
    utf8           code points
"""
