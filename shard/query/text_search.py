"""Full-text search over one segment: which documents match a text query, with which scores?

    TextQuery ─▶ per clause: terms (expansion) ─▶ documents and scores (bm25f, phrase)
              ─▶ all: intersect, rarest first │ any: one cell a document, counting clauses
              ─▶ minus excluded ─▶ tiers ─▶ proximity for those who can reach the top ─▶ TextMatch

The score of a hit is one float64 that orders everything:

    score = step · (worst tier of the query - worst tier of the hit)  +  Σ clauses + proximity
            └──────────────── match: all ────────────────┘
    score = step · (leading clauses that match - 1)                   +  …              match: last
    score =                                                              …              match: any

`step` is a power of two above any sum of clauses, so that a hit in which all words stand as typed
comes before one in which a word is only begun, and that before one with a typo, however rare the
words (tiers: see bm25f). A query whose words match in one tier only has no such part. `step`
depends on the query alone, hence is the same on all shards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from common.analysis.analyzer import is_run
from common.analysis.languages import Languages
from common.kernels import kernel
from common.query import NUM_MATCH_KINDS, Clause, MatchKind, Phrase, Word
from shard.index.field_lengths import DECODED_LENGTHS
from shard.index.postings import BLOCK_ENTRIES, decode_block
from shard.index.text_index import TextIndex, text_index
from shard.query.bm25f import (
    FREQ_UNIT,
    NO_BITS,
    NO_DOCS,
    SCORE_UNIT,
    SCRATCH,
    TIER_OF_KIND,
    FieldGains,
    add_entries,
    add_terms,
    gallop,
    list_bits,
    make_gains,
    mark_bits,
    score_term,
    take_scores,
)
from shard.query.expansion import Expansion, count_by_kind, expand_word, language_bits
from shard.query.phrase import find_phrase
from shard.query.proximity import CHAIN_MAX, RUN_PAIR_FACTOR, WORDS_MAX, sum_closeness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import FieldWeight, TextQuery
    from shard.index.field_registry import FieldRegistry
    from shard.index.segment import Segment
    from shard.snapshot import SegmentView

__all__ = [
    "TextMatch",
    "doc_freqs",
    "expand_word",
    "field_statistics",
    "match_text",
]

_GAINS_MAX: Final = 64
"""Tables of gains kept per segment."""
_FORMS_MAX: Final = 4_096
"""Counts of documents with some form of a word kept per segment."""


@dataclass(frozen=True, slots=True)
class TextMatch:
    """The documents of a segment that match."""

    docs: NDArray[np.uint32]
    """Ascending."""
    scores: NDArray[np.float64]
    """Of each; exact for the `num_ranked` best, otherwise perhaps without the proximity bonus."""


@dataclass(frozen=True, slots=True)
class _Scored:
    """Documents that match a clause or several."""

    docs: NDArray[np.uint32]
    scores: NDArray[np.int64]
    """In units of 2^-32."""
    tiers: NDArray[np.uint8]
    """The worst tier of the clauses so far."""


@kernel("(uint32[::1], int64[::1], uint8[::1], uint32[::1], int64[::1], uint8[::1])")
def _intersect(
    docs: Any, scores: Any, tiers: Any, more_docs: Any, more_scores: Any, more_tiers: Any
) -> Any:
    """Join two scored lists, the second being a part of the first."""
    out_scores = np.empty(len(more_docs), np.int64)
    out_tiers = np.empty(len(more_docs), np.uint8)
    at = 0
    for i in range(len(more_docs)):
        while docs[at] < more_docs[i]:
            at += 1
        out_scores[i] = scores[at] + more_scores[i]
        out_tiers[i] = max(tiers[at], more_tiers[i])
    return out_scores, out_tiers


@kernel(
    "void(uint32[::1], int64[::1], int64, int64[::1], uint16[::1], uint64[::1])", allocates=False
)
def _add_clause(
    docs: Any, scores: Any, leading: Any, cell_scores: Any, cell_counts: Any, touched: Any
) -> Any:
    """Add a clause's documents to the cells; with `leading` >= 0 where so many clauses matched."""
    for i in range(len(docs)):
        doc = np.int64(docs[i])
        if leading >= 0 and cell_counts[doc] != leading:
            continue
        cell_scores[doc] += scores[i]
        cell_counts[doc] += np.uint16(1)
        touched[doc >> 6] |= np.uint64(1) << np.uint64(doc & 63)


@kernel("(uint32[::1], int64, int64[::1], uint16[::1], uint64[::1])")
def _take_cells(docs: Any, required: Any, cell_scores: Any, cell_counts: Any, touched: Any) -> Any:
    """Return documents, scores and counts of those with enough clauses, and clean all cells."""
    out_docs = np.empty(len(docs), np.uint32)
    out_scores = np.empty(len(docs), np.int64)
    out_counts = np.empty(len(docs), np.uint16)
    found = 0
    for doc in docs:
        if cell_counts[doc] >= required:
            out_docs[found] = doc
            out_scores[found] = cell_scores[doc]
            out_counts[found] = cell_counts[doc]
            found += 1
        cell_scores[doc] = 0
        cell_counts[doc] = 0
        touched[doc >> 6] = 0
    return out_docs[:found], out_scores[:found], out_counts[:found]


@kernel("boolean[::1](uint32[::1], uint64[::1])")
def _is_outside(docs: Any, bits: Any) -> Any:
    """Return which documents have no bit."""
    outside = np.empty(len(docs), np.bool_)
    for i in range(len(docs)):
        doc = np.int64(docs[i])
        outside[i] = bits[doc >> 6] >> np.uint64(doc & 63) & np.uint64(1) == 0
    return outside


class Evaluation:
    """One text query over one segment: what its clauses share."""

    def __init__(
        self,
        segment: Segment,
        query: TextQuery,
        registry: FieldRegistry,
        languages: Languages,
    ) -> None:
        self.segment = segment
        self.index: TextIndex = text_index(segment)
        self.query = query
        self.languages = languages
        self.fields = _gains_of(segment, query, registry, languages)
        self.k1 = query.k1 * FREQ_UNIT
        index = self.index
        self.postings = (
            index.postings,
            index.posting_starts,
            index.entry_counts,
            index.skip_starts,
            index.skip_docs,
            index.skip_postings,
        )
        self.lengths = (
            index.field_rows,
            index.length_starts,
            index.lengths,
            index.length_doc_starts,
            index.length_docs,
        )

    def expansion(self, word: Word) -> Expansion:
        """Return the terms of a word."""
        return expand_word(self.segment, word, self.languages)

    def cost(self, clause: Clause) -> int:
        """Estimate the posting entries of a clause: the order of intersection depends on it."""
        if isinstance(clause, Word):
            expansion = self.expansion(clause)
            return expansion.num_entries + (self.index.num_docs if expansion.phrases else 0)
        costs = [self.expansion(word).num_entries for word in phrase_words(clause)]
        return min(costs)

    def score(
        self,
        clause: Clause,
        weights: Sequence[Sequence[float]],
        allowed: NDArray[np.uint64],
        candidates: NDArray[np.uint32] | None,
    ) -> _Scored:
        """Return the documents of a clause, among the candidates if there are any."""
        if isinstance(clause, Phrase):
            if len(clause.words) > 1:
                return self._score_phrase(clause, weights, allowed, candidates)
            clause = phrase_words(clause)[0]
        return self._score_word(clause, weights[0], allowed, candidates)

    def _score_word(
        self,
        word: Word,
        weights: Sequence[float],
        allowed: NDArray[np.uint64],
        candidates: NDArray[np.uint32] | None,
    ) -> _Scored:
        expansion = self.expansion(word)
        best = max(weights[MatchKind.EXACT], weights[MatchKind.STEM])
        tier_weights = np.array([best, *weights[MatchKind.PREFIX :]])
        ratios = np.ones(NUM_MATCH_KINDS)
        if best > 0:
            ratios[: MatchKind.PREFIX] = np.array(weights[: MatchKind.PREFIX]) / best
        # A kind of weight 0 has no live document anywhere, or the query does not want it.
        is_used = np.array(weights)[expansion.kinds] > 0
        terms, kinds, masks = expansion.terms, expansion.kinds, expansion.languages
        if not is_used.all():
            terms, kinds, masks = terms[is_used], kinds[is_used], masks[is_used]
        phrases = expansion.phrases if weights[MatchKind.STEM] > 0 else ()
        if len(terms) == 1 and not phrases and ratios[kinds[0]] == 1.0:
            tier = TIER_OF_KIND[kinds[0]]
            docs, scores = score_term(
                *self.postings,
                *self.lengths,
                self.fields.gains,
                self.fields.row_languages,
                int(terms[0]),
                int(masks[0]),
                tier_weights[tier],
                self.k1,
                allowed,
                NO_DOCS if candidates is None else candidates,
                candidates is not None,
            )
            return _Scored(docs, scores, np.full(len(docs), tier, np.uint8))
        if len(terms) == 0 and not phrases:
            return _Scored(NO_DOCS, np.zeros(0, np.int64), np.zeros(0, np.uint8))
        scratch = SCRATCH
        scratch.reserve(self.index.num_docs)
        if candidates is not None:
            mark_bits(scratch.members, candidates, True)
            allowed = scratch.members
        for phrase in phrases:
            found = find_phrase(self.index, phrase, is_prefix=False, allowed=allowed)
            add_entries(
                *self.lengths,
                self.fields.gains,
                *found,
                ratios[MatchKind.STEM],
                allowed,
                scratch.freqs,
                scratch.tiers,
                scratch.touched,
            )
        add_terms(
            *self.postings,
            *self.lengths,
            self.fields.gains,
            self.fields.row_languages,
            terms,
            _TIERS[kinds],
            ratios[kinds],
            masks,
            allowed,
            NO_DOCS if candidates is None else candidates,
            candidates is not None,
            scratch.freqs,
            scratch.tiers,
            scratch.touched,
        )
        if candidates is not None:
            mark_bits(scratch.members, candidates, False)
        docs = list_bits(scratch.touched, self.index.num_docs)
        scores, tiers = take_scores(
            docs, tier_weights, self.k1, scratch.freqs, scratch.tiers, scratch.touched
        )
        return _Scored(docs, scores, tiers)

    def _score_phrase(
        self,
        phrase: Phrase,
        weights: Sequence[Sequence[float]],
        allowed: NDArray[np.uint64],
        candidates: NDArray[np.uint32] | None,
    ) -> _Scored:
        scratch = SCRATCH
        scratch.reserve(self.index.num_docs)
        if candidates is not None:
            mark_bits(scratch.members, candidates, True)
            allowed = scratch.members
        found = find_phrase(self.index, phrase.words, is_prefix=phrase.is_prefix, allowed=allowed)
        add_entries(
            *self.lengths,
            self.fields.gains,
            *found,
            1.0,
            NO_BITS,
            scratch.freqs,
            scratch.tiers,
            scratch.touched,
        )
        if candidates is not None:
            mark_bits(scratch.members, candidates, False)
        docs = list_bits(scratch.touched, self.index.num_docs)
        tier_weights = np.full(len(_TIERS), phrase_weight(weights))
        scores, tiers = take_scores(
            docs, tier_weights, self.k1, scratch.freqs, scratch.tiers, scratch.touched
        )
        return _Scored(docs, scores, tiers)

    # --- combining clauses

    def match_all(self, allowed: NDArray[np.uint64]) -> _Scored:
        """Return the documents that every clause matches, rarest clause first."""
        if not self.query.clauses:
            return self.match_anything(allowed)
        clauses = sorted(self.query.clauses, key=lambda one: self.cost(one.clause))
        result = self.score(clauses[0].clause, clauses[0].weights, allowed, None)
        for scored in clauses[1:]:
            if len(result.docs) == 0:
                break
            more = self.score(scored.clause, scored.weights, NO_BITS, result.docs)
            scores, tiers = _intersect(
                result.docs, result.scores, result.tiers, more.docs, more.scores, more.tiers
            )
            result = _Scored(more.docs, scores, tiers)
        return result

    def match_anything(self, allowed: NDArray[np.uint64]) -> _Scored:
        """Return all allowed documents: what a query leaves that only excludes."""
        num_docs = self.index.num_docs
        docs: NDArray[np.uint32] = (
            list_bits(allowed, num_docs) if len(allowed) else np.arange(num_docs, dtype=np.uint32)
        )
        return _Scored(docs, np.zeros(len(docs), np.int64), np.zeros(len(docs), np.uint8))

    def match_some(self, allowed: NDArray[np.uint64]) -> tuple[_Scored, NDArray[np.uint16]]:
        """Return the documents that enough clauses match, and how many."""
        scratch = SCRATCH
        scratch.reserve(self.index.num_docs)
        touched = np.zeros_like(scratch.touched[: (self.index.num_docs + 63) >> 6])
        for i, scored in enumerate(self.query.clauses):
            found = self.score(scored.clause, scored.weights, allowed, None)
            leading = i if self.query.is_leading else -1
            _add_clause(found.docs, found.scores, leading, scratch.scores, scratch.counts, touched)
        docs, scores, counts = _take_cells(
            list_bits(touched, self.index.num_docs),
            self.query.required,
            scratch.scores,
            scratch.counts,
            touched,
        )
        return _Scored(docs, scores, np.zeros(len(docs), np.uint8)), counts

    def exclude(self, result: _Scored) -> NDArray[np.bool_] | None:
        """Return which documents no excluded clause matches, or None if none is excluded."""
        if not self.query.excluded or len(result.docs) == 0:
            return None
        scratch = SCRATCH
        scratch.reserve(self.index.num_docs)
        bits = np.zeros((self.index.num_docs + 63) >> 6, np.uint64)
        for clause in self.query.excluded:
            words = 1 if isinstance(clause, Word) else len(clause.words)
            found = self.score(clause, [[1.0] * NUM_MATCH_KINDS] * words, NO_BITS, result.docs)
            mark_bits(bits, found.docs, True)
        outside: NDArray[np.bool_] = _is_outside(result.docs, bits)
        return outside

    # --- proximity

    def bonus(self, docs: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Return what documents get for words of the query that stand together."""
        words, pair_weights = proximity_pairs(self.query)
        sums = sum_closeness(
            self.index,
            [self.expansion(word) for word in words],
            pair_weights,
            docs,
            row_languages=self.fields.row_languages,
            is_searched=self.fields.gains[:, 1] > 0,
        )
        # A multiple of 2^-32 like all parts of a score, so that they add up exactly.
        return np.rint(sums * (self.query.proximity * SCORE_UNIT)) / SCORE_UNIT


_TIERS: Final = np.array(TIER_OF_KIND, np.uint8)


def phrase_words(phrase: Phrase) -> list[Word]:
    """Return the words of a phrase: as typed, the last one perhaps half typed."""
    last = len(phrase.words) - 1
    return [
        Word(word, phrase.is_prefix and i == last, is_stemmed=False)
        for i, word in enumerate(phrase.words)
    ]


def phrase_weight(weights: Sequence[Sequence[float]]) -> float:
    """Return the weight of a phrase: the sum of its words' best."""
    return math.fsum(max(one) for one in weights)


def proximity_pairs(query: TextQuery) -> tuple[list[Word], NDArray[np.float64]]:
    """Return the words that proximity looks at and the weight of each and the next.

    Words of the query in order, without phrases: these are together anyway. A pair that a phrase
    parts has weight 0. Neighbouring bigrams of a script without spaces share a character, so that
    they mostly stand together where both occur: that says less.
    """
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
    return words, np.array(pair_weights)


def _gains_of(
    segment: Segment, query: TextQuery, registry: FieldRegistry, languages: Languages
) -> FieldGains:
    """Return the query's gains in a segment, made once per set of fields, weights and averages."""
    memo: dict[Any, FieldGains] = segment.caches.setdefault("gains", {})
    key = (query.fields, query.b, languages.used(), bool(languages.by_path))
    gains = memo.get(key)
    if gains is None:
        numbers: dict[int, FieldWeight] = {}
        for field in query.fields:
            number = registry.number(field.path)
            if number is not None:
                numbers[number] = field
        bits = language_bits(languages)
        index = text_index(segment)
        by_number = {
            number: bits[languages.of(registry.paths[number])]
            for number in index.length_fields.tolist()
        }
        gains = make_gains(index, numbers, by_number, query.b)
        if len(memo) >= _GAINS_MAX:
            memo.clear()
        memo[key] = gains
    return gains


def worst_tier(query: TextQuery) -> int:
    """Return the worst tier that some clause can match in."""
    return max(
        (
            TIER_OF_KIND[kind]
            for scored in query.clauses
            if isinstance(scored.clause, Word)
            for kind in MatchKind
            if scored.weights[0][kind] > 0
        ),
        default=0,
    )


def tier_step(query: TextQuery) -> float:
    """Return the score of one tier: a power of two above any sum of clauses."""
    bound = math.fsum(
        phrase_weight(scored.weights)
        if isinstance(scored.clause, Phrase)
        else max(scored.weights[0])
        for scored in query.clauses
    )
    return 2.0 ** math.ceil(
        math.log2(max(bound * (1.0 + query.proximity * CHAIN_MAX), 0.5) * 1.0001)
    )


def match_text(
    view: SegmentView,
    query: TextQuery,
    registry: FieldRegistry,
    languages: Languages,
    allowed: NDArray[np.uint64] | None,
    num_ranked: int | None,
) -> TextMatch:
    """Find the documents that match a text query.

    Args:
        view: the segment; its deletions are not looked at, see `allowed`.
        query: with the weights that the coordinator derived.
        registry: of the segment's field numbers.
        languages: of the configuration.
        allowed: bitset of live documents that pass the filters; None: all documents.
        num_ranked: how many of the best must have their exact score; None: all.
    """
    segment = view.segment
    if query.required > len(query.clauses) or segment.num_docs == 0:
        return TextMatch(NO_DOCS, np.zeros(0))
    evaluation = Evaluation(segment, query, registry, languages)
    bits = NO_BITS if allowed is None else allowed
    docs, sums, offsets = _match(evaluation, bits)
    scores: NDArray[np.float64] = sums.astype(np.float64)
    scores /= SCORE_UNIT
    if query.proximity > 0 and len(docs):
        _, pair_weights = proximity_pairs(query)
        if pair_weights.any():
            scores = _add_proximity(evaluation, docs, scores, offsets, pair_weights, num_ranked)
    return TextMatch(docs, scores if offsets is None else offsets + scores)


def _match(
    evaluation: Evaluation, allowed: NDArray[np.uint64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.float64] | None]:
    """Return documents, sums of clauses and what tiers give (None: nothing)."""
    query = evaluation.query
    offsets: NDArray[np.float64] | None = None
    if query.required >= len(query.clauses):
        result = evaluation.match_all(allowed)
        worst = worst_tier(query)
        if worst > 0:
            offsets = tier_step(query) * (worst - result.tiers.astype(np.float64))
    else:
        result, counts = evaluation.match_some(allowed)
        if query.is_leading:
            offsets = tier_step(query) * (counts.astype(np.float64) - 1.0)
    is_kept = evaluation.exclude(result)
    if is_kept is None:
        return result.docs, result.scores, offsets
    return (
        result.docs[is_kept],
        result.scores[is_kept],
        None if offsets is None else offsets[is_kept],
    )


def _add_proximity(
    evaluation: Evaluation,
    docs: NDArray[np.uint32],
    scores: NDArray[np.float64],
    offsets: NDArray[np.float64] | None,
    pair_weights: NDArray[np.float64],
    num_ranked: int | None,
) -> NDArray[np.float64]:
    """Return the scores with the proximity bonus of all documents that can be among the best."""
    if num_ranked is None or num_ranked >= len(docs):
        return scores + evaluation.bonus(docs)
    if num_ranked <= 0:
        return scores
    totals = scores if offsets is None else offsets + scores
    threshold = np.partition(totals, len(totals) - num_ranked)[len(totals) - num_ranked]
    bonus_max = evaluation.query.proximity * float(pair_weights.sum()) * CHAIN_MAX
    # A little more than the greatest bonus, so that rounding cannot hide a document.
    chosen = np.flatnonzero(totals + bonus_max * (1.0 + 1e-9) >= threshold * (1.0 - 1e-12))
    scores = scores.copy()
    scores[chosen] += evaluation.bonus(docs[chosen])
    return scores


# --- statistics


@kernel(
    "int64[::1](uint8[::1], int64[::1], uint32[::1], uint32[::1], uint32[::1], uint32[::1],"
    " uint32[::1], uint32[::1])"
)
def _count_listed(
    postings: Any,
    posting_starts: Any,
    entry_counts: Any,
    skip_starts: Any,
    skip_docs: Any,
    skip_postings: Any,
    terms: Any,
    listed: Any,
) -> Any:
    """Return by term how many of the listed (ascending) documents have it."""
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    fields = np.empty(BLOCK_ENTRIES, np.uint16)
    freqs = np.empty(BLOCK_ENTRIES, np.uint32)
    counts = np.zeros(len(terms), np.int64)
    num_listed = len(listed)
    for i_term in range(len(terms)):
        term = np.int64(terms[i_term])
        row_first = np.int64(skip_starts[term])
        num_rows: Any = np.int64(skip_starts[term + 1]) - row_first
        left: Any = np.int64(entry_counts[term])
        at = posting_starts[term]
        num_blocks = max(num_rows, 1)
        place = np.int64(0)
        previous = np.int64(-1)
        for block in range(num_blocks):
            count = min(left, BLOCK_ENTRIES)
            left -= count
            if num_rows > 0:
                row = row_first + block
                place = gallop(listed, place, np.int64(skip_docs[row]))
                if place == num_listed:
                    break
                if block + 1 < num_blocks and listed[place] > skip_docs[row + 1]:
                    continue
                at = posting_starts[term] + np.int64(skip_postings[row])
            decode_block(postings, at, count, docs, fields, freqs)
            for i in range(count):
                doc = np.int64(docs[i])
                if place < num_listed and np.int64(listed[place]) < doc:
                    place = gallop(listed, place, doc)
                if place == num_listed:
                    break
                if np.int64(listed[place]) == doc and doc != previous:
                    counts[i_term] += 1
                    previous = doc
    return counts


@kernel(
    "int64(uint8[::1], int64[::1], uint32[::1], uint32[::1], uint32[::1], uint32[::1],"
    " uint32[::1], int64, int64, uint32[::1], boolean)"
)
def _count_forms(
    postings: Any,
    posting_starts: Any,
    entry_counts: Any,
    skip_starts: Any,
    skip_docs: Any,
    skip_postings: Any,
    terms: Any,
    num_before: Any,
    num_docs: Any,
    listed: Any,
    has_listed: Any,
) -> Any:
    """Return how many documents have some of the terms but none of the first `num_before`.

    Only the listed (ascending) documents are looked at, if there is a list.
    """
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    fields = np.empty(BLOCK_ENTRIES, np.uint16)
    freqs = np.empty(BLOCK_ENTRIES, np.uint32)
    num_listed = len(listed)
    is_counted = np.zeros(num_listed if has_listed else num_docs, np.bool_)
    total = np.int64(0)
    for i_term in range(len(terms)):
        term = np.int64(terms[i_term])
        row_first = np.int64(skip_starts[term])
        num_rows: Any = np.int64(skip_starts[term + 1]) - row_first
        left: Any = np.int64(entry_counts[term])
        at = posting_starts[term]
        num_blocks = max(num_rows, 1)
        place = np.int64(0)
        for block in range(num_blocks):
            count = min(left, BLOCK_ENTRIES)
            left -= count
            if num_rows > 0:
                row = row_first + block
                if has_listed:
                    place = gallop(listed, place, np.int64(skip_docs[row]))
                    if place == num_listed:
                        break
                    if block + 1 < num_blocks and listed[place] > skip_docs[row + 1]:
                        continue
                at = posting_starts[term] + np.int64(skip_postings[row])
            decode_block(postings, at, count, docs, fields, freqs)
            for i in range(count):
                cell = np.int64(docs[i])
                if has_listed:
                    if place < num_listed and listed[place] < docs[i]:
                        place = gallop(listed, place, cell)
                    if place == num_listed:
                        break
                    if listed[place] != docs[i]:
                        continue
                    cell = place
                if not is_counted[cell]:
                    is_counted[cell] = True
                    total += i_term >= num_before
    return total


def doc_freqs(view: SegmentView, word: Word, languages: Languages) -> NDArray[np.int64]:
    """Return how many live documents have a word, by `MatchKind`.

    STEM counts the documents that have another form but not the word itself, so EXACT + STEM is
    the number of documents with the word in any form. PREFIX and typos are summed over their terms
    (a document with two of them counts twice): there are thousands, and the sum is stored. Every
    number is additive over segments and shards. Fields and their languages are not looked at.

    Cost: one addition a term; the entries of the forms, once per segment; with deletions, the
    blocks that meet deleted documents.
    """
    expansion = expand_word(view.segment, word, languages)
    index = text_index(view.segment)
    lists: tuple[Any, Any, Any, Any, Any, Any] = (
        index.postings,
        index.posting_starts,
        index.entry_counts,
        index.skip_starts,
        index.skip_docs,
        index.skip_postings,
    )
    freqs = index.doc_freqs[expansion.terms].astype(np.int64)
    deleted = deleted_docs(view)
    if deleted is not None:
        freqs -= _count_listed(*lists, expansion.terms, deleted)
    counts = count_by_kind(expansion, freqs)
    if (expansion.kinds <= MatchKind.STEM).sum() > 1:
        counts[MatchKind.STEM] = _count_stem(view, index, expansion, lists, deleted)
    live = NO_BITS if view.live_mask is None else view.live_mask
    for phrase in expansion.phrases:
        found = find_phrase(index, phrase, is_prefix=False, allowed=live)
        counts[MatchKind.STEM] += len(np.unique(found.docs))
    return counts


def _count_stem(
    view: SegmentView,
    index: TextIndex,
    expansion: Expansion,
    lists: tuple[Any, Any, Any, Any, Any, Any],
    deleted: NDArray[np.uint32] | None,
) -> int:
    """Return how many live documents have another form of a word but not the word itself."""
    forms = expansion.terms[expansion.kinds <= MatchKind.STEM]
    num_exact = int((expansion.kinds == MatchKind.EXACT).sum())
    memo: dict[tuple[int, ...], int] = view.segment.caches.setdefault("forms", {})
    key = (num_exact, *forms.tolist())
    total = memo.get(key)
    if total is None:
        total = int(_count_forms(*lists, forms, num_exact, index.num_docs, NO_DOCS, False))
        if len(memo) >= _FORMS_MAX:
            memo.clear()
        memo[key] = total
    if deleted is not None:
        total -= int(_count_forms(*lists, forms, num_exact, index.num_docs, deleted, True))
    return total


def deleted_docs(view: SegmentView) -> NDArray[np.uint32] | None:
    """Return the deleted documents of a view, ascending, or None if there are none."""
    if view.deleted is None or not len(view.deleted):
        return None
    return np.frombuffer(bytearray(view.deleted.to_array().tobytes()), np.uint32)


@kernel(
    "void(int32[::1], int64[::1], uint8[::1], int64[::1], uint32[::1], uint32[::1], int64[::1],"
    " int64[::1], int64[::1])",
    allocates=False,
)
def _subtract_lengths(
    field_rows: Any,
    length_starts: Any,
    lengths: Any,
    length_doc_starts: Any,
    length_docs: Any,
    deleted: Any,
    decoded: Any,
    num_docs: Any,
    totals: Any,
) -> Any:
    """Take the deleted documents out of the rows' numbers of documents and sums of lengths."""
    for row in range(len(num_docs)):
        start = length_starts[row]
        sparse = length_doc_starts[row]
        size = length_starts[row + 1] - start
        place = np.int64(0)
        for doc_32 in deleted:
            doc = np.int64(doc_32)
            code = np.int64(0)
            if sparse < 0:
                code = np.int64(lengths[start + doc])
            else:
                while place < size and np.int64(length_docs[sparse + place]) < doc:
                    place += 1
                if place == size:
                    break
                if np.int64(length_docs[sparse + place]) == doc:
                    code = np.int64(lengths[start + place])
            if code > 0:
                num_docs[row] -= 1
                totals[row] -= decoded[code]


def field_statistics(view: SegmentView) -> dict[int, tuple[int, int]]:
    """Return by field number: live documents with words in the field, sum of their lengths.

    Cost: two numbers a field; with deletions, one byte a field and deleted document.
    """
    index = text_index(view.segment)
    num_docs, totals = index.field_num_docs, index.field_totals
    deleted = deleted_docs(view)
    if deleted is not None:
        num_docs, totals = num_docs.copy(), totals.copy()
        _subtract_lengths(
            index.field_rows,
            index.length_starts,
            index.lengths,
            index.length_doc_starts,
            index.length_docs,
            deleted,
            DECODED_LENGTHS,
            num_docs,
            totals,
        )
    return {
        number: (count, total)
        for number, count, total in zip(
            index.length_fields.tolist(), num_docs.tolist(), totals.tolist(), strict=True
        )
        if count > 0
    }
