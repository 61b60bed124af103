"""Second round trips to the shards, which depend on the hits and buckets that a search found.

    hits of a page   ─▶ the sizes and best hits of their groups          (`distinct`, group hits)
    listed buckets   ─▶ statistics of numbers by facet value             (`facets.*.stats`)
    listed buckets   ─▶ joint counts with the bins of a numeric field    (`joint_counts`)

Each is the search's own request, narrowed to these hits or buckets: it has the same hits, whatever
is written meanwhile. Merging the responses is pure: `hit_groups`, `facets`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np

from common.limits import Limits
from common.process.cooperative_scheduler import LoopScheduler
from common.protocol.messages import Distinct, GroupsRequest, SearchRequest, SearchResponse
from coordinator.cluster.all_shards import Cluster
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.facets.facet_result_types import CubeResult, FacetResult
from coordinator.read.facets.joint_counts_with_bins import (
    cube_request,
    cube_result,
    edges_of,
    empty_cube,
)
from coordinator.read.facets.statistics_by_facet_value import statistics_requests, with_statistics
from coordinator.read.hit_groups import tokens_of, with_groups
from coordinator.read.hit_merging import Hit, is_slow_to_order, merge_hits
from coordinator.read.scatter import Scatter, SearchOutcome, answered
from coordinator.read.stored_items import page_items


async def with_group_hits(
    cluster: Cluster,
    scatter: Scatter,
    parameters: SearchParameters,
    outcome: SearchOutcome,
    hits: Sequence[Hit],
    items: list[bytes],
) -> list[bytes]:
    """Return the items of a page, each with the size and the best hits of its group.

    Args:
        cluster: the shards.
        scatter: sends them searches.
        parameters: of the search; it groups hits by distinct values.
        outcome: that the hits are from.
        hits: of the page.
        items: the JSON of each hit.
    """
    assert parameters.distinct is not None
    assert parameters.group_hits is not None
    tokens = tokens_of(hits)
    limit = parameters.group_hits
    num_hits = limit * len(tokens)
    distinct = Distinct(parameters.distinct.field, max(limit, 1))
    answers: list[tuple[int, SearchResponse]] = []
    if tokens:
        request = msgspec.structs.replace(
            outcome.request,
            facets=(),
            ranges=(),
            num_hits=num_hits,
            num_documents=scatter.num_documents(num_hits, parameters),
            distinct=distinct,
            groups=GroupsRequest(np.array(tokens, np.uint64).tobytes()),
        )
        answers = answered(await scatter.send(request, parameters, outcome.state.deadline))
    members = None
    if limit:
        sort = outcome.request.sort
        merge = partial(
            merge_hits, answers, sort, parameters.is_place_descending, 0, num_hits, distinct
        )
        found = await asyncio.to_thread(merge) if is_slow_to_order(answers, sort) else merge()
        inner = msgspec.structs.replace(outcome, answers=answers)
        rendered = await page_items(cluster, parameters, inner, found)
        members = list(zip(found, rendered, strict=True))
    return with_groups(items, hits, tokens, [answer for _, answer in answers], members)


async def with_value_statistics(
    scatter: Scatter,
    scheduler: LoopScheduler,
    parameters: SearchParameters,
    outcome: SearchOutcome,
    facets: list[FacetResult],
) -> list[FacetResult]:
    """Return facets with the requested statistics of numbers by value.

    Args:
        scatter: sends searches to the shards.
        scheduler: lets adding up yield the event loop.
        parameters: of the search.
        outcome: that the facets are from.
        facets: with the buckets that are shown.
    """
    requests = statistics_requests(parameters, facets)
    if not requests:
        return facets
    request = msgspec.structs.replace(
        _without_results(outcome.request), value_statistics=tuple(requests.values())
    )
    answers = answered(await scatter.send(request, parameters, outcome.state.deadline))
    steps = with_statistics(facets, requests, [answer for _, answer in answers])
    return await scheduler.run(outcome.state.index.number, steps)


async def joint_counts(
    scatter: Scatter,
    limits: Limits,
    parameters: SearchParameters,
    outcome: SearchOutcome,
    facets: Sequence[FacetResult],
) -> CubeResult | None:
    """Return the requested joint counts.

    Args:
        scatter: sends searches to the shards.
        limits: in force.
        parameters: of the search.
        outcome: that the facets are from; its first round counted the histogram of the field.
        facets: with the buckets that are shown.
    """
    spec = parameters.cube
    if spec is None:
        return None
    edges = edges_of(spec, outcome.answers, limits)
    if not edges:
        return empty_cube(spec.field)
    search = _without_results(outcome.request)
    request = cube_request(spec, edges, parameters, search, facets, limits)
    assert request.cube is not None
    answers = answered(await scatter.send(request, parameters, outcome.state.deadline))
    return await asyncio.to_thread(
        cube_result, request.cube, parameters, [answer for _, answer in answers]
    )


def _without_results(request: SearchRequest) -> SearchRequest:
    """Return a search's request that matches the same documents and returns none of its results."""
    return msgspec.structs.replace(
        request,
        facets=(),
        ranges=(),
        sort=(),
        num_hits=0,
        num_documents=0,
        after=None,
        distinct=None,
    )
