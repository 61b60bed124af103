"""What is cached of complete answers, and of those that lack a shard."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from common.deadline import Deadline
from common.index_configuration_parser import parse_configuration
from common.limits import Limits
from common.protocol.messages import StatisticsResponse
from common.query_syntax_tree import NUM_MATCH_KINDS, Word
from coordinator.catalog.catalog import Index
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.cache_budget_across_indexes import CacheBudget
from coordinator.parameters.request_parsing import parse_search
from coordinator.read.cursor import Cursor
from coordinator.read.facets.facet_cache import FacetCache, FacetTotals
from coordinator.read.facets.facet_count_plan import plan_facets
from coordinator.read.facets.summed_counts import MergedCounts
from coordinator.read.scatter import num_before
from coordinator.read.text import text_statistics_cache
from coordinator.read.text.query_parser import ParsedQuery
from coordinator.read.text.text_statistics_cache import StatisticsCache

CONFIGURATION, _ = parse_configuration({"aggregations": {"tags": {}}}, Limits())
INDEX = Index(1, "films", 1, {}, CONFIGURATION)


def a_cluster(failed: list[int]) -> Cluster:
    return cast(Cluster, SimpleNamespace(num_shards=2, failed_shards=lambda: failed))


def part(num_docs: int, num_words: int) -> StatisticsResponse:
    return StatisticsResponse(num_docs, (), ((1, *[0] * (NUM_MATCH_KINDS - 1)),) * num_words, ())


async def test_statistics_without_a_shard_that_went_away_are_not_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found by the simulation: later whole answers ignored words that only that shard had."""
    answers: list[list[Any]] = [[part(5, 1), None], [part(5, 1), None], [part(5, 1), part(7, 1)]]
    asked = []

    async def gather(cluster: Any, method: Any, request: Any, *others: Any, **flags: Any) -> Any:
        asked.append(request.words)
        return answers.pop(0)

    monkeypatch.setattr(text_statistics_cache, "gather_partial", gather)
    memory = StatisticsCache(a_cluster(failed=[]), CacheBudget())
    sea = Word("sea")

    query = ParsedQuery((sea,), (1,), (), "all", 1)
    partial = await memory.of_query(INDEX, query, 3, Deadline.after_ms(1_000), is_partial=True)
    whole = await memory.of_query(INDEX, query, 3, Deadline.after_ms(1_000), is_partial=False)

    assert (partial.num_docs, whole.num_docs) == (5, 12)
    assert whole.doc_freqs[sea][0] == 2
    assert asked == [(sea,)] * 3


@pytest.mark.parametrize("partial", ["fail", "allow"])
def test_totals_of_all_shards_do_not_serve_as_counts_of_some(partial: str) -> None:
    """Found by the simulation: total and hits were those of one shard, counts those of both."""
    memory = FacetCache(a_cluster(failed=[]), CacheBudget())
    nothing = np.zeros(0, np.int64)
    memory.remember(
        "tags", FacetTotals(3, cast(MergedCounts, SimpleNamespace(counts=nothing)), 1 << 40)
    )
    parameters = parse_search({"partial": partial}, CONFIGURATION, Limits())

    plan = plan_facets(parameters, memory, 3, is_total=True)

    assert bool(plan.known) == (partial == "fail")
    assert [request.field for request in plan.requests] == ["tags"] * (partial == "allow")


@pytest.mark.parametrize("partial", ["fail", "allow"])
def test_hits_of_earlier_pages_are_not_counted_on_if_some_may_lack_a_shard(partial: str) -> None:
    """A shard that is back has more hits before the cursor than were seen."""
    parameters = parse_search({"partial": partial}, CONFIGURATION, Limits())
    cursor = Cursor(revision=1, horizon=3, hit=(0, 7), place=(None, 9), num_seen=20)
    assert num_before(cursor, parameters) == (20 if partial == "fail" else 0)
    assert num_before(None, parameters) == 0
