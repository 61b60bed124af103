"""The counts of a cube: by row and bin, one grid for each facet or range.

What is counted by the bins is a *dimension* of a segment: codes of values by document, as in a
facet column, and by code the row that it is counted in. Row 0 is for what is not wanted, bin 0 for
what is in no bin, so that counting needs no branch. There are three ways to count:

    by document        the codes of every match
    by value           the documents in the stored sets of few values, if those are fewer
    pairs              (document, row), where there are no codes

Cost: 1-2 ns a match and dimension, more where a document has several values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from common.distinct_values import distinct_values
from common.kernels.decorator import kernel
from common.kernels.types import U8Array, U16Array, U32Array, U64Array, int64, uint32
from common.protocol.messages import CubeRequest
from shard.collect.facets.match_value_pairs import MatchValuePairs, distinct_pairs
from shard.segment.columns.code_counting import count_codes
from shard.segment.columns.facet_columns import FacetColumn
from shard.segment.doc_sets import NO_BITS, count_docs, has_bit, list_all_docs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.query.matches import Matches

Codes = TypeVar("Codes", U8Array, U16Array, U32Array)
Names: TypeAlias = Callable[["NDArray[Any]"], list[Any]]

_CELLS_FAST_MAX: Final = 1 << 16
"""Up to this many counts, those that turn out to be 0 cost less than finding them first."""


class BinnedPart(NamedTuple):
    """The matches of one segment, with the bins of the segment."""

    matches: Matches
    bins: NDArray[np.uint16]
    """By document: bin + 1, or 0."""


class Dimension(NamedTuple):
    """The other values counted with the bins, in one segment."""

    codes: NDArray[Any]
    starts: NDArray[np.uint32]
    """As in a facet column."""
    rows: NDArray[np.uint32]
    """By code: row + 1, or 0."""


class CubeGrid:
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

    def add(self, part: BinnedPart, dimension: Dimension) -> None:
        """Count a dimension of one segment."""
        width = self._num_bins + 1
        counts = np.zeros((len(self.rows) + 1) * width, np.uint32)
        last = np.zeros(len(self.rows) + 1, np.uint32)
        _count_jointly(part.matches.docs, part.bins, *dimension, last, width, counts)
        self.counts += counts.reshape(-1, width)[1:, 1:]

    def add_sets(self, part: BinnedPart, column: FacetColumn, rows: dict[int, int]) -> None:
        """Count values of one segment by their stored sets.

        Args:
            part: the matches.
            column: has sets.
            rows: by number of the value.
        """
        bitset = NO_BITS if part.matches.is_everything else part.matches.bitset
        for number, row in rows.items():
            for one in column.stored_sets((number,)):
                counts = np.zeros(self._num_bins + 1, np.uint32)
                _count_bins(column.docs_in((one,)), bitset, part.bins, counts)
                self.counts[row] += counts[1:]

    def add_present(
        self,
        part: BinnedPart,
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
        present = distinct_values(name_of_code[counts > 0])
        present = present[present > 0]
        rows = np.zeros(len(names) + 1, np.uint32)
        rows[present] = self.rows_of([names[name - 1] for name in present.tolist()])
        self.add(part, Dimension(column.codes, column.starts, rows[name_of_code]))

    def add_pairs(self, part: BinnedPart, pairs: MatchValuePairs) -> None:
        """Count pairs (match, row + 1), each once."""
        width = self._num_bins + 1
        cells = pairs.codes.astype(np.int64) * width + part.bins[pairs.docs]
        counts = np.bincount(cells, minlength=(len(self.rows) + 1) * width)
        self.counts += counts.reshape(-1, width)[1:, 1:].astype(np.uint32)

    def add_buckets(
        self, part: BinnedPart, docs: NDArray[np.uint32], buckets: NDArray[Any], names: Names
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

    def add_docs(self, part: BinnedPart, row: int, bitset: NDArray[np.uint64]) -> None:
        """Count the matches of a bitset in one row."""
        chosen = part.matches.bitset & bitset
        docs = list_all_docs(chosen, int(count_docs(chosen)))
        counts = np.bincount(part.bins[docs], minlength=self._num_bins + 1)
        self.counts[row] += counts[1:].astype(np.uint32)


def count_by_bin(part: BinnedPart, num_bins: int) -> NDArray[np.uint32]:
    """Return how many matches of a segment are in each bin; first, in none."""
    counts = np.zeros(num_bins + 1, np.uint32)
    _count_bins(part.matches.docs, NO_BITS, part.bins, counts)
    return counts


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
def _count_bins(docs: U32Array, bitset: U64Array, bins: U16Array, counts: U32Array) -> None:
    """Add 1 to counts[bin] for every document that is in a bitset; an empty one has all.

    Others count in bin 0: theirs may be `_SEVERAL`, which is past the end of `counts`.
    """
    if len(bitset) == 0:
        for doc in docs:
            counts[bins[doc]] += uint32(1)
        return
    for doc in docs:
        counts[int64(bins[doc]) * int64(has_bit(bitset, doc))] += uint32(1)
