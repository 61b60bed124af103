"""Kernels: functions that numba compiles to machine code ahead of serving."""
