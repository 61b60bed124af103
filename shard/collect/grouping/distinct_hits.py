"""Distinct hits: the best hits of every value of a field, and their number.

A hit is shown if it is among the best `limit` hits of its value; hits without a value are all
shown. Values are compared with their type (1 is not "1", but 1.0 is 1); an array is the set of its
values.

Every segment numbers the values of the field once (`grouping_keys`), so counting hits by
value is one pass over the numbers of the matches, 2 ns each. The best hits are found in rounds:

    select the best k of what is left ─▶ show those of values that are not full yet
            ▲                                              │
            └── k × 2, without values that are full, ◀─────┘  until enough are shown
                and without what was looked at

A value that is full is left out of the next round, so a field with few values costs no more than
one with many.

A hit that its own shard drops is never shown: it has `limit` better hits of its value there, hence
at least as many overall. So merging each shard's best hits gives the best of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.deadline import check_call
from common.distinct_values import counted_runs, distinct_values
from common.kernels.decorator import kernel
from common.kernels.types import BoolArray, I64Array, U32Array, uint32
from common.protocol.messages import DistinctCounts
from common.value_kinds_and_facet_keys import NO_TOKEN
from shard.caches.lru_cache import COLUMN_CACHE
from shard.collect.top_hits.hits_and_sort_values import Hits
from shard.collect.top_hits.top_k import select_hits
from shard.query.matches import Matches
from shard.segment.columns.code_counting import NO_STARTS, count_codes
from shard.segment.columns.grouping_keys import GroupingKeys, grouping_keys, num_values_max

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import SearchRequest
    from shard.segment.snapshot import Snapshot

_SELECTED_MIN: Final = 64
"""Minimum hits of the first round."""
_FACTOR: Final = 4
"""Hits of the first round per requested hit."""
_GROWTH: Final = 2
"""Growth of the hits from one round to the next."""
_SORTED_FACTOR: Final = 2
"""Values for each match from which sorting the matches' numbers beats a count for every value."""

_NOTHING: Final = np.zeros(0, np.uint32)


@kernel(allocates=False)
def _count_all(numbers: U32Array, counts: U32Array) -> None:
    """Count the documents of a segment by number."""
    for i in range(len(numbers)):
        counts[numbers[i]] += uint32(1)


@kernel(allocates=False)
def _mark_shown(found: U32Array, limit: int, used: I64Array, is_shown: BoolArray) -> None:
    """Mark the hits of values that are not full yet, best first, and count them as used.

    Args:
        found: the number of each hit's value; 0: it has none, and is shown.
        limit: hits that are shown of a value.
        used: by number: hits that are shown already.
        is_shown: written.
    """
    for i in range(len(found)):
        number = found[i]
        is_shown[i] = number == 0 or used[number] < limit
        if is_shown[i]:
            used[number] += 1


class _CommonNumbers(NamedTuple):
    """The values of several segments under common numbers; kept in the cache."""

    numbers: list[NDArray[np.uint32]]
    """By segment: the common number of each of the segment's values."""
    tokens: NDArray[np.uint64]
    """By common number - 1."""


class MatchValues(NamedTuple):
    """The values of all matches of a shard."""

    by_doc: list[NDArray[np.uint32]]
    """By segment, by document: the value's number in the segment, 0 where it has none."""
    numbers: list[NDArray[np.uint32]]
    """By segment: the shard's number of each of the segment's numbers."""
    tokens: NDArray[np.uint64]
    """By the shard's number - 1, ascending: the token of the value, the same on all shards."""

    def of(self, view: int, docs: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the shard's number of the value of each document, 0 where it has none."""
        return self.numbers[view].take(self.by_doc[view].take(docs))

    def tokens_of(self, numbers: NDArray[np.uint32]) -> NDArray[np.uint64]:
        """Return the token of each of some of the shard's numbers; `NO_TOKEN` for 0."""
        found = np.full(len(numbers), NO_TOKEN, np.uint64)
        has_value = numbers > 0
        found[has_value] = self.tokens[numbers[has_value] - np.uint32(1)]
        return found

    def of_hits(self, hits: Hits) -> NDArray[np.uint32]:
        """Return the shard's number of the value of each hit, 0 where it has none."""
        if len(self.by_doc) == 1:
            return self.of(0, hits.docs)
        found = np.zeros(len(hits.docs), np.uint32)
        for view in distinct_values(hits.views).tolist():
            at = hits.views == view
            found[at] = self.of(view, hits.docs[at])
        return found

    def counts(self, matches: Sequence[Matches]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Count the matches by value.

        Returns:
            (the shard's numbers of the values that matches have, ascending, 0 among them if some
            match has none; how many matches have each).
        """
        if sum(part.count for part in matches) * _SORTED_FACTOR < len(self.tokens):
            check_call()
            numbers = np.concatenate([_NOTHING, *self.of_matches(matches)])
            numbers.sort()
            return counted_runs(numbers)
        counts = np.zeros(len(self.tokens) + 1, np.int64)
        for i, part in enumerate(matches):
            check_call()
            if part.count:
                own = np.zeros(len(self.numbers[i]), np.uint32)
                if part.is_everything:
                    _count_all(self.by_doc[i], own)
                else:
                    count_codes(part.docs, self.by_doc[i], NO_STARTS, own)
                counts[self.numbers[i]] += own
        present = np.flatnonzero(counts)
        return present.astype(np.uint32), counts[present]

    def of_matches(self, matches: Sequence[Matches]) -> list[NDArray[np.uint32]]:
        """Return the shard's number of the value of each match, by segment."""
        return [self.of(i, part.docs) if part.count else _NOTHING for i, part in enumerate(matches)]


def select_distinct(
    snapshot: Snapshot, request: SearchRequest, matches: Sequence[Matches]
) -> tuple[Hits, DistinctCounts]:
    """Return the best distinct hits, and the number of hits by value.

    Args:
        snapshot: to search.
        request: with `distinct`, and without `after`.
        matches: by segment of the snapshot.

    Returns:
        (at most `num_hits` hits, best first; the counts, and the token of each hit's value).
    """
    assert request.distinct is not None
    assert request.after is None, "earlier hits decide which ones are left"
    limit = request.distinct.limit
    values = values_of(snapshot, request.distinct.field, matches)
    present, counts = values.counts(matches)
    num_missing = 0
    if len(present) and present[0] == 0:
        num_missing = int(counts[0])
        present, counts = present[1:], counts[1:]
    capped = np.minimum(counts, limit)
    total = num_missing + int(capped.sum())
    tokens = b""
    num_by_token = b""
    if request.wants_distinct_values:
        tokens = values.tokens.take(present - np.uint32(1)).tobytes()
        num_by_token = capped.astype(np.uint8).tobytes()
    num_shown = min(request.num_hits, total)
    hits, numbers = select_best(snapshot, request, list(matches), None, values, num_shown)
    hit_tokens = values.tokens_of(numbers).tobytes()
    return hits, DistinctCounts(total, num_missing, hit_tokens, tokens, num_by_token)


def num_values_at_hand(snapshot: Snapshot, path: str) -> int | None:
    """Return a bound on the values of a field; None if numbering them first takes milliseconds."""
    field = snapshot.registry.number(path)
    if field is None:
        return 0
    total = 0
    for view in snapshot.views:
        num_values = num_values_max(snapshot, view, field)
        if num_values is None:
            return None
        total += num_values
    return total


def values_of(snapshot: Snapshot, path: str, matches: Sequence[Matches]) -> MatchValues:
    """Return the values of a field in the segments that have matches."""
    field = snapshot.registry.number(path)
    by_doc = [_NOTHING] * len(matches)
    numbers = [_NOTHING] * len(matches)
    found: dict[int, GroupingKeys] = {}
    for i, part in enumerate(matches):
        check_call()
        if part.count and field is not None:
            found[i] = grouping_keys(snapshot, part.view, field)
            by_doc[i] = found[i].numbers
        elif part.count:
            by_doc[i] = np.zeros(part.view.segment.num_docs, np.uint32)
            numbers[i] = np.zeros(1, np.uint32)
    if not found:
        return MatchValues(by_doc, numbers, np.zeros(0, np.uint64))
    common = COLUMN_CACHE.get_or_make(
        ("joined", *[groups.serial for groups in found.values()]),
        lambda: _common_numbers([groups.tokens for groups in found.values()]),
        lambda made: made.tokens.nbytes + sum(part.nbytes for part in made.numbers),
        matches[max(found)].view.segment,
    )
    for i, own in zip(found, common.numbers, strict=True):
        numbers[i] = own
    return MatchValues(by_doc, numbers, common.tokens)


def _common_numbers(tokens: Sequence[NDArray[np.uint64]]) -> _CommonNumbers:
    """Number the values of several segments together."""
    all_tokens = tokens[0] if len(tokens) == 1 else distinct_values(np.concatenate(tokens))
    numbers = []
    for part in tokens:
        own = np.zeros(len(part) + 1, np.uint32)
        own[1:] = np.searchsorted(all_tokens, part) + 1
        numbers.append(own)
    return _CommonNumbers(numbers, all_tokens)


def select_best(
    snapshot: Snapshot,
    request: SearchRequest,
    matches: list[Matches],
    by_match: list[NDArray[np.uint32]] | None,
    values: MatchValues,
    num_hits: int,
) -> tuple[Hits, NDArray[np.uint32]]:
    """Return the best `num_hits` distinct hits; there are at least that many.

    Args:
        snapshot: to search.
        request: with `distinct`.
        matches: by segment; the list is changed.
        by_match: the value's number of each match, by segment; the list is changed. None: not
            known; only a second round needs it.
        values: of the matches.
        num_hits: at most as many as there are.

    Returns:
        (hits, best first; the number of each one's value).
    """
    assert request.distinct is not None
    limit = request.distinct.limit
    shown: list[Hits] = []
    shown_numbers: list[NDArray[np.uint32]] = []
    num_shown = 0
    used = np.zeros(len(values.tokens) + 1, np.int64)
    num_selected = max(num_hits * _FACTOR, _SELECTED_MIN)
    while True:
        check_call()
        hits = select_hits(snapshot, matches, request, num_selected if num_hits else 0)
        found = values.of_hits(hits)
        is_shown = np.empty(len(found), np.bool_)
        _mark_shown(found, limit, used, is_shown)
        shown.append(hits.take(np.flatnonzero(is_shown)))
        shown_numbers.append(found[is_shown])
        num_shown += len(shown[-1].docs)
        if num_shown >= num_hits:
            return _concatenated(shown).take(slice(0, num_hits)), np.concatenate(shown_numbers)[
                :num_hits
            ]
        is_full = used >= limit
        is_full[0] = False
        if by_match is None:
            by_match = values.of_matches(matches)
        for view, part in enumerate(matches):
            if not part.count:
                continue
            is_left = ~is_full[by_match[view]]
            is_left[np.searchsorted(part.docs, hits.docs[hits.views == view])] = False
            scores = None if part.scores is None else part.scores[is_left]
            matches[view] = Matches(
                part.view, docs=part.docs[is_left], scores=scores, scorer=part.scorer
            )
            by_match[view] = by_match[view][is_left]
        num_selected *= _GROWTH


def _concatenated(parts: Sequence[Hits]) -> Hits:
    """Return hits of several rounds as one."""
    if len(parts) == 1:
        return parts[0]
    columns: list[Any] = [
        None if column[0] is None else np.concatenate(column) for column in zip(*parts, strict=True)
    ]
    return Hits(*columns)
