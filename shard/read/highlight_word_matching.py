"""Which words of a query a word of a text matches, and how well: expansion, the other way round.

An expansion asks which terms of a vocabulary match a word. Here the terms are those of a few texts,
and for each of them the question is which words of the query it matches, by the same rules: as
typed, same stem in the field's language, synonym, spacing, prefix, typos.

Cost: some lookups for each distinct term, and 10 ns for it and each word that may have typos.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from common.analysis.language_and_typos_by_field import FieldClass
from common.analysis.stemmer import stem
from common.deadline import check_call
from common.query_syntax_tree import MatchKind, Word
from common.term_weights import CORRECTED_FORMS_MAX
from shard.query.scoring.bm25f import TIER_OF_KIND
from shard.segment.text.vocabulary import TERM_PADDING, Vocabulary, finish_vocabulary

_PREFIX_TIER: Final = TIER_OF_KIND[MatchKind.PREFIX]
_INFIX_TIER: Final = TIER_OF_KIND[MatchKind.INFIX]
_TYPO_TIER: Final = TIER_OF_KIND[MatchKind.TYPO_1]
_TIER_OF_DISTANCE: Final = (_PREFIX_TIER, _TYPO_TIER, TIER_OF_KIND[MatchKind.TYPO_2])


class QueryWords:
    """Finds the words of a query that a vocabulary term matches, and in which tiers.

    Terms are learned in batches: each then costs a few lookups, however many query words there are.
    """

    def __init__(self, words: Sequence[Word]) -> None:
        self._words = words
        self._same: dict[str, list[int]] = defaultdict(list)
        self._stems: dict[str, dict[str, list[int]]] = {}
        self._similar: dict[str, list[tuple[int, int, int]]] = {}
        self._known: dict[tuple[str, FieldClass], list[tuple[int, int]]] = {}
        for i, word in enumerate(words):
            alternatives = [one[0] for one in alternatives_of(word) if len(one) == 1]
            if not word.is_fragment:
                alternatives.insert(0, word.text)
            for text in dict.fromkeys(alternatives):
                self._same[text].append(i)

    def learn(self, terms: Iterable[str]) -> None:
        """Find which words the terms match as prefix or with typos."""
        unknown = sorted(term.encode() for term in set(terms).difference(self._similar))
        if not unknown:
            return
        vocabulary = _vocabulary_of(unknown)
        texts = [term.decode() for term in unknown]
        self._similar.update((text, []) for text in texts)
        for i, word in enumerate(self._words):
            if word.infix:
                inside = [term for term in texts if word.text in term]
                for term in inside:
                    self._similar[term].append((i, _INFIX_TIER, 0))
            if not word.typos and not word.is_prefix:
                continue
            check_call()
            ordinals, tiers = _find_similar(vocabulary, word, word.typos)
            if word.is_completed:
                tiers = [0 if tier == _PREFIX_TIER else tier for tier in tiers]
            needed = dict.fromkeys(ordinals, word.typos)
            for typos in sorted({*word.typos_by_group}, reverse=True):
                needed.update(dict.fromkeys(_find_similar(vocabulary, word, typos)[0], typos))
            for ordinal, tier in zip(ordinals, tiers, strict=True):
                term = texts[ordinal]
                if word.corrections and tier == _TYPO_TIER == TIER_OF_KIND[word.correction_kind]:
                    tier += term not in word.corrections
                self._similar[term].append((i, tier, needed[ordinal]))

    def tiers(self, term: str, of: FieldClass) -> Sequence[tuple[int, int]]:
        """Return the words that a learned term matches: (ordinal, tier).

        Tiers are 0 (typed, other form, synonym, spacing, completion), 1 (prefix), 2
        (inside), 3 and 4 (typos).
        """
        key = (term, of)
        tiers = self._known.get(key)
        if tiers is None:
            best: dict[int, int] = dict.fromkeys(self._same.get(term, ()), 0)
            if of.language is not None:
                best.update(dict.fromkeys(self._of_stem(term, of.language), 0))
                for i, tier in self._of_corrections(term, of):
                    best[i] = min(tier, best.get(i, tier))
            for i, tier, typos in self._similar[term]:
                allowed = self._words[i].typos_by_group
                if tier == _INFIX_TIER and not of.is_infix and self._words[i].infix != 2:
                    continue
                if not allowed or typos <= allowed[of.typos]:
                    best[i] = min(tier, best.get(i, tier))
            tiers = self._known[key] = list(best.items())
        return tiers

    def _of_stem(self, term: str, language: str) -> Sequence[int]:
        """Return the words that share a term's stem."""
        stems = self._stems.get(language)
        if stems is None:
            stems = self._stems[language] = defaultdict(list)
            for i, word in enumerate(self._words):
                if word.is_stemmed and not word.is_fragment:
                    stems[stem(word.text, language)].append(i)
        return stems.get(stem(term, language), ()) if stems else ()

    def _of_corrections(self, term: str, of: FieldClass) -> Iterator[tuple[int, int]]:
        """Yield the words with a correction that shares a term's stem: (ordinal, tier)."""
        assert of.language is not None, "without a language nothing has forms"
        for i, word in enumerate(self._words):
            allowed = word.typos_by_group
            if not word.corrections or (allowed and allowed[of.typos] < word.correction_typos):
                continue
            forms_of = word.corrections[:CORRECTED_FORMS_MAX]
            stems = {stem(correction, of.language) for correction in forms_of}
            if stem(term, of.language) in stems:
                yield i, TIER_OF_KIND[word.correction_kind]


def alternatives_of(word: Word) -> list[tuple[str, ...]]:
    """Return the synonyms and spacings of a word."""
    return list(dict.fromkeys([*word.synonyms, *word.spacings]))


def _find_similar(
    vocabulary: Vocabulary, word: Word, typos: int
) -> tuple[Sequence[int], list[int]]:
    """Return the terms that a word matches as prefix, or with so many typos, and their tiers."""
    if typos:
        found, distances = vocabulary.similar(word.text, typos, is_prefix=word.is_prefix)
        return found.tolist(), [_TIER_OF_DISTANCE[distance] for distance in distances.tolist()]
    ordinals = range(*vocabulary.prefix_range(word.text)) if word.is_prefix else range(0)
    return ordinals, [_PREFIX_TIER] * len(ordinals)


def _vocabulary_of(terms: Sequence[bytes]) -> Vocabulary:
    """Return the vocabulary of some terms in UTF-8, ascending and distinct."""
    starts = np.zeros(len(terms) + 1, np.int64)
    np.cumsum([len(term) for term in terms], out=starts[1:])
    joined = np.frombuffer(bytearray(b"".join(terms)) + bytes(TERM_PADDING), np.uint8)
    return Vocabulary(finish_vocabulary(joined, starts))
