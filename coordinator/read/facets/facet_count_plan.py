"""Plans the facet counts of a search: which ones it needs, and which of them are known already.

A disjunctive facet ignores its own filter, statistics cover the hits only, and totals that are
cached (`facet_cache`) need no request.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from common.protocol.messages import FacetRequest
from coordinator.cluster.searched_state import SearchedState
from coordinator.cluster.shard_responses import ShardResponses
from coordinator.parameters.facet_specs import ALL_LIVE, FacetSpec
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.facets.facet_cache import FacetCache, FacetTotals
from coordinator.read.facets.global_ordinals import Numbering


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
        numberings: of their facets.
        state: the searched one.
    """

    plan: FacetPlan
    cache: FacetCache
    answers: ShardResponses
    numberings: Sequence[Numbering]
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

    A selected value, which hits may lack, can need any value that is live (`num_live_wanted`).

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
        name, request = spec.configuration.field, spec.request
        leaves_out_own = name in left_out and not spec.configuration.conjunction
        within = within_by_facet.get(name)
        if wants_all_buckets or selected.get(name):
            request = FacetRequest(name, leaves_out_own, ALL_LIVE, within, request.wants_missing)
        elif leaves_out_own or within is not None:
            request = structs.replace(request, leaves_out_own=leaves_out_own, within=within)
        if uses_totals and not request.wants_missing:
            totals = cache.totals(name, horizon, request.num_live_wanted)
            if totals is not None:
                known[name] = totals
                continue
        requests.append(request)
        if (leaves_out_own or within is not None) and spec.is_summed_up:
            requests.append(FacetRequest(name, False, 0))
    return FacetPlan(tuple(requests), known, is_total)


def value_request(parameters: SearchParameters, spec: FacetSpec) -> FacetRequest:
    """Return the request of a facet for values that are known: within which items they count."""
    settings = spec.configuration
    name = settings.field
    is_filtered = any(clause.facet == name for clause in parameters.filters)
    leaves_out_own = is_filtered and not settings.conjunction and not parameters.is_strict
    return FacetRequest(name, leaves_out_own, 0, parameters.within.get(name))
