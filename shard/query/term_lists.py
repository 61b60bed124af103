"""Posting lists of single terms: intersects them, and scores the documents.

Most queries are plain words, and most of their cost is reading posting lists. The lists are read
like this, rarest term first:

    green (19,000)   documents only ─▶ bits
    mile  (52,000)   documents only, those with a bit ─▶ field, frequency, score of these
    green            blocks that hold one of them ─▶ field, frequency, score of these

If a list has a bitset (`shard/segment/bitset_postings.py`), the bitset answers which documents have
the term; only the entries of documents with all terms are read:

    green (19,000)   documents only, those with a bit of mile ─▶ field, frequency, score of these
    mile             field, frequency, score of these

An entry's document is decoded without its other numbers; these are decoded only for documents that
have all terms (entries of a block share one width, so each can be decoded by itself). Whether a
document is wanted is looked up in a bitset and added to a counter, without a branch: on random data
the CPU would mispredict every other branch, which costs more than all the rest. Reads for a few
documents among many are cache misses, so entries are gathered first and then processed in loops of
one read each.

Costs: 1.5 ns an entry whose document is decoded, 6 ns a document that is scored; 8 ns by a bitset.
`shard/query/best_terms.py` avoids scoring documents that cannot reach the top k.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.contracts import expect_ascending
from common.kernels.decorator import arguments, kernel
from common.kernels.types import U64, I64Array, U32Array, U64Array, int64, uint64
from shard.caches.derived import derived
from shard.query.bm25f import SCRATCH, FieldTfNorms, ScoredLists, bm25_tf, length_place
from shard.query.expansion import ALL_LANGUAGES
from shard.segment.bitset_postings import (
    DenseLists,
    add_members,
    find_dense,
    find_entries,
    find_members,
    member_words,
)
from shard.segment.doc_sets import (
    add_docs,
    count_docs,
    has_bit,
    list_all_docs,
    pick_docs,
    reset_bitset,
    set_bit,
)
from shard.segment.postings import BLOCK_ENTRIES, Packing, PostingLists, decode_entry, open_block
from shard.segment.postings_cursor import (
    BlockScratch,
    Wanted,
    advance_wanted,
    block_offset,
    block_scratch,
    decode_docs,
    decode_wanted,
    open_postings,
)
from shard.segment.text_index import text_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from shard.segment.segment import Segment

_PIECE_DOCS: Final = 512
_LOCATED_COST: Final = 32
"""Locating an entry by a bitset and decoding it takes as long as reading this many in order."""

_ALL_LANGUAGES: Final = uint64(ALL_LANGUAGES)


@arguments
class Matched(NamedTuple):
    """Output buffers for the documents of a term.

    Attributes:
        docs: with capacity for one more than there can be.
        totals: t by document, in units of 2^-24; only if scores are wanted.
    """

    docs: NDArray[np.uint32]
    totals: NDArray[np.int64]


@arguments
class QueryTerms(NamedTuple):
    """One term for each of some words, rarest first.

    Attributes:
        terms: ordinals.
        languages: masks of the languages in whose fields each counts.
        weights: of the words.
    """

    terms: NDArray[np.int64]
    languages: NDArray[np.uint64]
    weights: NDArray[np.float64]


@arguments
class DenseTerms(NamedTuple):
    """Terms, some of which have bitset postings.

    Attributes:
        dense: the bitset postings of the segment.
        words: the terms.
        places: by term, its rank among the bitset postings, or -1.
        k1: of the query, in units of 2^-24.
        num_docs: of the segment.
    """

    dense: DenseLists
    words: QueryTerms
    places: NDArray[np.int64]
    k1: float
    num_docs: int


@arguments
class _Found(NamedTuple):
    """Documents with their entries in a list.

    Attributes:
        docs: ascending.
        firsts: by document, the number of its first entry.
        counts: by document, how many entries it has.
    """

    docs: NDArray[np.uint32]
    firsts: NDArray[np.int64]
    counts: NDArray[np.uint16]


@arguments
class _Entries(NamedTuple):
    """Scratch space for a batch of entries (up to a block); a column is reused from step to step.

    Attributes:
        owners: index of the total that each adds to.
        docs: its document.
        bits: its number in the list; then its offset, in bits.
        packings: least field << 16 | bits of field and frequency << 8 | bits of its frequency; then
            its frequency.
        rows: of its field.
        places: offset of its block; then of its length code; then this code.
    """

    owners: NDArray[np.int64]
    docs: NDArray[np.uint32]
    bits: NDArray[np.int64]
    packings: NDArray[np.int64]
    rows: NDArray[np.uint64]
    places: NDArray[np.uint64]


@arguments
class ScanScratch(NamedTuple):
    """Scratch space to read a list.

    Attributes:
        block: its documents, and those that are wanted.
        entries: those to score.
    """

    block: BlockScratch
    entries: _Entries


@arguments
class Searched(NamedTuple):
    """The segment being searched.

    Attributes:
        num_docs: of the segment.
        bits: clean bitset over at least these documents, for a kernel's own use.
    """

    num_docs: int
    bits: NDArray[np.uint64]


@kernel
def scan_scratch() -> ScanScratch:
    """Return scratch space to read lists."""
    size = BLOCK_ENTRIES
    return ScanScratch(
        block_scratch(),
        _Entries(
            np.empty(size, np.int64),
            np.empty(size, np.uint32),
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            np.empty(size, np.uint64),
            np.empty(size, np.uint64),
        ),
    )


@kernel(allocates=False)
def _add_tf_norms(scored: ScoredLists, entries: _Entries, count: int, totals: I64Array) -> None:
    """Add frequency times tf norm of the first `count` entries to the t of their owners.

    Each loop does one read and has no branch that depends on it: where documents are few among
    many, each read is a cache miss, and this way many misses overlap.
    """
    lists, lengths, tf_norms, _ = scored
    postings, field_rows = lists.postings, lengths.field_rows
    owners, docs, bits, packings, rows, places = entries
    for i in range(count):
        widths = packings[i]
        packing = Packing(bits[i], 0, widths >> 8 & 255, widths & 255, widths >> 16)
        field, freq = decode_entry(postings, packing, 0)
        packings[i] = freq
        rows[i] = field_rows[field]
        places[i] = length_place(lengths, rows[i], int64(docs[i]))
    for i in range(count):
        places[i] = lengths.lengths[places[i]]
    for i in range(count):
        totals[owners[i]] += int64(packings[i] * tf_norms[rows[i], places[i]] + 0.5)


@kernel(allocates=False)
def _pick_counted(
    scored: ScoredLists, packing: Packing, languages: U64, picked: I64Array, num_picked: int
) -> int:
    """Keep those picked entries of a block whose fields count for the term; return how many."""
    _, lengths, tf_norms, row_languages = scored
    num_kept: Any = 0
    for p in range(num_picked):
        field, _ = decode_entry(scored.lists.postings, packing, picked[p])
        row = uint64(lengths.field_rows[field])  # unsigned: no test for a negative index
        picked[num_kept] = picked[p]
        num_kept += int64(row_languages[row] & languages != 0 and tf_norms[row, 1] != 0.0)
    return num_kept


@kernel(allocates=False)
def _scan_docs(
    lists: PostingLists, term: int, wanted: Wanted, docs: U32Array, out_docs: U32Array
) -> int:
    """Do the work of `scan` where documents are enough; `docs` is scratch space for a block."""
    has_bits = len(wanted.bits) > 0
    found = 0
    current = int64(-1)
    cursor = open_postings(term)
    while True:
        cursor = advance_wanted(lists, cursor, wanted)
        if cursor.size == 0:
            return found
        decode_docs(lists, cursor, docs)
        # The write is unconditional and `found` advances if it counts: no branch.
        for i in range(cursor.size):
            doc = int64(docs[i])
            is_new = doc != current
            if has_bits:
                is_new &= has_bit(wanted.bits, doc)
            out_docs[found] = doc
            found += is_new
            current = doc


@kernel(allocates=False)
def _scan_entries(
    scored: ScoredLists,
    checks_rows: bool,
    term: int,
    languages: U64,
    wanted: Wanted,
    is_scored: bool,
    matched: Matched,
    scratch: ScanScratch,
) -> int:
    """Do the work of `scan` where fields, or frequencies, are needed as well."""
    lists = scored.lists
    out_docs, out_totals = matched
    (docs, picked), entries = scratch
    found = 0
    current = int64(-1)
    cursor = open_postings(term)
    while True:
        cursor = advance_wanted(lists, cursor, wanted)
        if cursor.size == 0:
            return found
        # Narrow the block to the wanted entries, in fields that count.
        num_picked, packing = decode_wanted(lists, cursor, wanted.bits, scratch.block)
        if checks_rows:
            num_picked = _pick_counted(scored, packing, languages, picked, num_picked)
        # Gather these entries: entries of one document (one per field) share an owner.
        packed = packing.field << 16 | packing.low << 8 | packing.freq
        for p in range(num_picked):
            doc = int64(docs[picked[p]])
            out_docs[found] = doc
            if is_scored and doc != current:
                out_totals[found] = 0
            found += doc != current
            current = doc
            entries.owners[p] = found - 1
            entries.docs[p] = doc
            entries.bits[p] = packing.first + picked[p] * packing.width
            entries.packings[p] = packed
        if is_scored:
            _add_tf_norms(scored, entries, num_picked, out_totals)


@kernel(inline=True, allocates=False)
def scan(
    scored: ScoredLists,
    checks_rows: bool,
    term: int,
    languages: U64,
    wanted: Wanted,
    is_scored: bool,
    matched: Matched,
    scratch: ScanScratch,
) -> int:
    """Write the documents of a term, and with `is_scored` their t; return how many.

    `checks_rows` says that some fields do not count for the term.
    """
    expect_ascending(wanted.docs)
    if is_scored or checks_rows:
        return _scan_entries(
            scored, checks_rows, term, languages, wanted, is_scored, matched, scratch
        )
    return _scan_docs(scored.lists, term, wanted, scratch.block.docs, matched.docs)


@kernel(allocates=False)
def _add_located(
    scored: ScoredLists, term: int, entries: _Entries, count: int, totals: I64Array
) -> None:
    """Do the same for entries that are known by their number in the list only.

    A number gives the block and the slot in it; entries of a block share one width.
    """
    lists = scored.lists
    _, _, bits, packings, _, places = entries
    for i in range(count):
        block = bits[i] // BLOCK_ENTRIES
        places[i] = block_offset(lists, lists.skip_postings, term, block)
    start = lists.posting_starts[term]
    for i in range(count):
        _, packing = open_block(lists.postings, start + int64(places[i]))
        bits[i] = packing.first + bits[i] % BLOCK_ENTRIES * packing.width
        packings[i] = packing.field << 16 | packing.low << 8 | packing.freq
    _add_tf_norms(scored, entries, count, totals)


@kernel(allocates=False)
def _sum_found(
    scored: ScoredLists, term: int, found: _Found, entries: _Entries, totals: I64Array
) -> None:
    """Write the t of documents whose entries in a list are known, a batch of entries at a time."""
    docs, firsts, counts = found
    num_entries = 0
    for i in range(len(docs)):
        totals[i] = 0
        for entry in range(firsts[i], firsts[i] + counts[i]):
            if num_entries == BLOCK_ENTRIES:
                _add_located(scored, term, entries, num_entries, totals)
                num_entries = 0
            entries.owners[num_entries] = i
            entries.docs[num_entries] = docs[i]
            entries.bits[num_entries] = entry
            num_entries += 1
    _add_located(scored, term, entries, num_entries, totals)


@kernel(allocates=False)
def _add_bm25_tf(totals: I64Array, weight: float, k1: float, scores: I64Array) -> None:
    """Add the scores of these t, in a separate loop so that the compiler vectorizes it."""
    for i in range(len(scores)):
        scores[i] += bm25_tf(totals[i], weight, k1)


@kernel
def add_dense(scored: ScoredLists, of_terms: DenseTerms, docs: U32Array, scores: I64Array) -> None:
    """Add to documents what the terms with bitset postings score in them.

    A few hundred documents at a time, so that their scratch data stays in the first-level cache.
    """
    dense, words, places, k1, num_docs = of_terms
    terms, weights = words.terms, words.weights
    firsts = np.empty(_PIECE_DOCS, np.int64)
    counts = np.empty(_PIECE_DOCS, np.uint16)
    totals = np.empty(_PIECE_DOCS, np.int64)
    entries = scan_scratch().entries
    for start in range(0, len(docs), _PIECE_DOCS):
        found = _Found(docs[start : start + _PIECE_DOCS], firsts, counts)
        for i in range(len(places)):
            if places[i] >= 0:
                find_entries(dense, places[i], num_docs, found.docs, firsts, counts)
                _sum_found(scored, terms[i], found, entries, totals)
                _add_bm25_tf(totals, weights[i], k1, scores[start : start + _PIECE_DOCS])


@kernel
def add_read(
    scored: ScoredLists,
    checks_rows: bool,
    words: QueryTerms,
    i: int,
    k1: float,
    docs: U32Array,
    bits: U64Array,
    scores: I64Array,
) -> None:
    """Add to documents what one of the terms, which all of them have, scores in them.

    Its posting list is read; `bits` is a clean bitset.
    """
    terms, languages, weights = words
    matched = Matched(np.empty(len(docs) + 1, np.uint32), np.empty(len(docs), np.int64))
    wanted = Wanted(bits, docs, True)
    add_docs(bits, docs)
    scan(scored, checks_rows, terms[i], languages[i], wanted, True, matched, scan_scratch())
    reset_bitset(bits, docs)
    _add_bm25_tf(matched.totals, weights[i], k1, scores)


@kernel(inline=True, allocates=False)
def _last_read(places: I64Array) -> int:
    """Return the last term whose posting list is read (it has no bitset), or -1."""
    last = len(places) - 1
    while last >= 0 and places[last] >= 0:
        last -= 1
    return last


@kernel(inline=True, allocates=False)
def count_dense(places: I64Array) -> int:
    """Return how many terms have bitset postings."""
    count = 0
    for place in places:
        count += place >= 0
    return count


@kernel
def _intersect(
    scored: ScoredLists,
    dense: DenseLists,
    checks_rows: bool,
    words: QueryTerms,
    places: I64Array,
    wanted: Wanted,
    segment: Searched,
    is_scored: bool,
) -> tuple[U32Array, I64Array]:
    """Return the documents that have all terms; with `is_scored`, also the t of the last list read.

    Bitset postings are not read as lists: they are intersected first, and the first list is read
    only for the documents that all of them have.
    """
    terms, languages = words.terms, words.languages
    num_docs, bits = segment
    last = _last_read(places)
    totals = np.empty(0, np.int64)
    is_narrowed = wanted.is_listed
    docs = wanted.docs
    allowed = wanted.bits
    count = len(docs)
    has_dense = count_dense(places) > 0
    if has_dense and is_narrowed:
        # Few candidates: test each one in the bitsets.
        docs = docs.copy()
        for place in places:
            if place >= 0:
                start, end = member_words(place, num_docs)
                count = pick_docs(docs[:count], dense.dense_bits[start:end], docs)
    elif has_dense:
        # Otherwise AND the bitsets; without any list to read, that is the result.
        allowed = find_members(dense, places, allowed, num_docs)
        if last < 0:
            return list_all_docs(allowed, count_docs(allowed)), totals
    scratch = scan_scratch()
    for i in range(last + 1):
        if places[i] >= 0:
            continue
        # Each list narrows the next one. The last, by then read for few documents, is scored in
        # passing.
        size = count if is_narrowed else int64(scored.lists.entry_counts[terms[i]])
        more = np.empty(size + 1, np.uint32)
        is_scored_now = is_scored and i == last
        if is_scored_now:
            totals = np.empty(size, np.int64)
        if is_narrowed:
            add_docs(bits, docs[:count])
        num_more = scan(
            scored,
            checks_rows,
            terms[i],
            languages[i],
            Wanted(bits if is_narrowed else allowed, docs[:count], is_narrowed),
            is_scored_now,
            Matched(more, totals),
            scratch,
        )
        if is_narrowed:
            reset_bitset(bits, docs[:count])
        docs = more
        count = num_more
        is_narrowed = True
        if count == 0:
            break
    return docs[:count], totals


@kernel(inline=True, allocates=False)
def checks_rows_of(are_all_searched: bool, languages: U64Array) -> bool:
    """Return whether there are fields in which some of the terms do not count.

    Args:
        are_all_searched: whether all fields are searched.
        languages: masks of the languages in whose fields each term counts.
    """
    is_everywhere = are_all_searched
    for mask in languages:
        is_everywhere &= mask == _ALL_LANGUAGES
    return not is_everywhere


@kernel
def find_places(dense: DenseLists, words: QueryTerms, checks_rows: bool) -> I64Array:
    """Return each term's rank among the bitset postings, or -1.

    All are -1 if terms do not count in some fields: then entries must be checked one by one.
    """
    places = np.full(len(words.terms), -1)
    if not checks_rows:
        for i in range(len(places)):
            places[i] = find_dense(dense, words.terms[i])
    return places


@kernel
def match_terms(
    scored: ScoredLists,
    dense: DenseLists,
    checks_rows: bool,
    words: QueryTerms,
    places: I64Array,
    k1: float,
    wanted: Wanted,
    segment: Searched,
    is_scored: bool,
) -> tuple[U32Array, I64Array]:
    """Return the documents with all terms, and what the terms without bitset postings score."""
    bits = segment.bits
    docs, totals = _intersect(scored, dense, checks_rows, words, places, wanted, segment, is_scored)
    scores = np.zeros(len(docs) if is_scored else 0, np.int64)
    if len(scores) == 0:
        return docs, scores
    last = _last_read(places)
    if last >= 0:
        _add_bm25_tf(totals, words.weights[last], k1, scores)
    # All documents are known now: read the earlier lists again for them, this time for scores.
    for i in range(last):
        if places[i] < 0:
            add_read(scored, checks_rows, words, i, k1, docs, bits, scores)
    return docs, scores


@kernel
def _match_all(
    scored: ScoredLists,
    dense: DenseLists,
    are_all_searched: bool,
    words: QueryTerms,
    k1: float,
    wanted: Wanted,
    segment: Searched,
    is_scored: bool,
) -> tuple[U32Array, I64Array]:
    """Kernel of `TermLists.match`."""
    checks_rows = checks_rows_of(are_all_searched, words.languages)
    # A single list that is scored in full is read sequentially: faster than by its bitset.
    is_whole = len(words.terms) == 1 and is_scored
    is_whole &= len(wanted.bits) == 0 and not wanted.is_listed
    places = find_places(dense, words, checks_rows or is_whole)
    docs, scores = match_terms(
        scored, dense, checks_rows, words, places, k1, wanted, segment, is_scored
    )
    if is_scored:
        of_terms = DenseTerms(dense, words, places, k1, segment.num_docs)
        add_dense(scored, of_terms, docs, scores)
    return docs, scores


@kernel
def _count_all(
    scored: ScoredLists,
    dense: DenseLists,
    terms: I64Array,
    ends: I64Array,
    wanted: Wanted,
    segment: Searched,
) -> I64Array:
    """Kernel of `count_with_all_terms`."""
    languages = np.full(len(terms), _ALL_LANGUAGES)
    weights = np.ones(len(terms))
    counts = np.empty(len(ends), np.int64)
    start = int64(0)
    for i in range(len(ends)):
        end = ends[i]
        words = QueryTerms(terms[start:end], languages[start:end], weights[start:end])
        places = find_places(dense, words, False)
        docs, _ = _intersect(scored, dense, False, words, places, wanted, segment, False)
        counts[i] = len(docs)
        start = end
    return counts


@kernel
def mark_term(
    scored: ScoredLists,
    dense: DenseLists,
    checks_rows: bool,
    term: int,
    languages: U64,
    place: int,
    wanted: Wanted,
    num_docs: int,
    marked: U64Array,
) -> None:
    """Set the bits of the wanted documents that have a term; `place` is that of its bitset."""
    if place >= 0 and not wanted.is_listed:
        add_members(dense, place, num_docs, wanted.bits, marked)
        return
    if place >= 0:
        docs = wanted.docs.copy()
        start, end = member_words(place, num_docs)
        count = pick_docs(docs, dense.dense_bits[start:end], docs)
    else:
        docs = np.empty(int64(scored.lists.entry_counts[term]) + 1, np.uint32)
        matched = Matched(docs, np.empty(0, np.int64))
        scratch = scan_scratch()
        count = scan(scored, checks_rows, term, languages, wanted, False, matched, scratch)
    add_docs(marked, docs[:count])


@kernel
def _mark_located(
    scored: ScoredLists,
    dense: DenseLists,
    term: int,
    languages: U64,
    place: int,
    wanted: U32Array,
    num_docs: int,
    marked: U64Array,
) -> None:
    """Do the work of `mark_term` by a bitset where some fields do not count.

    The bitset tells which entries are those of the wanted documents; only these are decoded.
    """
    lists, lengths, tf_norms, row_languages = scored
    docs = wanted.copy()
    start, end = member_words(place, num_docs)
    docs = docs[: pick_docs(docs, dense.dense_bits[start:end], docs)]
    firsts = np.empty(len(docs), np.int64)
    counts = np.empty(len(docs), np.uint16)
    find_entries(dense, place, num_docs, docs, firsts, counts)
    for i in range(len(docs)):
        for entry in range(firsts[i], firsts[i] + counts[i]):
            block = entry // BLOCK_ENTRIES
            offset = block_offset(lists, lists.skip_postings, term, block)
            _, packing = open_block(lists.postings, lists.posting_starts[term] + offset)
            field, _ = decode_entry(lists.postings, packing, entry % BLOCK_ENTRIES)
            row = uint64(lengths.field_rows[field])  # unsigned: no test for a negative index
            if row_languages[row] & languages != 0 and tf_norms[row, 1] != 0.0:
                set_bit(marked, int64(docs[i]))


@kernel
def _mark_terms(
    scored: ScoredLists,
    dense: DenseLists,
    are_all_searched: bool,
    terms: U32Array,
    languages: U64Array,
    wanted: Wanted,
    num_docs: int,
    marked: U64Array,
) -> None:
    """Kernel of `TermLists.mark`."""
    checks_rows = checks_rows_of(are_all_searched, languages)
    for i in range(len(terms)):
        term = int64(terms[i])
        place = int64(-1)
        is_located = checks_rows and wanted.is_listed
        is_located &= len(wanted.docs) * _LOCATED_COST < int64(scored.lists.entry_counts[term])
        if is_located or not checks_rows:
            place = find_dense(dense, term)
        if is_located and place >= 0:
            _mark_located(scored, dense, term, languages[i], place, wanted.docs, num_docs, marked)
            continue
        mark_term(scored, dense, checks_rows, term, languages[i], place, wanted, num_docs, marked)


class TermLists:
    """The posting lists of one segment, as one query scores them.

    Args:
        segment: whose lists.
        fields: tf norms of the query's fields.
        k1: in units of 2^-24.
        bits: clean bitset over the segment's documents; used by one call at a time.
    """

    __slots__ = ("bits", "fields", "index", "k1", "segment")

    def __init__(
        self, segment: Segment, fields: FieldTfNorms, k1: float, bits: NDArray[np.uint64]
    ) -> None:
        self.segment = segment
        self.index = text_index(segment)
        self.fields = fields
        self.k1 = k1
        self.bits = bits

    def match(
        self,
        words: QueryTerms,
        allowed: NDArray[np.uint64],
        candidates: NDArray[np.uint32] | None,
        *,
        is_scored: bool = True,
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the documents that have all terms.

        Args:
            words: the terms.
            allowed: bitset of documents; empty: all.
            candidates: the only documents to look at, ascending (`allowed` is then ignored); or
                None.
            is_scored: whether scores are wanted.

        Returns:
            Documents, ascending; scores in units of 2^-32 (empty if not wanted).
        """
        matched: tuple[NDArray[np.uint32], NDArray[np.int64]] = _match_all(
            self.fields.lists,
            self.index.dense_lists,
            self.fields.are_all_searched,
            words,
            self.k1,
            Wanted.of(allowed, candidates),
            Searched(self.index.num_docs, self.bits),
            is_scored,
        )
        return matched

    def docs_with_all(
        self,
        terms: Iterable[int],
        allowed: NDArray[np.uint64],
        candidates: NDArray[np.uint32] | None,
    ) -> NDArray[np.uint32]:
        """Return the documents that have all of some terms; as `match`, without scores.

        The terms count in all languages, and need not be in order.
        """
        rarest_first = sorted(set(terms), key=self.index.lists.entry_counts.item)
        num = len(rarest_first)
        words = QueryTerms(
            np.array(rarest_first, np.int64), np.full(num, ALL_LANGUAGES, np.uint64), np.ones(num)
        )
        return self.match(words, allowed, candidates, is_scored=False)[0]

    def mark(
        self,
        terms: NDArray[np.uint32],
        languages: NDArray[np.uint64],
        wanted: Wanted,
        marked: NDArray[np.uint64],
    ) -> None:
        """Set the bits of the documents that have at least one of the terms.

        Args:
            terms: ordinals.
            languages: masks of the languages in whose fields each counts.
            wanted: the documents to look at.
            marked: the bitset.
        """
        _mark_terms(
            self.fields.lists,
            self.index.dense_lists,
            self.fields.are_all_searched,
            terms,
            languages,
            wanted,
            self.index.num_docs,
            marked,
        )

    def count(self, term: int, languages: int) -> int | None:
        """Return how many documents have a term, deleted ones included; None: not stored."""
        if not self.fields.are_all_searched or languages != ALL_LANGUAGES:
            return None
        return int(self.index.doc_freqs[term])


@derived
def _unscored_fields(segment: Segment) -> FieldTfNorms:
    """Return the tf norms of no field: for lists that are read for their documents."""
    index = text_index(segment)
    nothing = np.zeros((0, 256)), np.zeros(0, np.uint64)
    return FieldTfNorms(ScoredLists(index.lists, index.field_lengths, *nothing), ())


def docs_with_all_terms(
    segment: Segment,
    terms: Iterable[int],
    allowed: NDArray[np.uint64],
    candidates: NDArray[np.uint32] | None = None,
) -> NDArray[np.uint32]:
    """Return the documents, ascending, that have all of some terms in any field.

    Args:
        segment: where to look.
        terms: ordinals, at least one.
        allowed: bitset of documents; empty: all.
        candidates: the only documents to look at, ascending (`allowed` is then ignored); or None.
    """
    index = text_index(segment)
    SCRATCH.reserve(index.num_docs)
    lists = TermLists(segment, _unscored_fields(segment), 0.0, SCRATCH.members)
    return lists.docs_with_all(terms, allowed, candidates)


def count_with_all_terms(
    segment: Segment,
    sets: Sequence[Sequence[int]],
    allowed: NDArray[np.uint64],
    candidates: NDArray[np.uint32] | None = None,
) -> NDArray[np.int64]:
    """Return, by set of terms, how many documents have all of them in any field.

    Args:
        segment: where to look.
        sets: ordinals, at least one each.
        allowed: bitset of documents; empty: all.
        candidates: the only documents to look at, ascending (`allowed` is then ignored); or None.
    """
    index = text_index(segment)
    SCRATCH.reserve(index.num_docs)
    count = index.lists.entry_counts.item
    rarest_first = [sorted(set(terms), key=count) for terms in sets]
    counts: NDArray[np.int64] = _count_all(
        _unscored_fields(segment).lists,
        index.dense_lists,
        np.array(list(itertools.chain.from_iterable(rarest_first)), np.int64),
        np.cumsum([len(terms) for terms in rarest_first]),
        Wanted.of(allowed, candidates),
        Searched(index.num_docs, SCRATCH.members),
    )
    return counts
