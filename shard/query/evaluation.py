"""One text query over one segment: the documents that each clause matches, and their combination.

    clause ─▶ terms (expansion) ─▶ documents and scores (bm25f, phrase)
    all clauses: intersect, rarest first │ some: one cell a document, counting clauses

`text_search` puts the results together; `strategy` decides what has to be scored at all.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import (
    BoolArray,
    I64Array,
    U8Array,
    U16Array,
    U32Array,
    U64Array,
    int64,
    uint16,
)
from common.query import NUM_MATCH_KINDS, Clause, Phrase, Word
from shard.caches.derived import derived
from shard.caches.query_cache import QUERY_CACHE_BUDGET, QueryCache
from shard.query.bm25f import (
    FREQ_UNIT,
    LAST_KIND_OF_TIER,
    NO_BITS,
    NO_DOCS,
    NUM_TIERS,
    SCORE_UNIT,
    SCRATCH,
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
from shard.query.expansion import Expansion, expand_word
from shard.query.phrase import phrase_terms, search_phrase
from shard.query.prepared import PreparedQuery, phrase_weight, phrase_words
from shard.query.proximity import Proximity, make_proximity, proximity_scores, rank_by_proximity
from shard.query.score_selection import best_of
from shard.query.term_lists import QueryTerms, TermLists
from shard.segment.doc_sets import (
    add_docs,
    count_docs,
    empty_bitset,
    has_bit,
    list_all_docs,
    list_docs,
    reset_bitset,
    set_bit,
)
from shard.segment.postings import Entries
from shard.segment.postings_cursor import Wanted
from shard.segment.text_index import TextIndex, text_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import FieldWeight, ScoredClause
    from shard.segment.segment import Segment

_CANDIDATES_SHARE: Final = 64
"""With fewer candidates than 1 / `_CANDIDATES_SHARE` of the documents, blocks without one are
skipped."""


class SingleTerm(NamedTuple):
    """The single term that matches a word in this segment."""

    term: int
    languages: int
    weight: float
    tier: int


class _Reading(NamedTuple):
    """A clause, and what reading it in this segment takes."""

    scored: ScoredClause
    single: SingleTerm | None
    cost: int
    """Estimate of its posting entries."""


@arguments
class _Scored(NamedTuple):
    """Documents that match one or several clauses."""

    docs: NDArray[np.uint32]
    scores: NDArray[np.int64]
    """In units of 2^-32."""
    tiers: NDArray[np.uint8]
    """The worst tier of the clauses so far."""


@arguments
class _ClauseCells(NamedTuple):
    """Accumulators, for queries that do not need every clause to match.

    Attributes:
        scores: by document, of the matching clauses.
        counts: by document, how many match.
        touched: bitset of the documents with any.
    """

    scores: NDArray[np.int64]
    counts: NDArray[np.uint16]
    touched: NDArray[np.uint64]


@kernel
def _intersect(result: _Scored, more: _Scored) -> tuple[I64Array, U8Array]:
    """Add up two scored lists, the second a subset of the first."""
    docs, scores, tiers = result
    more_docs, more_scores, more_tiers = more
    out_scores = np.empty(len(more_docs), np.int64)
    out_tiers = np.empty(len(more_docs), np.uint8)
    at = 0
    for i in range(len(more_docs)):
        while docs[at] < more_docs[i]:
            at += 1
        out_scores[i] = scores[at] + more_scores[i]
        out_tiers[i] = max(tiers[at], more_tiers[i])
    return out_scores, out_tiers


@kernel(allocates=False)
def _add_clause(found: _Scored, leading: int, cells: _ClauseCells) -> None:
    """Add a clause's documents to the cells.

    With `leading` >= 0, only to documents that have matched exactly that many clauses so far: a
    document's leading matches end at the first clause that it misses.
    """
    for i in range(len(found.docs)):
        doc = int64(found.docs[i])
        if leading >= 0 and cells.counts[doc] != leading:
            continue
        cells.scores[doc] += found.scores[i]
        cells.counts[doc] += uint16(1)
        set_bit(cells.touched, doc)


@kernel
def _take_cells(
    docs: U32Array, required: int, cells: _ClauseCells
) -> tuple[U32Array, I64Array, U16Array]:
    """Return documents, scores and counts of those with enough clauses, and clean all cells."""
    scores, counts, touched = cells
    out_docs = np.empty(len(docs), np.uint32)
    out_scores = np.empty(len(docs), np.int64)
    out_counts = np.empty(len(docs), np.uint16)
    found = 0
    for doc in docs:
        if counts[doc] >= required:
            out_docs[found] = doc
            out_scores[found] = scores[doc]
            out_counts[found] = counts[doc]
            found += 1
        scores[doc] = 0
        counts[doc] = 0
        touched[doc >> 6] = 0
    return out_docs[:found], out_scores[:found], out_counts[:found]


@kernel
def _is_outside(docs: U32Array, bits: U64Array) -> BoolArray:
    """Return, by document, whether it is absent from a bitset."""
    outside = np.empty(len(docs), np.bool_)
    for i in range(len(docs)):
        outside[i] = not has_bit(bits, docs[i])
    return outside


def as_terms(singles: Sequence[SingleTerm]) -> QueryTerms:
    """Return the terms of words as arrays."""
    return QueryTerms(
        np.array([one.term for one in singles], np.int64),
        np.array([one.languages for one in singles], np.uint64),
        np.array([one.weight for one in singles]),
    )


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
    return SingleTerm(only.term, only.languages, weight, TIER_OF_KIND[only.kind])


def _joined(result: _Scored, more: _Scored) -> _Scored:
    """Return the documents of the second result, a subset of the first, with both scores added."""
    scores, tiers = _intersect(result, more)
    return _Scored(more.docs, scores, tiers)


class Evaluation:
    """One text query over one segment: the state that its clauses share.

    Args:
        segment: where to search.
        prepared: what to search for.
        tier: the worst tier in which a word may match; by default the query's.
    """

    __slots__ = (
        "_better",
        "_nearness",
        "_readings",
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
        self.index: TextIndex = text_index(segment)
        self.fields = _tf_norms_of(segment, prepared)
        self.k1 = self.query.k1 * FREQ_UNIT
        SCRATCH.reserve(self.index.num_docs)
        self.lists = TermLists(segment, self.fields, self.k1, SCRATCH.members)
        self._readings: list[_Reading] | None = None
        self._nearness: Proximity | None = None
        self._better: dict[int, Evaluation] = {}

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
        return expand_word(
            self.segment, word, self.prepared.languages, LAST_KIND_OF_TIER[self.tier]
        )

    def reading(self, word: Word) -> Expansion:
        """Return the lists to read for a word: of its terms, or of its prefix."""
        expansion = self.expansion(word)
        return expansion.joined or expansion

    @property
    def readings(self) -> list[_Reading]:
        """The clauses by cost, cheapest first: the order of intersection."""
        if self._readings is None:
            self._readings = [self._read(scored) for scored in self.query.clauses]
            self._readings.sort(key=lambda one: one.cost)
        return self._readings

    def _read(self, scored: ScoredClause) -> _Reading:
        clause = scored.clause
        if isinstance(clause, Word):
            expansion = self.reading(clause)
            cost = expansion.num_entries + (self.index.num_docs if expansion.phrases else 0)
            return _Reading(scored, _single_of(expansion, scored.weights[0]), cost)
        cost = 0
        if len(self.query.clauses) > 1:  # else there is nothing to put in order
            cost = min([self.expansion(word).num_entries for word in phrase_words(clause)])
        return _Reading(scored, self.single(clause, scored.weights), cost)

    def score(
        self,
        clause: Clause,
        weights: Sequence[Sequence[float]],
        allowed: NDArray[np.uint64],
        candidates: NDArray[np.uint32] | None,
    ) -> _Scored:
        """Return the documents of a clause, among the candidates if given."""
        single = self.single(clause, weights)
        if single is not None:
            return self.score_singles([single], allowed, candidates)
        if isinstance(clause, Phrase):
            if len(clause.words) > 1:
                return self._score_phrase(clause, weights, allowed, candidates)
            clause = phrase_words(clause)[0]
        return self._score_word(clause, weights[0], allowed, candidates)

    def single(self, clause: Clause, weights: Sequence[Sequence[float]]) -> SingleTerm | None:
        """Return the only term of a clause, or None if it has none or several."""
        if isinstance(clause, Phrase):
            if len(clause.words) > 1:
                return None
            clause = phrase_words(clause)[0]
        return _single_of(self.reading(clause), weights[0])

    def score_singles(
        self,
        singles: Sequence[SingleTerm],
        allowed: NDArray[np.uint64],
        candidates: NDArray[np.uint32] | None,
    ) -> _Scored:
        """Return the documents that have all terms, which come rarest first."""
        docs, scores = self.lists.match(as_terms(singles), allowed, candidates)
        tiers = np.zeros(len(docs), np.uint8)
        tier = max([one.tier for one in singles])
        if tier:
            tiers += np.uint8(tier)
        return _Scored(docs, scores, tiers)

    def _score_word(
        self,
        word: Word,
        weights: Sequence[float],
        allowed: NDArray[np.uint64],
        candidates: NDArray[np.uint32] | None,
    ) -> _Scored:
        """Score a word of several terms: multi-word alternatives (tier 0) first, then the terms."""
        expansion = self.reading(word)
        of_tiers = weights_of_tiers(weights)
        ratios = np.array(ratios_of_kinds(weights, of_tiers))
        # A kind has weight 0 if no live document anywhere has it, or the query excludes it.
        is_used = np.array(weights)[expansion.kinds] > 0
        terms, kinds, masks = expansion.terms, expansion.kinds, expansion.languages
        if not is_used.all():
            terms, kinds, masks = terms[is_used], kinds[is_used], masks[is_used]
        phrases = expansion.phrases if of_tiers[0] > 0 else ()
        if len(terms) == 0 and not phrases:
            return _Scored(NO_DOCS, np.zeros(0, np.int64), np.zeros(0, np.uint8))
        scratch = SCRATCH
        scratch.reserve(self.index.num_docs)
        for phrase in phrases:
            found = self.find_phrase(Phrase(phrase), allowed, candidates)
            ratio = ratios[word.phrase_kind(phrase)]
            add_entries(self.fields.lists, found, ratio, NO_BITS, scratch.cells)
        # `add_terms` tests membership in a bitset: make one of the candidates.
        if candidates is not None:
            add_docs(scratch.members, candidates)
            allowed = scratch.members
        weighed = WeighedTerms(terms, _TIERS[kinds], ratios[kinds], masks)
        add_terms(self.fields.lists, weighed, Wanted.of(allowed, candidates), scratch.cells)
        if candidates is not None:
            reset_bitset(scratch.members, candidates)
        docs = self._listed(scratch.cells.touched)
        scores, tiers = take_scores(docs, np.array(of_tiers), self.k1, scratch.cells)
        return _Scored(docs, scores, tiers)

    def _score_phrase(
        self,
        phrase: Phrase,
        weights: Sequence[Sequence[float]],
        allowed: NDArray[np.uint64],
        candidates: NDArray[np.uint32] | None,
    ) -> _Scored:
        """Score a phrase like a term of tier 0, with its number of occurrences as frequency."""
        found = self.find_phrase(phrase, allowed, candidates)
        docs, scores = score_entries(self.fields.lists, found, phrase_weight(weights), self.k1)
        return _Scored(docs, scores, np.zeros(len(docs), np.uint8))

    def find_phrase(
        self,
        phrase: Phrase,
        allowed: NDArray[np.uint64],
        candidates: NDArray[np.uint32] | None,
    ) -> Entries:
        """Return the entries of a phrase, in documents that have its words in searched fields."""
        terms = phrase_terms(self.index, phrase.words, is_prefix=phrase.is_prefix)
        return search_phrase(self.lists, terms, allowed, candidates)

    def _listed(self, bits: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """List the documents of a bitset that may be longer than the segment."""
        words = bits[: (self.index.num_docs + 63) >> 6]
        listed: NDArray[np.uint32] = list_all_docs(words, count_docs(words))
        return listed

    # --- combining clauses

    def match_all(
        self, allowed: NDArray[np.uint64], among: NDArray[np.uint32] | None = None
    ) -> _Scored:
        """Return the documents that every clause matches, rarest clause first.

        Single-term clauses are read together, when the first of them is due.

        Args:
            allowed: bitset of documents; empty: all.
            among: the only documents to look at, ascending (`allowed` is then ignored); or None.
        """
        if not self.query.clauses:
            return self.match_anything(allowed, among)
        together = [one.single for one in self.readings if one.single is not None]
        result: _Scored | None = None
        for scored, single, _ in self.readings:
            candidates = among if result is None else result.docs
            if single is None:
                more = self.score(scored.clause, scored.weights, allowed, candidates)
            elif together:
                more = self.score_singles(together, allowed, candidates)
                together = []
            else:
                continue
            result = more if result is None else _joined(result, more)
            if len(result.docs) == 0:
                break
        assert result is not None, "a clause has its turn"
        return result

    def members(self, allowed: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the bitset of the hits, without scoring.

        Every clause must match, or any.
        """
        if not self.prepared.needs_all:
            assert self.needs_one, "clauses are not counted"
            marked = empty_bitset(self.index.num_docs)
            for scored, _, _ in self.readings:
                self._mark(scored, allowed, None, marked)
            return marked
        words = allowed
        for scored, _, _ in self.readings:
            candidates = None
            if len(words):
                count = int(count_docs(words))
                if count == 0:
                    break
                if count * _CANDIDATES_SHARE < self.index.num_docs:
                    candidates = list_docs(words, count)
            marked = empty_bitset(self.index.num_docs)
            self._mark(scored, words, candidates, marked)
            words = marked
        return words

    def _mark(
        self,
        scored: ScoredClause,
        wanted: NDArray[np.uint64],
        candidates: NDArray[np.uint32] | None,
        marked: NDArray[np.uint64],
    ) -> None:
        """Set the bits of a clause's documents among the wanted ones.

        Args:
            scored: the clause.
            wanted: bitset of the wanted documents; empty: all.
            candidates: the same as a list, if they are few.
            marked: the bitset.
        """
        clause = scored.clause
        if isinstance(clause, Word):
            expansion = self.reading(clause)
            if not expansion.phrases:
                is_used = np.array(scored.weights[0])[expansion.kinds] > 0
                self.lists.mark(
                    expansion.terms[is_used],
                    expansion.languages[is_used],
                    Wanted.of(wanted, candidates),
                    marked,
                )
                return
        found = self.score(clause, scored.weights, wanted, candidates)
        add_docs(marked, found.docs)

    def match_anything(
        self, allowed: NDArray[np.uint64], among: NDArray[np.uint32] | None
    ) -> _Scored:
        """Return all documents to look at: the result of a query that only excludes."""
        docs = among
        if docs is None and len(allowed):
            docs = self._listed(allowed)
        if docs is None:
            docs = np.arange(self.index.num_docs, dtype=np.uint32)
        return _Scored(docs, np.zeros(len(docs), np.int64), np.zeros(len(docs), np.uint8))

    def match_some(
        self, allowed: NDArray[np.uint64], among: NDArray[np.uint32] | None = None
    ) -> tuple[_Scored, NDArray[np.uint16]]:
        """Return the documents that enough clauses match, and how many clauses each matches.

        The arguments are those of `match_all`.
        """
        scratch = SCRATCH
        scratch.reserve(self.index.num_docs)
        touched = empty_bitset(self.index.num_docs)
        cells = _ClauseCells(scratch.scores, scratch.counts, touched)
        for i, scored in enumerate(self.query.clauses):
            found = self.score(scored.clause, scored.weights, allowed, among)
            _add_clause(found, i if self.query.is_leading else -1, cells)
        docs, scores, counts = _take_cells(self._listed(touched), self.query.required, cells)
        return _Scored(docs, scores, np.zeros(len(docs), np.uint8)), counts

    def exclude(self, result: _Scored) -> NDArray[np.bool_] | None:
        """Return the documents that no excluded clause matches; None if nothing is excluded."""
        if not self.query.excluded or len(result.docs) == 0:
            return None
        scratch = SCRATCH
        scratch.reserve(self.index.num_docs)
        bits = empty_bitset(self.index.num_docs)
        # The query's tiers come from its other clauses; an excluded word may match in any tier.
        evaluation = Evaluation(self.segment, self.prepared, NUM_TIERS - 1)
        for clause in self.query.excluded:
            words = 1 if isinstance(clause, Word) else len(clause.words)
            found = evaluation.score(
                clause, [[1.0] * NUM_MATCH_KINDS] * words, NO_BITS, result.docs
            )
            add_docs(bits, found.docs)
        outside: NDArray[np.bool_] = _is_outside(result.docs, bits)
        return outside

    # --- proximity

    @property
    def proximity(self) -> Proximity:
        """The inputs for scoring the proximity of the query's words."""
        if self._nearness is None:
            pairs = self.prepared.pairs
            words = () if pairs is None else pairs.words
            self._nearness = make_proximity(
                self.index,
                [self.expansion(word) for word in words],
                np.zeros(0) if pairs is None else pairs.weights,
                self.query.proximity * SCORE_UNIT,
                self.prepared.bonus_max,
            )
        return self._nearness

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


def _tf_norms_of(segment: Segment, prepared: PreparedQuery) -> FieldTfNorms:
    """Return the query's tf norms in a segment, cached by fields, weights and averages."""
    cache = _kept_tf_norms(segment)
    query, languages = prepared.query, prepared.languages
    key = (query.fields, query.b, languages.key)
    tf_norms = cache.get(key)
    if tf_norms is None:
        registry = prepared.registry
        numbers: dict[int, FieldWeight] = {}
        for field in query.fields:
            number = registry.number(field.path)
            if number is not None:
                numbers[number] = field
        index = text_index(segment)
        by_number = {
            number: languages.masks[languages.class_of(registry.paths[number])]
            for number in index.length_fields.tolist()
        }
        tf_norms = make_tf_norms(index, numbers, by_number, query.b)
        QUERY_CACHE_BUDGET.keep(cache, key, tf_norms, tf_norms.num_bytes)
    return tf_norms
