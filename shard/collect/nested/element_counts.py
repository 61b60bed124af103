"""Facet counts within elements, in those that pass a condition.

A value's count is the number of matching documents that have it in such an element: a document
counts once, however many of its elements have the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.intrinsics import count_ones, trailing_zeros
from common.kernels.types import U8Array, U16Array, U32Array, U64Array, uint32, uint64
from common.query_syntax_tree import Filter, Same
from shard.caches.lru_cache import FILTER_CACHE
from shard.collect.nested.passing_elements import list_passing, listed_if_few
from shard.query.filters.filter_bitsets import element_view, resolve
from shard.segment.columns.facet_columns import FacetColumn, facet_column
from shard.segment.doc_sets import bitset_of, complement, count_docs, list_all_docs, pick_docs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.query.filters.filter_bitsets import ElementView
    from shard.query.matches import Matches
    from shard.segment.columns.nested_elements import ElementSegment
    from shard.segment.snapshot import Snapshot

Codes = TypeVar("Codes", U8Array, U16Array, U32Array)


@kernel(allocates=False)
def _count_listed(
    elements: U32Array,
    owners: U32Array,
    codes: Codes,
    starts: U32Array,
    last: U32Array,
    counts: U32Array,
) -> None:
    """Add 1 to counts[code] for every document that has it in one of the elements.

    `last` holds, by code, the last document it was counted for, plus 1; elements ascend, so a
    document counts once. Cost: 3 ns an element.
    """
    if len(starts) == 0:
        for element in elements:
            code = codes[element]
            mark = owners[element] + uint32(1)
            counts[code] += uint32(last[code] != mark)
            last[code] = mark
        return
    for element in elements:
        mark = owners[element] + uint32(1)
        for position in range(starts[element], starts[element + uint32(1)]):
            code = codes[position]
            counts[code] += uint32(last[code] != mark)
            last[code] = mark


@kernel(allocates=False)
def _count_words(
    elements: U64Array, lasts: U64Array, codes: Codes, last: U32Array, counts: U32Array
) -> None:
    """Count like `_count_listed` in a bitset of elements with one code each; 1.5 ns an element.

    The number of documents that end before an element identifies its document: a bitset of `lasts`
    is a thirtieth of the array of owners.
    """
    num_ended = 1
    for position in range(len(elements)):
        word = elements[position]
        ends = lasts[position]
        base = position << 6
        while word != 0:
            lowest = word & (~word + uint64(1))
            code = codes[base + trailing_zeros(word)]
            mark = uint32(num_ended + count_ones(ends & (lowest - uint64(1))))
            counts[code] += uint32(last[code] != mark)
            last[code] = mark
            word ^= lowest
        num_ended += count_ones(ends)


class WithinCounter:
    """Counts facets inside nested fields, in elements that pass a condition; one for a request.

    Args:
        snapshot: to search.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._passing: dict[tuple[int, Filter], NDArray[Any]] = {}
        self._of_matches: dict[tuple[int, str], NDArray[np.uint64]] = {}

    def count(
        self,
        field: str,
        condition: Same,
        matches: Sequence[Matches],
        counts: NDArray[np.uint32],
    ) -> None:
        """Count the values of a facet.

        Args:
            field: the facet.
            condition: the nested field, and what its elements must pass.
            matches: the documents that count, by segment of the snapshot: the same in each call
                for one nested field.
            counts: documents by value number + 1, to add to; counts[0] becomes 0.
        """
        number = self._snapshot.registry.number(field)
        if number is None:
            return
        for part in matches:
            elements = element_view(self._snapshot, part.view.segment, condition.field)
            column = None if elements is None else facet_column(elements.view.segment, number)
            if not part.count or elements is None or column is None:
                continue
            if part.is_everything:
                of_all = self._count_all(elements, condition, number, column, len(counts))
                # A newer state, which knows more values of other segments, may have kept them.
                known = of_all[: len(counts)]
                counts[: len(known)] += known
            else:
                count_elements(
                    elements.elements, self._among(elements, condition, part), column, counts
                )
        counts[0] = 0

    def _count_all(
        self,
        elements: ElementView,
        condition: Same,
        number: int,
        column: FacetColumn,
        num_counts: int,
    ) -> NDArray[np.uint32]:
        """Return the counts of a whole segment; cached, unless the elements are fewer."""
        segment = elements.view.segment
        key = ("within", segment.uid, number, condition.condition)
        counts: NDArray[np.uint32] | None = FILTER_CACHE.get(key)
        if counts is None:
            passing = self._passing_elements(elements, condition.condition)
            counts = np.zeros(num_counts, np.uint32)
            count_elements(elements.elements, passing, column, counts)
            if counts.nbytes < passing.nbytes:
                FILTER_CACHE.put(key, counts, counts.nbytes, segment)
        return counts

    def _passing_elements(self, elements: ElementView, condition: Filter) -> NDArray[Any]:
        """Return the elements that pass: a bitset, or a list where they are few; do not write."""
        key = elements.view.segment.uid, condition
        passing = self._passing.get(key)
        if passing is None:
            passing = listed_if_few(resolve(self._snapshot, elements.view, condition))
            self._passing[key] = passing
        return passing

    def _among(self, elements: ElementView, condition: Same, part: Matches) -> NDArray[Any]:
        """Return the elements of matches that pass: a bitset, or a list where they are few."""
        passing = self._passing_elements(elements, condition.condition)
        key = part.view.segment.uid, condition.field
        of_matches = self._of_matches.get(key)
        if of_matches is None:
            of_matches = self._of_matches[key] = _elements_of(part, elements)
        if passing.dtype == np.uint32:
            picked = np.empty_like(passing)
            return picked[: pick_docs(passing, of_matches, picked)]
        return listed_if_few(passing & of_matches)


def _elements_of(part: Matches, elements: ElementView) -> NDArray[np.uint64]:
    """Return all elements of matches as a bitset; 2 ns a document."""
    num_docs = part.view.segment.num_docs
    if 2 * part.count <= num_docs:
        return elements.elements.of_docs(part.docs)
    others = complement(part.bitset, num_docs)
    of_others = elements.elements.of_docs(list_all_docs(others, num_docs - part.count))
    return complement(of_others, len(elements.docs))


def count_elements(
    elements: ElementSegment,
    passing: NDArray[Any],
    column: FacetColumn,
    counts: NDArray[np.uint32],
) -> None:
    """Add 1 to counts[code] for every document that has it in one of the passing elements.

    Args:
        elements: of one segment.
        passing: those that pass: a bitset (uint64), or ascending (uint32).
        column: values of the elements.
        counts: by code; counts[0] becomes meaningless.
    """
    last = np.zeros(len(counts), np.uint32)
    if passing.dtype == np.uint64 and column.is_single:
        _count_words(passing, elements.lasts, column.codes, last, counts)
        return
    if passing.dtype == np.uint64:
        passing = list_all_docs(passing, int(count_docs(passing)))
    _count_listed(passing, elements.docs, column.codes, column.starts, last, counts)


def count_without(
    snapshot: Snapshot, field: str, condition: Same, matches: Sequence[Matches]
) -> int:
    """Return how many documents `docs_without` finds in all segments."""
    return sum([len(docs_without(snapshot, field, condition, part)) for part in matches])


def docs_without(
    snapshot: Snapshot, field: str, condition: Same, part: Matches
) -> NDArray[np.uint32]:
    """Return the matches with passing elements, none of which has a value of a facet.

    Args:
        snapshot: to search.
        field: the facet.
        condition: the nested field, and what its elements must pass.
        part: the documents that count, of one segment.
    """
    number = snapshot.registry.number(field)
    elements = element_view(snapshot, part.view.segment, condition.field)
    if not part.count or elements is None:
        return np.zeros(0, np.uint32)
    passing = list_passing(snapshot, elements, condition.condition)
    column = None if number is None else facet_column(elements.view.segment, number)
    if column is None:
        valued = passing[:0]
    elif column.is_single:
        valued = passing[column.codes[passing] != 0]
    else:
        valued = passing[column.starts[passing + np.uint32(1)] > column.starts[passing]]
    owners = bitset_of(elements.docs[passing], part.view.segment.num_docs)
    owners &= ~bitset_of(elements.docs[valued], part.view.segment.num_docs)
    owners &= part.bitset
    return list_all_docs(owners, int(count_docs(owners)))
