"""The segment-independent part of a text query, computed once per search.

tiers    the best in which a document can match all words, the worst in which some word can
step     what one tier is worth: a power of two above any sum of clauses
pairs    the words that score proximity, and the weights of the pairs
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.analysis.analyzer import is_run
from common.query_syntax_tree import MatchKind, Phrase, Word
from common.term_weights import WHOLE_FIELD_FACTOR
from shard.query.proximity.occurrences import WORDS_MAX
from shard.query.proximity.proximity_scores import CHAIN_MAX, RUN_PAIR_FACTOR, proximity_bound
from shard.query.scoring.bm25f import NUM_TIERS, SCORE_UNIT, TIER_OF_KIND

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.analysis.field_classes import FieldClasses
    from common.protocol.messages import ScoredClause, TextQuery
    from shard.query.pruning.kept_words import KeptWord
    from shard.query.terms.expansion import Expansion
    from shard.segment.field_registry import FieldRegistry


_INFIX_TIER: Final = TIER_OF_KIND[MatchKind.INFIX]
_RANKS: Final = np.arange(NUM_TIERS)
_RANKS_WITHOUT_INFIX: Final = _RANKS - (_RANKS > _INFIX_TIER)
_EXACT_END: Final = 2.0**53
"""Doubles tell integers below this apart."""


class ProximityPairs(NamedTuple):
    """The words that proximity looks at, and the weight of each word with the next."""

    words: list[Word]
    weights: NDArray[np.float64]


class PreparedQuery:
    """A text query and the values that depend on it alone.

    Args:
        query: with the weights that the coordinator derived.
        registry: of the shard's field numbers.
        classes: of the fields, by the configuration.

    Attributes:
        needs_all: whether every clause must match.
        best_tier: the best tier in which a document can match all clauses.
        worst_tier: the worst tier in which some clause can match.
        ranks: by tier, how many steps it is below the best; in a query that looks inside words for
            nothing their tier takes no step, so that scores are the same with and without it.
        pairs: the pairs of words that score proximity, or None if none does.
        bonus_max: more than any document's proximity score, in units of 2^-32.
        whole_bonus: score of a field that is the query, in units of 2^-32.
        expansions: the terms of words, by segment, word and worst tier: segments do not cache those
            of a few letters, which the steps of a search look up several times.
        kept_words: what this search has asked for of the words that are kept.
    """

    __slots__ = (
        "_step",
        "best_tier",
        "bonus_max",
        "classes",
        "expansions",
        "kept_words",
        "needs_all",
        "pairs",
        "query",
        "ranks",
        "registry",
        "whole_bonus",
        "worst_tier",
    )

    def __init__(self, query: TextQuery, registry: FieldRegistry, classes: FieldClasses) -> None:
        self.query = query
        self.registry = registry
        self.classes = classes
        self.needs_all = query.required >= len(query.clauses)
        self.best_tier, self.worst_tier, looks_inside = tiers_of(query)
        self.ranks: NDArray[np.int64] = _RANKS if looks_inside else _RANKS_WITHOUT_INFIX
        self._step = 0
        self.whole_bonus = 0
        if query.whole:
            self.whole_bonus = int(WHOLE_FIELD_FACTOR * _greatest(query) * SCORE_UNIT)
        self.pairs = proximity_pairs(query)
        self.expansions: dict[tuple[int, Word, int], Expansion] = {}
        self.kept_words: dict[Hashable, KeptWord | None] = {}
        self.bonus_max = 0
        if self.pairs is not None:
            # A little above the greatest proximity score, so that rounding cannot prune a document.
            greatest = query.proximity * proximity_bound(self.pairs.weights)
            self.bonus_max = int(greatest * (1.0 + 1e-9) * SCORE_UNIT) + 1

    @property
    def tiers(self) -> list[int]:
        """The tiers that documents can have, best first."""
        tiers = range(self.best_tier, self.worst_tier + 1)
        return [one for one in tiers if one != _INFIX_TIER or self.ranks is _RANKS]

    @property
    def step(self) -> int:
        """What a tier, or a leading clause, is worth, in units of 2^-32; computed on first use."""
        if not self._step:
            self._step = tier_step(self.query)
        return self._step

    @property
    def has_exact_scores(self) -> bool:
        """Whether doubles hold all scores: those of some hundred leading clauses may be beyond."""
        clauses = self.query.clauses
        return not self.query.is_leading or self.step * len(clauses) < _EXACT_END


def phrase_words(phrase: Phrase) -> list[Word]:
    """Return the words of a phrase as typed; the last one may be half typed."""
    last = len(phrase.words) - 1
    return [
        Word(word, phrase.is_prefix and i == last, is_stemmed=False)
        for i, word in enumerate(phrase.words)
    ]


def phrase_weight(weights: Sequence[Sequence[float]]) -> float:
    """Return the weight of a phrase: the sum of its words' greatest weights."""
    return math.fsum(map(max, weights))


class Tiers(NamedTuple):
    """In which tiers documents can match."""

    best: int
    worst: int
    looks_inside: bool
    """Whether some word also matches inside others."""

    def joined(self, other: Tiers) -> Tiers:
        """Return the tiers in which documents can match both of two clauses."""
        looks_inside = self.looks_inside or other.looks_inside
        return Tiers(max(self.best, other.best), max(self.worst, other.worst), looks_inside)


def tiers_of(query: TextQuery) -> Tiers:
    """Return the tiers of a query; a phrase matches in tier 0 only."""
    tiers = _PHRASE_TIERS
    for scored in query.clauses:
        if isinstance(scored.clause, Word):
            # Never negative, and mostly the same kinds for all words.
            of_word = _tiers_of_kinds(tuple(map(bool, scored.weights[0])))
            tiers = of_word if tiers is _PHRASE_TIERS else tiers.joined(of_word)
    return tiers


_PHRASE_TIERS: Final = Tiers(0, 0, looks_inside=False)


@cache
def _tiers_of_kinds(has_weight: tuple[bool, ...]) -> Tiers:
    """Return the tiers of a word, given which kinds of match have a weight."""
    kinds = [kind for kind, one in enumerate(has_weight) if one]
    if not kinds:
        return Tiers(NUM_TIERS - 1, 0, looks_inside=False)
    looks_inside = has_weight[MatchKind.INFIX]
    return Tiers(TIER_OF_KIND[kinds[0]], TIER_OF_KIND[kinds[-1]], looks_inside)


def tier_step(query: TextQuery) -> int:
    """Return the power of two above any sum of clauses and extras, at least 1/2, in 2^-32."""
    whole = WHOLE_FIELD_FACTOR if query.whole else 0.0
    bound = max(_greatest(query) * (1.0 + query.proximity * CHAIN_MAX + whole), 0.5)
    return int(2.0 ** math.ceil(math.log2(bound * 1.0001)) * SCORE_UNIT)


def _greatest(query: TextQuery) -> float:
    """Return the greatest sum of the clauses' scores."""
    return math.fsum([_weight(scored) for scored in query.clauses])


def _weight(scored: ScoredClause) -> float:
    """Return the greatest score of a clause."""
    if isinstance(scored.clause, Phrase):
        return phrase_weight(scored.weights)
    return max(scored.weights[0])


def proximity_pairs(query: TextQuery) -> ProximityPairs | None:
    """Return the words of the query in order and the weights of their pairs.

    Phrases take no part: their words are adjacent anyway. Two words separated by a phrase form a
    pair of weight 0. Neighbouring bigrams of a script without spaces share a character, so where
    both occur they are usually adjacent; that says less, hence a low weight.
    """
    if query.proximity <= 0 or len(query.clauses) < 2:
        return None
    words: list[Word] = []
    weights: list[float] = []
    pair_weights: list[float] = []
    is_adjacent = False
    for scored in query.clauses:
        if not isinstance(scored.clause, Word) or len(words) == WORDS_MAX:
            is_adjacent = False
            continue
        weight = max(scored.weights[0])
        if words:
            pair_weight = min(weights[-1], weight) if is_adjacent else 0.0
            if is_run(words[-1].text) and is_run(scored.clause.text):
                pair_weight *= RUN_PAIR_FACTOR
            pair_weights.append(pair_weight)
        words.append(scored.clause)
        weights.append(weight)
        is_adjacent = True
    return ProximityPairs(words, np.array(pair_weights)) if any(pair_weights) else None
