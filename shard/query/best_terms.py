"""The best documents of one term, or of several, without scoring all that have them.

Scoring a document costs more than finding it, and a query of common words has ten thousand of which
ten are wanted. What a document can score at most is known by *bounds*, and only those are scored
that can still get among the best.

One term. Each block of its list has a bound: the greatest t (see bm25f) of a document whose entries
begin in it. The blocks with the greatest bounds are scored, and then those that can still reach
the worst of the best; a list of 80,000 documents is done after some twenty of its 600 blocks. This
is block-max pruning (Ding, Suel: Faster top-k document retrieval using block-max indexes, SIGIR
2011), for one list.

Several terms. Those that have a bitset (`shard/index/dense_lists.py`) need not be read to know
which documents have all; each has a bound for every 16 documents:

    bits of green ∧ bits of mile ─▶ 10,000 documents
      ─▶ upper[doc] = Σ bound[term, doc / 16], and the scores of lists that were read
      ─▶ the 320 greatest: scored; the 40 best of them with bonus: the worst of the best
      ─▶ those that can still reach it: about 400, scored

Bounds of blocks would not do here: of 64 neighbours one is good for either word, and every fourth
document would be scored; with 16 it is one in 25, with 8 one in 50. A bound is a byte: in which
256th of its greatest score the best of the 16 is.

Both kinds are kept for as long as the weights and average lengths of the fields move by less than
`_DRIFT_MAX`. Those of blocks are made when a term is first asked for (10 ns an entry); the others
take longer, so they are wished for (`shard/wishes.py`), and meanwhile all documents are scored.

Cost of several terms: 2 ns a document, beside finding it; 8 ns a list, where it is scored.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels import arguments, kernel
from shard.index.dense_lists import DenseLists, find_dense
from shard.index.postings import BLOCK_ENTRIES, decode_docs, decode_entry, locate_block
from shard.query.bm25f import (
    FREQ_UNIT,
    NO_BITS,
    SCORE_UNIT,
    SCRATCH,
    FieldGains,
    ScoredLists,
    Wanted,
    clear_bits,
    length_code,
    mark_bits,
    saturate,
)
from shard.query.expansion import ALL_LANGUAGES
from shard.query.proximity import Nearness, join, num_first, rank_near, reward
from shard.query.ranking import GREATEST, best_of, heap_kth_greatest, kth_greatest, pick
from shard.query.term_lists import (
    Matched,
    Searched,
    TermLists,
    Terms,
    add_dense,
    find_places,
    match_terms,
    scan,
    scan_scratch,
)
from shard.wishes import WISHES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.index.segment import Segment

BOUNDED_BLOCKS_MIN: Final = 24
"""Shorter lists are scored as fast as their bounds are looked through."""
_SURPLUS_BLOCKS: Final = 4
"""Blocks scored first, beside as many as there are hits wanted."""
BOUNDED_DOCS_MIN: Final = 2_500
"""Fewer documents are scored as fast as those are found that need not be."""
_BOUNDED_FACTOR: Final = 8
"""How many times the documents that get their bonus first are scored before, by their bounds."""
_SAMPLE_STEP: Final = 16
"""One in so many tells which bounds are great."""
_DRIFT_MAX: Final = 1.01
"""Bounds are made anew when they would have to be raised by more than this."""
_CHOICES_MAX: Final = 4
"""Different choices of fields and weights whose bounds are kept per segment (9 bytes a block)."""

_GROUP_SHIFT: Final = 4
_CODE_K1: Final = 1.2 * FREQ_UNIT
"""What codes of bounds are made with: best for the usual k1, right for any."""
_CODE_MAX: Final = 255
_CODE_SHIFT: Final = 24
"""From a score of a word of weight 1 to its code."""

_ONE: Final = np.uint64(1)


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


@arguments
class _GroupBounds(NamedTuple):
    """The bounds of dense lists by groups of documents.

    Attributes:
        codes: by place of the list and group.
        is_known: by place.
        drift: by what factor t may exceed what the codes say.
    """

    codes: NDArray[np.uint8]
    is_known: NDArray[np.bool_]
    drift: float


# --- kernels: one term


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
    """Return documents and scores of a term's k best, and of all that are their equals.

    A round scores the blocks whose bounds are great enough. What the k-th best of these scores
    tells which blocks it takes to be sure; if they were not all there, they are the next round.
    """
    lists = scored.lists
    term, languages, weight, bounds, drift = bounded
    num_blocks = len(bounds)
    scratch = scan_scratch()
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
        found = scan(
            scored,
            checks_rows,
            term,
            languages,
            Wanted(bits, members, True),
            True,
            Matched(docs, scores),
            scratch,
        )
        clear_bits(bits, members)
        docs = docs[:found]
        scores = scores[:found]
        for position in range(found):
            scores[position] = saturate(scores[position], weight, k1)
        if num_chosen == num_blocks:
            return best_of(docs, scores, k)
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
            return best_of(docs, scores, k)


# --- kernels: several terms


@kernel("int64(int64)", inline=True, allocates=False)
def _num_groups(num_docs: Any) -> Any:
    """Return the groups of documents."""
    return (num_docs >> _GROUP_SHIFT) + 1


@kernel("void(uint32[::1], int64[::1], uint8[::1])", allocates=False)
def _write_codes(docs: Any, scores: Any, codes: Any) -> None:
    """Write a list's bounds by group, from its documents' scores for a word of weight 1."""
    for i in range(len(docs)):
        group = docs[i] >> np.uint32(_GROUP_SHIFT)
        codes[group] = max(codes[group], np.uint8(min(scores[i] >> _CODE_SHIFT, _CODE_MAX)))


@kernel("void(uint32[::1], uint8[::1], float64, float64, float64, int64[::1])")
def _add_bounds(docs: Any, codes: Any, drift: Any, weight: Any, k1: Any, uppers: Any) -> None:
    """Add the most that documents can get for a term."""
    by_code = np.empty(_CODE_MAX + 1, np.int64)
    for code in range(_CODE_MAX):
        t = _CODE_K1 * (code + 1) / (_CODE_MAX - code)
        by_code[code] = saturate(np.int64(t * drift) + 1, weight, k1) + 1
    by_code[_CODE_MAX] = np.int64(weight * SCORE_UNIT) + 1
    for i in range(len(docs)):
        uppers[i] += by_code[codes[docs[i] >> np.uint32(_GROUP_SHIFT)]]


@kernel(
    "(ScoredLists, DenseLists, boolean, Terms, float64, uint64[::1], Searched, _GroupBounds, "
    "Nearness, int64)"
)
def _best_of_terms(
    scored: ScoredLists,
    dense: DenseLists,
    checks_rows: Any,
    words: Terms,
    k1: Any,
    allowed: Any,
    segment: Searched,
    bounds: _GroupBounds,
    nearness: Nearness,
    k: Any,
) -> Any:
    """Return the documents that have all terms; the best of them; their scores; missing bounds."""
    num_docs = segment.num_docs
    places = find_places(dense, words, checks_rows)
    num_dense = 0
    num_missing = 0
    for place in places:
        num_dense += place >= 0
        num_missing += place >= 0 and not bounds.is_known[place]
    wanted = Wanted(allowed, np.empty(0, np.uint32), False)
    docs, scores = match_terms(scored, dense, checks_rows, words, places, k1, wanted, segment, True)
    num_bounded = _BOUNDED_FACTOR * num_first(k)
    if num_dense == 0 or num_missing > 0 or len(docs) < max(BOUNDED_DOCS_MIN, 2 * num_bounded):
        if len(docs) < BOUNDED_DOCS_MIN:
            num_missing = 0
        add_dense(scored, dense, words, places, k1, num_docs, docs, scores)
        best, totals = rank_near(scored, nearness, docs, scores, k)
        return docs, best, totals, num_missing
    uppers = scores.copy()
    num_groups = _num_groups(num_docs)
    for i in range(len(places)):
        if places[i] >= 0:
            codes = bounds.codes[places[i] * num_groups : (places[i] + 1) * num_groups]
            _add_bounds(docs, codes, bounds.drift, words.weights[i], k1, uppers)
    # Those in front by bounds, about which a sample tells, are scored; those of them that are in
    # front by score get their bonus, and tell the worst of the best.
    least = kth_greatest(uppers[::_SAMPLE_STEP].copy(), num_bounded // _SAMPLE_STEP)
    first, totals = pick(docs, uppers, least, GREATEST, scores)
    if len(first) < num_first(k):
        least = kth_greatest(uppers, num_first(k))
        first, totals = pick(docs, uppers, least, GREATEST, scores)
    add_dense(scored, dense, words, places, k1, num_docs, first, totals)
    front = kth_greatest(totals, num_first(k))
    near, near_totals = pick(first, totals, front, GREATEST, totals)
    near_totals += reward(scored, nearness, near)
    # So do all others that can reach it with the whole bonus.
    reach = kth_greatest(near_totals, k) - nearness.most
    others, other_totals = pick(first, totals, reach, front - 1, totals)
    if reach < least:
        more, totals = pick(docs, uppers, reach, least - 1, scores)
        add_dense(scored, dense, words, places, k1, num_docs, more, totals)
        more, totals = pick(more, totals, reach, GREATEST, totals)
        others, other_totals = join(others, other_totals, more, totals)
    other_totals += reward(scored, nearness, others)
    some, totals = join(near, near_totals, others, other_totals)
    best, totals = best_of(some, totals, k)
    return docs, best, totals, 0


# --- what is kept, and what is asked for


@dataclass(slots=True)
class _Bounds:
    """The bounds of one segment's lists under the gains that they were made with."""

    gains: FieldGains
    of_blocks: NDArray[np.int64]
    """By skip row."""
    is_known: NDArray[np.bool_]
    """By skip row, set for all of a term's at once."""
    of_groups: _GroupBounds

    @classmethod
    def make(cls, lists: TermLists) -> _Bounds:
        """Return room for the bounds of all lists, none of them known yet."""
        num_rows = len(lists.index.lists.skip_docs)
        num_dense = len(lists.index.dense_lists.dense_terms)
        num_codes = num_dense * _num_groups(lists.index.num_docs)
        return cls(
            lists.fields,
            np.zeros(num_rows, np.int64),
            np.zeros(num_rows, np.bool_),
            # The system gives memory for what is written only.
            _GroupBounds(np.zeros(num_codes, np.uint8), np.zeros(num_dense, np.bool_), 1.0),
        )


def best_of_term(
    lists: TermLists,
    term: int,
    languages: int,
    weight: float,
    allowed: NDArray[np.uint64],
    k: int,
) -> tuple[NDArray[np.uint32], NDArray[np.int64]] | None:
    """Return documents of one term, the k best and all equal to the k-th among them.

    Args:
        lists: of the segment.
        term: ordinal.
        languages: mask of the languages in whose fields it counts.
        weight: of its word.
        allowed: bitset of documents; empty: all.
        k: at least 1.

    Returns:
        Documents, ascending, and scores in units of 2^-32; None where reading the whole list is as
        good.
    """
    skip_starts = lists.index.lists.skip_starts
    start, end = int(skip_starts[term]), int(skip_starts[term + 1])
    if end - start < max(BOUNDED_BLOCKS_MIN, 2 * k):
        return None
    if languages != ALL_LANGUAGES:
        return None  # bounds are those of all languages
    kept, drift = _kept_bounds(lists)
    if not kept.is_known[start]:
        _make_block_bounds(lists, kept, term, start, end)
    found: tuple[NDArray[np.uint32], NDArray[np.int64]] = _best_of_term(
        lists.fields.lists,
        not lists.fields.are_all_searched,
        _Bounded(term, np.uint64(languages), weight, kept.of_blocks[start:end], drift),
        lists.k1,
        allowed,
        lists.bits,
        k,
    )
    return found


def best_of_terms(
    lists: TermLists, words: Terms, allowed: NDArray[np.uint64], nearness: Nearness, k: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
    """Return the documents that have all of some terms, and the best of them.

    Args:
        lists: of the segment.
        words: the terms.
        allowed: bitset of documents; empty: all.
        nearness: what the query's words give where they stand together.
        k: from 1 to `HEAP_MAX`.

    Returns:
        All documents, ascending; of these the k best, and all that are their equals; the scores of
        the latter, with bonus, in units of 2^-32.
    """
    kept, drift = _kept_bounds(lists)
    docs, best, totals, num_missing = _best_of_terms(
        lists.fields.lists,
        lists.index.dense_lists,
        lists.checks_rows(words.languages),
        words,
        lists.k1,
        allowed,
        Searched(lists.index.num_docs, lists.bits),
        kept.of_groups if drift == 1.0 else kept.of_groups._replace(drift=drift),
        nearness,
        k,
    )
    if num_missing:
        for term in words.terms.tolist():
            _wish_for_bounds(lists, kept, term)
    return docs, best, totals


def _kept_bounds(lists: TermLists) -> tuple[_Bounds, float]:
    """Return the bounds that are kept for fields like these, and by how much they may lack."""
    memo: dict[Hashable, _Bounds] = lists.segment.caches.setdefault("bounds", {})
    known = memo.get(lists.fields.choice)
    drift = 1.0 if known is None else lists.fields.drift_from(known.gains)
    if known is None or drift > _DRIFT_MAX:
        if len(memo) >= _CHOICES_MAX:
            memo.clear()
        known = memo[lists.fields.choice] = _Bounds.make(lists)
        drift = 1.0
    return known, drift


def _make_block_bounds(lists: TermLists, kept: _Bounds, term: int, start: int, end: int) -> None:
    """Make the bounds of the blocks of a term, whose skip rows are [start, end)."""
    # Made apart: another thread may read the same ones.
    bounds = np.empty(end - start, np.int64)
    _bound_blocks(
        kept.gains.lists,
        not kept.gains.are_all_searched,
        term,
        np.uint64(ALL_LANGUAGES),
        bounds,
    )
    kept.of_blocks[start:end] = bounds
    kept.is_known[start:end] = True


def _wish_for_bounds(lists: TermLists, kept: _Bounds, term: int) -> None:
    """Let the bounds of a term be made behind the searches, if it is dense and has none."""
    place = find_dense(lists.index.dense_lists, term)
    if place >= 0 and not kept.of_groups.is_known[place]:
        choice = lists.fields.choice
        key = (lists.segment.uid, "bounds", choice, term)
        WISHES.add(key, lists.segment, partial(_make_group_bounds, choice, term, place))


def _make_group_bounds(choice: Hashable, term: int, place: int, segment: Segment) -> None:
    """Make the bounds of a dense term of a segment, under the gains that others are kept for."""
    kept: _Bounds | None = segment.caches.get("bounds", {}).get(choice)
    if kept is None:
        return  # other choices have pushed these out
    SCRATCH.reserve(segment.num_docs)
    lists = TermLists(segment, kept.gains, _CODE_K1, SCRATCH.members)
    word = Terms(np.array([term]), np.array([ALL_LANGUAGES], np.uint64), np.ones(1))
    docs, scores = lists.match(word, NO_BITS, None)
    num_groups = _num_groups(segment.num_docs)
    of_groups = kept.of_groups
    _write_codes(docs, scores, of_groups.codes[place * num_groups : (place + 1) * num_groups])
    of_groups.is_known[place] = True
