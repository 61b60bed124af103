"""What both processes import: messages, framing, errors, limits, analysis, JSON scanning."""

from common.kernels import cache as _kernel_cache  # noqa: F401 - before anybody imports numba
