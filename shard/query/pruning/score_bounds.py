"""Bounds: the most a document can score for a term, by block of its list and by group of documents.

    of a block     the greatest t (see bm25f) of a document whose entries begin in it, int64
    of a group     of the 16 documents d that share d >> 4: the best one's score for a word of
                   weight 1, in 256ths, uint8; only for terms with bitset postings

A group bound is a fraction of a score, not of t, so the bounds of several terms can be added byte
by byte (`block_max_conjunction.py` uses them).

Bounds are computed under given tf norms and stay usable under slightly different ones: when weights
or average field lengths move, `drift` is the factor by which a t, and so a score, may have grown.
If it exceeds `_DRIFT_MAX`, or a query has another k1, the bounds are recomputed.

Block bounds are computed when a term is first searched (10 ns an entry). Group bounds take longer,
so they are scheduled in the background (`shard/caches/background_derivation.py`).
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.analysis.field_classes import ALL_CLASSES
from common.kernels.decorator import arguments, kernel
from common.kernels.types import (
    BoolArray,
    I64Array,
    Rows,
    U8Array,
    U32Array,
    U64Array,
    int64,
    uint8,
    uint32,
    uint64,
)
from common.process.glibc_malloc import zeros_on_new_pages
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.caches.lru_cache import BOUNDS_CACHE
from shard.query.postings.posting_list_scan import ScoredTerm
from shard.query.postings.term_lists import TermLists
from shard.query.postings.term_plan import QueryTerms
from shard.query.scoring.bm25f import SCORE_UNIT, FieldTfNorms, ScoredLists, bm25_tf, length_code
from shard.query.scoring.scratch_arrays import SCRATCH
from shard.segment.doc_sets import count_docs, has_bit, list_all_docs
from shard.segment.text.bitset_postings import find_dense
from shard.segment.text.postings import BLOCK_ENTRIES, PostingLists, decode_entry
from shard.segment.text.postings_cursor import (
    ALL_DOCS,
    at_block,
    decode_docs,
    next_block,
    open_postings,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment

GROUP_SHIFT: Final = 4
"""log2 of a group's documents: `doc >> GROUP_SHIFT` is its group; a group is 16 bits of a bitset.
"""
GROUPS_PER_WORD: Final = 64 >> GROUP_SHIFT
"""Groups in a word of a bitset."""
GROUP_MASK: Final = uint64((1 << (1 << GROUP_SHIFT)) - 1)
"""The bits of the first group of a word."""
CODES: Final = 256
_CODE_SHIFT: Final = 24
"""Shift from the score of a word of weight 1 to its code."""
_DRIFT_MAX: Final = 1.01
"""Bounds that would have to be raised by more than this factor are recomputed."""
_KEPT_BYTES: Final = 400
"""Objects of one term's `KeptChampions`."""


@arguments
class BlockBounds(NamedTuple):
    """The bounds of posting lists by block.

    Attributes:
        of_blocks: greatest t of a document that begins in the block, by skip row.
        drift: factor by which a t may exceed that.
    """

    of_blocks: NDArray[np.int64]
    drift: float


@arguments
class GroupBounds(NamedTuple):
    """The bounds of bitset postings by group of documents.

    Attributes:
        codes: (dense terms, groups).
        is_known: by dense term.
        drift: factor by which a score may exceed what the codes say.
    """

    codes: Rows[np.uint8]
    is_known: NDArray[np.bool_]
    drift: float

    def raised(self, drift: float) -> GroupBounds:
        """Return the same codes with another drift."""
        return self if drift == self.drift else self._replace(drift=drift)


@arguments
class Champions(NamedTuple):
    """The documents that score most for a term or word (see `single_term_top_k`).

    Attributes:
        docs: ascending.
        tfs: their weighted tfs.
        reach: no other document has a greater t.
    """

    docs: NDArray[np.uint32]
    tfs: NDArray[np.int64]
    reach: int


class KeptChampions(NamedTuple):
    """What is kept of a term's champions.

    Attributes:
        fields: the tf norms under which the term was searched last.
        champions: under these tf norms; None if they have not been found.
    """

    fields: weakref.ref[FieldTfNorms]
    champions: Champions | None

    @property
    def num_bytes(self) -> int:
        """Bytes that it takes, with its place in `Bounds`."""
        found = self.champions
        return _KEPT_BYTES + (0 if found is None else found.docs.nbytes + found.tfs.nbytes)


@kernel(allocates=False)
def _write_codes(docs: U32Array, scores: I64Array, codes: U8Array) -> None:
    """Write a list's group bounds, from its documents' scores for a word of weight 1."""
    for i in range(len(docs)):
        group = docs[i] >> uint32(GROUP_SHIFT)
        codes[group] = max(codes[group], uint8(min(scores[i] >> _CODE_SHIFT, CODES - 1)))


@kernel
def docs_in_blocks(
    lists: PostingLists, term: int, is_chosen: BoolArray, members: U64Array
) -> U32Array:
    """Return the documents in chosen blocks of a term, each once.

    Args:
        lists: of the segment.
        term: ordinal.
        is_chosen: by block of its list.
        members: bitset of the documents to return; empty: all.
    """
    num_chosen = 0
    for block in range(len(is_chosen)):
        num_chosen += is_chosen[block]
    docs = np.empty(num_chosen * BLOCK_ENTRIES + 1, np.uint32)
    of_block = np.empty(BLOCK_ENTRIES, np.uint32)
    has_members = len(members) > 0
    found = 0
    current = int64(-1)
    for block in range(len(is_chosen)):
        if not is_chosen[block]:
            continue
        cursor = at_block(lists, term, block, 0)
        decode_docs(lists, cursor, of_block)
        # A document has an entry per field, one after the other. One that is not new, or no member,
        # is overwritten by the next, so this loop has no branch.
        for i in range(cursor.size):
            doc = int64(of_block[i])
            is_new = doc != current
            if has_members:
                is_new &= has_bit(members, doc)
            docs[found] = doc
            found += is_new
            current = doc
    return docs[:found]


@kernel
def docs_in_groups(members: U64Array, is_chosen: BoolArray) -> U32Array:
    """Return the documents of a bitset that are in chosen groups.

    Args:
        members: of the bitset.
        is_chosen: by group; those of the last word may be missing, if it has no document of them.
    """
    chosen = np.empty(len(members), np.uint64)
    for word in range(len(members)):
        mask = uint64(0)
        first = word * GROUPS_PER_WORD
        for part in range(min(GROUPS_PER_WORD, len(is_chosen) - first)):
            mask |= (GROUP_MASK * uint64(is_chosen[first + part])) << uint64(part << GROUP_SHIFT)
        chosen[word] = members[word] & mask
    return list_all_docs(chosen, count_docs(chosen))


@kernel
def _bound_blocks(scored: ScoredLists, term: ScoredTerm, bounds: I64Array) -> None:
    """Write the greatest weighted tf of the documents that begin in each block of a term."""
    lists, lengths, tf_norms, row_classes = scored
    postings, field_rows = lists.postings, lengths.field_rows
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    current = int64(-1)
    total = int64(0)
    owner = int64(0)
    cursor = open_postings(term.term)
    while True:
        cursor = next_block(lists, cursor)
        if cursor.size == 0:
            break
        bounds[cursor.block] = 0
        packing = decode_docs(lists, cursor, docs)
        for i in range(cursor.size):
            doc = int64(docs[i])
            if doc != current:
                # Entries of a document may run into the next block: its t counts where it begins.
                current = doc
                owner = cursor.block
                total = int64(0)
            field, freq = decode_entry(postings, packing, i)
            row = uint64(field_rows[field])
            if term.checks_fields and not row_classes[row] & term.mask:
                continue
            total += int64(freq * tf_norms[row, length_code(lengths, row, doc)] + 0.5)
            bounds[owner] = max(bounds[owner], total)


@dataclass(slots=True)
class Bounds:
    """The bounds of one segment's lists, and the tf norms they were computed under.

    Attributes:
        tf_norms: these tf norms.
        k1: of the query that the group bounds were computed for.
        of_blocks: by skip row.
        is_known: by skip row; set for all rows of a term at once.
        of_groups: with drift 1.
        bytes_written: of bounds that were computed; only their pages take memory.
        champions: by term that was searched alone.
    """

    tf_norms: FieldTfNorms
    k1: float
    of_blocks: NDArray[np.int64]
    is_known: NDArray[np.bool_]
    of_groups: GroupBounds
    bytes_written: int = 0
    champions: dict[int, KeptChampions] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        """Bytes that they take."""
        return self.bytes_written + self.tf_norms.num_bytes

    @classmethod
    def make(cls, lists: TermLists) -> Bounds:
        """Return empty bounds for all lists."""
        num_rows = len(lists.index.lists.skip_docs)
        num_dense = len(lists.index.dense_lists.dense_terms)
        num_groups = (lists.index.num_docs >> GROUP_SHIFT) + 1
        of_blocks = zeros_on_new_pages(8 * num_rows).view(np.int64)
        codes = zeros_on_new_pages(num_dense * num_groups).reshape(num_dense, num_groups)
        of_groups = GroupBounds(codes, np.zeros(num_dense, np.bool_), 1.0)
        return cls(lists.fields, lists.k1, of_blocks, np.zeros(num_rows, np.bool_), of_groups)


def find_bounds(segment: Segment, choice: Hashable) -> Bounds | None:
    """Return the bounds that are kept of a segment for a choice of fields."""
    found: Bounds | None = BOUNDS_CACHE.get((segment.uid, choice))
    return found


def kept_bounds(lists: TermLists) -> tuple[Bounds, float]:
    """Return the bounds kept for this choice of fields, and their drift."""
    segment, choice = lists.segment, lists.fields.choice
    known = find_bounds(segment, choice)
    drift = 1.0 if known is None else lists.fields.drift_from(known.tf_norms)
    if known is None or drift > _DRIFT_MAX or known.k1 != lists.k1:
        known = Bounds.make(lists)
        BOUNDS_CACHE.put((segment.uid, choice), known, known.num_bytes, segment)
        drift = 1.0
    return known, drift


def _note_written(kept: Bounds, segment: Segment, choice: Hashable, num_bytes: int) -> None:
    """Note that the bounds of a segment for a choice of fields have grown."""
    kept.bytes_written += num_bytes
    BOUNDS_CACHE.resize((segment.uid, choice), kept, kept.num_bytes)


def make_block_bounds(lists: TermLists, kept: Bounds, term: int) -> tuple[int, int]:
    """Compute the block bounds of a term unless they are known; return its range of skip rows."""
    skip_starts = lists.index.lists.skip_starts
    start, end = int(skip_starts[term]), int(skip_starts[term + 1])
    if start == end or kept.is_known[start]:
        return start, end
    # In a new array: another thread may be reading these rows.
    bounds = np.empty(end - start, np.int64)
    checks_fields = not kept.tf_norms.are_all_searched
    scored_term = ScoredTerm(term, uint64(ALL_CLASSES), checks_fields)
    _bound_blocks(kept.tf_norms.lists, scored_term, bounds)
    kept.of_blocks[start:end] = bounds
    kept.is_known[start:end] = True
    num_bytes = bounds.nbytes + end - start
    _note_written(kept, lists.segment, lists.fields.choice, num_bytes)
    return start, end


def note_champions(
    lists: TermLists, kept: Bounds, term: int, champions: Champions | None
) -> KeptChampions:
    """Note that a term was searched under these tf norms, and its champions if they were found."""
    last, noted = kept.champions.get(term), KeptChampions(weakref.ref(lists.fields), champions)
    kept.champions[term] = noted
    num_bytes = noted.num_bytes - (0 if last is None else last.num_bytes)
    if num_bytes:
        _note_written(kept, lists.segment, lists.fields.choice, num_bytes)
    return noted


def greatest_score(lists: TermLists, kept: Bounds, drift: float, term: int, weight: float) -> int:
    """Return the most that a document can score for a term, in units of 2^-32.

    Args:
        lists: of the segment.
        kept: its bounds.
        drift: of these.
        term: ordinal.
        weight: of its word.
    """
    start, end = make_block_bounds(lists, kept, term)
    if start == end:  # a single block has no bound: t saturates, so no score is above the weight
        return int(weight * SCORE_UNIT) + 1
    t = int(int(kept.of_blocks[start:end].max()) * drift) + 1
    return int(bm25_tf(t, weight, lists.k1)) + 1


def schedule_group_bounds(lists: TermLists, kept: Bounds, term: int) -> None:
    """Schedule a term's group bounds in the background, if it is dense and has none yet."""
    dense_rank = find_dense(lists.index.dense_lists, term)
    if dense_rank >= 0 and not kept.of_groups.is_known[dense_rank]:
        choice = lists.fields.choice
        key = (lists.segment.uid, "bounds", choice, term)
        BACKGROUND_TASKS.add(
            key, lists.segment, partial(_make_group_bounds, choice, term, dense_rank)
        )


def _make_group_bounds(choice: Hashable, term: int, dense_rank: int, segment: Segment) -> None:
    """Compute the group bounds of a dense term, under the tf norms the segment keeps bounds for."""
    kept = find_bounds(segment, choice)
    if kept is None:
        return  # evicted meanwhile
    SCRATCH.reserve(segment.num_docs)
    lists = TermLists(segment, kept.tf_norms, kept.k1, SCRATCH.members)
    word = QueryTerms(np.array([term]), np.array([ALL_CLASSES], np.uint64), np.ones(1))
    docs, scores = lists.match(word, ALL_DOCS)
    _write_codes(docs, scores, kept.of_groups.codes[dense_rank])
    kept.of_groups.is_known[dense_rank] = True
    _note_written(kept, segment, choice, kept.of_groups.codes[dense_rank].nbytes)
