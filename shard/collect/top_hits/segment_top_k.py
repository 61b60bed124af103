"""The best k matches of one segment, by any order: level by level (`selection_by_levels`).

Mostly the first sort key says enough to leave nearly all matches out before any key is computed: a
field's documents are kept in its order (`Permutation`), and where many documents match, walking it
(`permutation_walk`) finds k of them in few steps. Scores are computed late if they only break ties
of the first key.

A cursor (`after`) leaves out whatever does not come after the hit that it names, by the same
levels: of the best, where few hits precede that one, else of all matches.

    75,000 matches, k = 10       one pass over the keys with a heap                      40 µs
    75,000 matches, k = 10,000   np.partition, one pass, one sort of 10,000              0.8 ms
    sort key, most match         walk the field's permutation until k are found          1 µs a 100
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shard.collect.top_hits.hits_and_sort_values import column_of
from shard.collect.top_hits.permutation_walk import is_first_run_long, length_of_runs, walk
from shard.collect.top_hits.selection_by_levels import choose, split_by
from shard.collect.top_hits.sort_levels import (
    FieldLevel,
    Level,
    MinorLevel,
    PlaceLevel,
    RandomLevel,
    ScoreLevel,
)
from shard.query.matches import Matches
from shard.query.scoring.top_k_selection import best_of, first_best_of
from shard.segment.columns.distance_columns import DistanceColumn
from shard.segment.columns.joint_orders import Direction, joint_order
from shard.segment.columns.number_columns import split_number
from shard.segment.columns.permutations import Permutation
from shard.segment.columns.sort_columns import SortColumn
from shard.segment.columns.sort_keys import MISSING_KEY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import SearchRequest, SortKey
    from shard.segment.snapshot import SegmentView, Snapshot

_WALK_STEPS_MAX = 3
"""A permutation is walked if that should visit at most this many documents per match. A step takes
a fifth to a third of the time of a random read of a match's key.
"""
_WALK_LUCK = 1.5
"""A walk is abandoned at this multiple of the expected steps: the matches may all be near its end.
"""
_WALK_MATCHES_MIN = 1_024
_FOUND_SHARE = 4
"""Where a walk finds more than one of this many matches, comparing keys takes less time."""
_CUT_FACTOR = 2
"""With more matches a hit than this, those that cannot be hits are left out first."""
_SCORED_FEW = 256
"""Up to this many matches are scored without comparing further keys."""


class Best(NamedTuple):
    """The best matches of one segment, with the keys that order them."""

    matches: Matches
    positions: NDArray[np.int64]
    levels: list[Level]
    is_in_order: bool
    """Whether the positions are in the order of the hits."""


class SegmentOrder:
    """The order of one request over the segments of a snapshot."""

    def __init__(
        self, snapshot: Snapshot, request: SearchRequest, matches: Sequence[Matches]
    ) -> None:
        self._request = request
        self._snapshot = snapshot
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

    def best_of(self, ordinal: int, matches: Matches, k: int) -> Best:
        """Return the best k matches of one segment, in any order.

        First narrow them to fewer, cheaply, if the order allows it; then compare keys.
        """
        request = self._request
        is_in_order = False
        if request.num_skipped is not None:
            num_best = k + request.num_skipped
            if matches.scorer is not None:
                matches = self._scored_first(ordinal, matches, num_best)
            elif request.sort:
                matches, is_in_order = self._first_by_walk(ordinal, matches, num_best)
            elif self._has_scores:
                matches = best_by_score(matches, num_best)
            else:
                matches = self._first_by_place(matches, num_best)
        levels = self._levels(ordinal, matches)
        positions = None
        if request.after is not None:
            positions = self._positions_after(levels, request.after, matches.count)
            is_in_order = False
        chosen = choose(levels, matches.count, positions, k)
        return Best(matches, chosen, levels, is_in_order)

    def _levels(self, ordinal: int, matches: Matches) -> list[Level]:
        """Return the levels of the order over the matches of a segment; the last has no ties."""
        request = self._request
        docs = matches.docs
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
        levels.append(PlaceLevel(matches.view.segment, docs, is_descending=is_descending))
        return levels

    @property
    def _is_place_descending(self) -> bool:
        return self._request.is_place_descending and not self._request.sort and not self._has_scores

    def _first_by_place(self, matches: Matches, k: int) -> Matches:
        """Return at least the best k by insertion number: the first, or last, documents."""
        view = matches.view
        if matches.count <= k or not are_places_ascending(view):
            return matches
        if self._is_place_descending:
            return Matches(view, docs=matches.docs[-k:])
        return Matches(view, docs=matches.first_docs(k))

    def _scored_first(self, ordinal: int, matches: Matches, k: int) -> Matches:
        """Return at least the best k, with scores: those that the keys before the score put first.

        Scores break their ties, so all documents that tie with the k-th are among them.
        """
        assert matches.scorer is not None
        first = matches
        if matches.count > k:
            first, _ = self._first_by_walk(ordinal, matches, k)
        docs = first.docs
        if len(docs) > max(k, _SCORED_FEW):
            before_score = itertools.takewhile(_is_no_score, self._levels(ordinal, first))
            below, ties, _ = split_by(before_score, len(docs), None, k, _SCORED_FEW)
            if ties is not None:
                docs = docs[np.concatenate([*below, ties])]
        docs = np.sort(docs)
        return Matches(matches.view, docs=docs, scores=matches.scorer(docs))

    def _first_by_walk(self, ordinal: int, matches: Matches, k: int) -> tuple[Matches, bool]:
        """Return at least the best k by walking the permutation of the first key, if that pays off.

        Returns:
            Matches, which may not ascend, and whether they are the best k in their order.
        """
        request = self._request
        count = matches.count
        if matches.scores is not None or not request.sort or count < _WALK_MATCHES_MIN:
            return matches, False
        key = request.sort[0]
        column = self._columns.get((0, ordinal))
        if column is None or key.is_missing_first:
            return matches, False
        if isinstance(column, DistanceColumn):
            if key.is_descending:
                return matches, False
            return Matches(matches.view, docs=column.closest(matches.docs, k)), False
        # Matches are spread evenly in expectation: k of them take k · num_docs / count steps.
        if k * matches.view.segment.num_docs > _WALK_STEPS_MAX * count * count:
            return matches, False
        permutation, is_backward, is_ordered_within = self._permutation(ordinal, matches.view)
        if permutation is None:
            return matches, False
        if not len(permutation.docs) and is_ordered_within:
            return self._first_by_place(matches, k), True
        if not is_ordered_within and is_first_run_long(
            permutation, is_backward, len(permutation.is_first) // _FOUND_SHARE
        ):
            return matches, False
        found = np.empty(count // _FOUND_SHARE, np.uint32)
        num_found = walk(
            permutation,
            matches.bitset,
            k,
            is_backward,
            is_ordered_within,
            int(_WALK_LUCK * _WALK_STEPS_MAX * count),
            found,
        )
        if num_found < 0:
            return matches, False
        return Matches(matches.view, docs=found[:num_found]), is_ordered_within

    def _permutation(
        self, ordinal: int, view: SegmentView
    ) -> tuple[Permutation | None, bool, bool]:
        """Return the documents of a segment by all keys if that is at hand, else by the first.

        Returns:
            (the documents; whether the first come last; whether they ascend where all keys are
            equal, and that breaks the ties).
        """
        keys = self._request.sort
        breaks_ties = not self._has_scores and are_places_ascending(view)
        columns = self._joined_columns(ordinal)
        if columns is not None:
            directions = [Direction(key.is_descending, key.is_missing_first) for key in keys]
            permutation = joint_order(columns, directions).permutation()
            if permutation is not None:
                return permutation, False, breaks_ties
        is_whole = len(keys) == 1 and not self._has_minors[0]
        permutation = self._columns[0, ordinal].permutation()
        return permutation, keys[0].is_descending, breaks_ties and is_whole

    def _joined_columns(self, ordinal: int) -> list[SortColumn] | None:
        """Return the columns of all keys if they are several, and each compares one field alone."""
        keys = self._request.sort
        if len(keys) < 2 or any(self._has_minors):
            return None
        columns = []
        for k, key in enumerate(keys):
            column = self._columns.get((k, ordinal))
            is_plain = type(column) is SortColumn and key.within is None
            if not is_plain or column is None or _field_of(self._snapshot, key) is None:
                return None
            columns.append(column)
        return columns

    def _positions_after(
        self, levels: Sequence[Level], after: tuple[Any, ...], count: int
    ) -> NDArray[np.int64]:
        """Return the positions of the matches that come after the hit that a cursor names.

        The order is lexicographic: the first level on which they differ decides.
        """
        is_after = np.zeros(count, np.bool_)
        is_equal = np.ones(count, np.bool_)
        for level, value in zip(levels, self._level_values(levels, after), strict=True):
            low, high = level.bounds(value)
            keys = level.keys(None)
            is_greater = keys > np.uint64(high - 1)
            is_after |= is_equal & is_greater
            is_equal &= ~is_greater & (keys >= np.uint64(min(low, MISSING_KEY)))
        return np.flatnonzero(is_after)

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


def best_by_score(matches: Matches, k: int) -> Matches:
    """Return at least the best k matches of a segment by score, if they are much fewer than all.

    Many may have the same score as the last one. In order of insertion, the first of them come
    first: the insertion numbers of the others need not be read.
    """
    scores = matches.scores
    if scores is None or len(scores) <= _CUT_FACTOR * k:
        return matches
    select = first_best_of if are_places_ascending(matches.view) else best_of
    docs, bits = select(matches.docs, scores.view(np.int64), k)
    return Matches(matches.view, docs=docs, scores=bits.view(np.float64))


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
    length = length_of_runs(permutation.is_first, count, key.is_descending)
    if length > 2 * count:
        return None
    docs = permutation.docs
    return np.sort(docs[-length:] if key.is_descending else docs[:length])


def _field_of(snapshot: Snapshot, key: SortKey) -> int | None:
    """Return the number of the field that a key compares, or None."""
    return None if key.field is None else snapshot.registry.number(key.field)


def _is_no_score(level: Level) -> bool:
    """Return whether a level compares anything else."""
    return not isinstance(level, ScoreLevel)


def are_places_ascending(view: SegmentView) -> bool:
    """Return whether the documents of a segment are in order of their insertion numbers."""
    is_ascending: bool = view.segment.meta["places_ascending"]
    return is_ascending
