"""The shard process: owns one hash partition of every index."""

from common.kernels import cache as _kernel_cache  # noqa: F401 - before anybody imports numba
