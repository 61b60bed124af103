"""Which words of a query the words of some texts match, and how well.

As in a search, the question is which terms of a vocabulary match a word, by the same rules: as
typed, same stem in the field's language, synonym, spacing, prefix, typos. But the vocabulary is
that of a few texts, so stems are not listed beforehand: what begins like the word is stemmed.

Cost: some lookups for each word of the query, and 10 ns for each term and each word that may have
typos.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from common.analysis.field_classes import FieldClass
from common.analysis.stemmer import stem, stem_all, stem_prefixes
from common.deadline import check_call
from common.query_syntax_tree import MatchKind, Word
from common.term_weights import CORRECTED_FORMS_MAX
from shard.query.scoring.bm25f import TIER_OF_KIND
from shard.segment.text.vocabulary import Vocabulary

_PREFIX_TIER: Final = TIER_OF_KIND[MatchKind.PREFIX]
_INFIX_TIER: Final = TIER_OF_KIND[MatchKind.INFIX]
_TYPO_TIER: Final = TIER_OF_KIND[MatchKind.TYPO_1]
_TIER_OF_DISTANCE: Final = (_PREFIX_TIER, _TYPO_TIER, TIER_OF_KIND[MatchKind.TYPO_2])


class SimilarTerm(NamedTuple):
    """A term that a word of the query matches inside, as prefix or with typos."""

    ordinal: int
    word: int
    """Its ordinal in the query."""
    tier: int
    typos: int
    """How many typos a field must allow."""


class QueryWords:
    """Finds the terms of a vocabulary that match the words of a query, and in which tiers."""

    def __init__(self, words: Sequence[Word]) -> None:
        self._words = words
        self._same: dict[str, list[int]] = defaultdict(list)
        self._stems: dict[FieldClass, dict[str, list[tuple[int, int]]]] = {}
        self._beginnings: dict[FieldClass, tuple[str, ...]] = {}
        for i, word in enumerate(words):
            alternatives = [one[0] for one in alternatives_of(word) if len(one) == 1]
            if not word.is_fragment:
                alternatives.insert(0, word.text)
            for text in dict.fromkeys(alternatives):
                self._same[text].append(i)

    def similar(self, vocabulary: Vocabulary) -> list[SimilarTerm]:
        """Return the terms that words match inside, as prefix or with typos, in whatever field."""
        similar: list[SimilarTerm] = []
        for i, word in enumerate(self._words):
            if word.infix:
                terms = vocabulary.terms(0, len(vocabulary))
                similar += [
                    SimilarTerm(ordinal, i, _INFIX_TIER, 0)
                    for ordinal, term in enumerate(terms)
                    if word.text in term
                ]
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
                if word.corrections and tier == _TYPO_TIER == TIER_OF_KIND[word.correction_kind]:
                    tier += vocabulary.term(ordinal) not in word.corrections
                similar.append(SimilarTerm(ordinal, i, tier, needed[ordinal]))
        return similar

    def matches(
        self, vocabulary: Vocabulary, similar: Sequence[SimilarTerm], of: FieldClass
    ) -> dict[int, dict[int, int]]:
        """Return, by ordinal, the terms that match words in fields of a class: tiers by word.

        Tiers are 0 (typed, other form, synonym, spacing, completion), 1 (prefix), 2 (inside), 3 and
        4 (typos).

        Args:
            vocabulary: of the texts.
            similar: what `similar` returned for it.
            of: the class.
        """
        best: dict[int, dict[int, int]] = defaultdict(dict)
        ordinals = vocabulary.find_all(self._same)
        for ordinal, words in zip(ordinals, self._same.values(), strict=True):
            if ordinal >= 0:
                best[ordinal] = dict.fromkeys(words, 0)
        for ordinal, words_of_stem in self._forms(vocabulary, of):
            tiers = best[ordinal]
            for i, tier in words_of_stem:
                tiers[i] = min(tier, tiers.get(i, tier))
        for ordinal, i, tier, typos in similar:
            allowed = self._words[i].typos_by_group
            if tier == _INFIX_TIER and not of.is_infix and self._words[i].infix != 2:
                continue
            if not allowed or typos <= allowed[of.typos]:
                tiers = best[ordinal]
                tiers[i] = min(tier, tiers.get(i, tier))
        return best

    def _forms(
        self, vocabulary: Vocabulary, of: FieldClass
    ) -> list[tuple[int, list[tuple[int, int]]]]:
        """Return the ordinals of terms that are forms of words, and these with their tiers."""
        by_stem = self._by_stem(of)
        if not by_stem or of.language is None:
            return []
        terms: dict[int, str] = {}
        for beginning in self._beginnings[of]:
            first, last = vocabulary.prefix_range(beginning)
            if first < last:
                terms.update(enumerate(vocabulary.terms(first, last), first))
        roots = stem_all(list(terms.values()), of.language)
        return [
            (ordinal, by_stem[root])
            for ordinal, root in zip(terms, roots, strict=True)
            if root in by_stem
        ]

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
                {
                    beginning
                    for root in stems
                    for beginning in stem_prefixes(root, of.language) or (root,)
                }
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
