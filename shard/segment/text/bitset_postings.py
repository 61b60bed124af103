"""Bitset postings: constant-time lookup of a document in the list of a common word.

Half of all entries belong to the few words and first letters that a sixteenth of all documents has,
and most queries contain such a word. Without a bitset, finding the few documents that it shares
with a rarer word means reading its list: a block for nearly every document of the other. So a list
with many entries also has a bitset, which leads from a document to its entries in one step:

    text.dense_terms         uint32[D]      ordinals of the lists, ascending
    text.dense_bits          uint64[D · W + 3]  bit d of a list: document d is in it; as a bitset,
                                            of W = (num_docs + 63) >> 6 words
    text.dense_starts        uint32[D · G]  per list and group of 256 documents: entries before
    text.dense_extra_starts  uint32[D · G + 1]  and its first extra
    text.dense_extras        uint8[…]       low 8 bits of a document, for each of its entries but
                                            the first (it has an entry a field); ascending

The number of entries before a document is the sum of those before its group, one for each bit below
its own, and the extras below it. (Rank from group sums and population count: Jacobson,
Space-efficient static trees and graphs, FOCS 1989.)

A term is dense from one entry in `DOCS_PER_ENTRY_MAX` documents on: its bitset then takes about as
much space as its list. The list of a prefix is dense from `PREFIX_DOCS_PER_ENTRY_MAX` on: there are
four times as many of these, those of medium length are rarely searched together with another word,
and then a search reads the list. All bitsets take a twenty-fifth of the disk. Small segments have
none: their lists are short.

Costs: 1 ns to look documents up in order, 5 ns to find their entries (30 ns if documents are far
apart); 3 ns an entry to build.

Worked example: 100 documents, entries (3, title), (3, text), (70, title): bits [8, 64], the only
group starts at entry 0 and extra 0, extras [3]. Document 70: 0 entries before the group, 1 bit and
1 extra below: its one entry is number 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.intrinsics import count_ones
from common.kernels.order_checks import expect_ascending
from common.kernels.types import (
    I64Array,
    U16Array,
    U32Array,
    U64Array,
    int64,
    uint32,
    uint64,
)
from shard.segment.doc_sets import add_bitset, bitset_length, set_bit
from shard.segment.merge_allocator import IN_MEMORY, MergeAllocator
from shard.segment.text.postings import BLOCK_ENTRIES, PostingLists
from shard.segment.text.postings_cursor import decode_docs, next_block, open_postings

if TYPE_CHECKING:
    from numpy.typing import NDArray

DOCS_PER_ENTRY_MAX: Final = 16
PREFIX_DOCS_PER_ENTRY_MAX: Final = 2
DOCS_MIN: Final = 4_096
"""Segments with fewer documents have no bitset postings."""

DENSE_PADDING: Final = 3
"""Words after the last list, because the words of a group are read together."""

_GROUP_SHIFT: Final = 8
_GROUP_WORDS: Final = 4
_GROUP_MASK: Final = 255
_ZERO: Final = uint64(0)
_ONE: Final = uint64(1)


@arguments
class DenseLists(NamedTuple):
    """The bitset postings of a segment; see the module."""

    dense_terms: NDArray[np.uint32]
    dense_bits: NDArray[np.uint64]
    dense_starts: NDArray[np.uint32]
    dense_extra_starts: NDArray[np.uint32]
    dense_extras: NDArray[np.uint8]


_NONE: Final = DenseLists(
    np.zeros(0, np.uint32),
    np.zeros(DENSE_PADDING, np.uint64),
    np.zeros(0, np.uint32),
    np.zeros(1, np.uint32),
    np.zeros(0, np.uint8),
)


@kernel(inline=True, allocates=False)
def _num_groups(num_docs: int) -> int:
    """Return the number of groups of documents."""
    return (num_docs + _GROUP_MASK) >> _GROUP_SHIFT


@kernel(inline=True, allocates=False)
def bitset_bounds(dense_rank: int, num_docs: int) -> tuple[int, int]:
    """Return where in `dense_bits` the bitset of a list begins, and where it ends.

    Args:
        dense_rank: rank of the list among the dense ones.
        num_docs: of the segment.
    """
    size = bitset_length(num_docs)
    return dense_rank * size, (dense_rank + 1) * size


@kernel(allocates=False)
def _fill(
    dense: DenseLists,
    lists: PostingLists,
    dense_rank: int,
    num_docs: int,
    num_extras: int,
    docs: U32Array,
) -> int:
    """Write the bits, starts and extras of one list; return the number of extras then."""
    terms, _, all_starts, all_extra_starts, extras = dense
    term = int64(terms[dense_rank])
    num_groups = _num_groups(num_docs)
    start, end = bitset_bounds(dense_rank, num_docs)
    members = dense.dense_bits[start:end]
    first_group = dense_rank * num_groups
    next_group = int64(0)
    previous = int64(-1)
    num_entries = int64(lists.entry_counts[term])
    cursor = open_postings(term)
    while True:
        cursor = next_block(lists, cursor)
        if cursor.size == 0:
            break
        first = cursor.block * BLOCK_ENTRIES
        decode_docs(lists, cursor, docs)
        for i in range(cursor.size):
            doc = int64(docs[i])
            # A group starts at its first entry; groups without documents start where the next one
            # does.
            while next_group <= doc >> _GROUP_SHIFT:
                all_starts[first_group + next_group] = first + i
                all_extra_starts[first_group + next_group] = num_extras
                next_group += 1
            # Another field of the same document: its bit is set already, so note an extra.
            if doc == previous:
                extras[num_extras] = doc & _GROUP_MASK
                num_extras += 1
            else:
                set_bit(members, doc)
            previous = doc
    # Groups after the last document.
    for group in range(first_group + next_group, first_group + num_groups):
        all_starts[group] = num_entries
        all_extra_starts[group] = num_extras
    all_extra_starts[first_group + num_groups] = num_extras
    return num_extras


@kernel
def _fill_all(dense: DenseLists, lists: PostingLists, num_docs: int) -> None:
    """Write all members but the terms."""
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    num_extras = int64(0)
    for dense_rank in range(len(dense.dense_terms)):
        num_extras = _fill(dense, lists, dense_rank, num_docs, num_extras, docs)


def make_dense_lists(
    lists: PostingLists,
    doc_freqs: NDArray[np.uint32],
    num_terms: int,
    num_docs: int,
    allocator: MergeAllocator = IN_MEMORY,
) -> DenseLists:
    """Build bitset postings for those lists of a segment that are dense.

    Args:
        lists: of terms and prefixes.
        doc_freqs: documents of each.
        num_terms: how many of these are terms; prefixes follow.
        num_docs: of the segment.
        allocator: makes the large arrays.
    """
    if num_docs < DOCS_MIN:
        return _NONE
    # count * 16 >= num_docs, in the counts' own type
    is_dense = lists.entry_counts >= np.uint32(-(-num_docs // DOCS_PER_ENTRY_MAX))
    of_prefixes = lists.entry_counts[num_terms:]
    is_dense[num_terms:] = of_prefixes >= np.uint32(-(-num_docs // PREFIX_DOCS_PER_ENTRY_MAX))
    terms = np.flatnonzero(is_dense).astype(np.uint32)
    num_entries = int(lists.entry_counts[terms].sum(dtype=np.int64))
    num_groups = _num_groups(num_docs)
    dense = DenseLists(
        terms,
        allocator.zeros(len(terms) * bitset_length(num_docs) + DENSE_PADDING, np.uint64),
        allocator.empty(len(terms) * num_groups, np.uint32),
        allocator.zeros(len(terms) * num_groups + 1, np.uint32),
        allocator.empty(num_entries - int(doc_freqs[terms].sum(dtype=np.int64)), np.uint8),
    )
    _fill_all(dense, lists, num_docs)
    return dense


@kernel(allocates=False)
def find_dense(dense: DenseLists, term: int) -> int:
    """Return the rank of a list among the dense ones, or -1."""
    terms = dense.dense_terms
    low = 0
    high = len(terms)
    while low < high:
        middle = (low + high) >> 1
        if int64(terms[middle]) < term:
            low = middle + 1
        else:
            high = middle
    if low < len(terms) and int64(terms[low]) == term:
        return low
    return -1


@kernel
def find_members(
    dense: DenseLists, dense_ranks: I64Array, allowed: U64Array, num_docs: int
) -> U64Array:
    """Return the bitset of the documents that are in all lists.

    Args:
        dense: of the segment.
        dense_ranks: of at least one list; those below 0 are ignored.
        allowed: bitset of the only documents that are wanted; empty: all.
        num_docs: documents of the segment.

    Returns:
        The bitset; do not change it, as it may be a list's own.
    """
    size = bitset_length(num_docs)
    bitset = allowed[:size]
    is_own = False
    for dense_rank in dense_ranks:
        if dense_rank < 0:
            continue
        start, end = bitset_bounds(dense_rank, num_docs)
        members = dense.dense_bits[start:end]
        if len(bitset) == 0:
            bitset = members
        elif is_own:
            for word in range(size):
                bitset[word] &= members[word]
        else:
            # The first AND needs a new array; the next ones go into it.
            both = np.empty(size, np.uint64)
            for word in range(size):
                both[word] = bitset[word] & members[word]
            bitset = both
            is_own = True
    return bitset


@kernel(allocates=False)
def add_members(
    dense: DenseLists, dense_rank: int, num_docs: int, allowed: U64Array, marked: U64Array
) -> None:
    """Set the bits of a list's documents: the allowed ones, or all, as in `find_members`."""
    start, end = bitset_bounds(dense_rank, num_docs)
    add_bitset(dense.dense_bits[start:end], allowed, marked)


@kernel(allocates=False)
def find_entries(
    dense: DenseLists,
    dense_rank: int,
    num_docs: int,
    docs: U32Array,
    firsts: I64Array,
    counts: U16Array,
) -> None:
    """Write the first entry of each of some documents, and how many it has.

    Args:
        dense: of the segment.
        dense_rank: rank of the list among the dense ones.
        num_docs: documents of the segment.
        docs: ascending; all of them in the list.
        firsts: output, by position in `docs`.
        counts: output, by position in `docs`.
    """
    expect_ascending(docs)
    _, bits, starts, extra_starts, extras = dense
    first_word = dense_rank * bitset_length(num_docs)
    first_group = dense_rank * _num_groups(num_docs)
    # With few documents among many, every read is a cache miss. These loops have no branch that
    # depends on what is read, so many misses overlap.
    for i in range(len(docs)):
        doc = int64(docs[i])
        word = first_word + (doc >> _GROUP_SHIFT) * _GROUP_WORDS
        own = (doc >> 6) & (_GROUP_WORDS - 1)
        entry = int64(starts[first_group + (doc >> _GROUP_SHIFT)])
        for k in range(_GROUP_WORDS - 1):
            entry += count_ones(bits[word + k] & (_ZERO - uint64(k < own)))
        firsts[i] = entry + count_ones(bits[word + own] & ((_ONE << uint64(doc & 63)) - _ONE))
    if len(extras) == 0:
        counts[: len(docs)] = 1
        return
    for i in range(len(docs)):
        group = first_group + int64(docs[i] >> uint32(_GROUP_SHIFT))
        first_extra: Any = int64(extra_starts[group])
        counts[i] = extras[min(first_extra, len(extras) - 1)]  # prefetch for the loop below
    group = int64(-1)
    extra = int64(0)  # the first one of its group that is not below the current document
    group_extra = int64(0)
    end_extra = int64(0)
    for i in range(len(docs)):
        doc = int64(docs[i])
        if doc >> _GROUP_SHIFT != group:
            group = doc >> _GROUP_SHIFT
            group_extra = int64(extra_starts[first_group + group])
            end_extra = int64(extra_starts[first_group + group + 1])
            extra = group_extra
        offset = doc & _GROUP_MASK
        while extra < end_extra and int64(extras[extra]) < offset:
            extra += 1
        firsts[i] += extra - group_extra
        count = 1
        while extra < end_extra and int64(extras[extra]) == offset:
            extra += 1
            count += 1
        counts[i] = count
