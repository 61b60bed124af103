"""The decorator of all kernels.

A kernel is compiled ahead of serving: explicit signature (so nothing is compiled on a first call)
and without the interpreter's lock (so that a search does not wait for a bulk load). Where its
machine code comes from, when its module is imported, says FACETD_KERNELS:

    (nothing)   the extension that was built with the package (`common.kernels.build`); numba is
                not even imported. A checkout whose kernels changed builds it anew first.
    checked     the same, built with checks: an index past an array's end, or a broken contract,
                raises instead of reading what is there
    numba       numba compiles, or loads from its own cache (`common.kernels.jit_cache`); also taken
                where no extension can be built

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
from collections.abc import Callable, Mapping
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import NDArray

from common.kernels import jit_cache, sources
from common.kernels.extension import KernelsMissing, load

F = TypeVar("F", bound=Callable[..., Any])
G = TypeVar("G", bound=type[tuple[Any, ...]])
N = TypeVar("N", bound=np.generic)

Rows: TypeAlias = Annotated[NDArray[N], 2]
"""A member of a group that is an array of two dimensions."""


class Recorded(NamedTuple):
    """A kernel as its source declares it, for the build.

    Attributes:
        dispatcher: numba's, not compiled yet.
        signature: as `kernel` takes it.
    """

    dispatcher: Any
    signature: Any


recorded: Final[dict[str, Recorded]] = {}
"""What a build finds, by "module.function"; empty in other processes."""

_groups: Final[set[type]] = set()
"""What signatures may name beside the types of numba."""

_MODE: Final = os.environ.get("FACETD_KERNELS", "")

_IS_RECORDED: Final = _MODE in ("record", "record-checked")  # what the build sets

IS_CHECKED: Final = _MODE in ("checked", "record-checked")
"""Whether kernels verify their contracts: ``if IS_CHECKED: assert …`` costs nothing elsewhere."""


def _load() -> Mapping[str, Callable[..., Any]] | None:
    """Return the compiled kernels; None if numba is to compile them."""
    if _MODE == "numba" or _IS_RECORDED:
        return None
    if _MODE not in ("", "checked"):
        raise KernelsMissing(f"FACETD_KERNELS is {_MODE!r}, not checked or numba")
    return load(sources.CHECKED_EXTENSION if IS_CHECKED else sources.EXTENSION)


_compiled: Final = _load()

needs_numba: Final = _compiled is None
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
    """Declare a kernel: its machine code takes the place of the function.

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
        name = f"{function.__module__}.{function.__qualname__}"
        found: Any = None if _compiled is None else _compiled.get(name)
        if found is None:
            found = _dispatcher(function, is_inline=inline, allocates=allocates)
            if _IS_RECORDED:
                recorded[name] = Recorded(found, signature)
            else:
                for one in evaluate(signature, function):
                    found.compile(one)
                found.disable_compile()
        result: F = found
        return result

    return decorate


def _dispatcher(function: Callable[..., Any], *, is_inline: bool, allocates: bool) -> Any:
    """Return what numba compiles a function with."""
    jit_cache.choose()
    import numba

    make: Any = numba.njit  # its stubs do not know all of its options
    return make(
        cache=not _IS_RECORDED,
        nogil=True,
        boundscheck=IS_CHECKED,
        error_model="numpy",
        forceinline=is_inline,
        _nrt=allocates,
        no_cpython_wrapper=_IS_RECORDED,
        no_cfunc_wrapper=_IS_RECORDED,
    )(function)


def evaluate(
    signature: str | list[str] | Callable[[Any], Any], function: Callable[..., Any]
) -> list[Any]:
    """Return a kernel's signatures as numba's types; their text is an expression of them."""
    from numba import types

    if callable(signature):
        made = signature(types)
        return made if isinstance(made, list) else [made]
    names = {
        name: group_type(value)
        for name, value in function.__globals__.items()
        if isinstance(value, type) and value in _groups
    }
    texts = [signature] if isinstance(signature, str) else signature
    return [eval(text, {**vars(types), **names}) for text in texts]


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
