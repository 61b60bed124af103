"""Suggestions for a search box: completions of the text as typed, with exact counts.

    tom ha   ──▶  word     tom hanks      31 items have both words; the last word is completed
                  field    Tom Hagen's …   1 item has all its words; a whole text of a field
                  facet    Tom Hanks      29 items have this value
                  search   tom hardy      12 items have both words; a frequent search

Every count is of the items that pass the filters, the key's among them, and those of the rules
for any query; nothing without such items is suggested. If nothing matches as typed, typos are
forgiven.

Cost: no shard is asked for a cached list (`SuggestionCache`), nor, usually, for one that follows
from what is known of a shorter prefix (`prefix_narrowing`). Others take two round trips, or one
where the counts are cached (`StatisticsCache`). Facet values are looked up in the coordinator's own
numbering, unless no value matched fewer letters; whole texts come from a search for the best items,
and words of the vocabulary (`text.completions_and_near_spellings`) along with it. As many items are
read as there are suggestions, and more only if these have too few different texts. Only what is
shown is counted: a whole text or a frequent search without items is rare, and makes room for the
next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from common.analysis.typo_budget import typo_budget
from common.deadline import Deadline
from common.protocol.messages import TermsRequest
from coordinator.analytics.search_analytics import Analytics
from coordinator.catalog.catalog import Index
from coordinator.cluster.searched_state import SearchedState, now
from coordinator.parameters.parsed_parameters import SearchParameters, SuggestParameters
from coordinator.read.curated_search import narrowed_search
from coordinator.read.read_services import ReadServices
from coordinator.read.suggest.best_text_of_item import best_texts_of_items
from coordinator.read.suggest.folded_words_cache import FoldedWordsCache
from coordinator.read.suggest.prefix_narrowing import (
    CompletionContext,
    KnownPrefix,
    LastWord,
    best_from,
    completions_from,
    last_word,
)
from coordinator.read.suggest.suggestion_cache import key_of
from coordinator.read.suggest.suggestion_results import UNCOUNTED, Suggestion, SuggestionPage
from coordinator.read.suggest.suggestion_sources import SuggestionSources
from coordinator.read.suggest.typed_text import TypedText, typed_text
from coordinator.read.suggested_items import SuggestedItems, search_for_items
from coordinator.read.suggested_values import SuggestedValues
from coordinator.read.text.completions_and_near_spellings import (
    NearTerm,
    NearTerms,
    Scope,
    first_request,
)
from coordinator.read.text.query_pieces import without_exclusions
from coordinator.read.text.query_respelling import Spelling, respelt

_COUNTED_WORDS_MAX: Final = 16
"""Longer texts are not suggested."""
_MORE: Final = 2
"""Candidates per requested suggestion, if the first ones do not suffice: some may be duplicates."""


class _Asked(Struct, frozen=True):
    """What is asked for."""

    scope: Scope
    """The items that count."""
    search: SearchParameters
    """The request's, with the text as its query."""
    typed: TypedText | None
    """The text; None if it has no words."""
    size: int
    """How many suggestions, at most."""

    @property
    def state(self) -> SearchedState:
        """The state to search."""
        return self.scope.state


class _Texts(Struct, frozen=True):
    """Whole texts of the best items."""

    found: list[Suggestion]
    are_as_typed: bool
    search: SearchParameters | None
    """The search that found the items; None if there are no more."""


class _Words(Struct, frozen=True):
    """The last word completed, or in another spelling."""

    found: list[Suggestion]
    are_as_typed: bool


class _Counted(Struct, frozen=True):
    """What is known about texts."""

    counts: dict[str, int]
    words: dict[str, tuple[str, ...]]
    """Folded."""


_NOTHING_KNOWN: Final = KnownPrefix(None, None)
_NO_TEXTS: Final = _Texts([], False, None)
_NO_WORDS: Final = _Words([], False)


class Suggestions:
    """Makes suggestions.

    Args:
        services: what all kinds of searches share.
        analytics: has the frequent searches.
    """

    def __init__(self, services: ReadServices, analytics: Analytics) -> None:
        self._services = services
        self._analytics = analytics
        self._near = NearTerms(services.cluster)
        self._spelling = Spelling(self._near)
        self._folded = FoldedWordsCache(services.analyzer)
        self._items = SuggestedItems(services)
        self._values = SuggestedValues(services, self._folded)

    async def suggest(self, index: Index, parameters: SuggestParameters) -> SuggestionPage:
        """Return suggestions for a text.

        Raises:
            InvalidRequest: a filter names a field without values.
            Unavailable: a shard is down or late.
            StaleRequest: the index changes configuration, or a shard was restarted.
        """
        search = narrowed_search(self._services, index, parameters.search)
        size = parameters.size
        parameters = structs.replace(parameters, search=search)
        deadline = Deadline.after_ms(search.timeout_ms)
        typed = typed_text(
            search.query, self._services.analyzer, self._services.limits.query_words_max
        )
        with self._services.cluster.reading(index.number) as horizon:
            searches = await self._searches(index, search, _MORE * size)
            cache = self._services.caches.of(index).suggestions
            key = key_of(parameters, searches)
            listed = cache.known(horizon, key)
            if listed is None:
                state = SearchedState(index, horizon, now(), deadline)
                scope = Scope(state, tuple([clause.filter for clause in search.filters]))
                listed = await self._made(_Asked(scope, search, typed, size), searches)
                cache.remember(horizon, key, listed)
            return SuggestionPage(listed, horizon)

    async def _made(self, asked: _Asked, searches: list[Suggestion]) -> list[Suggestion]:
        """Make the list of suggestions, frequent searches among them."""
        state, search, typed, size = asked.state, asked.search, asked.typed, asked.size
        values: list[Suggestion] = []
        counts = None
        if self._values.has_none(state, search, typed):
            texts, words = await self._texts_and_words(asked)
        else:
            (texts, words), (values, counts) = await asyncio.gather(
                self._texts_and_words(asked),
                self._values.find(state, search, typed, size),
            )
        if not (values or texts.are_as_typed or words.are_as_typed):
            values, _ = await self._values.find(
                state, search, typed, size, counts, typos="unless_typed"
            )
        sources = SuggestionSources(searches, texts.found, values, words.found)
        counted = _Counted({}, {})
        listed, lacks_texts = await self._listed(asked, sources, counted)
        if lacks_texts and texts.search is not None:
            all_items = structs.replace(texts.search, per_page=_MORE * size)
            best, _ = await self._items.find(state, all_items)
            found = self._whole_texts(asked, best.items)
            sources = structs.replace(sources, texts=found)
            listed, _ = await self._listed(asked, sources, counted)
        return listed

    async def _texts_and_words(self, asked: _Asked) -> tuple[_Texts, _Words]:
        """Return whole texts of the best items, and the last word completed."""
        state, typed, size = asked.state, asked.typed, asked.size
        completion = None if typed is None else self._completion(asked.scope, typed, size)
        best = search_for_items(state.index, asked.search, typed, size)
        known = self._known(asked)
        found, parts = known.best, None
        if best is not None and found is None:
            also = completion if known.completions is None else None
            num_spare = size // 2 if typed is not None and typed.is_open else 0
            found, parts = await self._items.find(state, best, also, num_spare)
        completions, are_all = known.completions, True
        if completion is not None and completions is None:
            terms = await self._near.find(asked.scope, completion, size, parts)
            completions, are_all = terms.terms, terms.are_all
        fresh = KnownPrefix(completions if are_all else None, found)
        self._remember(asked, known, fresh)
        if best is None or found is None:
            return _NO_TEXTS, await self._words(asked, completion, completions)
        items = found.items[:size]
        are_as_typed = bool(items)
        if items or typed is None:
            words = await self._words(asked, completion, completions)
        else:
            best = structs.replace(best, typo="auto")
            (near, _), words = await asyncio.gather(
                self._items.find(state, best),
                self._words(asked, completion, completions),
            )
            items = near.items
        texts = self._whole_texts(asked, items)
        more = best if len(items) == best.per_page else None
        return _Texts(texts, are_as_typed, more), words

    def _known(self, asked: _Asked) -> KnownPrefix:
        """Return what shorter prefixes of the last word say about it."""
        state, typed, size = asked.state, asked.typed, asked.size
        if typed is None:
            return _NOTHING_KNOWN
        cache = self._services.caches.of(state.index).suggestions
        last = typed.words[-1]
        shorter = cache.shorter(state.horizon, _context(asked.search, typed, size), last)
        if not shorter:
            return _NOTHING_KNOWN
        completions = completions_from(shorter.values(), last)
        word = self._last_word(state.index, asked.search, typed)
        best = None
        if word is not None:
            fields = state.index.configuration.suggestions.fields
            best = best_from(shorter, word, completions, fields, size, self._folded)
        return KnownPrefix(completions, best)

    def _remember(self, asked: _Asked, known: KnownPrefix, fresh: KnownPrefix) -> None:
        """Cache what the shards have answered about the last word, for longer ones.

        Args:
            asked: what for.
            known: what followed from shorter prefixes.
            fresh: what the shards have answered.
        """
        state, typed, size = asked.state, asked.typed, asked.size
        if typed is None or (known.completions is not None and known.best is not None):
            return
        if fresh.best is not None and self._last_word(state.index, asked.search, typed) is None:
            fresh = KnownPrefix(fresh.completions, None)
        if fresh.completions is not None or (
            fresh.best is not None and fresh.best.is_decided(size)
        ):
            cache = self._services.caches.of(state.index).suggestions
            context = _context(asked.search, typed, size)
            cache.remember_prefix(state.horizon, context, typed.words[-1], fresh)

    def _last_word(
        self, index: Index, search: SearchParameters, typed: TypedText
    ) -> LastWord | None:
        if not typed.is_open:
            return None
        dictionary = self._services.caches.of(index).dictionary
        return last_word(typed.words[-1], search, dictionary, index.configuration)

    async def _listed(
        self, asked: _Asked, sources: SuggestionSources, counted: _Counted
    ) -> tuple[list[Suggestion], bool]:
        """Return the best of each source in turn, with counts; none without items.

        And whether more whole texts could change the list.
        """
        counts, words, size = counted.counts, counted.words, asked.size
        while True:
            sources = sources.having_items(counts)
            listed, num_rows = sources.in_turn(size, words, self._folded)
            unknown = [one.text for one in listed if one.count == UNCOUNTED]
            unknown = [text for text in unknown if text not in counts]
            if not unknown:
                return [
                    structs.replace(one, count=counts[one.text]) if one.count == UNCOUNTED else one
                    for one in listed
                ], len(listed) < size or num_rows > len(sources.texts)
            counts.update(
                zip(
                    unknown,
                    await self._counts(asked.scope, [words[text] for text in unknown]),
                    strict=True,
                )
            )

    async def _counts(self, scope: Scope, texts: Sequence[tuple[str, ...]]) -> list[int]:
        """Return how many items have all words of each text; 0 of one with none or too many.

        The best items are the same for many texts. Counts without filters are cached until
        something is written.
        """
        sets = [tuple(sorted(set(words))) for words in texts]
        cache = self._services.caches.of(scope.state.index).statistics
        statistics = cache.at(scope.state.horizon)
        known = {} if scope.filters else statistics.num_items_with
        counted = [one for one in sets if 0 < len(one) <= _COUNTED_WORDS_MAX and one not in known]
        found = dict(zip(counted, await self._near.count(scope, counted), strict=True))
        counts = [found.get(one, known.get(one, 0)) for one in sets]
        if found and not scope.filters:
            cache.remember_counts(statistics, found)
        return counts

    def _whole_texts(self, asked: _Asked, items: Sequence[bytes]) -> list[Suggestion]:
        words = [] if asked.typed is None else asked.typed.words
        fields = asked.state.index.configuration.suggestions.fields
        return list(best_texts_of_items(items, words, fields, self._folded))

    # --- words

    def _completion(self, scope: Scope, typed: TypedText, size: int) -> TermsRequest | None:
        """Return the request for completions of the last word, given the other words."""
        if len(typed.tokens) > _COUNTED_WORDS_MAX:
            return None
        stop_words = self._services.caches.stop_words(scope.state.index)
        *before, last = typed.words
        others = [word for word in before if word not in stop_words]
        return first_request(scope, last, size, words=others, is_prefix=True)

    async def _words(
        self,
        asked: _Asked,
        completion: TermsRequest | None,
        completions: Sequence[NearTerm] | None,
    ) -> _Words:
        """Complete the last word.

        Args:
            asked: what for.
            completion: asks for completions.
            completions: the best first.
        """
        scope, typed, size = asked.scope, asked.typed, asked.size
        if typed is None or completion is None or completions is None:
            return _NO_WORDS
        *before, last = typed.words
        found = completions[:size]
        are_as_typed = bool(found)
        typos = typo_budget(last, asked.state.index.configuration.typo_lengths)
        if not found and typos:
            with_typos = structs.replace(completion, typos=typos)
            found = (await self._near.find(scope, with_typos, size)).terms[:size]
        if found:
            texts = [respelt(typed.text, typed.tokens, [*before, one.text]) for one in found]
            counted = zip(texts, found, strict=True)
            return _Words(
                [Suggestion(text, "word", one.count) for text, one in counted], are_as_typed
            )
        spelt = await self._spelling.corrected(
            scope,
            typed.words,
            is_last_open=typed.is_open,
            stop_words=self._services.caches.stop_words(asked.state.index),
            num_hits=0,
        )
        if spelt is None:
            return _NO_WORDS
        text = respelt(typed.text, typed.tokens, spelt.words)
        return _Words([Suggestion(text, "word", UNCOUNTED)], False)

    # --- searches

    async def _searches(
        self, index: Index, search: SearchParameters, num_max: int
    ) -> list[Suggestion]:
        """Return the most frequent searches, not counted yet; none that exclude words.

        None for a key with a filter: what others type may name items that it must not see.
        """
        if (
            not index.configuration.suggestions.searches
            or not self._analytics.is_on
            or search.key_filter is not None
        ):
            return []
        prefix = " ".join(search.query.casefold().split())
        listed = await self._analytics.searches_with(index.name, prefix)
        kept = [text for text in listed if without_exclusions(text) == text]
        return [Suggestion(text, "search", UNCOUNTED) for text in kept[:num_max]]


def _context(search: SearchParameters, typed: TypedText, size: int) -> CompletionContext:
    before = tuple(typed.words[:-1])
    return CompletionContext(before, search.filters, search.key_filter, size)
