"""Merging the shards' hits into one order (pure).

Order of hits: the sort keys as asked, then score descending, then place ascending. A shard returns
the best `offset + limit` of its own, best first; the best of all shards are among them.

Two ways, by what orders the hits:

* scores and places only (the usual search): numpy arrays. For a deep page only the scores between
  the page's first and last are sorted, after two selections in linear time.
* sort keys: Python values of any type. A stable sort from the least to the most significant key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.protocol.messages import Distinct, SearchResponse, SortKey

_RECORD = Struct("<Q")
_ARRAYS_MIN = 1_000
"""Hits from which on making arrays of their sort values pays."""
_EXACT_MAX = 1 << 53


class Hit(NamedTuple):
    """One hit of the page: which shard found it, and as its how-manieth."""

    shard: int
    rank: int
    record: int
    score: float | None
    place: int
    sort_values: tuple[Any, ...]


class _Ranked:
    """The hits of all shards as arrays, in the order of the shards."""

    def __init__(self, answers: Sequence[tuple[int, SearchResponse]]) -> None:
        self.answers = answers
        self.places = _joined([answer.places for _, answer in answers], np.uint64)
        self.scores: NDArray[np.float64] | None = None
        if any(answer.scores for _, answer in answers):
            self.scores = _joined([answer.scores for _, answer in answers], np.float64)

    def hits(self, positions: list[int]) -> list[Hit]:
        """Return the hits at positions of the concatenated arrays."""
        places: list[int] = self.places[positions].tolist()
        scores: list[float | None] = (
            [None] * len(positions) if self.scores is None else self.scores[positions].tolist()
        )
        hits = []
        for position, place, score in zip(positions, places, scores, strict=True):
            rank = position
            for shard, answer in self.answers:  # noqa: B007 - read behind the loop
                length = len(answer.places) >> 3
                if rank < length:
                    break
                rank -= length
            (record,) = _RECORD.unpack_from(answer.records, 8 * rank)
            values = tuple(
                [column[rank] if column else None for column in answer.sort_values]
                if answer.sort_values
                else ()
            )
            hits.append(Hit(shard, rank, record, score, place, values))
        return hits


def _joined(parts: list[bytes], dtype: type[np.generic]) -> NDArray[Any]:
    """Return the arrays of all shards as one; shards without hits send nothing."""
    return np.frombuffer(b"".join(parts), dtype)


def merge_hits(
    answers: Sequence[tuple[int, SearchResponse]],
    sort: Sequence[SortKey],
    is_place_descending: bool,
    offset: int,
    limit: int,
    distinct: Distinct | None = None,
) -> list[Hit]:
    """Return the hits `offset` to `offset + limit` of the order over all shards.

    Args:
        answers: shard ordinal and answer; each answer's hits are in order.
        sort: the keys of the request.
        is_place_descending: newest first, where neither key nor score decides.
        offset: hits to leave out.
        limit: hits to return.
        distinct: keep only so many of the best hits per value of a field.

    Returns:
        At most `limit` hits, best first.
    """
    ranked = _Ranked(answers)
    num_hits = len(ranked.places)
    if limit == 0 or offset >= num_hits:
        return []
    first, num_wanted = (offset, limit) if distinct is None else (0, num_hits)
    if sort:
        order = _order_by_keys(ranked, sort)[first : first + num_wanted]
    elif ranked.scores is not None:
        order = _order_by_score(ranked.scores, ranked.places, first, num_wanted)
    else:
        ascending: list[int] = ranked.places.argsort(kind="stable").tolist()
        order = (ascending[::-1] if is_place_descending else ascending)[first : first + num_wanted]
    if distinct is not None:
        order = _best_per_value(ranked, order, distinct.limit)[offset : offset + limit]
    return ranked.hits(order)


def _best_per_value(ranked: _Ranked, order: list[int], limit: int) -> list[int]:
    """Return the positions without those behind the best `limit` of the same value.

    A hit without a value differs from all others.
    """
    values = [value for _, answer in ranked.answers for value in answer.distinct_values]
    seen: Counter[tuple[type, Any]] = Counter()
    kept = []
    for position in order:
        value = values[position]
        # The type is part of the value, or true would be 1.
        key = (bool if isinstance(value, bool) else str if isinstance(value, str) else int, value)
        seen[key] += 1
        if value is None or seen[key] <= limit:
            kept.append(position)
    return kept


def _order_by_score(
    scores: NDArray[np.float64], places: NDArray[np.uint64], offset: int, limit: int
) -> list[int]:
    """Return positions by score descending, place ascending, for one page."""
    end = min(offset + limit, len(scores))
    if len(scores) <= 256:
        all_of_them: list[int] = np.lexsort((places, -scores))[offset:end].tolist()
        return all_of_them
    descending = -scores
    best, worst = np.partition(descending, (offset, end - 1))[[offset, end - 1]]
    window = np.flatnonzero((descending >= best) & (descending <= worst))
    num_before = int(np.count_nonzero(descending < best))
    order = window[np.lexsort((places[window], descending[window]))]
    page: list[int] = order[offset - num_before : end - num_before].tolist()
    return page


def _order_by_keys(ranked: _Ranked, sort: Sequence[SortKey]) -> list[int]:
    """Return all positions in the order of the sort keys, then score, then place."""
    scores = ranked.scores
    columns: list[list[Any]] = [
        scores.tolist()
        if key.field is None and scores is not None
        else [value for _, answer in ranked.answers for value in answer.sort_values[i]]
        or [None] * len(ranked.places)
        for i, key in enumerate(sort)
    ]
    if len(ranked.places) >= _ARRAYS_MIN and all(map(_is_of_doubles, columns)):
        keys = [
            -np.array(column, np.float64) if key.is_descending else np.array(column, np.float64)
            for key, column in zip(sort, columns, strict=True)
        ]
        if scores is not None:
            keys.append(-scores)
        by_arrays: list[int] = np.lexsort([ranked.places, *reversed(keys)]).tolist()
        return by_arrays
    order: list[int] = np.argsort(ranked.places, kind="stable").tolist()
    if scores is not None:
        order.sort(key=lambda position: -scores[position])
    for key, column in reversed(list(zip(sort, columns, strict=True))):
        values = [_sort_value(value, key) for value in column]
        order.sort(key=values.__getitem__, reverse=key.is_descending)
    return order


def _is_of_doubles(column: list[Any]) -> bool:
    """Whether all values are numbers that a double holds exactly (no text, no missing value)."""
    return set(map(type, column)) <= {float, int} and all(
        type(value) is float or -_EXACT_MAX <= value <= _EXACT_MAX for value in column
    )


def _sort_value(value: Any, key: SortKey) -> tuple[int, int, Any]:
    """Return a value comparable with all others: (missing or not, type rank, value)."""
    comes_first = key.is_missing_first != key.is_descending
    if value is None:
        return (0 if comes_first else 2, 0, 0)
    if isinstance(value, bool):
        return (1, 2, value)
    if isinstance(value, str):
        return (1, 1, value)
    return (1, 0, value)
