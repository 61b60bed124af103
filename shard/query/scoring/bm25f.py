"""BM25F over posting lists: the score of a word in each document that has it.

For a word and a document, over the terms that match the word and the fields of the query, t is the
*weighted tf* (`tfs`, of several documents):

    t     =  Σ  r_kind · freq · weight_field / (1 - b + b · length / average_length_field)
    score =  w · t / (t + k1)

Only terms of the best *tier* that the document has are summed, so a lesser match next to a better
one never raises a score:

    tier 0   EXACT, SPELLING, COMPLETION_STEM, STEM, SYNONYM, SPACING, COMPLETION
    tier 1   PREFIX
    tier 2   INFIX                                        w = greatest weight of the tier's kinds,
    tier 3   TYPO_1, TYPO_1_FORM                          r = own weight / w
    tier 4   TYPO_2, TYPO_2_FORM

All sums are in fixed point (t in units of 2^-24, scores in units of 2^-32). Integer addition is
associative, so equal documents get equal scores, bit for bit, however items are spread over
segments and shards and however fields are numbered there. Tf norms are whole units themselves, so
frequencies may be added first (prefix lists); where r is not 1, each term is rounded by itself.
t is at most `T_MAX`, a sum that saturates: weight 1,000, b = 0 and an item that is one word eight
million times would exceed the bits of a cell that hold t.

The factor of t that depends on field and length is a table, `tf_norms[row, length code]`, made once
per segment and set of query fields. A field that the query leaves out has norm 0 and does not
match.

`term_conjunction` reads words that match a single term. Here, `add_terms` reads words that match
many, by way of one accumulator cell per document; given candidates, it skips blocks that hold none.

Cost: 6-8 ns an entry.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.order_checks import expect_ascending
from common.kernels.types import (
    U8,
    U64,
    F64Array,
    I64Array,
    Rows,
    U8Array,
    U32Array,
    U64Array,
    int64,
    uint32,
    uint64,
)
from shard.segment.doc_sets import has_bit, set_bit
from shard.segment.text.field_lengths import DECODED_LENGTHS, FieldLengths
from shard.segment.text.postings import Entries, PostingLists, decode_entry
from shard.segment.text.postings_cursor import (
    BlockScratch,
    Wanted,
    advance_wanted,
    block_scratch,
    decode_wanted,
    open_postings,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import FieldWeight
    from shard.segment.text.text_index import TextIndex

FREQ_UNIT: Final = float(1 << 24)
SCORE_UNIT: Final = float(1 << 32)
NUM_TIERS: Final = 5
TIER_OF_KIND: Final = (0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 4, 4)
"""By `MatchKind`."""
_KINDS_OF_TIER: Final = tuple(
    slice(TIER_OF_KIND.index(tier), TIER_OF_KIND.index(tier) + TIER_OF_KIND.count(tier))
    for tier in range(NUM_TIERS)
)
LAST_KIND_OF_TIER: Final = tuple(kinds.stop - 1 for kinds in _KINDS_OF_TIER)
"""The worst kind of match of each tier."""
_OBJECT_BYTES: Final = 1_000
"""The objects of a query's tf norms, with their identity."""
_TIER_SHIFT: Final = 60
T_MAX: Final = (1 << _TIER_SHIFT) - 1
"""The greatest t, in units of 2^-24: the lower bits of a cell."""
_CHOICE_STEPS: Final = 8
"""Weights within an eighth of a doubling share one set of bounds."""


@arguments
class ScoredLists(NamedTuple):
    """The posting lists of a segment, and the tf norms that score their entries.

    Attributes:
        lists: of its terms and prefixes.
        lengths: of its fields.
        tf_norms: (rows, 256): by row and length code, weight / norm in whole units of 2^-24; 0: not
            searched.
        row_classes: bit of the class of each row's field.
    """

    lists: PostingLists
    lengths: FieldLengths
    tf_norms: Rows[np.float64]
    row_classes: NDArray[np.uint64]


@arguments
class WeighedTerms(NamedTuple):
    """The terms that match a word.

    Attributes:
        terms: ordinals, best tier first.
        tiers: of each.
        ratios: r of each.
        masks: of the field classes in which each counts.
    """

    terms: NDArray[np.uint32]
    tiers: NDArray[np.uint8]
    ratios: NDArray[np.float64]
    masks: NDArray[np.uint64]


@arguments
class Cells(NamedTuple):
    """One accumulator per document.

    Attributes:
        values: by document: 0 (clean), or 5 - tier in the upper bits and t in units of 2^-24 in the
            lower ones. One number rather than two, since every cell visited is a cache miss.
        touched: bitset of those in use.
    """

    values: NDArray[np.int64]
    touched: NDArray[np.uint64]


class FieldTfNorms:
    """Tf norms of a query's fields in one segment.

    Attributes:
        lists: the segment's posting lists with these tf norms.
        choice: identifies the fields and, roughly, their weights.
        are_all_searched: whether the query searches every field that has words.
    """

    __slots__ = ("__weakref__", "_drift", "are_all_searched", "choice", "lists")

    def __init__(self, lists: ScoredLists, choice: Hashable, *, are_all_searched: bool) -> None:
        self.lists = lists
        self.choice = choice
        self.are_all_searched = are_all_searched
        # Weak: two that are compared with each other would keep each other alive.
        self._drift: tuple[weakref.ref[FieldTfNorms], float] | None = None

    @property
    def num_bytes(self) -> int:
        """Estimated size, without the lists, which are the segment's."""
        return self.lists.tf_norms.nbytes + self.lists.row_classes.nbytes + _OBJECT_BYTES

    def drift_from(self, other: FieldTfNorms) -> float:
        """Return the greatest factor by which a document's t can exceed its t under other norms."""
        if other is self:
            return 1.0
        drift = self._drift  # read once: searches on other threads compare with other norms
        if drift is None or drift[0]() is not other:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = self.lists.tf_norms[:, 1:] / other.lists.tf_norms[:, 1:]
            # NaN (0 / 0): a field that neither searches.
            drift = self._drift = weakref.ref(other), float(np.nanmax(ratios, initial=1.0))
        return drift[1]


@kernel(allocates=False)
def _fill_tf_norms(
    weights: F64Array, averages: F64Array, b: float, lengths: I64Array, tf_norms: Rows[np.float64]
) -> None:
    """Compute the tf norms of all fields with a weight; the rows of the others stay zeros."""
    for row in range(len(weights)):
        if weights[row] > 0.0:
            average = averages[row] if averages[row] > 0.0 else 1.0
            for code in range(1, 256):
                norm = 1.0 - b + b * (lengths[code] / average)
                # b = 1 would let a short text in a field of long ones grow without bound.
                tf_norm = np.rint(weights[row] / max(norm, 1e-3) * FREQ_UNIT)
                tf_norms[row, code] = max(tf_norm, 1.0)


def make_tf_norms(
    index: TextIndex,
    numbers: dict[int, FieldWeight],
    row_classes: NDArray[np.uint64],
    b: float,
) -> FieldTfNorms:
    """Compute the tf norm of every searched field and length code of one segment.

    Args:
        index: the segment's text structures.
        numbers: the query's fields by field number.
        row_classes: by row, the bit of its field's class; of all fields with words.
        b: BM25's length parameter.

    Cost: grows with the fields of the query; of those that it does not search, the rows of zeros
    take no time and no memory until they are read.
    """
    field_rows = index.field_lengths.field_rows
    weights = np.zeros(len(index.length_fields))
    averages = np.zeros(len(weights))
    for number, field in numbers.items():
        row = field_rows[number] if number < len(field_rows) else -1
        if row >= 0:
            weights[row] = field.weight
            averages[row] = field.average_length
    tf_norms = np.zeros((len(weights), 256), np.float64)
    _fill_tf_norms(weights, averages, b, DECODED_LENGTHS, tf_norms)
    choice = tuple(
        (number, round(_CHOICE_STEPS * math.log2(field.weight)))
        for number, field in sorted(numbers.items())
        if field.weight > 0
    )
    return FieldTfNorms(
        ScoredLists(index.lists, index.field_lengths, tf_norms, row_classes),
        choice,
        are_all_searched=bool((weights > 0).all()),
    )


def weights_of_tiers(weights: Sequence[float]) -> list[float]:
    """Return the weight of each tier: the greatest of its kinds.

    Args:
        weights: of a word by `MatchKind`.
    """
    return [max(weights[kinds]) for kinds in _KINDS_OF_TIER]


def ratios_of_kinds(weights: Sequence[float], of_tiers: Sequence[float]) -> list[float]:
    """Return the weight of each kind relative to its tier's; 1 where the tier has none.

    Args:
        weights: of a word by `MatchKind`.
        of_tiers: `weights_of_tiers` of these.
    """
    return [
        weight / of_tiers[tier] if of_tiers[tier] > 0 else 1.0
        for weight, tier in zip(weights, TIER_OF_KIND, strict=True)
    ]


def is_best_of_tier(kind: int, weights: Sequence[float]) -> bool:
    """Return whether no kind of the same tier weighs more."""
    return weights[kind] >= max(weights[_KINDS_OF_TIER[TIER_OF_KIND[kind]]])


@kernel(inline=True, allocates=False)
def length_offset(lengths: FieldLengths, row: U64, doc: int) -> U64:
    """Return the offset of a document's length code in a row's field.

    A sparse row lists the documents that have the field: a binary search finds the offset.
    """
    _, length_starts, _, length_doc_starts, length_docs = lengths
    start = length_starts[row]
    sparse = length_doc_starts[row]
    if sparse < 0:
        return uint64(start + doc)
    low = int64(0)
    high = length_starts[int64(row) + 1] - start - 1
    while low < high:
        middle = (low + high) >> 1
        if int64(length_docs[sparse + middle]) < doc:
            low = middle + 1
        else:
            high = middle
    return uint64(start + low)


@kernel(inline=True, allocates=False)
def length_code(lengths: FieldLengths, row: U64, doc: int) -> U8:
    """Return a document's length code in a row's field."""
    return lengths.lengths[length_offset(lengths, row, doc)]


@kernel(inline=True, allocates=False)
def bm25_tf(freq: int, weight: float, k1: float) -> int:
    """Return weight · t / (t + k1), BM25's saturated tf, in units of 2^-32; freq, k1 in 2^-24."""
    t = float(min(max(freq, 1), T_MAX))
    return int64(weight * SCORE_UNIT * (t / (t + k1)) + 0.5)


@kernel(allocates=False)
def least_tf_of(score: int, weight: float, k1: float) -> int:
    """Return the least t whose score is at least this; `T_MAX` if there is none below."""
    low = int64(0)
    high = int64(T_MAX)
    while low < high:
        middle = (low + high) >> 1
        if bm25_tf(middle, weight, k1) >= score:
            high = middle
        else:
            low = middle + 1
    return low


@kernel(inline=True, allocates=False)
def _plus(cell: int, t: int) -> int:
    """Return a cell with t added; a carry would change its tier, so t stays at `T_MAX` then.

    No entry's t reaches 2^61, so the sum fits 63 bits.
    """
    return min(cell + t, cell | T_MAX)


@kernel(allocates=False)
def _add_terms(
    scored: ScoredLists, weighed: WeighedTerms, wanted: Wanted, cells: Cells, scratch: BlockScratch
) -> None:
    """Do the work of `add_terms`, given scratch space for a block."""
    lists, lengths, tf_norms, row_classes = scored
    docs, picked = scratch
    expect_ascending(wanted.docs)
    for i_term in range(len(weighed.terms)):
        rank = int64(NUM_TIERS) - int64(weighed.tiers[i_term])
        ratio = weighed.ratios[i_term]
        mask = weighed.masks[i_term]
        cursor = open_postings(weighed.terms[i_term])
        while True:
            cursor = advance_wanted(lists, cursor, wanted)
            if cursor.size == 0:
                break
            num_picked, packing = decode_wanted(lists, cursor, wanted.bits, scratch)
            for p in range(num_picked):
                i = picked[p]
                doc = int64(docs[i])
                # Terms come best tier first: a document that has a better tier ignores this term.
                cell = cells.values[doc]
                if cell >> _TIER_SHIFT > rank:
                    continue
                field, freq = decode_entry(lists.postings, packing, i)
                row = uint64(lengths.field_rows[field])
                if not row_classes[row] & mask:
                    continue
                tf_norm = tf_norms[row, length_code(lengths, row, doc)]
                if tf_norm == 0.0:
                    continue
                if cell == 0:
                    # First entry of the document: its cell takes this tier.
                    cell = rank << _TIER_SHIFT
                    set_bit(cells.touched, doc)
                cells.values[doc] = _plus(cell, int64(freq * tf_norm * ratio + 0.5))


@kernel(allocates=False)
def add_entries(
    scored: ScoredLists, entries: Entries, ratio: float, allowed: U64Array, cells: Cells
) -> None:
    """Add entries of a phrase, as tier 0; call it before terms of lesser tiers are added."""
    docs, fields, freqs = entries
    lengths = scored.lengths
    has_allowed = len(allowed) > 0
    for i in range(len(docs)):
        doc = int64(docs[i])
        if has_allowed and not has_bit(allowed, doc):
            continue
        row = uint64(lengths.field_rows[fields[i]])
        tf_norm = scored.tf_norms[row, length_code(lengths, row, doc)]
        if tf_norm == 0.0:
            continue
        cell = cells.values[doc]
        if cell == 0:
            cell = int64(NUM_TIERS) << _TIER_SHIFT
            set_bit(cells.touched, doc)
        cells.values[doc] = _plus(cell, int64(freqs[i] * tf_norm * ratio + 0.5))


@kernel(allocates=False)
def _sum_entries(scored: ScoredLists, entries: Entries, docs: U32Array, tfs: I64Array) -> int:
    """Write the documents of entries, each once, with their weighted tfs; return how many."""
    lengths = scored.lengths
    found = 0
    for i in range(len(entries.docs)):
        doc = entries.docs[i]
        row = uint64(lengths.field_rows[entries.fields[i]])
        tf_norm = scored.tf_norms[row, length_code(lengths, row, int64(doc))]
        if tf_norm == 0.0:
            continue
        if found == 0 or docs[found - 1] != doc:
            docs[found] = doc
            tfs[found] = 0
            found += 1
        tfs[found - 1] += int64(entries.freqs[i] * tf_norm + 0.5)
    return found


@kernel
def score_entries(
    scored: ScoredLists, entries: Entries, weight: float, k1: float
) -> tuple[U32Array, I64Array]:
    """Return the documents of a phrase's entries, ascending, and their scores.

    They are the same as by way of `add_entries` and `take_scores`, which add other terms to them.

    Args:
        scored: posting lists of the segment.
        entries: in ascending order of documents.
        weight: of the phrase.
        k1: in units of 2^-24.
    """
    docs = np.empty(len(entries.docs), np.uint32)
    scores = np.empty(len(entries.docs), np.int64)
    found = _sum_entries(scored, entries, docs, scores)
    for i in range(found):
        scores[i] = bm25_tf(scores[i], weight, k1)
    return docs[:found], scores[:found]


@kernel
def add_terms(scored: ScoredLists, weighed: WeighedTerms, wanted: Wanted, cells: Cells) -> None:
    """Add the frequencies of many terms to the cells of their documents."""
    _add_terms(scored, weighed, wanted, cells, block_scratch())


@kernel
def take_tfs(docs: U32Array, cells: Cells) -> tuple[I64Array, U8Array]:
    """Return weighted tfs and tiers of the listed documents, and clean their cells."""
    values, touched = cells
    tfs = np.empty(len(docs), np.int64)
    tiers = np.empty(len(docs), np.uint8)
    for i in range(len(docs)):
        doc = docs[i]
        cell = values[doc]
        tiers[i] = NUM_TIERS - (cell >> _TIER_SHIFT)
        tfs[i] = cell & T_MAX
        values[doc] = 0
        touched[doc >> uint32(6)] = 0
    return tfs, tiers


@kernel
def take_scores(
    docs: U32Array, weights: F64Array, k1: float, cells: Cells
) -> tuple[I64Array, U8Array]:
    """Return scores (int64, 2^-32) and tiers of the listed documents, and clean their cells."""
    scores, tiers = take_tfs(docs, cells)
    # A separate loop, so that the compiler vectorizes the division.
    for i in range(len(docs)):
        scores[i] = bm25_tf(scores[i], weights[tiers[i]], k1)
    return scores, tiers
