"""The facets of a search: merges the counts of all shards and lists the buckets of each facet.

`facet_count_plan` decides which counts a search needs, `summed_counts` adds them up,
`bucket_selection` chooses among them, `facet_statistics` sums them up, `facet_cache`
keeps those of the index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from coordinator.parameters.facet_specs import FacetSpec
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.facets.bucket_selection import (
    NONE_SELECTED,
    Bucket,
    listed_buckets,
    next_buckets,
)
from coordinator.read.facets.facet_cache import FacetCache, FacetTotals, PageKey
from coordinator.read.facets.facet_count_plan import CountedFacets, FacetPlan
from coordinator.read.facets.facet_result_types import FacetResult
from coordinator.read.facets.facet_statistics import NO_SUMMARIES, Summaries, summaries
from coordinator.read.facets.summed_counts import Accumulator, CountsReader, GroupCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray


def facet_results(
    parameters: SearchParameters,
    counted: CountedFacets,
    accepted: Mapping[str, NDArray[np.bool_]],
    *,
    is_complete: bool,
    groups: Sequence[GroupCounts] = (),
    sums: Accumulator | None = None,
) -> Iterator[FacetResult]:
    """Merge the counts of all shards and choose the buckets of each facet; yield them in order.

    Args:
        parameters: of the search.
        counted: the shards' counts.
        accepted: by facet, which values may be listed, where a search within the keys decides.
        is_complete: whether all shards responded; partial counts never become totals.
        groups: if groups are counted, those with values, by position of the plan's requests.
        sums: where to add up, on another thread than the event loop's.
    """
    plan, cache, horizon = counted.plan, counted.cache, counted.state.horizon
    reader = CountsReader(counted.answers, counted.numberings, sums)
    requests, makes_totals = plan.requests, plan.is_total and is_complete
    at = 0  # the request whose counts the reader gives next
    for spec in parameters.facets:
        name = spec.configuration.field
        accepts = accepted.get(name)
        totals = plan.known.get(name)
        if totals is not None:
            yield _result_of_totals(spec, parameters, cache, totals, accepts)
            continue
        values = cache.values(name)
        missing = _num_missing(counted, groups, at) if spec.summary.missing else None
        page = None
        if not (makes_totals or groups or accepted or spec.is_summed_up):
            selected = parameters.selected.get(name, NONE_SELECTED)
            size = spec.configuration.size
            page = next_buckets(reader, values, selected, spec.order, spec.offset, size)
        if page is not None:
            result = facet_result(spec, page, missing, NO_SUMMARIES)
        elif makes_totals:
            with reader.next(values) as counts:
                totals = FacetTotals(horizon, counts.kept(), requests[at].num_live_wanted)
            cache.remember(name, totals)
            result = _result_of_totals(spec, parameters, cache, totals, accepts, missing)
        else:
            with reader.next(values) as counts:
                added = counts.plus(groups[at].counts) if groups else counts
                buckets = listed_buckets(spec, parameters, values, added, accepts)
                summed_up = summaries(spec, values, added)
            if at + 1 < len(requests) and requests[at + 1].field == name:
                at += 1
                with reader.next(values) as within_hits:
                    added = within_hits.plus(groups[at].counts) if groups else within_hits
                    summed_up = summaries(spec, values, added)
            result = facet_result(spec, buckets, missing, summed_up)
        at += 1
        yield result


def _num_missing(counted: CountedFacets, groups: Sequence[GroupCounts], at: int) -> int:
    """Return how many hits, or groups of hits, have no value of the facet of a request."""
    missing = sum([answer.facets[at].num_missing for _, answer in counted.answers])
    return missing + groups[at].num_missing if groups else missing


def _result_of_totals(
    spec: FacetSpec,
    parameters: SearchParameters,
    cache: FacetCache,
    totals: FacetTotals,
    accepts: NDArray[np.bool_] | None,
    missing: int | None = None,
) -> FacetResult:
    """Return a facet whose counts are those of all items."""
    buckets = _page_of_totals(spec, parameters, cache, totals, accepts)
    values = cache.values(spec.configuration.field)
    return facet_result(spec, buckets, missing, summaries(spec, values, totals.counts))


def facet_result(
    spec: FacetSpec, buckets: Sequence[Bucket], missing: int | None, summed_up: Summaries
) -> FacetResult:
    """Return a facet as a response shows it."""
    settings = spec.configuration
    stats, cardinality, percentiles = summed_up
    return FacetResult(
        field=settings.field,
        title=settings.title,
        position=settings.position,
        buckets=buckets,
        stats=stats,
        missing=missing,
        cardinality=cardinality,
        percentiles=percentiles,
    )


def known_results(
    parameters: SearchParameters, plan: FacetPlan, cache: FacetCache
) -> list[FacetResult] | None:
    """Return the facets of a search if every page of them is cached: there is nothing to merge."""
    if plan.requests or parameters.field_facets:
        return None
    results = []
    for spec in parameters.facets:
        key = _page_key(spec, parameters)
        if key is None or spec.is_summed_up:
            return None
        page = cache.page(plan.known[spec.configuration.field].horizon, key)
        if page is None:
            return None
        results.append(facet_result(spec, page, None, NO_SUMMARIES))
    return results


def num_values_to_list(parameters: SearchParameters, plan: FacetPlan, cache: FacetCache) -> int:
    """Return how many values have to be inspected in facets whose counts are known already."""
    num_values = 0
    if not plan.known:
        return num_values
    for spec in parameters.facets:
        totals = plan.known.get(spec.configuration.field)
        if totals is not None:
            key = _page_key(spec, parameters)
            is_listed = key is not None and cache.page(totals.horizon, key) is not None
            if not is_listed or spec.is_summed_up:
                num_values += len(totals.counts.counts)
    return num_values


def _page_key(spec: FacetSpec, parameters: SearchParameters) -> PageKey | None:
    """Return the cache key of a page of totals; None if the page is not cacheable."""
    settings = spec.configuration
    if spec.key_query or parameters.selected.get(settings.field):
        return None
    return settings.field, spec.order, spec.offset, settings.size


def _page_of_totals(
    spec: FacetSpec,
    parameters: SearchParameters,
    cache: FacetCache,
    totals: FacetTotals,
    accepts: NDArray[np.bool_] | None,
) -> list[Bucket]:
    """Return the buckets to list, and cache them for the next search."""
    values = cache.values(spec.configuration.field)
    key = _page_key(spec, parameters)
    if key is None:
        return listed_buckets(spec, parameters, values, totals.counts, accepts)
    page = cache.page(totals.horizon, key)
    if page is None:
        page = listed_buckets(spec, parameters, values, totals.counts, None)
        cache.remember_page(totals.horizon, key, page)
    return page
