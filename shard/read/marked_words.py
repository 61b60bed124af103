"""Marks: the words of a text that a query matches, and where its phrases stand.

Only the best tier that the document has for a query word is marked, as only that counts in its
score: where "house" is found, "horse" is left alone. Phrases are marked where their words are
adjacent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from common.analysis.field_classes import FieldClass, FieldClasses
from common.deadline import check_call
from common.query_syntax_tree import Word
from shard.query.scoring.bm25f import NUM_TIERS, weights_of_tiers
from shard.read.highlight_word_matching import QueryWords, SimilarTerm, alternatives_of
from shard.read.words_of_texts import NumberedVocabulary, Words, WordsOfTexts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import ScoredClause

_NO_TIER: Final = NUM_TIERS
"""Worse than every tier: no match."""


class SplitText(NamedTuple):
    """One text of a document, split into words."""

    path: str
    encoded: bytes
    words: Words
    is_searched: bool
    end: int
    """End of the part that was split into words; there are no marks past it."""


class Mark(NamedTuple):
    """A word of a text that matches."""

    word: int
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


@dataclass(slots=True)
class _Matches:
    """Which of the numbered words match, in fields of one class."""

    of: FieldClass
    """The class."""
    is_match: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """By number."""
    tiers: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By number: the words of the query that it matches, and in which tiers."""
    num_vocabularies: int = 0
    """How many of the marker's vocabularies were searched."""


MatchingWord: TypeAlias = tuple[int, list[tuple[int, int]]]
"""A word of a text, by its ordinal, with the words of the query it matches and in which tiers."""


class Marker:
    """Finds the words of one query in texts, which its `words` have split."""

    def __init__(self, clauses: Sequence[ScoredClause], classes: FieldClasses) -> None:
        self.words = WordsOfTexts()
        self._classes = classes
        self._num_learned = 0
        self._vocabularies: list[tuple[NumberedVocabulary, list[SimilarTerm]]] = []
        self._matches: dict[FieldClass, _Matches] = {}
        self._matches_by_path: dict[str, _Matches] = {}
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
        self._query_words = QueryWords(words)
        of_phrases = {word for phrase in self._phrases for word in phrase.words}
        beginnings = tuple(phrase.words[-1] for phrase in self._phrases if phrase.is_prefix)
        self._words_of_phrases = _WordsOfPhrases(of_phrases, beginnings)

    def matching_words(self, texts: Sequence[SplitText]) -> list[list[MatchingWord]]:
        """Return, by text, its words that match, ascending; all texts are looked at together."""
        found: list[list[MatchingWord]] = [[] for _ in texts]
        by_class: dict[FieldClass, list[int]] = defaultdict(list)
        for i, text in enumerate(texts):
            if text.is_searched:
                by_class[self._matches_in(text.path).of].append(i)
        for of, own in by_class.items():
            matches = self._matches[of]
            lengths = [len(texts[i].words.numbers) for i in own]
            begins = np.array([0, *accumulate(lengths)])
            numbers = np.concatenate([texts[i].words.numbers for i in own])
            at = matches.is_match[numbers].nonzero()[0]
            ranks = begins.searchsorted(at, "right") - 1
            tiers = matches.tiers
            for rank, ordinal, number in zip(
                ranks.tolist(), (at - begins[ranks]).tolist(), numbers[at].tolist(), strict=True
            ):
                found[own[rank]].append((ordinal, tiers[number]))
        return found

    def marks_of(
        self, texts: Sequence[SplitText], matching: Sequence[Sequence[MatchingWord]]
    ) -> list[list[Mark]]:
        """Return the marks of each of a document's texts, ascending.

        A word's best tier is taken over all of the texts, so that all of them mark alike.

        Args:
            texts: all that are shown of the document.
            matching: of each, the words that match.
        """
        best = [_NO_TIER] * len(self._weights)
        for words in matching:
            for _, tiers in words:
                for i, tier in tiers:
                    best[i] = min(best[i], tier)
        return [
            self._marks(text, words, best) if words or (self._phrases and text.is_searched) else []
            for text, words in zip(texts, matching, strict=True)
        ]

    def _marks(
        self, text: SplitText, matching: Sequence[MatchingWord], best: Sequence[int]
    ) -> list[Mark]:
        """Return the marks of a text, ascending.

        Args:
            text: the query looks into it.
            matching: its words that match.
            best: by word of the query, the tier that is marked.
        """
        weights = self._weights
        found = [
            Mark(ordinal, i, weights[i])
            for ordinal, tiers in matching
            for i, tier in tiers
            if tier <= best[i]
        ]
        if self._phrases:
            places = _Places(text.words, self.words.texts(), self._words_of_phrases)
            for number, phrase in enumerate(self._phrases, len(weights)):
                check_call()
                found += {Mark(i, number, phrase.weight) for i in places.of_phrase(phrase)}
        return sorted(found)

    def _matches_in(self, path: str) -> _Matches:
        """Return which words match in a field, among all that were split so far."""
        matches = self._matches_by_path.get(path)
        if matches is None:
            of = self._classes.class_of(path)
            matches = self._matches_by_path[path] = self._matches.setdefault(of, _Matches(of))
        if len(matches.is_match) < self.words.num_words:
            self._learn(matches)
        return matches

    def _learn(self, matches: _Matches) -> None:
        """Find which words match, in fields of one class, of those that were split since."""
        num_words = self.words.num_words
        if self._num_learned < num_words:
            vocabulary = self.words.vocabulary(self._num_learned)
            similar = self._query_words.similar(vocabulary.terms)
            self._vocabularies.append((vocabulary, similar))
            self._num_learned = num_words
        is_match = np.zeros(num_words, np.bool_)
        is_match[: len(matches.is_match)] = matches.is_match
        for (terms, numbers), similar in self._vocabularies[matches.num_vocabularies :]:
            for ordinal, tiers in self._query_words.matches(terms, similar, matches.of).items():
                # A tier without weight does not match: `house` for the known word `mouse`.
                kept = [(i, tier) for i, tier in tiers.items() if self._tier_weights[i][tier] > 0]
                if kept:
                    number = int(numbers[ordinal])
                    is_match[number] = True
                    matches.tiers[number] = kept
        matches.is_match = is_match
        matches.num_vocabularies = len(self._vocabularies)


class _WordsOfPhrases:
    """Which of the numbered words some phrase may have.

    Args:
        words: of the phrases.
        beginnings: of the words with which phrases end.
    """

    def __init__(self, words: Set[str], beginnings: tuple[str, ...]) -> None:
        self._words = words
        self._beginnings = beginnings
        self._is_one = np.zeros(0, np.bool_)

    def among(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return, by number, whether it is one; of the numbers so far."""
        known = len(self._is_one)
        if known < len(texts):
            words, beginnings = self._words, self._beginnings
            added = [one in words or one.startswith(beginnings) for one in texts[known:]]
            self._is_one = np.concatenate((self._is_one, np.array(added, np.bool_)))
        return self._is_one


class _Places:
    """The positions of those words of a text that phrases may have.

    Args:
        words: of the text.
        texts: of the words, by number.
        of_phrases: which they are.
    """

    def __init__(self, words: Words, texts: Sequence[str], of_phrases: _WordsOfPhrases) -> None:
        ordinals = np.flatnonzero(of_phrases.among(texts)[words.numbers])
        self._ordinals = ordinals.tolist()
        self._positions = words.positions[ordinals].tolist()
        self._by_term: dict[str, list[int]] = defaultdict(list)
        for i, number in enumerate(words.numbers[ordinals].tolist()):
            self._by_term[texts[number]].append(i)

    def of_phrase(self, phrase: _WeighedPhrase) -> Iterator[int]:
        """Yield the ordinals of the words that are part of an occurrence of a phrase."""
        last = len(phrase.words) - 1
        starts: set[int] = set()
        places: list[list[int]] = []
        for offset, word in enumerate(phrase.words):
            own = self._of_word(word, phrase.is_prefix and offset == last)
            positions = {self._positions[i] - offset for i in own}
            starts = starts & positions if offset else positions
            if not starts:
                return
            places.append(own)
        for offset, own in enumerate(places):
            for i in own:
                if self._positions[i] - offset in starts:
                    yield self._ordinals[i]

    def _of_word(self, word: str, is_prefix: bool) -> list[int]:
        """Return the places of the words that equal a word, or begin with it."""
        if not is_prefix:
            return self._by_term.get(word, [])
        return [i for term, own in self._by_term.items() if term.startswith(word) for i in own]
