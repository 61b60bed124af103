"""Merging the shards' hits into one order (pure).

Order of hits: the sort keys as asked, then score descending, then place ascending. A shard returns
the best of its own, best first. Of `offset + limit` from each, the best of all are among them. So
many are not needed where items are spread at random: of the best k, one of n shards has k / n, give
or take. So each is asked for some more than these (`num_asked`), and if what it did not send may
belong to the page (`lacks_hits`), all are asked again for the whole.

Hits are named by their position in the answers, one shard's behind the other's. Two ways to order
positions, by how many there are:

* the usual page: plain lists. Stable sorts from the least to the most significant key; of twenty
  hits these take as long as the first array would take to make.
* a deep page, where all keys are numbers: arrays. By score, only the scores between the page's
  first and last are sorted, after two selections in linear time.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from common.protocol.messages import Distinct, Pin, SearchResponse, SortKey

_ARRAYS_MIN = 256
"""Hits from which on making arrays pays."""
_EXACT_MAX = 1 << 53
SCORE_UNIT = 2.0**32
"""Scores are multiples of its inverse."""
_Keys = list[tuple[SortKey, list[Any]]]
"""Sort keys, the most significant one first, each with its value by position."""

_NUMBERS = frozenset((int, float))
_TEXTS = frozenset((str,))


class Hit(Struct, frozen=True):
    """One hit of the page: which shard found it, and as its how-manieth; the rest is looked up."""

    shard: int
    answer: SearchResponse
    rank: int
    pin: int | None = None
    """Of a pinned hit: which of the search's pins it is."""

    @property
    def place(self) -> int:
        """Insertion number."""
        return memoryview(self.answer.places).cast("Q")[self.rank]

    @property
    def record(self) -> int:
        """Names the stored document on its shard."""
        return memoryview(self.answer.records).cast("Q")[self.rank]

    @property
    def score(self) -> float | None:
        """None without a query."""
        scores = self.answer.scores
        return memoryview(scores).cast("d")[self.rank] if scores else None

    @property
    def sort_values(self) -> tuple[Any, ...]:
        """Values of the sort keys, None where missing."""
        return tuple([column[self.rank] if column else None for column in self.answer.sort_values])


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
    starts = [0, *accumulate([len(answer.places) >> 3 for _, answer in answers])]
    num_hits = starts.pop()
    if limit == 0 or offset >= num_hits:
        return []
    first, end = (offset, offset + limit) if distinct is None else (0, num_hits)
    places = memoryview(b"".join([answer.places for _, answer in answers])).cast("Q")
    scores = memoryview(b"".join([answer.scores for _, answer in answers])).cast("d")
    keys = [(key, _column(answers, i, key, scores, num_hits)) for i, key in enumerate(sort)]
    is_newest_first = is_place_descending and not keys and not scores
    if num_hits < _ARRAYS_MIN or not all(_is_of_doubles(column) for _, column in keys):
        order = _order_of_few(keys, scores, places, is_newest_first)[first:end]
    elif keys or not scores:
        order = _order_of_many(keys, scores, places, is_newest_first)[first:end]
    else:
        order = _order_by_score(np.asarray(scores), np.asarray(places), first, end)
    if distinct is not None:
        order = _best_per_value(answers, order, distinct.limit)[offset : offset + limit]
    found_by = [bisect_right(starts, position) - 1 for position in order]
    return [
        Hit(*answers[i], position - starts[i]) for i, position in zip(found_by, order, strict=True)
    ]


def num_asked(num_hits: int, num_shards: int) -> int:
    """Return how many of its best hits to ask each shard for, where the best `num_hits` are wanted.

    Six standard deviations more than its share: not enough once in thousands of searches for a
    short page, once in a thousand million for a deep one.
    """
    share = num_hits / num_shards
    return min(num_hits, math.ceil(share + 6 * math.sqrt(share)))


def num_inline(num_hits: int, num_shards: int) -> int:
    """Return how many documents each shard sends at once, where the best `num_hits` are shown.

    Two and a half standard deviations more than its share: some are fetched afterwards in one
    search of a hundred, and the others do not read twice what they show.
    """
    share = num_hits / num_shards
    deviation = math.sqrt(share * (1 - 1 / num_shards))
    return min(num_hits, math.ceil(share + 2.5 * deviation))


class PinnedOnPage(NamedTuple):
    """The pinned hits of one page."""

    num_before: int
    """Pinned hits on earlier pages."""
    hits: list[Hit]
    slots: list[int]
    """Where each stands on the page, ascending."""

    def among(self, others: list[Hit]) -> list[Hit]:
        """Return the page: the pinned hits in their slots, the others around them."""
        page = list(others)
        for slot, hit in zip(self.slots, self.hits, strict=True):
            page.insert(slot, hit)
        return page


NOTHING_PINNED = PinnedOnPage(0, [], [])


def pinned_on_page(
    answers: Sequence[tuple[int, SearchResponse]], pins: Sequence[Pin], offset: int, limit: int
) -> PinnedOnPage:
    """Return the pinned hits that stand on a page.

    Args:
        answers: shard ordinal and answer.
        pins: of the search, by position.
        offset: hits on earlier pages.
        limit: hits of a full page.
    """
    hits = [
        Hit(shard, answer.pinned, rank, number)
        for shard, answer in answers
        if answer.pinned is not None
        for rank, number in enumerate(answer.pin_numbers)
    ]
    if not hits:
        return NOTHING_PINNED
    hits.sort(key=lambda hit: hit.pin or 0)
    num_others = sum([answer.total for _, answer in answers]) - len(hits)
    places = slots([pins[hit.pin or 0].position for hit in hits], num_others)
    on_page = [i for i, place in enumerate(places) if offset <= place < offset + limit]
    return PinnedOnPage(
        sum([place < offset for place in places]),
        [hits[i] for i in on_page],
        [places[i] - offset for i in on_page],
    )


def slots(positions: Sequence[int], num_others: int) -> list[int]:
    """Return where pinned hits stand among all, from 0, given their positions in order, from 1.

    A position that is taken, by an earlier pin, is the next one; there are no gaps behind the last
    of the other hits.
    """
    taken: list[int] = []
    for number, position in enumerate(positions):
        slot = max(position - 1, taken[-1] + 1 if taken else 0)
        taken.append(min(slot, num_others + number))
    return taken


def lacks_hits(
    answers: Sequence[tuple[int, SearchResponse]],
    page: Sequence[Hit],
    sort: Sequence[SortKey],
    is_place_descending: bool,
    limit: int,
) -> bool:
    """Return whether hits that a shard has, but did not send, may belong to a page.

    Not for a search behind a cursor or by distinct values: their totals are not what is left.

    Args:
        answers: shard ordinal and answer; each answer's hits are in order.
        page: of these, as `merge_hits` made it.
        sort: the keys of the request.
        is_place_descending: as for `merge_hits`.
        limit: hits of a full page.
    """
    last_sent = [
        Hit(shard, answer, num_sent - 1)
        for shard, answer in answers
        if (num_sent := len(answer.places) >> 3) < answer.total - answer.num_pinned
    ]
    if not last_sent or limit == 0:
        return False
    if len(page) < limit:
        return True
    # The page is sure if all that was not sent comes behind it: so does the last that was sent.
    few = [page[-1], *last_sent]
    scores = [hit.score for hit in few] if few[0].answer.scores else []
    keys = [
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


def _best_per_value(
    answers: Sequence[tuple[int, SearchResponse]], order: list[int], limit: int
) -> list[int]:
    """Return the positions without those behind the best `limit` of the same value.

    A hit without a value differs from all others.
    """
    values = [value for _, answer in answers for value in answer.distinct_values]
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


def _column(
    answers: Sequence[tuple[int, SearchResponse]],
    i: int,
    key: SortKey,
    scores: memoryview[float],
    num_hits: int,
) -> list[Any]:
    """Return the values of the i-th sort key by position."""
    if key.is_score and scores:
        return _scores_of(key, scores.tolist())
    column = [value for _, answer in answers for value in answer.sort_values[i]]
    return column or [None] * num_hits


def bucket_height(best_score: float, num_buckets: int) -> float:
    """Return the height of so many equal steps, the last of which holds the best score."""
    return (best_score * SCORE_UNIT // num_buckets + 1.0) / SCORE_UNIT


def _scores_of(key: SortKey, scores: list[Any]) -> list[Any]:
    """Return scores as a key compares them: perhaps rounded down to steps."""
    if not key.bucket_height:
        return scores
    return [math.floor(score / key.bucket_height) for score in scores]


def _order_of_few(
    keys: _Keys, scores: Sequence[Any], places: Sequence[int], is_newest_first: bool
) -> list[int]:
    """Return all positions in the order of the sort keys, then score, then place."""
    order = sorted(range(len(places)), key=places.__getitem__, reverse=is_newest_first)
    if scores:
        order.sort(key=scores.__getitem__, reverse=True)
    for key, column in reversed(keys):
        kinds = set(map(type, column))
        if not (kinds <= _NUMBERS or kinds <= _TEXTS):
            column = [_sort_value(value, key) for value in column]
        order.sort(key=column.__getitem__, reverse=key.is_descending)
    return order


def _order_of_many(
    keys: _Keys, scores: memoryview[float], places: memoryview[int], is_newest_first: bool
) -> list[int]:
    """Do the same with arrays, where all values of the keys are numbers."""
    by_place = np.asarray(places)
    columns = [~by_place if is_newest_first else by_place]  # the least significant one first
    if scores:
        columns.append(-np.asarray(scores))
    for key, column in reversed(keys):
        numbers = np.array(column, np.float64)
        columns.append(-numbers if key.is_descending else numbers)
    order: list[int] = np.lexsort(columns).tolist()
    return order


def _order_by_score(
    scores: NDArray[np.float64], places: NDArray[np.uint64], first: int, end: int
) -> list[int]:
    """Return positions by score descending, place ascending, for one page."""
    end = min(end, len(scores))
    descending = -scores
    best, worst = np.partition(descending, (first, end - 1))[[first, end - 1]]
    window = np.flatnonzero((descending >= best) & (descending <= worst))
    num_before = int(np.count_nonzero(descending < best))
    order = window[np.lexsort((places[window], descending[window]))]
    page: list[int] = order[first - num_before : end - num_before].tolist()
    return page


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
