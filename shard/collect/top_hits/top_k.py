"""Top k: the best hits of a snapshot, in exact order, however many match and however deep.

An order is a list of levels (`sort_levels`), each of which gives one uint64 per match; the last is
unique and so breaks every tie. Each segment gives its best k (`segment_top_k`), and these are
merged: by the same keys if they compare across segments, else (texts ranked within a segment) by
ranks of the texts of the few that are left.

The two plain orders have ways of their own:

    by score                  one sort of the scored matches, ties by insertion number
    no query, no sort key     the first k documents, no keys at all                      1 µs
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.order_checks import expect_ascending
from common.kernels.types import F64Array, I64Array, U32Array, U64Array, int64
from shard.caches.derived_values import derived
from shard.collect.top_hits.hits_and_sort_values import Hits, no_hits, ranked_hits
from shard.collect.top_hits.segment_top_k import (
    Best,
    SegmentOrder,
    are_places_ascending,
    best_by_score,
)
from shard.collect.top_hits.sort_levels import FieldLevel, Level
from shard.query.matches import Matches
from shard.query.scoring.bm25f import SCORE_UNIT
from shard.segment.columns.sort_columns import rank_texts
from shard.segment.columns.sort_keys import MISSING_KEY
from shard.segment.doc_records_and_places import (
    DocRecords,
    doc_records,
    place_bounds,
    place_of,
    places_of,
    record_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import SearchRequest
    from shard.segment.snapshot import Snapshot

_INSERTION_MAX = 64
"""Up to this many hits are sorted by insertion."""
_LEXSORT_MAX = 256
"""Up to this many rows are sorted by one call of `lexsort`."""
_ALL_ONES = np.uint64(MISSING_KEY)


@kernel
def _first_of_few(
    view: int,
    docs: U32Array,
    scores: F64Array,
    numbers: DocRecords,
    is_ascending: bool,
    num_hits: int,
) -> tuple[I64Array, U32Array, U64Array, U64Array, F64Array]:
    """Return the best of a few documents of a view, as members of `Hits`: by score, then place.

    Uses insertion sort, as there are few. The documents ascend; with `is_ascending`, so do their
    places, which are then read for the best alone: each lies in another page of a large segment.
    """
    expect_ascending(docs)
    order = np.empty(len(docs), np.int64)
    for i in range(len(docs)):
        at = i
        while at > 0:
            before = order[at - 1]
            if scores[before] > scores[i]:
                break
            if scores[before] == scores[i] and (
                is_ascending
                or place_of(numbers, int64(docs[before])) < place_of(numbers, int64(docs[i]))
            ):
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
        places[i] = place_of(numbers, int64(best_docs[i]))
        records[i] = record_of(numbers, int64(best_docs[i]))
        best_scores[i] = scores[order[i]]
    return views, best_docs, places, records, best_scores


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
        return no_hits(has_scores=has_scores)
    # Fast paths for the two plain orders: by score, and by insertion number.
    is_plain = not request.sort and request.after is None
    if is_plain and has_scores:
        return _select_by_score(snapshot, matches, num_hits)
    if is_plain and _are_places_consecutive(snapshot):
        return _select_by_place(snapshot, matches, num_hits, request.is_place_descending)
    # In general: the best k of each segment, then a merge.
    order = SegmentOrder(snapshot, request, matches)
    parts: list[Best] = []
    ordinals: list[int] = []
    for i, part in enumerate(matches):
        if part.count:
            best = order.best_of(i, part, num_hits)
            if len(best.positions):
                parts.append(best)
                ordinals.append(i)
    if not parts:
        return no_hits(has_scores=has_scores)
    docs = [best.matches.docs[best.positions] for best in parts]
    scores = None
    if has_scores:
        scores = _joined(
            [
                None if best.matches.scores is None else best.matches.scores[best.positions]
                for best in parts
            ]
        )
    return ranked_hits(snapshot, ordinals, docs, scores, _merge(parts)[:num_hits])


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
        return no_hits(has_scores=False)
    return ranked_hits(snapshot, ordinals, docs, None, slice(None))


def _select_by_score(snapshot: Snapshot, matches: Sequence[Matches], num_hits: int) -> Hits:
    """Return the hits with the greatest scores: the order of a plain text search."""
    ordinals: list[int] = []
    parts: list[Matches] = []
    for i, part in enumerate(matches):
        if part.count:
            ordinals.append(i)
            parts.append(best_by_score(part, num_hits))
    if not parts:
        return no_hits(has_scores=True)
    first, *others = parts
    if not others and first.scores is not None and len(first.scores) <= _INSERTION_MAX:
        view = snapshot.views[ordinals[0]]
        numbers = doc_records(view.segment)
        is_ascending = are_places_ascending(view)
        return Hits(
            *_first_of_few(ordinals[0], first.docs, first.scores, numbers, is_ascending, num_hits)
        )
    docs = [part.docs for part in parts]
    scores = _joined([part.scores for part in parts])
    ranking = None
    if _are_places_consecutive(snapshot):  # then those of other documents need not be read
        ranking = _order_of_scores(scores)
    if ranking is None:
        views = [snapshot.views[i].segment for i in ordinals]
        places = [places_of(view, part) for view, part in zip(views, docs, strict=True)]
        ranking = np.lexsort((_joined(places), -scores))
    return ranked_hits(snapshot, ordinals, docs, scores, ranking[:num_hits])


def _order_of_scores(scores: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Return the order of scores, greatest first, ties in their given order.

    Score and position are packed into one integer each: sorting these takes a fifth of the time of
    an argsort.

    Returns:
        None if they need more than 63 bits.
    """
    units = np.rint(scores * SCORE_UNIT)
    greatest = units.max()
    num_bits = len(scores).bit_length()
    if greatest >= 1 << (63 - num_bits):
        return None
    # Subtracted as integers: the differences of great doubles are rounded.
    packed = (np.int64(greatest) - units.astype(np.int64)) << num_bits
    packed |= np.arange(len(scores))
    packed.sort()
    order: NDArray[np.int64] = packed & ((1 << num_bits) - 1)
    return order


def _joined(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any]:
    """Concatenate the arrays of all segments."""
    arrays = [part for part in parts if part is not None]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


@derived
def _are_places_consecutive(snapshot: Snapshot) -> bool:
    """Return whether the insertion numbers ascend over all segments."""
    views = [view for view in snapshot.views if view.segment.num_docs]
    return all(map(are_places_ascending, views)) and all(
        place_bounds(one.segment)[1] < place_bounds(other.segment)[0]
        for one, other in itertools.pairwise(views)
    )


def _merge(parts: Sequence[Best]) -> NDArray[np.int64]:
    """Return the order of all chosen matches, concatenated by segment, best first."""
    if len(parts) == 1 and (parts[0].is_in_order or len(parts[0].positions) == 1):
        return np.arange(len(parts[0].positions))
    if len(parts) == 1:
        best = parts[0]
        return _sort_rows([level.keys(best.positions) for level in best.levels])
    columns = []
    for levels in zip(*[best.levels for best in parts], strict=True):
        keys = [level.keys(best.positions) for level, best in zip(levels, parts, strict=True)]
        if isinstance(levels[0], FieldLevel):
            keys = _comparable(levels, parts, keys)
        columns.append(np.concatenate(keys))
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
    levels: Sequence[Level], parts: Sequence[Best], keys: list[NDArray[np.uint64]]
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
