"""The vocabulary: every distinct word of a segment, sorted by its UTF-8 bytes.

Questions it answers: which ordinal does this word have; which words begin with these letters; which
are one or two edits away? A term ordinal is the index into all the arrays:

    text.term_bytes    uint8[…]       the terms, one after the other, 8 bytes of padding at the end
    text.term_starts   int64[V + 1]   where each begins
    text.term_keys     uint64[V]      its first 8 bytes as a big-endian number (zero-padded): keys
                                      ascend with the terms and compare most of them in one step
    text.term_masks    uint32[V]      its set of letters: bits 0-25 for a-z, 26-31 for all other
                                      characters (code point mod 6)
    text.term_lengths  uint8[V]       its characters

Exact and prefix search are binary searches over the keys (bytes only where keys tie). A search with
typos scans all terms, but rejects most by length and mask: k edits change at most 2 k members of
the set of letters (a substitution removes one and adds one, a transposition changes none). The few
that pass are compared by a banded edit distance that stops as soon as the band exceeds k; the
following terms that begin with the same letters are then skipped.

What an edit is, and why none may touch a digit, is in `common/analysis/edit_distance_kernels.py`.
Words with digits are never expanded with typos, so a term can be near only before its first digit.

Prefix with typos ("shewsh" for shawshank): some beginning of the term is within k edits. At most
as many letters may be missing from the mask as there are edits.

A term with another first letter counts as one edit further away: people seldom mistype the first
letter, and such a match looks wrong (outer for router). A limit of one still admits one such edit,
so that a mistyped word which the index lacks finds something; its distance of two tells the caller.
A limit of two admits no second edit there, so far fewer of these terms pass.

Costs, 500,000 terms of 8 letters: exact 0.3 µs; prefix range 0.6 µs plus a step a term; one
typo 0.35 ms, two 1.2 ms, of a prefix 0.8 and 2.2 ms; memory 8 + 8 + 4 + 1 bytes a term and its
letters.

Worked example: sea, seal, tea: keys 0x7365610000000000, 0x7365616C00000000, 0x7465610000000000;
masks {a, e, s}, {a, e, l, s}, {a, e, t}; "sae" with one edit: mask {a, e, s} differs from the three
by 0, 1, 2 members, so all are compared; sea matches (transposition), seal and tea are 2 away.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.analysis.accented_spellings import SPELLING_END
from common.analysis.edit_distance_kernels import distance_to_one, osa_distance
from common.kernels.array_growth import grown
from common.kernels.big_endian import load_big_endian
from common.kernels.decorator import arguments, kernel
from common.kernels.intrinsics import load_u64
from common.kernels.types import (
    U32,
    U64,
    I32Array,
    I64Array,
    Rows,
    U8Array,
    U32Array,
    U64Array,
    int64,
    uint32,
    uint64,
)
from common.kernels.utf8 import next_point
from shard.segment.merge_allocator import IN_MEMORY, MergeAllocator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

TERM_PADDING: Final = 8
_PICKED_AT_ONCE: Final = 1024
"""Terms that are compared by their letters at a time."""


@arguments
class Terms(NamedTuple):
    """The terms of a vocabulary; see the module."""

    term_bytes: NDArray[np.uint8]
    term_starts: NDArray[np.int64]
    term_keys: NDArray[np.uint64]
    term_masks: NDArray[np.uint32]
    term_lengths: NDArray[np.uint8]


@kernel(inline=True, allocates=False)
def term_key(array: U8Array, start: int, length: int) -> U64:
    """Return the first 8 bytes of a term, big-endian, zero-padded; 8 bytes must be readable."""
    word = load_big_endian(array, start)
    if length >= 8:
        return word
    return word & ~(~uint64(0) >> uint64(8 * length))


@kernel(allocates=False)
def compare_terms(
    left: U8Array, left_start: int, left_end: int, right: U8Array, right_start: int, right_end: int
) -> int:
    """Return a negative, zero or positive number as left sorts before, with or after right."""
    length = min(left_end - left_start, right_end - right_start)
    for i in range(length):
        if left[left_start + i] != right[right_start + i]:
            return int64(left[left_start + i]) - int64(right[right_start + i])
    return (left_end - left_start) - (right_end - right_start)


@kernel(inline=True, allocates=False)
def _compare_rows(term_bytes: U8Array, terms: Rows[np.int64], left: int, right: int) -> int:
    """Compare two terms whose bytes are given by rows, as `compare_terms`."""
    return compare_terms(
        term_bytes,
        terms[left, 1],
        terms[left, 2],
        term_bytes,
        terms[right, 1],
        terms[right, 2],
    )


@kernel(allocates=False)
def sort_ties(order: I64Array, keys: U64Array, term_bytes: U8Array, terms: Rows[np.int64]) -> None:
    """Finish an order that is sorted by key: sort each run of equal keys by all bytes.

    Columns 1 and 2 of `terms` say where each term begins and ends in `term_bytes`.

    Heap sort, not insertion sort: runs are short in natural text, but long among numbered names.
    """
    count = len(order)
    begin = 0
    while begin < count:
        end = begin + 1
        while end < count and keys[order[end]] == keys[order[begin]]:
            end += 1
        size = end - begin
        # Heap sort of order[begin:end]: `step` counts down through both phases, building the heap
        # (step >= size), then taking the greatest off it.
        step = size // 2 + size
        while size > 1 and step > 1:
            step -= 1
            if step >= size:
                root = step - size
                heap_size = size
            else:
                heap_size = step
                order[begin], order[begin + step] = order[begin + step], order[begin]
                root = 0
            item = order[begin + root]
            while True:
                # Sift `item` down to where neither child is greater.
                child = 2 * root + 1
                if child >= heap_size:
                    break
                below = order[begin + child]
                if child + 1 < heap_size:
                    other = order[begin + child + 1]
                    if _compare_rows(term_bytes, terms, below, other) < 0:
                        child += 1
                        below = other
                if _compare_rows(term_bytes, terms, item, below) >= 0:
                    break
                order[begin + root] = below
                root = child
            order[begin + root] = item
        begin = end


@kernel(inline=True, allocates=False)
def _mask_bit(point: int) -> U32:
    """Return the bit of a character in a mask."""
    if 97 <= point <= 122:
        return uint32(1) << uint32(point - 97)
    return uint32(1) << uint32(26 + point % 6)


@kernel(allocates=False)
def describe_terms(terms: Terms) -> None:
    """Compute keys, masks and lengths of the terms."""
    term_bytes, term_starts, keys, masks, lengths = terms
    for term in range(len(keys)):
        start = term_starts[term]
        end = term_starts[term + 1]
        keys[term] = term_key(term_bytes, start, end - start)
        mask = uint32(0)
        length = 0
        at = start
        while at < end:
            point, at = next_point(term_bytes, at)
            mask |= _mask_bit(point)
            length += 1
        masks[term] = mask
        lengths[term] = length


@kernel(allocates=False)
def lower_bound(word: U8Array, length: int, terms: Terms, is_past_prefix: bool) -> int:
    """Return the first term ordinal that does not sort before the word.

    Args:
        word: the word's bytes, padded by 8.
        length: its bytes.
        terms: the vocabulary.
        is_past_prefix: whether terms that begin with the word sort before it.
    """
    term_bytes, term_starts, keys, _, _ = terms
    key = term_key(word, 0, length)
    low = 0
    high = len(keys)
    while low < high:
        middle = (low + high) >> 1
        # Keys decide, unless they tie or a short prefix could end inside the key.
        if keys[middle] != key and (length >= 8 or not is_past_prefix):
            is_before = keys[middle] < key
        else:
            start = term_starts[middle]
            end = term_starts[middle + 1]
            if is_past_prefix:
                end = min(end, start + length)
            order = compare_terms(term_bytes, start, end, word, 0, length)
            is_before = order < 0 or (order == 0 and is_past_prefix)
        if is_before:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(allocates=False)
def find_term(word: U8Array, length: int, terms: Terms) -> int:
    """Return the ordinal of a word (its bytes padded by 8), or -1 if it is not a term."""
    term = int64(lower_bound(word, length, terms, False))
    if term == len(terms.term_keys):
        return -1
    start = terms.term_starts[term]
    end = terms.term_starts[term + 1]
    is_same = compare_terms(terms.term_bytes, start, end, word, 0, length) == 0
    return term if is_same else -1


@kernel
def find_terms(words: U8Array, ends: I64Array, terms: Terms) -> I64Array:
    """Return the ordinal of each word, or -1.

    Args:
        words: the bytes of all words, one after the other, padded by 8.
        ends: where each word ends.
        terms: the vocabulary.
    """
    found = np.empty(len(ends), np.int64)
    start = int64(0)
    for i in range(len(ends)):
        found[i] = find_term(words[start:], ends[i] - start, terms)
        start = ends[i]
    return found


@kernel
def find_known(words: U8Array, ends: I64Array, terms: Terms) -> tuple[U32Array, I64Array]:
    """Return the ordinals of the words that are terms, and by word where these end."""
    found = np.empty(len(ends), np.uint32)
    found_ends = np.empty(len(ends), np.int64)
    count = 0
    start = int64(0)
    for i in range(len(ends)):
        term = find_term(words[start:], ends[i] - start, terms)
        if term >= 0:
            found[count] = term
            count += 1
        found_ends[i] = count
        start = ends[i]
    return found[:count], found_ends


@kernel
def find_cuts(word: U8Array, length: int, terms: Terms) -> I64Array:
    """Return, ascending, the numbers of characters after which a word can be cut into two terms.

    Args:
        word: the word's bytes, padded by 8.
        length: its bytes.
        terms: the vocabulary.
    """
    found = np.empty(length, np.int64)
    num_found = 0
    num_characters = 0
    at = 0
    while True:
        _, at = next_point(word, at)
        num_characters += 1
        if at >= length:
            break
        if find_term(word, at, terms) >= 0 and find_term(word[at:], length - at, terms) >= 0:
            found[num_found] = num_characters
            num_found += 1
    return found[:num_found]


@arguments
class _Profile(NamedTuple):
    """Bounds of length and letters for the terms that can be near a word.

    Attributes:
        letters: mask of the word.
        unused: mask of the letters that a term may have beyond the word's.
        members_max: how many members the masks may differ by.
        shortest: characters of a term, at least.
        longest: characters of a term, at most.
    """

    letters: U32
    unused: U32
    members_max: int
    shortest: int
    longest: int


@kernel(inline=True, allocates=False)
def _profile(mask: U32, length: int, edits: int, is_prefix: bool) -> _Profile:
    """Return the profile of a word with some letters for a number of edits.

    An edit changes at most two members of the mask: a substitution removes one and adds one. A term
    that only begins with the word may be longer, and have any other letters: only missing ones
    count, of which an edit makes at most one.
    """
    shortest = max(length - edits, 1)
    if is_prefix:
        return _Profile(mask, uint32(~mask), edits, shortest, 255)
    return _Profile(mask, uint32(0), 2 * edits, shortest, length + edits)


@arguments
class _PickScratch(NamedTuple):
    """Scratch to pick terms, `_PICKED_AT_ONCE` at a time.

    Attributes:
        differing: members by which the mask of each term differs.
        flags: whether each is picked; 8 more, to be read as words.
        picked: positions of the picked terms.
    """

    differing: NDArray[np.uint32]
    flags: NDArray[np.uint8]
    picked: NDArray[np.int64]


@kernel(allocates=False)
def _pick_alike(masks: U32Array, lengths: U8Array, profile: _Profile, scratch: _PickScratch) -> int:
    """Pick the terms that length and letters do not rule out; return their number.

    The compiler vectorizes all loops but the last.
    """
    letters, unused, members_max, shortest, longest = profile
    differing, flags, picked = scratch
    count = len(masks)
    for i in range(count):
        differing[i] = (letters ^ masks[i]) & ~unused
    for _ in range(members_max):
        for i in range(count):
            differing[i] &= differing[i] - uint32(1)  # clears the lowest member
    for i in range(count):
        length = lengths[i]
        flags[i] = (differing[i] == 0) & (length >= shortest) & (length <= longest)
    flags[count : count + 8] = 0
    num_picked = 0
    for start in range(0, count, 8):
        if load_u64(flags, start) != 0:  # mostly none of eight terms is picked
            for i in range(start, start + 8):
                if flags[i]:
                    picked[num_picked] = i
                    num_picked += 1
    return num_picked


@kernel
def find_similar(
    word: I32Array, edits_max: int, is_prefix: bool, first: int, last: int, terms: Terms
) -> tuple[U32Array, U8Array]:
    """Find the terms within `edits_max` edits of a word; exhaustive.

    Args:
        word: its code points; no digits among them.
        edits_max: 1 or 2.
        is_prefix: whether to compare the word with the beginnings of terms.
        first: the first term that begins with the word's first letter.
        last: the first term after those. A term outside [first, last) may be only one edit away;
            its distance is one more.
        terms: the vocabulary.

    Returns:
        (term ordinals ascending, uint32; distance of each, uint8).
    """
    term_bytes, term_starts, keys, masks, lengths = terms
    mask = uint32(0)
    for point in word:
        mask |= _mask_bit(int64(point))
    capacity = 256
    found = np.empty(capacity, np.uint32)
    distances = np.empty(capacity, np.uint8)
    count = 0
    band = np.empty((3, 5), np.int64)
    picked = np.empty(_PICKED_AT_ONCE, np.int64)
    scratch = _PickScratch(
        np.empty(_PICKED_AT_ONCE, np.uint32), np.empty(_PICKED_AT_ONCE + 8, np.uint8), picked
    )
    start = int64(0)
    # Piece by piece, so that what is picked of a piece stays in the cache. No piece has both terms
    # with the word's first letter and others: these have one edit less.
    while start < len(keys):
        is_other = start < first or start >= last
        end = int64(len(keys))
        if start < last:
            end = first if is_other else last
        end = min(end, start + _PICKED_AT_ONCE)
        edits = 1 if is_other else edits_max
        # By letters and length alone: leaves out nearly all terms, at less than 1 ns each.
        profile = _profile(uint32(mask), len(word), edits, is_prefix)
        num_picked = _pick_alike(masks[start:end], lengths[start:end], profile, scratch)
        # Terms that share a beginning already known to be too far are skipped.
        far_key = uint64(0)
        far_bits = uint64(0)
        for i in range(num_picked):
            term = start + picked[i]
            if far_bits != 0 and keys[term] & far_bits == far_key:
                continue
            begin, after = term_starts[term], term_starts[term + 1]
            if edits == 1:
                distance = distance_to_one(word, term_bytes, begin, after, is_prefix)
            else:
                distance = osa_distance(word, term_bytes, begin, after, edits, is_prefix, band)
            if distance > edits:
                continue
            # Negative: the first bytes of the term, this many, are too far already. Keys have the
            # first eight.
            if distance < 0:
                if distance >= -8:
                    far_bits = ~uint64(0) << uint64(64 + 8 * distance)
                    far_key = keys[term] & far_bits
                continue
            if count == capacity:
                capacity *= 2
                found = grown(found, capacity)
                distances = grown(distances, capacity)
            found[count] = term
            distances[count] = distance + is_other
            count += 1
        start = end
    return found[:count], distances[:count]


class Vocabulary:
    """Read access to the terms of one segment."""

    __slots__ = ("_terms",)

    def __init__(self, terms: Terms) -> None:
        self._terms = terms

    def __len__(self) -> int:
        return len(self._terms.term_keys)

    def term(self, ordinal: int) -> str:
        """Return the text of a term."""
        terms = self._terms
        start, end = terms.term_starts[ordinal], terms.term_starts[ordinal + 1]
        return terms.term_bytes[start:end].tobytes().decode()

    def terms(self, first: int, last: int) -> list[str]:
        """Return the texts of the terms ``[first, last)``."""
        starts = self._terms.term_starts[first : last + 1].tolist()
        joined = self._terms.term_bytes[starts[0] : starts[-1]].tobytes()
        base = starts[0]
        return [
            joined[start - base : end - base].decode() for start, end in itertools.pairwise(starts)
        ]

    def find(self, word: str) -> int | None:
        """Return the ordinal of a word, or None if the vocabulary lacks it."""
        ordinal = int(find_term(*_padded(word), self._terms))
        return None if ordinal < 0 else ordinal

    def find_all(self, words: Iterable[str]) -> list[int]:
        """Return the ordinal of each word, or -1 where the vocabulary lacks it."""
        found: list[int] = find_terms(*_joined(words), self._terms).tolist()
        return found

    def find_known(self, words: Iterable[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the ordinals of the words that the vocabulary has, and by word where these end."""
        found: tuple[NDArray[np.uint32], NDArray[np.int64]]
        found = find_known(*_joined(words), self._terms)
        return found

    def cuts(self, word: str) -> list[int]:
        """Return, ascending, after how many characters a word can be cut into two terms."""
        found: list[int] = find_cuts(*_padded(word), self._terms).tolist()
        return found

    @property
    def num_spellings(self) -> int:
        """How many terms are spellings (`common.analysis.accented_spellings`); they come first."""
        return num_spellings(self._terms)

    @property
    def arena(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The bytes of all terms, and where each begins, with a sentinel."""
        return self._terms.term_bytes, self._terms.term_starts

    def prefix_range(self, prefix: str) -> tuple[int, int]:
        """Return the range of ordinals of the terms that begin with a text."""
        encoded, length = _padded(prefix)
        return (
            int(lower_bound(encoded, length, self._terms, False)),
            int(lower_bound(encoded, length, self._terms, True)),
        )

    def similar(
        self, word: str, edits_max: int, *, is_prefix: bool
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """Return, ascending, the terms within `edits_max` edits of a word, and their distances.

        The word itself, and with `is_prefix` the terms that begin with it, are included at distance
        0. A term with another first letter is one edit further away, and at most two.
        """
        points = np.frombuffer(bytearray(word.encode("utf-32-le")), np.int32)
        found: tuple[NDArray[np.uint32], NDArray[np.uint8]] = find_similar(
            points, edits_max, is_prefix, *self.prefix_range(word[0]), self._terms
        )
        return found


def num_spellings(terms: Terms) -> int:
    """Return how many terms are spellings with accents: the first ones."""
    return int(np.searchsorted(terms.term_keys, np.uint64(SPELLING_END << 56)))


def _padded(word: str) -> tuple[NDArray[np.uint8], int]:
    """Return the UTF-8 bytes of a word, followed by 8 readable bytes, and their number."""
    return _padded_bytes(word.encode())


def _joined(words: Iterable[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the UTF-8 bytes of words, padded as those of one, and where each word ends."""
    encoded = [word.encode() for word in words]
    joined, _ = _padded_bytes(b"".join(encoded))
    return joined, np.array(list(itertools.accumulate(map(len, encoded))), np.int64)


def _padded_bytes(encoded: bytes) -> tuple[NDArray[np.uint8], int]:
    return np.frombuffer(bytearray(encoded) + bytes(TERM_PADDING), np.uint8), len(encoded)


def finish_vocabulary(
    term_bytes: NDArray[np.uint8],
    term_starts: NDArray[np.int64],
    allocator: MergeAllocator = IN_MEMORY,
) -> Terms:
    """Return the vocabulary of sorted terms (bytes padded by `TERM_PADDING`)."""
    num_terms = len(term_starts) - 1
    terms = Terms(
        term_bytes,
        term_starts,
        allocator.empty(num_terms, np.uint64),
        allocator.empty(num_terms, np.uint32),
        allocator.empty(num_terms, np.uint8),
    )
    describe_terms(terms)
    return terms
