"""Prefix lists: one posting list for all terms with a common prefix, where these have many entries.

Search-as-you-type sends a query per keystroke, and the first letters of a word begin thousands of
terms: reading all their lists costs a hundred times what the whole word will cost. So a prefix with
many entries has a list of its own, as if it were a term. Its entries are the sums of the terms'
entries: (document, field, sum of the frequencies). All code that reads lists treats it as a term,
with its blocks, skip rows and document frequency; its ordinal follows those of the vocabulary:

    lists of terms 0 … V - 1 │ prefix lists V … V + P - 1      text.postings, .posting_starts,
                                                               .entry_counts, .doc_freqs, .skip_*

    text.prefix_firsts   uint32[P]   the terms that begin with the prefix are [first, last): what
    text.prefix_lasts    uint32[P]   `Vocabulary.prefix_range` answers; the prefix is not stored

Prefix lists have no positions: phrases read the terms, proximity those that prefix lists lead to.

A list pays off if reading the terms one by one would cost too much: see `entries_min`. "s" and "se"
have one, "sea" rarely; where "q" and "qu" begin the same terms, they share a list.
Elasticsearch's `index_prefixes` follows the same idea, by numbers of letters.

The ranges are found in one walk over the sorted terms with a stack of open prefixes (Kasai et al.:
Linear-time longest-common-prefix computation in suffix arrays, CPM 2001: the traversal in its
section 5). The sums are a counting sort by document, longest prefixes first: shorter ones add up
the lists of longer ones.

Costs: 20 ns an entry of a list; a term is in two of them, so merging text takes twice as long. One
byte an entry on disk; only the lists that are searched are read.

Worked example: se: (doc 4, title, 1x); sea: (doc 4, text, 2x), (doc 9, title, 1x); seal: (doc 4,
title, 1x): "se" begins terms [0, 3): (doc 4, title, 2x), (doc 4, text, 2x), (doc 9, title, 1x).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.analysis.tokenizer import TERM_BYTES_MAX
from common.kernels.byte_words import trailing_zeros
from common.kernels.decorator import arguments, kernel
from common.kernels.types import I64Array, U8Array, U32Array, U64Array, int64, uint32, uint64
from shard.segment.doc_sets import set_bit
from shard.segment.merge_arrays import IN_MEMORY, GrowingArray, MergeAllocator
from shard.segment.postings import (
    BLOCK_ENTRIES,
    BLOCK_HEADER_BYTES,
    ENTRY_BYTES_MAX,
    POSTINGS_PADDING,
    Entries,
    PostingLists,
    add_block,
    decode_block,
    new_block,
)
from shard.segment.vocabulary import Terms, num_spellings

if TYPE_CHECKING:
    from numpy.typing import NDArray


ENTRIES_MIN: Final = 16_384
"""Terms with fewer entries together are read one by one, in 150 µs."""
DOCS_PER_ENTRY_MAX: Final = 8
"""In larger segments a prefix needs one entry in this many documents: lists are half of the text's
disk; three quarters of their bytes were in lists of fewer entries,"""
ENTRIES_MAX: Final = 65_536
"""but never more than these, which are read one by one in 0.6 ms."""

_PADDING: Final = np.zeros(POSTINGS_PADDING, np.uint8)
_NO_BYTES: Final = np.zeros(0, np.uint8)
_ONE: Final = uint64(1)
_S32: Final = uint64(32)
_LOW32: Final = uint64(0xFFFFFFFF)


@arguments
class PrefixRanges(NamedTuple):
    """The terms of each prefix list; a range comes after those that it contains."""

    prefix_firsts: NDArray[np.uint32]
    prefix_lasts: NDArray[np.uint32]


@kernel(allocates=False)
def _count_shared(term_bytes: U8Array, term_starts: I64Array, term: int) -> int:
    """Return how many bytes, in whole characters, a term shares with the one before."""
    left = term_starts[term - 1]
    right = term_starts[term]
    size = min(right - left, term_starts[term + 1] - right)
    shared = 0
    while shared < size and term_bytes[left + shared] == term_bytes[right + shared]:
        shared += 1
    while shared < size and shared > 0 and term_bytes[right + shared] & 0xC0 == 0x80:
        shared -= 1
    return shared


@kernel
def _find_prefixes(
    term_bytes: U8Array,
    term_starts: I64Array,
    sums: I64Array,
    entries_min: int,
    firsts: U32Array,
    lasts: U32Array,
) -> int:
    """Find the prefixes that have enough entries.

    Args:
        term_bytes: of the vocabulary.
        term_starts: of the vocabulary.
        sums: entries of the terms before each, with the sum of all.
        entries_min: how many entries are enough.
        firsts: output, see `PrefixRanges`; as long as there are terms.
        lasts: output.

    Returns:
        How many there are.
    """
    num_terms = len(sums) - 1
    # Stack of the prefixes that the current terms share, shortest first; at the bottom, the empty.
    open_sizes = np.zeros(TERM_BYTES_MAX + 2, np.int64)
    open_firsts = np.zeros(TERM_BYTES_MAX + 2, np.int64)
    top = 0
    found = 0
    for term in range(1, num_terms + 1):
        size = int64(0)
        if term < num_terms:
            size = _count_shared(term_bytes, term_starts, term)
        first = int64(term - 1)
        # Prefixes longer than what this term shares with the last one end here.
        while size < open_sizes[top]:
            first = open_firsts[top]
            if sums[term] - sums[first] >= entries_min:
                firsts[found] = first
                lasts[found] = term
                found += 1
            top -= 1
        if size > open_sizes[top]:
            top += 1
            open_sizes[top] = size
            open_firsts[top] = first
    return found


@kernel(allocates=False)
def _read_list(
    postings: U8Array,
    start: int,
    num_entries: int,
    num_read: int,
    docs: U32Array,
    entries: U64Array,
    block: Entries,
) -> int:
    """Append document and ``field << 32 | frequency`` of a list's entries; return the new count."""
    at = start
    left: Any = num_entries
    while left > 0:
        count = min(left, BLOCK_ENTRIES)
        left -= count
        at = decode_block(postings, at, count, block)
        for i in range(count):
            docs[num_read] = block.docs[i]
            entries[num_read] = uint64(block.fields[i]) << _S32 | uint64(block.freqs[i])
            num_read += 1
    return num_read


@kernel(allocates=False)
def _sort_by_doc(
    docs: U32Array,
    entries: U64Array,
    num_read: int,
    ends: U32Array,
    touched: U64Array,
    sorted_entries: U64Array,
) -> None:
    """Sort entries by document (a counting sort).

    Args:
        docs: of the entries.
        entries: as read.
        num_read: how many there are.
        ends: by document, zeros; gets the end of each document's entries.
        touched: bitset of documents, clean; gets those that have entries.
        sorted_entries: the result.
    """
    for i in range(num_read):
        doc = docs[i]
        ends[doc] += uint32(1)
        set_bit(touched, doc)
    total = uint32(0)
    # Counts become starts; only touched documents are visited.
    for word in range(len(touched)):
        bits = touched[word]
        while bits != 0:
            doc = uint32(word * 64 + trailing_zeros(bits))
            bits &= bits - _ONE
            count = ends[doc]
            ends[doc] = total
            total += count
    for i in range(num_read):
        doc = docs[i]
        sorted_entries[ends[doc]] = entries[i]
        ends[doc] += uint32(1)


@kernel(allocates=False)
def _sort_few(entries: U64Array, begin: int, end: int) -> None:
    """Sort the few entries of one document, by field."""
    for i in range(begin + 1, end):
        entry = entries[i]
        j = i
        while j > begin and entries[j - 1] > entry:
            entries[j] = entries[j - 1]
            j -= 1
        entries[j] = entry


@arguments
class _Scratch(NamedTuple):
    """Scratch arrays of the build.

    Attributes:
        list_at: by term, the list of the widest range so far that begins there; -1: none.
        ends: by document, zeros.
        touched: bitset of documents, clean.
        read_docs: by entry of the longest list.
        read_entries: by entry of the longest list.
        entries: by entry of the longest list.
    """

    list_at: NDArray[np.int64]
    ends: NDArray[np.uint32]
    touched: NDArray[np.uint64]
    read_docs: NDArray[np.uint32]
    read_entries: NDArray[np.uint64]
    entries: NDArray[np.uint64]


@kernel(inline=True, allocates=False)
def _next_list(
    head: int, lists: PostingLists, made: PostingLists, ranges: PrefixRanges, list_at: I64Array
) -> tuple[int, int, int]:
    """Return where to read the entries of the terms from `head` on.

    Longer prefixes come first, so their lists exist: they are read instead of their terms.

    Returns:
        (where the list begins, its entries, the first term after those that it covers).
    """
    longer = list_at[head]
    if longer >= 0:
        count = int64(made.entry_counts[longer])
        return int64(made.posting_starts[longer]), count, int64(ranges.prefix_lasts[longer])
    return int64(lists.posting_starts[head]), int64(lists.entry_counts[head]), head + 1


@kernel(allocates=False)
def _pack_sums(
    made: PostingLists, i_list: int, row: int, cursor: int, scratch: _Scratch, block: Entries
) -> tuple[int, int, int]:
    """Write a list whose entries are sorted by document, and clean the scratch arrays on the way.

    Args:
        made: where the list goes.
        i_list: its number.
        row: its first skip row.
        cursor: where its postings begin.
        scratch: with its sorted entries.
        block: scratch.

    Returns:
        (where its postings end, its last skip row, its documents).
    """
    ends, touched, entries = scratch.ends, scratch.touched, scratch.entries
    docs, fields, freqs = block
    first_row = row
    num_docs = 0
    filled = 0
    i: Any = int64(0)
    for word in range(len(touched)):
        bits = touched[word]
        touched[word] = 0
        while bits != 0:
            doc = word * 64 + trailing_zeros(bits)
            bits &= bits - _ONE
            end = int64(ends[doc])
            ends[doc] = 0
            num_docs += 1
            _sort_few(entries, i, end)
            # One entry per field, with the sum of the terms' frequencies.
            while i < end:
                field = entries[i] >> _S32
                freq = uint64(0)
                while i < end and entries[i] >> _S32 == field:
                    freq += entries[i] & _LOW32
                    i += 1
                if filled == BLOCK_ENTRIES:
                    cursor = add_block(made, i_list, row, cursor, block, filled)
                    row += 1
                    filled = 0
                docs[filled] = doc
                fields[filled] = field
                freqs[filled] = freq
                filled += 1
    made.entry_counts[i_list] = (row - first_row) * BLOCK_ENTRIES + filled
    return add_block(made, i_list, row, cursor, block, filled), row, num_docs


@kernel
def _add_up(
    lists: PostingLists,
    made: PostingLists,
    doc_freqs: U32Array,
    ranges: PrefixRanges,
    scratch: _Scratch,
    first_list: int,
) -> int:
    """Build the lists of ranges of terms, until one may not fit into the postings.

    Args:
        lists: of the terms.
        made: the lists of the ranges; their postings follow those of the terms, in one array.
        doc_freqs: documents of each of these.
        ranges: of the lists.
        scratch: see there.
        first_list: the first one that is not made yet; those before are.

    Returns:
        The first list that is not made now.
    """
    firsts, lasts = ranges
    postings, starts, skip_starts = made.postings, made.posting_starts, made.skip_starts
    list_at, read_docs, read_entries = scratch.list_at, scratch.read_docs, scratch.read_entries
    block = new_block()

    cursor = starts[first_list]
    num_rows = int64(skip_starts[first_list])
    for i_list in range(first_list, len(firsts)):
        num_read: Any = int64(0)
        head: Any = int64(firsts[i_list])
        while head < lasts[i_list]:
            _, num_entries, head = _next_list(head, lists, made, ranges, list_at)
            num_read += num_entries
        # Sums can only be fewer than what is read: an upper bound on the bytes.
        needed = cursor + num_read * ENTRY_BYTES_MAX + POSTINGS_PADDING
        needed += (num_read // BLOCK_ENTRIES + 1) * BLOCK_HEADER_BYTES
        if needed > len(postings):
            return i_list
        num_read = int64(0)
        head = int64(firsts[i_list])
        while head < lasts[i_list]:
            start, num_entries, head = _next_list(head, lists, made, ranges, list_at)
            num_read = _read_list(
                postings, start, num_entries, num_read, read_docs, read_entries, block
            )
        list_at[firsts[i_list]] = i_list
        _sort_by_doc(
            read_docs, read_entries, num_read, scratch.ends, scratch.touched, scratch.entries
        )
        cursor, row, num_docs = _pack_sums(made, i_list, num_rows, cursor, scratch, block)
        doc_freqs[i_list] = num_docs
        if row > num_rows:  # a list of one block has no skip row: the next list takes its place
            num_rows = row + 1
        starts[i_list + 1] = cursor
        skip_starts[i_list + 1] = num_rows
    return len(firsts)


def entries_min(num_docs: int) -> int:
    """Return how many entries the terms with a common prefix need to get a list of their own."""
    return max(ENTRIES_MIN, min(num_docs // DOCS_PER_ENTRY_MAX, ENTRIES_MAX))


def _find_ranges(
    terms: Terms,
    entry_counts: NDArray[np.uint32],
    sums: NDArray[np.int64],
    least: int,
    allocator: MergeAllocator,
) -> PrefixRanges:
    """Return the ranges of terms that get a list."""
    firsts = allocator.empty(len(entry_counts), np.uint32)
    lasts = allocator.empty(len(entry_counts), np.uint32)
    found = _find_prefixes(terms.term_bytes, terms.term_starts, sums, least, firsts, lasts)
    return PrefixRanges(firsts[:found].copy(), lasts[:found].copy())


def add_prefix_lists(
    terms: Terms,
    lists: PostingLists,
    postings: GrowingArray[np.uint8],
    doc_freqs: NDArray[np.uint32],
    num_docs: int,
    allocator: MergeAllocator = IN_MEMORY,
) -> tuple[PrefixRanges, PostingLists, NDArray[np.uint32]]:
    """Build the prefix lists of a segment.

    Args:
        terms: of its vocabulary.
        lists: of its terms; without postings.
        postings: of its terms; gets those of the prefixes, and the padding.
        doc_freqs: documents of each list.
        num_docs: documents of the segment.
        allocator: makes the large arrays.

    Returns:
        Their ranges; the lists of the terms, followed by these; documents of every list.
    """
    sums = allocator.zeros(len(lists.entry_counts) + 1, np.int64)
    first = num_spellings(terms)  # nothing that is typed is a prefix of these
    np.cumsum(lists.entry_counts[first:], out=sums[first + 1 :])
    ranges = _find_ranges(terms, lists.entry_counts, sums, entries_min(num_docs), allocator)
    if not len(ranges.prefix_firsts):
        postings.append(_PADDING)
        return ranges, lists._replace(postings=postings.finish()), doc_freqs
    sizes = sums[ranges.prefix_lasts] - sums[ranges.prefix_firsts]
    made, made_freqs = _make_lists(lists, postings, ranges, sizes, num_docs, allocator)
    postings.append(_PADDING)
    num_rows = int(made.skip_starts[-1])
    rows = lists.skip_starts
    return (
        ranges,
        PostingLists(
            postings.finish(),
            allocator.concatenate((lists.posting_starts[:-1], made.posting_starts)),
            allocator.concatenate((lists.entry_counts, made.entry_counts)),
            allocator.concatenate((rows[:-1], rows[-1] + made.skip_starts)),
            allocator.concatenate((lists.skip_docs, made.skip_docs[:num_rows])),
            allocator.concatenate((lists.skip_postings, made.skip_postings[:num_rows])),
        ),
        allocator.concatenate((doc_freqs, made_freqs)),
    )


def _make_lists(
    lists: PostingLists,
    postings: GrowingArray[np.uint8],
    ranges: PrefixRanges,
    sizes: NDArray[np.int64],
    num_docs: int,
    allocator: MergeAllocator,
) -> tuple[PostingLists, NDArray[np.uint32]]:
    """Build the lists of ranges of terms.

    Args:
        lists: of the terms; without postings.
        postings: of the terms; gets those of the ranges.
        ranges: at least one.
        sizes: entries of the terms of each range.
        num_docs: documents of the segment.
        allocator: makes the large arrays.

    Returns:
        The lists, without postings; documents of each.
    """
    num_lists = len(sizes)
    scratch = _make_scratch(len(lists.entry_counts), num_docs, int(sizes.max()), allocator)
    rows_max = int(sizes.sum()) // BLOCK_ENTRIES + num_lists
    made = PostingLists(
        _NO_BYTES,
        np.full(num_lists + 1, postings.length, np.int64),
        np.empty(num_lists, np.uint32),
        np.zeros(num_lists + 1, np.uint32),
        allocator.empty(rows_max, np.uint32),
        allocator.empty(rows_max, np.uint32),
    )
    doc_freqs = np.empty(num_lists, np.uint32)
    num_made = 0
    # An entry takes two bytes at most, mostly; where it takes more, the rest is reserved again.
    num_bytes = 2 * int(sizes.sum())
    while num_made < num_lists:
        size = int(sizes[num_made])
        worst = size * ENTRY_BYTES_MAX + (size // BLOCK_ENTRIES + 1) * BLOCK_HEADER_BYTES
        reserved = postings.reserve(max(num_bytes, worst + POSTINGS_PADDING))
        with_bytes = made._replace(postings=reserved)
        num_made = _add_up(lists, with_bytes, doc_freqs, ranges, scratch, num_made)
        postings.length = int(made.posting_starts[num_made])
        num_bytes = 0
    return made, doc_freqs


def _make_scratch(
    num_terms: int, num_docs: int, num_entries: int, allocator: MergeAllocator
) -> _Scratch:
    """Return scratch arrays for lists of at most some number of entries."""
    list_at = allocator.empty(num_terms, np.int64)
    list_at[:] = -1
    return _Scratch(
        list_at,
        allocator.zeros(num_docs, np.uint32),
        allocator.zeros((num_docs + 63) >> 6, np.uint64),
        allocator.empty(num_entries, np.uint32),
        allocator.empty(num_entries, np.uint64),
        allocator.empty(num_entries, np.uint64),
    )
