"""What is known about the facets of one index between searches: value texts, totals, pages.

When nothing narrows a search, its counts are the *totals* of the index. These are cached for as
long as the horizon stays, as are the pages of buckets that list them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from common.deadline import Deadline
from common.key_arena import KeyArena
from common.process.cooperative_scheduler import LoopScheduler
from common.protocol.messages import (
    FACET_VALUES_MAX,
    FacetCounts,
    FacetRequest,
    FacetValuesRequest,
    FacetValuesResponse,
)
from common.protocol.methods import FACET_VALUES
from coordinator.catalog.catalog import Index
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.cache_budget_across_indexes import CacheBudget
from coordinator.cluster.fan_out import call_all
from coordinator.cluster.shard_responses import ShardResponses
from coordinator.parameters.facet_specs import BucketOrder
from coordinator.read.facets.bucket_selection import Bucket
from coordinator.read.facets.global_ordinals import FacetValues, Numbering, renumbered
from coordinator.read.facets.summed_counts import MergedCounts

BUCKETS_REMEMBERED_MAX: Final = 100
"""Buckets of a cached page; longer pages are built again."""
_PAGE_BYTES: Final = 600
_BUCKET_BYTES: Final = 100
"""Estimated size of a cached page, and of each of its buckets; their keys are the facet's."""

PageKey = tuple[str, BucketOrder, int, int]
"""Facet, order, offset and length of a page of buckets."""


class FacetTotals(Struct, frozen=True):
    """The counts of one facet over all documents live at one horizon."""

    horizon: int
    counts: MergedCounts
    num_live_wanted: int
    """How many buckets, with zeros, these counts suffice to list."""


class FacetCache:
    """Caches one index's value numberings and facet totals; all of it can be fetched again.

    Pages of buckets that list these totals are cached too, in a budget of all indexes together.
    """

    def __init__(self, cluster: Cluster, budget: CacheBudget) -> None:
        self._cluster = cluster
        self._budget = budget
        self._values: dict[str, FacetValues] = {}
        self._totals: dict[str, FacetTotals] = {}
        self._pages: dict[PageKey, list[Bucket]] = {}
        self._pages_horizon = -1

    def values(self, name: str) -> FacetValues:
        """Return the numbering of a facet."""
        values = self._values.get(name)
        if values is None:
            values = self._values[name] = FacetValues(self._cluster.num_shards)
        return values

    def totals(self, name: str, horizon: int, num_live_wanted: int) -> FacetTotals | None:
        """Return the totals of a facet, if they are cached for this horizon and suffice."""
        totals = self._totals.get(name)
        if totals is None or totals.horizon != horizon:
            return None
        return totals if totals.num_live_wanted >= num_live_wanted else None

    def remember(self, name: str, totals: FacetTotals) -> None:
        """Cache totals that were just added up from all shards."""
        known = self._totals.get(name)
        if known is None or known.horizon <= totals.horizon:
            self._totals[name] = totals

    def page(self, horizon: int, key: PageKey) -> list[Bucket] | None:
        """Return a page of totals, if it is cached for this horizon."""
        return self._pages.get(key) if horizon == self._pages_horizon else None

    def remember_page(self, horizon: int, key: PageKey, page: list[Bucket]) -> None:
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
        self,
        index: Index,
        requests: Sequence[FacetRequest],
        answers: ShardResponses,
        deadline: Deadline,
        scheduler: LoopScheduler,
    ) -> list[Numbering]:
        """Fetch the unknown parts of the dictionaries that the responses refer to.

        Few new values take one round trip; many come in parts, with other requests in between.

        Args:
            index: whose facets these are.
            requests: the facets, in the order of the responses.
            answers: pairs (shard ordinal, response).
            deadline: of the search.
            scheduler: lets long steps yield the event loop.

        Returns:
            The numbering of each facet, by which its counts can be added up at any later time.

        Raises:
            FacetRenumbered: a shard has another dictionary now, or another search has
                learned one meanwhile.
        """
        while missing := self._missing(answers):
            lacking: list[tuple[int, FacetValuesRequest]] = []
            ends: list[int] = []
            num_values = 0
            for shard, counts, start in missing:
                num_values += min(counts.num_values - start, FACET_VALUES_MAX)
                if lacking and num_values > FACET_VALUES_MAX:
                    break
                request = FacetValuesRequest(index.number, counts.field, counts.epoch, start)
                lacking.append((shard, request))
                ends.append(counts.num_values)
            epochs = [self.values(one.field).known[shard][0] for shard, one in lacking]
            parts = await call_all(self._cluster, FACET_VALUES, lacking, deadline.remaining_ms)
            if num_values > FACET_VALUES_MAX:
                await scheduler.wait_turn(index.number)
            for (shard, request), end, epoch, part in zip(
                lacking, ends, epochs, parts, strict=True
            ):
                if part.epoch != request.epoch or (request.start < end and not part.sizes):
                    raise renumbered(request.field, shard)
                values = self.values(request.field)
                arena = _arena_of(part)
                async with values.learning:
                    await values.make_room(arena)
                    # What was sent before a restart may arrive after what was sent since.
                    if values.known[shard][0] not in (epoch, part.epoch):
                        raise renumbered(request.field, shard)
                    values.extend(shard, part.epoch, part.start, arena)
        return [self.values(request.field).numbering for request in requests]

    def _missing(self, answers: ShardResponses) -> list[tuple[int, FacetCounts, int]]:
        """Return (shard, counts, first unknown number) of each dictionary that is not known."""
        missing: dict[tuple[int, str], tuple[int, FacetCounts, int]] = {}
        for shard, answer in answers:
            for counts in answer.facets:
                values = self.values(counts.field)
                if values.lacks(shard, counts.epoch, counts.num_values):
                    epoch, num_known = values.known[shard]
                    start = num_known if epoch == counts.epoch else 0
                    missing.setdefault((shard, counts.field), (shard, counts, start))
        return list(missing.values())


def _arena_of(part: FacetValuesResponse) -> KeyArena:
    """Return the values of a response."""
    sizes = np.frombuffer(part.sizes, "<u4")
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return KeyArena(np.frombuffer(bytearray(part.keys), np.uint8), offsets)
