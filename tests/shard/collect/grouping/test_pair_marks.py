"""Facets of groups: which values occur with which values of the `distinct` field."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.protocol.messages import Distinct, FacetRequest
from shard.collect.facets.drill_sideways import CountedMatches
from shard.collect.grouping import group_sizes_hits_and_counts, pair_marks
from shard.collect.grouping.group_sizes_hits_and_counts import GroupCounter
from shard.query.matches import Matches
from shard.segment.columns.grouping_keys import grouping_keys
from tests.shard.collect.top_hits.test_top_k import request
from tests.shard.columns_model import Item, World

FACETS = ("color", "tags")
some_items = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "brand": st.sampled_from(["a", "b", "c"]),
            "color": st.sampled_from(["red", "blue"]),
            "tags": st.lists(st.sampled_from(["x", "y", "z"]), max_size=3, unique=True),
        },
    ),
    min_size=1,
    max_size=30,
)


def brands_by_token(world: World) -> dict[int, str]:
    """Return what each token stands for."""
    number = world.snapshot.registry.number("brand")
    assert number is not None
    brands = {}
    first = 0
    for view in world.snapshot.views:
        keys = grouping_keys(world.snapshot, view, number)
        for doc in np.flatnonzero(keys.numbers).tolist():
            brands[int(keys.tokens[keys.numbers[doc] - 1])] = world.live[first + doc][2]["brand"]
        first += view.segment.num_docs
    return brands


@pytest.mark.parametrize("facet", FACETS)
@pytest.mark.parametrize("bits_max", [0, pair_marks.BITS_MAX])
@given(items=some_items, cut=st.integers(1, 30), mask=st.integers(0, 2**30), sends=st.booleans())
def test_pairs_are_those_of_the_matches(
    facet: str, bits_max: int, items: list[Item], cut: int, mask: int, sends: bool
) -> None:
    items = [{"brand": "a", "color": "red", "tags": ["x"]}, *items]
    world = World(items, cuts=[cut] if cut < len(items) else [], facets=FACETS)
    matches = []
    expected = set()
    first = 0
    for view in world.snapshot.views:
        docs = [n for n in range(view.segment.num_docs) if mask >> (first + n) & 1]
        matches.append(Matches(view, docs=np.array(docs, np.uint32)))
        for item in [items[first + doc] for doc in docs if "brand" in items[first + doc]]:
            values = item.get(facet) or [None]
            values = [values] if isinstance(values, str) else values
            expected |= {(value, item["brand"]) for value in values}
        first += view.segment.num_docs
    search = request(distinct=Distinct("brand", counts_groups=True), wants_distinct_values=sends)
    counter = GroupCounter(world.snapshot, search, CountedMatches.of(matches))
    with mock.patch.object(group_sizes_hits_and_counts, "BITS_MAX", bits_max):
        found = counter.pairs(FacetRequest(facet, False, 0, wants_missing=True))
        present = counter.pairs(FacetRequest(facet, False, 0))
    names = {0: None} | {
        number + 1: key.decode()
        for number, key in enumerate(
            world.snapshot.dictionaries[facet].keys(range(world.snapshot.dictionary_lengths[facet]))
        )
    }
    codes = [names[code] for code in np.frombuffer(found.codes, np.uint32).tolist()]
    if sends:
        brands = brands_by_token(world)
        tokens = np.frombuffer(found.tokens, np.uint64)
        assert (tokens[1:] > tokens[:-1]).all()
        groups = tokens[np.frombuffer(found.groups, np.uint32)].tolist()
        pairs = list(zip(codes, map(brands.__getitem__, groups), strict=True))
        assert sorted(pairs, key=str) == sorted(expected, key=str)
        assert len(present.codes) == 4 * len([one for one, _ in expected if one is not None])
    else:
        counts = np.frombuffer(found.counts, np.uint32).tolist()
        assert dict(zip(codes, counts, strict=True)) == Counter(value for value, _ in expected)
        assert sum(np.frombuffer(present.counts, np.uint32).tolist()) == len(
            [one for one, _ in expected if one is not None]
        )
    assert not pair_marks._MARKS.bits.any(), "the next search finds no bit set"
