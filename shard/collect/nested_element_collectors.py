"""Collects from the elements of a nested field that pass a condition.

    counts      how many matching documents have an element that passes and has this value
    order       by document, the least or the greatest number of the elements that pass
    positions   which elements of a hit passed

Elements that pass are a bitset over the elements of a segment, resolved as over documents
(`filters`), and cached there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from common.distinct_values import distinct_values
from common.kernels.decorator import kernel
from common.kernels.intrinsics import count_ones, trailing_zeros
from common.kernels.types import U8Array, U16Array, U32Array, U64Array, uint32, uint64
from common.query_syntax_tree import And, Filter, Same
from shard.caches.lru_cache import COLUMN_CACHE, FILTER_CACHE
from shard.query.filters.filter_bitsets import KEYS_FAST_MAX, element_view, resolve
from shard.segment.columns.facet_columns import FacetColumn, facet_column
from shard.segment.columns.number_columns import number_column
from shard.segment.columns.sort_columns import MISSING_KEY, SortColumn, ordered_keys
from shard.segment.doc_sets import (
    are_in,
    bitset_of,
    complement,
    count_docs,
    list_all_docs,
    list_docs,
    pick_docs,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import SortKey
    from shard.query.filters.filter_bitsets import ElementView
    from shard.query.matches import Matches
    from shard.segment.columns.nested_elements import ElementSegment
    from shard.segment.snapshot import SegmentView, Snapshot

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
            passing = _listed_if_few(resolve(self._snapshot, elements.view, condition))
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
        return _listed_if_few(passing & of_matches)


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


def list_passing(
    snapshot: Snapshot, elements: ElementView, condition: Filter
) -> NDArray[np.uint32]:
    """Return the elements that pass a condition, ascending; cached for the next facet."""
    segment = elements.view.segment
    key = ("passing", segment.uid, condition)
    passing: NDArray[np.uint32] | None = FILTER_CACHE.get(key)
    if passing is None:
        bitset = resolve(snapshot, elements.view, condition)
        passing = list_all_docs(bitset, int(count_docs(bitset)))
        FILTER_CACHE.put(key, passing, passing.nbytes, segment)
    return passing


def _listed_if_few(bitset: NDArray[np.uint64]) -> NDArray[Any]:
    """Return a bitset, or its elements as a list where there is not even one in each word."""
    count = int(count_docs(bitset))
    return bitset if count > len(bitset) else list_docs(bitset, count)


def needs_element_order(view: SegmentView, field: int, key: SortKey) -> bool:
    """Return whether `element_order` takes milliseconds."""
    segment = view.segment
    if segment.num_docs <= KEYS_FAST_MAX:
        return False
    return COLUMN_CACHE.get(_order_key(view, field, key)) is None


def _order_key(view: SegmentView, field: int, key: SortKey) -> Hashable:
    return "elements", view.segment.uid, field, key.within, key.is_descending


def element_order(snapshot: Snapshot, view: SegmentView, field: int, key: SortKey) -> SortColumn:
    """Return the order of a segment by the numbers of the elements that pass a condition.

    Ascending, a document's least number counts; descending, its greatest. A document without a
    number in such an element counts as missing. Cached with the segment.

    Cost: 10 ns an element that passes, and 2 ns a document, to build; ten times as much per element
    where doubles do not hold the numbers exactly.
    """
    assert key.within is not None, "no elements to order by"
    within = key.within
    segment = view.segment

    def make() -> SortColumn:
        numbers = np.full(segment.num_docs, np.nan)
        elements = element_view(snapshot, segment, within.field)
        column = None if elements is None else number_column(elements.view.segment, field)
        if elements is not None and column is not None:
            passing = list_passing(snapshot, elements, within.condition)
            owners, doubles, residuals = column.pairs_of(passing)
            doubles += 0.0  # -0.0 is 0.0
            docs = elements.docs[owners]
            if residuals is not None:
                return _exact_order(segment.num_docs, docs, doubles, residuals, key)
            firsts = np.flatnonzero(np.diff(docs, prepend=-1))
            if len(firsts):
                best = np.maximum if key.is_descending else np.minimum
                numbers[docs[firsts]] = best.reduceat(doubles, firsts)
        return SortColumn(segment.num_docs, numbers=numbers)

    return COLUMN_CACHE.get_or_make(
        _order_key(view, field, key),
        make,
        lambda made: made.size + np.dtype(np.float64).itemsize * segment.num_docs,
        segment,
    )


def _exact_order(
    num_docs: int,
    docs: NDArray[np.uint32],
    doubles: NDArray[np.float64],
    residuals: NDArray[np.int16],
    key: SortKey,
) -> SortColumn:
    """Return the order by the best number of each document, where doubles alone are not exact.

    Args:
        num_docs: of the segment.
        docs: of each number, ascending.
        doubles: the numbers, rounded.
        residuals: by how much they exceed these.
        key: the sort key.
    """
    ascending = np.lexsort((residuals, doubles, docs))
    docs = docs[ascending]
    is_best = (
        np.diff(docs, append=num_docs) != 0 if key.is_descending else np.diff(docs, prepend=-1) != 0
    )
    best, docs = ascending[is_best], docs[is_best]
    by_doc = np.full(num_docs, np.uint64(MISSING_KEY))
    by_doc[docs] = ordered_keys(doubles[best])
    minor_keys = np.zeros(num_docs, np.int16)
    minor_keys[docs] = residuals[best]
    return SortColumn(num_docs, by_doc=by_doc, minor_keys=minor_keys)


def matching_elements(
    snapshot: Snapshot,
    views: NDArray[np.int64],
    docs: NDArray[np.uint32],
    filters: Sequence[Filter],
) -> tuple[dict[str, list[int]], ...]:
    """Return the elements of each hit and nested field that passed the field's condition.

    Args:
        snapshot: to search.
        views: of the hits: position of the segment in the snapshot.
        docs: of the hits: document of the segment.
        filters: all that a hit must pass. Given several conditions on one field, an element need
            pass only one to be returned.

    Returns:
        By hit, then nested field: ascending positions in the array.
    """
    found: list[dict[str, list[int]]] = [{} for _ in docs]
    for condition in _conditions_of(filters):
        for ordinal in distinct_values(views).tolist():
            elements = element_view(snapshot, snapshot.views[ordinal].segment, condition.field)
            if elements is None:
                continue
            bitset = resolve(snapshot, elements.view, condition.condition)
            for i in np.flatnonzero(views == ordinal).tolist():
                first, end = np.searchsorted(elements.docs, [docs[i], docs[i] + 1]).tolist()
                passes = are_in(bitset, np.arange(first, end, dtype=np.uint32))
                positions = found[i].setdefault(condition.field, [])
                positions += np.flatnonzero(passes).tolist()
    return tuple(
        {field: sorted(set(positions)) for field, positions in one.items()} for one in found
    )


def _conditions_of(filters: Sequence[Filter]) -> Iterator[Same]:
    """Yield the conditions on elements that every hit passes."""
    for one in filters:
        if isinstance(one, Same):
            yield one
        elif isinstance(one, And):
            yield from _conditions_of(one.children)
