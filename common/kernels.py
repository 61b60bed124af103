"""The decorator of all numba kernels, and where their machine code is kept.

A kernel is compiled ahead of serving: explicit signature (so nothing is compiled on a first
call), `cache=True` (so a second process loads machine code instead of making it), `nogil=True` (so
that a search does not wait for a bulk load). The cache lives in the first writable one of
FACETD_KERNEL_CACHE, the user's cache folder and the temporary folder; it must be chosen before
numba is imported, which is why every kernel comes through this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(signature: object, *, inline: bool = False, allocates: bool = True) -> Callable[[F], F]:
    """Compile a function when its module is imported, or load it from the cache.

    Args:
        signature: numba signature as text, for example ``"int64(uint8[::1], int64)"``, a list
            of them, or one made of `numba.types` (needed for read-only arrays).
        inline: let LLVM see the body in every caller (for leaves of one or two lines).
        allocates: whether the function makes arrays. False compiles it without reference counts,
            which numba otherwise updates (atomically) for every array at every call: a leaf that
            is called per value becomes 3-10 times faster. Its kernels must not make arrays.

    Returns:
        A decorator; the decorated function keeps its Python type for the type checker.
    """
    make: Any = numba.njit  # its stubs do not know all of its options
    decorator: Callable[[F], F] = make(
        signature,
        cache=True,
        nogil=True,
        boundscheck=False,
        error_model="numpy",
        forceinline=inline,
        _nrt=allocates,
    )
    return decorator
