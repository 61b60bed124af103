"""Half-typed and mistyped words that are searched again: their postings, summed up, in memory.

The first letters of a word may begin hundreds of terms, and too few entries for a list of their own
(`shard/segment/text/prefix_lists.py`). But many people type the same beginnings. So from the second
search of a word on, its documents are kept, with the weighted tf that each has (t, see `bm25f`):

    docs    a bit for each document           … 0110 0001 │ 0010 0000 …
    ranks   how many come before these 64             17        20
    codes   by rank, which tf it has                  2 0     2   1
    tfs     by code: there are some thousands         t t t …

The word is then like a term with bitset postings: other words are intersected with its documents,
and what these score is looked up, whatever the word stands for. No list is read.

A deep page needs thousands of hits. From the second search for one on, a word of a single term has
as many champions.

Both are made in the background; until then, lists are read.

The documents of a word stay the same, its tfs only as long as the tf norms do: until the next
write. Words whose terms fall into several tiers are kept without tfs: to be counted, not scored.

Cost: 12 ns an entry, once; 1.5 bits for each document of the segment, and 2 bytes
for each of the word's.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.analysis.field_classes import ALL_CLASSES
from common.kernels.decorator import arguments, kernel
from common.kernels.order_checks import expect_ascending
from common.kernels.types import I64Array, U16Array, U32Array, U64Array, int64, uint64
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.caches.lru_cache import WORDS_CACHE
from shard.query.pruning.score_bounds import Champions
from shard.query.pruning.single_term_top_k import NUM_CHAMPIONS, best_champions
from shard.query.scoring.bm25f import (
    T_MAX,
    FieldTfNorms,
    ScoredLists,
    WeighedTerms,
    bm25_tf,
    least_tf_of,
    length_code,
)
from shard.query.scoring.top_k_selection import GREATEST, best_of, kth_greatest, pick
from shard.segment.doc_sets import (
    NO_BITS,
    NO_DOCS,
    bitset_length,
    count_docs,
    list_all_docs,
    pick_docs,
    rank_of,
    ranks_of,
)
from shard.segment.text.postings import BLOCK_ENTRIES, decode_entry
from shard.segment.text.postings_cursor import (
    Wanted,
    decode_docs,
    docs_of_terms,
    next_block,
    open_postings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from shard.query.postings.term_lists import TermLists
    from shard.segment.segment import Segment

ENTRIES_MIN: Final = 1_024
"""Fewer entries are read about as fast."""
DEEP_HITS_MIN: Final = 1_024
"""A page is deep if so many hits come before its last one."""
_CHAMPIONS_PER_HIT: Final = 2
"""Of deep pages, so that pages after the one that was searched are found, too."""
_CODES_MAX: Final = 1 << 16
"""Words with more different tfs are kept without these."""
_DOC_BITS: Final = 3
"""More than the bits of the bitset and the ranks for each document of the segment."""
_SLOTS: Final = 2 * _CODES_MAX
_HASH_FACTOR: Final = uint64(0x9E3779B97F4A7C15)
_HASH_SHIFT: Final = uint64(64 - 17)
"""Fibonacci hashing to 17 bits, the numbers of `_SLOTS`."""
_CODE_BYTES: Final = 2
_TF_BYTES: Final = 8
_CHAMPION_BYTES: Final = 12
_OBJECT_BYTES: Final = 2_000
"""The objects and array headers of a kept word, with its ordinary champions."""


@arguments
class SummedPostings(NamedTuple):
    """The documents of a word, and the weighted tf of each.

    Attributes:
        docs: bitset.
        ranks: by word of the bitset, how many documents come before it; empty if there are no tfs.
        codes: of the documents, ascending: which of the tfs each has.
        tfs: all different ones; empty: not known.
    """

    docs: NDArray[np.uint64]
    ranks: NDArray[np.uint32]
    codes: NDArray[np.uint16]
    tfs: NDArray[np.int64]


class KeptWord(NamedTuple):
    """What is kept of a word.

    Attributes:
        fields: the tf norms under which it was searched last.
        is_complete: whether it has all that can be kept under these.
        postings: without documents if it has been searched once, without tfs if under other norms.
        tier: of its terms, if there are tfs.
        champions: of the word; none if there are no tfs.
    """

    fields: weakref.ref[FieldTfNorms]
    is_complete: bool
    postings: SummedPostings
    tier: int
    champions: Champions

    @property
    def num_bytes(self) -> int:
        """Bytes of the arrays."""
        arrays = (*self.postings, self.champions.docs, self.champions.tfs)
        return _OBJECT_BYTES + sum([array.nbytes for array in arrays])

    @property
    def has_tfs(self) -> bool:
        """Whether its documents can be scored."""
        return len(self.postings.tfs) > 0


class _DeepWord(NamedTuple):
    """What is kept of a word of a single term for deep pages.

    Attributes:
        fields: the tf norms under which it was searched last.
        num_champions: how many were wanted; ties for the last place are left out. 0 after one
            search under these.
        champions: so many.
    """

    fields: weakref.ref[FieldTfNorms]
    num_champions: int
    champions: Champions


class BestOfWord(NamedTuple):
    """The documents that a word matches.

    Attributes:
        bitset: of all.
        docs: those among the k best, with all ties for the last place, ascending.
        scores: of these, in units of 2^-32.
    """

    bitset: NDArray[np.uint64]
    docs: NDArray[np.uint32]
    scores: NDArray[np.int64]


class ScoredWord(NamedTuple):
    """A kept word with its weight in a query."""

    kept: KeptWord
    weight: float


_NO_CHAMPIONS: Final = Champions(NO_DOCS, np.zeros(0, np.int64), 0)
_NO_POSTINGS: Final = SummedPostings(
    NO_BITS, np.zeros(0, np.uint32), np.zeros(0, np.uint16), np.zeros(0, np.int64)
)


# --- kernels


@kernel
def _sum_up(
    scored: ScoredLists, weighed: WeighedTerms, bits: U64Array, ranks: U32Array
) -> I64Array:
    """Return the tfs of all documents of some terms, ascending by document.

    Args:
        scored: the lists.
        weighed: the terms, all of one tier.
        bits: bitset of the documents.
        ranks: of the bitset.
    """
    lists, lengths, tf_norms, _ = scored
    tfs = np.zeros(count_docs(bits), np.int64)
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    for i_term in range(len(weighed.terms)):
        ratio = weighed.ratios[i_term]
        cursor = open_postings(weighed.terms[i_term])
        while True:
            cursor = next_block(lists, cursor)
            if cursor.size == 0:
                break
            packing = decode_docs(lists, cursor, docs)
            for i in range(cursor.size):
                field, freq = decode_entry(lists.postings, packing, i)
                row = uint64(lengths.field_rows[field])
                tf_norm = tf_norms[row, length_code(lengths, row, int64(docs[i]))]
                rank = rank_of(bits, ranks, docs[i])
                tfs[rank] = min(tfs[rank] + int64(freq * tf_norm * ratio + 0.5), T_MAX)
    return tfs


@kernel
def _champions_of(docs: U64Array, tfs: I64Array, k: int) -> tuple[U32Array, I64Array, int]:
    """Return the documents with the k greatest tfs, ascending; these; the greatest of the rest."""
    # Those that tie for the last place are left out: they may be many. Fewer are all there are.
    reach = kth_greatest(tfs, k) if len(tfs) >= k else int64(0)
    best, best_tfs = pick(list_all_docs(docs, len(tfs)), tfs, reach + 1, GREATEST, tfs)
    return best, best_tfs, reach


@kernel
def _encode(of_docs: I64Array, num_tfs_max: int) -> tuple[U16Array, I64Array]:
    """Return which of the different tfs each document has, and these; none if they are too many.

    Args:
        of_docs: the tf of each document.
        num_tfs_max: at most `_CODES_MAX`.
    """
    slots = np.full(_SLOTS, -1, np.int32)
    codes = np.empty(len(of_docs), np.uint16)
    tfs = np.empty(num_tfs_max, np.int64)
    num_tfs = 0
    for i in range(len(of_docs)):
        tf = of_docs[i]
        slot = int64(uint64(tf) * _HASH_FACTOR >> _HASH_SHIFT)
        while slots[slot] >= 0 and tfs[slots[slot]] != tf:
            slot = slot + 1 & _SLOTS - 1
        if slots[slot] < 0:
            if num_tfs == num_tfs_max:
                return codes[:0], tfs[:0]
            slots[slot] = num_tfs
            tfs[num_tfs] = tf
            num_tfs += 1
        codes[i] = slots[slot]
    return codes, tfs[:num_tfs].copy()


@kernel
def _tfs_of(postings: SummedPostings, docs: U32Array) -> I64Array:
    """Return the tfs of some of the word's documents."""
    expect_ascending(docs)
    bits, ranks, codes, tfs = postings
    found = np.empty(len(docs), np.int64)
    for i in range(len(docs)):
        found[i] = tfs[codes[rank_of(bits, ranks, docs[i])]]
    return found


@kernel
def wanted_docs(postings: SummedPostings, wanted: Wanted) -> U32Array:
    """Return the word's documents among the wanted ones, ascending."""
    members = postings.docs
    if wanted.is_listed:
        docs = wanted.docs.copy()
        return docs[: pick_docs(docs, members, docs)]
    if len(wanted.bits) > 0:
        members = members & wanted.bits[: len(members)]
    return list_all_docs(members, count_docs(members))


@kernel
def add_kept(
    postings: SummedPostings, weight: float, k1: float, docs: U32Array, scores: I64Array
) -> None:
    """Add to documents, which all have a word, what it scores in them."""
    tfs = _tfs_of(postings, docs)
    # A separate loop, so that the compiler vectorizes the division.
    for i in range(len(scores)):
        scores[i] += bm25_tf(tfs[i], weight, k1)


@kernel
def _best_of_kept(
    postings: SummedPostings, weight: float, k1: float, hits: U64Array, k: int
) -> tuple[U32Array, I64Array]:
    """Return the k best of a word's documents, with all ties for the k-th place, and their scores.

    Args:
        postings: of the word.
        weight: of the word.
        k1: of the query, in units of 2^-24.
        hits: bitset of the documents to look at, all of which have the word.
        k: at least 1.
    """
    docs = list_all_docs(hits, count_docs(hits))
    tfs = _tfs_of(postings, docs)
    if len(docs) > k:
        least = least_tf_of(bm25_tf(kth_greatest(tfs, k), weight, k1), weight, k1)
        docs, tfs = pick(docs, tfs, least, GREATEST, tfs)
    for i in range(len(docs)):
        tfs[i] = bm25_tf(tfs[i], weight, k1)
    return best_of(docs, tfs, k)


# --- what is kept


def keep_word(
    lists: TermLists,
    weighed: WeighedTerms,
    num_entries: int,
    asked: dict[Hashable, KeptWord | None],
) -> KeptWord | None:
    """Return what is kept of a word, from its second search on.

    Args:
        lists: of the segment, as a query searches them.
        weighed: the terms of the word that count.
        num_entries: of these, at least; fewer than `ENTRIES_MIN` are not worth it.
        asked: what this search has asked for before, so that it is not taken for several.
    """
    num_bytes_max = lists.index.num_docs * _DOC_BITS // 8
    num_bytes_max += num_entries * _CODE_BYTES + min(num_entries, _CODES_MAX) * _TF_BYTES
    if not _can_be_kept(lists.fields, weighed, num_bytes_max):
        return None
    terms, tiers, ratios, _ = weighed
    choice = lists.fields.choice
    key = lists.segment.uid, choice, terms.tobytes(), tiers.tobytes(), ratios.tobytes()
    if key not in asked:
        kept = _count_search(lists, key, weighed)
        asked[key] = kept if len(kept.postings.docs) else None
    return asked[key]


def _can_be_kept(fields: FieldTfNorms, weighed: WeighedTerms, num_bytes: int) -> bool:
    """Return whether a word counts wherever its terms occur (a bitset tells no fields), and fits.

    What does not fit would be made by each search.
    """
    return (
        len(weighed.terms) > 0
        and WORDS_CACHE.takes(_OBJECT_BYTES + num_bytes)
        and fields.are_all_searched
        and bool((weighed.masks == ALL_CLASSES).all())
    )


def _count_search(lists: TermLists, key: Hashable, weighed: WeighedTerms) -> KeptWord:
    """Return what is kept of a word; schedule what is missing from the second search on."""
    fields, segment = lists.fields, lists.segment
    known: KeptWord | None = WORDS_CACHE.get(key)
    if known is None or known.fields() is not fields:
        docs = NO_BITS if known is None else known.postings.docs
        postings = _NO_POSTINGS._replace(docs=docs)
        known = KeptWord(weakref.ref(fields), False, postings, 0, _NO_CHAMPIONS)
        WORDS_CACHE.put(key, known, known.num_bytes, segment)
    elif not known.is_complete:
        schedule(key, segment, partial(_keep, key, known.fields, weighed))
    return known


def _keep(
    key: Hashable, norms: weakref.ref[FieldTfNorms], weighed: WeighedTerms, segment: Segment
) -> None:
    """Keep the documents of a word, and their tfs if its terms are of one tier."""
    fields = norms()
    if fields is None:
        return  # no search will ask for these tfs
    docs = docs_of_terms(fields.lists.lists, weighed.terms, bitset_length(segment.num_docs))
    postings, champions = _NO_POSTINGS._replace(docs=docs), _NO_CHAMPIONS
    if weighed.tiers[0] == weighed.tiers[-1]:
        ranks = ranks_of(docs)
        of_docs = _sum_up(fields.lists, weighed, docs, ranks)
        codes, tfs = _encode(of_docs, _CODES_MAX)
        if len(tfs):
            postings = SummedPostings(docs, ranks, codes, tfs)
            champions = Champions(*_champions_of(docs, of_docs, NUM_CHAMPIONS))
    kept = KeptWord(norms, True, postings, int(weighed.tiers[0]), champions)
    WORDS_CACHE.put(key, kept, kept.num_bytes, segment)


def deep_champions(lists: TermLists, weighed: WeighedTerms, k: int) -> Champions | None:
    """Return enough champions of a single term for a deep page, if they are kept.

    The second search for one schedules them.

    Args:
        lists: of the segment, as a query searches them.
        weighed: the term.
        k: how many of the best are wanted.
    """
    num_champions = _CHAMPIONS_PER_HIT * k
    if not _can_be_kept(lists.fields, weighed, num_champions * _CHAMPION_BYTES):
        return None
    fields, segment = lists.fields, lists.segment
    key = segment.uid, fields.choice, "deep", int(weighed.terms[0])
    known: _DeepWord | None = WORDS_CACHE.get(key)
    if known is None or known.fields() is not fields:
        searched_once = _DeepWord(weakref.ref(fields), 0, _NO_CHAMPIONS)
        WORDS_CACHE.put(key, searched_once, _OBJECT_BYTES, segment)
        return None
    if k < known.num_champions:
        return known.champions
    schedule(key, segment, partial(_keep_deep, key, known.fields, weighed, num_champions))
    return None


def _keep_deep(
    key: Hashable,
    norms: weakref.ref[FieldTfNorms],
    weighed: WeighedTerms,
    num_champions: int,
    segment: Segment,
) -> None:
    """Keep the champions of a single term for a deep page."""
    fields = norms()
    if fields is None:
        return
    docs = docs_of_terms(fields.lists.lists, weighed.terms, bitset_length(segment.num_docs))
    tfs = _sum_up(fields.lists, weighed, docs, ranks_of(docs))
    champions = Champions(*_champions_of(docs, tfs, num_champions))
    num_bytes = _OBJECT_BYTES + champions.docs.nbytes + champions.tfs.nbytes
    WORDS_CACHE.put(key, _DeepWord(norms, num_champions, champions), num_bytes, segment)


schedule: Callable[[Hashable, Segment, Callable[[Segment], None]], None] = BACKGROUND_TASKS.add
"""How the work is scheduled."""


def best_of_kept(word: ScoredWord, k1: float, allowed: NDArray[np.uint64], k: int) -> BestOfWord:
    """Return the documents of a kept word that has tfs, and the best of them.

    Args:
        word: with its weight.
        k1: of the query, in units of 2^-24.
        allowed: bitset of documents; empty: all.
        k: at least 1.
    """
    kept, weight = word
    postings = kept.postings
    hits = postings.docs & allowed if len(allowed) else postings.docs
    docs, scores = best_champions(kept.champions, weight, k1, allowed, k)
    if not len(docs):
        docs, scores = _best_of_kept(postings, weight, k1, hits, k)
    return BestOfWord(hits, docs, scores)
