"""The best items of a search, and what its responses tell about all others.

`coordinator.read.beginnings` derives the best items of longer beginnings from these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coordinator.read.beginnings import BestItems

if TYPE_CHECKING:
    from coordinator.read.merge import Hit
    from coordinator.read.scatter import SearchOutcome


def best_items(outcome: SearchOutcome, hits: Sequence[Hit], items: list[bytes]) -> BestItems:
    """Return the items of a first page, and what the shards' hits tell about others.

    Args:
        outcome: the shards' responses.
        hits: of the page.
        items: of these hits.
    """
    if outcome.scored.num_words_cut:
        return BestItems(items)
    num_sent = [len(answer.places) >> 3 for _, answer in outcome.answers]
    are_all = sum(num_sent) == len(hits) and max(num_sent, default=0) < outcome.request.num_hits
    is_by_value = (are_all and len(hits) < 2) or _is_by_value(outcome, hits)
    is_doubtful = outcome.scored.has_made_up_weights and not (hits and is_by_value)
    return BestItems(items, are_all=are_all, is_by_value=is_by_value, is_doubtful=is_doubtful)


def _is_by_value(outcome: SearchOutcome, hits: Sequence[Hit]) -> bool:
    """Return whether the values of one sort key decide which hits are on a page, and their order.

    That is so if all are numbers, and no two hits have the same, the first after the page included.
    """
    if len(outcome.request.sort) != 1 or not hits:
        return False
    page = [hit.sort_values[0] for hit in hits]
    others = []
    num_shown = Counter([hit.shard for hit in hits])
    for shard, answer in outcome.answers:
        (column,) = answer.sort_values
        if num_shown[shard] < len(column):
            others.append(column[num_shown[shard]])
        elif len(column) == outcome.request.num_hits and column[-1] == page[-1]:
            return False  # so may be the next one, which was not sent
    if not all(isinstance(value, int | float) for value in (*page, *others)):
        return False
    return len(set(page)) == len(page) and page[-1] not in others
