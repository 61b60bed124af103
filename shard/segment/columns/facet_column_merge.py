"""Merges facet columns, which `facet_columns` draws and reads.

The rows of the kept documents are joined, whose numbers stay the same, and the sets are made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from shard.segment.columns.facet_column_builder import SETS_DOCS_MIN, build_sets, code_type
from shard.segment.merge_allocator import MergeAllocator
from shard.segment.merge_state import MergeState
from shard.segment.segment import fields_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


_NO_CODES: Final = np.zeros(0, np.uint8)


def merge_facets(state: MergeState) -> Iterator[dict[str, NDArray[Any]]]:
    """Merge the facet columns of segments.

    Args:
        state: what is merged.

    Yields:
        The arrays of one field after the other, equal to those of a build from the same documents.
    """
    num_docs, allocator = state.num_docs, state.allocator
    for field in fields_of(state.parts, "facet", "codes"):
        rows: Iterable[_Rows] = _KeptRows(state, field)
        if num_docs <= allocator.piece_rows:
            few = list(rows)
            rows = (_Rows(*map(np.concatenate, zip(*few, strict=True))),)
        column = _join_rows(rows, num_docs, allocator)
        if column and num_docs >= SETS_DOCS_MIN:
            column |= build_sets(column["codes"], column.get("starts"), allocator)
        yield {f"facet.{field}.{name}": array for name, array in column.items()}


class _Rows(NamedTuple):
    """The codes of consecutive documents, and how many each has."""

    codes: NDArray[Any]
    lengths: NDArray[np.uint32]


class _KeptRows:
    """The rows of the kept documents of several segments, in pieces."""

    def __init__(self, state: MergeState, field: int) -> None:
        self._state = state
        self._field = field

    def __iter__(self) -> Iterator[_Rows]:
        for part, doc_map in self._state.mapped_parts:
            codes = part.get(f"facet.{self._field}.codes")
            starts = part.get(f"facet.{self._field}.starts")
            for piece in self._state.allocator.pieces(len(doc_map)):
                keep = doc_map[piece] >= 0
                if codes is None:
                    yield _Rows(_NO_CODES, np.zeros(np.count_nonzero(keep), np.uint32))
                elif starts is None:
                    kept = codes[piece][keep]
                    has_value = kept != 0
                    yield _Rows(kept[has_value], has_value.astype(np.uint32))
                else:
                    bounds = starts[piece.start : piece.stop + 1]
                    lengths = np.diff(bounds)
                    of_piece = codes[int(bounds[0]) : int(bounds[-1])]
                    yield _Rows(of_piece[np.repeat(keep, lengths)], lengths[keep])


def _join_rows(
    rows: Iterable[_Rows], num_docs: int, allocator: MergeAllocator
) -> dict[str, NDArray[Any]]:
    """Return `codes` (and `starts`) of a column, given its rows in pieces; nothing if it is empty.

    Two passes over the rows: one measures, which decides the form; one writes.
    """
    num_codes = most = greatest = 0
    for codes, lengths in rows:
        if len(codes):
            num_codes += len(codes)
            most = max(most, int(lengths.max()))
            greatest = max(greatest, int(codes.max()))
    if not num_codes:
        return {}
    dtype = code_type(greatest)
    if most == 1:
        dense: NDArray[Any] = allocator.zeros(num_docs, dtype)
        doc = 0
        for codes, lengths in rows:
            dense[doc : doc + len(lengths)][lengths != 0] = codes
            doc += len(lengths)
        return {"codes": dense}
    joined: NDArray[Any] = allocator.empty(num_codes, dtype)
    starts = allocator.empty(num_docs + 1, np.uint32)
    starts[0] = 0
    doc = at = 0
    for codes, lengths in rows:
        joined[at : at + len(codes)] = codes
        ends = starts[doc + 1 : doc + 1 + len(lengths)]
        np.cumsum(lengths, out=ends)
        ends += np.uint32(at)
        at += len(codes)
        doc += len(lengths)
    return {"codes": joined, "starts": starts}
