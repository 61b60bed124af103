"""Groups that several shards have count once."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.protocol.messages import FacetRequest, GroupPairs
from coordinator.read.facets import group_counts_by_facet_value
from coordinator.read.facets.global_ordinals import Numbering
from coordinator.read.facets.group_counts_by_facet_value import count_groups

NUM_VALUES = 4
NUMBERS = np.array([[0, 1, 2, 3], [2, 0, 3, 1], [3, 2, 1, 0]], np.uint32)
"""By shard: the coordinator's number of each of its values."""

pairs_of_shards = st.lists(
    st.sets(st.tuples(st.integers(0, NUM_VALUES), st.integers(1, 9))), min_size=1, max_size=3
)


def sent(shard: int, pairs: set[tuple[int, int]]) -> GroupPairs:
    """Return what a shard says of pairs (the coordinator's number + 1 or 0, token)."""
    codes = np.argsort(NUMBERS[shard]) + 1
    tokens = sorted({token for _, token in pairs})
    return GroupPairs(
        np.array([codes[code - 1] if code else 0 for code, _ in pairs], np.uint32).tobytes(),
        np.array([tokens.index(token) for _, token in pairs], np.uint32).tobytes(),
        np.array(tokens, np.uint64).tobytes(),
    )


@pytest.mark.parametrize("marks_per_pair", [0, 2_048])
@given(facets=st.lists(pairs_of_shards, min_size=1, max_size=3), repeats=st.booleans())
def test_a_pair_of_several_shards_counts_once(
    marks_per_pair: int, facets: list[list[set[tuple[int, int]]]], repeats: bool
) -> None:
    num_shards = min(map(len, facets))
    facets = [*facets, facets[-1]] if repeats else facets
    answers: Any = [
        (shard, SimpleNamespace(facet_groups=[sent(shard, one[shard]) for one in facets]))
        for shard in range(num_shards)
    ]
    requests = [FacetRequest(f"f{n}", False, 0) for n in range(len(facets))]
    cache: Any = SimpleNamespace(values=lambda _: range(NUM_VALUES))
    numberings = [Numbering(NUMBERS, np.zeros(3, np.bool_))] * len(facets)
    with mock.patch.object(group_counts_by_facet_value, "_MARKS_PER_PAIR", marks_per_pair):
        found = count_groups(requests, cache, answers, numberings)
    for one, counts in zip(facets, found, strict=True):
        expected = Counter(code for code, _ in set().union(*one[:num_shards]))
        assert [counts.num_missing, *counts.counts.tolist()] == [
            expected[code] for code in range(NUM_VALUES + 1)
        ]
