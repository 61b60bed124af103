"""Groups of arguments: what signatures make of them, and when machine code is made anew."""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import pytest

from common.kernels.decorator import Rows, arguments, group_type, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


@arguments
class Table(NamedTuple):
    """Of every kind of member that there is."""

    cells: Rows[np.float64]
    names: NDArray[np.uint8]
    is_used: NDArray[np.bool_]
    width: int
    scale: float
    is_sparse: bool
    mask: np.uint64


@arguments
class Book(NamedTuple):
    """Of a group, too."""

    pages: int
    table: Table


class Undeclared(NamedTuple):
    names: NDArray[np.uint8]


@kernel("float64(Table, int64)", allocates=False)
def cell_of(table: Table, row: Any) -> Any:
    return table.cells[row, table.width - 1] * table.scale


@kernel("float64(Book)", allocates=False)
def first_cell(book: Book) -> Any:
    return cell_of(book.table, 0) + book.pages


def table() -> Table:
    cells = np.arange(6.0).reshape(2, 3)
    return Table(cells, np.zeros(1, np.uint8), np.zeros(1, bool), 3, 0.5, True, np.uint64(1))


def test_members_have_the_types_of_their_annotations() -> None:
    members = group_type(Table)
    assert list(members) == [
        numba.types.float64[:, ::1],
        numba.types.uint8[::1],
        numba.types.boolean[::1],
        numba.types.int64,
        numba.types.float64,
        numba.types.boolean,
        numba.types.uint64,
    ]
    assert members.instance_class is Table


def test_arrays_of_newer_numpys_are_arrays_too() -> None:
    """From numpy 2.5 on, with Python >= 3.12, ``NDArray[…]`` is no alias of ``ndarray[…]``."""
    newer = GenericAlias(npt.NDArray, (np.uint16,))

    class Made(NamedTuple):
        codes: Any
        rows: Any

    Made.__annotations__ = {"codes": newer, "rows": Annotated[newer, 2]}
    assert list(group_type(Made)) == [numba.types.uint16[::1], numba.types.uint16[:, ::1]]


def test_kernels_take_groups_that_signatures_name() -> None:
    assert cell_of(table(), 1) == 2.5
    assert first_cell(Book(7, table())) == 8.0


def test_only_declared_groups_can_be_named() -> None:
    """Others would not change the digest."""
    with pytest.raises(NameError, match="Undeclared"):

        @kernel("int64(Undeclared)")
        def count(undeclared: Undeclared) -> Any:
            return len(undeclared.names)
