"""What all kinds of searches need: shards, caches, paging, …; made once per coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

from common.analysis.analyzer import Analyzer
from common.limits import Limits
from common.process.cooperative_scheduler import LoopScheduler
from coordinator.catalog.catalog import Catalog, Index
from coordinator.cluster.all_shards import Cluster
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.facets.facet_scheduling import FacetListing
from coordinator.read.fair_share import FairShare
from coordinator.read.index_caches import IndexCaches
from coordinator.read.paging import Paging
from coordinator.read.scatter import Scatter
from coordinator.read.text.relaxation import relaxed


class ReadServices(NamedTuple):
    """What a search passes through, and what it remembers for the next one.

    Attributes:
        cluster: the shards.
        limits: in force.
        analyzer: splits query texts into words.
        scheduler: lets long steps yield the event loop.
        caches: of the indexes.
        scatter: sends searches to the shards.
        paging: finds the hits of a page.
        facet_listing: lists facets.
        share: admits the searches of each index.
    """

    cluster: Cluster
    limits: Limits
    analyzer: Analyzer
    scheduler: LoopScheduler
    caches: IndexCaches
    scatter: Scatter
    paging: Paging
    facet_listing: FacetListing
    share: FairShare

    @classmethod
    def over(
        cls, cluster: Cluster, catalog: Catalog, limits: Limits, scheduler: LoopScheduler
    ) -> Self:
        """Make the services of searches over some shards.

        Args:
            cluster: the shards.
            catalog: of the indexes.
            limits: in force.
            scheduler: lets long steps yield the event loop.
        """
        analyzer = Analyzer()
        caches = IndexCaches(cluster, catalog, analyzer)
        scatter = Scatter(cluster, caches, analyzer, limits, scheduler)
        return cls(
            cluster,
            limits,
            analyzer,
            scheduler,
            caches,
            scatter,
            Paging(cluster, scatter),
            FacetListing(cluster, analyzer, scheduler),
            FairShare(),
        )

    def relaxed(self, index: Index, parameters: SearchParameters) -> Iterable[SearchParameters]:
        """Return the searches to try, in order, until one has hits (`match: auto`)."""
        if parameters.match != "auto":
            return (parameters,)
        dictionary = self.caches.of(index).dictionary
        return relaxed(parameters, dictionary, self.analyzer, self.limits.query_words_max)
