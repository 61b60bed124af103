"""numba's signatures of kernels, from their annotations (`common.kernels.types`).

Only a process that compiles imports this.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numba import from_dtype
from numba.core import types as _numba_types
from numpy.typing import NDArray

from common.kernels.types import READ_ONLY

types: Final[Any] = _numba_types  # its stubs are incomplete

_KNOWN: Final = {"NDArray": NDArray, "np": np}  # which modules import for the type checker only


def signatures_of(function: Callable[..., Any]) -> list[Any]:
    """Return the signatures that a kernel is compiled for.

    Raises:
        TypeError: an argument or the result has no annotation, or one that kernels do not support.
    """
    hints = get_type_hints(function, localns=_KNOWN, include_extras=True)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    missing = [name for name in (*names, "return") if name not in hints]
    if missing:
        raise TypeError(f"{function.__qualname__} does not say the type of {missing[0]}")
    kinds = [hints[name] for name in names]
    variables = [one for one in (*kinds, hints["return"]) if isinstance(one, TypeVar)]
    count = len(variables[0].__constraints__) if variables else 1
    made = []
    for number in range(count):
        arguments = [numba_type(_choose(kind, number)) for kind in kinds]
        made.append(numba_type(_choose(hints["return"], number))(*arguments))
    return made


def numba_type(annotation: Any) -> Any:
    """Return numba's type of an annotation."""
    if annotation is None or annotation is NoneType:
        return types.none
    if get_origin(annotation) is Annotated:
        return _annotated_type(*get_args(annotation))
    if get_origin(annotation) is tuple:
        return types.Tuple([numba_type(one) for one in get_args(annotation)])
    scalar = scalar_of(annotation)
    if scalar is not None:
        return types.Array(from_dtype(np.dtype(scalar)), 1, "C")
    if isinstance(annotation, type) and hasattr(annotation, "_fields"):
        return group_type(annotation)
    return from_dtype(np.dtype(annotation))


def group_type(group: type[tuple[Any, ...]]) -> Any:
    """Return numba's type of a group."""
    members = get_type_hints(group, localns=_KNOWN, include_extras=True).values()
    return types.BaseTuple.from_types([numba_type(one) for one in members], group)


def interface_of(signature: Any) -> str:
    """Return what callers see of a signature: its types, and the names of groups and their members.

    numba shows a group without its module and members. But the compiled form of each kernel that
    takes the group names them, even if it only passes the group on, so they must be part of its
    key.
    """
    return f"({', '.join(map(_shown, signature.args))}) -> {_shown(signature.return_type)}"


def _shown(kind: Any) -> str:
    if not isinstance(kind, types.BaseTuple):
        return str(kind)
    members = [_shown(one) for one in kind.types]
    if isinstance(kind, types.BaseNamedTuple):
        members = [f"{name}: {one}" for name, one in zip(kind.fields, members, strict=True)]
        return f"{_where(kind.instance_class)}({', '.join(members)})"
    return f"({', '.join(members)})"


def _where(group: type) -> str:
    return f"{group.__module__}.{group.__qualname__}"


def scalar_of(annotation: Any) -> Any:
    """Return the scalar type of ``NDArray[…]``, None of anything else.

    Up to numpy 2.4 it is an alias for ``np.ndarray[…, np.dtype[…]]``; from 2.5 on, with Python 3.12
    or later, the origin is NDArray itself, whose only argument is the scalar type.
    """
    if get_origin(annotation) is np.ndarray:
        (scalar,) = get_args(get_args(annotation)[1])
        return scalar
    if get_origin(annotation) is NDArray:
        (scalar,) = get_args(annotation)
        return scalar
    return None


def _annotated_type(base: Any, *notes: Any) -> Any:
    if READ_ONLY in notes:
        array = numba_type(base)
        return types.Array(array.dtype, array.ndim, "C", readonly=True)
    (note,) = notes
    if isinstance(note, int):
        return types.Array(from_dtype(np.dtype(scalar_of(base))), note, "C")
    return from_dtype(np.dtype(note))


def _choose(annotation: Any, number: int) -> Any:
    """Return a TypeVar's constraint of that number, anything else as it is."""
    return annotation.__constraints__[number] if isinstance(annotation, TypeVar) else annotation
