"""Suggestions of facet values: those with words that begin with the typed ones.

A value whose text would exclude words if it were a query, such as -5, is left out: the text cannot
be changed, since it is also the value to filter by.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable
from functools import partial

from msgspec import structs

from coordinator.catalog.catalog import Index
from coordinator.cluster.searched_state import SearchedState
from coordinator.parameters.facet_specs import BucketOrder, FacetSpec, KeyTypos
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.read_services import ReadServices
from coordinator.read.scatter import Retrieval, SearchOutcome
from coordinator.read.suggest.folded_words_cache import FoldedWordsCache
from coordinator.read.suggest.suggestion_results import Suggestion
from coordinator.read.suggest.typed_text import TypedText
from coordinator.read.suggested_items import narrowing
from coordinator.read.text.query_pieces import without_exclusions


class SuggestedValues:
    """Finds facet values for a text.

    Args:
        services: what all kinds of searches share.
        folded: has the words of texts.
    """

    def __init__(self, services: ReadServices, folded: FoldedWordsCache) -> None:
        self._services = services
        self._folded = folded

    async def find(
        self,
        state: SearchedState,
        search: SearchParameters,
        typed: TypedText | None,
        size: int,
        counts: SearchOutcome | None = None,
        typos: KeyTypos = "never",
    ) -> tuple[list[Suggestion], SearchOutcome | None]:
        """Return values of facets, and the counts that they are from.

        Args:
            state: the state to search.
            search: as requested.
            typed: the text.
            size: how many values of each facet, at most.
            counts: of the facets, if already fetched.
            typos: when the words may have typos.
        """
        configuration = state.index.configuration
        names = facets_of(state.index)
        if (typed is None and search.query) or not names:
            return [], counts
        order = BucketOrder(hides_zero=True, hides_chosen_zero=True)
        specs = tuple(
            FacetSpec(
                dataclasses.replace(configuration.facets[name], size=size, hide_zero=True),
                order,
                search.query or None,
                key_typos=typos,
            )
            for name in names
        )
        counted = structs.replace(narrowing(search), facets=specs)
        if counts is None:
            counts = await self._counts(state, counted)
        facets = await self._services.facet_listing.listed(counted, counts.counted)
        found = [(facet.field, bucket) for facet in facets for bucket in facet.buckets]
        words = self._folded.words(search.query)
        if not found and words and typos == "never":
            cache = self._services.caches.of(state.index).suggestions
            cache.remember_no_values(state.horizon, search.filters, words)
        values = [
            Suggestion(bucket.key, "facet", bucket.doc_count, field)
            for field, bucket in found
            if without_exclusions(bucket.key) == bucket.key
        ]
        return sorted(values, key=lambda one: (-one.count, one.text, one.field or "")), counts

    def has_none(
        self, state: SearchedState, search: SearchParameters, typed: TypedText | None
    ) -> bool:
        """Return whether it is known that no facet has a value with the words as typed."""
        if (typed is None and search.query) or not facets_of(state.index):
            return True
        cache = self._services.caches.of(state.index).suggestions
        return cache.has_no_values(state.horizon, search.filters, self._folded.words(search.query))

    def _counts(self, state: SearchedState, counted: SearchParameters) -> Awaitable[SearchOutcome]:
        """Return the counts of a search's facets; known ones take no round trip."""
        retrieval = Retrieval(wants_total=False)
        counts = partial(self._services.scatter.search, counted, state, retrieval)
        return self._services.share.run(state.index.number, state.deadline, counts)


def facets_of(index: Index) -> tuple[str, ...]:
    """Return the facets whose values are suggested."""
    chosen = index.configuration.suggestions.facets
    return tuple(index.configuration.facets) if chosen is None else chosen
