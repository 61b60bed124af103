"""Merging the shards' hits into one order (pure).

Order of hits: the sort keys as asked, then score descending, then place ascending. A shard returns
the best `offset + limit` of its own, best first; the best of all shards are among them.

Two ways, by what orders the hits:

* scores and places only (the usual search): numpy arrays. For a deep page only the scores between
  the page's first and last are sorted, after two selections in linear time.
* sort keys: Python values of any type. A stable sort from the least to the most significant key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.protocol.messages import SearchResponse, SortKey


@dataclass(frozen=True, slots=True)
class Hit:
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
        places = [np.frombuffer(answer.places, np.uint64) for _, answer in answers]
        self.lengths = [len(part) for part in places]
        self.places = np.concatenate(places) if places else np.zeros(0, np.uint64)
        has_scores = any(answer.scores for _, answer in answers)
        self.scores: NDArray[np.float64] | None = (
            np.concatenate([np.frombuffer(answer.scores, np.float64) for _, answer in answers])
            if has_scores
            else None
        )

    def hit(self, position: int) -> Hit:
        """Return the hit at a position of the concatenated arrays."""
        rank = position
        for (shard, answer), length in zip(self.answers, self.lengths, strict=True):
            if rank < length:
                record = int.from_bytes(answer.records[8 * rank : 8 * rank + 8], "little")
                return Hit(
                    shard=shard,
                    rank=rank,
                    record=record,
                    score=None if self.scores is None else float(self.scores[position]),
                    place=int(self.places[position]),
                    sort_values=tuple(
                        column[rank] if column else None for column in answer.sort_values
                    ),
                )
            rank -= length
        raise IndexError(position)


def merge_hits(
    answers: Sequence[tuple[int, SearchResponse]],
    sort: Sequence[SortKey],
    is_place_descending: bool,
    offset: int,
    limit: int,
) -> list[Hit]:
    """Return the hits `offset` to `offset + limit` of the order over all shards.

    Args:
        answers: shard ordinal and answer; each answer's hits are in order.
        sort: the keys of the request.
        is_place_descending: newest first, where neither key nor score decides.
        offset: hits to leave out.
        limit: hits to return.

    Returns:
        At most `limit` hits, best first.
    """
    ranked = _Ranked(answers)
    total = len(ranked.places)
    if limit == 0 or offset >= total:
        return []
    if sort:
        order = _order_by_keys(ranked, sort)[offset : offset + limit]
    elif ranked.scores is not None:
        order = _order_by_score(ranked.scores, ranked.places, offset, limit)
    else:
        places = ranked.places
        ascending = np.argsort(places, kind="stable")
        order = (ascending[::-1] if is_place_descending else ascending)[
            offset : offset + limit
        ].tolist()
    return [ranked.hit(position) for position in order]


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
    order = np.argsort(ranked.places, kind="stable").tolist()
    scores = ranked.scores
    if scores is not None:
        order.sort(key=lambda position: -scores[position])
    columns: list[Sequence[Any]] = [
        scores.tolist()
        if key.field is None and scores is not None
        else [value for _, answer in ranked.answers for value in answer.sort_values[i]]
        or [None] * len(order)
        for i, key in enumerate(sort)
    ]
    for key, column in reversed(list(zip(sort, columns, strict=True))):
        keys = [_sort_value(value, key) for value in column]
        order.sort(key=keys.__getitem__, reverse=key.is_descending)
    return order


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
