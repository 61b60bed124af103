"""Groups of arguments: their signatures, and when their kernels are recompiled."""

from __future__ import annotations

import ast
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import numba
import numpy as np
import numpy.typing as npt
import pytest

from common.kernels.annotations_to_signatures import group_type, signatures_of
from common.kernels.decorator import arguments, kernel
from common.kernels.types import U8, U64, I64Array, ReadOnly, Rows, U8Array, U32Array, uint64
from tests.service import ROOT

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
    mask: U64


@arguments
class Book(NamedTuple):
    """Of a group, too."""

    pages: int
    table: Table


@kernel(allocates=False)
def cell_of(table: Table, row: int) -> float:
    return table.cells[row, table.width - 1] * table.scale


@kernel(allocates=False)
def first_cell(book: Book) -> float:
    return cell_of(book.table, 0) + book.pages


def table() -> Table:
    cells = np.arange(6.0).reshape(2, 3)
    return Table(cells, np.zeros(1, np.uint8), np.zeros(1, bool), 3, 0.5, True, uint64(1))


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
    """From numpy 2.5 on, with Python >= 3.12, ``NDArray[…]`` is not an alias of ``ndarray[…]``."""
    newer = GenericAlias(npt.NDArray, (np.uint16,))

    class Made(NamedTuple):
        codes: Any
        rows: Any

    Made.__annotations__ = {"codes": newer, "rows": Annotated[newer, 2]}
    assert list(group_type(Made)) == [numba.types.uint16[::1], numba.types.uint16[:, ::1]]


def test_kernels_take_groups_that_signatures_name() -> None:
    assert cell_of(table(), 1) == 2.5
    assert first_cell(Book(7, table())) == 8.0


Codes = TypeVar("Codes", U8Array, U32Array)
Code = TypeVar("Code", U8, int)


def test_signatures_are_annotations() -> None:
    def pick(codes: ReadOnly[U32Array], mask: U64, rows: Rows[np.uint8]) -> tuple[I64Array, bool]:
        raise NotImplementedError

    (signature,) = signatures_of(pick)
    types: Any = numba.types
    assert signature.args == (
        types.Array(types.uint32, 1, "C", readonly=True),
        types.uint64,
        types.uint8[:, ::1],
    )
    assert signature.return_type == types.Tuple([types.int64[::1], types.boolean])


def test_type_variables_of_a_kernel_go_through_their_constraints_together() -> None:
    def find(codes: Codes, wanted: Code) -> Codes:
        raise NotImplementedError

    types = numba.types
    assert signatures_of(find) == [
        types.uint8[::1](types.uint8[::1], types.uint8),
        types.uint32[::1](types.uint32[::1], types.int64),
    ]


def test_every_argument_and_the_result_need_a_type() -> None:
    def unsaid(codes, wanted: int) -> None: ...  # type: ignore[no-untyped-def]

    def endless(wanted: int): ...  # type: ignore[no-untyped-def]

    with pytest.raises(TypeError, match="unsaid does not say the type of codes"):
        signatures_of(unsaid)
    with pytest.raises(TypeError, match="endless does not say the type of return"):
        signatures_of(endless)


def _is_kernel(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(part, ast.Name) and part.id == "kernel"
        for decorator in node.decorator_list
        for part in ast.walk(decorator)
    )


def _called_too_early(source: str) -> list[str]:
    """Return the kernels of a module that are called by kernels which stand before them."""
    kernels = [node for node in ast.parse(source).body if _is_kernel(node)]
    lines = {node.name: node.lineno for node in kernels if isinstance(node, ast.FunctionDef)}
    return [
        part.id
        for node in kernels
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and lines.get(part.id, 0) > node.lineno
    ]


def test_kernels_stand_before_those_that_call_them() -> None:
    """numba compiles a kernel where it is defined, and knows only what stands above."""
    early = {
        str(path.relative_to(ROOT)): names
        for folder in ("common", "shard", "coordinator")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (names := _called_too_early(path.read_text("utf-8")))
    }
    assert early == {}


def test_early_calls_are_noticed() -> None:
    source = (
        "@kernel\ndef a(x: int) -> int:\n    return b(x)\n\n@kernel(inline=True)\ndef b(x): ..."
    )
    assert _called_too_early(source) == ["b"]
