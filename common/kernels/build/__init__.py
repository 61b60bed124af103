"""Builds the extension: numba compiles to LLVM IR, LLVM and a C compiler do the rest.

`python -m common.kernels.build` (`__main__`) does, as any start of a changed checkout.

builder          one build: what is missing is compiled on all processors, then linked
plan             the kernels, their dependencies, and the keys of their results
numba_front_end  Python functions → LLVM IR
machine_code     LLVM IR → object files, by the passes of optimizer
link             object files → the extension
setuptools_backend_with_compiler  the same, when the package is built
"""
