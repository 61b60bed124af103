"""Merging the shards' hits into one order (pure).

Hits are ordered by the sort keys of the request, then score descending, then place (insertion
number) ascending. Each shard sends its best hits, best first. The top `offset + limit` of every
shard certainly contain the top `offset + limit` overall, but that many are rarely needed: items are
spread at random, so one of n shards holds about k / n of the best k. We ask each shard for a little
more than that (`num_asked`); if a hit that was not sent could belong to the page (`lacks_hits`), we
ask all of them again for the full number.

Hits are addressed by their position in the concatenated responses. Two ways to order positions:

* a usual page: plain lists, stable-sorted from the least to the most significant key. Sorting
  twenty hits takes no longer than creating the first array would.
* a deep page whose keys are all numbers: arrays. By score, two linear-time selections find the
  first and last score of the page, and only the scores between them are sorted.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, chain, repeat
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from common.analysis.collation import collator
from common.distinct_values import starts_run
from common.protocol.messages import (
    Distinct,
    DistinctCounts,
    SearchResponse,
    SortKey,
)
from common.value_kinds_and_facet_keys import NO_TOKEN
from coordinator.cluster.shard_responses import ShardResponses

_ARRAYS_MIN = 256
"""Number of hits from which arrays pay off."""
_EXACT_MAX = 1 << 53
VALUES_FAST_MAX = 50_000
"""Values of distinct hits that are counted in a millisecond."""
COLLATED_FAST_CHARS = 50_000
"""Characters of texts that are put in the order of a language in a millisecond."""
SCORE_UNIT = 2.0**32
"""Scores are multiples of 1 / SCORE_UNIT."""
_Column: TypeAlias = list[Any] | NDArray[np.float64]
"""Values by position; an array if shards sent arrays."""
_Keys: TypeAlias = list[tuple[SortKey, _Column]]
"""Sort keys, most significant first, each with its values."""

_NUMBERS = frozenset((int, float))
_TEXTS = frozenset((str,))
_PACKED = frozenset((bytes,))


class Hit(Struct, frozen=True):
    """One hit of the page: the shard that found it, and its rank there; the rest is looked up."""

    shard: int
    answer: SearchResponse
    rank: int
    pin: int | None = None
    """Number of a pinned hit's pin in the search."""

    @property
    def place(self) -> int:
        """Insertion number."""
        return memoryview(self.answer.places).cast("Q")[self.rank]

    @property
    def record(self) -> int:
        """Address of the stored document on its shard."""
        return memoryview(self.answer.records).cast("Q")[self.rank]

    @property
    def score(self) -> float | None:
        """None if the search has no query."""
        scores = self.answer.scores
        return memoryview(scores).cast("d")[self.rank] if scores else None

    @property
    def token(self) -> int:
        """The token of its value, in a search by distinct values; not of a pinned hit."""
        assert self.answer.distinct is not None, "a search without distinct"
        return memoryview(self.answer.distinct.hit_tokens).cast("Q")[self.rank]

    @property
    def sort_values(self) -> tuple[Any, ...]:
        """Values of the sort keys, None where missing."""
        columns = [self.answer.sort_column(i) for i in range(len(self.answer.sort_values))]
        return tuple([column[self.rank] if len(column) else None for column in columns])


def merge_hits(
    answers: ShardResponses,
    sort: Sequence[SortKey],
    is_place_descending: bool,
    offset: int,
    limit: int,
    distinct: Distinct | None = None,
) -> list[Hit]:
    """Return hits `offset` to `offset + limit` in the order over all shards.

    Args:
        answers: (shard ordinal, response); the hits of each response are in order.
        sort: the sort keys of the request.
        is_place_descending: newest first where neither keys nor score decide.
        offset: hits to skip.
        limit: hits to return.
        distinct: keep only the best few hits per value of a field.

    Returns:
        At most `limit` hits, best first.
    """
    place_parts: list[bytes] = []
    score_parts: list[bytes] = []
    for _, answer in answers:
        place_parts.append(answer.places)
        score_parts.append(answer.scores)
    places = memoryview(b"".join(place_parts)).cast("Q")
    scores = memoryview(b"".join(score_parts)).cast("d")
    num_hits = len(places)
    if limit == 0 or offset >= num_hits:
        return []
    first, end = (offset, offset + limit) if distinct is None else (0, num_hits)
    keys = _columns(answers, sort, scores, num_hits) if sort else []
    is_newest_first = is_place_descending and not keys and not scores
    if num_hits < _ARRAYS_MIN or not all(_is_of_doubles(column) for _, column in keys):
        few_scores, few_places = scores.tolist(), places.tolist()
        order = _order_of_few(keys, few_scores, few_places, is_newest_first)[first:end]
    else:
        order = _order_of_many(keys, scores, places, is_newest_first, first, min(end, num_hits))
    if distinct is not None:
        order = _best_per_value(answers, order, distinct.limit)[offset : offset + limit]
    return _hits_at(answers, order, num_hits)


def _hits_at(answers: ShardResponses, order: list[int], num_hits: int) -> list[Hit]:
    """Return the hits at some of `num_hits` positions."""
    hits: list[Hit] = []
    if num_hits < _ARRAYS_MIN:  # making all of them takes less than locating each
        for shard, answer in answers:
            hits += map(Hit, repeat(shard), repeat(answer), range(len(answer.places) >> 3))
        return list(map(hits.__getitem__, order))
    starts = [0, *accumulate([len(answer.places) >> 3 for _, answer in answers])]
    for position in order:
        one = bisect_right(starts, position) - 1
        shard, answer = answers[one]
        hits.append(Hit(shard, answer, position - starts[one]))
    return hits


def is_slow_to_order(answers: ShardResponses, sort: Sequence[SortKey]) -> bool:
    """Return whether ordering hits takes milliseconds: of long texts, in the order of a language.

    Args:
        answers: (shard ordinal, response).
        sort: the sort keys of the request.
    """
    collated = [i for i, key in enumerate(sort) if key.collation] if sort else ()
    if not collated:
        return False
    num_chars = sum([
        len(value)
        for i in collated
        for _, answer in answers
        if answer.places
        for value in answer.sort_column(i)
        if type(value) is str
    ])  # fmt: skip
    return num_chars > COLLATED_FAST_CHARS


@lru_cache
def num_asked(num_hits: int, num_shards: int) -> int:
    """Return how many hits to request from each shard to get the best `num_hits` overall.

    A shard's fair share plus six standard deviations: too few once in thousands of searches for a
    short page, once in a billion for a deep one.
    """
    share = num_hits / num_shards
    return min(num_hits, math.ceil(share + 6 * math.sqrt(share)))


@lru_cache
def num_inline(num_hits: int, num_shards: int) -> int:
    """Return how many documents each shard sends along, if `num_hits` hits are shown.

    A shard's fair share plus two and a half standard deviations: one search in a hundred fetches a
    few documents afterwards; the others do not read twice as many as they show.
    """
    share = num_hits / num_shards
    deviation = math.sqrt(share * (1 - 1 / num_shards))
    return min(num_hits, math.ceil(share + 2.5 * deviation))


def lacks_hits(
    answers: ShardResponses,
    page: Sequence[Hit],
    sort: Sequence[SortKey],
    is_place_descending: bool,
    limit: int,
) -> bool:
    """Return whether a hit that some shard has but did not send may belong to the page.

    Not for searches with a cursor or distinct values: their totals do not count what is left.

    Args:
        answers: (shard ordinal, response); the hits of each response are in order.
        page: the page that `merge_hits` made of them.
        sort: the sort keys of the request.
        is_place_descending: as for `merge_hits`.
        limit: hits on a full page.
    """
    # A shard's hit after its last one on the page ranks after the page: if it was sent, those that
    # were not do too.
    last_ranks = {hit.shard: hit.rank for hit in page}
    last_sent = [
        Hit(shard, answer, num_sent - 1)
        for shard, answer in answers
        if (num_sent := len(answer.places) >> 3) < answer.total - answer.num_apart
        and last_ranks.get(shard, num_sent) >= num_sent - 1
    ]
    if not last_sent or limit == 0:
        return False
    if len(page) < limit:
        return True
    # Unsent hits rank after the last one sent. If that ranks after the page, so do all of them.
    few = [page[-1], *last_sent]
    scores = [hit.score for hit in few] if few[0].answer.scores else []
    keys: _Keys = [
        (
            key,
            _scores_of(key, scores)
            if key.is_score and scores
            else [hit.sort_values[i] for hit in few],
        )
        for i, key in enumerate(sort)
    ]
    places = [hit.place for hit in few]
    is_newest_first = is_place_descending and not keys and not scores
    return _order_of_few(keys, scores, places, is_newest_first)[0] != 0


def num_distinct(parts: Sequence[DistinctCounts], limit: int) -> int:
    """Return how many hits are left of all shards', given those of each.

    Cost: 20 ns a value and shard; half of it where one hit is kept per value.

    Args:
        parts: of the shards that answered; with tokens, if there are several.
        limit: hits that are kept per value.
    """
    if len(parts) == 1:
        return parts[0].total
    tokens = np.frombuffer(b"".join([part.tokens for part in parts]), np.uint64)
    counts = np.frombuffer(b"".join([part.counts for part in parts]), np.uint8)
    num_missing = sum([part.num_missing for part in parts])
    if not len(tokens):
        return num_missing
    if limit == 1:  # one hit for each value that any shard has
        ordered = np.sort(tokens, kind="stable")
        return num_missing + int(np.count_nonzero(starts_run(ordered)))
    order = np.argsort(tokens, kind="stable")  # merges the shards' values, which ascend
    ordered = tokens[order]
    starts = np.flatnonzero(starts_run(ordered))
    sums = np.add.reduceat(counts[order], starts, dtype=np.int64)
    return num_missing + int(np.minimum(sums, limit).sum())


def _best_per_value(answers: ShardResponses, order: list[int], limit: int) -> list[int]:
    """Return the positions of the best `limit` hits of each value, in order.

    Each hit without a value counts as distinct.
    """
    parts = [answer.distinct.hit_tokens for _, answer in answers if answer.distinct is not None]
    tokens = memoryview(b"".join(parts)).cast("Q")
    num_kept: dict[int, int] = {}
    kept = []
    for position in order:
        token = tokens[position]
        count = num_kept.get(token, 0)
        if count < limit or token == NO_TOKEN:
            num_kept[token] = count + 1
            kept.append(position)
    return kept


def _columns(
    answers: ShardResponses,
    sort: Sequence[SortKey],
    scores: memoryview[float],
    num_hits: int,
) -> _Keys:
    """Return the sort keys with their values by position."""
    keys: _Keys = []
    for i, key in enumerate(sort):
        if key.is_score and scores:
            keys.append((key, _scores_of(key, scores.tolist())))
            continue
        parts: list[Any] = [answer.sort_values[i] for _, answer in answers if answer.places]
        kinds = set(map(type, parts))
        if kinds == _PACKED:
            keys.append((key, np.frombuffer(b"".join(parts), np.float64)))
            continue
        if bytes in kinds:
            parts = [answer.sort_column(i) for _, answer in answers if answer.places]
        column = list(chain.from_iterable(parts))
        keys.append((key, column or [None] * num_hits))
    return keys


def bucket_height(best_score: float, num_buckets: int) -> float:
    """Return the height of `num_buckets` equal score buckets; the top one holds the best score."""
    return (best_score * SCORE_UNIT // num_buckets + 1.0) / SCORE_UNIT


def _scores_of(key: SortKey, scores: list[Any]) -> list[Any]:
    """Return scores as the sort key compares them: by bucket, if it has buckets."""
    if not key.bucket_height:
        return scores
    return [math.floor(score / key.bucket_height) for score in scores]


def _order_of_few(
    keys: _Keys, scores: Sequence[Any], places: Sequence[int], is_newest_first: bool
) -> list[int]:
    """Return all positions ordered by the sort keys, then score, then place."""
    order = sorted(range(len(places)), key=places.__getitem__, reverse=is_newest_first)
    if scores:
        order.sort(key=scores.__getitem__, reverse=True)
    for key, values in reversed(keys):
        column = values.tolist() if isinstance(values, np.ndarray) else values
        kinds = set(map(type, column))
        if not (kinds <= _NUMBERS or (kinds <= _TEXTS and not key.collation)):
            column = [comparable(value, key) for value in column]
        order.sort(key=column.__getitem__, reverse=key.is_descending)
    return order


def _order_of_many(
    keys: _Keys,
    scores: memoryview[float],
    places: memoryview[int],
    is_newest_first: bool,
    first: int,
    end: int,
) -> list[int]:
    """Return the positions [first, end) of the order, with arrays; all key values are numbers.

    Two selections in linear time find the first and the last of these by the most significant key;
    only what is between them is sorted.
    """
    by_place = np.asarray(places)
    columns: list[NDArray[Any]] = [~by_place if is_newest_first else by_place]
    if scores:
        columns.append(-np.asarray(scores))
    for key, column in reversed(keys):
        numbers = np.asarray(column, np.float64)
        columns.append(-numbers if key.is_descending else numbers)
    most_significant = columns[-1]
    best, worst = np.partition(most_significant, (first, end - 1))[[first, end - 1]]
    window = np.flatnonzero((most_significant >= best) & (most_significant <= worst))
    num_before = int(np.count_nonzero(most_significant < best))
    order = window[np.lexsort([column[window] for column in columns])]
    page: list[int] = order[first - num_before : end - num_before].tolist()
    return page


def _is_of_doubles(column: _Column) -> bool:
    """Whether all values are numbers that a double represents exactly (no text, none missing)."""
    if isinstance(column, np.ndarray):
        return True
    return set(map(type, column)) <= {float, int} and all(
        type(value) is float or -_EXACT_MAX <= value <= _EXACT_MAX for value in column
    )


def comparable(value: Any, key: SortKey) -> tuple[int, int, Any]:
    """Return a value that compares with any other: (missing rank, type rank, value)."""
    comes_first = key.is_missing_first != key.is_descending
    if value is None:
        return (0 if comes_first else 2, 0, 0)
    if isinstance(value, bool):
        return (1, 2, value)
    if isinstance(value, str):
        return (1, 1, collator(key.collation).key_of(value) if key.collation else value)
    return (1, 0, value)
