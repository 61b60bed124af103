"""Which words of a query a word of a text matches, and how well: expansion, the other way round.

An expansion asks which terms of a vocabulary match a word. Here the terms are those of a few texts,
and for each of them the question is which words of the query it matches, by the same rules: as
typed, same stem in the field's language, synonym, spacing, prefix, typos.

Cost: some lookups for each distinct term, and 10 ns for it and each word that may have typos.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from common.analysis.field_classes import FieldClass
from common.analysis.stemmer import stem, stem_all, stem_prefixes
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

    Terms are learned in batches, each of them once; then each costs a few lookups, however many
    query words there are.
    """

    def __init__(self, words: Sequence[Word]) -> None:
        self._words = words
        self._same: dict[str, list[int]] = defaultdict(list)
        self._stems: dict[FieldClass, dict[str, list[tuple[int, int]]]] = {}
        self._beginnings: dict[FieldClass, tuple[str, ...]] = {}
        self._similar: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        self._have_similar = any(word.infix or word.typos or word.is_prefix for word in words)
        for i, word in enumerate(words):
            alternatives = [one[0] for one in alternatives_of(word) if len(one) == 1]
            if not word.is_fragment:
                alternatives.insert(0, word.text)
            for text in dict.fromkeys(alternatives):
                self._same[text].append(i)

    def learn(self, terms: Iterable[str]) -> None:
        """Find which words the terms, all of them new, match inside, as prefix or with typos."""
        texts = sorted(terms) if self._have_similar else []
        if not texts:
            return
        vocabulary = _vocabulary_of([term.encode() for term in texts])
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

    def matches(
        self, terms: Sequence[str], of: FieldClass
    ) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Yield the ordinals of those of some learned terms that match a word, with (word, tier).

        Tiers are 0 (typed, other form, synonym, spacing, completion), 1 (prefix), 2 (inside), 3 and
        4 (typos).
        """
        same, similar, by_stem = self._same, self._similar, self._by_stem(of)
        stems: dict[str, str] = {}
        if by_stem and of.language is not None:
            forms = [term for term in terms if term.startswith(self._beginnings[of])]
            roots = zip(forms, stem_all(forms, of.language), strict=True)
            stems = {form: root for form, root in roots if root in by_stem}
        matching = {*same, *similar, *stems}
        for ordinal, term in enumerate(terms):
            if term not in matching:
                continue
            best: dict[int, int] = dict.fromkeys(same.get(term, ()), 0)
            for i, tier in by_stem[stems[term]] if term in stems else ():
                best[i] = min(tier, best.get(i, tier))
            for i, tier, typos in similar.get(term, ()):
                allowed = self._words[i].typos_by_group
                if tier == _INFIX_TIER and not of.is_infix and self._words[i].infix != 2:
                    continue
                if not allowed or typos <= allowed[of.typos]:
                    best[i] = min(tier, best.get(i, tier))
            if best:
                yield ordinal, list(best.items())

    def _by_stem(self, of: FieldClass) -> Mapping[str, list[tuple[int, int]]]:
        """Return, by stem, the words of which a term with it is a form: (ordinal, tier).

        It is a form of the word as typed, or of one of its corrections.
        """
        if of.language is None:
            return {}
        stems = self._stems.get(of)
        if stems is None:
            stems = self._stems[of] = defaultdict(list)
            for i, word in enumerate(self._words):
                if word.is_stemmed and not word.is_fragment:
                    stems[stem(word.text, of.language)].append((i, 0))
                allowed = word.typos_by_group
                if word.corrections and not (allowed and allowed[of.typos] < word.correction_typos):
                    forms_of = word.corrections[:CORRECTED_FORMS_MAX]
                    for root in {*stem_all(forms_of, of.language)}:
                        stems[root].append((i, TIER_OF_KIND[word.correction_kind]))
            self._beginnings[of] = tuple(
                beginning
                for root in stems
                for beginning in stem_prefixes(root, of.language) or (root,)
            )
        return stems


def alternatives_of(word: Word) -> list[tuple[str, ...]]:
    """Return the synonyms and spacings of a word."""
    return list(dict.fromkeys([*word.synonyms, *word.spacings]))


def _find_similar(
    vocabulary: Vocabulary, word: Word, typos: int
) -> tuple[Sequence[int], list[int]]:
    """Return the terms that a word matches as prefix, or with this many typos, and their tiers."""
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
