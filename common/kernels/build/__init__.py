"""Building kernels: from numba to machine code that every process maps."""
