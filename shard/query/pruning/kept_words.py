"""Half-typed and mistyped words that are searched again: their postings, summed up, in memory.

The first letters of a word may begin hundreds of terms, and too few entries for a list of their own
(`shard/segment/text/prefix_lists.py`). But many people type the same beginnings. So from the second
search of a word on, its documents are kept, with the weighted tf that each has (t, see `bm25f`):

    docs    a bit for each document           … 0110 0001 │ 0010 0000 …
    ranks   how many come before these 64             17        20
    tfs     by rank                                   t t     t   t

The word is then like a term with bitset postings: other words are intersected with its documents,
and what these score is looked up, whatever the word stands for. No list is read.

A deep page needs thousands of hits. From the second search for one on, a word of a single term has
as many champions.

The documents of a word stay the same, its tfs only as long as the tf norms do: until the next
write. Words whose terms fall into several tiers are kept without tfs: to be counted, not scored.

Cost: 8 ns an entry, once; 1.5 bits for each document of the segment, and 4 bytes for each of the
word's.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.analysis.field_classes import ALL_CLASSES
from common.kernels.decorator import arguments, kernel
from common.kernels.order_checks import expect_ascending
from common.kernels.types import I64Array, U32Array, U64Array, int64
from shard.caches.lru_cache import WORDS_CACHE
from shard.query.pruning.score_bounds import Champions
from shard.query.pruning.single_term_top_k import NUM_CHAMPIONS, best_champions
from shard.query.scoring.bm25f import (
    Cells,
    FieldTfNorms,
    ScoredLists,
    WeighedTerms,
    add_terms,
    bm25_tf,
    least_tf_of,
    take_tfs,
)
from shard.query.scoring.scratch_arrays import SCRATCH
from shard.query.scoring.top_k_selection import GREATEST, best_of, kth_greatest, pick
from shard.segment.doc_sets import (
    NO_BITS,
    NO_DOCS,
    bitset_length,
    count_docs,
    empty_bitset,
    list_all_docs,
    pick_docs,
    rank_of,
    ranks_of,
)
from shard.segment.text.postings_cursor import Wanted

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from shard.query.postings.term_conjunction import TermLists

SEARCHES_MIN: Final = 2
"""Searches of a word, from which on it is kept."""
ENTRIES_MIN: Final = 1_024
"""Fewer entries are read about as fast."""
DEEP_HITS_MIN: Final = 1_024
"""A page is deep if so many hits come before its last one."""
_CHAMPIONS_PER_HIT: Final = 2
"""Of deep pages, so that pages after the one that was searched are found, too."""
_TF_MAX: Final = (1 << 32) - 1
"""Greatest t that is kept; a frequency of 256 in a field of weight 1 exceeds it."""
_DOC_BITS: Final = 3
"""More than the bits of the bitset and the ranks for each document of the segment."""
_TF_BYTES: Final = 4
_CHAMPION_BYTES: Final = 12
_OBJECT_BYTES: Final = 2_000
"""The objects and array headers of a kept word, with its ordinary champions."""


@arguments
class SummedPostings(NamedTuple):
    """The documents of a word, and the weighted tf of each.

    Attributes:
        docs: bitset.
        ranks: by word of the bitset, how many documents come before it; empty if there are no tfs.
        tfs: of the documents, ascending; empty: not known.
    """

    docs: NDArray[np.uint64]
    ranks: NDArray[np.uint32]
    tfs: NDArray[np.uint32]


class KeptWord(NamedTuple):
    """What is kept of a word.

    Attributes:
        fields: the tf norms under which it was searched last.
        num_searches: under these, as far as they have been counted.
        postings: without documents as long as it has not been searched often enough.
        tier: of its terms, if there are tfs.
        champions: of the word; none if there are no tfs.
    """

    fields: weakref.ref[FieldTfNorms]
    num_searches: int
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
        num_searches: under these, as far as they have been counted.
        num_champions: how many were wanted; ties for the last place are left out.
        champions: after the last search that counted.
    """

    fields: weakref.ref[FieldTfNorms]
    num_searches: int
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
_NO_POSTINGS: Final = SummedPostings(NO_BITS, np.zeros(0, np.uint32), np.zeros(0, np.uint32))


# --- kernels


@kernel
def _sum_up(
    scored: ScoredLists, weighed: WeighedTerms, cells: Cells, length: int
) -> tuple[U64Array, I64Array]:
    """Return the bitset of all documents of some terms, and their tfs, ascending by document.

    Args:
        scored: the lists.
        weighed: the terms, all of one tier.
        cells: clean accumulators.
        length: of the bitset.
    """
    add_terms(scored, weighed, Wanted(np.empty(0, np.uint64), np.empty(0, np.uint32), False), cells)
    docs = cells.touched[:length].copy()
    tfs, _ = take_tfs(list_all_docs(docs, count_docs(docs)), cells)
    return docs, tfs


@kernel
def _champions_of(docs: U64Array, tfs: I64Array, k: int) -> tuple[U32Array, I64Array, int]:
    """Return the documents with the k greatest tfs, ascending; these; the greatest of the rest."""
    # Those that tie for the last place are left out: they may be many. Fewer are all there are.
    reach = kth_greatest(tfs, k) if len(tfs) >= k else int64(0)
    best, best_tfs = pick(list_all_docs(docs, len(tfs)), tfs, reach + 1, GREATEST, tfs)
    return best, best_tfs, reach


@kernel
def _tfs_of(postings: SummedPostings, docs: U32Array) -> I64Array:
    """Return the tfs of some of the word's documents."""
    expect_ascending(docs)
    bits, ranks, tfs = postings
    found = np.empty(len(docs), np.int64)
    for i in range(len(docs)):
        found[i] = tfs[rank_of(bits, ranks, docs[i])]
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
    num_bytes_max = lists.index.num_docs * _DOC_BITS // 8 + num_entries * _TF_BYTES
    if not _can_be_kept(lists.fields, weighed, num_bytes_max):
        return None
    terms, tiers, ratios, _ = weighed
    choice = lists.fields.choice
    key = lists.segment.uid, choice, terms.tobytes(), tiers.tobytes(), ratios.tobytes()
    if key not in asked:
        known: KeptWord | None = WORDS_CACHE.get(key)
        kept = _keep(lists, weighed, known)
        if kept is not known:
            WORDS_CACHE.put(key, kept, kept.num_bytes, lists.segment)
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


def _keep(lists: TermLists, weighed: WeighedTerms, known: KeptWord | None) -> KeptWord:
    """Return what is to be kept of a word after one more search, given what was."""
    fields = lists.fields
    num_searches, docs = 1, NO_BITS
    if known is not None:
        if known.fields() is fields:
            if known.num_searches >= SEARCHES_MIN:
                return known
            num_searches += known.num_searches
        docs = known.postings.docs
    postings, champions = _NO_POSTINGS._replace(docs=docs), _NO_CHAMPIONS
    if num_searches >= SEARCHES_MIN:
        if weighed.tiers[0] == weighed.tiers[-1]:
            postings, champions = _sum_of(lists, weighed)
        elif not len(docs):
            marked = empty_bitset(lists.index.num_docs)
            lists.mark(weighed.terms, weighed.masks, Wanted.of(NO_BITS, None), marked)
            postings = _NO_POSTINGS._replace(docs=marked)
    return KeptWord(weakref.ref(fields), num_searches, postings, int(weighed.tiers[0]), champions)


def _sum_of(lists: TermLists, weighed: WeighedTerms) -> tuple[SummedPostings, Champions]:
    """Return the postings of a word of one tier, and its champions."""
    num_docs = lists.index.num_docs
    SCRATCH.reserve(num_docs)
    length = bitset_length(num_docs)
    docs, tfs = _sum_up(lists.fields.lists, weighed, SCRATCH.cells, length)
    if tfs.max(initial=0) > _TF_MAX:
        return _NO_POSTINGS._replace(docs=docs), _NO_CHAMPIONS
    postings = SummedPostings(docs, ranks_of(docs), tfs.astype(np.uint32))
    return postings, Champions(*_champions_of(docs, tfs, NUM_CHAMPIONS))


def deep_champions(lists: TermLists, weighed: WeighedTerms, k: int) -> Champions | None:
    """Return enough champions of a single term for a deep page, from its second search on.

    Args:
        lists: of the segment, as a query searches them.
        weighed: the term.
        k: how many of the best are wanted.
    """
    if not _can_be_kept(lists.fields, weighed, _CHAMPIONS_PER_HIT * k * _CHAMPION_BYTES):
        return None
    fields = lists.fields
    key = lists.segment.uid, fields.choice, "deep", int(weighed.terms[0])
    known: _DeepWord | None = WORDS_CACHE.get(key)
    num_searches = 1
    if known is not None and known.fields() is fields:
        if known.num_searches >= SEARCHES_MIN and k < known.num_champions:
            return known.champions
        num_searches += known.num_searches
    champions, num_champions = _NO_CHAMPIONS, _CHAMPIONS_PER_HIT * k
    if num_searches >= SEARCHES_MIN:
        SCRATCH.reserve(lists.index.num_docs)
        length = bitset_length(lists.index.num_docs)
        docs, tfs = _sum_up(fields.lists, weighed, SCRATCH.cells, length)
        champions = Champions(*_champions_of(docs, tfs, num_champions))
    found = _DeepWord(weakref.ref(fields), num_searches, num_champions, champions)
    num_bytes = _OBJECT_BYTES + champions.docs.nbytes + champions.tfs.nbytes
    WORDS_CACHE.put(key, found, num_bytes, lists.segment)
    return champions if num_searches >= SEARCHES_MIN else None


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
