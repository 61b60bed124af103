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
section 5). The entries of a batch are counted document by document (`prefix_entries_in_batch`). A
merge copies the lists that its parts have, under new ordinals; sums (`prefix_entries_in_merge`) are
only needed for the parts in which a prefix has too few entries for a list.

Costs: 10 ns an entry of a list in a batch, and in a merge; a term is in two of them, so merging
text takes twice as long. One byte an entry on disk; only the lists that are searched are read.

Worked example: se: (doc 4, title, 1x); sea: (doc 4, text, 2x), (doc 9, title, 1x); seal: (doc 4,
title, 1x): "se" begins terms [0, 3): (doc 4, title, 2x), (doc 4, text, 2x), (doc 9, title, 1x).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.analysis.tokenizer import TERM_BYTES_MAX
from common.kernels.decorator import arguments, kernel
from common.kernels.types import I64Array, U8Array, U32Array, int64
from shard.segment.merge_allocator import IN_MEMORY, GrowingArray, MergeAllocator
from shard.segment.text.postings import POSTINGS_PADDING, Entries, PostingLists, new_block
from shard.segment.text.postings_writer import (
    ListInWriting,
    Written,
    end_list,
    lists_room,
    open_list,
)
from shard.segment.text.prefix_entries_in_batch import BatchWords, append_entries, count_prefixes
from shard.segment.text.prefix_entries_in_merge import (
    NewDocs,
    SumScratch,
    TermCover,
    add_up,
    copy_list,
    count_entries,
    open_lists,
)
from shard.segment.text.vocabulary import Terms, lower_bound, num_spellings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


ENTRIES_MIN: Final = 16_384
"""Terms with fewer entries together are read one by one, in 150 µs."""
DOCS_PER_ENTRY_MAX: Final = 8
"""In larger segments, a prefix needs one entry in this many documents. (Prefix lists are half of
the text's disk space; lists of fewer entries would take three times as much in addition.)
"""
ENTRIES_MAX: Final = 262_144
"""A prefix with this many entries always has a list: reading its terms one by one takes 2.4 ms.
(With a quarter of this, ten million items take 5.10 GB instead of 4.65, their merges after a load
66 s instead of 49, and a half-typed word 4.5 ms instead of 7.7.)
"""

_PADDING: Final = np.zeros(POSTINGS_PADDING, np.uint8)
_NO_BYTES: Final = np.zeros(0, np.uint8)


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
    sizes: I64Array,
) -> int:
    """Find the prefixes that have enough entries.

    Args:
        term_bytes: of the vocabulary.
        term_starts: of the vocabulary.
        sums: entries of the terms before each, with the sum of all.
        entries_min: how many entries are enough.
        firsts: output, see `PrefixRanges`; as long as there are terms.
        lasts: output.
        sizes: output: the bytes of each prefix.

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
                sizes[found] = open_sizes[top]
                found += 1
            top -= 1
        if size > open_sizes[top]:
            top += 1
            open_sizes[top] = size
            open_firsts[top] = first
    return found


@kernel(allocates=False)
def _find_same(
    term_bytes: U8Array,
    prefix_starts: I64Array,
    sizes: I64Array,
    part: Terms,
    firsts: I64Array,
    lasts: I64Array,
) -> None:
    """Find the terms of another segment that begin with each of some prefixes.

    Args:
        term_bytes: where the prefixes are.
        prefix_starts: where each begins there.
        sizes: bytes of each.
        part: vocabulary of the other segment.
        firsts: output, by prefix: the first term.
        lasts: output: the first one after these.
    """
    for i in range(len(sizes)):
        prefix = term_bytes[prefix_starts[i] :]
        firsts[i] = lower_bound(prefix, sizes[i], part, False)
        lasts[i] = lower_bound(prefix, sizes[i], part, True)


def entries_min(num_docs: int) -> int:
    """Return how many entries the terms with a common prefix need to get a list of their own."""
    return max(ENTRIES_MIN, min(num_docs // DOCS_PER_ENTRY_MAX, ENTRIES_MAX))


@dataclass(frozen=True, slots=True)
class PrefixPart:
    """A part of a merge, as the lists of prefixes are copied from it.

    Attributes:
        terms: of its vocabulary.
        lists: of its terms, then of its prefixes.
        ranges: of these prefixes.
        num_docs: its documents.
        new_docs: what becomes of them.
    """

    terms: Terms
    lists: PostingLists
    ranges: PrefixRanges
    num_docs: int
    new_docs: NewDocs


class _Prefixes(NamedTuple):
    """The prefixes that get a list.

    Attributes:
        ranges: their terms.
        sizes: bytes of each.
        entry_counts: entries of the terms of each.
    """

    ranges: PrefixRanges
    sizes: NDArray[np.int64]
    entry_counts: NDArray[np.int64]


def _choose_prefixes(
    terms: Terms, entry_counts: NDArray[np.uint32], least: int, allocator: MergeAllocator
) -> _Prefixes:
    """Return the prefixes whose terms have at least some number of entries."""
    num_terms = len(entry_counts)
    sums = allocator.zeros(num_terms + 1, np.int64)
    first = num_spellings(terms)  # nothing that is typed is a prefix of these
    np.cumsum(entry_counts[first:], out=sums[first + 1 :])
    firsts = allocator.empty(num_terms, np.uint32)
    lasts = allocator.empty(num_terms, np.uint32)
    sizes = allocator.empty(num_terms, np.int64)
    found = _find_prefixes(terms.term_bytes, terms.term_starts, sums, least, firsts, lasts, sizes)
    ranges = PrefixRanges(firsts[:found].copy(), lasts[:found].copy())
    return _Prefixes(
        ranges, sizes[:found].copy(), sums[ranges.prefix_lasts] - sums[ranges.prefix_firsts]
    )


class _Part:
    """Where a merge reads the entries of all prefixes in one of its parts.

    Args:
        part: the part.
        firsts: by prefix that gets a list: the first of the part's terms that begin with it.
        lasts: the first one after these.
        allocator: makes the large arrays.
    """

    def __init__(
        self,
        part: PrefixPart,
        firsts: NDArray[np.int64],
        lasts: NDArray[np.int64],
        allocator: MergeAllocator,
    ) -> None:
        num_terms = len(part.terms.term_keys)
        own = zip(*(one.tolist() for one in part.ranges), strict=True)
        self._part = part
        self._terms = list(zip(firsts.tolist(), lasts.tolist(), strict=True))
        self._list_at = allocator.empty(num_terms, np.int64)
        self._list_at[:] = -1
        self._num_open = 0
        self._list_of = {terms: num_terms + i for i, terms in enumerate(own)}

    def append(
        self, prefix: int, target: ListInWriting, written: Written, scratch: _Scratch
    ) -> Written:
        """Append what the part has of a prefix; prefixes must be asked for in order."""
        first, last = self._terms[prefix]
        if first == last:
            return written
        part = self._part
        found = first if last == first + 1 else self._list_of.get((first, last))
        if found is not None:
            read = scratch.read
            return Written(*copy_list(part.lists, found, part.new_docs, read, target, written))
        firsts, lasts = part.ranges
        end = len(firsts)
        self._num_open = open_lists(firsts, lasts, self._list_at, self._num_open, end, last)
        cover = TermCover(part.lists, lasts, self._list_at)
        room = scratch.reserve(part.num_docs, count_entries(cover, first, last))
        return Written(*add_up(cover, first, last, part.new_docs, room, target, written))


class _Batch:
    """The entries of all prefixes of a batch.

    Args:
        words: of the batch.
        prefixes: those that get a list.
    """

    def __init__(self, words: BatchWords, prefixes: _Prefixes) -> None:
        self._instances = words.instances
        self._counted = count_prefixes(words, *prefixes.ranges, prefixes.entry_counts)

    def append(
        self, prefix: int, target: ListInWriting, written: Written, scratch: _Scratch
    ) -> Written:
        """Append what the batch has of a prefix."""
        return Written(*append_entries(self._counted, prefix, self._instances, target, written))


class _Scratch:
    """Arrays to add lists up; they grow.

    Args:
        allocator: makes them.
    """

    def __init__(self, allocator: MergeAllocator) -> None:
        self._allocator = allocator
        self.read = Entries(*new_block())
        self._sums = SumScratch(
            np.zeros(0, np.uint32),
            np.zeros(0, np.uint64),
            np.zeros(0, np.uint32),
            np.zeros(0, np.uint64),
            np.zeros(0, np.uint64),
            self.read,
        )

    def reserve(self, num_docs: int, num_entries: int) -> SumScratch:
        """Return them for this many documents, and at least this many entries."""
        empty, zeros = self._allocator.empty, self._allocator.zeros
        if num_docs > len(self._sums.ends):
            self._sums = self._sums._replace(
                ends=zeros(num_docs, np.uint32), touched=zeros((num_docs + 63) >> 6, np.uint64)
            )
        if num_entries > len(self._sums.entries):
            self._sums = self._sums._replace(
                read_docs=empty(num_entries, np.uint32),
                read_entries=empty(num_entries, np.uint64),
                entries=empty(num_entries, np.uint64),
            )
        return self._sums._replace(touched=self._sums.touched[: (num_docs + 63) >> 6])


class _ListWriter:
    """Writes the lists of prefixes after those of a segment's terms.

    Args:
        lists: of the terms; without postings.
        postings: of the terms; gets those of the prefixes.
        doc_freqs: documents of each term.
        num_more: how many prefixes get a list.
        allocator: makes the large arrays.
    """

    def __init__(
        self,
        lists: PostingLists,
        postings: GrowingArray[np.uint8],
        doc_freqs: NDArray[np.uint32],
        num_more: int,
        allocator: MergeAllocator,
    ) -> None:
        more = np.zeros(num_more, np.uint32)
        self._lists = PostingLists(
            _NO_BYTES,
            allocator.concatenate((lists.posting_starts, np.zeros(num_more, np.int64))),
            allocator.concatenate((lists.entry_counts, more)),
            allocator.concatenate((lists.skip_starts, more)),
            lists.skip_docs,
            lists.skip_postings,
        )
        self._doc_freqs = allocator.concatenate((doc_freqs, more))
        self._number = len(lists.entry_counts)
        self._postings = postings
        self._skip_docs = GrowingArray(allocator, np.uint32)
        self._skip_docs.append(lists.skip_docs)
        self._skip_postings = GrowingArray(allocator, np.uint32)
        self._skip_postings.append(lists.skip_postings)
        self._scratch = _Scratch(allocator)
        self._block = Entries(*new_block())

    def write(self, prefix: int, num_entries: int, sources: Sequence[_Part | _Batch]) -> None:
        """Write the list of the next prefix.

        Args:
            prefix: its number.
            num_entries: of its terms; it can only have fewer.
            sources: where these are.
        """
        num_rows, num_bytes = lists_room(1, num_entries)
        made = self._lists._replace(
            postings=self._postings.reserve(num_bytes),
            skip_docs=self._skip_docs.reserve(num_rows),
            skip_postings=self._skip_postings.reserve(num_rows),
        )
        number = self._number
        written = Written(*open_list(made, number, self._postings.length, self._skip_docs.length))
        target = ListInWriting(made, number, self._block)
        for source in sources:
            written = source.append(prefix, target, written, self._scratch)
        cursor, row = end_list(target, written)
        self._doc_freqs[number] = written.num_docs
        self._postings.length = made.posting_starts[number + 1] = cursor
        self._skip_docs.length = self._skip_postings.length = made.skip_starts[number + 1] = row
        self._number = number + 1

    def finish(self) -> tuple[PostingLists, NDArray[np.uint32]]:
        """Return the lists of the terms, followed by those of the prefixes; documents of each."""
        self._postings.append(_PADDING)
        lists = self._lists._replace(
            postings=self._postings.finish(),
            skip_docs=self._skip_docs.finish(),
            skip_postings=self._skip_postings.finish(),
        )
        return lists, self._doc_freqs


def add_prefix_lists(
    terms: Terms,
    lists: PostingLists,
    postings: GrowingArray[np.uint8],
    doc_freqs: NDArray[np.uint32],
    num_docs: int,
    origin: BatchWords | Sequence[PrefixPart],
    allocator: MergeAllocator = IN_MEMORY,
) -> tuple[PrefixRanges, PostingLists, NDArray[np.uint32]]:
    """Build the prefix lists of a segment.

    Args:
        terms: of its vocabulary.
        lists: of its terms; without postings.
        postings: of its terms; gets those of the prefixes, and the padding.
        doc_freqs: documents of each list.
        num_docs: documents of the segment.
        origin: the batch, or the parts that it is merged from, in the order of their documents.
        allocator: makes the large arrays.

    Returns:
        Their ranges; the lists of the terms, followed by these; documents of every list.
    """
    prefixes = _choose_prefixes(terms, lists.entry_counts, entries_min(num_docs), allocator)
    ranges, _, entry_counts = prefixes
    if not len(entry_counts):
        postings.append(_PADDING)
        return ranges, lists._replace(postings=postings.finish()), doc_freqs
    sources: list[_Part | _Batch]
    if isinstance(origin, BatchWords):
        sources = [_Batch(origin, prefixes)]
    else:
        sources = [_open_part(terms, prefixes, part, allocator) for part in origin]
    # An entry takes two bytes at most, mostly; where it takes more, the rest is reserved again.
    postings.reserve(2 * int(entry_counts.sum()))
    writer = _ListWriter(lists, postings, doc_freqs, len(entry_counts), allocator)
    for prefix, num_entries in enumerate(entry_counts.tolist()):
        writer.write(prefix, num_entries, sources)
    return ranges, *writer.finish()


def _open_part(
    terms: Terms, prefixes: _Prefixes, part: PrefixPart, allocator: MergeAllocator
) -> _Part:
    """Return where a part has the entries of each prefix."""
    starts = terms.term_starts[prefixes.ranges.prefix_firsts]
    firsts, lasts = np.empty_like(starts), np.empty_like(starts)
    _find_same(terms.term_bytes, starts, prefixes.sizes, part.terms, firsts, lasts)
    return _Part(part, firsts, lasts, allocator)
