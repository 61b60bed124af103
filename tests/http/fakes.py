"""A service without shards: the real HTTP side over a Search and a Cluster made of plain values."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from common import data_directory
from common.errors import ServiceError
from common.index_configuration_parser import parse_configuration
from common.item_placement import shard_of_id
from common.json.item_scanner import canonical_id
from common.process.cooperative_scheduler import LoopScheduler
from coordinator.analytics.search_analytics import Analytics
from coordinator.catalog.catalog import Catalog, Index
from coordinator.catalog.catalog_state import CatalogState
from coordinator.cluster.all_shards import DEFAULT_TIMEOUTS
from coordinator.http.api_description.openapi import InterfaceDocument
from coordinator.http.app import HttpApp, create_app
from coordinator.http.metrics import Metrics
from coordinator.http.security.access_control import Guard
from coordinator.http.services import Services
from coordinator.http.slow_queries import SlowQueries
from coordinator.parameters.parsed_parameters import (
    FacetParameters,
    SearchParameters,
    SuggestParameters,
)
from coordinator.read.facets.bucket_selection import Bucket
from coordinator.read.facets.facet_result_types import FacetResult
from coordinator.read.item_explanation import ItemExplanations
from coordinator.read.read_services import ReadServices
from coordinator.read.result_cache import ResultCache
from coordinator.read.search_results import FacetPage, HitOrder, SearchResult, ShardSummary, Timings
from coordinator.read.suggest.suggestion_results import SuggestionPage
from coordinator.routes import ROUTES
from coordinator.settings import Settings
from shard.segment.columns.external_ids import shown_id_of

CONFIGURATION: dict[str, Any] = {
    "aggregations": {
        "tags": {"conjunction": False},
        "country": {},
        "director": {"sort": "term"},
        "year": {"size": 5},
    },
    "sorting_fields": ["rating"],
}


class FakeSearch:
    """Answers every search with the same ten items and four facets; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[SearchParameters | FacetParameters] = []
        self.error: ServiceError | None = None
        item = b'{"id":1,"name":"The Shawshank Redemption","year":1994,"tags":["drama","prison"]}'
        self.items = [item] * 10
        self.ranks_read: list[int] = []
        """Of hits of merged searches whose items were read."""
        self.buckets = [Bucket(f"value {i}", 100 - i, i == 0) for i in range(10)]

    async def search(
        self, index: Any, parameters: SearchParameters, horizon: int | None = None
    ) -> SearchResult:
        self.asked.append(parameters)
        if self.error is not None:
            raise self.error
        return SearchResult(
            page=parameters.page,
            per_page=parameters.per_page,
            total=250,
            items=self.items[: parameters.per_page],
            facets=[
                FacetResult(
                    spec.configuration.field,
                    spec.configuration.title,
                    spec.configuration.position,
                    self.buckets,
                )
                for spec in parameters.facets
            ],
            ranges=[],
            seq=17,
            ignored_words=[],
            shards=ShardSummary(2, 2),
            timings=Timings(412, 101, 57, 3),
            order=[
                HitOrder(None, tuple([None for _ in parameters.sort]), None) for _ in self.items
            ],
            items_of=self._items_of if parameters.keeps_order else None,
        )

    async def _items_of(self, ranks: Sequence[int]) -> list[bytes]:
        self.ranks_read += ranks
        return [self.items[rank] for rank in ranks]


class FakeSelection:
    """Selects the items of a search that answers everything, or those of some ids."""

    def __init__(self, search: FakeSearch) -> None:
        self.search = search

    async def page(
        self, index: Any, parameters: SearchParameters, horizon: int
    ) -> tuple[list[Any], str | None]:
        """Return the items as hits, or those of some ids."""
        self.search.asked.append(parameters)
        if self.search.error is not None:
            raise self.search.error
        hits = []
        for record, item in enumerate(self.search.items):
            id = canonical_id(item)
            if not parameters.only_ids or id in parameters.only_ids:
                shard = 0 if id is None else shard_of_id(id, 2)
                hits.append(SimpleNamespace(shard=shard, record=record, item=item))
        return hits, None

    async def read(
        self,
        index: Any,
        hits: list[Any],
        horizon: int,
        timeout_ms: int,
        *,
        wants_ids: bool = False,
    ) -> AsyncGenerator[list[tuple[Any, bytes | None]], None]:
        """Yield all hits with their items."""
        yield [(hit, shown_id_of(hit.item) if wants_ids else hit.item) for hit in hits]


class FakeFacetPages:
    """Answers with the buckets of a search that answers everything."""

    def __init__(self, search: FakeSearch) -> None:
        self.search = search

    async def page(self, index: Any, parameters: FacetParameters) -> FacetPage:
        self.search.asked.append(parameters)
        if self.search.error is not None:
            raise self.search.error
        facet = parameters.facet
        return FacetPage(
            page=parameters.page,
            per_page=parameters.per_page,
            facet=FacetResult(facet.field, facet.title, facet.position, self.search.buckets),
            total=10,
            seq=17,
            shards=ShardSummary(2, 2),
            timings=Timings(412, 101, 57, 3),
        )


class FakeCluster:
    """Two shards that serve and know nothing."""

    num_shards = 2
    is_ready = True

    shards: tuple[Any, ...] = ()
    timeouts = DEFAULT_TIMEOUTS

    def failed_shards(self) -> list[int]:
        return []

    async def silent_shards(self, timeout_ms: int) -> list[int]:
        return []

    def horizon(self, index: int) -> int:
        return 17

    @contextmanager
    def reading(self, index: int) -> Iterator[int]:
        yield 17


class FakeSuggestions:
    """Suggests nothing."""

    async def suggest(self, index: Index, parameters: SuggestParameters) -> SuggestionPage:
        return SuggestionPage([], 17)


def fake_services(folder: Path, settings: Settings | None = None, **indexes: Any) -> Services:
    """Return services over a catalog that has the given indexes (or one, `films`)."""
    catalog = Catalog.open(folder, 2)
    state = CatalogState()
    for name, document in (indexes or {"films": CONFIGURATION}).items():
        parse_configuration(document)
        state = state.with_index(state.new_entry(name, document))
    catalog.state = state
    catalog.activate()
    settings = settings or Settings(data_dir=folder)
    search = FakeSearch()
    fakes: Any = SimpleNamespace(
        search=search,
        facet_pages=FakeFacetPages(search),
        selection=FakeSelection(search),
        suggestions=FakeSuggestions(),
        cluster=FakeCluster(),
        no_writes=None,
    )
    read_services = ReadServices.over(fakes.cluster, catalog, settings.limits, LoopScheduler())
    return Services(
        settings=settings,
        interface=InterfaceDocument(ROUTES, settings.limits),
        catalog=catalog,
        cluster=fakes.cluster,
        ingest=fakes.no_writes,
        loads=fakes.no_writes,
        administration=fakes.no_writes,
        snapshot_maker=fakes.no_writes,
        search=fakes.search,
        facet_pages=fakes.facet_pages,
        selection=fakes.selection,
        suggestions=fakes.suggestions,
        explanations=ItemExplanations(read_services, fakes.search),
        guard=Guard(settings, catalog),
        metrics=Metrics(),
        slow_queries=SlowQueries(settings.slow_query_ms),
        analytics=Analytics(
            data_directory.analytics_folder(settings.data_dir),
            settings.analytics_days,
            settings.limits.analytics_queries_max,
        ),
        results=ResultCache(settings.result_cache_bytes),
    )


def fake_app(folder: Path, settings: Settings | None = None, **indexes: Any) -> HttpApp:
    """Return the HTTP side over `fake_services`."""
    return create_app(fake_services(folder, settings, **indexes), ROUTES)
