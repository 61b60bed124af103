"""What the coordinator caches of each index between searches; all of it can be fetched again.

    index number ─▶ IndexCache of its current configuration
                        ├─ stop words, synonyms, curation rules, folded once   (no round trip)
                        ├─ statistics of all items, and per filter of an API key
                        ├─ dictionaries and totals of facets
                        └─ suggestions

A cache belongs to one revision of the configuration; a change starts a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from common.analysis.analyzer import Analyzer
from common.curation_rules import Rule
from common.index_configuration import IndexConfiguration
from common.limits import Limits
from common.process.loop_scheduler import LoopScheduler, run_to_completion
from common.query import Filter
from coordinator.cluster.cache_budget import CacheBudget
from coordinator.cluster.catalog import Catalog, Index
from coordinator.cluster.cluster import Cluster
from coordinator.cluster.searched_state import now
from coordinator.parameters.curation import (
    ACCEPTED,
    CompiledRule,
    compile_rules,
    curated,
    narrowing_rules,
)
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.facets.facet_values_and_totals import FacetCache
from coordinator.read.suggest.suggestion_cache import SuggestionCache
from coordinator.read.text.query_parser import QueryDictionary, wanted_words
from coordinator.read.text.text_statistics_cache import StatisticsCache

KEY_FILTERS_REMEMBERED_MAX: Final = 32
"""Per index: API key filters whose statistics are kept."""
RULES_FAST_CHARS: Final = 2_048
"""Rules of a request whose texts are longer take more than half a millisecond to compile."""


class IndexCache(Struct, frozen=True):
    """Caches one index's read state between searches."""

    configuration: IndexConfiguration
    revision: int
    dictionary: QueryDictionary
    rules: tuple[CompiledRule, ...]
    narrowing_rules: tuple[CompiledRule, ...]
    """Those of them that leave items out for any query."""
    configured_fields: frozenset[str]
    """Facets, and fields to sort by, to search, or with points."""
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
        limits: on the rules that a request brings along.
    """

    def __init__(
        self, cluster: Cluster, catalog: Catalog, analyzer: Analyzer, limits: Limits
    ) -> None:
        self._cluster = cluster
        self._analyzer = analyzer
        self._limits = limits
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

    async def curated(
        self,
        index: Index,
        parameters: SearchParameters,
        timestamp: int,
        scheduler: LoopScheduler,
    ) -> tuple[SearchParameters, list[str]]:
        """Apply the curation rules that match a search; return the new search and their names.

        Args:
            index: to search.
            parameters: of the search.
            timestamp: now, in seconds since 1970.
            scheduler: lets long rules of a request yield the event loop.
        """
        if parameters.rules is None:
            rules: Sequence[CompiledRule] = self.of(index).rules
        else:
            steps = compile_rules(
                parameters.rules, index.configuration, self._analyzer, self._limits
            )
            is_long = _num_chars(parameters.rules) > RULES_FAST_CHARS
            rules = (
                await scheduler.run(index.number, steps) if is_long else run_to_completion(steps)
            )
        if not rules:
            return parameters, []
        # The words of a search for similar items are the item's, not the user's.
        query = parameters.query if parameters.similar_to is None else ""
        return curated(parameters, rules, wanted_words(query, self._analyzer), timestamp)

    def narrowed(self, index: Index, parameters: SearchParameters) -> SearchParameters:
        """Return a search without the items that the index's rules leave out for any query."""
        rules = self.of(index).narrowing_rules
        return curated(parameters, rules, (), now())[0] if rules else parameters

    def _forget_dropped(self, catalog: Catalog) -> None:
        """Drop the cached state of indexes that are no longer in the catalog."""
        existing = {index.number for index in catalog.indexes.values()}
        for number in [number for number in self._caches if number not in existing]:
            self._caches.pop(number).forget()


def _num_chars(rules: Sequence[Rule]) -> int:
    """Return how long the texts of rules are that have to be parsed."""
    return sum(
        [
            len(rule.query or "")
            + len(rule.filter or "")
            + sum([len(one.filter) for one in rule.factors])
            for rule in rules
        ]
    )


def _configured_fields(configuration: IndexConfiguration) -> frozenset[str]:
    return frozenset(
        (
            *configuration.facets,
            *configuration.sorting_fields,
            *configuration.geo_fields,
            *[one.path for one in configuration.searchable_fields or ()],
        )
    )
