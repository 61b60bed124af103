"""Hits: the best matches of a snapshot, best first, and the values by which they are sorted.

`top_k` selects them; the coordinator merges those of all shards by their sort values, scores and
insertion numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.distinct_values import distinct_values
from shard.collect.nested.element_order import element_order
from shard.collect.top_hits.random_order import random_numbers
from shard.segment.columns.distance_columns import DistanceColumn
from shard.segment.columns.sort_columns import SortColumn, sort_column
from shard.segment.doc_records_and_places import numbers_of
from shard.segment.doc_sets import NO_DOCS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import SortKey
    from shard.segment.snapshot import SegmentView, Snapshot

PACKED_HITS_MIN: Final = 256
"""Hits from which arrays pay off."""


class Hits(NamedTuple):
    """The best matches of a snapshot, best first."""

    views: NDArray[np.int64]
    """Position of the segment in the snapshot."""
    docs: NDArray[np.uint32]
    """Ordinal in the segment."""
    places: NDArray[np.uint64]
    """Insertion number."""
    records: NDArray[np.uint64]
    """Record number of the stored document."""
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
    for ordinal in distinct_values(hits.views).tolist():
        column = column_of(snapshot, snapshot.views[ordinal], number, key)
        at = np.flatnonzero(hits.views == ordinal)
        for position, value in zip(at.tolist(), column.values(hits.docs[at]), strict=True):
            values[position] = value
    return tuple(values)


def packed_sort_values(snapshot: Snapshot, hits: Hits, key: SortKey) -> bytes | tuple[Any, ...]:
    """Return `sort_values`; of many hits that all have doubles, these as bytes.

    A deep page has a million hits: they would take half a second as Python's numbers.
    """
    if len(hits.docs) >= PACKED_HITS_MIN and key.seed is None and key.field is not None:
        doubles = _doubles(snapshot, hits, key, key.field)
        if doubles is not None:
            return doubles.tobytes()
    return sort_values(snapshot, hits, key)


def _doubles(snapshot: Snapshot, hits: Hits, key: SortKey, path: str) -> NDArray[np.float64] | None:
    """Return the value of each hit for a sort key; None if some are no doubles, or missing."""
    field = snapshot.registry.number(path)
    if field is None:
        return None
    values = np.empty(len(hits.docs))
    for ordinal in distinct_values(hits.views).tolist():
        at = np.flatnonzero(hits.views == ordinal)
        column = column_of(snapshot, snapshot.views[ordinal], field, key)
        doubles = column.doubles(hits.docs[at])
        if doubles is None:
            return None
        values[at] = doubles
    return values


def _random_values(snapshot: Snapshot, hits: Hits, seed: int) -> tuple[int, ...]:
    """Return the number of each hit in a random order."""
    numbers = np.zeros(len(hits.docs), np.uint64)
    for ordinal in distinct_values(hits.views).tolist():
        at = np.flatnonzero(hits.views == ordinal)
        numbers[at] = random_numbers(snapshot.views[ordinal].segment, hits.docs[at], seed)
    return tuple(numbers.tolist())


def ranked_hits(
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
        places, records = numbers_of(segment, chosen)
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
    for ordinal in distinct_values(views).tolist():
        at = np.flatnonzero(views == ordinal)
        segment = snapshot.views[ordinal].segment
        places[at], records[at] = numbers_of(segment, docs[at])
    return Hits(views, docs, places, records, scores)


_NO_NUMBERS: Final = np.zeros(0, np.uint64)
_NO_HITS: Final = Hits(np.zeros(0, np.int64), NO_DOCS, _NO_NUMBERS, _NO_NUMBERS, None)
_NO_SCORED_HITS: Final = _NO_HITS._replace(scores=np.zeros(0))


def no_hits(*, has_scores: bool) -> Hits:
    """Return no hits; their scores are missing unless there are scores."""
    return _NO_SCORED_HITS if has_scores else _NO_HITS
