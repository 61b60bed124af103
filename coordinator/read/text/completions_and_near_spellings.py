"""Words of the index near a text, by the number of items that have them, over all shards.

Every shard sends its most frequent candidates and a bound for those it leaves out. Then:

    1  the best `size` of the words that every shard has sent are the result if the last of them has
       more items than any other word can have, by the counts and bounds of the shards
    2  otherwise the candidates of all shards are counted on every shard that left something out,
       and the best of the sums are the result if the last exceeds the sum of all bounds
    3  otherwise ask for eight times as many, up to `NUM_TERMS_MAX`

So counts are exact for any number of shards, and so is the order if the most frequent words decide
it; it usually takes one short round trip. (Fagin, Lotem, Naor: Optimal aggregation algorithms for
middleware, JCSS 2003, bound unseen words like this.) Only among words that are all rare, such as
codes of one item each, a word beyond the first `NUM_TERMS_MAX` of every shard can be missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from common.deadline import Deadline
from common.protocol.messages import TermsRequest, TermsResponse
from common.protocol.methods import TERMS
from common.query_syntax_tree import Filter
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.fan_out import gather, gather_each
from coordinator.cluster.searched_state import SearchedState

NUM_TERMS_MIN: Final = 32
"""Minimum number of candidates to request from every shard at first."""
NUM_COUNTED_MIN: Final = 16
"""The same where candidates are counted one by one: next to other words, or under filters."""
NUM_TERMS_MAX: Final = 256
"""Maximum number of candidates to request, unless more words are wanted."""
_MORE: Final = 8


class NearTerm(Struct, frozen=True):
    """A word of the index."""

    text: str
    """Folded."""
    count: int
    """Items that have it, among those that count."""
    distance: int
    """Edits between it, or its beginning, and the text."""


class FoundTerms(Struct, frozen=True):
    """Words near a text, the nearest first, then those of most items, then by text."""

    terms: list[NearTerm]
    """At least those that were wanted, if there are as many."""
    are_all: bool
    """Whether there are no others."""


class Scope(Struct, frozen=True):
    """Which items count: those of a state that pass the filters."""

    state: SearchedState
    filters: tuple[Filter, ...]

    def request(self) -> TermsRequest:
        """Return a request without words yet."""
        index, horizon = self.state.index, self.state.horizon
        return TermsRequest(index.number, horizon, index.revision, filters=self.filters)


class NearTerms:
    """Requests words from the shards.

    Args:
        cluster: the shards. All must answer: counts are of the whole index.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def find(
        self,
        scope: Scope,
        request: TermsRequest,
        size: int,
        parts: Sequence[TermsResponse] | None = None,
    ) -> FoundTerms:
        """Return the best words near a text.

        Args:
            scope: the items that count.
            request: as `first_request` makes it.
            size: how many words are wanted.
            parts: what the shards have answered to it; None: it has not been sent.

        Raises:
            Unavailable: a shard is down or late.
        """
        while True:
            if parts is None:
                parts = await gather(self._cluster, TERMS, request, scope.state.deadline)
            certain = best_of_parts(parts, size)
            if certain is not None:
                return certain
            bound = sum(part.bound for part in parts)
            found = await self._added_up(request, parts, scope.state.deadline)
            is_certain = len(found) >= size and found[size - 1].count > bound
            if bound == 0 or is_certain or request.num_terms >= NUM_TERMS_MAX:
                return FoundTerms(found, are_all=bound == 0)
            num_terms = min(_MORE * request.num_terms, NUM_TERMS_MAX)
            request, parts = msgspec.structs.replace(request, num_terms=num_terms), None

    async def count(
        self, scope: Scope, sets: Sequence[tuple[str, ...]], *, words: Sequence[str] = ()
    ) -> list[int]:
        """Return, by set of words, how many items have all of them; none of the sets is empty."""
        if not sets:
            return []
        request = msgspec.structs.replace(scope.request(), words=tuple(words), counted=tuple(sets))
        parts = await gather(self._cluster, TERMS, request, scope.state.deadline)
        return [sum(counts) for counts in zip(*[part.counts for part in parts], strict=True)]

    async def _added_up(
        self, request: TermsRequest, parts: Sequence[TermsResponse], deadline: Deadline
    ) -> list[NearTerm]:
        """Return the candidates of all shards with their counts over all shards, in order."""
        distances: dict[str, int] = {}
        for part in parts:
            distances.update(zip(part.terms, part.distances, strict=True))
        counts = dict.fromkeys(distances, 0)
        requests: list[TermsRequest | None] = []
        for part in parts:
            counted = None
            if part.bound and len(part.terms) < len(distances):
                sets = tuple([(text,) for text in distances])
                counted = msgspec.structs.replace(request, counted=sets)
            else:
                for text, count in zip(part.terms, part.counts, strict=True):
                    counts[text] += count
            requests.append(counted)
        if any(requests):
            answers = await gather_each(self._cluster, TERMS, requests, deadline, is_partial=False)
            for answer in answers:
                if answer is not None:
                    for text, count in zip(distances, answer.counts, strict=True):
                        counts[text] += count
        found = [NearTerm(text, count, distances[text]) for text, count in counts.items()]
        return sorted(found, key=_order)


def first_request(
    scope: Scope,
    text: str,
    size: int,
    *,
    words: Sequence[str] = (),
    is_prefix: bool = False,
    typos: int = 0,
) -> TermsRequest:
    """Return what `NearTerms.find` asks every shard at first.

    Args:
        scope: the items that count.
        text: folded; not empty.
        size: how many words are wanted.
        words: items count only if they have all of these, too.
        is_prefix: whether words that begin with the text are wanted.
        typos: edits allowed.
    """
    is_narrowed = bool(words or scope.filters)
    return msgspec.structs.replace(
        scope.request(),
        text=text,
        is_prefix=is_prefix,
        typos=typos,
        words=tuple(words),
        num_terms=max(NUM_COUNTED_MIN if is_narrowed else NUM_TERMS_MIN, 2 * size),
    )


def best_of_parts(parts: Sequence[TermsResponse], size: int) -> FoundTerms | None:
    """Return the best words, if the shards' counts and bounds decide which they are; else None.

    Args:
        parts: of all shards.
        size: how many words are wanted.
    """
    found: dict[str, list[int]] = {}
    for part in parts:
        for text, count, distance in zip(part.terms, part.counts, part.distances, strict=True):
            sums = found.setdefault(text, [distance, 0, 0])
            sums[1] += count
            sums[2] += part.bound
    bound = sum(part.bound for part in parts)
    # A shard that has not sent a word has at most its bound of it.
    known = [
        NearTerm(text, count, distance)
        for text, (distance, count, own) in found.items()
        if own == bound
    ]
    most = max([count + bound - own for _, count, own in found.values() if own < bound], default=0)
    best = sorted(known, key=_order)
    if bound == 0:
        return FoundTerms(best, are_all=True)
    if len(best) >= size and best[size - 1].count > max(most, bound):
        return FoundTerms(best[:size], are_all=False)
    return None


def _order(term: NearTerm) -> tuple[int, int, str]:
    return term.distance, -term.count, term.text
