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

from common.protocol.messages import Distinct, GroupsRequest, SearchRequest, SearchResponse
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
from coordinator.read.read_services import ReadServices
from coordinator.read.scatter import SearchOutcome
from coordinator.read.stored_items import page_items


async def with_group_hits(
    services: ReadServices, outcome: SearchOutcome, hits: Sequence[Hit], items: list[bytes]
) -> list[bytes]:
    """Return the items of a page, each with the size and the best hits of its group.

    Args:
        services: what all kinds of searches share.
        outcome: of the search, which groups hits by distinct values.
        hits: of the page.
        items: the JSON of each hit.
    """
    parameters, scatter = outcome.parameters, services.scatter
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
        answers = await scatter.search_again(outcome, request)
    members = None
    if limit:
        sort = outcome.request.sort
        merge = partial(
            merge_hits, answers, sort, parameters.is_place_descending, 0, num_hits, distinct
        )
        found = await asyncio.to_thread(merge) if is_slow_to_order(answers, sort) else merge()
        inner = msgspec.structs.replace(outcome, answers=answers)
        rendered = await page_items(services.cluster, inner, found)
        members = list(zip(found, rendered, strict=True))
    return with_groups(items, hits, tokens, [answer for _, answer in answers], members)


async def with_value_statistics(
    services: ReadServices, outcome: SearchOutcome, facets: list[FacetResult]
) -> list[FacetResult]:
    """Return facets with the requested statistics of numbers by value.

    Args:
        services: what all kinds of searches share; adding up yields the event loop.
        outcome: of the search that the facets are from.
        facets: with the buckets that are shown.
    """
    requests = statistics_requests(outcome.parameters, facets)
    if not requests:
        return facets
    request = msgspec.structs.replace(
        _without_results(outcome.request), value_statistics=tuple(requests.values())
    )
    answers = await services.scatter.search_again(outcome, request)
    steps = with_statistics(facets, requests, [answer for _, answer in answers])
    return await services.scheduler.run(outcome.state.index.number, steps)


async def joint_counts(
    services: ReadServices, outcome: SearchOutcome, facets: Sequence[FacetResult]
) -> CubeResult | None:
    """Return the requested joint counts.

    Args:
        services: what all kinds of searches share.
        outcome: of the search that the facets are from, which counted the histogram of the field.
        facets: with the buckets that are shown.
    """
    parameters, limits = outcome.parameters, services.limits
    spec = parameters.cube
    if spec is None:
        return None
    edges = edges_of(spec, outcome.answers, limits)
    if not edges:
        return empty_cube(spec.field)
    search = _without_results(outcome.request)
    request = cube_request(spec, edges, parameters, search, facets, limits)
    assert request.cube is not None
    answers = await services.scatter.search_again(outcome, request)
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
