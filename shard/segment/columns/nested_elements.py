"""Elements: the objects in a field, as the documents of a small segment of their own.

Questions it answers: which conditions hold within *one* element of an array of objects, how many
elements does a document have, and at which positions of the array are they? The fields of elements
have the same columns as those of documents, by element.

    {"variants": [{"size": "M"}, {"size": "L", "price": 9}]}    {"variants": {"size": "S"}}

    nested.<f>.docs            0 0 1       document of each element, ascending
    nested.<f>.facet.<g>.*     M L S       as in facet_columns, by element; the same dictionaries
    nested.<f>.number.<g>.*    - 9 -       as in number_columns
    nested.<f>.presence.*                  as in presence_and_value_kinds

Elements are numbered in document order. An array item that is not an object becomes an element
without fields, so that positions are those in the array; the items of an array in the array are
elements of their own. Only the fields that the configuration names (`nested`) have elements; others
cost nothing.

Costs: build 20 ns a value of an element besides the columns; memory 4 bytes an element and the
columns, and once they are counted a bit an element and 4 bytes a document; merging is that of the
columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import U32Array, U64Array, uint32, uint64
from common.value_kinds_and_facet_keys import Shape, ValueKind
from shard.caches.derived_values import derived_by_key
from shard.segment.columns.facet_column_builder import build_facets
from shard.segment.columns.facet_column_merge import merge_facets
from shard.segment.columns.number_columns import build_numbers, merge_numbers
from shard.segment.columns.presence_and_value_kinds import build_presence, merge_presence
from shard.segment.doc_sets import add_docs, empty_bitset
from shard.segment.items.value_extraction import NO_FIELD
from shard.segment.merge_allocator import GrowingArray
from shard.segment.merge_state import MergeState
from shard.segment.segment import Segment, fields_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.facet_dictionary import FacetDictionary
    from shard.segment.items.value_extraction import Extraction

_SCALAR = int(Shape.SCALAR)
_ELEMENT = int(Shape.ELEMENT)
_NESTED = int(Shape.NESTED)


class Elements(NamedTuple):
    """The elements of one field of a batch."""

    values: Extraction
    """The values of their fields; `doc` is the number of the element."""
    docs: NDArray[np.uint32]
    """Document of each element, ascending."""


def elements_of(extraction: Extraction, field: int, inner: NDArray[np.bool_]) -> Elements:
    """Return the elements of a field in a batch.

    Args:
        extraction: the values of the batch, with their objects.
        field: number of the field.
        inner: by field number, whether it lies inside the field.
    """
    # Values inside an element belong to the object, at the field, that encloses them.
    members = np.flatnonzero(inner[extraction.field])
    anchors = _anchors(extraction, extraction.object[members], field)
    members, anchors = members[anchors > 0], anchors[anchors > 0]
    # Items of the array that are not objects (or empty ones) are elements of their own.
    is_direct = (extraction.field == field) & (extraction.kind != ValueKind.EMPTY_ARRAY)
    is_direct &= (extraction.shape != _SCALAR) | (extraction.kind == ValueKind.EMPTY_OBJECT)
    direct = np.flatnonzero(is_direct)
    # In document order; an element that is not an object gets an owner number that no object has.
    positions = np.concatenate((members, direct))
    owners = np.concatenate((anchors.astype(np.int64), -1 - direct))
    order = np.argsort(positions, kind="stable")
    positions, owners = positions[order], owners[order]
    # Values of one element are adjacent: number the elements by where the owner changes.
    is_first = np.ones(len(owners), np.bool_)
    np.not_equal(owners[1:], owners[:-1], out=is_first[1:])
    docs = extraction.doc[positions[is_first]]
    numbers = (np.cumsum(is_first) - 1).astype(np.uint32)[owners > 0]
    shapes = extraction.shape[members]
    values = extraction._replace(
        num_docs=len(docs),
        doc=numbers,
        field=extraction.field[members],
        kind=extraction.kind[members],
        start=extraction.start[members],
        end=extraction.end[members],
        shape=np.where(shapes == _NESTED, shapes, np.uint8(_ELEMENT)),
        object=np.zeros(0, np.uint32),
        parents=np.zeros(0, np.uint32),
        object_fields=np.zeros(0, np.uint16),
    )
    return Elements(values, docs)


def _anchors(extraction: Extraction, objects: NDArray[np.uint32], field: int) -> NDArray[np.uint32]:
    """Return, for each object, the object at the field that encloses it (or itself); 0: none.

    Climbs one level of nesting per step: one or two in practice.
    """
    anchors = objects.copy()
    while True:
        climbs = (extraction.object_fields[anchors] != field) & (anchors > 0)
        if not climbs.any():
            return anchors
        anchors[climbs] = extraction.parents[anchors[climbs]]


def build_elements(
    extraction: Extraction,
    nested: Mapping[int, NDArray[np.bool_]],
    facet_fields: Mapping[int, FacetDictionary],
) -> dict[str, NDArray[Any]]:
    """Build the element columns of a batch.

    Args:
        extraction: the values of the batch, with their objects.
        nested: by number of each nested field: which fields lie inside it.
        facet_fields: dictionary of every facet, by field number.

    Returns:
        Arrays by name, see the module's drawing.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for field, inner in nested.items():
        values, docs = elements_of(extraction, field, inner)
        if not len(docs):
            continue
        facets = {
            number: dictionary
            for number, dictionary in facet_fields.items()
            if number < len(inner) and inner[number]
        }
        columns = {
            **build_facets(values, facets),
            **build_numbers(values),
            **build_presence(values),
        }
        arrays |= _named(field, docs, columns)
    return arrays


def _named(
    field: int, docs: NDArray[np.uint32], columns: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    prefix = f"nested.{field}."
    return {prefix + "docs": docs} | {prefix + name: array for name, array in columns.items()}


def merge_elements(state: MergeState) -> Iterator[dict[str, NDArray[Any]]]:
    """Merge the element columns of segments; equal to a build from the kept documents.

    Yields:
        The arrays of one structure after the other.
    """
    allocator = state.allocator
    for field in fields_of(state.parts, "nested", "docs"):
        kept_docs = GrowingArray(allocator, np.uint32)
        kept_parts: list[Segment] = []
        maps: list[NDArray[np.int64]] = []
        for part, doc_map in state.mapped_parts:
            elements = element_segment(part, field)
            if elements is None:
                continue
            # An element is dropped with its document: derive the map of elements from that of
            # documents.
            element_map = allocator.empty(len(elements.docs), np.int64)
            for piece in allocator.pieces(len(elements.docs)):
                docs = doc_map[elements.docs[piece]]
                keep = docs >= 0
                element_map[piece] = np.where(keep, np.cumsum(keep) - 1 + kept_docs.length, -1)
                kept_docs.append(docs[keep].astype(np.uint32))
            maps.append(element_map)
            kept_parts.append(elements.segment)
        num_kept = kept_docs.length
        if not num_kept:
            continue
        prefix = f"nested.{field}."
        elements_state = MergeState(kept_parts, maps, num_kept, allocator)
        yield {prefix + "docs": kept_docs.finish()}
        for columns in itertools.chain(
            merge_facets(elements_state),
            merge_numbers(elements_state),
            (merge_presence(elements_state),),
        ):
            yield {prefix + name: array for name, array in columns.items()}


@kernel(allocates=False)
def _add_ranges(docs: U32Array, starts: U32Array, bitset: U64Array) -> None:
    """Set the bits of all elements of some documents; 2 ns a document."""
    for doc in docs:
        begin = starts[doc]
        end = starts[doc + uint32(1)]
        while begin < end:
            low = begin & uint32(63)
            length = min(end - begin, uint32(64) - low)
            bits = ~uint64(0) >> uint64(uint32(64) - length)
            bitset[begin >> uint32(6)] |= bits << uint64(low)
            begin += length


class ElementSegment:
    """The elements of one field of one segment; one instance per segment and field.

    Attributes:
        segment: their columns: a segment whose documents are the elements.
        docs: document of each element, ascending.
        num_docs: documents of the segment that they are in.
    """

    __slots__ = ("_lasts", "_starts", "docs", "num_docs", "segment")

    def __init__(self, segment: Segment, docs: NDArray[np.uint32], num_docs: int) -> None:
        self.segment = segment
        self.docs = docs
        self.num_docs = num_docs
        self._lasts: NDArray[np.uint64] | None = None
        self._starts: NDArray[np.uint32] | None = None

    @property
    def lasts(self) -> NDArray[np.uint64]:
        """The last element of each document that has any, as a bitset; computed on first use."""
        if self._lasts is None:
            bitset = empty_bitset(len(self.docs))
            ends = np.flatnonzero(np.diff(self.docs, append=self.num_docs))
            add_docs(bitset, ends.astype(np.uint32))
            self._lasts = bitset
        return self._lasts

    @property
    def starts(self) -> NDArray[np.uint32]:
        """Where the elements of each document begin, with a sentinel; computed on first use."""
        if self._starts is None:
            starts = np.zeros(self.num_docs + 1, np.uint32)
            np.cumsum(np.bincount(self.docs, minlength=self.num_docs), out=starts[1:])
            self._starts = starts
        return self._starts

    def of_docs(self, docs: NDArray[np.uint32]) -> NDArray[np.uint64]:
        """Return all elements of some documents as a bitset."""
        bitset = empty_bitset(len(self.docs))
        _add_ranges(docs, self.starts, bitset)
        return bitset


@derived_by_key
def element_segment(segment: Segment, field: int) -> ElementSegment | None:
    """Return the elements of a field, or None if no document of the segment has any."""
    prefix = f"nested.{field}."
    docs = segment.get(prefix + "docs")
    if docs is None:
        return None
    columns = {
        name.removeprefix(prefix): segment[name] for name in segment if name.startswith(prefix)
    }
    inner = Segment(columns, num_docs=len(docs))
    return ElementSegment(inner, docs, segment.num_docs)


def inner_fields(paths: Sequence[str], path: str) -> NDArray[np.bool_]:
    """Return, by field number, whether the field lies inside an object at a path."""
    prefix = path + "."
    inner = np.zeros(NO_FIELD + 1, np.bool_)
    inner[[number for number, one in enumerate(paths) if one.startswith(prefix)]] = True
    return inner
