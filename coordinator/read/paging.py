"""The hits of one page, out of those that the shards found.

A page is a number of hits after an offset, or after the hit of a cursor. Each shard is asked for
its likely share of them (`num_asked`); if that was too little, all are asked again for as
many as the page has. Pinned hits take their slots, the others fill the page around them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec
import numpy as np

from common.protocol.messages import FetchRequest, SearchResponse, TermsRequest
from common.protocol.methods import FETCH
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.fan_out import call_all
from coordinator.cluster.searched_state import SearchedState
from coordinator.cluster.shard_responses import ShardResponses
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.cursor import Cursor, search_hash
from coordinator.read.hit_merging import (
    Hit,
    bucket_height,
    is_slow_to_order,
    lacks_hits,
    merge_hits,
    num_asked,
)
from coordinator.read.pinned_hits import NOTHING_PINNED, pinned_on_page
from coordinator.read.scatter import Retrieval, Scatter, SearchOutcome

MERGED_FAST_MAX: Final = 100
"""Hits that any number of shards may each send, to be merged at once."""
SORTED_FAST_MAX: Final = 10_000
SCORED_FAST_MAX: Final = 50_000
"""So many hits of all shards are merged in 2 to 4 ms, by sort keys or by score alone; more, for
deep pages, take a thread."""


class FoundPage(NamedTuple):
    """What the shards found for a page.

    Attributes:
        outcome: their responses.
        hits: of the page, best first.
    """

    outcome: SearchOutcome
    hits: list[Hit]


class Paging:
    """Finds the hits of pages.

    Args:
        cluster: the shards.
        scatter: sends them searches.
    """

    def __init__(self, cluster: Cluster, scatter: Scatter) -> None:
        self._cluster = cluster
        self._scatter = scatter

    async def find(
        self,
        parameters: SearchParameters,
        state: SearchedState,
        cursor: Cursor | None,
        *,
        may_be_inline: bool = True,
        terms: TermsRequest | None = None,
    ) -> FoundPage:
        """Ask the shards for the hits of a page and merge them.

        Args:
            parameters: of the search.
            state: the state to search.
            cursor: with its sort values (`continued`); None: the page counts from the first hit.
            may_be_inline: whether shards may send stored items along with the hits.
            terms: words that the shards list along with the search.

        Raises:
            As `Scatter.search`.
        """
        if parameters.sort and [key for key in parameters.sort if key.num_buckets]:
            parameters = await self._with_buckets(parameters, state)
        offset, limit = parameters.offset if cursor is None else 0, parameters.per_page
        if cursor is not None and parameters.distinct is not None:
            # Which hits remain depends on those of earlier pages, so these are inspected again.
            offset = cursor.num_seen
        num_hits = num_first = offset + limit if limit else 0
        if cursor is None and parameters.distinct is None:
            num_first = num_asked(num_hits, self._cluster.num_shards)
        num_before = offset if cursor is None else cursor.num_seen
        while True:
            retrieval = Retrieval(num_first, cursor, may_be_inline, terms=terms)
            outcome = await self._scatter.search(parameters, state, retrieval)
            are_all_sent = num_first == num_hits
            merged = outcome, parameters, offset, num_before, are_all_sent
            may_be_slow = num_first > MERGED_FAST_MAX or parameters.is_collated
            if may_be_slow and _is_slow_to_merge(outcome.answers, parameters):
                hits = await asyncio.to_thread(_hits_of_page, *merged)
            else:
                hits = _hits_of_page(*merged)
            if hits is not None:
                return FoundPage(outcome, hits)
            num_first = num_hits

    async def _with_buckets(
        self, parameters: SearchParameters, state: SearchedState
    ) -> SearchParameters:
        """Return the search with the height of its score buckets filled in.

        The top bucket ends at the best score of all hits, so a first round trip fetches that.
        """
        alone = msgspec.structs.replace(
            parameters.without_additions(), sort=(), distinct=None, pins=()
        )
        outcome = await self._scatter.search(alone, state, Retrieval(num_hits=1))
        best = max([max(map(_best_score, [one for _, one in outcome.answers]), default=0.0), 0.0])
        return msgspec.structs.replace(
            parameters,
            sort=tuple(
                msgspec.structs.replace(key, bucket_height=bucket_height(best, key.num_buckets))
                if key.num_buckets
                else key
                for key in parameters.sort
            ),
        )

    async def continued(
        self, parameters: SearchParameters, state: SearchedState, cursor: Cursor
    ) -> Cursor:
        """Return a cursor with its hit's sort values; fetch them if they were left out."""
        if cursor.sort_values is not None or not cursor.has_hit:
            return cursor
        shard, record = cursor.hit
        request = FetchRequest(
            state.index.number,
            state.horizon,
            state.index.revision,
            np.array([record], np.uint64).tobytes(),
            sort=parameters.sort,
        )
        (response,) = await call_all(
            self._cluster, FETCH, [(shard, request)], state.deadline.remaining_ms
        )
        return replace(
            cursor,
            sort_values=tuple(column[0] if column else None for column in response.sort_values),
        )


def _is_slow_to_merge(answers: ShardResponses, parameters: SearchParameters) -> bool:
    """Return whether merging takes milliseconds: of many hits, or of long texts to be collated."""
    is_sorted = bool(parameters.sort) or parameters.distinct is not None
    num_fast_max = SORTED_FAST_MAX if is_sorted else SCORED_FAST_MAX
    num_hits = 0
    for _, answer in answers:
        num_hits += len(answer.places) >> 3
    return num_hits > num_fast_max or is_slow_to_order(answers, parameters.sort)


def _hits_of_page(
    outcome: SearchOutcome,
    parameters: SearchParameters,
    offset: int,
    num_before: int,
    are_all_sent: bool,
) -> list[Hit] | None:
    """Return a page of the shards' hits; None if it may lack hits that they did not send.

    Args:
        outcome: the shards' responses.
        parameters: of the search.
        offset: hits of the responses that precede the page.
        num_before: hits of all earlier pages.
        are_all_sent: whether the shards have sent as many hits as the page may take of each.
    """
    answers, limit, pinned = outcome.answers, parameters.per_page, NOTHING_PINNED
    if parameters.pins:
        pinned = pinned_on_page(answers, outcome.total, parameters.pins, num_before, limit)
        limit -= len(pinned.hits)
    sort, is_place_descending = parameters.sort, parameters.is_place_descending
    first = max(offset - pinned.num_before, 0)
    others = merge_hits(answers, sort, is_place_descending, first, limit, parameters.distinct)
    if not are_all_sent and lacks_hits(answers, others, sort, is_place_descending, limit):
        return None
    return pinned.among(others) if pinned.hits else others


def next_cursor(
    index: int, cursor: Cursor, parameters: SearchParameters, hits: Sequence[Hit]
) -> str | None:
    """Return the cursor after the last hit, or None if the page was not full.

    Args:
        index: number of the index.
        cursor: of this page.
        parameters: of the search, as requested.
        hits: of this page.
    """
    if not hits or len(hits) < parameters.per_page:
        return None
    cursor = replace(
        cursor,
        search=search_hash(index, parameters),
        num_seen=cursor.num_seen + len(hits),
    )
    if others := [hit for hit in hits if hit.pin is None]:
        last = others[-1]
        cursor = replace(
            cursor,
            hit=(last.shard, last.record),
            place=(last.score, last.place),
            sort_values=last.sort_values,
        )
    return cursor.encode()


def _best_score(answer: SearchResponse) -> float:
    """Return the score of a shard's best hit, 0 if it has none."""
    return memoryview(answer.scores).cast("d")[0] if answer.scores else 0.0
