"""The decorator of all kernels.

A kernel is compiled ahead of serving. Its annotations are its signature (`common.kernels.types`):
nothing is compiled on a first call, and mypy checks its callers. It runs with the GIL released, so
that a search does not wait for a bulk load. FACETD_KERNELS chooses the source of the machine code
when the kernel's module is imported:

    (nothing)   the extension that was built with the package (`common.kernels.build`); numba is
                not even imported. A checkout whose kernels changed rebuilds it first.
    checked     the same, built with checks: an index past an array's end, or a broken contract,
                raises instead of reading out of bounds
    numba       numba compiles it, or loads it from its own cache (`common.kernels.jit_cache`);
                also the fallback where no extension can be built

Arrays that always go together are one argument, a *group*: a NamedTuple, declared once with the
types of its members and named in annotations. In machine code the members are separate arguments,
so a group costs nothing.

    @arguments                          @kernel
    class PostingLists(NamedTuple):     def count_blocks(lists: PostingLists, term: int) -> int:
        postings: U8Array                   return lists.skip_starts[term + 1] - …
        skip_starts: U32Array

In a kernel that makes arrays (`allocates`), numba counts a reference whenever a member is read from
its group. Such a kernel reads the members that a loop needs before the loop, or leaves the loop to
a kernel that makes no arrays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, overload

from common.kernels import jit_cache
from common.kernels.extension_loading import chosen, load

F = TypeVar("F", bound=Callable[..., Any])
G = TypeVar("G", bound=type[tuple[Any, ...]])
recorded: Final[dict[str, Any]] = {}
"""For a build: numba's uncompiled dispatchers, by "module.function"."""

_MODE: Final = os.environ.get("FACETD_KERNELS", "")

_IS_RECORDED: Final = _MODE in ("record", "record-checked")  # what the build sets

IS_CHECKED: Final = _MODE in ("checked", "record-checked")
"""Whether kernels verify their contracts: ``if IS_CHECKED: assert …`` costs nothing elsewhere."""


def _load() -> Mapping[str, Callable[..., Any]] | None:
    """Return the compiled kernels; None if numba is to compile them."""
    path = None if _IS_RECORDED else chosen()
    return None if path is None else load(path)


_compiled: Final = _load()

needs_numba: Final = _compiled is None
"""Whether numba compiles the kernels of this process; if not, it may be absent."""


def arguments(group: G) -> G:
    """Declare a group: a NamedTuple whose members kernels take together.

    Members have types of `common.kernels.types`, which may be groups. The decorator changes
    nothing; it tells readers and the build that machine code depends on this class.
    """
    return group


@overload
def kernel(function: F, /) -> F: ...


@overload
def kernel(*, inline: bool = False, allocates: bool = True) -> Callable[[F], F]: ...


def kernel(
    function: F | None = None, /, *, inline: bool = False, allocates: bool = True
) -> F | Callable[[F], F]:
    """Declare a kernel: its machine code takes the place of the function.

    Args:
        function: annotated with the types of its arguments and result.
        inline: always inline it into its callers (for leaves of one or two lines).
        allocates: whether the function makes arrays. False compiles it without reference counts,
            which numba otherwise updates (atomically) for every array at every call: a leaf called
            for each value becomes 3-10 times faster. The kernels that it calls must not make arrays
            either.

    Returns:
        The compiled function; type checkers see the original one.
    """

    def decorate(function: F) -> F:
        name = f"{function.__module__}.{function.__qualname__}"
        found: Any = None if _compiled is None else _compiled.get(name)
        if found is None:
            found = _dispatcher(function, is_inline=inline, allocates=allocates)
            if _IS_RECORDED:
                recorded[name] = found
            else:
                _compile(found)
        result: F = found
        return result

    return decorate if function is None else decorate(function)


def _dispatcher(function: Callable[..., Any], *, is_inline: bool, allocates: bool) -> Any:
    """Return numba's dispatcher of a function, uncompiled."""
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


def _compile(dispatcher: Any) -> None:
    """Compile a kernel for its signatures, and refuse all others."""
    from common.kernels.annotations_to_signatures import signatures_of

    for signature in signatures_of(dispatcher.py_func):
        dispatcher.compile(signature)
    dispatcher.disable_compile()
