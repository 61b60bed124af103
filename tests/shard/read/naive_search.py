"""What a naive search of every live item finds, and items to search."""

from __future__ import annotations

import functools

import numpy as np
from hypothesis import strategies as st

from common.protocol.messages import (
    FilterClause,
    SearchRequest,
    SearchResponse,
)
from common.query_syntax_tree import AnyOf
from tests.common.protocol.packed_model import unpack
from tests.shard.columns_model import FACETS, Item, World
from tests.shard.query.filters.test_filters import conditions, keys, passes

clauses = st.lists(
    st.builds(
        FilterClause,
        conditions | st.builds(AnyOf, st.sampled_from(FACETS), st.lists(keys).map(tuple)),
        st.none() | st.sampled_from((*FACETS, "year")),
    ),
    max_size=4,
).map(tuple)


def surviving(world: World, asked: SearchRequest, without: str | None) -> list[Item]:
    """Items that pass all clauses but those marked with a facet."""
    return [
        item
        for _, _, item in world.live
        if all(
            passes(item, clause.filter)
            for clause in asked.filters
            if without is None or clause.facet != without
        )
    ]


def decode(world: World, found: SearchResponse) -> list[tuple[dict[str, int], set[str] | None]]:
    """Return by facet the counts by key, and the keys that are live if that was sent."""
    facets = []
    unpacked = unpack(found.facet_counts, len(found.facets))
    for facet, counts in zip(found.facets, unpacked, strict=True):
        dictionary = world.snapshot.dictionaries[facet.field]
        assert facet.epoch == dictionary.epoch
        assert facet.num_values == len(dictionary)
        names = dictionary.values()
        live = None
        if facet.live is not None:
            bits = np.unpackbits(np.frombuffer(facet.live, np.uint8), bitorder="little")
            live = {names[number] for number in np.flatnonzero(bits).tolist()}
        facets.append(({names[number]: count for number, count in counts.items()}, live))
    return facets


@functools.cache
def large_world() -> World:
    rng = np.random.default_rng(2)
    rows: list[Item] = [
        {
            "id": number,
            "brand": f"b{brand}",
            "tags": [f"t{tag}" for tag in set(tags)],
            "few": int(few),
            "unique": f"u{number}",
        }
        for number, (brand, tags, few) in enumerate(
            zip(
                rng.integers(0, 300, 20_000).tolist(),
                rng.integers(0, 50, (20_000, 3)).tolist(),
                rng.integers(0, 4, 20_000).tolist(),
                strict=True,
            )
        )
    ]
    return World(
        rows,
        cuts=[14_000, 19_990],
        deleted=frozenset(range(7, 20_000, 53)),
        facets=("brand", "tags", "few", "unique"),
    )
