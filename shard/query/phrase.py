"""Phrases: in which fields of which documents do words stand next to each other, in order?

    "green mile"       green  doc 3 title 0, 9      rarest word: every place is a seed
                       mile   doc 3 title 1         a seed lives if mile stands one behind it
                       ──▶    doc 3 title, once

The rarest word's places are listed; each other word is then walked along these entries only (blocks
without them are left out) and must have a place at the right distance. What lives is counted by
entry: it is scored like a term that occurs so often.

A last word that may be half typed is any of its terms, so a seed lives if one of them fits.

Cost: the rarest word's entries and positions, and of the others the blocks that meet them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from shard.query.bm25f import NO_DOCS, NO_FIELDS
from shard.segment.positions import Positions, decode_varint, skip_varints
from shard.segment.postings import (
    BLOCK_ENTRIES,
    Entries,
    PostingLists,
    block_offset,
    count_blocks,
    decode_block,
    gallop,
    locate_block,
    new_block,
    next_block,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shard.segment.text_index import TextIndex

_ONE: Final = np.uint64(1)
_S32: Final = np.uint64(32)
NO_ENTRIES: Final = Entries(NO_DOCS, NO_FIELDS, np.zeros(0, np.uint32))


@arguments
class _Seeds(NamedTuple):
    """The places of the rarest word.

    Attributes:
        docs: document of each of its entries.
        fields: field of each.
        starts: first place of each, with a sentinel.
        places: entry << 32 | position.
        levels: how many words each has at their distance.
    """

    docs: NDArray[np.uint32]
    fields: NDArray[np.uint16]
    starts: NDArray[np.int64]
    places: NDArray[np.uint64]
    levels: NDArray[np.uint8]


@kernel("(PostingLists, Positions, int64, uint64[::1])")
def _list_places(lists: PostingLists, word_positions: Positions, term: Any, allowed: Any) -> Any:
    """Return documents and fields of a term's entries, and all places: entry << 32 | position."""
    postings, positions = lists.postings, word_positions.positions
    num_entries: Any = np.int64(lists.entry_counts[term])
    entry_docs = np.empty(num_entries, np.uint32)
    entry_fields = np.empty(num_entries, np.uint16)
    size = num_entries * 2
    places = np.empty(size, np.uint64)
    block = new_block()
    docs, fields, freqs = block
    has_allowed = len(allowed) > 0
    at = lists.posting_starts[term]
    cursor = word_positions.position_starts[term]
    left = num_entries
    num_found = 0
    num_places = 0
    while left > 0:
        count = min(left, BLOCK_ENTRIES)
        left -= count
        at = decode_block(postings, at, count, block)
        for i in range(count):
            doc = np.int64(docs[i])
            freq = np.int64(freqs[i])
            if has_allowed and not allowed[doc >> 6] >> np.uint64(doc & 63) & _ONE:
                cursor = skip_varints(positions, cursor, freq)
                continue
            entry_docs[num_found] = docs[i]
            entry_fields[num_found] = fields[i]
            if num_places + freq > size:
                size = 2 * (num_places + freq)
                more_places = np.empty(size, np.uint64)
                more_places[:num_places] = places[:num_places]
                places = more_places
            position = np.int64(0)
            for _ in range(freq):
                delta, cursor = decode_varint(positions, cursor)
                position += delta
                places[num_places] = np.uint64(num_found) << _S32 | np.uint64(position)
                num_places += 1
            num_found += 1
    return entry_docs[:num_found], entry_fields[:num_found], places[:num_places]


@kernel(
    "void(PostingLists, Positions, uint32[::1], _Seeds, int64, uint8, Entries)", allocates=False
)
def _follow(
    lists: PostingLists,
    word_positions: Positions,
    terms: Any,
    seeds: _Seeds,
    distance: Any,
    level: Any,
    entries: Entries,
) -> Any:
    """Raise seeds from `level` to level + 1 for which one of the terms stands `distance` behind."""
    positions, position_starts, skip_positions = word_positions
    entry_docs, entry_fields, place_starts, places, levels = seeds
    docs, fields, freqs = entries
    num_entries = len(entry_docs)
    for term_32 in terms:
        term = np.int64(term_32)
        num_blocks = count_blocks(lists, term)
        entry = np.int64(0)
        block = np.int64(0)
        while True:
            block, entry = next_block(lists, term, block, entry_docs, entry)
            if block == num_blocks:
                break
            at, count = locate_block(lists, term, block)
            cursor = position_starts[term] + block_offset(lists, skip_positions, term, block)
            block += 1
            decode_block(lists.postings, at, count, entries)
            num_skipped: Any = np.int64(0)
            for i in range(count):
                freq = np.int64(freqs[i])
                if entry < num_entries and entry_docs[entry] < docs[i]:
                    entry = gallop(entry_docs, entry, np.int64(docs[i]))
                while (
                    entry < num_entries
                    and entry_docs[entry] == docs[i]
                    and entry_fields[entry] < fields[i]
                ):
                    entry += 1
                if entry == num_entries:
                    break
                if entry_docs[entry] != docs[i] or entry_fields[entry] != fields[i]:
                    num_skipped += freq
                    continue
                cursor = skip_varints(positions, cursor, num_skipped)
                num_skipped = 0
                place = place_starts[entry]
                stop = place_starts[entry + 1]
                position = np.int64(0)
                for _ in range(freq):
                    delta, cursor = decode_varint(positions, cursor)
                    position += delta
                    wanted = position - distance
                    while place < stop and np.int64(places[place] & np.uint64(0xFFFFFFFF)) < wanted:
                        place += 1
                    if (
                        place < stop
                        and np.int64(places[place] & np.uint64(0xFFFFFFFF)) == wanted
                        and levels[place] == level
                    ):
                        levels[place] = level + 1


@kernel("void(PostingLists, Positions, uint32[::1], _Seeds, int64, uint8)")
def _follow_terms(
    lists: PostingLists,
    word_positions: Positions,
    terms: Any,
    seeds: _Seeds,
    distance: Any,
    level: Any,
) -> Any:
    _follow(lists, word_positions, terms, seeds, distance, level, new_block())


def find_phrase(
    index: TextIndex,
    words: Sequence[str],
    *,
    is_prefix: bool,
    allowed: NDArray[np.uint64],
) -> Entries:
    """Find where words stand next to each other, in order: entries as of a term.

    Args:
        index: the segment's text structures.
        words: folded words, at least two; queries have at most some dozens.
        is_prefix: whether the last word may be half typed.
        allowed: bitset of documents; empty: all.
    """
    vocabulary = index.vocabulary
    terms: list[NDArray[np.uint32]] = []
    for i, word in enumerate(words):
        if is_prefix and i + 1 == len(words):
            first, last = vocabulary.prefix_range(word)
            found = np.arange(first, last, dtype=np.uint32)
        else:
            ordinal = vocabulary.find(word)
            found = np.array([] if ordinal is None else [ordinal], np.uint32)
        if len(found) == 0:
            return NO_ENTRIES
        terms.append(found)
    costs = [int(index.lists.entry_counts[one].sum()) for one in terms]
    # The last word cannot be the seed if it is many terms; there is another one before it.
    order = sorted(range(len(words)), key=lambda i: (len(terms[i]) > 1, costs[i]))
    seed = order[0]
    docs, fields, places = _list_places(index.lists, index.positions, int(terms[seed][0]), allowed)
    entries = (places >> _S32).astype(np.int64)
    starts = np.searchsorted(entries, np.arange(len(docs) + 1)).astype(np.int64)
    seeds = _Seeds(docs, fields, starts, places, np.zeros(len(places), np.uint8))
    for level, i in enumerate(order[1:]):
        _follow_terms(index.lists, index.positions, terms[i], seeds, i - seed, level)
    is_alive = seeds.levels == len(words) - 1
    freqs = np.bincount(entries[is_alive], minlength=len(docs)).astype(np.uint32)
    is_found = freqs > 0
    return Entries(docs[is_found], fields[is_found], freqs[is_found])
