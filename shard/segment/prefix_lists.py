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
from shard.segment.merge_arrays import MEMORY, Growing, Room
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
        list_at: by term, the list of the shortest range so far that begins there; -1: none.
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


@kernel
def _add_up(
    lists: PostingLists,
    made: PostingLists,
    doc_freqs: U32Array,
    ranges: PrefixRanges,
    scratch: _Scratch,
    first_list: int,
) -> int:
    """Build the lists of ranges of terms, as far as their bytes have room.

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
    entry_counts, posting_starts = lists.entry_counts, lists.posting_starts
    firsts, lasts = ranges
    out, starts, counts, skip_starts, _, _ = made
    list_at, ends, touched, read_docs, read_entries, entries = scratch
    block = new_block()
    docs, fields, freqs = block

    cursor = starts[first_list]
    num_rows = int64(skip_starts[first_list])
    for i_list in range(first_list, len(firsts)):
        # Longer prefixes come first, so their lists exist: read these instead of their terms.
        num_read: Any = int64(0)
        head: Any = int64(firsts[i_list])
        while head < lasts[i_list]:
            longer = list_at[head]
            if longer >= 0:
                num_read += int64(counts[longer])
                head = int64(lasts[longer])
            else:
                num_read += int64(entry_counts[head])
                head += 1
        # In the worst case, this list does not fit.
        needed = cursor + num_read * ENTRY_BYTES_MAX + POSTINGS_PADDING
        needed += (num_read // BLOCK_ENTRIES + 1) * BLOCK_HEADER_BYTES
        if needed > len(out):
            return i_list
        num_read = int64(0)
        head = int64(firsts[i_list])
        while head < lasts[i_list]:
            longer = list_at[head]
            start = posting_starts[head]
            num_entries = int64(entry_counts[head])
            head += 1
            if longer >= 0:
                start = starts[longer]
                num_entries = int64(counts[longer])
                head = int64(lasts[longer])
            num_read = _read_list(out, start, num_entries, num_read, read_docs, read_entries, block)
        list_at[firsts[i_list]] = i_list
        _sort_by_doc(read_docs, read_entries, num_read, ends, touched, entries)
        row = num_rows
        num_docs_of_list = 0
        filled = 0
        i: Any = int64(0)
        # Walk the documents in order, adding up the frequencies of each field, and clean the
        # scratch arrays on the way.
        for word in range(len(touched)):
            bits = touched[word]
            touched[word] = 0
            while bits != 0:
                doc = word * 64 + trailing_zeros(bits)
                bits &= bits - _ONE
                end = int64(ends[doc])
                ends[doc] = 0
                num_docs_of_list += 1
                _sort_few(entries, i, end)
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
        # The last block. Its skip row stays only if the list has several blocks.
        counts[i_list] = (row - num_rows) * BLOCK_ENTRIES + filled
        doc_freqs[i_list] = num_docs_of_list
        cursor = add_block(made, i_list, row, cursor, block, filled)
        if row > num_rows:
            num_rows = row + 1
        starts[i_list + 1] = cursor
        skip_starts[i_list + 1] = num_rows
    return len(firsts)


def entries_min(num_docs: int) -> int:
    """Return how many entries the terms with a common prefix need to get a list of their own."""
    return max(ENTRIES_MIN, min(num_docs // DOCS_PER_ENTRY_MAX, ENTRIES_MAX))


def _find_ranges(
    terms: Terms, entry_counts: NDArray[np.uint32], sums: NDArray[np.int64], least: int, room: Room
) -> PrefixRanges:
    """Return the ranges of terms that get a list."""
    firsts = room.empty(len(entry_counts), np.uint32)
    lasts = room.empty(len(entry_counts), np.uint32)
    found = _find_prefixes(terms.term_bytes, terms.term_starts, sums, least, firsts, lasts)
    return PrefixRanges(firsts[:found].copy(), lasts[:found].copy())


def add_prefix_lists(
    terms: Terms,
    lists: PostingLists,
    postings: Growing[np.uint8],
    doc_freqs: NDArray[np.uint32],
    num_docs: int,
    room: Room = MEMORY,
) -> tuple[PrefixRanges, PostingLists, NDArray[np.uint32]]:
    """Build the prefix lists of a segment.

    Args:
        terms: of its vocabulary.
        lists: of its terms; without postings.
        postings: of its terms; gets those of the prefixes, and the padding.
        doc_freqs: documents of each list.
        num_docs: documents of the segment.
        room: where large arrays go.

    Returns:
        Their ranges; the lists of the terms, followed by these; documents of every list.
    """
    sums = room.zeros(len(lists.entry_counts) + 1, np.int64)
    first = num_spellings(terms)  # nothing that is typed is a prefix of these
    np.cumsum(lists.entry_counts[first:], out=sums[first + 1 :])
    ranges = _find_ranges(terms, lists.entry_counts, sums, entries_min(num_docs), room)
    num_lists = len(ranges.prefix_firsts)
    if not num_lists:
        postings.append(_PADDING)
        return ranges, lists._replace(postings=postings.finish()), doc_freqs
    sizes = sums[ranges.prefix_lasts] - sums[ranges.prefix_firsts]
    num_most, num_all = int(sizes.max()), int(sizes.sum())
    scratch = _Scratch(
        room.empty(len(lists.entry_counts), np.int64),
        room.zeros(num_docs, np.uint32),
        room.zeros((num_docs + 63) >> 6, np.uint64),
        room.empty(num_most, np.uint32),
        room.empty(num_most, np.uint64),
        room.empty(num_most, np.uint64),
    )
    scratch.list_at[:] = -1
    rows_max = num_all // BLOCK_ENTRIES + num_lists
    own = PostingLists(
        _NO_BYTES,
        np.full(num_lists + 1, postings.length, np.int64),
        np.empty(num_lists, np.uint32),
        np.zeros(num_lists + 1, np.uint32),
        room.empty(rows_max, np.uint32),
        room.empty(rows_max, np.uint32),
    )
    own_freqs = np.empty(num_lists, np.uint32)
    num_made = 0
    # An entry takes two bytes at most, mostly; where it takes more, the rest is reserved again.
    num_bytes = 2 * num_all
    while num_made < num_lists:
        worst = int(sizes[num_made]) * ENTRY_BYTES_MAX + POSTINGS_PADDING
        worst += (int(sizes[num_made]) // BLOCK_ENTRIES + 1) * BLOCK_HEADER_BYTES
        made = own._replace(postings=postings.reserve(max(num_bytes, worst)))
        num_made = _add_up(lists, made, own_freqs, ranges, scratch, num_made)
        postings.length = int(own.posting_starts[num_made])
        num_bytes = 0
    postings.append(_PADDING)
    num_rows = int(own.skip_starts[-1])
    rows = lists.skip_starts
    return (
        ranges,
        PostingLists(
            postings.finish(),
            room.concatenate((lists.posting_starts[:-1], own.posting_starts)),
            room.concatenate((lists.entry_counts, own.entry_counts)),
            room.concatenate((rows[:-1], rows[-1] + own.skip_starts)),
            room.concatenate((lists.skip_docs, own.skip_docs[:num_rows])),
            room.concatenate((lists.skip_postings, own.skip_postings[:num_rows])),
        ),
        room.concatenate((doc_freqs, own_freqs)),
    )
