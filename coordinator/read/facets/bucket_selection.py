"""Buckets of a facet: chosen and ordered from exact counts (`summed_counts`).

Cost: choosing the top k is one kernel pass with a heap of size k, over the values that have a count
if all shards sent sparse pairs. Only the values of the page are touched as texts: equal counts are
ordered by *rank*, which is known for the values that existed when the numbering was last sorted. It
is sorted again when unranked values get in the way too often (up to the length `_RANKED_MAX`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import filterfalse, islice, repeat
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from coordinator.parameters.facet_specs import BucketOrder, FacetSpec
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.facets.facet_value_collation import text_key
from coordinator.read.facets.global_ordinals import FacetValues, Order
from coordinator.read.facets.greatest_counts import list_at_least, select_greatest
from coordinator.read.facets.summed_counts import CountsReader, MergedCounts

_TIES_MAX = 4_096
"""Up to this many values of equal count are sorted as texts; more are sorted by rank."""
_RANKED_MAX = 1 << 16
"""Longer numberings are sorted only to break very many ties: a million texts take half a second."""
_UNRANKED_MIN = 64
"""Unranked values tolerated before sorting again: this many, or a sixteenth of the ranked ones; in
a numbering of up to this many, none."""
_KEY_BITS = {"selected": 1, "count": 31, "key": 31}
"""Bits of what buckets are ordered by: counts and ranks are less than 2^31."""
_NONE_CHOSEN: frozenset[int] = frozenset()
NONE_SELECTED: frozenset[str] = frozenset()


class NumberSummary(Struct, frozen=True, gc=False):
    """Statistics of the numbers of one field within the items of a bucket."""

    min: int | float
    max: int | float
    avg: float
    sum: float
    count: int


class Bucket(Struct, frozen=True, gc=False, rename={"is_selected": "selected"}):
    """One value of a facet as users see it; encoded as JSON, it is a bucket of the API."""

    key: str
    doc_count: int
    is_selected: bool


class SummedBucket(Bucket, frozen=True, gc=False):
    """A bucket with statistics of numbers within its items."""

    stats: dict[str, NumberSummary | None]
    """By field; None where no item has a number."""


def page_of_buckets(
    values: FacetValues,
    merged: MergedCounts,
    selected: frozenset[str],
    order: BucketOrder,
    offset: int,
    limit: int,
    accepts: NDArray[np.bool_] | None = None,
) -> list[Bucket]:
    """Return one page of a facet's buckets.

    Args:
        values: the numbering of `merged`.
        merged: exact counts.
        selected: keys chosen in filters; a key that occurs in no live document has no bucket.
        order: the order of the buckets.
        offset: buckets to skip.
        limit: buckets to return.
        accepts: by number: which values may be listed at all; None for all.

    Cost: O(values) in a kernel, plus O(page) texts; orders by key sort all values as texts once.
    """
    if accepts is not None and not accepts.any():
        return []
    candidates = _candidates(values, merged, selected, order, accepts)
    first = _first_by_count if order.is_by_count else _first_by_keys
    page = first(candidates, offset + limit)[offset : offset + limit]
    counts = map(candidates.counts.item, page)
    is_chosen = map(candidates.chosen.__contains__, page)
    return list(map(Bucket, values.texts_of(page), counts, is_chosen))


def num_buckets(
    values: FacetValues,
    merged: MergedCounts,
    selected: frozenset[str],
    order: BucketOrder,
    accepts: NDArray[np.bool_] | None = None,
) -> int:
    """Return the number of buckets on all pages; the arguments are those of `page_of_buckets`.

    Exact if `live` was sent or zeros are hidden; otherwise it counts the buckets with hits.
    """
    return int(np.count_nonzero(_listed(_candidates(values, merged, selected, order, accepts))))


class _Candidates(NamedTuple):
    """The values of a facet that may have a bucket."""

    values: FacetValues
    merged: MergedCounts
    counts: NDArray[np.int64]
    """By number; 0 for values that may not be listed."""
    accepts: NDArray[np.bool_] | None
    """By number: which values may be listed at all; None for all."""
    chosen: frozenset[int]
    """Numbers of the selected keys that have a bucket."""
    order: BucketOrder


def _candidates(
    values: FacetValues,
    merged: MergedCounts,
    selected: frozenset[str],
    order: BucketOrder,
    accepts: NDArray[np.bool_] | None,
) -> _Candidates:
    """Return the candidates; the arguments are those of `page_of_buckets`."""
    counts = merged.counts
    if accepts is not None:
        accepts = _as_long_as(accepts, len(counts))
        counts = np.where(accepts[: len(counts)], counts, 0)
    chosen = _chosen(values, merged, selected, order, accepts) if selected else _NONE_CHOSEN
    return _Candidates(values, merged, counts, accepts, chosen, order)


def _as_long_as(accepts: NDArray[np.bool_], num_values: int) -> NDArray[np.bool_]:
    """Return which values may be listed; values past the inspected ones have no counts here."""
    return np.pad(accepts, (0, max(num_values - len(accepts), 0)))


def _chosen(
    values: FacetValues,
    merged: MergedCounts,
    selected: frozenset[str],
    order: BucketOrder,
    accepts: NDArray[np.bool_] | None,
) -> frozenset[int]:
    """Return the numbers of the selected keys that have a bucket."""
    exists = merged.has_hits if order.hides_chosen_zero else merged.exists
    numbers = []
    for key in selected:
        number = values.number(key)
        if number is not None and exists(number) and (accepts is None or accepts[number]):
            numbers.append(number)
    return frozenset(numbers)


def _listed(candidates: _Candidates) -> NDArray[np.bool_]:
    """Return which values have a bucket, by number."""
    _, merged, counts, accepts, chosen, order = candidates
    listed = counts > 0
    if merged.live is not None and not order.hides_zero:
        listed |= merged.live.of_first(len(counts))
        if accepts is not None:
            listed &= accepts[: len(counts)]
    listed[list(chosen)] = True
    return listed


def _first_by_count(candidates: _Candidates, num_wanted: int) -> list[int]:
    """Return the first values by (chosen,) count descending, key ascending."""
    values, merged, counts, accepts, chosen, order = candidates
    on_top = chosen if chosen and order.has_selected_on_top else _NONE_CHOSEN
    k = min(num_wanted + len(on_top), len(counts))
    best = _top(values, merged, counts, k, order.collation) if k else []
    if on_top:
        first = list(on_top)
        if len(first) > 1:
            texts, sort_key = values.texts, text_key(order.collation)
            first.sort(key=lambda n: (-counts.item(n), sort_key(texts[n])))
        best = [*first, *filterfalse(on_top.__contains__, best)]
    if len(best) >= num_wanted:
        return best
    # Every value with a count is in `best` by now.
    num_missing = num_wanted - len(best)
    if order.hides_zero:
        silent_chosen = [n for n in chosen - on_top if counts[n] == 0]
        return best + _first_by_key(values, silent_chosen, num_missing, order.collation)
    if (live := merged.live) is None:
        return best
    if accepts is None and len(values) <= _RANKED_MAX:
        first_live = live.first_by_key(values, num_wanted, order.collation)
        return [*best, *islice(filterfalse(set(best).__contains__, first_live), num_missing)]
    silent = live.of_first(len(counts)) & (counts == 0)
    if accepts is not None:
        silent &= accepts[: len(counts)]
    silent[list(on_top)] = False
    return best + _first_by_key(values, np.flatnonzero(silent), num_missing, order.collation)


def _top(
    values: FacetValues, merged: MergedCounts, counts: NDArray[np.int64], k: int, collation: str
) -> list[int]:
    """Return the k values with the greatest counts, best first.

    Equal counts are ordered by text. Values without a count are left out, so there may be fewer
    than k.
    """
    best = np.empty(k, np.int64)
    touched, num_touched = merged.touched, merged.num_touched
    order = _order_at_hand(values, collation)
    num: int = select_greatest(counts, touched, num_touched, *order, best)
    if num < 0 and _is_worth_ranking(len(values), len(order.ranks)):
        order = values.order(collation)
        num = select_greatest(counts, touched, num_touched, *order, best)
    if num >= 0:
        return _as_list(best[:num])
    listed_numbers = np.empty(min(len(counts), k + _TIES_MAX), np.int64)
    num = list_at_least(counts, touched, num_touched, -num, listed_numbers)
    if num >= 0:
        texts, sort_key = values.texts, text_key(collation)
        chosen = listed_numbers[:num]
        rows = [
            (-count, sort_key(texts[n]), n)
            for n, count in zip(chosen.tolist(), counts[chosen].tolist(), strict=True)
        ]
        rows.sort()
        return [n for _, _, n in rows[:k]]
    positive = np.flatnonzero(counts > 0)
    rows_order = np.lexsort((values.ranks(collation)[positive], -counts[positive]))
    return _as_list(positive[rows_order[:k]])


def _order_at_hand(values: FacetValues, collation: str) -> Order:
    """Return the order of the values that were ranked last; of all, if they are few."""
    return (values.known_order if len(values) > _UNRANKED_MIN else values.order)(collation)


def _as_list(numbers: NDArray[np.int64]) -> list[int]:
    listed: list[int] = numbers.tolist()
    return listed


def _is_worth_ranking(num_values: int, num_ranked: int) -> bool:
    num_unranked = num_values - num_ranked
    return num_values <= _RANKED_MAX and num_unranked > max(_UNRANKED_MIN, num_ranked >> 4)


def _first_by_key(
    values: FacetValues, numbers: list[int] | NDArray[np.int64], num_wanted: int, collation: str
) -> list[int]:
    """Return the first `num_wanted` of the numbers in the order of their texts."""
    if not len(numbers):
        return []
    if len(values) > _RANKED_MAX and num_wanted < 64 and len(numbers) <= _TIES_MAX:
        texts, sort_key = values.texts, text_key(collation)
        return heapq.nsmallest(num_wanted, map(int, numbers), key=lambda n: sort_key(texts[n]))
    array = np.asarray(numbers, np.int64)
    ranks = values.ranks(collation)[array]
    if num_wanted < len(array):
        nearest = np.argpartition(ranks, num_wanted - 1)[:num_wanted]
        array, ranks = array[nearest], ranks[nearest]
    return _as_list(array[np.argsort(ranks)])


def _first_by_keys(candidates: _Candidates, num_wanted: int) -> list[int]:
    """Return the first values by any list of keys."""
    values, _, counts, _, chosen, order = candidates
    numbers = np.flatnonzero(_listed(candidates))
    is_selected = np.zeros(len(counts), np.int64)
    is_selected[list(chosen)] = 1
    columns: dict[str, Callable[[], NDArray[np.int64]]] = {
        "selected": lambda: is_selected[numbers],
        "count": lambda: counts[numbers],
        "key": lambda: values.ranks(order.collation)[numbers].astype(np.int64),
    }
    directions: dict[str, bool] = {}
    for name, is_descending in (*order.keys, ("key", False)):
        directions.setdefault(name, is_descending)
    # One integer has all keys, the first of them highest, so that the first few can be picked.
    sort_keys = np.zeros(len(numbers), np.int64)
    for name, is_descending in directions.items():
        bits = _KEY_BITS[name]
        column = columns[name]()
        sort_keys = sort_keys << bits | ((1 << bits) - 1 - column if is_descending else column)
    if num_wanted < len(numbers):
        picked = np.argpartition(sort_keys, num_wanted)[:num_wanted]
        numbers, sort_keys = numbers[picked], sort_keys[picked]
    return _as_list(numbers[np.argsort(sort_keys)])


def listed_buckets(
    spec: FacetSpec,
    parameters: SearchParameters,
    values: FacetValues,
    counts: MergedCounts,
    accepts: NDArray[np.bool_] | None,
) -> list[Bucket]:
    """Return the buckets to list, of those that may be."""
    settings = spec.configuration
    return page_of_buckets(
        values,
        counts,
        parameters.selected.get(settings.field, NONE_SELECTED),
        spec.order,
        spec.offset,
        settings.size,
        accepts,
    )


def next_buckets(
    reader: CountsReader,
    values: FacetValues,
    selected: frozenset[str],
    order: BucketOrder,
    offset: int,
    limit: int,
) -> list[Bucket] | None:
    """Return one page of the next facet's buckets, if they are those with the greatest counts.

    The arguments are those of `page_of_buckets`.

    Returns:
        None if it takes more to know (selected values, values without a count, another order): then
        the facet is still the reader's next.
    """
    num_wanted = offset + limit
    if selected or not order.is_by_count or not num_wanted or not len(values):
        return None
    at_hand = _order_at_hand(values, order.collation)
    greatest = reader.next_greatest(values, at_hand, num_wanted)
    if greatest is None:
        return None
    numbers, counts = greatest
    if offset:
        numbers, counts = numbers[offset:], counts[offset:]
    return list(map(Bucket, values.texts_of(numbers), counts, repeat(False)))
