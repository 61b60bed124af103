"""One text query over one segment: how each of its clauses is read and scored.

    clause ─▶ terms (expansion) ─▶ documents and scores (term_lists, bm25f, phrase)

`clause_combination` combines the clauses; `strategy` decides what has to be scored at all.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.analysis.field_classes import ALL_CLASSES
from common.kernels.decorator import arguments
from common.query_syntax_tree import Clause, Phrase, Word
from shard.caches.derived_values import derived
from shard.caches.key_sizes import bytes_of
from shard.caches.query_cache import QUERY_CACHE_BUDGET, QueryCache
from shard.query.phrases.phrase_search import phrase_terms, search_phrase
from shard.query.postings.term_lists import TermLists
from shard.query.postings.term_plan import QueryTerms
from shard.query.proximity.proximity_ranking import rank_by_proximity
from shard.query.proximity.proximity_scores import Proximity, make_proximity, proximity_scores
from shard.query.pruning import kept_words
from shard.query.pruning.kept_words import KeptWord, ScoredWord
from shard.query.pruning.score_bounds import Champions
from shard.query.scoring.bm25f import (
    FREQ_UNIT,
    LAST_KIND_OF_TIER,
    SCORE_UNIT,
    TIER_OF_KIND,
    FieldTfNorms,
    WeighedTerms,
    add_entries,
    add_terms,
    is_best_of_tier,
    make_tf_norms,
    ratios_of_kinds,
    score_entries,
    take_scores,
    weights_of_tiers,
)
from shard.query.scoring.scratch_arrays import SCRATCH
from shard.query.scoring.top_k_selection import best_of
from shard.query.terms import kept_terms_of_docs
from shard.query.terms.expansion import Expansion, expand_word
from shard.query.terms.kept_terms_of_docs import NO_KEPT_TERMS, KeptTerms, kept_terms
from shard.query.text.prepared_query import PreparedQuery, phrase_weight, phrase_words
from shard.segment.doc_sets import (
    NO_BITS,
    NO_DOCS,
    add_docs,
    count_docs,
    list_all_docs,
    reset_bitset,
)
from shard.segment.text.bitset_postings import find_dense
from shard.segment.text.postings import Entries
from shard.segment.text.postings_cursor import Wanted
from shard.segment.text.text_index import TextIndex, text_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import FieldWeight, ScoredClause
    from shard.segment.segment import Segment


class SingleTerm(NamedTuple):
    """The single term that matches a word in this segment."""

    term: int
    mask: int
    weight: float
    tier: int


class _ClausePlan(NamedTuple):
    """A clause, and how its posting lists are read in this segment."""

    scored: ScoredClause
    single: SingleTerm | None
    cost: int
    """Estimate of its posting entries."""


_cost_of: Final = attrgetter("cost")


@arguments
class ScoredDocs(NamedTuple):
    """Documents that match one or several clauses.

    Attributes:
        docs: ascending.
        scores: of the clauses so far, in units of 2^-32.
        tiers: the worst tier of the clauses so far.
    """

    docs: NDArray[np.uint32]
    scores: NDArray[np.int64]
    tiers: NDArray[np.uint8]


def as_terms(singles: Sequence[SingleTerm]) -> QueryTerms:
    """Return the terms of words as arrays."""
    size = len(singles)
    words = QueryTerms(np.empty(size, np.int64), np.empty(size, np.uint64), np.empty(size))
    terms, masks, weights = words
    for i, one in enumerate(singles):  # for few, half the time that arrays of lists take
        terms[i], masks[i], weights[i] = one.term, one.mask, one.weight
    return words


def list_members(bits: NDArray[np.uint64], num_docs: int) -> NDArray[np.uint32]:
    """List the documents of a bitset that may be longer than the segment."""
    bitset = bits[: (num_docs + 63) >> 6]
    listed: NDArray[np.uint32] = list_all_docs(bitset, count_docs(bitset))
    return listed


def _single_of(expansion: Expansion, by_kind: Sequence[float]) -> SingleTerm | None:
    """Return the only term of a word, given its weights, or None if it has none or several."""
    only = expansion.only
    if only is None:
        return None
    weight = by_kind[only.kind]
    if weight <= 0:
        return None
    if not is_best_of_tier(only.kind, by_kind):
        return None  # another segment has a better form, so this one's ratio r is below 1
    return SingleTerm(only.term, only.mask, weight, TIER_OF_KIND[only.kind])


class Evaluation:
    """One text query over one segment: the state that its clauses share.

    Args:
        segment: where to search.
        prepared: what to search for.
        tier: the worst tier in which a word may match; by default the query's.
    """

    __slots__ = (
        "_better",
        "_kept_words",
        "_plans",
        "_proximity",
        "_single_terms",
        "_singles",
        "fields",
        "index",
        "k1",
        "lists",
        "prepared",
        "query",
        "segment",
        "tier",
    )

    def __init__(self, segment: Segment, prepared: PreparedQuery, tier: int | None = None) -> None:
        self.segment = segment
        self.prepared = prepared
        self.query = prepared.query
        self.tier = prepared.worst_tier if tier is None else tier
        self.fields = _tf_norms_of(segment, prepared)
        self.k1 = self.query.k1 * FREQ_UNIT
        SCRATCH.reserve(segment.num_docs)
        self.lists = TermLists(segment, self.fields, self.k1, SCRATCH.members)
        self.index: TextIndex = self.lists.index
        self._plans: list[_ClausePlan] | None = None
        self._singles: list[SingleTerm] | None = None
        self._single_terms: QueryTerms | None = None
        self._proximity: Proximity | None = None
        self._better: dict[int, Evaluation] = {}
        self._kept_words: dict[tuple[Word, tuple[float, ...]], KeptWord | None] = {}

    def up_to(self, tier: int) -> Evaluation:
        """Return the same evaluation, restricted to matches in no worse tier."""
        if tier >= self.tier:
            return self
        better = self._better.get(tier)
        if better is None:
            better = self._better[tier] = Evaluation(self.segment, self.prepared, tier)
        return better

    @property
    def has_one_tier(self) -> bool:
        """Whether every document that has all words has them in the same tier, this one."""
        return self.tier <= self.prepared.best_tier

    @property
    def needs_one(self) -> bool:
        """Whether a document that any clause matches is a hit."""
        return self.query.required == 1 and not self.query.is_leading

    def expansion(self, word: Word) -> Expansion:
        """Return the terms of a word, of the kinds up to this tier."""
        known = self.prepared.expansions
        key = (self.segment.uid, word, self.tier)
        expansion = known.get(key)
        if expansion is None:
            last = LAST_KIND_OF_TIER[self.tier]
            expansion = expand_word(self.segment, word, self.prepared.classes, last)
            known[key] = expansion
        return expansion

    def terms_to_read(self, word: Word) -> Expansion:
        """Return the terms whose lists are read for a word; a prefix list may replace many."""
        expansion = self.expansion(word)
        return expansion.joined or expansion

    @property
    def plans(self) -> list[_ClausePlan]:
        """The clauses by cost, cheapest first: the order of intersection."""
        if self._plans is None:
            self._plans = list(map(self._plan, self.query.clauses))
            if len(self._plans) > 1:
                self._plans.sort(key=_cost_of)
        return self._plans

    @property
    def singles(self) -> list[SingleTerm]:
        """The terms of the clauses that have a single one, cheapest first."""
        if self._singles is None:
            self._singles = [one.single for one in self.plans if one.single is not None]
        return self._singles

    @property
    def single_terms(self) -> QueryTerms:
        """The same as arrays."""
        if self._single_terms is None:
            self._single_terms = as_terms(self.singles)
        return self._single_terms

    def _plan(self, scored: ScoredClause) -> _ClausePlan:
        clause = scored.clause
        if isinstance(clause, Word):
            expansion = self.terms_to_read(clause)
            cost = expansion.num_entries + (self.index.num_docs if expansion.phrases else 0)
            return _ClausePlan(scored, _single_of(expansion, scored.weights[0]), cost)
        cost = 0
        if len(self.query.clauses) > 1:  # else there is nothing to put in order
            cost = min([self.expansion(word).num_entries for word in phrase_words(clause)])
        return _ClausePlan(scored, self.single(clause, scored.weights), cost)

    def score(
        self,
        clause: Clause,
        weights: Sequence[Sequence[float]],
        wanted: Wanted,
    ) -> ScoredDocs:
        """Return the wanted documents that a clause matches; a list of them needs no bitset."""
        single = self.single(clause, weights)
        if single is not None:
            return self._score_terms(as_terms([single]), single.tier, wanted)
        if isinstance(clause, Phrase):
            if len(clause.words) > 1:
                return self._score_phrase(clause, weights, wanted)
            clause = phrase_words(clause)[0]
        return self._score_word(clause, weights[0], wanted)

    def single(self, clause: Clause, weights: Sequence[Sequence[float]]) -> SingleTerm | None:
        """Return the only term of a clause, or None if it has none or several."""
        if isinstance(clause, Phrase):
            if len(clause.words) > 1:
                return None
            clause = phrase_words(clause)[0]
        return _single_of(self.terms_to_read(clause), weights[0])

    def is_plain_prefix_list(self, single: SingleTerm) -> bool:
        """Return whether a term is a prefix that has a posting list, and no bitset."""
        index = self.index
        is_prefix = single.term >= len(index.vocabulary)
        return is_prefix and find_dense(index.dense_lists, single.term) < 0

    def score_singles(self, wanted: Wanted) -> ScoredDocs:
        """Return the wanted documents of all clauses that have a single term."""
        tier = 0 if self.has_one_tier else max([one.tier for one in self.singles])
        return self._score_terms(self.single_terms, tier, wanted)

    def _score_terms(
        self,
        terms: QueryTerms,
        tier: int,
        wanted: Wanted,
    ) -> ScoredDocs:
        """Return the documents that have all terms, which come rarest first."""
        docs, scores = self.lists.match(terms, wanted)
        tiers = np.zeros(len(docs), np.uint8)
        if tier:
            tiers += np.uint8(tier)
        return ScoredDocs(docs, scores, tiers)

    def weighed(self, word: Word, weights: Sequence[float]) -> WeighedTerms:
        """Return the terms of a word that count, given its weights by kind."""
        expansion = self.terms_to_read(word)
        # A kind has weight 0 if no live document anywhere has it, or the query excludes it.
        is_used = np.array(weights)[expansion.kinds] > 0
        terms, kinds, masks = expansion.terms, expansion.kinds, expansion.masks
        if not is_used.all():
            terms, kinds, masks = terms[is_used], kinds[is_used], masks[is_used]
        ratios = np.array(ratios_of_kinds(weights, weights_of_tiers(weights)))
        return WeighedTerms(terms, _TIERS[kinds], ratios[kinds], masks)

    def kept_word(self, word: Word, weights: Sequence[float]) -> KeptWord | None:
        """Return what is kept of a word, given its weights by kind; None: nothing."""
        key = word, tuple(weights)
        if key not in self._kept_words:
            expansion = self.terms_to_read(word)
            kept = None
            if not expansion.phrases and expansion.num_entries >= kept_words.ENTRIES_MIN:
                weighed = self.weighed(word, weights)
                asked = self.prepared.kept_words
                kept = kept_words.keep_word(self.lists, weighed, expansion.num_entries, asked)
            self._kept_words[key] = kept
        return self._kept_words[key]

    def scored_word(self, scored: ScoredClause) -> ScoredWord | None:
        """Return a kept word whose documents can be scored, with its weight; None: it is none."""
        clause, weights = scored.clause, scored.weights[0]
        kept = self.kept_word(clause, weights) if isinstance(clause, Word) else None
        if kept is None or not kept.has_tfs:
            return None
        return ScoredWord(kept, weights_of_tiers(weights)[kept.tier])

    def deep_champions(self, num_ranked: int) -> Champions | None:
        """Return enough champions for a deep page of a query of a single term, if it has them."""
        scored = self.plans[0].scored
        clause = scored.clause
        if isinstance(clause, Phrase):
            clause = phrase_words(clause)[0]
        return kept_words.deep_champions(
            self.lists, self.weighed(clause, scored.weights[0]), num_ranked
        )

    def _score_word(
        self,
        word: Word,
        weights: Sequence[float],
        wanted: Wanted,
    ) -> ScoredDocs:
        """Score a word of several terms: multi-word alternatives (tier 0) first, then the terms."""
        of_tiers = weights_of_tiers(weights)
        kept = self.kept_word(word, weights)
        if kept is not None and kept.has_tfs:
            return self._score_kept(ScoredWord(kept, of_tiers[kept.tier]), wanted)
        weighed = self.weighed(word, weights)
        phrases = self.terms_to_read(word).phrases if of_tiers[0] > 0 else ()
        if len(weighed.terms) == 0 and not phrases:
            return ScoredDocs(NO_DOCS, np.zeros(0, np.int64), np.zeros(0, np.uint8))
        scratch = SCRATCH
        scratch.reserve(self.index.num_docs)
        for phrase in phrases:
            found = self.find_phrase(Phrase(phrase), wanted)
            ratio = ratios_of_kinds(weights, of_tiers)[word.phrase_kind(phrase)]
            add_entries(self.fields.lists, found, ratio, NO_BITS, scratch.cells)
        if wanted.is_listed:
            add_docs(scratch.members, wanted.docs)
            wanted = Wanted.among(wanted.docs, scratch.members)
        add_terms(self.fields.lists, weighed, wanted, scratch.cells)
        if wanted.is_listed:
            reset_bitset(scratch.members, wanted.docs)
        docs = list_members(scratch.cells.touched, self.index.num_docs)
        scores, tiers = take_scores(docs, np.array(of_tiers), self.k1, scratch.cells)
        return ScoredDocs(docs, scores, tiers)

    def _score_kept(
        self,
        word: ScoredWord,
        wanted: Wanted,
    ) -> ScoredDocs:
        """Score a word of which the documents and their tfs are kept."""
        kept, weight = word
        docs = kept_words.wanted_docs(kept.postings, wanted)
        scores = np.zeros(len(docs), np.int64)
        kept_words.add_kept(kept.postings, weight, self.k1, docs, scores)
        return ScoredDocs(docs, scores, np.full(len(docs), kept.tier, np.uint8))

    def _score_phrase(
        self,
        phrase: Phrase,
        weights: Sequence[Sequence[float]],
        wanted: Wanted,
    ) -> ScoredDocs:
        """Score a phrase like a term of tier 0, with its number of occurrences as frequency."""
        found = self.find_phrase(phrase, wanted)
        docs, scores = score_entries(self.fields.lists, found, phrase_weight(weights), self.k1)
        return ScoredDocs(docs, scores, np.zeros(len(docs), np.uint8))

    def find_phrase(
        self,
        phrase: Phrase,
        wanted: Wanted,
    ) -> Entries:
        """Return the entries of a phrase in the wanted documents; a list needs no bitset.

        These have its words in searched fields.
        """
        terms = phrase_terms(self.index, phrase.words, is_prefix=phrase.is_prefix)
        return search_phrase(self.lists, terms, wanted)

    @property
    def proximity(self) -> Proximity:
        """The inputs for scoring the proximity of the query's words."""
        if self._proximity is None:
            pairs = self.prepared.pairs
            words = [] if pairs is None else pairs.words
            expansions = [self.expansion(word) for word in words]
            self._proximity = make_proximity(
                self.index,
                expansions,
                np.zeros(0) if pairs is None else pairs.weights,
                self.query.proximity * SCORE_UNIT,
                self.prepared.bonus_max,
                *self._kept_terms(words, expansions),
            )
        return self._proximity

    def _kept_terms(
        self, words: Sequence[Word], expansions: Sequence[Expansion]
    ) -> tuple[KeptTerms, int]:
        """Return what is known of the word with most terms, and its position; -1: of none."""
        counts = list(map(len, expansions))
        most = max(counts, default=0)
        if most >= kept_terms_of_docs.TERMS_MIN:
            position = counts.index(most)
            word, expansion = words[position], expansions[position]
            if (expansion.masks == ALL_CLASSES).all():
                key = word, self.tier, self.prepared.classes.key
                kept = kept_terms(self.segment, key, expansion.terms)
                if kept is not None:
                    return kept, position
        return NO_KEPT_TERMS, -1

    def bonus(self, docs: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the proximity score of documents, in units of 2^-32."""
        bonus: NDArray[np.int64] = proximity_scores(self.fields.lists, self.proximity, docs)
        return bonus

    def rank(
        self, docs: NDArray[np.uint32], totals: NDArray[np.int64], k: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return those scored documents that can be among the k best, proximity added."""
        ranked: tuple[NDArray[np.uint32], NDArray[np.int64]]
        if self.prepared.pairs is None:
            ranked = best_of(docs, totals, k)
            return ranked
        ranked = rank_by_proximity(self.fields.lists, self.proximity, docs, totals, k)
        return ranked


_TIERS: Final = np.array(TIER_OF_KIND, np.uint8)


@derived
def _kept_tf_norms(segment: Segment) -> QueryCache[Hashable, FieldTfNorms]:
    """Return the tf norms that a segment keeps."""
    return QueryCache()


@derived
def _kept_row_classes(segment: Segment) -> QueryCache[Hashable, NDArray[np.uint64]]:
    """Return the language bits that a segment keeps."""
    return QueryCache()


def _row_classes_of(segment: Segment, prepared: PreparedQuery) -> NDArray[np.uint64]:
    """Return the bit of the class of every field with words in a segment; cached.

    Kept apart from the tf norms: those of thousands of fields are too large to keep.
    """
    cache = _kept_row_classes(segment)
    classes = prepared.classes
    row_classes = cache.get(classes.key)
    if row_classes is None:
        paths = prepared.registry.paths
        numbers = text_index(segment).length_fields.tolist()
        row_classes = np.array(
            [classes.masks[classes.class_of(paths[number])] for number in numbers], np.uint64
        )
        QUERY_CACHE_BUDGET.keep(cache, classes.key, row_classes, row_classes.nbytes)
    return row_classes


def _tf_norms_of(segment: Segment, prepared: PreparedQuery) -> FieldTfNorms:
    """Return the query's tf norms in a segment, cached by fields, weights and averages."""
    cache = _kept_tf_norms(segment)
    query, classes = prepared.query, prepared.classes
    key = query.fields, query.b, classes.key
    tf_norms = cache.get(key)
    if tf_norms is None:
        registry = prepared.registry
        numbers: dict[int, FieldWeight] = {}
        for field in query.fields:
            number = registry.number(field.path)
            if number is not None:
                numbers[number] = field
        row_classes = _row_classes_of(segment, prepared)
        tf_norms = make_tf_norms(text_index(segment), numbers, row_classes, query.b)
        num_bytes = tf_norms.num_bytes + bytes_of(query.fields)
        QUERY_CACHE_BUDGET.keep(cache, key, tf_norms, num_bytes)
    return tf_norms
