"""Suggestions for a search box: completions of the text as typed, with exact counts.

    tom ha   ──▶  word     tom hanks      31 items have both words; the last word is completed
                  field    Tom Hagen's …   1 item has all its words; a whole text of a field
                  facet    Tom Hanks      29 items have this value
                  search   tom hardy      12 items have both words; a frequent search

Every count is of the items that pass the filters, the key's among them, and those of the rules
for any query; nothing without such items is suggested. If nothing matches as typed, typos are
forgiven.

Cost: no shard is asked for a cached list (`SuggestionMemory`), nor, mostly, for one that follows
from what is known of a shorter beginning (`beginnings`). Others take two round trips, or one where
the counts are cached (`StatisticsMemory`). Facets are looked up in the
coordinator's own numbering, unless no value matched fewer letters; whole texts come from a search
for the best items, and words of the vocabulary (`near_terms`) along with it. Only as many items as
suggestions are read, and more only if these have too few different texts. Only what is shown is
counted: a whole text or a frequent search that has no items is rare, and makes room for the next.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import orjson
from msgspec import Struct, structs

from common.analysis.analyzer import Analyzer, Token, typo_budget
from common.deadline import Deadline
from common.errors import InvalidRequest
from common.option_forms import SearchableField
from common.protocol.messages import SortKey, TermsRequest, TermsResponse
from coordinator.analytics.analytics import Analytics
from coordinator.cluster.catalog import Index
from coordinator.cluster.cluster import Cluster
from coordinator.parameters.typed import (
    BucketOrder,
    FacetSpec,
    KeyTypos,
    SearchParameters,
    SuggestParameters,
)
from coordinator.read.results import Suggestion, SuggestionPage
from coordinator.read.scatter import SearchOutcome
from coordinator.read.search import Search
from coordinator.read.suggest.beginnings import (
    Beginning,
    BestItems,
    CompletionContext,
    LastWord,
    best_from,
    completions_from,
    last_word,
)
from coordinator.read.suggest.folded_texts import FoldedTexts
from coordinator.read.suggest.memory import key_of
from coordinator.read.text.near_terms import NearTerm, NearTerms, Scope, first_request
from coordinator.read.text.query_parser import typed_words
from coordinator.read.text.spelling import Spelling, respelt

_COUNTED_WORDS_MAX: Final = 16
"""Longer texts are not suggested."""
_MORE: Final = 2
"""Candidates per requested suggestion, if the first ones do not suffice: some may be duplicates."""
_UNCOUNTED: Final = -1
"""Count of a suggestion that is not known yet."""


class _Sources(Struct, frozen=True):
    """What may be suggested, by source, the best first."""

    searches: list[Suggestion]
    texts: list[Suggestion]
    values: list[Suggestion]
    words: list[Suggestion]


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


_NOTHING_KNOWN: Final = Beginning(None, None)
_NO_TEXTS: Final = _Texts([], False, None)
_NO_WORDS: Final = _Words([], False)


class _Typed(Struct, frozen=True):
    """The text as typed, with its words."""

    text: str
    tokens: list[Token]
    is_open: bool
    """Whether the last word may be incomplete."""

    @property
    def words(self) -> list[str]:
        return [token.text for token in self.tokens]


class Suggestions:
    """Makes suggestions.

    Args:
        cluster: the shards.
        search: runs searches for whole texts and facet values.
        analytics: has the frequent searches.
    """

    def __init__(self, cluster: Cluster, search: Search, analytics: Analytics) -> None:
        self._cluster = cluster
        self._search = search
        self._analytics = analytics
        self._near = NearTerms(cluster)
        self._spelling = Spelling(self._near)
        self._analyzer = Analyzer()
        self._folded = FoldedTexts(self._analyzer)

    async def suggest(self, index: Index, parameters: SuggestParameters) -> SuggestionPage:
        """Return suggestions for a text.

        Raises:
            InvalidRequest: a filter names a field without values.
            Unavailable: a shard is down or late.
            ConfigurationSwitched: the index has changed configuration, or is about to.
        """
        search, size = self._search.narrowed(index, parameters.search), parameters.size
        parameters = structs.replace(parameters, search=search)
        deadline = Deadline.after_ms(search.timeout_ms)
        typed = self._typed(search.query)
        with self._cluster.reading(index.number) as horizon:
            searches = (await self._searches(index, search))[: _MORE * size]
            memory = self._search.suggestions(index)
            key = key_of(parameters, searches)
            listed = memory.known(horizon, key)
            if listed is None:
                scope = Scope(
                    index, horizon, tuple([clause.filter for clause in search.filters]), deadline
                )
                listed = await self._made(scope, search, typed, size, searches)
                memory.remember(horizon, key, listed)
            return SuggestionPage(listed, horizon)

    async def _made(
        self,
        scope: Scope,
        search: SearchParameters,
        typed: _Typed | None,
        size: int,
        searches: list[Suggestion],
    ) -> list[Suggestion]:
        """Make the list of suggestions, frequent searches among them."""
        values: list[Suggestion] = []
        counts = None
        if self._has_no_values(scope, search, typed):
            texts, words = await self._texts_and_words(scope, search, typed, size)
        else:
            (texts, words), (values, counts) = await asyncio.gather(
                self._texts_and_words(scope, search, typed, size),
                self._values(scope, search, typed, size),
            )
        if not (values or texts.are_as_typed or words.are_as_typed):
            values, _ = await self._values(scope, search, typed, size, counts, typos="unless_typed")
        sources = _Sources(searches, texts.found, values, words.found)
        counted = _Counted({}, {})
        listed, lacks_texts = await self._listed(scope, sources, size, counted)
        if lacks_texts and texts.search is not None:
            all_items = structs.replace(texts.search, per_page=_MORE * size)
            best, _ = await self._items(scope, all_items)
            found = list(self._whole_texts(scope, best.items, typed))
            sources = structs.replace(sources, texts=found)
            listed, _ = await self._listed(scope, sources, size, counted)
        return listed

    def _typed(self, text: str) -> _Typed | None:
        """Return the typed text; None where words are quoted or excluded, or there are none."""
        found = typed_words(text, self._analyzer)
        return None if found is None else _Typed(text, *found)

    async def _texts_and_words(
        self, scope: Scope, search: SearchParameters, typed: _Typed | None, size: int
    ) -> tuple[_Texts, _Words]:
        """Return whole texts of the best items, and the last word completed."""
        completion = None if typed is None else self._completion(scope, typed, size)
        best = _best_items(scope, search, typed, size)
        known = self._known(scope, search, typed, size)
        found, parts = known.best, None
        if best is not None and found is None:
            asked = completion if known.completions is None else None
            num_spare = size // 2 if typed is not None and typed.is_open else 0
            found, parts = await self._items(scope, best, asked, num_spare)
        completions, are_all = known.completions, True
        if completion is not None and completions is None:
            terms = await self._near.find(scope, completion, size, parts)
            completions, are_all = terms.terms, terms.are_all
        fresh = Beginning(completions if are_all else None, found)
        self._remember(scope, search, typed, size, known, fresh)
        if best is None or found is None:
            return _NO_TEXTS, await self._words(scope, typed, size, completion, completions)
        items = found.items[:size]
        are_as_typed = bool(items)
        if items or typed is None:
            words = await self._words(scope, typed, size, completion, completions)
        else:
            best = structs.replace(best, typo="auto")
            (near, _), words = await asyncio.gather(
                self._items(scope, best),
                self._words(scope, typed, size, completion, completions),
            )
            items = near.items
        texts = list(self._whole_texts(scope, items, typed))
        more = best if len(items) == best.per_page else None
        return _Texts(texts, are_as_typed, more), words

    def _known(
        self, scope: Scope, search: SearchParameters, typed: _Typed | None, size: int
    ) -> Beginning:
        """Return what shorter beginnings of the last word say about it."""
        if typed is None:
            return _NOTHING_KNOWN
        memory = self._search.suggestions(scope.index)
        last = typed.words[-1]
        shorter = memory.shorter(scope.horizon, _context(search, typed, size), last)
        if not shorter:
            return _NOTHING_KNOWN
        completions = completions_from(shorter.values(), last)
        word = self._last_word(scope, search, typed)
        best = None
        if word is not None:
            fields = scope.index.configuration.suggestions.fields
            best = best_from(shorter, word, completions, fields, size, self._folded)
        return Beginning(completions, best)

    def _remember(
        self,
        scope: Scope,
        search: SearchParameters,
        typed: _Typed | None,
        size: int,
        known: Beginning,
        fresh: Beginning,
    ) -> None:
        """Cache what the shards have answered about the last word, for longer ones."""
        if typed is None or (known.completions is not None and known.best is not None):
            return
        if fresh.best is not None and self._last_word(scope, search, typed) is None:
            fresh = Beginning(fresh.completions, None)
        if fresh.completions is not None or (
            fresh.best is not None and fresh.best.is_decided(size)
        ):
            memory = self._search.suggestions(scope.index)
            context = _context(search, typed, size)
            memory.remember_beginning(scope.horizon, context, typed.words[-1], fresh)

    def _last_word(self, scope: Scope, search: SearchParameters, typed: _Typed) -> LastWord | None:
        if not typed.is_open:
            return None
        dictionary = self._search.dictionary(scope.index)
        return last_word(typed.words[-1], search, dictionary, scope.index.configuration)

    async def _listed(
        self, scope: Scope, sources: _Sources, size: int, counted: _Counted
    ) -> tuple[list[Suggestion], bool]:
        """Return the best of each source in turn, with counts; none without items.

        And whether more whole texts could change the list.
        """
        counts, words = counted.counts, counted.words
        while True:
            sources = _having_items(sources, counts)
            listed, num_rows = self._in_turn(sources, size, words)
            unknown = [one.text for one in listed if one.count == _UNCOUNTED]
            unknown = [text for text in unknown if text not in counts]
            if not unknown:
                return [
                    structs.replace(one, count=counts[one.text]) if one.count == _UNCOUNTED else one
                    for one in listed
                ], len(listed) < size or num_rows > len(sources.texts)
            counts.update(
                zip(
                    unknown,
                    await self._counts(scope, [words[text] for text in unknown]),
                    strict=True,
                )
            )

    async def _counts(self, scope: Scope, texts: Sequence[tuple[str, ...]]) -> list[int]:
        """Return how many items have all words of each text; 0 of one with none or too many.

        The best items are the same for many texts. Counts without filters are cached until
        something is written.
        """
        sets = [tuple(sorted(set(words))) for words in texts]
        memory = self._search.statistics(scope.index)
        statistics = memory.at(scope.horizon)
        known = {} if scope.filters else statistics.num_items_with
        counted = [one for one in sets if 0 < len(one) <= _COUNTED_WORDS_MAX and one not in known]
        found = dict(zip(counted, await self._near.count(scope, counted), strict=True))
        counts = [found.get(one, known.get(one, 0)) for one in sets]
        if found and not scope.filters:
            memory.remember_counts(statistics, found)
        return counts

    def _in_turn(
        self, sources: _Sources, size: int, words: dict[str, tuple[str, ...]]
    ) -> tuple[list[Suggestion], int]:
        """Return the best of each source in turn, each text once; note their folded words.

        And how many of each source were considered.
        """
        listed: dict[tuple[str, ...], Suggestion] = {}
        num_rows = 0
        for num_rows, row in enumerate(zip_longest(*structs.astuple(sources)), 1):
            for one in row:
                if one is None:
                    continue
                if one.text not in words:
                    words[one.text] = self._folded.words(one.text)
                listed.setdefault(words[one.text] or (one.text,), one)
                if len(listed) == size:
                    return list(listed.values()), num_rows
        return list(listed.values()), num_rows

    # --- words

    def _completion(self, scope: Scope, typed: _Typed, size: int) -> TermsRequest | None:
        """Return the request for completions of the last word, given the other words."""
        if len(typed.tokens) > _COUNTED_WORDS_MAX:
            return None
        stop_words = self._search.stop_words(scope.index)
        *before, last = typed.words
        others = [word for word in before if word not in stop_words]
        return first_request(scope, last, size, words=others, is_prefix=True)

    async def _words(
        self,
        scope: Scope,
        typed: _Typed | None,
        size: int,
        completion: TermsRequest | None,
        completions: Sequence[NearTerm] | None,
    ) -> _Words:
        """Complete the last word.

        Args:
            scope: the items that count.
            typed: the text.
            size: how many suggestions, at most.
            completion: asks for completions.
            completions: the best first.
        """
        if typed is None or completion is None or completions is None:
            return _NO_WORDS
        *before, last = typed.words
        found = completions[:size]
        are_as_typed = bool(found)
        typos = typo_budget(last, scope.index.configuration.typo_lengths)
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
            stop_words=self._search.stop_words(scope.index),
            num_hits=0,
        )
        if spelt is None:
            return _NO_WORDS
        text = respelt(typed.text, typed.tokens, spelt.words)
        return _Words([Suggestion(text, "word", _UNCOUNTED)], False)

    # --- texts, values, searches

    async def _items(
        self,
        scope: Scope,
        parameters: SearchParameters,
        terms: TermsRequest | None = None,
        num_spare: int = 0,
    ) -> tuple[BestItems, list[TermsResponse]]:
        """Return the items of a search, and words that are listed along with it.

        Popularity mostly decides alone; then the scores, which cost a round trip, do not matter.

        Args:
            scope: the items that count.
            parameters: of the search.
            terms: asks for the words.
            num_spare: items beyond the page, for longer beginnings, if popularity decides.
        """
        doubts = self._search.suggestions(scope.index).doubts
        terms_found: list[TermsResponse] = []
        if parameters.sort and parameters.typo == 0 and not doubts.are_frequent:
            num_shown = parameters.per_page
            unscored = structs.replace(
                parameters, needs_scores=False, per_page=num_shown + num_spare
            )
            best, terms_found = await self._found(scope, unscored, terms)
            is_doubtful = best.is_doubtful(num_shown)
            doubts.note(is_doubtful=is_doubtful and bool(best.items))
            if not is_doubtful:
                return best, terms_found
            terms = None
        best, others = await self._found(scope, parameters, terms)
        return best, terms_found or others

    async def _found(
        self, scope: Scope, parameters: SearchParameters, terms: TermsRequest | None
    ) -> tuple[BestItems, list[TermsResponse]]:
        """Run a search for items."""
        parameters = structs.replace(parameters, timeout_ms=scope.deadline.remaining_ms)
        try:
            return await self._search.items_and_terms(scope.index, parameters, scope.horizon, terms)
        except InvalidRequest as error:
            if error.code != "unknown_sort_field":
                raise
            # No item has the configured popularity yet.
            unsorted = structs.replace(parameters, sort=(), needs_scores=True)
            return await self._search.items_and_terms(scope.index, unsorted, scope.horizon, terms)

    def _whole_texts(
        self, scope: Scope, items: Iterable[bytes], typed: _Typed | None
    ) -> Iterator[Suggestion]:
        """Yield, for each item, the text that has most of the typed words; each once."""
        fields = scope.index.configuration.suggestions.fields
        seen = set()
        typed_words = [] if typed is None else typed.words
        for item in items:
            document = orjson.loads(item)
            texts = [(name, text) for name in fields for text in _texts_at(document, name)]
            if not texts:
                continue
            name, text = texts[0]
            if len(texts) > 1:
                name, text = max(texts, key=lambda one: self._num_found(one[1], typed_words))
            if text not in seen:
                seen.add(text)
                yield Suggestion(text, "field", _UNCOUNTED, name)

    def _num_found(self, text: str, typed_words: Sequence[str]) -> int:
        """Return how many typed words some word of a text begins with."""
        if not typed_words:
            return 0
        words = self._folded.words(text)
        return sum(any(word.startswith(one) for word in words) for one in typed_words)

    async def _values(
        self,
        scope: Scope,
        search: SearchParameters,
        typed: _Typed | None,
        size: int,
        counts: SearchOutcome | None = None,
        typos: KeyTypos = "never",
    ) -> tuple[list[Suggestion], SearchOutcome | None]:
        """Return values of facets, and the counts that they are from.

        Args:
            scope: the items that count.
            search: as requested.
            typed: the text.
            size: how many values of each facet, at most.
            counts: of the facets, if already fetched.
            typos: when the words may have typos.
        """
        configuration = scope.index.configuration
        names = _facets_of(scope.index)
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
        counted = structs.replace(_narrowing(scope, search), facets=specs)
        if counts is None:
            counts = await self._search.facet_counts(scope.index, counted, scope.horizon)
        found = [
            Suggestion(bucket.key, "facet", bucket.doc_count, facet.field)
            for facet in await self._search.facets(counted, counts)
            for bucket in facet.buckets
        ]
        words = self._folded.words(search.query)
        if not found and words and typos == "never":
            memory = self._search.suggestions(scope.index)
            memory.remember_no_values(scope.horizon, search.filters, words)
        return sorted(found, key=lambda one: (-one.count, one.text, one.field or "")), counts

    def _has_no_values(self, scope: Scope, search: SearchParameters, typed: _Typed | None) -> bool:
        """Return whether it is known that no facet has a value with the words as typed."""
        if (typed is None and search.query) or not _facets_of(scope.index):
            return True
        memory = self._search.suggestions(scope.index)
        return memory.has_no_values(scope.horizon, search.filters, self._folded.words(search.query))

    async def _searches(self, index: Index, search: SearchParameters) -> list[Suggestion]:
        """Return frequent searches, not counted yet.

        None for a key with a filter: what others type may name items that it must not see.
        """
        if (
            not index.configuration.suggestions.searches
            or not self._analytics.is_on
            or search.key_filter is not None
        ):
            return []
        beginning = " ".join(search.query.casefold().split())
        listed = await self._analytics.searches_with(index.name, beginning)
        return [Suggestion(text, "search", _UNCOUNTED) for text in listed]


def _facets_of(index: Index) -> tuple[str, ...]:
    """Return the facets whose values are suggested."""
    chosen = index.configuration.suggestions.facets
    return tuple(index.configuration.facets) if chosen is None else chosen


def _having_items(sources: _Sources, counts: Mapping[str, int]) -> _Sources:
    """Leave out what is known to have no items."""
    return _Sources(
        *[
            [one for one in source if one.count != _UNCOUNTED or counts.get(one.text) != 0]
            for source in structs.astuple(sources)
        ]
    )


def _context(search: SearchParameters, typed: _Typed, size: int) -> CompletionContext:
    before = tuple(typed.words[:-1])
    return CompletionContext(before, search.filters, search.key_filter, size)


def _narrowing(scope: Scope, search: SearchParameters) -> SearchParameters:
    """Return a search for the items that count, without hits."""
    return structs.replace(
        search,
        timeout_ms=scope.deadline.remaining_ms,
        query="",
        per_page=0,
        facets=(),
        is_strict=True,
        rules=(),
        boosts=(),
        did_you_mean=False,
    )


def _best_items(
    scope: Scope, search: SearchParameters, typed: _Typed | None, size: int
) -> SearchParameters | None:
    """Return a search for the best items that have the words; None if no texts are suggested."""
    settings = scope.index.configuration.suggestions
    if not settings.fields or (typed is None and search.query):
        return None
    if typed is None and settings.popularity is None:
        return None  # nothing is typed, and no item is better than another
    found = structs.replace(
        _narrowing(scope, search),
        query=search.query,
        match="all",
        typo=0,
        search_fields=tuple(SearchableField(name, 1.0) for name in settings.fields),
        per_page=size,
    )
    if settings.popularity is None:
        return found
    return structs.replace(found, sort=(SortKey(settings.popularity, True),))


def _texts_at(value: Any, path: str) -> Iterator[str]:
    """Yield the texts at a path of a document, those in arrays one by one."""
    if isinstance(value, list):
        for one in value:
            yield from _texts_at(one, path)
    elif path == "" and isinstance(value, str):
        yield value
    elif path and isinstance(value, dict):
        if path in value:
            yield from _texts_at(value[path], "")
        head, _, tail = path.partition(".")
        if tail and head in value:
            yield from _texts_at(value[head], tail)
