"""Posting lists of single terms: which documents have all of some terms, with which scores?

A query of plain words is most of what people type, and most of what it costs is reading the lists.
They are read like this, rarest term first:

    green (19,000)   documents only ─▶ bits
    mile  (52,000)   documents only, those with a bit ─▶ field, frequency, score of these
    green            blocks that hold one of them ─▶ field, frequency, score of these

Of a list that has a bitset (`shard/segment/bitset_postings.py`) only the entries of documents that
have all terms are read, and none to know which these are:

    green (19,000)   documents only, those with a bit of mile ─▶ field, frequency, score of these
    mile             field, frequency, score of these

An entry's document is read without its other numbers, and those are read for documents that have
all terms (entries of a block have one width, so each can be read by itself). Whether a document is
wanted is looked up in a bitset and counted in, without a branch: in random data a branch would be
missed every other time, which costs more than all the rest. What is read of few documents among
many is a miss of the cache: entries are gathered, and then read in loops of one read each.

Costs: 1.5 ns an entry whose document is read, 6 ns a document that is scored; 8 ns by a bitset.
Which documents need not be scored: `shard/query/best_terms.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import U64, I64Array, U32Array, U64Array, int64, uint64
from shard.query.bm25f import (
    FieldGains,
    ScoredLists,
    Wanted,
    clear_bits,
    length_place,
    mark_bits,
    pick_wanted,
    saturate,
)
from shard.query.expansion import ALL_LANGUAGES
from shard.segment.bitset_postings import (
    DenseLists,
    add_members,
    find_dense,
    find_entries,
    find_members,
    pick_members,
)
from shard.segment.doc_sets import count_docs, list_all_docs
from shard.segment.postings import (
    BLOCK_ENTRIES,
    Packing,
    block_offset,
    count_blocks,
    decode_docs,
    decode_entry,
    locate_block,
    next_block,
    open_block,
)
from shard.segment.text_index import text_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment

_PIECE_DOCS: Final = 512

_ONE: Final = uint64(1)
_ALL_LANGUAGES: Final = uint64(ALL_LANGUAGES)


@arguments
class Matched(NamedTuple):
    """Room for the documents of a term.

    Attributes:
        docs: one more than there can be.
        totals: by document, units of 2^-24; only where they are wanted.
    """

    docs: NDArray[np.uint32]
    totals: NDArray[np.int64]


@arguments
class QueryTerms(NamedTuple):
    """A term of each of some words, the rarest first.

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
    """Terms of which some have a bitset.

    Attributes:
        dense: the lists of the segment that have one.
        words: the terms.
        places: by term, its place among these lists, or -1.
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
        firsts: of each, its first entry.
        counts: and how many it has.
    """

    docs: NDArray[np.uint32]
    firsts: NDArray[np.int64]
    counts: NDArray[np.uint16]


@arguments
class _Entries(NamedTuple):
    """Room for entries that are read at once, so many as a block has.

    Attributes:
        owners: whose t each adds to.
        docs: its document.
        bits: its number in the list; then where it begins, in bits.
        packings: bits of field and frequency << 8 | bits of its frequency; then its frequency.
        rows: of its field.
        places: of its block; then of its length code; then this code.
    """

    owners: NDArray[np.int64]
    docs: NDArray[np.uint32]
    bits: NDArray[np.int64]
    packings: NDArray[np.int64]
    rows: NDArray[np.uint64]
    places: NDArray[np.uint64]


@arguments
class ScanScratch(NamedTuple):
    """Room to read a list.

    Attributes:
        docs: of a block.
        picked: places among these, and one more.
        entries: those that are scored.
    """

    docs: NDArray[np.uint32]
    picked: NDArray[np.int64]
    entries: _Entries


@arguments
class Searched(NamedTuple):
    """What is searched.

    Attributes:
        num_docs: of the segment.
        bits: clean bitset over at least these documents, for a kernel's own use.
    """

    num_docs: int
    bits: NDArray[np.uint64]


@kernel
def scan_scratch() -> ScanScratch:
    """Return room to read lists."""
    size = BLOCK_ENTRIES
    return ScanScratch(
        np.empty(size, np.uint32),
        np.empty(size + 1, np.int64),
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
def _add_gains(scored: ScoredLists, entries: _Entries, count: int, totals: I64Array) -> None:
    """Add what the first `count` entries give to the t of their owners.

    In loops of one read each, without branches that depend on what is read: where documents are few
    among many, each is a miss of the cache, and so many are waited for at once.
    """
    lists, lengths, gains, _ = scored
    postings, field_rows = lists.postings, lengths.field_rows
    owners, docs, bits, packings, rows, places = entries
    for i in range(count):
        packing = Packing(bits[i], 0, packings[i] >> 8, packings[i] & 255)
        field, freq = decode_entry(postings, packing, 0)
        packings[i] = freq
        rows[i] = field_rows[field]
        places[i] = length_place(lengths, rows[i], int64(docs[i]))
    for i in range(count):
        places[i] = lengths.lengths[places[i]]
    for i in range(count):
        totals[owners[i]] += int64(packings[i] * gains[rows[i], places[i]] + 0.5)


@kernel(allocates=False)
def _pick_counted(
    scored: ScoredLists, packing: Packing, languages: U64, picked: I64Array, num_picked: int
) -> int:
    """Keep those of the picked entries of a block whose fields count; return how many."""
    _, lengths, gains, row_languages = scored
    num_kept: Any = 0
    for p in range(num_picked):
        field, _ = decode_entry(scored.lists.postings, packing, picked[p])
        row = uint64(lengths.field_rows[field])  # unsigned: no test for a negative index
        picked[num_kept] = picked[p]
        num_kept += int64(row_languages[row] & languages != 0 and gains[row, 1] != 0.0)
    return num_kept


@kernel(allocates=False)
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

    `checks_rows` says whether there are fields in which the term does not count.
    """
    lists = scored.lists
    postings = lists.postings
    out_docs, out_totals = matched
    docs, picked, entries = scratch
    has_bits = len(wanted.bits) > 0
    num_blocks = count_blocks(lists, term)
    candidate = int64(0)
    found = 0
    current = int64(-1)
    block = int64(0)
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
                doc = int64(docs[i])
                is_new = doc != current
                if has_bits:
                    is_new &= wanted.bits[doc >> 6] >> uint64(doc & 63) & _ONE != 0
                out_docs[found] = doc
                found += is_new
                current = doc
            continue
        num_picked = count
        if has_bits:
            num_picked = pick_wanted(docs, count, wanted.bits, picked)
        else:
            for i in range(count):
                picked[i] = i
        if checks_rows:
            num_picked = _pick_counted(scored, packing, languages, picked, num_picked)
        low_and_freq = packing.low << 8 | packing.freq
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
            entries.packings[p] = low_and_freq
        if is_scored:
            _add_gains(scored, entries, num_picked, out_totals)
    return found


@kernel(allocates=False)
def _add_located(
    scored: ScoredLists, term: int, entries: _Entries, count: int, totals: I64Array
) -> None:
    """Do the same for entries of a list of which only the numbers are known."""
    lists = scored.lists
    _, _, bits, packings, _, places = entries
    for i in range(count):
        block = bits[i] // BLOCK_ENTRIES
        places[i] = block_offset(lists, lists.skip_postings, term, block)
    start = lists.posting_starts[term]
    for i in range(count):
        _, packing = open_block(lists.postings, start + int64(places[i]))
        bits[i] = packing.first + bits[i] % BLOCK_ENTRIES * packing.width
        packings[i] = packing.low << 8 | packing.freq
    _add_gains(scored, entries, count, totals)


@kernel(allocates=False)
def _sum_found(
    scored: ScoredLists, term: int, found: _Found, entries: _Entries, totals: I64Array
) -> None:
    """Write the t of documents whose entries in a list are known."""
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
def _add_saturated(totals: I64Array, weight: float, k1: float, scores: I64Array) -> None:
    """Add what documents get for their t: in a loop of its own, so that it is done for several."""
    for i in range(len(scores)):
        scores[i] += saturate(totals[i], weight, k1)


@kernel
def add_dense(scored: ScoredLists, of_terms: DenseTerms, docs: U32Array, scores: I64Array) -> None:
    """Add what those of some terms that have a place give to documents.

    Some documents at a time: what is read and written for them stays in the first-level cache.
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
                _add_saturated(totals, weights[i], k1, scores[start : start + _PIECE_DOCS])


@kernel(inline=True, allocates=False)
def _last_read(places: I64Array) -> int:
    """Return the last term that has no place, or -1."""
    last = len(places) - 1
    while last >= 0 and places[last] >= 0:
        last -= 1
    return last


@kernel(inline=True, allocates=False)
def count_dense(places: I64Array) -> int:
    """Return how many terms have a place."""
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
    """Return the documents that have all terms; with `is_scored` and the t of the last list read.

    Lists that have a place among the dense ones are not read: the first list that is read is read
    for the documents that all of them have.
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
        docs = docs.copy()
        for place in places:
            if place >= 0:
                count = pick_members(dense, place, num_docs, docs, count)
    elif has_dense:
        allowed = find_members(dense, places, allowed, num_docs)
        if last < 0:
            return list_all_docs(allowed, count_docs(allowed)), totals
    scratch = scan_scratch()
    for i in range(last + 1):
        if places[i] >= 0:
            continue
        size = count if is_narrowed else int64(scored.lists.entry_counts[terms[i]])
        more = np.empty(size + 1, np.uint32)
        is_scored_now = is_scored and i == last
        if is_scored_now:
            totals = np.empty(size, np.int64)
        if is_narrowed:
            mark_bits(bits, docs[:count])
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
            clear_bits(bits, docs[:count])
        docs = more
        count = num_more
        is_narrowed = True
        if count == 0:
            break
    return docs[:count], totals


@kernel(inline=True, allocates=False)
def checks_rows_of(are_all_searched: bool, languages: U64Array) -> bool:
    """Return whether there are fields in which some terms do not count.

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
    """Return the place of each term among the dense lists, or -1.

    None has one where terms do not count in some fields: then entries must be looked at one by one.
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
    """Return the documents that have all terms; and what those without a place give."""
    terms, languages, weights = words
    bits = segment.bits
    docs, totals = _intersect(scored, dense, checks_rows, words, places, wanted, segment, is_scored)
    scores = np.zeros(len(docs) if is_scored else 0, np.int64)
    if len(scores) == 0:
        return docs, scores
    last = _last_read(places)
    if last >= 0:
        _add_saturated(totals, weights[last], k1, scores)
    if last > 0 and count_dense(places[:last]) < last:
        scratch = scan_scratch()
        matched = Matched(np.empty(len(docs) + 1, np.uint32), np.empty(len(docs), np.int64))
        mark_bits(bits, docs)
        found = Wanted(bits, docs, True)
        for i in range(last):
            if places[i] < 0:
                scan(scored, checks_rows, terms[i], languages[i], found, True, matched, scratch)
                _add_saturated(matched.totals, weights[i], k1, scores)
        clear_bits(bits, docs)
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
    # A list that is scored as a whole is read in turn.
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
    entry_counts = scored.lists.entry_counts
    size: Any = int64(len(wanted.docs))
    for term in terms:
        size = max(size, int64(entry_counts[term]))
    docs = np.empty(size + 1, np.uint32)
    matched = Matched(docs, np.empty(0, np.int64))
    scratch = scan_scratch()
    for i in range(len(terms)):
        term = int64(terms[i])
        place = -1 if checks_rows else find_dense(dense, term)
        if place < 0:
            count = scan(scored, checks_rows, term, languages[i], wanted, False, matched, scratch)
        elif wanted.is_listed:
            count = len(wanted.docs)
            docs[:count] = wanted.docs
            count = pick_members(dense, place, num_docs, docs, count)
        else:
            add_members(dense, place, num_docs, wanted.bits, marked)
            continue
        mark_bits(marked, docs[:count])


class TermLists:
    """The posting lists of one segment, as one query scores them.

    Args:
        segment: whose lists.
        fields: gains of the query's fields.
        k1: in units of 2^-24.
        bits: clean bitset over the segment's documents; used by one call at a time.
    """

    __slots__ = ("bits", "fields", "index", "k1", "segment")

    def __init__(
        self, segment: Segment, fields: FieldGains, k1: float, bits: NDArray[np.uint64]
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
        """Return the documents that have all of some terms.

        Args:
            words: the terms.
            allowed: bitset of documents; empty: all.
            candidates: ascending documents, the only ones looked at, whatever is allowed; or None.
            is_scored: whether scores are wanted.

        Returns:
            Documents, ascending; scores in units of 2^-32 (nothing if they are not wanted).
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
        """Return how many documents a term has, deleted ones included; None: nobody knows."""
        if not self.fields.are_all_searched or languages != ALL_LANGUAGES:
            return None
        return int(self.index.doc_freqs[term])
