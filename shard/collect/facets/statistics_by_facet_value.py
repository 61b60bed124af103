"""Statistics of numbers by facet value: min, max, count and sum within the items of a value.

    facet brand, statistics of price          items    acme 10, acme 20.5, bit 3
    ─▶ acme  count 2  min 10  max 20.5  sum 30.5        bit  count 1  min 3  max 3  sum 3

A sum of doubles depends on their order, and that on the shards. So sums are exact: every double
is an integer times a power of two; the integers of one power are added up in two halves, of which
each sum is exact as a double, and the sums of all powers as integers of any length. They travel as
multiples of 2^-`SUM_BITS`; the coordinator adds and rounds once.

A document counts once for each of its values and numbers. Cost: 30 ns a document and field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from common.deadline import check_call
from common.distinct_values import distinct_values, starts_run
from common.protocol.messages import (
    SUM_BITS,
    NumberStatistics,
    ValueStatistics,
    ValueStatisticsRequest,
)
from shard.collect.facets.match_value_pairs import (
    NO_PAIRS,
    MatchValuePairs,
    are_among,
    field_values,
    match_value_pairs,
    ranges_of,
)
from shard.segment.columns.number_columns import number_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.collect.facets.drill_sideways import CountedMatches
    from shard.query.matches import Matches
    from shard.segment.snapshot import Snapshot

_MANTISSA_BITS: Final = 53
_HALF_BITS: Final = 26
_PART_MAX: Final = 1 << 24
"""Numbers added up at once: their halves of 27 bits stay below 2^53 in all."""


class _Sums:
    """Statistics of the numbers of one field, by position of the value."""

    def __init__(self, num_values: int) -> None:
        self.counts = np.zeros(num_values, np.int64)
        self.least: list[int | float | None] = [None] * num_values
        self.greatest: list[int | float | None] = [None] * num_values
        self.sums = [0] * num_values

    def add(
        self,
        slots: NDArray[np.int64],
        doubles: NDArray[np.float64],
        residuals: NDArray[np.int16] | None,
    ) -> None:
        """Add numbers, each for the value at a position."""
        if not len(slots):
            return
        num_values = len(self.sums)
        self.counts += np.bincount(slots, minlength=num_values)
        self._add_extremes(slots, doubles, residuals)
        for begin in range(0, len(slots), _PART_MAX):
            part = slice(begin, begin + _PART_MAX)
            self._add_sums(slots[part], doubles[part])
        if residuals is not None:
            rests = np.zeros(num_values, np.int64)
            np.add.at(rests, slots, residuals)
            for slot in np.flatnonzero(rests).tolist():
                self.sums[slot] += int(rests[slot]) << SUM_BITS

    def _add_sums(self, slots: NDArray[np.int64], doubles: NDArray[np.float64]) -> None:
        mantissas, exponents = np.frexp(doubles)
        integers = np.ldexp(mantissas, _MANTISSA_BITS).astype(np.int64)
        exponents -= _MANTISSA_BITS
        highs = (integers >> _HALF_BITS).astype(np.float64)
        lows = (integers & ((1 << _HALF_BITS) - 1)).astype(np.float64)
        num_values = len(self.sums)
        for exponent in distinct_values(exponents).tolist():
            chosen = exponents == exponent
            at = slots[chosen]
            high = np.bincount(at, weights=highs[chosen], minlength=num_values)
            low = np.bincount(at, weights=lows[chosen], minlength=num_values)
            for slot in distinct_values(at).tolist():
                whole = (int(high[slot]) << _HALF_BITS) + int(low[slot])
                self.sums[slot] += whole << (exponent + SUM_BITS)

    def _add_extremes(
        self,
        slots: NDArray[np.int64],
        doubles: NDArray[np.float64],
        residuals: NDArray[np.int16] | None,
    ) -> None:
        rests = np.zeros(len(doubles), np.int16) if residuals is None else residuals
        order = np.lexsort((rests, doubles, slots))
        ordered = slots[order]
        is_first = starts_run(ordered)
        is_last = np.append(is_first[1:], True)
        for extremes, chosen, choose in (
            (self.least, order[is_first], min),
            (self.greatest, order[is_last], max),
        ):
            for slot, double, rest in zip(
                slots[chosen].tolist(),
                doubles[chosen].tolist(),
                rests[chosen].tolist(),
                strict=True,
            ):
                number = int(double) + rest if rest else double
                known = extremes[slot]
                extremes[slot] = number if known is None else choose(known, number)


def value_statistics(
    snapshot: Snapshot,
    requests: Sequence[ValueStatisticsRequest],
    counted: CountedMatches,
) -> tuple[ValueStatistics, ...]:
    """Return the statistics of numbers within the matches that have each of some facet values.

    Args:
        snapshot: to search.
        requests: facets, values of each, and the fields with numbers.
        counted: the matches to count within.
    """
    return tuple([_statistics_of(snapshot, one, counted) for one in requests])


def _statistics_of(
    snapshot: Snapshot,
    request: ValueStatisticsRequest,
    counted: CountedMatches,
) -> ValueStatistics:
    facet = request.facet
    found = {name: _Sums(len(request.keys)) for name in request.fields}
    for part in counted.within(counted.scope_of_facet(facet)):
        check_call()
        wanted = _wanted_pairs(snapshot, request, part)
        if len(wanted.docs):
            for name, sums in found.items():
                _add_numbers(snapshot, part, name, wanted, sums)
    return ValueStatistics(
        tuple(
            [
                NumberStatistics(
                    tuple(sums.counts.tolist()),
                    tuple(sums.least),
                    tuple(sums.greatest),
                    tuple(
                        [one.to_bytes(one.bit_length() // 8 + 1, signed=True) for one in sums.sums]
                    ),
                )
                for sums in found.values()
            ]
        )
    )


def _wanted_pairs(
    snapshot: Snapshot, request: ValueStatisticsRequest, part: Matches
) -> MatchValuePairs:
    """Return pairs of a match and a requested value, as its position in `keys`."""
    facet = request.facet
    dictionary = snapshot.dictionaries.get(facet.field)
    field = snapshot.registry.number(facet.field)
    if field is None or not part.count:
        return NO_PAIRS
    if dictionary is not None:
        length = snapshot.dictionary_lengths[facet.field]
        numbers = [dictionary.number(key, length) for key in request.keys]
        codes = [0 if number is None else number + 1 for number in numbers]
        pairs = match_value_pairs(snapshot, facet, part)
    else:
        keys, every = field_values(snapshot, part.view, field)
        length = len(keys)
        known = {key: code + 1 for code, key in enumerate(keys)}
        codes = [known.get(key, 0) for key in request.keys]
        is_match = are_among(part, every.docs)
        pairs = MatchValuePairs(every.docs[is_match], every.codes[is_match] + 1)
    slots = np.full(length + 1, -1, np.int64)
    for slot, code in enumerate(codes):
        slots[code] = slot
    slots[0] = -1
    at = slots[pairs.codes]
    return MatchValuePairs(pairs.docs[at >= 0], at[at >= 0])


def _add_numbers(
    snapshot: Snapshot, part: Matches, name: str, wanted: MatchValuePairs, sums: _Sums
) -> None:
    """Add the numbers of documents to the statistics of their values."""
    field = snapshot.registry.number(name)
    column = None if field is None else number_column(part.view.segment, field)
    if column is None:
        return
    if column.is_dense and column.is_exact_as_double:
        has_number, doubles = column.one_each(wanted.docs)
        sums.add(wanted.codes[has_number], doubles, None)
        return
    docs, doubles, residuals = column.pairs()
    if not column.is_dense:
        # Each number of a document once.
        rests = np.zeros(len(docs), np.int16) if residuals is None else residuals
        order = np.lexsort((rests, doubles, docs))
        docs, doubles, rests = docs[order], doubles[order], rests[order]
        is_new = np.ones(len(docs), np.bool_)
        for one in (docs, doubles, rests):
            is_new[1:] &= one[1:] == one[:-1]
        is_new[1:] = ~is_new[1:]
        docs, doubles = docs[is_new], doubles[is_new]
        residuals = None if residuals is None else rests[is_new]
    starts = np.searchsorted(docs, wanted.docs)
    lengths = np.searchsorted(docs, wanted.docs, side="right") - starts
    positions = ranges_of(starts, lengths)
    sums.add(
        np.repeat(wanted.codes, lengths),
        doubles[positions],
        None if residuals is None else residuals[positions],
    )
