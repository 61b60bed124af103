"""What the coordinator caches of each index between searches; all of it can be fetched again.

    index number ─▶ IndexCache of its current configuration
                        ├─ stop words, synonyms, curation rules, folded once   (no round trip)
                        ├─ statistics of all items, and per filter of an API key
                        ├─ dictionaries and totals of facets
                        └─ suggestions

A cache belongs to one revision of the configuration; a change starts a new one.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from common.analysis.analyzer import Analyzer
from common.index_configuration import IndexConfiguration
from common.process.cooperative_scheduler import run_to_completion
from common.query_syntax_tree import Filter
from common.search_option_parsers import ALL_FIELDS
from coordinator.catalog.catalog import Catalog, Index
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.cache_budget_across_indexes import CacheBudget
from coordinator.parameters.curation_rule_evaluation import (
    ACCEPTED,
    CompiledRule,
    compile_rules,
    narrowing_rules,
)
from coordinator.read.facets.facet_cache import FacetCache
from coordinator.read.suggest.suggestion_cache import SuggestionCache
from coordinator.read.text.query_dictionary import QueryDictionary
from coordinator.read.text.text_statistics_cache import StatisticsCache

KEY_FILTERS_REMEMBERED_MAX: Final = 32
"""Per index: API key filters whose statistics are kept."""


class IndexCache(Struct, frozen=True):
    """Caches one index's read state between searches."""

    configuration: IndexConfiguration
    revision: int
    dictionary: QueryDictionary
    rules: tuple[CompiledRule, ...]
    narrowing_rules: tuple[CompiledRule, ...]
    """Those of them that leave items out for any query."""
    configured_fields: frozenset[str]
    """Facets, and fields to sort by, to search, with points, or with elements."""
    statistics: StatisticsCache
    facets: FacetCache
    suggestions: SuggestionCache
    narrowed: dict[Filter, StatisticsCache]
    """Statistics per API key filter, most recently used last."""

    def forget(self) -> None:
        """Release what all of it takes from the shared budget."""
        for statistics in (self.statistics, *self.narrowed.values()):
            statistics.forget()
        self.facets.forget()
        self.suggestions.forget()

    def statistics_under(
        self, cluster: Cluster, budget: CacheBudget, key_filter: Filter | None
    ) -> StatisticsCache:
        """Return the statistics of the items that pass an API key's filter."""
        if key_filter is None:
            return self.statistics
        narrowed = self.narrowed.pop(key_filter, None)
        if narrowed is None:
            narrowed = StatisticsCache(cluster, budget, key_filter)
            if len(self.narrowed) >= KEY_FILTERS_REMEMBERED_MAX:
                self.narrowed.pop(next(iter(self.narrowed))).forget()
        self.narrowed[key_filter] = narrowed
        return narrowed

    def knows_path(self, path: str) -> bool:
        """Return whether any document has had a value at or below a path, as `knows_field`."""
        return self.statistics.existing_fields.knows(path) or path in self.configured_fields

    def knows_field(self, name: str) -> bool:
        """Return whether any document has had a filterable, sortable value in a field.

        Fields that the configuration names count as known.
        """
        return (
            name in self.configuration.facets
            or name in self.configuration.sorting_fields
            or name in self.statistics.existing_fields.kinds
        )


class IndexCaches:
    """The caches of all indexes that have been searched.

    Args:
        cluster: the shards.
        catalog: of the indexes; what it drops is forgotten.
        analyzer: folds words.
    """

    def __init__(self, cluster: Cluster, catalog: Catalog, analyzer: Analyzer) -> None:
        self._cluster = cluster
        self._analyzer = analyzer
        self._budget = CacheBudget()
        self._caches: dict[int, IndexCache] = {}
        catalog.on_change(lambda: self._forget_dropped(catalog))

    def of(self, index: Index) -> IndexCache:
        """Return the cache of an index under its current configuration."""
        cache = self._caches.get(index.number)
        if cache is None or cache.revision != index.revision:
            if cache is not None:
                cache.forget()
            rules = run_to_completion(
                compile_rules(
                    index.configuration.rules, index.configuration, self._analyzer, ACCEPTED
                )
            )
            cache = IndexCache(
                index.configuration,
                index.revision,
                QueryDictionary(index.configuration, self._analyzer),
                rules,
                narrowing_rules(rules),
                _configured_fields(index.configuration),
                StatisticsCache(self._cluster, self._budget),
                FacetCache(self._cluster, self._budget),
                SuggestionCache(self._budget),
                {},
            )
            self._caches[index.number] = cache
        return cache

    def statistics(self, cache: IndexCache, key_filter: Filter | None) -> StatisticsCache:
        """Return the statistics of the items that pass an API key's filter; None: of all items."""
        return cache.statistics_under(self._cluster, self._budget, key_filter)

    def stop_words(self, index: Index) -> frozenset[str]:
        """Return the folded words that items need not have."""
        return self.of(index).dictionary.stop_words

    def _forget_dropped(self, catalog: Catalog) -> None:
        """Drop the cached state of indexes that are no longer in the catalog."""
        existing = {index.number for index in catalog.indexes.values()}
        for number in [number for number in self._caches if number not in existing]:
            self._caches.pop(number).forget()


def _configured_fields(configuration: IndexConfiguration) -> frozenset[str]:
    return frozenset(
        (
            *configuration.facets,
            *configuration.sorting_fields,
            *configuration.geo_fields,
            *configuration.nested,
            *[one.path for one in configuration.searchable_fields or () if one.path != ALL_FIELDS],
        )
    )
