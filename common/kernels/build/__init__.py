"""Builds the extension: numba compiles to LLVM IR, LLVM and a C compiler do the rest."""
