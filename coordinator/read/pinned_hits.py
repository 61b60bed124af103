"""Pinned hits: the slots that they take, and those of one page (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from common.protocol.messages import Pin
from coordinator.cluster.shard_responses import ShardResponses
from coordinator.read.hit_merging import Hit


class PinnedOnPage(NamedTuple):
    """The pinned hits of one page."""

    num_before: int
    """Number of pinned hits on earlier pages."""
    hits: list[Hit]
    slots: list[int]
    """Position of each on the page, ascending."""

    def among(self, others: list[Hit]) -> list[Hit]:
        """Return the page: the pinned hits in their slots, the others around them."""
        page = list(others)
        for slot, hit in zip(self.slots, self.hits, strict=True):
            page.insert(slot, hit)
        return page


NOTHING_PINNED = PinnedOnPage(0, [], [])


def pinned_on_page(
    answers: ShardResponses,
    total: int,
    pins: Sequence[Pin],
    offset: int,
    limit: int,
) -> PinnedOnPage:
    """Return the pinned hits of a page.

    Args:
        answers: (shard ordinal, response).
        total: hits of all shards, pinned ones included.
        pins: of the search, by position.
        offset: hits on earlier pages.
        limit: hits on a full page.
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
    num_others = total - len(hits)
    places = slots([pins[hit.pin or 0].position for hit in hits], num_others)
    on_page = [i for i, place in enumerate(places) if offset <= place < offset + limit]
    return PinnedOnPage(
        sum([place < offset for place in places]),
        [hits[i] for i in on_page],
        [places[i] - offset for i in on_page],
    )


def slots(positions: Sequence[int], num_others: int) -> list[int]:
    """Return the slots (from 0) of pinned hits among all, given their positions (from 1) in order.

    If an earlier pin has taken a position, the next free one is used. Past the last of the other
    hits there are no gaps.
    """
    taken: list[int] = []
    for number, position in enumerate(positions):
        slot = max(position - 1, taken[-1] + 1 if taken else 0)
        taken.append(min(slot, num_others + number))
    return taken
