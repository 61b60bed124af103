"""Facets of a search: plans the requests to the shards, and merges their counts.

`merged_counts` adds up the counts, `buckets` lists them. This module decides which counts a search
needs (disjunctive facets ignore their own filter, statistics cover the hits only) and which of them
are known already: when nothing narrows a search, the counts are the *totals* of the index, which
are cached for as long as the horizon stays, here and on the shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, fsum
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct, structs

from common.deadline import Deadline
from common.errors import ConfigurationSwitched
from common.process.loop_scheduler import LoopScheduler
from common.protocol.messages import (
    FACET_VALUES_MAX,
    FacetCounts,
    FacetRequest,
    FacetValuesRequest,
)
from common.protocol.methods import FACET_VALUES
from common.values import INTEGER_MAX, INTEGER_MIN
from coordinator.cluster.catalog import Index
from coordinator.cluster.cluster import Cluster
from coordinator.cluster.fan_out import call_all
from coordinator.parameters.parse import FacetSpec, SearchParameters
from coordinator.parameters.typed import BucketOrder
from coordinator.read.buckets import Bucket, page_of_buckets
from coordinator.read.cache_budget import CacheBudget
from coordinator.read.facet_values import FacetValues
from coordinator.read.merged_counts import Answers, CountsReader, GroupCounts, MergedCounts, Sums
from coordinator.read.ranges import finite
from coordinator.read.results import FacetResult, FacetStats

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALWAYS: Final = 1 << 31
"""A `num_alive_wanted` above any number of values."""
BUCKETS_REMEMBERED_MAX: Final = 100
"""Buckets of a cached page; longer pages are built again."""
_PAGE_BYTES: Final = 600
_BUCKET_BYTES: Final = 100
"""Estimated size of a cached page, and of each of its buckets; their keys are the facet's."""
_SUMMABLE_END: Final = 2.0**900
"""Sums of numbers below this cannot overflow, however many there are; larger numbers are scaled
first."""
_SCALE: Final = 2.0**-124
_DOUBLES_EXACT_END: Final = 2.0**53
"""Below this, doubles represent all integers exactly."""
NONE_SELECTED: Final[frozenset[str]] = frozenset()


_PageKey = tuple[str, BucketOrder, int, int]
"""Facet, order, offset and length of a page of buckets."""


class _Totals(Struct, frozen=True):
    """The counts of one facet over all documents live at one horizon."""

    horizon: int
    counts: MergedCounts
    num_alive_wanted: int
    """How many buckets, with zeros, these counts suffice to list."""


class FacetMemory:
    """Caches one index's value numberings and facet totals; all of it can be fetched again.

    Pages of buckets that list these totals are cached too, in a budget of all indexes together.
    """

    def __init__(self, cluster: Cluster, budget: CacheBudget) -> None:
        self._cluster = cluster
        self._budget = budget
        self._values: dict[str, FacetValues] = {}
        self._totals: dict[str, _Totals] = {}
        self._pages: dict[_PageKey, list[Bucket]] = {}
        self._pages_horizon = -1

    def values(self, name: str) -> FacetValues:
        """Return the numbering of a facet."""
        values = self._values.get(name)
        if values is None:
            values = self._values[name] = FacetValues(self._cluster.num_shards)
        return values

    def totals(self, name: str, horizon: int, num_alive_wanted: int) -> _Totals | None:
        """Return the totals of a facet, if they are cached for this horizon and go far enough."""
        totals = self._totals.get(name)
        if totals is None or totals.horizon != horizon:
            return None
        return totals if totals.num_alive_wanted >= num_alive_wanted else None

    def remember(self, name: str, totals: _Totals) -> None:
        """Cache totals that were just added up from all shards."""
        known = self._totals.get(name)
        if known is None or known.horizon <= totals.horizon:
            self._totals[name] = totals

    def page(self, horizon: int, key: _PageKey) -> list[Bucket] | None:
        """Return a page of totals, if it is cached for this horizon."""
        return self._pages.get(key) if horizon == self._pages_horizon else None

    def remember_page(self, horizon: int, key: _PageKey, page: list[Bucket]) -> None:
        """Cache a page of totals."""
        if len(page) > BUCKETS_REMEMBERED_MAX or horizon < self._pages_horizon:
            return
        if horizon > self._pages_horizon:
            self.forget()
            self._pages_horizon = horizon
        if key not in self._pages:
            self._pages[key] = page
            self._budget.take(self, _PAGE_BYTES + _BUCKET_BYTES * len(page))

    def forget(self) -> None:
        """Drop the pages."""
        self._pages.clear()
        self._budget.drop(self)

    async def learn(
        self, index: Index, answers: Answers, deadline: Deadline, scheduler: LoopScheduler
    ) -> None:
        """Fetch the parts of dictionaries that the responses refer to and we lack.

        Few new values take one round trip; many come in parts, so that other requests get their
        turn in between.
        """
        while missing := self._missing(answers):
            requests: list[tuple[int, FacetValuesRequest]] = []
            ends: list[int] = []
            num_values = 0
            for shard, counts, start in missing:
                num_values += min(counts.num_values - start, FACET_VALUES_MAX)
                if requests and num_values > FACET_VALUES_MAX:
                    break
                asked = FacetValuesRequest(index.number, counts.field, counts.epoch, start)
                requests.append((shard, asked))
                ends.append(counts.num_values)
            parts = await call_all(self._cluster, FACET_VALUES, requests, deadline.remaining_ms)
            if num_values > FACET_VALUES_MAX:
                await scheduler.wait_turn(index.number)
            for (shard, asked), end, part in zip(requests, ends, parts, strict=True):
                if part.epoch != asked.epoch or (asked.start < end and not part.values):
                    raise ConfigurationSwitched(
                        f"facet {asked.field!r} has just been rebuilt on shard {shard}; try again"
                    )
                self.values(asked.field).extend(shard, part.epoch, part.start, part.values)

    def _missing(self, answers: Answers) -> list[tuple[int, FacetCounts, int]]:
        """Return (shard, counts, first unknown number) of each dictionary that is not known."""
        missing: dict[tuple[int, str], tuple[int, FacetCounts, int]] = {}
        for shard, answer in answers:
            for counts in answer.facets:
                start = self.values(counts.field).missing_from(
                    shard, counts.epoch, counts.num_values
                )
                if start is not None:
                    missing.setdefault((shard, counts.field), (shard, counts, start))
        return list(missing.values())


class FacetPlan(Struct, frozen=True):
    """The facet counts that one search needs.

    Attributes:
        requests: for the shards.
        known: totals of the facets that need no request.
        is_total: whether nothing narrows the search, so that its counts are totals.
    """

    requests: tuple[FacetRequest, ...]
    known: dict[str, _Totals]
    is_total: bool


def plan_facets(
    parameters: SearchParameters,
    memory: FacetMemory,
    horizon: int,
    *,
    is_total: bool,
    wants_all_buckets: bool = False,
) -> FacetPlan:
    """Decide what to count.

    `num_alive_wanted` is how many buckets may be shown: a shard that finds fewer values among the
    hits reports which others are alive, since these may be listed with zero. An order by key, or a
    selected value that hits may lack, can need any value.

    A search that allows partial results neither uses nor makes totals: these cover all shards.
    """
    if not parameters.facets:
        return FacetPlan((), {}, is_total)
    requests = []
    known: dict[str, _Totals] = {}
    # A range filter is a facet's own filter too, but selects no value.
    filtered = {clause.facet for clause in parameters.filters}
    for spec in parameters.facets:
        settings = spec.configuration
        name = settings.field
        selected = bool(parameters.selected.get(name))
        leaves_out_own = name in filtered and not settings.conjunction and not parameters.is_strict
        num_alive_wanted = ALWAYS if wants_all_buckets or selected else _num_alive_wanted(spec)
        totals = None
        if is_total and not parameters.allows_partial:
            totals = memory.totals(name, horizon, num_alive_wanted)
        wants_missing = spec.summary.missing
        if totals is not None and not wants_missing:
            known[name] = totals
            continue
        within = parameters.within.get(name)
        requests.append(FacetRequest(name, leaves_out_own, num_alive_wanted, within, wants_missing))
        if is_summed_up(spec) and (leaves_out_own or within is not None):
            requests.append(FacetRequest(name, False, 0))
    return FacetPlan(tuple(requests), known, is_total)


def value_request(parameters: SearchParameters, spec: FacetSpec) -> FacetRequest:
    """Return the request of a facet for values that are known: within which items they count."""
    settings = spec.configuration
    name = settings.field
    is_filtered = any(clause.facet == name for clause in parameters.filters)
    leaves_out_own = is_filtered and not settings.conjunction and not parameters.is_strict
    return FacetRequest(name, leaves_out_own, 0, parameters.within.get(name))


def is_summed_up(spec: FacetSpec) -> bool:
    """Return whether the facet needs counts within the hits (statistics, percentiles, …)."""
    summary = spec.summary
    return bool(spec.configuration.show_facet_stats or summary.cardinality or summary.percentiles)


def _num_alive_wanted(spec: FacetSpec) -> int:
    """Return how many buckets a response may list, with or without hits."""
    settings = spec.configuration
    if settings.hide_zero:
        return 0
    if spec.key_query or not spec.order.is_by_count:
        return ALWAYS
    return spec.offset + settings.size


def facet_results(
    parameters: SearchParameters,
    plan: FacetPlan,
    memory: FacetMemory,
    answers: Answers,
    horizon: int,
    accepted: Mapping[str, NDArray[np.bool_]],
    *,
    is_complete: bool,
    groups: Sequence[GroupCounts] = (),
    sums: Sums | None = None,
) -> Iterator[FacetResult]:
    """Merge the counts of all shards and choose the buckets of each facet; yield them in order.

    Args:
        parameters: of the search.
        plan: the requested counts.
        memory: knows the dictionaries that the responses refer to.
        answers: pairs (shard ordinal, response).
        horizon: of the search.
        accepted: by facet, which values may be listed, where a search within the keys decides.
        is_complete: whether all shards responded; partial counts never become totals.
        groups: if groups are counted, those with values, by position of the plan's requests.
        sums: where to add up, on another thread than the event loop's.
    """
    reader = CountsReader(answers) if sums is None else CountsReader(answers, sums)
    requests = iter((*plan.requests, None))
    request = next(requests)
    at = 0
    for spec in parameters.facets:
        settings = spec.configuration
        name = settings.field
        values = memory.values(name)
        totals = plan.known.get(name)
        missing = None
        if totals is None:
            if spec.summary.missing:
                missing = sum([answer.facets[at].num_missing for _, answer in answers])
                missing += groups[at].num_missing if groups else 0
            assert request is not None, "a facet that is neither known nor requested"
            with reader.next(values) as counts:
                if plan.is_total and is_complete:
                    totals = _Totals(horizon, counts.kept(), request.num_alive_wanted)
                    memory.remember(name, totals)
                else:
                    added = counts.plus(groups[at].counts) if groups else counts
                    buckets = listed_buckets(spec, parameters, values, added, accepted.get(name))
                    summed_up = summaries(spec, values, added)
            request = next(requests)
            at += 1
            if request is not None and request.field == name:
                with reader.next(values) as within_hits:
                    added = within_hits.plus(groups[at].counts) if groups else within_hits
                    summed_up = summaries(spec, values, added)
                request = next(requests)
                at += 1
        if totals is not None:
            buckets = _page_of_totals(spec, parameters, memory, totals, accepted.get(name))
            summed_up = summaries(spec, values, totals.counts)
        yield structs.replace(summed_up, buckets=buckets, missing=missing)


def summaries(spec: FacetSpec, values: FacetValues, counts: MergedCounts) -> FacetResult:
    """Return a facet's result without buckets: the summaries of its counts within the hits."""
    settings, summary = spec.configuration, spec.summary
    return FacetResult(
        settings.field,
        settings.title,
        settings.position,
        [],
        facet_stats(values, counts) if settings.show_facet_stats else None,
        cardinality=int(np.count_nonzero(counts.counts)) if summary.cardinality else None,
        percentiles=percentiles(values, counts, summary.percentiles)
        if summary.percentiles
        else None,
    )


def percentiles(
    values: FacetValues, merged: MergedCounts, wanted: Sequence[float]
) -> dict[str, float | None]:
    """Return percentiles of a facet's numeric values, from its exact counts.

    The p-th percentile is the least value that at least p % of the values do not exceed; a document
    counts once per value.

    Returns:
        By percentile as written; None where no document has a numeric value.
    """
    counts = merged.counts
    numbers = values.numeric_values()[: len(counts)]
    present = np.flatnonzero((counts > 0) & ~np.isnan(numbers))
    order = present[np.argsort(numbers[present], kind="stable")]
    sums = np.cumsum(counts[order])
    found: dict[str, float | None] = {}
    for percentile in wanted:
        name = f"{percentile:.15g}"
        found[name] = None
        if len(order):
            rank = max(1, ceil(Fraction(str(percentile)) * int(sums[-1]) / 100))
            found[name] = float(numbers[order[int(np.searchsorted(sums, rank))]])
    return found


def listed_buckets(
    spec: FacetSpec,
    parameters: SearchParameters,
    values: FacetValues,
    counts: MergedCounts,
    accepts: NDArray[np.bool_] | None,
) -> list[Bucket]:
    """Return the buckets to list, of those that may be."""
    settings = spec.configuration
    return page_of_buckets(
        values,
        counts,
        parameters.selected.get(settings.field, NONE_SELECTED),
        spec.order,
        spec.offset,
        settings.size,
        accepts,
    )


def known_results(
    parameters: SearchParameters, plan: FacetPlan, memory: FacetMemory
) -> list[FacetResult] | None:
    """Return the facets of a search if every page of them is cached: there is nothing to merge."""
    if plan.requests or parameters.field_facets:
        return None
    results = []
    for spec in parameters.facets:
        settings = spec.configuration
        key = _page_key(spec, parameters)
        if key is None or is_summed_up(spec):
            return None
        page = memory.page(plan.known[settings.field].horizon, key)
        if page is None:
            return None
        results.append(FacetResult(settings.field, settings.title, settings.position, page, None))
    return results


def num_values_to_list(parameters: SearchParameters, plan: FacetPlan, memory: FacetMemory) -> int:
    """Return how many values have to be inspected in facets whose counts are known already."""
    num_values = 0
    for spec in parameters.facets:
        totals = plan.known.get(spec.configuration.field)
        if totals is not None:
            key = _page_key(spec, parameters)
            is_listed = key is not None and memory.page(totals.horizon, key) is not None
            if not is_listed or is_summed_up(spec):
                num_values += len(totals.counts.counts)
    return num_values


def _page_key(spec: FacetSpec, parameters: SearchParameters) -> _PageKey | None:
    """Return the cache key of a page of totals; None if the page is not cacheable."""
    settings = spec.configuration
    if spec.key_query or parameters.selected.get(settings.field):
        return None
    return settings.field, spec.order, spec.offset, settings.size


def _page_of_totals(
    spec: FacetSpec,
    parameters: SearchParameters,
    memory: FacetMemory,
    totals: _Totals,
    accepts: NDArray[np.bool_] | None,
) -> list[Bucket]:
    """Return the buckets to list, and cache them for the next search."""
    values = memory.values(spec.configuration.field)
    key = _page_key(spec, parameters)
    if key is None:
        return listed_buckets(spec, parameters, values, totals.counts, accepts)
    page = memory.page(totals.horizon, key)
    if page is None:
        page = listed_buckets(spec, parameters, values, totals.counts, None)
        memory.remember_page(totals.horizon, key, page)
    return page


def facet_stats(values: FacetValues, merged: MergedCounts) -> FacetStats | None:
    """Return min, max, avg, sum and count of a facet's numeric values, from its exact counts.

    They are computed from counts by value, so they do not depend on how documents are spread over
    shards.

    Returns:
        None if no document has a numeric value.
    """
    # Values may have been added since the counts were made: use their common length.
    counts = merged.counts
    numbers = values.numeric_values()[: len(counts)]
    present = np.flatnonzero((counts > 0) & ~np.isnan(numbers))
    if not len(present):
        return None
    numbers, counts = numbers[present], counts[present]
    count = int(counts.sum())
    # fsum rounds exactly, so the order in which values became known does not matter.
    scale = 1.0 if np.abs(numbers).max() < _SUMMABLE_END else _SCALE
    total = fsum((numbers * scale * counts).tolist())
    return FacetStats(
        min=_exact_extreme(min, values, present, numbers, float(numbers.min())),
        max=_exact_extreme(max, values, present, numbers, float(numbers.max())),
        avg=finite(total / count / scale),
        sum=finite(total / scale),
        count=count,
    )


def _exact_extreme(
    choose: Callable[[Iterable[int | float]], int | float],
    values: FacetValues,
    present: NDArray[np.int64],
    numbers: NDArray[np.float64],
    nearest: float,
) -> int | float:
    """Return the least or greatest number: an integer, where doubles are not exact.

    Args:
        choose: `min` or `max`.
        values: the numbering.
        present: the numbers of the values to choose among.
        numbers: each of them as a double.
        nearest: the least or greatest of these.
    """
    if abs(nearest) < _DOUBLES_EXACT_END:
        return nearest
    texts = [values.values[number] for number in present[numbers == nearest].tolist()]
    integers = [int(text) for text in texts if text.lstrip("-").isdecimal()]
    exact = [integer for integer in integers if INTEGER_MIN <= integer <= INTEGER_MAX]
    return choose(exact) if exact else nearest
