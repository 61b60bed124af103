"""What the hits of a first page tell about all others."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import Mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from common.protocol.messages import SearchResponse, SortKey
from coordinator.read.hit_merging import merge_hits
from coordinator.read.suggest.prefix_narrowing import BestItems
from coordinator.read.suggested_items import best_items

SORT = (SortKey("sold", True),)


def response(values: Sequence[int | None], places: Sequence[int], num: int) -> SearchResponse:
    """The best `num` hits of a shard that has hits with these values and places."""
    order = sorted(
        range(len(values)),
        key=lambda i: (values[i] is None, -(values[i] or 0), places[i]),
    )[:num]
    return SearchResponse(
        len(values),
        np.array([places[i] for i in order], np.uint64).tobytes(),
        np.ones(len(order)).tobytes(),
        np.array(order, np.uint64).tobytes(),
        (tuple([values[i] for i in order]),),
        (),
        (),
        (),
        (),
        (0, 0, 0),
    )


@given(
    st.lists(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=6), min_size=1, max_size=3),
    st.integers(1, 4),
)
def test_popularity_decides_only_where_no_hit_has_the_same(
    shards: list[list[int | None]], size: int
) -> None:
    places = iter(range(100))
    answers = [
        (shard, response(values, [next(places) for _ in values], size))
        for shard, values in enumerate(shards)
    ]
    hits = merge_hits(answers, SORT, False, 0, size, None)
    outcome = Mock(answers=answers)
    outcome.scored.num_words_cut = 0
    outcome.request.num_hits, outcome.request.sort = size, SORT

    best = best_items(outcome, hits, [b"{}"] * len(hits))

    everything = [value for values in shards for value in values]
    page = [hit.sort_values[0] for hit in hits]
    if best.are_all:
        assert len(everything) == len(hits)
    decided = page[: best.num_by_value]
    assert None not in decided
    assert all(everything.count(value) == 1 for value in decided)
    if best.num_by_value < len(page) - 1:
        undecided = page[best.num_by_value]
        assert undecided is None or everything.count(undecided) > 1
    elif best.num_by_value < len(page):
        # It may not be known if the last one shown is the last that its shard has sent.
        last = hits[-1]
        may_tie = sum(hit.shard == last.shard for hit in hits) == size
        assert page[-1] is None or everything.count(page[-1]) > 1 or may_tie


def test_a_text_that_was_cut_tells_nothing() -> None:
    outcome = Mock(answers=[(0, response([1], [1], 5))])
    outcome.request.num_hits, outcome.request.sort = 5, SORT
    outcome.scored.num_words_cut = 1
    hits = merge_hits(outcome.answers, SORT, False, 0, 5, None)

    assert best_items(outcome, hits, [b"{}"]) == BestItems([b"{}"])
