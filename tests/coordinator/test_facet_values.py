"""Facet counts of several shards, merged through their numberings, equal a plain Counter."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from common.protocol.messages import FacetCounts
from coordinator.facet_values import BucketOrder, FacetValues, page_of_buckets

KEYS = [f"{a}{b}" for a in "abcdé" for b in "xyz漢"]


def part(
    dictionary: list[str], counts: Counter[str], alive: set[str] | None, is_dense: bool
) -> FacetCounts:
    vector = np.array([counts[key] for key in dictionary], np.uint32)
    numbers = np.flatnonzero(vector).astype(np.uint32)
    bits = np.packbits(
        np.array([key in (alive or ()) for key in dictionary], np.bool_), bitorder="little"
    )
    return FacetCounts(
        field="f",
        epoch=7,
        num_values=len(dictionary),
        numbers=b"" if is_dense else numbers.tobytes(),
        counts=vector.tobytes() if is_dense else vector[numbers].tobytes(),
        alive=None if alive is None else bits.tobytes(),
    )


@given(
    shards=st.lists(
        st.tuples(
            st.permutations(KEYS),
            st.integers(0, len(KEYS)),
            st.lists(st.sampled_from(KEYS), max_size=60),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    ),
    selected=st.frozensets(st.sampled_from([*KEYS, "nowhere"]), max_size=3),
    offset=st.integers(0, 12),
    limit=st.integers(0, 12),
    order=st.sampled_from(
        [
            BucketOrder(),
            BucketOrder(hides_zero=True),
            BucketOrder((("count", True), ("key", False))),
            BucketOrder((("count", True), ("key", False)), hides_zero=True),
            BucketOrder((("key", False),)),
            BucketOrder((("selected", True), ("key", True)), hides_zero=True),
            BucketOrder((("count", False), ("key", True))),
        ]
    ),
)
def test_pages_equal_a_sorted_counter(
    shards: list[tuple[list[str], int, list[str], bool]],
    selected: frozenset[str],
    offset: int,
    limit: int,
    order: BucketOrder,
) -> None:
    values = FacetValues(len(shards))
    parts = []
    total: Counter[str] = Counter()
    alive: set[str] = set()
    for shard, (permutation, length, hits, is_dense) in enumerate(shards):
        dictionary = permutation[:length]
        counts = Counter(key for key in hits if key in dictionary)
        living = set(dictionary[::2]) | set(counts)
        assert values.missing_from(shard, 7, length) == 0
        values.extend(shard, 7, 0, dictionary[: length // 2])
        values.extend(shard, 7, length // 2, dictionary[length // 2 :])
        parts.append((shard, part(dictionary, counts, living, is_dense)))
        total += counts
        alive |= living
    chosen = {key for key in selected if key in alive}
    listed = {key for key in alive if total[key] > 0 or not order.hides_zero} | chosen

    def rank(key: str) -> list[object]:
        columns: list[object] = []
        for name, is_descending in [*order.keys, ("key", False)]:
            if name == "key":
                points = [ord(c) for c in key]
                columns.append([-p for p in points] if is_descending else points)
            else:
                number = total[key] if name == "count" else int(key in chosen)
                columns.append(-number if is_descending else number)
        return columns

    expected = sorted(listed, key=rank)
    buckets, num_buckets = page_of_buckets(
        values, values.merge(parts), selected, order, offset, limit
    )
    assert [b.key for b in buckets] == expected[offset : offset + limit]
    assert [b.doc_count for b in buckets] == [total[b.key] for b in buckets]
    assert [b.is_selected for b in buckets] == [b.key in chosen for b in buckets]
    assert num_buckets == len(expected)


def test_very_many_ties_are_ordered_by_rank() -> None:
    dictionary = [f"{(i * 7919) % 20000:05d}" for i in range(20000)]
    values = FacetValues(1)
    values.extend(0, 7, 0, dictionary)
    counts = Counter(dictionary)
    merged = values.merge([(0, part(dictionary, counts, None, True))])
    buckets, total = page_of_buckets(values, merged, frozenset(), BucketOrder(), 5000, 3)
    assert [b.key for b in buckets] == ["05000", "05001", "05002"]
    assert total == 20000


def test_a_new_epoch_starts_the_map_anew() -> None:
    values = FacetValues(1)
    values.extend(0, 1, 0, ["a", "b"])
    assert values.missing_from(0, 1, 2) is None
    assert values.missing_from(0, 2, 1) == 0
    values.extend(0, 2, 0, ["b"])
    merged = values.merge([(0, part(["b"], Counter({"b": 3}), None, True))])
    buckets, _ = page_of_buckets(values, merged, frozenset(), BucketOrder(), 0, 9)
    assert [(b.key, b.doc_count) for b in buckets] == [("b", 3)]
