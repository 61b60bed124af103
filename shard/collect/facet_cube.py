"""Joint counts: matches by bin of one numeric field and by value of other fields.

A page that lets people drag a range of prices knows, with these counts, every facet and histogram
for every range, and need not ask again:

    price            0-10  10-20  20-30
    all matches        4      2      1
    brand  acme        3      -      1
           bit         1      2      -
    year   1990-99     2      2      -

A document is in one bin; one with numbers in several has no joint counts, and is an error. What is
counted by the bins is a *dimension* of a segment: codes of values by document, as in a facet
column, and by code the row that it is counted in. Row 0 is for what is not wanted, bin 0 for what
is in no bin, so that counting needs no branch.

    facet        its column; a row for each wanted value
    histogram    a column of bucket numbers, made once for an interval
    calendar     the column of texts; the row of a text is that of its bucket
    tree         the column of nodes
    others       pairs (document, row) of the matches

Cost: 1-2 ns a match and dimension, more where a document has several values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from common.deadline import check_call
from common.errors import InvalidRequest
from common.kernels.decorator import kernel
from common.kernels.types import (
    F64Array,
    U8Array,
    U16Array,
    U32Array,
    U64Array,
    int64,
    uint16,
    uint32,
)
from common.protocol.messages import (
    CubeCounts,
    CubeFacet,
    CubeRange,
    CubeRequest,
    RangeRequest,
)
from shard.caches.lru_cache import COLUMN_CACHE
from shard.collect.counted_matches import CountedMatches, Scope
from shard.collect.facet_pairs import (
    FacetPairs,
    are_among,
    distinct_pairs,
    facet_pairs,
    field_values,
)
from shard.collect.range_counts import (
    calendar_buckets,
    histogram_of,
    in_bounds,
    intervals_of,
    intervals_within,
    lacks_field,
    numbers_of,
    points_by_bucket,
    scope_of_range,
)
from shard.collect.trees import nodes_of
from shard.query.filters import resolve
from shard.segment.code_counts import count_codes
from shard.segment.doc_sets import count_docs, has_bit, list_all_docs
from shard.segment.facet_columns import FacetColumn, facet_column
from shard.segment.number_columns import NumberColumn, number_column
from shard.segment.text_columns import text_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.query.matches import Matches
    from shard.segment.segment import Segment
    from shard.segment.snapshot import Snapshot

Codes = TypeVar("Codes", U8Array, U16Array, U32Array)
Names: TypeAlias = Callable[["NDArray[Any]"], list[Any]]

_SEVERAL: Final = 0xFFFF
"""Stands for a bin: the document has numbers in several bins."""
_NO_WORDS: Final = np.zeros(0, np.uint64)
_CELLS_FAST_MAX: Final = 1 << 16
"""Up to this many counts, those that turn out to be 0 cost less than finding them first."""
_LISTED_PER_CODE: Final = 1.5
"""Listing a document of a stored set and counting it takes this many times as long as a code."""
_EXACT_END: Final = 2.0**53


class _Part(NamedTuple):
    """The matches of one segment, with the bins of the segment."""

    matches: Matches
    bins: NDArray[np.uint16]
    """By document: bin + 1, or 0."""


class _Dimension(NamedTuple):
    """The other values counted with the bins, in one segment."""

    codes: NDArray[Any]
    starts: NDArray[np.uint32]
    """As in a facet column."""
    rows: NDArray[np.uint32]
    """By code: row + 1, or 0."""


class _Grid:
    """The counts of one facet or range; rows are known from the start, or added as they appear."""

    def __init__(self, request: CubeRequest, keys: Sequence[Any] = ()) -> None:
        self._request = request
        self._num_bins = num_bins = request.num_bins
        self.rows = {key: row for row, key in enumerate(keys)}
        self.counts = np.zeros((len(keys), num_bins), np.uint32)

    def rows_of(self, keys: Sequence[Any]) -> NDArray[np.uint32]:
        """Return the row + 1 of each key; new keys get one.

        Raises:
            InvalidRequest: there are too many.
        """
        rows = np.array([self.rows.setdefault(key, len(self.rows)) + 1 for key in keys], np.uint32)
        if len(self.rows) * self._num_bins > self._request.counts_max:
            raise self._request.too_many_counts()
        num_new = len(self.rows) - len(self.counts)
        if num_new:
            more = np.zeros((num_new, self._num_bins), np.uint32)
            self.counts = np.concatenate([self.counts, more])
        return rows

    def add_counts(self, keys: Sequence[Any], counts: NDArray[np.uint32]) -> None:
        """Add counts by key and bin."""
        rows = self.rows_of(keys)
        if len(rows):
            self.counts[rows - np.uint32(1)] += counts

    def add(self, part: _Part, dimension: _Dimension) -> None:
        """Count a dimension of one segment."""
        width = self._num_bins + 1
        counts = np.zeros((len(self.rows) + 1) * width, np.uint32)
        last = np.zeros(len(self.rows) + 1, np.uint32)
        _count_jointly(part.matches.docs, part.bins, *dimension, last, width, counts)
        self.counts += counts.reshape(-1, width)[1:, 1:]

    def add_sets(self, part: _Part, column: FacetColumn, rows: dict[int, int]) -> None:
        """Count values of one segment by their stored sets.

        Args:
            part: the matches.
            column: has sets.
            rows: by number of the value.
        """
        words = _NO_WORDS if part.matches.is_everything else part.matches.words
        for number, row in rows.items():
            for one in column.stored_sets((number,)):
                counts = np.zeros(self._num_bins + 1, np.uint32)
                _count_bins(column.docs_in((one,)), words, part.bins, counts)
                self.counts[row] += counts[1:]

    def add_present(
        self,
        part: _Part,
        column: FacetColumn,
        names: Sequence[Any],
        name_of_code: NDArray[np.int64] | None = None,
    ) -> None:
        """Count a column of one segment, with a row for every name that a match has.

        Args:
            part: the matches.
            column: its codes.
            names: of the rows.
            name_of_code: by code the position of its name + 1, or 0; None: the code itself.
        """
        if name_of_code is None:
            name_of_code = np.arange(len(names) + 1)
        width = self._num_bins + 1
        if (len(names) + 1) * width <= _CELLS_FAST_MAX:
            # Count all names, then keep those that are there: one pass instead of two.
            rows = name_of_code.astype(np.uint32)
            counts = np.zeros((len(names) + 1) * width, np.uint32)
            last = np.zeros(len(names) + 1, np.uint32)
            _count_jointly(
                part.matches.docs, part.bins, column.codes, column.starts, rows, last, width, counts
            )
            by_name = counts.reshape(-1, width)
            present = np.flatnonzero(by_name[1:].any(axis=1))
            self.add_counts([names[name] for name in present.tolist()], by_name[present + 1, 1:])
            return
        counts = np.zeros(len(name_of_code), np.uint32)
        count_codes(part.matches.docs, column.codes, column.starts, counts)
        present = np.unique(name_of_code[counts > 0])
        present = present[present > 0]
        rows = np.zeros(len(names) + 1, np.uint32)
        rows[present] = self.rows_of([names[name - 1] for name in present.tolist()])
        self.add(part, _Dimension(column.codes, column.starts, rows[name_of_code]))

    def add_pairs(self, part: _Part, pairs: FacetPairs) -> None:
        """Count pairs (match, row + 1), each once."""
        width = self._num_bins + 1
        cells = pairs.codes.astype(np.int64) * width + part.bins[pairs.docs]
        counts = np.bincount(cells, minlength=(len(self.rows) + 1) * width)
        self.counts += counts.reshape(-1, width)[1:, 1:].astype(np.uint32)

    def add_buckets(
        self, part: _Part, docs: NDArray[np.uint32], buckets: NDArray[Any], names: Names
    ) -> None:
        """Count the buckets of matches, with a row for each.

        Args:
            part: the matches.
            docs: documents; one may have several buckets, or one twice.
            buckets: number of each.
            names: turns numbers into names.
        """
        distinct, positions = np.unique(buckets, return_inverse=True)
        rows = self.rows_of(names(distinct))
        if len(distinct):
            self.add_pairs(part, distinct_pairs(docs, rows[positions.reshape(-1)]))

    def add_docs(self, part: _Part, row: int, words: NDArray[np.uint64]) -> None:
        """Count the matches of a bitset in one row."""
        chosen = part.matches.words & words
        docs = list_all_docs(chosen, int(count_docs(chosen)))
        counts = np.bincount(part.bins[docs], minlength=self._num_bins + 1)
        self.counts[row] += counts[1:].astype(np.uint32)


@kernel(allocates=False)
def _count_jointly(
    docs: U32Array,
    bins: U16Array,
    codes: Codes,
    starts: U32Array,
    rows: U32Array,
    last: U32Array,
    width: int,
    counts: U32Array,
) -> None:
    """Add 1 to counts[row * width + bin] for every document and each of its rows, once.

    Args:
        docs: ascending.
        bins: by document.
        codes: of values, see `FacetColumn`.
        starts: of the codes of each document; empty: one code each.
        rows: by code.
        last: by row, the last document that was counted there, plus 1; zeros at first.
        width: bins of a row.
        counts: by row and bin.
    """
    if len(starts) == 0:
        for doc in docs:
            counts[int64(rows[codes[doc]]) * width + int64(bins[doc])] += uint32(1)
        return
    for doc in docs:
        mark = doc + uint32(1)
        for position in range(starts[doc], starts[doc + uint32(1)]):
            row = rows[codes[position]]
            at = int64(row) * width + int64(bins[doc])
            counts[at] += uint32(last[row] != mark)
            last[row] = mark


@kernel(allocates=False)
def _count_bins(docs: U32Array, words: U64Array, bins: U16Array, counts: U32Array) -> None:
    """Add 1 to counts[bin] for every document that is in a bitset; an empty one has all.

    Others count in bin 0: theirs may be `_SEVERAL`, which is past the end of `counts`.
    """
    if len(words) == 0:
        for doc in docs:
            counts[bins[doc]] += uint32(1)
        return
    for doc in docs:
        counts[int64(bins[doc]) * int64(has_bit(words, doc))] += uint32(1)


@kernel(allocates=False)
def _find_bins(numbers: F64Array, edges: F64Array, bins: U16Array) -> None:
    """Write the bin + 1 of each number, 0 if it is in no bin; bin i is [edge i, edge i + 1).

    A binary search without branches: the steps are the same for all numbers.
    """
    num_edges = len(edges)
    for i in range(len(numbers)):
        number = numbers[i]
        first = 0
        size = num_edges
        while size > 1:
            half = size >> 1
            first += half if edges[first + half] <= number else 0
            size -= half
        is_in = (edges[0] <= number) & (number < edges[num_edges - 1])
        bins[i] = uint16(first + 1 if is_in else 0)


def count_cube(
    snapshot: Snapshot,
    request: CubeRequest,
    counted: CountedMatches,
) -> CubeCounts:
    """Return the joint counts of a search.

    Args:
        snapshot: to search.
        request: the bins, and the facets and ranges to count by them.
        counted: the matches to count within: of all clauses but those on the binned field.

    Raises:
        InvalidRequest: a match has numbers in several bins, an interval is too small for the
            values, or there are more counts than allowed.
    """
    num_bins = request.num_bins
    binned: dict[Scope, list[_Part]] = {}

    def parts_in(scope: Scope) -> list[_Part]:
        if scope not in binned:
            binned[scope] = [
                _Part(one, _bins_of(snapshot, request, one))
                for one in counted.within(scope)
                if one.count
            ]
        return binned[scope]

    total = np.zeros(num_bins + 1, np.int64)
    for part in parts_in(None):
        of_part = np.zeros(num_bins + 1, np.uint32)
        _count_bins(part.matches.docs, _NO_WORDS, part.bins, of_part)
        total += of_part
    facets = []
    for facet in request.facets:
        check_call()
        grid = _Grid(request, facet.keys)
        for part in parts_in(counted.scope_of_facet(facet.facet)):
            _add_facet(snapshot, facet, part, grid)
        facets.append(grid.counts.tobytes())
    ranges = []
    for one in request.ranges:
        check_call()
        grid = _Grid(request, range(len(one.bounds or one.rings)))
        without = np.zeros((1, num_bins), np.uint32)
        for part in parts_in(scope_of_range(counted, one)):
            _add_range(snapshot, one, part, grid)
            if one.wants_missing:
                without += _count_without(snapshot, request, one, part)
        missing = without.tobytes() if one.wants_missing else b""
        ranges.append(CubeRange(tuple(grid.rows), grid.counts.tobytes(), missing))
    return CubeCounts(total[1:].astype(np.uint32).tobytes(), tuple(facets), tuple(ranges))


# --- bins -----------------------------------------------------------------------------------------


def _bins_of(snapshot: Snapshot, request: CubeRequest, part: Matches) -> NDArray[np.uint16]:
    """Return the bin + 1 of each document of a segment, 0 if it is in none."""
    field = snapshot.registry.number(request.field)
    segment = part.view.segment
    column = None if field is None else number_column(segment, field)
    if column is None:
        return np.zeros(segment.num_docs, np.uint16)
    key = ("bins", segment.uid, field, request.edges)
    bins: NDArray[np.uint16] | None = COLUMN_CACHE.get(key)
    if bins is None:
        bins = _bins_by_doc(column, request.edges, segment)
        COLUMN_CACHE.put(key, bins, bins.nbytes + 40 * len(request.edges), segment)
    if not column.is_dense and (bins[part.docs] == _SEVERAL).any():
        raise InvalidRequest(
            f"facet_cube needs at most one number in {request.field!r} of an item: some have "
            "several, in different bins",
            code="invalid_facet_cube",
            param="facet_cube.field",
        )
    return bins


def _bins_by_doc(
    column: NumberColumn, edges: Sequence[int | float], segment: Segment
) -> NDArray[np.uint16]:
    """Return the bin + 1 of each document of a segment."""
    if column.is_dense and column.is_exact_as_double:
        values = column.values
        bins = np.zeros(len(values), np.uint16)
        numbers = values.astype(np.float64)
        _find_bins(numbers, _doubles_from(edges), bins)
        if values.dtype.kind != "f":
            bins[values == np.iinfo(values.dtype).min] = 0
        return bins
    docs, doubles, residuals = column.pairs()
    found = np.zeros(len(docs), np.uint16)
    if residuals is None and max(map(abs, edges)) < _EXACT_END:
        _find_bins(doubles, _doubles_from(edges), found)
    else:
        numbers = doubles.astype(np.longdouble)
        if residuals is not None:
            numbers += residuals
        bin_numbers = np.searchsorted(np.array(edges, np.longdouble), numbers, side="right")
        found[:] = np.where(bin_numbers == len(edges), 0, bin_numbers)
    by_doc = np.zeros(segment.num_docs, np.uint16)
    inside = found > 0
    docs, found = docs[inside], found[inside]
    by_doc[docs] = found
    by_doc[docs[by_doc[docs] != found]] = _SEVERAL
    return by_doc


def _doubles_from(edges: Sequence[int | float]) -> NDArray[np.float64]:
    """Return the least double that is not below each edge: the same doubles are in the bins."""
    doubles = [float(edge) for edge in edges]
    return np.array(
        [
            math.nextafter(double, math.inf) if double < edge else double
            for double, edge in zip(doubles, edges, strict=True)
        ]
    )


# --- dimensions -----------------------------------------------------------------------------------


def _add_facet(snapshot: Snapshot, facet: CubeFacet, part: _Part, grid: _Grid) -> None:
    """Count the requested values of a facet, or of any other field."""
    name = facet.facet.field
    field = snapshot.registry.number(name)
    if field is None:
        return
    dictionary = snapshot.dictionaries.get(name)
    if dictionary is None:
        _add_field(snapshot, facet, field, part, grid)
        return
    length = snapshot.dictionary_lengths[name]
    rows = np.zeros(length + 1, np.uint32)  # by code
    for row, key in enumerate(facet.keys):
        number = dictionary.number(key, length)
        if number is not None:
            rows[number + 1] = row + 1
    if facet.facet.within is not None:
        pairs = facet_pairs(snapshot, facet.facet, part.matches)
        wanted = rows[pairs.codes]
        grid.add_pairs(part, FacetPairs(pairs.docs[wanted > 0], wanted[wanted > 0]))
        return
    column = facet_column(part.matches.view.segment, field)
    if column is not None:
        _add_column(column, rows, part, grid)


def _add_field(snapshot: Snapshot, facet: CubeFacet, field: int, part: _Part, grid: _Grid) -> None:
    """Count the requested values of a field that is not a facet."""
    keys, every = field_values(snapshot, part.matches.view, field)
    rows = np.zeros(len(keys), np.uint32)  # by code
    known = {key: code for code, key in enumerate(keys)}
    for row, key in enumerate(facet.keys):
        if key in known:
            rows[known[key]] = row + 1
    grid.add_pairs(part, _counted(part, every.docs, rows[every.codes]))


def _add_column(column: FacetColumn, rows: NDArray[np.uint32], part: _Part, grid: _Grid) -> None:
    """Count the values of a facet that have a row, by their stored sets where that takes less."""
    row_of = {int(code) - 1: int(rows[code]) - 1 for code in np.flatnonzero(rows)}
    if column.has_sets:
        num_listed = sum([count for _, count in column.stored_sets(row_of)])
        if num_listed * _LISTED_PER_CODE < part.matches.count * column.codes_per_doc:
            grid.add_sets(part, column, row_of)
            return
    grid.add(part, _Dimension(column.codes, column.starts, rows))


def _counted(part: _Part, docs: NDArray[np.uint32], rows: NDArray[np.uint32]) -> FacetPairs:
    """Return those pairs (document, row + 1) that have a row and match."""
    has_row = rows > 0
    docs, rows = docs[has_row], rows[has_row]
    is_match = are_among(part.matches, docs)
    return FacetPairs(docs[is_match], rows[is_match])


def _add_range(snapshot: Snapshot, request: RangeRequest, part: _Part, grid: _Grid) -> None:
    """Count the intervals of a field."""
    field = snapshot.registry.number(request.field)
    if field is None:
        return
    matches = part.matches
    segment = matches.view.segment
    if request.bounds:
        for row, (lower, upper) in enumerate(request.bounds):
            inside = in_bounds(request, lower, upper)
            grid.add_docs(part, row, resolve(snapshot, matches.view, inside))
    elif request.rings or request.zoom is not None:
        docs, buckets = points_by_bucket(matches, field, request)
        grid.add_buckets(part, docs, buckets, lambda numbers: numbers.tolist())
    elif request.tree is not None:
        nodes = nodes_of(snapshot, segment, field, request)
        if nodes is not None:
            grid.add_present(part, nodes.column, nodes.names)
    elif request.calendar is not None:
        texts = text_column(snapshot, matches.view, field)
        if texts is not None:
            grid.add_present(part, texts.column, *calendar_buckets(texts, request, segment))
    elif request.within is not None:
        docs, numbers = intervals_within(snapshot, matches, field, request, request.within)
        grid.add_buckets(part, docs, numbers, numbers_of)
    else:
        histogram = histogram_of(segment, field, request)
        if histogram is not None:
            grid.add_present(part, histogram.column, histogram.keys)
        else:
            docs, numbers, _ = intervals_of(matches, field, request)
            grid.add_buckets(part, docs, numbers, numbers_of)


def _count_without(
    snapshot: Snapshot, cube: CubeRequest, request: RangeRequest, part: _Part
) -> NDArray[np.uint32]:
    """Count the matches without the field of a range; uint32, one row by bin."""
    grid = _Grid(cube, [""])
    grid.add_docs(part, 0, resolve(snapshot, part.matches.view, lacks_field(request)))
    return grid.counts
