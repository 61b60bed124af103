"""The types that kernels take and return, as annotations that mypy and the build both read.

int, float, bool        int64, float64, a boolean
U8 … U64, I8 … I32      narrower or unsigned integers; for mypy an int
U8Array … F64Array      one-dimensional, contiguous, writable arrays
Rows[np.int64]          two-dimensional ones
ReadOnly[U16Array]      an array that may be read-only
a group                 a NamedTuple of these, declared with `common.kernels.decorator.arguments`
tuple[int, U32Array]    results
a TypeVar               one signature for each of its constraints; several in one kernel take
                        their n-th constraints together
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

READ_ONLY: Final = "read-only"

N = TypeVar("N", bound=np.generic)
A = TypeVar("A")

U8: TypeAlias = Annotated[int, np.uint8]
U16: TypeAlias = Annotated[int, np.uint16]
U32: TypeAlias = Annotated[int, np.uint32]
U64: TypeAlias = Annotated[int, np.uint64]
I8: TypeAlias = Annotated[int, np.int8]
I16: TypeAlias = Annotated[int, np.int16]
I32: TypeAlias = Annotated[int, np.int32]

BoolArray: TypeAlias = NDArray[np.bool_]
U8Array: TypeAlias = NDArray[np.uint8]
U16Array: TypeAlias = NDArray[np.uint16]
U32Array: TypeAlias = NDArray[np.uint32]
U64Array: TypeAlias = NDArray[np.uint64]
I8Array: TypeAlias = NDArray[np.int8]
I16Array: TypeAlias = NDArray[np.int16]
I32Array: TypeAlias = NDArray[np.int32]
I64Array: TypeAlias = NDArray[np.int64]
F64Array: TypeAlias = NDArray[np.float64]

Rows: TypeAlias = Annotated[NDArray[N], 2]
ReadOnly: TypeAlias = Annotated[A, READ_ONLY]


if TYPE_CHECKING:

    def int8(value: Any, /) -> int:
        """Return a value as an integer of 8 bits."""

    def int16(value: Any, /) -> int:
        """Return a value as an integer of 16 bits."""

    def int32(value: Any, /) -> int:
        """Return a value as an integer of 32 bits."""

    def int64(value: Any, /) -> int:
        """Return a value as an integer of 64 bits."""

    def uint8(value: Any, /) -> int:
        """Return a value as an unsigned integer of 8 bits."""

    def uint16(value: Any, /) -> int:
        """Return a value as an unsigned integer of 16 bits."""

    def uint32(value: Any, /) -> int:
        """Return a value as an unsigned integer of 32 bits."""

    def uint64(value: Any, /) -> int:
        """Return a value as an unsigned integer of 64 bits."""

else:
    from numpy import int8, int16, int32, int64, uint8, uint16, uint32, uint64

__all__ = [
    "I8",
    "I16",
    "I32",
    "U8",
    "U16",
    "U32",
    "U64",
    "BoolArray",
    "F64Array",
    "I8Array",
    "I16Array",
    "I32Array",
    "I64Array",
    "ReadOnly",
    "Rows",
    "U8Array",
    "U16Array",
    "U32Array",
    "U64Array",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
