"""Facets of merged searches: only buckets that may be on the page are made."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.index_configuration_parser import parse_configuration
from common.limits import Limits
from coordinator.parameters.request_parsing import parse_search
from coordinator.read.facets.bucket_selection import Bucket
from coordinator.read.facets.facet_result_types import FacetResult
from coordinator.read.federated_merge import Member, _merged_facets
from coordinator.read.search_results import SearchResult, ShardSummary, Timings

CONFIGURATION, _ = parse_configuration({"aggregations": {"tags": {}}}, Limits())
KEYS = [f"k{number}" for number in range(40)]


def result(counts: dict[str, int], selected: frozenset[str]) -> SearchResult:
    buckets = [Bucket(key, count, key in selected) for key, count in counts.items()]
    return SearchResult(
        page=1,
        per_page=10,
        total=0,
        items=[],
        facets=[FacetResult("tags", "tags", 0, buckets, None, None)],
        ranges=[],
        seq=1,
        ignored_words=[],
        shards=ShardSummary(1, 1),
        timings=Timings(0, 0, 0, 0),
    )


@pytest.mark.parametrize("order", ["selected,count:desc,key", "count:desc,key:desc", "key"])
@given(
    counts=st.lists(st.dictionaries(st.sampled_from(KEYS), st.integers(0, 5)), min_size=1),
    selected=st.frozensets(st.sampled_from(KEYS), max_size=3),
    size=st.integers(0, 12),
    offset=st.integers(0, 3),
)
def test_the_buckets_of_a_page_are_those_of_all(
    order: str, counts: list[dict[str, int]], selected: frozenset[str], size: int, offset: int
) -> None:
    options: dict[str, Any] = {"size": size, "offset": offset, "sort": order.split(",")}
    parameters = parse_search({"facets": {"tags": options}}, CONFIGURATION, Limits())
    members = [Member("films", 1.0, parameters)] * len(counts)

    (merged,) = _merged_facets(members, [result(one, selected) for one in counts])

    sums = Counter[str]()
    for one in counts:
        sums.update(one)
    buckets = [Bucket(key, count, key in selected) for key, count in sums.items()]
    buckets.sort(key=lambda one: one.key, reverse="key:desc" in order)
    if "count" in order:
        buckets.sort(key=lambda one: -one.doc_count)
    if "selected" in order:
        buckets.sort(key=lambda one: not one.is_selected)
    assert merged.buckets == buckets[offset : offset + size]
