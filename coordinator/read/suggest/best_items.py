"""The best items of a search, and what its responses say about all others.

`coordinator.read.suggest.beginnings` derives the best items of longer beginnings from these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from coordinator.read.suggest.beginnings import BestItems

if TYPE_CHECKING:
    from coordinator.read.merge import Hit
    from coordinator.read.scatter import SearchOutcome


def best_items(outcome: SearchOutcome, hits: Sequence[Hit], items: list[bytes]) -> BestItems:
    """Return the items of a first page, and what the shards' hits say about others.

    Args:
        outcome: the shards' responses.
        hits: of the page.
        items: of these hits.
    """
    if outcome.scored.num_words_cut:
        return BestItems(items)
    num_sent = [len(answer.places) >> 3 for _, answer in outcome.answers]
    return BestItems(
        items,
        are_all=sum(num_sent) == len(hits) and max(num_sent, default=0) < outcome.request.num_hits,
        num_by_value=_num_by_value(outcome, hits),
        has_made_up_scores=outcome.scored.has_made_up_weights,
    )


def _num_by_value(outcome: SearchOutcome, hits: Sequence[Hit]) -> int:
    """Return how many of the first hits of a page are ordered by the sort key alone.

    These have numbers, each different from that of the next hit, which may be after the page.
    """
    if len(outcome.request.sort) != 1:
        return 0
    values = [hit.sort_values[0] for hit in hits]
    count = 0
    for value, following in pairwise(values):
        if not isinstance(value, int | float) or value == following:
            return count
        count += 1
    if hits and isinstance(values[-1], int | float) and not _may_tie(outcome, hits):
        count += 1
    return count


def _may_tie(outcome: SearchOutcome, hits: Sequence[Hit]) -> bool:
    """Return whether a hit after the page may have the value of the last one."""
    last = hits[-1].sort_values[0]
    num_shown = Counter([hit.shard for hit in hits])
    for shard, answer in outcome.answers:
        (column,) = answer.sort_values
        if num_shown[shard] < len(column):
            if column[num_shown[shard]] == last:
                return True
        elif len(column) == outcome.request.num_hits and column[-1] == last:
            return True  # the next one was not sent
    return False
