"""The coordinator process: HTTP in, RPC to the shards, merged answers out."""

from common.kernels import cache as _kernel_cache  # noqa: F401 - before anybody imports numba
