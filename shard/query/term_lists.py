"""Posting lists of single terms: which documents have all of some terms, with which scores?

A query of plain words is most of what people type, and most of what it costs is reading the lists.
They are read like this, rarest term first:

    green (19,000)   documents only ─▶ bits
    mile  (52,000)   documents only, those with a bit ─▶ field, frequency, score of these
    green            blocks that hold one of them ─▶ field, frequency, score of these

Of a list that has a bitset (`shard/index/dense_lists.py`) only the entries of documents that have
all terms are read, and none to know which these are; the other lists come first:

    green (19,000)   documents only ─▶ those with a bit of mile ─▶ field, frequency, score of these

An entry's document is read without its other numbers, and those are read for documents that have
all terms (entries of a block have one width, so each can be read by itself). Whether a document is
wanted is looked up in a bitset and counted in, without a branch: in random data a branch would be
missed every other time, which costs more than all the rest.

Best of one term. Each block has a *bound*: the greatest t (see bm25f) of a document whose entries
begin in it. The blocks with the greatest bounds are scored, and then those that can still reach
the worst of the best; a list of 80,000 documents is done after some twenty of its 600 blocks. This
is block-max pruning (Ding, Suel: Faster top-k document retrieval using block-max indexes, SIGIR
2011), for one list. Bounds are made when a term is first asked for and hold for as long as the
weights and average lengths of the fields move by less than `_DRIFT_MAX`.

Costs: 1.5 ns an entry whose document is read, 6 ns a document that is scored; 12 ns by a bitset.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels import arguments, kernel
from shard.index.dense_lists import (
    DenseLists,
    add_members,
    find_dense,
    find_entries,
    list_members,
    pick_members,
)
from shard.index.postings import (
    BLOCK_ENTRIES,
    count_blocks,
    decode_docs,
    decode_entry,
    locate_block,
    next_block,
    open_block,
)
from shard.query.bm25f import (
    BlockScratch,
    FieldGains,
    ScoredLists,
    Wanted,
    block_scratch,
    clear_bits,
    length_code,
    mark_bits,
    pick_wanted,
    saturate,
)
from shard.query.expansion import ALL_LANGUAGES
from shard.query.ranking import heap_kth_greatest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.index.segment import Segment
    from shard.index.text_index import TextIndex

BOUNDED_BLOCKS_MIN: Final = 24
"""Shorter lists are scored as fast as their bounds are looked through."""
_SURPLUS_BLOCKS: Final = 4
"""Blocks scored first, beside as many as there are hits wanted."""
_DRIFT_MAX: Final = 1.01
"""Bounds are made anew when they would have to be raised by more than this."""
_CHOICES_MAX: Final = 4
"""Different choices of fields and weights whose bounds are kept per segment (9 bytes a block)."""

_PIECE_DOCS: Final = 512

_ONE: Final = np.uint64(1)


@arguments
class _Matched(NamedTuple):
    """Room for the documents of a term.

    Attributes:
        docs: one more than there can be.
        totals: by document, units of 2^-24.
    """

    docs: NDArray[np.uint32]
    totals: NDArray[np.int64]


@arguments
class _Terms(NamedTuple):
    """A term of each of some words, rarest first.

    Attributes:
        terms: ordinals.
        languages: masks of the languages in whose fields each counts.
        weights: of the words.
    """

    terms: NDArray[np.int64]
    languages: NDArray[np.uint64]
    weights: NDArray[np.float64]


@arguments
class _Found(NamedTuple):
    """Documents with their entries in a list.

    Attributes:
        docs: ascending.
        firsts: of each, its first entry.
        counts: and how many it has.
    """

    docs: NDArray[np.uint32]
    firsts: NDArray[np.int64]
    counts: NDArray[np.uint16]


@arguments
class _Segment(NamedTuple):
    """What is searched.

    Attributes:
        num_docs: of the segment.
        bits: clean bitset over at least these documents, for a kernel's own use.
    """

    num_docs: int
    bits: NDArray[np.uint64]


@arguments
class _Bounded(NamedTuple):
    """A term whose best documents are looked for.

    Attributes:
        term: ordinal.
        languages: mask of the languages in whose fields it counts.
        weight: of its word.
        bounds: of its blocks.
        drift: by what factor they may be too low.
    """

    term: int
    languages: np.uint64
    weight: float
    bounds: NDArray[np.int64]
    drift: float


@kernel(
    "int64(ScoredLists, boolean, int64, uint64, Wanted, boolean, _Matched, BlockScratch)",
    allocates=False,
)
def _scan(
    scored: ScoredLists,
    checks_rows: Any,
    term: Any,
    languages: Any,
    wanted: Wanted,
    is_scored: Any,
    matched: _Matched,
    scratch: BlockScratch,
) -> Any:
    """Write the documents of a term, and with `is_scored` their t; return how many.

    `checks_rows` says whether there are fields in which the term does not count.
    """
    lists, lengths, gains, row_languages = scored
    postings, field_rows = lists.postings, lengths.field_rows
    out_docs, out_totals = matched
    docs, picked = scratch
    has_bits = len(wanted.bits) > 0
    num_blocks = count_blocks(lists, term)
    candidate = np.int64(0)
    found = 0
    current = np.int64(-1)
    total = np.int64(0)
    block = np.int64(0)
    while True:
        if wanted.is_listed:
            block, candidate = next_block(lists, term, block, wanted.docs, candidate)
        if block == num_blocks:
            break
        at, count = locate_block(lists, term, block)
        block += 1
        packing = decode_docs(postings, at, count, docs)
        if not is_scored and not checks_rows:
            for i in range(count):
                doc = np.int64(docs[i])
                is_new = doc != current
                if has_bits:
                    is_new &= wanted.bits[doc >> 6] >> np.uint64(doc & 63) & _ONE != 0
                out_docs[found] = doc
                found += is_new
                current = doc
            continue
        num_picked = count
        if has_bits:
            num_picked = pick_wanted(docs, count, wanted.bits, picked)
        for p in range(num_picked):
            i = picked[p] if has_bits else p
            doc = np.int64(docs[i])
            field, freq = decode_entry(postings, packing, i)
            row = np.uint64(field_rows[field])  # unsigned: no test for a negative index
            if checks_rows and (not row_languages[row] & languages or gains[row, 1] == 0.0):
                continue
            if doc != current:
                if is_scored and current >= 0:
                    out_totals[found - 1] = total
                    total = np.int64(0)
                current = doc
                out_docs[found] = doc
                found += 1
            if is_scored:
                gain = gains[row, length_code(lengths, row, doc)]
                total += np.int64(freq * gain + 0.5)
    if is_scored and current >= 0:
        out_totals[found - 1] = total
    return found


@kernel("void(ScoredLists, int64, _Found, int64[::1])", allocates=False)
def _sum_found(scored: ScoredLists, term: Any, found: _Found, totals: Any) -> None:
    """Write the t of documents whose entries in a list are known."""
    docs, firsts, counts = found
    lists, lengths, gains, _ = scored
    postings, field_rows = lists.postings, lengths.field_rows
    block: Any = np.int64(0)
    at, _ = locate_block(lists, term, block)
    _, packing = open_block(postings, at)
    for i in range(len(docs)):
        doc = np.int64(docs[i])
        total = np.int64(0)
        for entry in range(firsts[i], firsts[i] + counts[i]):
            if entry // BLOCK_ENTRIES != block:
                block = entry // BLOCK_ENTRIES
                at, _ = locate_block(lists, term, block)
                _, packing = open_block(postings, at)
            field, freq = decode_entry(postings, packing, entry % BLOCK_ENTRIES)
            row = np.uint64(field_rows[field])
            total += np.int64(freq * gains[row, length_code(lengths, row, doc)] + 0.5)
        totals[i] = total


@kernel("void(int64[::1], float64, float64, int64[::1])", allocates=False)
def _add_saturated(totals: Any, weight: Any, k1: Any, scores: Any) -> None:
    """Add what documents get for their t: in a loop of its own, so that it is done for several."""
    for i in range(len(scores)):
        scores[i] += saturate(totals[i], weight, k1)


@kernel(
    "void(ScoredLists, DenseLists, _Terms, int64[::1], float64, int64, uint32[::1], int64[::1])"
)
def _add_dense(
    scored: ScoredLists,
    dense: DenseLists,
    words: _Terms,
    places: Any,
    k1: Any,
    num_docs: Any,
    docs: Any,
    scores: Any,
) -> None:
    """Add what those of some terms that have a place give to documents.

    Some documents at a time: what is read and written for them stays in the first-level cache.
    """
    terms, weights = words.terms, words.weights
    firsts = np.empty(_PIECE_DOCS, np.int64)
    counts = np.empty(_PIECE_DOCS, np.uint16)
    totals = np.empty(_PIECE_DOCS, np.int64)
    for start in range(0, len(docs), _PIECE_DOCS):
        found = _Found(docs[start : start + _PIECE_DOCS], firsts, counts)
        for i in range(len(places)):
            if places[i] >= 0:
                find_entries(dense, places[i], num_docs, found.docs, firsts, counts)
                _sum_found(scored, terms[i], found, totals)
                _add_saturated(totals, weights[i], k1, scores[start : start + _PIECE_DOCS])


@kernel("(ScoredLists, DenseLists, boolean, _Terms, int64[::1], Wanted, _Segment, boolean)")
def _intersect(
    scored: ScoredLists,
    dense: DenseLists,
    checks_rows: Any,
    words: _Terms,
    places: Any,
    wanted: Wanted,
    segment: _Segment,
    is_scored: Any,
) -> Any:
    """Return the documents that have all terms; with `is_scored` and the t of the last list read.

    Lists that have a place among the dense ones are not read.
    """
    terms, languages = words.terms, words.languages
    num_docs, bits = segment
    last = len(terms) - 1
    while last >= 0 and places[last] >= 0:
        last -= 1
    totals = np.empty(0, np.int64)
    is_narrowed = wanted.is_listed
    if last < 0 and not is_narrowed:
        return list_members(dense, places, wanted.bits, num_docs), totals
    docs = wanted.docs if last >= 0 else wanted.docs.copy()
    count = len(docs)
    scratch = block_scratch()
    for i in range(last + 1):
        if places[i] >= 0:
            continue
        size = count if is_narrowed else np.int64(scored.lists.entry_counts[terms[i]])
        more = np.empty(size + 1, np.uint32)
        is_scored_now = is_scored and i == last
        if is_scored_now:
            totals = np.empty(size, np.int64)
        if is_narrowed:
            mark_bits(bits, docs[:count])
        num_more = _scan(
            scored,
            checks_rows,
            terms[i],
            languages[i],
            Wanted(bits if is_narrowed else wanted.bits, docs[:count], is_narrowed),
            is_scored_now,
            _Matched(more, totals),
            scratch,
        )
        if is_narrowed:
            clear_bits(bits, docs[:count])
        docs = more
        count = num_more
        is_narrowed = True
        if count == 0:
            break
    for place in places:
        if place >= 0:
            count = pick_members(dense, place, num_docs, docs, count)
    return docs[:count], totals


@kernel("(ScoredLists, DenseLists, boolean, _Terms, float64, Wanted, _Segment, boolean)")
def _match_terms(
    scored: ScoredLists,
    dense: DenseLists,
    checks_rows: Any,
    words: _Terms,
    k1: Any,
    wanted: Wanted,
    segment: _Segment,
    is_scored: Any,
) -> Any:
    """Kernel of `TermLists.match`."""
    terms, languages, weights = words
    bits = segment.bits
    num_read = len(terms)
    places = np.full(len(terms), -1)
    # A list that is scored as a whole is read in turn.
    is_whole = len(terms) == 1 and is_scored and len(wanted.bits) == 0 and not wanted.is_listed
    if not checks_rows and not is_whole:
        for i in range(len(terms)):
            places[i] = find_dense(dense, terms[i])
            num_read -= places[i] >= 0
    has_dense = num_read < len(terms)
    docs, totals = _intersect(
        scored, dense, checks_rows, words, places, wanted, segment, is_scored and not has_dense
    )
    scores = np.zeros(len(docs) if is_scored else 0, np.int64)
    if len(scores) == 0:
        return docs, scores
    if not has_dense:
        num_read -= 1
        _add_saturated(totals, weights[num_read], k1, scores)
    if num_read > 0:
        scratch = block_scratch()
        matched = _Matched(np.empty(len(docs) + 1, np.uint32), np.empty(len(docs), np.int64))
        mark_bits(bits, docs)
        found = Wanted(bits, docs, True)
        for i in range(len(terms)):
            if places[i] < 0 and num_read > 0:
                num_read -= 1
                _scan(scored, checks_rows, terms[i], languages[i], found, True, matched, scratch)
                _add_saturated(matched.totals, weights[i], k1, scores)
        clear_bits(bits, docs)
    if has_dense:
        _add_dense(scored, dense, words, places, k1, segment.num_docs, docs, scores)
    return docs, scores


@kernel(
    "void(ScoredLists, DenseLists, boolean, uint32[::1], uint64[::1], Wanted, int64, uint64[::1])"
)
def _mark_terms(
    scored: ScoredLists,
    dense: DenseLists,
    checks_rows: Any,
    terms: Any,
    languages: Any,
    wanted: Wanted,
    num_docs: Any,
    marked: Any,
) -> None:
    """Kernel of `TermLists.mark`."""
    entry_counts = scored.lists.entry_counts
    size: Any = np.int64(len(wanted.docs))
    for term in terms:
        size = max(size, np.int64(entry_counts[term]))
    docs = np.empty(size + 1, np.uint32)
    matched = _Matched(docs, np.empty(0, np.int64))
    scratch = block_scratch()
    for i in range(len(terms)):
        term = np.int64(terms[i])
        place = -1 if checks_rows else find_dense(dense, term)
        if place < 0:
            count = _scan(scored, checks_rows, term, languages[i], wanted, False, matched, scratch)
        elif wanted.is_listed:
            count = len(wanted.docs)
            docs[:count] = wanted.docs
            count = pick_members(dense, place, num_docs, docs, count)
        else:
            add_members(dense, place, num_docs, wanted.bits, marked)
            continue
        mark_bits(marked, docs[:count])


@kernel("void(ScoredLists, boolean, int64, uint64, int64[::1])")
def _bound_blocks(
    scored: ScoredLists, checks_rows: Any, term: Any, languages: Any, bounds: Any
) -> None:
    """Write the greatest t of the documents that begin in each block of a term."""
    lists, lengths, gains, row_languages = scored
    postings, field_rows = lists.postings, lengths.field_rows
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    current = np.int64(-1)
    total = np.int64(0)
    owner = 0
    for block in range(len(bounds)):
        bounds[block] = 0
        at, count = locate_block(lists, term, block)
        packing = decode_docs(postings, at, count, docs)
        for i in range(count):
            doc = np.int64(docs[i])
            if doc != current:
                current = doc
                owner = block
                total = np.int64(0)
            field, freq = decode_entry(postings, packing, i)
            row = np.uint64(field_rows[field])
            if checks_rows and not row_languages[row] & languages:
                continue
            total += np.int64(freq * gains[row, length_code(lengths, row, doc)] + 0.5)
            bounds[owner] = max(bounds[owner], total)


@kernel("(ScoredLists, boolean, _Bounded, float64, uint64[::1], uint64[::1], int64)")
def _best_of_term(
    scored: ScoredLists,
    checks_rows: Any,
    bounded: _Bounded,
    k1: Any,
    allowed: Any,
    bits: Any,
    k: Any,
) -> Any:
    """Return documents and scores of a term's k best and of those beside them in their blocks.

    A round scores the blocks whose bounds are great enough. What the k-th best of these scores
    tells which blocks it takes to be sure; if they were not all there, they are the next round.
    """
    lists = scored.lists
    term, languages, weight, bounds, drift = bounded
    num_blocks = len(bounds)
    scratch = block_scratch()
    block_docs = scratch.docs
    num_wanted = min(k + _SURPLUS_BLOCKS, num_blocks)
    heap = np.empty(num_blocks, np.int64)
    is_chosen = np.empty(num_blocks, np.bool_)
    least = heap_kth_greatest(bounds, num_wanted, heap)
    for block in range(num_blocks):
        is_chosen[block] = bounds[block] >= least
    while True:
        num_chosen = 0
        for block in range(num_blocks):
            num_chosen += is_chosen[block]
        members = np.empty(num_chosen * BLOCK_ENTRIES + 1, np.uint32)
        num_members = 0
        current = np.int64(-1)
        for block in range(num_blocks):
            if not is_chosen[block]:
                continue
            at, count = locate_block(lists, term, block)
            decode_docs(lists.postings, at, count, block_docs)
            for i in range(count):
                doc = np.int64(block_docs[i])
                is_new = doc != current
                if len(allowed) > 0:
                    is_new &= allowed[doc >> 6] >> np.uint64(doc & 63) & _ONE != 0
                members[num_members] = doc
                num_members += is_new
                current = doc
        members = members[:num_members]
        docs = np.empty(num_members + 1, np.uint32)
        scores = np.empty(num_members, np.int64)
        mark_bits(bits, members)
        found = _scan(
            scored,
            checks_rows,
            term,
            languages,
            Wanted(bits, members, True),
            True,
            _Matched(docs, scores),
            scratch,
        )
        clear_bits(bits, members)
        docs = docs[:found]
        scores = scores[:found]
        for position in range(found):
            scores[position] = saturate(scores[position], weight, k1)
        if num_chosen == num_blocks:
            return docs, scores
        is_enough = True
        if found >= k:
            worst = heap_kth_greatest(scores, k, heap if k <= len(heap) else np.empty(k, np.int64))
            for block in range(num_blocks):
                reach = saturate(np.int64(bounds[block] * drift) + 1, weight, k1)
                is_enough &= is_chosen[block] or reach < worst
                is_chosen[block] |= reach >= worst
        else:  # the filters leave too few of these
            is_enough = False
            num_wanted = min(4 * num_wanted, num_blocks)
            least = heap_kth_greatest(bounds, num_wanted, heap)
            for block in range(num_blocks):
                is_chosen[block] = bounds[block] >= least
        if is_enough:
            return docs, scores


@dataclass(slots=True)
class _Bounds:
    """The bounds of one segment's blocks under the gains that they were made with."""

    gains: FieldGains
    values: NDArray[np.int64]
    """By skip row."""
    is_known: NDArray[np.bool_]
    """By skip row, set for all of a term's at once."""


class TermLists:
    """The posting lists of one segment, as one query scores them.

    Args:
        segment: where the bounds are kept.
        index: its text structures.
        fields: gains of the query's fields.
        k1: in units of 2^-24.
        bits: clean bitset over the segment's documents; used by one call at a time.
    """

    __slots__ = ("_bits", "_fields", "_index", "_k1", "_segment")

    def __init__(
        self,
        segment: Segment,
        index: TextIndex,
        fields: FieldGains,
        k1: float,
        bits: NDArray[np.uint64],
    ) -> None:
        self._segment = segment
        self._index = index
        self._fields = fields
        self._k1 = k1
        self._bits = bits

    def match(
        self,
        terms: NDArray[np.int64],
        languages: NDArray[np.uint64],
        weights: NDArray[np.float64],
        allowed: NDArray[np.uint64],
        candidates: NDArray[np.uint32] | None,
        *,
        is_scored: bool = True,
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the documents that have all of some terms.

        Args:
            terms: ordinals, rarest first.
            languages: masks of the languages in whose fields each counts.
            weights: of the terms' words.
            allowed: bitset of documents; empty: all.
            candidates: ascending documents, the only ones looked at, whatever is allowed; or None.
            is_scored: whether scores are wanted.

        Returns:
            Documents, ascending; scores in units of 2^-32 (nothing if they are not wanted).
        """
        matched: tuple[NDArray[np.uint32], NDArray[np.int64]] = _match_terms(
            self._fields.lists,
            self._index.dense_lists,
            self._checks_rows(languages),
            _Terms(terms, languages, weights),
            self._k1,
            Wanted.of(allowed, candidates),
            _Segment(self._index.num_docs, self._bits),
            is_scored,
        )
        return matched

    def mark(
        self,
        terms: NDArray[np.uint32],
        languages: NDArray[np.uint64],
        wanted: Wanted,
        marked: NDArray[np.uint64],
    ) -> None:
        """Put the documents that have one of some terms into a bitset.

        Args:
            terms: ordinals.
            languages: masks of the languages in whose fields each counts.
            wanted: the documents that are looked for.
            marked: the bitset.
        """
        _mark_terms(
            self._fields.lists,
            self._index.dense_lists,
            self._checks_rows(languages),
            terms,
            languages,
            wanted,
            self._index.num_docs,
            marked,
        )

    def count(self, term: int, languages: int) -> int | None:
        """Return how many documents a term has, deleted ones included; None: nobody knows."""
        if self._checks_rows(np.array([languages], np.uint64)):
            return None
        return int(self._index.doc_freqs[term])

    def best(
        self, term: int, languages: int, weight: float, allowed: NDArray[np.uint64], k: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]] | None:
        """Return documents of one term, the k best and all equal to the k-th among them.

        Args:
            term: ordinal.
            languages: mask of the languages in whose fields it counts.
            weight: of its word.
            allowed: bitset of documents; empty: all.
            k: at least 1.

        Returns:
            Documents, ascending, and scores in units of 2^-32; None where reading the whole list
            is as good.
        """
        skip_starts = self._index.lists.skip_starts
        start, end = int(skip_starts[term]), int(skip_starts[term + 1])
        if end - start < max(BOUNDED_BLOCKS_MIN, 2 * k):
            return None
        if languages != ALL_LANGUAGES:
            return None  # bounds are those of all languages
        bounds, drift = self._bounds(term, start, end)
        found: tuple[NDArray[np.uint32], NDArray[np.int64]] = _best_of_term(
            self._fields.lists,
            not self._fields.are_all_searched,
            _Bounded(term, np.uint64(languages), weight, bounds, drift),
            self._k1,
            allowed,
            self._bits,
            k,
        )
        return found

    def _checks_rows(self, languages: NDArray[np.uint64]) -> bool:
        return not self._fields.are_all_searched or bool((languages != ALL_LANGUAGES).any())

    def _bounds(self, term: int, start: int, end: int) -> tuple[NDArray[np.int64], float]:
        """Return the bounds of a term's blocks, and by how much they may be too low."""
        memo: dict[Hashable, _Bounds] = self._segment.caches.setdefault("bounds", {})
        known = memo.get(self._fields.choice)
        drift = 1.0 if known is None else self._fields.drift_from(known.gains)
        if known is None or drift > _DRIFT_MAX:
            if len(memo) >= _CHOICES_MAX:
                memo.clear()
            num_rows = len(self._index.lists.skip_docs)
            known = memo[self._fields.choice] = _Bounds(
                self._fields, np.zeros(num_rows, np.int64), np.zeros(num_rows, np.bool_)
            )
            drift = 1.0
        if not known.is_known[start]:
            # Made apart: another thread may read the same ones.
            bounds = np.empty(end - start, np.int64)
            _bound_blocks(
                known.gains.lists,
                not known.gains.are_all_searched,
                term,
                np.uint64(ALL_LANGUAGES),
                bounds,
            )
            known.values[start:end] = bounds
            known.is_known[start:end] = True
        return known.values[start:end], drift
