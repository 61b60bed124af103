"""The decorator of all numba kernels.

A kernel is compiled ahead of serving: explicit signature (so nothing is compiled on a first call)
and `nogil=True` (so that a search does not wait for a bulk load). Where its machine code comes
from, when its module is imported:

    there is an image of just these kernels     from there, numba is not even imported
    (`common.kernels.image`)
    else                                        numba compiles, or loads from its own cache

The second is what makes the first (`common.kernels.build.builder`), what tests of changed kernels
run on, and what is left on machines that images are not made for. FACETD_KERNELS=numba asks for it.

Arrays that always go together are one argument, a *group*: a NamedTuple, declared once with the
types of its members and named in signatures. Machine code has the members as separate arguments, so
a group costs nothing there.

    @arguments                                       @kernel("int64(PostingLists, int64)")
    class PostingLists(NamedTuple):                  def count_blocks(lists: PostingLists, …)
        postings: NDArray[np.uint8]                      lists.skip_starts[term] …
        skip_starts: NDArray[np.uint32]

Where a kernel makes arrays itself (`allocates`), numba counts a reference to a member whenever it
is taken out of its group. Such a kernel takes those that it needs in a loop before the loop, or
leaves the loop to a kernel that makes none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from common.kernels.cache import image_path
from common.kernels.image import DamagedImage, KernelImage

F = TypeVar("F", bound=Callable[..., Any])
G = TypeVar("G", bound=type[tuple[Any, ...]])
N = TypeVar("N", bound=np.generic)

Rows: TypeAlias = Annotated[NDArray[N], 2]
"""A member of a group that is an array of two dimensions."""

NUMBA_WANTED: Final = "numba"
"""Value of FACETD_KERNELS that leaves an image alone."""

dispatchers: dict[str, Any] = {}
"""Kernels that numba has compiled or loaded in this process, by "module.function"."""

_groups: Final[set[type]] = set()
"""What signatures may name beside the types of numba."""


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


def arguments(group: G) -> G:
    """Declare a group: a NamedTuple whose members kernels take together.

    Members are ``NDArray[np.uint8]`` and the like (of one dimension, contiguous), ``Rows[…]`` (of
    two), numbers (``int`` of 64 bits, ``float``, ``bool``), or groups. Kernels of modules that have
    imported the class name it in their signatures.
    """
    _groups.add(group)
    return group


def kernel(
    signature: str | list[str] | Callable[[Any], Any],
    *,
    inline: bool = False,
    allocates: bool = True,
) -> Callable[[F], F]:
    """Compile a function when its module is imported, or load its machine code.

    Args:
        signature: numba signature as text, for example ``"int64(uint8[::1], int64)"``, with names
            of groups where they stand for arguments, a list of them, or a function that makes one
            of `numba.types` (needed for read-only arrays).
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
        _evaluate(signature, function),
        cache=True,
        nogil=True,
        boundscheck=False,
        error_model="numpy",
        forceinline=is_inline,
        _nrt=allocates,
    )(function)
    dispatchers[f"{function.__module__}.{function.__qualname__}"] = dispatcher
    return dispatcher


def _evaluate(
    signature: str | list[str] | Callable[[Any], Any], function: Callable[..., Any]
) -> Any:
    """Return a kernel's signature as numba's types; its text is an expression of them."""
    from numba import types

    if callable(signature):
        return signature(types)
    if isinstance(signature, list):
        return [_evaluate(one, function) for one in signature]
    names = {
        name: group_type(value)
        for name, value in function.__globals__.items()
        if isinstance(value, type) and value in _groups
    }
    return eval(signature, {**vars(types), **names})


def group_type(group: type[tuple[Any, ...]]) -> Any:
    """Return numba's type of a group."""
    from numba import types

    known = {"NDArray": NDArray, "np": np}  # which modules import for the type checker only
    members = get_type_hints(group, localns=known, include_extras=True).values()
    return types.BaseTuple.from_types([_member_type(one) for one in members], group)


def _member_type(member: Any, num_dimensions: int = 1) -> Any:
    from numba import from_dtype, types

    if member in _groups:
        return group_type(member)
    if get_origin(member) is Annotated:
        return _member_type(*get_args(member))
    scalar = _scalar_of(member)
    if scalar is not None:
        return types.Array(from_dtype(np.dtype(scalar)), num_dimensions, "C")
    return from_dtype(np.dtype(member))


def _scalar_of(member: Any) -> Any:
    """Return the scalar type of ``NDArray[…]``, None of anything else.

    Up to numpy 2.4 it is an alias for ``np.ndarray[…, np.dtype[…]]``; from 2.5 on, with Python 3.12
    or later, the origin is NDArray itself, whose only argument is the scalar type.
    """
    if get_origin(member) is np.ndarray:
        (scalar,) = get_args(get_args(member)[1])
        return scalar
    if get_origin(member) is NDArray:
        (scalar,) = get_args(member)
        return scalar
    return None
