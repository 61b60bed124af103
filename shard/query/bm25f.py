"""BM25F over posting lists: how much does a word count in each document that has it?

For a word and a document, over the terms that stand for the word and the fields of the query:

    t     =  Σ  r_kind · freq · weight_field / (1 - b + b · length / average_length_field)
    score =  w · t / (t + k1)

Only the terms of the best *tier* that the document has are summed, so that a document is never
better for having a lesser match beside a better one:

    tier 0   EXACT, STEM   w = greater weight of the two, r = 1 for the greater, the ratio otherwise
    tier 1   PREFIX
    tier 2   TYPO_1        w = weight of the kind, r = 1
    tier 3   TYPO_2

Everything is summed in fixed point (t in units of 2^-24, scores in units of 2^-32), each term of a
sum rounded by itself. Integers can be added in any order, so equal documents get equal scores, bit
for bit, however items are spread over segments and shards and however fields are numbered there.

The part of t that depends on field and length is a table, `gains[row, length code]`, made once per
segment and set of query fields. A field that the query leaves out has gain 0 and does not match.

Two kernels: `score_term` for words that one term stands for (almost all), which writes documents as
it reads them; `score_terms` for many terms, through one cell a document. Both leave out blocks in
which no candidate can be when candidates are given.

Costs: 3-4 ns an entry for one term, 6-8 ns for many.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from common.kernels import kernel
from shard.index.field_lengths import DECODED_LENGTHS
from shard.index.postings import BLOCK_ENTRIES, decode_block

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import FieldWeight
    from shard.index.text_index import TextIndex

FREQ_UNIT: Final = float(1 << 24)
SCORE_UNIT: Final = float(1 << 32)
NUM_TIERS: Final = 4
TIER_OF_KIND: Final = (0, 0, 1, 2, 3)
"""By `MatchKind`."""
_NO_TIER: Final = 255

_ONE: Final = np.uint64(1)
_LENGTHS: Final = "int32[::1], int64[::1], uint8[::1], int64[::1], uint32[::1]"
_POSTINGS: Final = "uint8[::1], int64[::1], uint32[::1], uint32[::1], uint32[::1], uint32[::1]"


@dataclass(frozen=True, slots=True)
class FieldGains:
    """What a query's fields give in one segment."""

    gains: NDArray[np.float64]
    """(rows, 256): by row and length code, weight / norm in units of 2^-24; 0: not searched."""
    row_languages: NDArray[np.uint64]
    """Bit of each row's language."""


@kernel("(float64[::1], float64[::1], float64, int64[::1])")
def _make_gains(weights: Any, averages: Any, b: Any, lengths: Any) -> Any:
    gains = np.zeros((len(weights), 256), np.float64)
    for row in range(len(weights)):
        if weights[row] > 0.0:
            average = averages[row] if averages[row] > 0.0 else 1.0
            for code in range(1, 256):
                norm = 1.0 - b + b * (lengths[code] / average)
                # b = 1 would let a short text in a field of long ones grow without bound.
                gains[row, code] = weights[row] / max(norm, 1e-3) * FREQ_UNIT
    return gains


def make_gains(
    index: TextIndex,
    numbers: dict[int, FieldWeight],
    languages: dict[int, int],
    b: float,
) -> FieldGains:
    """Make the table of gains of one segment.

    Args:
        index: the segment's text structures.
        numbers: the query's fields by field number.
        languages: language bit by field number, of all fields with words.
        b: BM25's length parameter.
    """
    rows = index.length_fields.tolist()
    weights = np.zeros(len(rows))
    averages = np.zeros(len(rows))
    for row, number in enumerate(rows):
        field = numbers.get(number)
        if field is not None:
            weights[row] = field.weight
            averages[row] = field.average_length
    gains = _make_gains(weights, averages, b, DECODED_LENGTHS)
    return FieldGains(gains, np.array([languages[number] for number in rows], np.uint64))


class Scratch(threading.local):
    """Cells by document that `score_terms` uses and leaves clean; one set a thread."""

    def __init__(self) -> None:
        self.freqs: NDArray[np.int64] = np.zeros(0, np.int64)
        self.tiers: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.touched: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.members: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.scores: NDArray[np.int64] = np.zeros(0, np.int64)
        self.counts: NDArray[np.uint16] = np.zeros(0, np.uint16)

    def reserve(self, num_docs: int) -> None:
        """Make room for a segment's documents."""
        if len(self.freqs) < num_docs:
            size = max(num_docs, 2 * len(self.freqs), 4096)
            self.freqs = np.zeros(size, np.int64)
            self.tiers = np.full(size, _NO_TIER, np.uint8)
            self.touched = np.zeros((size + 63) >> 6, np.uint64)
            self.members = np.zeros((size + 63) >> 6, np.uint64)
            self.scores = np.zeros(size, np.int64)
            self.counts = np.zeros(size, np.uint16)


SCRATCH: Final = Scratch()
NO_DOCS: Final = np.zeros(0, np.uint32)
NO_BITS: Final = np.zeros(0, np.uint64)
NO_FIELDS: Final = np.zeros(0, np.uint16)


@kernel(f"uint8({_LENGTHS}, uint64, int64)", inline=True, allocates=False)
def length_code(
    field_rows: Any,
    length_starts: Any,
    lengths: Any,
    length_doc_starts: Any,
    length_docs: Any,
    row: Any,
    doc: Any,
) -> Any:
    """Return the code of the length of a row's field in a document."""
    start = length_starts[row]
    sparse = length_doc_starts[row]
    if sparse < 0:
        return lengths[np.uint64(start + doc)]
    low = np.int64(0)
    high = length_starts[np.int64(row) + 1] - start - 1
    while low < high:
        middle = (low + high) >> 1
        if np.int64(length_docs[sparse + middle]) < doc:
            low = middle + 1
        else:
            high = middle
    return lengths[start + low]


@kernel("int64(int64, float64, float64)", inline=True, allocates=False)
def saturate(freq: Any, weight: Any, k1: Any) -> Any:
    """Return weight · t / (t + k1) in units of 2^-32; freq and k1 in units of 2^-24."""
    t = float(max(freq, 1))
    return np.int64(weight * SCORE_UNIT * (t / (t + k1)) + 0.5)


@kernel("int64(uint32[::1], int64, int64)", allocates=False)
def gallop(docs: Any, start: Any, wanted: Any) -> Any:
    """Return the first place from `start` on whose document is at least `wanted`."""
    step = 1
    low = start
    high = start
    size = len(docs)
    while high < size and np.int64(docs[high]) < wanted:
        low = high + 1
        high += step
        step *= 2
    high = min(high, size)
    while low < high:
        middle = (low + high) >> 1
        if np.int64(docs[middle]) < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(
    f"int64({_POSTINGS}, {_LENGTHS}, float64[:, ::1], uint64[::1], int64, uint64, float64, float64,"
    " uint64[::1], uint32[::1], boolean, uint32[::1], int64[::1], uint32[::1], uint16[::1],"
    " uint32[::1])",
    allocates=False,
)
def _score_term(
    postings: Any,
    posting_starts: Any,
    entry_counts: Any,
    skip_starts: Any,
    skip_docs: Any,
    skip_postings: Any,
    field_rows: Any,
    length_starts: Any,
    lengths: Any,
    length_doc_starts: Any,
    length_docs: Any,
    gains: Any,
    row_languages: Any,
    term: Any,
    languages: Any,
    weight: Any,
    k1: Any,
    allowed: Any,
    candidates: Any,
    has_candidates: Any,
    out_docs: Any,
    out_scores: Any,
    docs: Any,
    fields: Any,
    freqs: Any,
) -> Any:
    """Leaf of `score_term`: returns the number of documents written."""
    has_allowed = len(allowed) > 0
    row_first = np.int64(skip_starts[term])
    num_rows: Any = np.int64(skip_starts[term + 1]) - row_first
    left: Any = np.int64(entry_counts[term])
    at = posting_starts[term]
    num_blocks = max(num_rows, 1)
    candidate = np.int64(0)
    num_candidates = len(candidates)
    found = 0
    current = np.int64(-1)
    total: Any = np.int64(0)
    for block in range(num_blocks):
        count = min(left, BLOCK_ENTRIES)
        left -= count
        if num_rows > 0:
            if has_candidates:
                if candidate == num_candidates:
                    break
                candidate = gallop(candidates, candidate, np.int64(skip_docs[row_first + block]))
                if candidate == num_candidates:
                    break
                # Equal: a document's fields may stand in two blocks.
                if (
                    block + 1 < num_blocks
                    and candidates[candidate] > skip_docs[row_first + block + 1]
                ):
                    continue
            at = posting_starts[term] + np.int64(skip_postings[row_first + block])
        decode_block(postings, at, count, docs, fields, freqs)
        for i in range(count):
            doc = np.int64(docs[i])
            if doc != current:
                if has_candidates:
                    if candidate < num_candidates and np.int64(candidates[candidate]) < doc:
                        candidate = gallop(candidates, candidate, doc)
                    if candidate == num_candidates:
                        break
                    if np.int64(candidates[candidate]) != doc:
                        continue
                elif has_allowed and not allowed[doc >> 6] >> np.uint64(doc & 63) & _ONE:
                    continue
            row = np.uint64(field_rows[fields[i]])  # unsigned: no test for a negative index
            if not row_languages[row] & languages:
                continue
            code = length_code(
                field_rows, length_starts, lengths, length_doc_starts, length_docs, row, doc
            )
            gain = gains[row, code]
            if gain == 0.0:
                continue
            if doc != current:
                if current >= 0:
                    out_docs[found] = current
                    out_scores[found] = total
                    found += 1
                current = doc
                total = 0
            total += np.int64(freqs[i] * gain + 0.5)
    if current >= 0:
        out_docs[found] = current
        out_scores[found] = total
        found += 1
    # A loop of its own, so that several are divided at once.
    for i in range(found):
        out_scores[i] = saturate(out_scores[i], weight, k1)
    return found


@kernel(
    f"({_POSTINGS}, {_LENGTHS}, float64[:, ::1], uint64[::1], int64, uint64, float64, float64,"
    " uint64[::1], uint32[::1], boolean)"
)
def score_term(
    postings: Any,
    posting_starts: Any,
    entry_counts: Any,
    skip_starts: Any,
    skip_docs: Any,
    skip_postings: Any,
    field_rows: Any,
    length_starts: Any,
    lengths: Any,
    length_doc_starts: Any,
    length_docs: Any,
    gains: Any,
    row_languages: Any,
    term: Any,
    languages: Any,
    weight: Any,
    k1: Any,
    allowed: Any,
    candidates: Any,
    has_candidates: Any,
) -> Any:
    """Score the documents of one term.

    Args:
        postings: see postings, as the next five.
        posting_starts: by term.
        entry_counts: by term.
        skip_starts: by term.
        skip_docs: by block.
        skip_postings: by block.
        field_rows: see field_lengths, as the next four.
        length_starts: by row.
        lengths: codes.
        length_doc_starts: by row.
        length_docs: of sparse rows.
        gains: see `FieldGains`.
        row_languages: see `FieldGains`.
        term: ordinal.
        languages: mask of languages in whose fields the term counts.
        weight: of the word.
        k1: in units of 2^-24.
        allowed: bitset of documents; empty: all.
        candidates: ascending documents, if `has_candidates`; `allowed` is then not looked at.
        has_candidates: whether there are candidates.

    Returns:
        (documents ascending uint32, scores int64 in units of 2^-32).
    """
    size: Any = np.int64(entry_counts[term])
    if has_candidates:
        size = min(size, len(candidates))
    out_docs = np.empty(size, np.uint32)
    out_scores = np.empty(size, np.int64)
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    fields = np.empty(BLOCK_ENTRIES, np.uint16)
    freqs = np.empty(BLOCK_ENTRIES, np.uint32)
    found = _score_term(
        postings,
        posting_starts,
        entry_counts,
        skip_starts,
        skip_docs,
        skip_postings,
        field_rows,
        length_starts,
        lengths,
        length_doc_starts,
        length_docs,
        gains,
        row_languages,
        term,
        languages,
        weight,
        k1,
        allowed,
        candidates,
        has_candidates,
        out_docs,
        out_scores,
        docs,
        fields,
        freqs,
    )
    return out_docs[:found], out_scores[:found]


@kernel(
    f"void({_POSTINGS}, {_LENGTHS}, float64[:, ::1], uint64[::1], uint32[::1], uint8[::1],"
    " float64[::1], uint64[::1], uint64[::1], uint32[::1], boolean, int64[::1], uint8[::1],"
    " uint64[::1], uint32[::1], uint16[::1], uint32[::1])",
    allocates=False,
)
def _add_terms(
    postings: Any,
    posting_starts: Any,
    entry_counts: Any,
    skip_starts: Any,
    skip_docs: Any,
    skip_postings: Any,
    field_rows: Any,
    length_starts: Any,
    lengths: Any,
    length_doc_starts: Any,
    length_docs: Any,
    gains: Any,
    row_languages: Any,
    terms: Any,
    tiers: Any,
    ratios: Any,
    languages: Any,
    allowed: Any,
    candidates: Any,
    has_candidates: Any,
    cell_freqs: Any,
    cell_tiers: Any,
    touched: Any,
    docs: Any,
    fields: Any,
    freqs: Any,
) -> Any:
    """Add the frequencies of terms, best tier first, to the cells of their documents."""
    has_allowed = len(allowed) > 0
    num_candidates = len(candidates)
    for i_term in range(len(terms)):
        term = np.int64(terms[i_term])
        tier = tiers[i_term]
        ratio = ratios[i_term]
        row_first = np.int64(skip_starts[term])
        num_rows: Any = np.int64(skip_starts[term + 1]) - row_first
        left: Any = np.int64(entry_counts[term])
        at = posting_starts[term]
        num_blocks = max(num_rows, 1)
        candidate = np.int64(0)
        for block in range(num_blocks):
            count = min(left, BLOCK_ENTRIES)
            left -= count
            if num_rows > 0:
                if has_candidates:
                    first_doc = np.int64(skip_docs[row_first + block])
                    candidate = gallop(candidates, candidate, first_doc)
                    if candidate == num_candidates:
                        break
                    if (
                        block + 1 < num_blocks
                        and candidates[candidate] > skip_docs[row_first + block + 1]
                    ):
                        continue
                at = posting_starts[term] + np.int64(skip_postings[row_first + block])
            decode_block(postings, at, count, docs, fields, freqs)
            for i in range(count):
                doc = np.int64(docs[i])
                if has_allowed and not allowed[doc >> 6] >> np.uint64(doc & 63) & _ONE:
                    continue
                row = np.uint64(field_rows[fields[i]])
                if not row_languages[row] & languages[i_term]:
                    continue
                if cell_tiers[doc] < tier:
                    continue
                code = length_code(
                    field_rows, length_starts, lengths, length_doc_starts, length_docs, row, doc
                )
                gain = gains[row, code]
                if gain == 0.0:
                    continue
                if cell_tiers[doc] == _NO_TIER:
                    cell_tiers[doc] = tier
                    touched[doc >> 6] |= _ONE << np.uint64(doc & 63)
                cell_freqs[doc] += np.int64(freqs[i] * gain * ratio + 0.5)


@kernel(
    f"void({_LENGTHS}, float64[:, ::1], uint32[::1], uint16[::1], uint32[::1], float64,"
    " uint64[::1], int64[::1], uint8[::1], uint64[::1])",
    allocates=False,
)
def add_entries(
    field_rows: Any,
    length_starts: Any,
    lengths: Any,
    length_doc_starts: Any,
    length_docs: Any,
    gains: Any,
    docs: Any,
    fields: Any,
    freqs: Any,
    ratio: Any,
    allowed: Any,
    cell_freqs: Any,
    cell_tiers: Any,
    touched: Any,
) -> Any:
    """Add entries that a phrase gave, as tier 0, before any terms of lesser tiers."""
    has_allowed = len(allowed) > 0
    for i in range(len(docs)):
        doc = np.int64(docs[i])
        if has_allowed and not allowed[doc >> 6] >> np.uint64(doc & 63) & _ONE:
            continue
        row = np.uint64(field_rows[fields[i]])
        code = length_code(
            field_rows, length_starts, lengths, length_doc_starts, length_docs, row, doc
        )
        gain = gains[row, code]
        if gain == 0.0:
            continue
        cell_tiers[doc] = 0
        touched[doc >> 6] |= _ONE << np.uint64(doc & 63)
        cell_freqs[doc] += np.int64(freqs[i] * gain * ratio + 0.5)


@kernel(
    f"void({_POSTINGS}, {_LENGTHS}, float64[:, ::1], uint64[::1], uint32[::1], uint8[::1],"
    " float64[::1], uint64[::1], uint64[::1], uint32[::1], boolean, int64[::1], uint8[::1],"
    " uint64[::1])"
)
def add_terms(
    postings: Any,
    posting_starts: Any,
    entry_counts: Any,
    skip_starts: Any,
    skip_docs: Any,
    skip_postings: Any,
    field_rows: Any,
    length_starts: Any,
    lengths: Any,
    length_doc_starts: Any,
    length_docs: Any,
    gains: Any,
    row_languages: Any,
    terms: Any,
    tiers: Any,
    ratios: Any,
    languages: Any,
    allowed: Any,
    candidates: Any,
    has_candidates: Any,
    cell_freqs: Any,
    cell_tiers: Any,
    touched: Any,
) -> Any:
    """Add the frequencies of many terms to the cells of their documents.

    The first arguments are those of `score_term`. `terms` are ordinals, best tier first, with tier,
    ratio r and language mask each. `allowed` is the bitset of documents (empty: all); where there
    are candidates, it is theirs, and the list serves to leave out blocks. The cells by document
    are t in units of 2^-24 (clean: 0) and the tier (clean: 255); `touched` has the bits of those in
    use.
    """
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    fields = np.empty(BLOCK_ENTRIES, np.uint16)
    freqs = np.empty(BLOCK_ENTRIES, np.uint32)
    _add_terms(
        postings,
        posting_starts,
        entry_counts,
        skip_starts,
        skip_docs,
        skip_postings,
        field_rows,
        length_starts,
        lengths,
        length_doc_starts,
        length_docs,
        gains,
        row_languages,
        terms,
        tiers,
        ratios,
        languages,
        allowed,
        candidates,
        has_candidates,
        cell_freqs,
        cell_tiers,
        touched,
        docs,
        fields,
        freqs,
    )


@kernel("int64(uint64)", inline=True, allocates=False)
def _count_bits(word: Any) -> Any:
    word = word - (word >> np.uint64(1) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + (
        word >> np.uint64(2) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64(word * np.uint64(0x0101010101010101) >> np.uint64(56))


@kernel("uint32[::1](uint64[::1], int64)")
def list_bits(bits: Any, num_docs: Any) -> Any:
    """Return the documents of a bitset, ascending."""
    num_words = (num_docs + 63) >> 6
    size = 0
    for word in range(num_words):
        size += _count_bits(bits[word])
    docs = np.empty(size, np.uint32)
    found = 0
    for word in range(num_words):
        left = bits[word]
        while left:
            lowest = left & (~left + _ONE)
            docs[found] = (word << 6) + _count_bits(lowest - _ONE)
            found += 1
            left ^= lowest
    return docs


@kernel(
    "(uint32[::1], float64[::1], float64, int64[::1], uint8[::1], uint64[::1])",
)
def take_scores(
    docs: Any, weights: Any, k1: Any, cell_freqs: Any, cell_tiers: Any, touched: Any
) -> Any:
    """Return scores (int64, 2^-32) and tiers of the listed documents, and clean their cells."""
    scores = np.empty(len(docs), np.int64)
    tiers = np.empty(len(docs), np.uint8)
    for i in range(len(docs)):
        doc = docs[i]
        tier = cell_tiers[doc]
        tiers[i] = tier
        scores[i] = saturate(cell_freqs[doc], weights[tier], k1)
        cell_freqs[doc] = 0
        cell_tiers[doc] = _NO_TIER
        touched[doc >> 6] = 0
    return scores, tiers


@kernel("void(uint64[::1], uint32[::1], boolean)", allocates=False)
def mark_bits(bits: Any, docs: Any, is_set: Any) -> Any:
    """Set the bits of documents, or clear all words that have them."""
    for doc in docs:
        if is_set:
            bits[doc >> 6] |= _ONE << np.uint64(doc & 63)
        else:
            bits[doc >> 6] = 0
