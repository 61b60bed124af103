"""Marks: the words of a text that a query matches, and where its phrases stand.

Only the best tier that the document has for a query word is marked, as only that counts in its
score: where "house" is found, "horse" is left alone. Phrases are marked where their words are
adjacent.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from common.analysis.analyzer import Token
from common.analysis.language_and_typos_by_field import Languages
from common.deadline import check_call
from common.query_syntax_tree import Word
from shard.query.scoring.bm25f import NUM_TIERS, weights_of_tiers
from shard.read.highlight_word_matching import QueryWords, alternatives_of

if TYPE_CHECKING:
    from common.protocol.messages import ScoredClause

_NO_TIER: Final = NUM_TIERS
"""Worse than every tier: no match."""


@dataclass(frozen=True, slots=True)
class SplitText:
    """One text of a document, split into words."""

    path: str
    encoded: bytes
    tokens: tuple[Token, ...]
    is_searched: bool
    end: int
    """End of the part that was split into words; there are no marks past it."""


class Mark(NamedTuple):
    """A word of a text that matches."""

    token: int
    """Its ordinal in the text."""
    clause: int
    """Which word or phrase of the query it matches."""
    weight: float
    """Of this clause."""


class _WeighedPhrase(NamedTuple):
    """A phrase whose words are marked where they are adjacent."""

    words: tuple[str, ...]
    is_prefix: bool
    weight: float


class Marker:
    """Finds the words of one query in texts."""

    def __init__(self, clauses: Sequence[ScoredClause], languages: Languages) -> None:
        self._languages = languages
        words: list[Word] = []
        self._weights: list[float] = []
        self._tier_weights: list[list[float]] = []
        self._phrases: list[_WeighedPhrase] = []
        for scored in clauses:
            clause = scored.clause
            if isinstance(clause, Word):
                weight = max(scored.weights[0], default=0.0)
                words.append(clause)
                self._weights.append(weight)
                self._tier_weights.append(weights_of_tiers(scored.weights[0]))
                phrases = [one for one in alternatives_of(clause) if len(one) > 1]
                self._phrases += [_WeighedPhrase(one, False, weight) for one in phrases]
            else:
                weight = sum(max(one, default=0.0) for one in scored.weights)
                self._phrases.append(_WeighedPhrase(clause.words, clause.is_prefix, weight))
        self._words = QueryWords(words)

    def best_tiers(self, texts: Sequence[SplitText]) -> list[int]:
        """Return, by word of the query, the best tier that the texts have."""
        best = [_NO_TIER] * len(self._weights)
        searched = [text for text in texts if text.is_searched]
        by_text = [dict.fromkeys(token.text for token in text.tokens) for text in searched]
        self._words.learn(itertools.chain.from_iterable(by_text))
        for text, terms in zip(searched, by_text, strict=True):
            field_class = self._languages.class_of(text.path)
            for term in terms:
                for i, tier in self._words.tiers(term, field_class):
                    # A tier without weight does not match: `house` for the known word `mouse`.
                    if self._tier_weights[i][tier] > 0:
                        best[i] = min(best[i], tier)
        return best

    def find(self, text: SplitText, tiers: Sequence[int]) -> list[Mark]:
        """Return the marks of a text, ascending.

        Args:
            text: one of those passed to `best_tiers`.
            tiers: the result of `best_tiers`.
        """
        if not text.is_searched:
            return []
        field_class = self._languages.class_of(text.path)
        weights = self._weights
        found = {
            Mark(ordinal, i, weights[i])
            for ordinal, token in enumerate(text.tokens)
            for i, tier in self._words.tiers(token.text, field_class)
            if tier <= tiers[i] and self._tier_weights[i][tier] > 0
        }
        if self._phrases:
            places = _Places(text.tokens)
            for number, phrase in enumerate(self._phrases, len(weights)):
                check_call()
                found.update(Mark(i, number, phrase.weight) for i in places.of_phrase(phrase))
        return sorted(found)


class _Places:
    """The positions of the words of a text."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._by_term: dict[str, list[int]] = defaultdict(list)
        for i, token in enumerate(tokens):
            self._by_term[token.text].append(i)

    def of_phrase(self, phrase: _WeighedPhrase) -> Iterator[int]:
        """Yield the ordinals of the tokens that are part of an occurrence of a phrase."""
        last = len(phrase.words) - 1
        starts: set[int] = set()
        ordinals: list[list[int]] = []
        for offset, word in enumerate(phrase.words):
            own = self._of_word(word, phrase.is_prefix and offset == last)
            positions = {self._tokens[i].position - offset for i in own}
            starts = starts & positions if offset else positions
            if not starts:
                return
            ordinals.append(own)
        for offset, own in enumerate(ordinals):
            for i in own:
                if self._tokens[i].position - offset in starts:
                    yield i

    def _of_word(self, word: str, is_prefix: bool) -> list[int]:
        """Return the ordinals of the tokens that equal a word, or begin with it."""
        if not is_prefix:
            return self._by_term.get(word, [])
        return [i for term, own in self._by_term.items() if term.startswith(word) for i in own]
