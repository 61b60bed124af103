"""More like this: the words that best distinguish an item, as a query.

    item 42 ──▶ its searched words, with the weights of their fields
                    │ document frequencies over all shards
                    ▼
            the 25 words of greatest weight · idf ──▶ query, match 30 %, without item 42

The result is an ordinary search, so filters, facets, totals, pages and orders are exact as always.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from common.analysis.analyzer import Analyzer
from common.errors import NotFound
from common.json.strings_by_path import texts_of
from common.limits import Limits
from common.protocol.messages import FilterClause
from common.query_syntax_tree import Ids, Not, Or
from common.search_option_parsers import SearchableField
from common.term_weights import inverse_doc_freq
from coordinator.cluster.searched_state import SearchedState
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.search_results import RunSearch
from coordinator.read.text.completions_and_near_spellings import NearTerms, Scope

WORDS_MAX: Final = 25
"""Words of the query."""
CANDIDATES_MAX: Final = 256
"""Distinct words of an item whose frequencies are requested; those it has most often."""
TEXT_CHARS_MAX: Final = 20_000
"""Characters of an item that are split into words: the first ones of its searched fields."""
MATCH: Final = "30%"
"""How many of the words a similar item has."""


class SimilarItems:
    """Turns a search for items like one into a search for words.

    Args:
        near: counts words.
        search: reads the item.
        analyzer: splits its texts.
        limits: in force.
    """

    def __init__(
        self, near: NearTerms, search: RunSearch, analyzer: Analyzer, limits: Limits
    ) -> None:
        self._near = near
        self._search = search
        self._analyzer = analyzer
        self._limits = limits

    async def query_for(
        self,
        requested: SearchParameters,
        state: SearchedState,
        stop_words: frozenset[str],
        num_docs: int,
    ) -> SearchParameters:
        """Return the search for items like one: its most distinctive words, without itself.

        Args:
            requested: the search, with `similar_to`.
            state: the state to search.
            stop_words: of the index.
            num_docs: items that the caller can see; -1 if that is not known.

        Raises:
            NotFound: the caller can see no such item.
        """
        index, id = state.index, requested.similar_to
        assert id is not None, "the search is for items like one"
        key_filters = () if requested.key_filter is None else (FilterClause(requested.key_filter),)
        item = SearchParameters(
            only_ids=(id,),
            filters=key_filters,
            key_filter=requested.key_filter,
            rules=(),
            per_page=1,
            timeout_ms=state.deadline.remaining_ms,
        )
        found = await self._search(index, item, state.horizon)
        if not found.items:
            raise NotFound(
                f"there is no item {id.decode()!r} in index {index.name!r}",
                code="item_not_found",
                param="similar_to",
            )
        document = await asyncio.to_thread(orjson.loads, found.items[0])
        weights = weighted_words(document, requested.search_fields, self._analyzer, stop_words)
        filters = tuple([clause.filter for clause in key_filters])
        counts = await self._near.count(Scope(state, filters), [(word,) for word in weights])
        if num_docs < 0:
            everything = msgspec.structs.replace(item, only_ids=(), per_page=0)
            num_docs = (await self._search(index, everything, state.horizon)).total
        words_max = min(WORDS_MAX, self._limits.query_words_max)
        doc_freqs = dict(zip(weights, counts, strict=True))
        words = distinctive_words(weights, doc_freqs, num_docs, words_max)
        nothing = () if words else (FilterClause(Or(())),)
        return msgspec.structs.replace(
            requested,
            query=" ".join(words),
            match=MATCH,
            prefix="none",
            typo=0,
            filters=(*requested.filters, FilterClause(Not(Ids((id.decode(),)))), *nothing),
            did_you_mean=False,
        )


def weighted_words(
    document: Any,
    fields: Sequence[SearchableField] | None,
    analyzer: Analyzer,
    stop_words: frozenset[str],
) -> dict[str, float]:
    """Return an item's most frequent words, each with the weights of its occurrences.

    Args:
        document: the item.
        fields: that are searched; None: all.
        analyzer: splits texts.
        stop_words: left out.
    """
    weights: dict[str, float] = {}
    left = TEXT_CHARS_MAX
    for path, text in texts_of(document):
        weight = _weight(path, fields)
        if not weight or left <= 0:
            continue
        for token in analyzer.tokenize(text[:left]):
            if token.text not in stop_words:
                weights[token.text] = weights.get(token.text, 0.0) + weight
        left -= len(text)
    best = heapq.nsmallest(CANDIDATES_MAX, weights, key=lambda word: (-weights[word], word))
    return {word: weights[word] for word in best}


def distinctive_words(
    weights: Mapping[str, float], doc_freqs: Mapping[str, int], num_docs: int, words_max: int
) -> list[str]:
    """Return the words that best distinguish an item from others, best first.

    Args:
        weights: of the item's words.
        doc_freqs: items that have each word.
        num_docs: items of the index.
        words_max: how many words, at most.
    """
    # A word that only this item has finds nothing.
    shared: Iterable[str] = (word for word in weights if doc_freqs[word] > 1)
    scores = {word: weights[word] * inverse_doc_freq(doc_freqs[word], num_docs) for word in shared}
    return heapq.nsmallest(words_max, scores, key=lambda word: (-scores[word], word))


def _weight(path: str, fields: Sequence[SearchableField] | None) -> float:
    """Return the weight of a field, 0 if it is not searched; it covers what is inside it."""
    if fields is None:
        return 1.0
    for field in fields:
        if field.covered((path,)):
            return field.weight
    return 0.0
