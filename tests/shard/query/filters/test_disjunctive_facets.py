"""Matches without the clauses of one facet, for any number of facets."""

from __future__ import annotations

import random

import numpy as np
import pytest

from shard.query.filters.disjunctive_facets import leave_out_each, narrow_each
from shard.segment.doc_sets import bitset_of
from tests.shard.columns_model import World


@pytest.mark.parametrize("num_groups", [1, 2, 3, 64, 65, 130])
def test_each_facet_is_narrowed_by_all_others(num_groups: int) -> None:
    rng = random.Random(num_groups)
    num_docs = 200
    view = World([{"id": i} for i in range(num_docs)]).snapshot.views[0]
    docs = sorted(rng.sample(range(num_docs), 150))
    # Most documents fail no group, or one of them.
    failing = {doc: set(rng.sample(range(num_groups), min(rng.choice((0, 1, 1, 2)), num_groups)))
               for doc in range(num_docs)}  # fmt: skip
    groups = {
        f"f{i}": bitset_of(
            np.array([doc for doc in range(num_docs) if i not in failing[doc]], np.uint32), num_docs
        )
        for i in range(num_groups)
    }
    expected = {f"f{i}": [doc for doc in docs if failing[doc] <= {i}] for i in range(num_groups)}

    listed = np.array(docs, np.uint32)
    without = leave_out_each(view, listed, groups)
    _, by_bitsets = narrow_each(view, bitset_of(listed, num_docs), groups)

    assert {facet: part.docs.tolist() for facet, part in without.items()} == expected
    assert {facet: part.docs.tolist() for facet, part in by_bitsets.items()} == expected
