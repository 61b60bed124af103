"""The decorator of all numba kernels.

A kernel is compiled ahead of serving: explicit signature (so nothing is compiled on a first call)
and `nogil=True` (so that a search does not wait for a bulk load). Where its machine code comes
from, when its module is imported:

    there is an image of just these kernels     from there, numba is not even imported
    (`common.kernel_image`)
    else                                        numba compiles, or loads from its own cache

The second is what makes the first (`coordinator.kernel_cache`), what tests of changed kernels run
on, and what is left on machines that images are not made for. FACETD_KERNELS=numba asks for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

from common.kernel_cache import image_path
from common.kernel_image import DamagedImage, KernelImage

F = TypeVar("F", bound=Callable[..., Any])

NUMBA_WANTED: Final = "numba"
"""Value of FACETD_KERNELS that leaves an image alone."""

dispatchers: dict[str, Any] = {}
"""Kernels that numba has compiled or loaded in this process, by "module.function"."""


def _open_image() -> KernelImage | None:
    """Return the image of these kernels, if there is one."""
    if os.environ.get("FACETD_KERNELS") == NUMBA_WANTED:
        return None
    path = image_path()
    try:
        return KernelImage(path) if path.stat().st_size else None
    except FileNotFoundError:
        return None
    except (DamagedImage, OSError, ValueError) as error:
        print(f"facetd: kernels are loaded the slow way: {error}", file=sys.stderr)
        if isinstance(error, DamagedImage):
            path.unlink(missing_ok=True)  # the next start makes it again
        return None


_image: Final = _open_image()

needs_numba: Final = _image is None
"""Whether kernels of this process come from numba; if not, what only serves compiling is absent."""


def kernel(
    signature: str | list[str] | Callable[[Any], Any],
    *,
    inline: bool = False,
    allocates: bool = True,
) -> Callable[[F], F]:
    """Compile a function when its module is imported, or load its machine code.

    Args:
        signature: numba signature as text, for example ``"int64(uint8[::1], int64)"``, a list
            of them, or a function that makes one of `numba.types` (needed for read-only arrays).
        inline: let LLVM see the body in every caller (for leaves of one or two lines).
        allocates: whether the function makes arrays. False compiles it without reference counts,
            which numba otherwise updates (atomically) for every array at every call: a leaf that
            is called per value becomes 3-10 times faster. Its kernels must not make arrays.

    Returns:
        A decorator; the decorated function keeps its Python type for the type checker.
    """

    def decorate(function: F) -> F:
        loaded: Any = None if _image is None else _image.function(function)
        if loaded is None:
            loaded = _compile(function, signature, is_inline=inline, allocates=allocates)
        result: F = loaded
        return result

    return decorate


def _compile(
    function: Callable[..., Any],
    signature: str | list[str] | Callable[[Any], Any],
    *,
    is_inline: bool,
    allocates: bool,
) -> Any:
    """Let numba compile a function, or load it from its cache."""
    import numba

    make: Any = numba.njit  # its stubs do not know all of its options
    dispatcher = make(
        signature(numba.types) if callable(signature) else signature,
        cache=True,
        nogil=True,
        boundscheck=False,
        error_model="numpy",
        forceinline=is_inline,
        _nrt=allocates,
    )(function)
    dispatchers[f"{function.__module__}.{function.__qualname__}"] = dispatcher
    return dispatcher
