"""Stored sets are the sets that were written; pyroaring reads what we store."""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap

from shard.segment.doc_sets import (
    LISTED_AHEAD,
    bitset_of,
    empty_bitset,
    list_docs,
)
from shard.segment.facet_value_sets import (
    LIST_DOCS_MAX,
    StoredSets,
    add_stored_sets,
    bound_stored,
    count_intersections,
    list_stored_set,
    measure_stored,
    write_sets,
)


def test_stored_sets_of_all_sizes_are_roaring_or_lists() -> None:
    num_docs = 200_000
    rng = np.random.default_rng(3)
    sizes = [0, 1, LIST_DOCS_MAX - 1, LIST_DOCS_MAX, 5_000, 60_000, 150_000, num_docs]
    sets = [np.sort(rng.choice(num_docs, size, replace=False)).astype(np.uint32) for size in sizes]
    offsets = np.zeros(len(sets) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    numbers = np.arange(len(sets), dtype=np.uint32)
    counts = np.array(sizes, np.uint32)
    stored = StoredSets(numbers, counts, *write_sets(np.concatenate(sets), offsets))
    set_offsets = stored.set_offsets
    for i, docs in enumerate(sets):
        words = empty_bitset(num_docs)
        add_stored_sets(stored, np.array([i]), words)
        np.testing.assert_array_equal(list_docs(words, num_docs), docs)
        listed = np.empty(len(docs) + LISTED_AHEAD, np.uint32)
        list_stored_set(stored.sets, set_offsets[i], len(docs), listed)
        np.testing.assert_array_equal(listed[: len(docs)], docs)
        if len(docs) >= LIST_DOCS_MAX:
            portable = stored.sets[set_offsets[i] : set_offsets[i + 1]].tobytes()
            assert BitMap.deserialize(portable) == BitMap(docs)
    among = bitset_of(np.arange(0, num_docs, 3, dtype=np.uint32), num_docs)
    totals = np.zeros(len(sets) + 1, np.uint32)
    count_intersections(stored, among, totals)
    assert totals[1:].tolist() == [int((docs % 3 == 0).sum()) for docs in sets]
    num_units, num_listed = measure_stored(stored)
    assert num_units % 4_096 == 0
    assert num_listed < num_docs
    least_units, least_listed = bound_stored(stored, num_docs)
    for doc_ns in (1, 3, 20):
        assert least_units + doc_ns * least_listed <= num_units + doc_ns * num_listed
    assert least_units + least_listed > (num_units + num_listed) / 8
