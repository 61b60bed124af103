"""Kernels: functions over arrays, compiled to machine code when the package is built.

    decorator      `@kernel`
    types          what they take and return, as annotations; for numba: signatures
    contracts      preconditions, verified in a checked build
    extension      the compiled kernels: loaded, and built first where a checkout has changed
    sources        which sources they were built from
    jit_cache      where nothing can be built: what numba compiles in each process
    build/         the build

Leaves of many kernels:

    byte_words     eight bytes at a time
    growth         larger copies of full arrays
    heaps          the k greatest keys so far
    utf8           code points
"""
