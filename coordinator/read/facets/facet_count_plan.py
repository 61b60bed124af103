"""Plans the facet counts of a search: which ones it needs, and which of them are known already.

A disjunctive facet ignores its own filter, statistics cover the hits only, and totals that are
cached (`facet_cache`) need no request.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from common.protocol.messages import FacetRequest
from coordinator.cluster.searched_state import SearchedState
from coordinator.parameters.parsed_parameters import FacetSpec, SearchParameters
from coordinator.read.facets.facet_cache import FacetCache, FacetTotals
from coordinator.read.facets.facet_statistics import is_summed_up
from coordinator.read.facets.summed_counts import ShardResponses

ALWAYS: Final = 1 << 31
"""A `num_live_wanted` above any number of values."""


class FacetPlan(Struct, frozen=True):
    """The facet counts that one search needs.

    Attributes:
        requests: for the shards.
        known: totals of the facets that need no request.
        is_total: whether nothing narrows the search, so that its counts are totals.
    """

    requests: tuple[FacetRequest, ...]
    known: dict[str, FacetTotals]
    is_total: bool


class CountedFacets(Struct, frozen=True):
    """The shards' counts of a search's facets, and what it takes to list them.

    Attributes:
        plan: what was to be counted.
        cache: of the index.
        answers: pairs (shard ordinal, response).
        state: the searched one.
    """

    plan: FacetPlan
    cache: FacetCache
    answers: ShardResponses
    state: SearchedState

    @property
    def num_values(self) -> int:
        """How many counts the shards sent, at most."""
        return sum([one.num_values for _, part in self.answers for one in part.facets])


def plan_facets(
    parameters: SearchParameters,
    cache: FacetCache,
    horizon: int,
    *,
    is_total: bool,
    wants_all_buckets: bool = False,
) -> FacetPlan:
    """Decide what to count.

    `num_live_wanted` is how many buckets may be shown: a shard that finds fewer values among the
    hits reports which others are live, since these may be listed with zero. An order by key, or a
    selected value that hits may lack, can need any value.

    A search that allows partial results neither uses nor makes totals: these cover all shards.
    """
    if not parameters.facets:
        return FacetPlan((), {}, is_total)
    requests = []
    known: dict[str, FacetTotals] = {}
    uses_totals = is_total and not parameters.allows_partial
    # A range filter is a facet's own filter too, but selects no value.
    left_out = () if parameters.is_strict else [clause.facet for clause in parameters.filters]
    selected, within_by_facet = parameters.selected, parameters.within
    for spec in parameters.facets:
        settings = spec.configuration
        name = settings.field
        leaves_out_own = name in left_out and not settings.conjunction
        any_is_wanted = wants_all_buckets or selected.get(name)
        num_live_wanted = ALWAYS if any_is_wanted else _num_live_wanted(spec)
        wants_missing = spec.summary.missing
        if uses_totals and not wants_missing:
            totals = cache.totals(name, horizon, num_live_wanted)
            if totals is not None:
                known[name] = totals
                continue
        within = within_by_facet.get(name)
        requests.append(FacetRequest(name, leaves_out_own, num_live_wanted, within, wants_missing))
        if (leaves_out_own or within is not None) and is_summed_up(spec):
            requests.append(FacetRequest(name, False, 0))
    return FacetPlan(tuple(requests), known, is_total)


def value_request(parameters: SearchParameters, spec: FacetSpec) -> FacetRequest:
    """Return the request of a facet for values that are known: within which items they count."""
    settings = spec.configuration
    name = settings.field
    is_filtered = any(clause.facet == name for clause in parameters.filters)
    leaves_out_own = is_filtered and not settings.conjunction and not parameters.is_strict
    return FacetRequest(name, leaves_out_own, 0, parameters.within.get(name))


def _num_live_wanted(spec: FacetSpec) -> int:
    """Return how many buckets a response may list, with or without hits."""
    settings = spec.configuration
    if settings.hide_zero:
        return 0
    if spec.key_query or not spec.order.is_by_count:
        return ALWAYS
    return spec.offset + settings.size
