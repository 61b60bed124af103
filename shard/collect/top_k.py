"""Top k: the best hits of a snapshot, in exact order, however many match and however deep.

An order is a list of levels (`shard.collect.sort_levels`), each of which gives one uint64 per
match; the last is unique and so breaks every tie.

Within a segment, level by level:

    keys of all candidates ─▶ k-th smallest T ─▶ below T: in        equal to T: candidates of the
                                                                     next level, for the rest of k

so keys of later levels are computed for ties only, and only the k chosen are sorted. Then the best
k of each segment are merged: by the same keys if these compare across segments, else (texts ranked
within a segment) by ranks of the texts of the few that are left.

    75,000 matches, k = 10       one pass over the keys with a heap                      40 µs
    75,000 matches, k = 10,000   np.partition, one pass, one sort of 10,000              0.8 ms
    sort key, most match         walk the field's permutation until k are found          1 µs a 100
    no query, no sort key        the first k documents, no keys at all                   1 µs

A cursor (`after`) leaves out whatever does not come after the hit that it names, by the same
levels.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.heaps import replace_least
from common.kernels.types import (
    U64,
    BoolArray,
    F64Array,
    I64Array,
    U32Array,
    U64Array,
    int64,
    uint64,
)
from shard.caches.derived import derived
from shard.collect.nested_elements import element_order
from shard.collect.random_order import random_numbers
from shard.collect.sort_levels import (
    FieldLevel,
    Level,
    MinorLevel,
    PlaceLevel,
    RandomLevel,
    ScoreLevel,
)
from shard.query.bm25f import SCORE_UNIT
from shard.query.matches import Matches
from shard.segment.distance_columns import DistanceColumn
from shard.segment.doc_sets import has_bit
from shard.segment.number_columns import split_number
from shard.segment.sort_columns import (
    MISSING_KEY,
    Permutation,
    SortColumn,
    rank_texts,
    sort_column,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import SearchRequest, SortKey
    from shard.segment.snapshot import SegmentView, Snapshot

_HEAP_MAX = 128
"""Up to this k, a heap finds the k-th smallest key: one pass, with hardly a misprediction."""
_WALK_STEPS_MAX = 3
"""A permutation is walked if that should visit at most this many documents per match. A step takes
a fifth to a third of the time of a random read of a match's key.
"""
_WALK_LUCK = 1.5
"""A walk is abandoned at this multiple of the expected steps: the matches may all be near its end.
"""
_WALK_MATCHES_MIN = 1_024
_INSERTION_MAX = 64
"""Up to this many hits are sorted by insertion."""
_LEXSORT_MAX = 256
"""Up to this many rows are sorted by one call of `lexsort`."""
_ALL_ONES = uint64(MISSING_KEY)
_TOP_BIT = uint64(1 << 63)
_LEAST = np.iinfo(np.int64).min


@kernel
def _kth_smallest_heap(keys: U64Array, k: int) -> U64:
    """Return the k-th smallest of more than k keys: the k-th greatest of all inverted ones."""
    heap = np.full(k, int64(_LEAST))
    kth = _ALL_ONES
    for key in keys:
        if key < kth:
            replace_least(heap, k, int64(~key ^ _TOP_BIT))
            kth = ~(uint64(heap[0]) ^ _TOP_BIT)
    return kth


@kernel
def _split_at(keys: U64Array, threshold: U64, below: I64Array, equal: I64Array) -> tuple[int, int]:
    """Write the positions of the keys below a threshold, and of those equal to it."""
    num_below = 0
    num_equal = 0
    for position in range(len(keys)):
        if keys[position] <= threshold:
            if keys[position] < threshold:
                below[num_below] = position
                num_below += 1
            else:
                equal[num_equal] = position
                num_equal += 1
    return num_below, num_equal


@kernel
def _walk(
    docs: U32Array,
    is_first: BoolArray,
    words: U64Array,
    k: int,
    is_backward: bool,
    takes_first: bool,
    steps_max: int,
    found: U32Array,
) -> int:
    """Write the matching documents among the first of a permutation, at least k of them.

    Runs of equal keys are visited from the first to the last, or from the last to the first; within
    a run documents ascend. With `takes_first`, that order breaks ties between equal keys; otherwise
    the run that holds the k-th is walked to its end, so that a later level can break them.

    Returns:
        How many were found, or -1 if the steps or the room did not suffice.
    """
    count = 0
    num_steps = 0
    at = len(docs) if is_backward else 0
    while count < k and (at > 0 if is_backward else at < len(docs)):
        # Backward: find the start of the run before.
        start = at
        if is_backward:
            start -= 1
            while not is_first[start]:
                start -= 1
            at = start
        while True:
            if count == k and takes_first:
                return count
            # Out of luck: the caller compares keys instead.
            if num_steps >= steps_max or count == len(found):
                return -1
            doc = docs[at]
            if has_bit(words, doc):
                found[count] = doc
                count += 1
            num_steps += 1
            at += 1
            if at == len(docs) or is_first[at]:
                break
        if is_backward:
            at = start
    return count if count >= k else -1


@kernel(allocates=False)
def _length_of_runs(is_first: BoolArray, count: int, is_backward: bool) -> int:
    """Return the length of the first, or last, whole runs that have at least `count` documents."""
    size = len(is_first)
    length = count
    if is_backward:
        while not is_first[size - length]:
            length += 1
    else:
        while length < size and not is_first[length]:
            length += 1
    return length


@kernel
def _first_of_few(
    view: int,
    docs: U32Array,
    scores: F64Array,
    all_places: U64Array,
    all_records: U64Array,
    num_hits: int,
) -> tuple[I64Array, U32Array, U64Array, U64Array, F64Array]:
    """Return the best of a few documents of a view, as members of `Hits`: by score, then place.

    Uses insertion sort, as there are few.
    """
    order = np.empty(len(docs), np.int64)
    for i in range(len(docs)):
        place = all_places[docs[i]]
        at = i
        while at > 0:
            before = order[at - 1]
            if scores[before] > scores[i]:
                break
            if scores[before] == scores[i] and all_places[docs[before]] < place:
                break
            order[at] = before
            at -= 1
        order[at] = i
    count = min(num_hits, len(docs))
    views = np.full(count, view)
    best_docs = np.empty(count, np.uint32)
    places = np.empty(count, np.uint64)
    records = np.empty(count, np.uint64)
    best_scores = np.empty(count, np.float64)
    for i in range(count):
        best_docs[i] = docs[order[i]]
        places[i] = all_places[best_docs[i]]
        records[i] = all_records[best_docs[i]]
        best_scores[i] = scores[order[i]]
    return views, best_docs, places, records, best_scores


class Hits(NamedTuple):
    """The best matches of a snapshot, best first."""

    views: NDArray[np.int64]
    """Position of the segment in the snapshot."""
    docs: NDArray[np.uint32]
    """Ordinal in the segment."""
    places: NDArray[np.uint64]
    records: NDArray[np.uint64]
    scores: NDArray[np.float64] | None
    """None if there are no scores."""

    def take(self, chosen: NDArray[np.int64] | slice) -> Hits:
        """Return some of the hits."""
        return Hits(
            self.views[chosen],
            self.docs[chosen],
            self.places[chosen],
            self.records[chosen],
            None if self.scores is None else self.scores[chosen],
        )


class _Best(NamedTuple):
    """The best matches of one segment, with the keys that order them."""

    matches: Matches
    positions: NDArray[np.int64]
    levels: list[Level]
    is_in_order: bool
    """Whether the positions are in the order of the hits."""


def select_hits(
    snapshot: Snapshot, matches: Sequence[Matches], request: SearchRequest, num_hits: int
) -> Hits:
    """Return the best hits of all segments.

    Args:
        snapshot: to search.
        matches: by segment of the snapshot.
        request: the order, and the cursor.
        num_hits: the maximum number to return; 0: none.

    Returns:
        Hits, best first.
    """
    has_scores = request.has_scores
    if not num_hits:
        return _no_hits(has_scores=has_scores)
    # Fast paths for the two plain orders: by score, and by insertion number.
    is_plain = not request.sort and request.after is None
    if is_plain and has_scores:
        return _select_by_score(snapshot, matches, num_hits)
    if is_plain and _are_places_consecutive(snapshot):
        return _select_by_place(snapshot, matches, num_hits, request.is_place_descending)
    # In general: the best k of each segment, then a merge.
    order = _Order(snapshot, request, matches)
    parts: list[_Best] = []
    ordinals: list[int] = []
    for i, part in enumerate(matches):
        if part.count:
            best = order.best_of(i, part, num_hits)
            if len(best.positions):
                parts.append(best)
                ordinals.append(i)
    if not parts:
        return _no_hits(has_scores=has_scores)
    docs = [best.matches.docs[best.positions] for best in parts]
    scores = None
    if has_scores:
        scores = _joined(
            [
                None if best.matches.scores is None else best.matches.scores[best.positions]
                for best in parts
            ]
        )
    return _hits(snapshot, ordinals, docs, scores, _merge(parts)[:num_hits])


def _select_by_place(
    snapshot: Snapshot, matches: Sequence[Matches], num_hits: int, is_descending: bool
) -> Hits:
    """Return the first, or last, hits of segments that are in order of insertion throughout."""
    ordinals: list[int] = []
    docs: list[NDArray[np.uint32]] = []
    num_missing = num_hits
    visited = range(len(matches))
    for i in reversed(visited) if is_descending else visited:
        part = matches[i]
        if part.count and num_missing:
            found = (
                part.docs[-num_missing:][::-1] if is_descending else part.first_docs(num_missing)
            )
            ordinals.append(i)
            docs.append(found)
            num_missing -= len(found)
    if not docs:
        return _no_hits(has_scores=False)
    return _hits(snapshot, ordinals, docs, None, slice(None))


def _select_by_score(snapshot: Snapshot, matches: Sequence[Matches], num_hits: int) -> Hits:
    """Return the hits with the greatest scores: the order of a plain text search."""
    ordinals = [i for i, part in enumerate(matches) if part.count]
    if not ordinals:
        return _no_hits(has_scores=True)
    docs = [matches[i].docs for i in ordinals]
    scores = _joined([matches[i].scores for i in ordinals])
    if len(ordinals) == 1 and len(scores) <= _INSERTION_MAX:
        segment = snapshot.views[ordinals[0]].segment
        columns = segment["docs.place"], segment["docs.record"]
        return Hits(*_first_of_few(ordinals[0], docs[0], scores, *columns, num_hits))
    ranking = None
    if len(scores) > _LEXSORT_MAX and _are_places_consecutive(snapshot):
        ranking = _order_of_scores(scores)
    if ranking is None:
        views = [snapshot.views[i].segment for i in ordinals]
        places = [view["docs.place"][part] for view, part in zip(views, docs, strict=True)]
        ranking = np.lexsort((_joined(places), -scores))
    return _hits(snapshot, ordinals, docs, scores, ranking[:num_hits])


def _order_of_scores(scores: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Return the order of scores, greatest first, ties in their given order.

    Score and position are packed into one integer each: sorting these takes a fifth of the time of
    an argsort.

    Returns:
        None if they need more than 63 bits.
    """
    units = np.rint(scores * SCORE_UNIT)
    units = units.max() - units
    num_bits = len(scores).bit_length()
    if units.max() >= 1 << (63 - num_bits):
        return None
    packed = units.astype(np.int64) << num_bits
    packed |= np.arange(len(scores))
    packed.sort()
    order: NDArray[np.int64] = packed & ((1 << num_bits) - 1)
    return order


def _joined(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any]:
    """Concatenate the arrays of all segments."""
    arrays = [part for part in parts if part is not None]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def column_of(snapshot: Snapshot, view: SegmentView, field: int, key: SortKey) -> SortColumn:
    """Return the column by which a sort key orders the documents of a segment."""
    if key.point is not None:
        return DistanceColumn(view.segment, field, key.point)
    if key.within is not None:
        return element_order(snapshot, view, field, key)
    return sort_column(snapshot, view, field, key.collation)


def sort_values(snapshot: Snapshot, hits: Hits, key: SortKey) -> tuple[Any, ...]:
    """Return the value of each hit for a sort key; empty for the score, which is sent anyway."""
    if key.seed is not None:
        return _random_values(snapshot, hits, key.seed)
    if key.field is None:
        return ()
    values: list[Any] = [None] * len(hits.docs)
    number = snapshot.registry.number(key.field)
    if number is None:
        return tuple(values)
    if len(snapshot.views) == 1:
        return tuple(column_of(snapshot, snapshot.views[0], number, key).values(hits.docs))
    for ordinal in np.unique(hits.views).tolist():
        column = column_of(snapshot, snapshot.views[ordinal], number, key)
        at = np.flatnonzero(hits.views == ordinal)
        for position, value in zip(at.tolist(), column.values(hits.docs[at]), strict=True):
            values[position] = value
    return tuple(values)


def _random_values(snapshot: Snapshot, hits: Hits, seed: int) -> tuple[int, ...]:
    """Return the number of each hit in a random order."""
    numbers = np.zeros(len(hits.docs), np.uint64)
    for ordinal in np.unique(hits.views).tolist():
        at = np.flatnonzero(hits.views == ordinal)
        numbers[at] = random_numbers(snapshot.views[ordinal].segment, hits.docs[at], seed)
    return tuple(numbers.tolist())


class _Order:
    """The order of one request over the segments of a snapshot."""

    def __init__(
        self, snapshot: Snapshot, request: SearchRequest, matches: Sequence[Matches]
    ) -> None:
        self._request = request
        self._has_scores = request.has_scores
        self._columns: dict[tuple[int, int], SortColumn] = {}
        self._has_minors: list[bool] = []
        for k, key in enumerate(request.sort):
            # A cursor's value may have a residual although no document of this shard has one.
            has_minors = (
                key.field is not None
                and request.after is not None
                and type(request.after[k]) is int
                and split_number(request.after[k])[1] != 0
            )
            field = _field_of(snapshot, key)
            for i, part in enumerate(matches):
                if key.field is not None and part.count:
                    view = snapshot.views[i]
                    # A field that only other shards know: the hit of a cursor may have a value.
                    column = (
                        SortColumn(view.segment.num_docs)
                        if field is None
                        else column_of(snapshot, view, field, key)
                    )
                    self._columns[k, i] = column
                    has_minors |= column.minor_keys is not None
            self._has_minors.append(has_minors)

    def best_of(self, ordinal: int, matches: Matches, k: int) -> _Best:
        """Return the best k matches of one segment, in any order."""
        request = self._request
        is_in_order = False
        if request.after is None:
            if matches.scorer is not None:
                matches = self._scored_first(ordinal, matches, k)
            elif not request.sort and not self._has_scores:
                matches = self._first_by_place(matches, k)
            else:
                matches, is_in_order = self._first_by_walk(ordinal, matches, k)
        levels = self._levels(ordinal, matches)
        positions = None
        if request.after is not None:
            positions = self._positions_after(levels, request.after, matches.count)
        chosen = _choose(levels, matches.count, positions, k)
        return _Best(matches, chosen, levels, is_in_order)

    def _levels(self, ordinal: int, matches: Matches) -> list[Level]:
        request = self._request
        docs = matches.docs
        places = matches.view.segment["docs.place"]
        levels: list[Level] = []
        for k, key in enumerate(request.sort):
            if key.seed is not None:
                levels.append(RandomLevel(matches.view.segment, docs, key))
            elif key.field is None:
                height = key.bucket_height
                levels.append(
                    ScoreLevel(matches, is_descending=key.is_descending, bucket_height=height)
                )
            else:
                column = self._columns[k, ordinal]
                levels.append(FieldLevel(column, docs, key))
                if self._has_minors[k]:
                    levels.append(MinorLevel(column, docs, key))
        if self._has_scores:
            levels.append(ScoreLevel(matches, is_descending=True))
        is_descending = self._is_place_descending
        levels.append(PlaceLevel(places, docs, is_descending=is_descending))
        return levels

    @property
    def _is_place_descending(self) -> bool:
        return self._request.is_place_descending and not self._request.sort and not self._has_scores

    def _first_by_place(self, matches: Matches, k: int) -> Matches:
        """Return at least the best k by insertion number: the first, or last, documents."""
        view = matches.view
        if matches.count <= k or not _are_places_ascending(view):
            return matches
        if self._is_place_descending:
            return Matches(view, docs=matches.docs[-k:])
        return Matches(view, docs=matches.first_docs(k))

    def _scored_first(self, ordinal: int, matches: Matches, k: int) -> Matches:
        """Return at least the best k, with scores: those that the first key puts first.

        Scores break its ties, so all documents that tie with the k-th are among them.
        """
        assert matches.scorer is not None
        column = self._columns.get((0, ordinal))
        first = matches
        if column is not None and matches.count > k:
            first, _ = self._first_by_walk(ordinal, matches, k)
        docs = first.docs
        if column is not None and first is matches and matches.count > k:
            keys = FieldLevel(column, docs, self._request.sort[0]).keys(None)
            docs = docs[keys <= _kth_smallest(keys, k)]
        return Matches(matches.view, docs=docs, scores=matches.scorer(docs))

    def _first_by_walk(self, ordinal: int, matches: Matches, k: int) -> tuple[Matches, bool]:
        """Return at least the best k by walking the permutation of the first key, if that pays off.

        Returns:
            Matches, and whether they are the best k in their order (then they may not ascend).
        """
        request = self._request
        count = matches.count
        if matches.scores is not None or not request.sort or count < _WALK_MATCHES_MIN:
            return matches, False
        first_key = request.sort[0]
        nearby = self._columns.get((0, ordinal))
        if isinstance(nearby, DistanceColumn):
            if first_key.is_descending or first_key.is_missing_first:
                return matches, False
            return Matches(matches.view, docs=nearby.closest(matches.docs, k)), False
        # Matches are spread evenly in expectation: k of them take k · num_docs / count steps.
        if k * matches.view.segment.num_docs > _WALK_STEPS_MAX * count * count:
            return matches, False
        key = request.sort[0]
        column = self._columns.get((0, ordinal))
        if key.is_missing_first or column is None:
            return matches, False
        permutation: Permutation | None = column.permutation()
        if permutation is None:
            return matches, False
        # Whether the permutation's own order (documents ascend in a run) already breaks all ties.
        is_ordered_within = (
            len(request.sort) == 1
            and not self._has_scores
            and not self._has_minors[0]
            and _are_places_ascending(matches.view)
        )
        if not len(permutation.docs) and is_ordered_within:
            return self._first_by_place(matches, k), True
        found = np.empty(count // 4, np.uint32)
        num_found = _walk(
            permutation.docs,
            permutation.is_first,
            matches.words,
            k,
            key.is_descending,
            is_ordered_within,
            int(_WALK_LUCK * _WALK_STEPS_MAX * count),
            found,
        )
        if num_found < 0:
            return matches, False
        found = found[:num_found]
        if is_ordered_within:
            return Matches(matches.view, docs=found), True
        return Matches(matches.view, docs=np.sort(found)), False

    def _positions_after(
        self, levels: Sequence[Level], after: tuple[Any, ...], count: int
    ) -> NDArray[np.int64]:
        """Return the positions of the matches that come after the hit that a cursor names.

        The order is lexicographic: the first level on which they differ decides.
        """
        is_behind = np.zeros(count, np.bool_)
        is_equal = np.ones(count, np.bool_)
        for level, value in zip(levels, self._level_values(levels, after), strict=True):
            low, high = level.bounds(value)
            keys = level.keys(None)
            is_greater = keys > np.uint64(high - 1)
            is_behind |= is_equal & is_greater
            is_equal &= ~is_greater & (keys >= np.uint64(min(low, MISSING_KEY)))
        return np.flatnonzero(is_behind)

    def _level_values(self, levels: Sequence[Level], after: tuple[Any, ...]) -> list[Any]:
        """Return the cursor's value for each level; minor levels repeat that of their field."""
        score, place = after[-2], after[-1]
        values: list[Any] = []
        fields = iter(
            value
            for value, key in zip(after, self._request.sort, strict=False)
            if key.seed is not None or key.field is not None
        )
        for level in levels:
            if isinstance(level, FieldLevel | RandomLevel):
                values.append(next(fields))
            elif isinstance(level, MinorLevel):
                values.append(values[-1])
            else:
                values.append(score if isinstance(level, ScoreLevel) else place)
        return values


def first_docs_by(
    snapshot: Snapshot, view: SegmentView, key: SortKey, count: int
) -> NDArray[np.uint32] | None:
    """Return, ascending, the first documents by a key, and all that tie with the last one.

    Args:
        snapshot: that the view is of.
        view: the segment; deleted documents are among them.
        key: a field's.
        count: how many, at least.

    Returns:
        None if they are not known without sorting, are fewer, or ties more than double them.
    """
    field = _field_of(snapshot, key)
    column = None if field is None else column_of(snapshot, view, field, key)
    if not isinstance(column, SortColumn) or key.is_missing_first:
        return None
    permutation = column.permutation()
    if permutation is None or len(permutation.docs) <= count:
        return None
    length = _length_of_runs(permutation.is_first, count, key.is_descending)
    if length > 2 * count:
        return None
    docs = permutation.docs
    return np.sort(docs[-length:] if key.is_descending else docs[:length])


def _field_of(snapshot: Snapshot, key: SortKey) -> int | None:
    """Return the number of the field that a key compares, or None."""
    return None if key.field is None else snapshot.registry.number(key.field)


def _are_places_ascending(view: SegmentView) -> bool:
    """Return whether the documents of a segment are in order of their insertion numbers."""
    is_ascending: bool = view.segment.meta["places_ascending"]
    return is_ascending


@derived
def _are_places_consecutive(snapshot: Snapshot) -> bool:
    """Return whether the insertion numbers ascend over all segments."""
    views = [view for view in snapshot.views if view.segment.num_docs]
    return all(map(_are_places_ascending, views)) and all(
        int(one.segment["docs.place"][-1]) < int(other.segment["docs.place"][0])
        for one, other in itertools.pairwise(views)
    )


def _choose(
    levels: Sequence[Level], count: int, positions: NDArray[np.int64] | None, k: int
) -> NDArray[np.int64]:
    """Return the positions of the best k of some matches (all if None), in any order."""
    chosen: list[NDArray[np.int64]] = []
    for level in levels:
        num_candidates = count if positions is None else len(positions)
        if num_candidates <= k:
            break
        keys = level.keys(positions)
        threshold = _kth_smallest(keys, k)
        below = np.empty(k, np.int64)
        equal = np.empty(num_candidates, np.int64)
        num_below, num_equal = _split_at(keys, threshold, below, equal)
        below, equal = below[:num_below], equal[:num_equal]
        # Keys below the threshold are in; ties are decided by the next level.
        chosen.append(below if positions is None else positions[below])
        positions = equal if positions is None else positions[equal]
        k -= num_below
    if positions is None:
        return np.arange(count)
    chosen.append(positions[:k])
    return np.concatenate(chosen) if len(chosen) > 1 else chosen[0]


def _kth_smallest(keys: NDArray[np.uint64], k: int) -> Any:
    """Return the k-th smallest of more than k keys."""
    return _kth_smallest_heap(keys, k) if k <= _HEAP_MAX else np.partition(keys, k - 1)[k - 1]


def _merge(parts: Sequence[_Best]) -> NDArray[np.int64]:
    """Return the order of all chosen matches, concatenated by segment, best first."""
    if len(parts) == 1 and (parts[0].is_in_order or len(parts[0].positions) == 1):
        return np.arange(len(parts[0].positions))
    columns = []
    for at in range(len(parts[0].levels)):
        keys = [best.levels[at].keys(best.positions) for best in parts]
        first = parts[0].levels[at]
        if isinstance(first, FieldLevel) and len(parts) > 1:
            keys = _comparable([best.levels[at] for best in parts], parts, keys)
        columns.append(keys[0] if len(keys) == 1 else np.concatenate(keys))
    return _sort_rows(columns)


def _sort_rows(columns: Sequence[NDArray[np.uint64]]) -> NDArray[np.int64]:
    """Return the order of rows by several columns, the first column first.

    Ranks are refined column by column until all rows differ: numpy's fast sort (80 µs for 10,000
    keys) is not stable, and its stable one, as in `lexsort`, takes 450 µs.
    """
    if len(columns[0]) <= _LEXSORT_MAX:
        return np.lexsort(columns[::-1])
    order, ranks, num_ranks = _rank(columns[0])
    for column in columns[1:]:
        if num_ranks == len(column):
            break
        _, minor_ranks, num_minor = _rank(column)
        order, ranks, num_ranks = _rank(ranks * np.uint64(num_minor) + minor_ranks)
    return order


def _rank(keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.uint64], int]:
    """Return the order of keys, the rank of each among the distinct ones, and their number."""
    order = np.argsort(keys)
    ordered = keys[order]
    steps = np.zeros(len(keys), np.uint64)
    np.not_equal(ordered[1:], ordered[:-1], out=steps[1:], casting="unsafe")
    np.cumsum(steps, out=steps)
    ranks = np.empty(len(keys), np.uint64)
    ranks[order] = steps
    return order, ranks, int(steps[-1]) + 1


def _comparable(
    levels: Sequence[Level], parts: Sequence[_Best], keys: list[NDArray[np.uint64]]
) -> list[NDArray[np.uint64]]:
    """Return a field's keys in a form that compares across segments."""
    fields = [level for level in levels if isinstance(level, FieldLevel)]
    if all(field.column.are_keys_global for field in fields):
        return keys
    key = fields[0].sort_key
    ascending = [
        field.column.keys(
            best.matches.docs[best.positions], is_descending=False, is_missing_first=False
        )
        for field, best in zip(fields, parts, strict=True)
    ]
    rank_texts([field.column for field in fields], ascending)
    flip = np.uint64(MISSING_KEY if key.is_descending else 0)
    missing_key = np.uint64(0 if key.is_missing_first else MISSING_KEY)
    return [np.where(part == _ALL_ONES, missing_key, part ^ flip) for part in ascending]


def _hits(
    snapshot: Snapshot,
    ordinals: Sequence[int],
    docs: Sequence[NDArray[np.uint32]],
    scores: NDArray[np.float64] | None,
    ranking: NDArray[np.int64] | slice,
) -> Hits:
    """Return hits in the order of a ranking.

    Args:
        snapshot: to search.
        ordinals: segments that have some of them.
        docs: of each of these segments.
        scores: of all, segment by segment.
        ranking: positions among all, best first.
    """
    if len(ordinals) == 1:
        segment = snapshot.views[ordinals[0]].segment
        chosen = docs[0][ranking]
        views = np.zeros(len(chosen), np.int64)  # `np.full` takes six times as long
        if ordinals[0]:
            views += ordinals[0]
        places, records = segment["docs.place"][chosen], segment["docs.record"][chosen]
        return Hits(views, chosen, places, records, None if scores is None else scores[ranking])
    views = np.repeat(ordinals, [len(part) for part in docs])[ranking]
    ranked_scores = None if scores is None else scores[ranking]
    return hits_of(snapshot, views, np.concatenate(docs)[ranking], ranked_scores)


def hits_of(
    snapshot: Snapshot,
    views: NDArray[np.int64],
    docs: NDArray[np.uint32],
    scores: NDArray[np.float64] | None,
) -> Hits:
    """Return documents of several segments as hits, in the given order."""
    places, records = np.empty((2, len(docs)), np.uint64)
    for ordinal in np.unique(views).tolist():
        at = np.flatnonzero(views == ordinal)
        segment = snapshot.views[ordinal].segment
        places[at] = segment["docs.place"][docs[at]]
        records[at] = segment["docs.record"][docs[at]]
    return Hits(views, docs, places, records, scores)


def _no_hits(*, has_scores: bool) -> Hits:
    empty = np.zeros(0, np.uint64)
    scores = np.zeros(0) if has_scores else None
    return Hits(np.zeros(0, np.int64), np.zeros(0, np.uint32), empty, empty, scores)
