"""The groups of the hits of a page: their sizes and best items, over all shards (pure)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from common.protocol.messages import SearchResponse
from common.value_kinds_and_facet_keys import NO_TOKEN
from coordinator.read.hit_merging import Hit
from coordinator.read.hit_rendering import add_group


def tokens_of(hits: Sequence[Hit]) -> list[int]:
    """Return the tokens of the groups of hits, ascending; pinned hits are in none."""
    return sorted({hit.token for hit in hits if hit.pin is None} - {NO_TOKEN})


def with_groups(
    items: Sequence[bytes],
    hits: Sequence[Hit],
    tokens: Sequence[int],
    answers: Sequence[SearchResponse],
    members: Sequence[tuple[Hit, bytes]] | None,
) -> list[bytes]:
    """Return the items of a page with the sizes of their groups, and the groups' best hits.

    Args:
        items: the JSON of each hit.
        hits: of the page.
        tokens: of their groups.
        answers: of the shards, to the request for these groups.
        members: the best hits of these groups, best first; None if they are not wanted.
    """
    sizes = np.zeros(len(tokens), np.int64)
    for answer in answers:
        assert answer.distinct is not None, "a response without groups"
        sizes += np.frombuffer(answer.distinct.sizes, np.int64)
    size_of = dict(zip(tokens, sizes.tolist(), strict=True))
    members_of: dict[int, list[bytes]] = {}
    for hit, item in members or ():
        members_of.setdefault(hit.token, []).append(item)
    found = []
    for item, hit in zip(items, hits, strict=True):
        if hit.pin is not None:
            found.append(item)
            continue
        # A hit without a value forms a separate group.
        size = size_of.get(hit.token, 1)
        listed = None if members is None else members_of.get(hit.token, [item])
        found.append(add_group(item, size, listed))
    return found
