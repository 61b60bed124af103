"""Finds words of the index near a text, and counts the items that have them.

    ha, is_prefix, words (tom)   ──▶  hanks 31, hardy 12, …     completions next to "tom"
    godfathr, typos 2            ──▶  godfather 3 (1 edit)      other spellings
    counted ((tom, hanks), …)    ──▶  31, …                     items that have all of some words

Suggestions and "did you mean" are made of these. A document counts if it is live, passes the
filters and has all of `words`, in any field; so a key's filter hides words as it hides items.

With typos all near words are returned, and all completions where these are few; else about the
`num_terms` most frequent ones, and a bound for the others: the coordinator adds up the shards'
counts and asks for more where the bounds leave room for another word
(`coordinator/read/text/completions_and_near_spellings.py`). Within a shard the same holds for its
segments: candidates come from each, and are counted in all.

Cost: one addition a word of the range. Beside other words, or under a filter, words are counted in
the order of their frequency, until no other one can have more: 2 ns an entry, or 5 µs by a bitset.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.deadline import check_call
from common.kernels.decorator import kernel
from common.kernels.intrinsics import count_ones
from common.kernels.order_checks import expect_ascending
from common.kernels.top_k_heap import replace_least
from common.kernels.types import I64Array, U32Array, U64Array, int64
from common.protocol.messages import TermsResponse
from shard.query.bm25_statistics.segment_statistics import count_docs_of, count_terms
from shard.query.filters import filter_bitsets
from shard.query.filters.filter_intersection import narrow
from shard.query.postings.term_lists import count_with_all_terms
from shard.query.spelling.spacing_doc_freqs import docs_with_all_of
from shard.segment.doc_sets import NO_BITS, bitset_of, count_docs, has_bit, list_all_docs, pick_docs
from shard.segment.text.bitset_postings import DenseLists, find_dense
from shard.segment.text.postings import BLOCK_ENTRIES, PostingLists
from shard.segment.text.postings_cursor import Wanted
from shard.segment.text.text_index import text_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from common.protocol.messages import TermsRequest
    from shard.segment.snapshot import SegmentView, Snapshot

_COUNTED_AT_ONCE: Final = 1_024
"""Words counted among listed documents, most frequent first, before others are sorted."""
_FEW_WORDS: Final = 48
"""Of no more words than this that begin with a text, all are returned: then those that begin with a
longer text are known, too."""
_SETS_AT_ONCE: Final = 16
"""Sets of words counted between two looks at the deadline."""
_FAST_US: Final = 2_000.0
"""Up to this estimate, words are listed on the event loop."""
_SCANNED_US: Final = 0.006
"""Cost per typo and word of the vocabulary."""
_COUNTED_US: Final = 0.002
"""Cost per word and document of counting a word among listed documents."""
_COUNTED_DOCS_MAX: Final = 2_500
"""Documents of a word that take this time at most: longer lists have bitsets, or are few."""
_LISTED_US: Final = 0.002
"""Cost per document of listing those that pass filters, or have the other words."""


class _Candidates(NamedTuple):
    """The most frequent near words of a segment."""

    terms: NDArray[np.uint32]
    distances: NDArray[np.uint8]
    bound: int
    """No other near word has more documents."""
    counts: NDArray[np.int64] | None
    """How many of the documents that count have each, where that is known."""


@kernel(allocates=False)
def _count_dense(dense: DenseLists, dense_rank: int, listed: U32Array, bits: U64Array) -> int:
    """Return how many listed documents a dense list has; `bits` are the same documents."""
    members = dense.dense_bits[dense_rank * len(bits) : (dense_rank + 1) * len(bits)]
    total = int64(0)
    if len(listed) > len(bits):
        for word in range(len(bits)):
            total += count_ones(members[word] & bits[word])
    else:
        for doc in listed:
            total += has_bit(members, doc)
    return total


@kernel
def _count_most(
    lists: PostingLists,
    dense: DenseLists,
    terms: U32Array,
    limits: I64Array,
    listed: U32Array,
    bits: U64Array,
    greatest: I64Array,
) -> I64Array:
    """Count the listed documents of terms, until no other term can be among the greatest counts.

    Args:
        lists: of a segment.
        dense: of the same segment.
        terms: ordinals.
        limits: descending; no term has more listed documents.
        listed: ascending documents.
        bits: the same ones.
        greatest: heap of the greatest counts so far; updated.

    Returns:
        The counts of the first terms; there is none for those after them.
    """
    expect_ascending(listed)
    counts = np.empty(len(terms), np.int64)
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    wanted = Wanted(bits, listed, True)
    size = len(greatest)
    end = int64(0)
    while end < len(terms) and limits[end] > greatest[0]:
        term = int64(terms[end])
        dense_rank = find_dense(dense, term)
        if dense_rank >= 0:
            count = _count_dense(dense, dense_rank, listed, bits)
        else:
            count = count_docs_of(lists, term, wanted, docs)
        counts[end] = count
        if count > greatest[0]:
            replace_least(greatest, size, count)
        end += 1
    return counts[:end]


def near_terms(snapshot: Snapshot, request: TermsRequest) -> TermsResponse:
    """Return the words near a text, or the counts of the request's sets.

    Raises:
        DeadlineExceeded: the caller has stopped waiting.
    """
    listed = [_listed_docs(snapshot, view, request) for view in snapshot.views]
    if request.counted:
        return TermsResponse((), _count_sets(snapshot, request.counted, listed))
    if len(listed) == 1:
        return _in_one_segment(snapshot.views[0], request, listed[0])
    distances: dict[str, int] = {}
    bound = 0
    found: list[dict[str, int]] = []
    for view, docs in zip(snapshot.views, listed, strict=True):
        check_call()
        candidates = _candidates(view, request, docs)
        bound += candidates.bound
        texts = _texts(view, candidates)
        distances.update(zip(texts, candidates.distances.tolist(), strict=True))
        found.append(dict(zip(texts, _counts(view, candidates, docs).tolist(), strict=True)))
    counts = dict.fromkeys(distances, 0)
    for view, docs, own in zip(snapshot.views, listed, found, strict=True):
        check_call()
        others = [text for text in distances if text not in own]
        counted = zip(others, _count_texts(view, others, docs).tolist(), strict=True)
        for text, count in (*own.items(), *counted):
            counts[text] += count
    return _response(list(distances), list(counts.values()), list(distances.values()), bound)


def _in_one_segment(
    view: SegmentView, request: TermsRequest, listed: NDArray[np.uint32] | None
) -> TermsResponse:
    """Do the work of `near_terms` in a shard of one segment: its candidates are counted already."""
    candidates = _candidates(view, request, listed)
    counts = _counts(view, candidates, listed).tolist()
    distances = candidates.distances.tolist()
    return _response(_texts(view, candidates), counts, distances, candidates.bound)


def _counts(
    view: SegmentView, candidates: _Candidates, listed: NDArray[np.uint32] | None
) -> NDArray[np.int64]:
    """Return how many of the documents that count have each candidate of a segment."""
    if candidates.counts is not None:
        return candidates.counts
    return count_terms(view, candidates.terms, listed)


def _texts(view: SegmentView, candidates: _Candidates) -> list[str]:
    vocabulary = text_index(view.segment).vocabulary
    return [vocabulary.term(term) for term in candidates.terms.tolist()]


def _response(
    texts: Sequence[str], counts: Sequence[int], distances: Sequence[int], bound: int
) -> TermsResponse:
    """Return the words that documents have."""
    rows = [row for row in zip(texts, counts, distances, strict=True) if row[1] > 0]
    terms, positive, near = zip(*rows, strict=True) if rows else ((), (), ())
    return TermsResponse(terms, positive, near, bound)


def is_slow_to_list(snapshot: Snapshot, request: TermsRequest) -> bool:
    """Return whether `near_terms` is likely to take more than a few milliseconds."""
    num_us = 0.0
    for view in snapshot.views:
        if any(filter_bitsets.is_slow(snapshot, view, clause) for clause in request.filters):
            return True
        index = text_index(view.segment)
        num_us += request.typos * len(index.vocabulary) * _SCANNED_US
        if request.filters or request.words:
            num_us += _num_looked_at(view, request) * _LISTED_US
            if request.text and not request.typos:
                first, last = index.vocabulary.prefix_range(request.text)
                freqs = np.minimum(index.doc_freqs[first:last], _COUNTED_DOCS_MAX)
                num_us += int(freqs.sum(dtype=np.int64)) * _COUNTED_US
    return num_us > _FAST_US


def _num_looked_at(view: SegmentView, request: TermsRequest) -> int:
    """Return how many documents are inspected to list those that count."""
    if request.filters:
        return view.segment.num_docs
    index = text_index(view.segment)
    terms = [index.vocabulary.find(word) for word in request.words]
    return min([0 if term is None else int(index.doc_freqs[term]) for term in terms])


def _listed_docs(
    snapshot: Snapshot, view: SegmentView, request: TermsRequest
) -> NDArray[np.uint32] | None:
    """Return the documents that count, ascending; None if all live ones do."""
    check_call()
    if not request.filters and not request.words:
        return None
    passing = narrow(snapshot, view, view.live_mask, request.filters)
    if not request.words:
        assert passing is not None, "there are filters"
        return list_all_docs(passing, count_docs(passing))
    docs = docs_with_all_of(view.segment, request.words)
    if passing is None:
        return docs
    picked = np.empty(len(docs), np.uint32)
    return picked[: pick_docs(docs, passing, picked)]


def _candidates(
    view: SegmentView, request: TermsRequest, listed: NDArray[np.uint32] | None
) -> _Candidates:
    """Return the near words of a segment that may be among the most frequent ones."""
    index = text_index(view.segment)
    vocabulary = index.vocabulary
    if request.typos:
        terms, distances = vocabulary.similar(
            request.text, request.typos, is_prefix=request.is_prefix
        )
        return _Candidates(terms, distances, 0, None)
    if request.is_prefix:
        first, last = vocabulary.prefix_range(request.text)
    else:
        exact = vocabulary.find(request.text)
        first, last = (0, 0) if exact is None else (exact, exact + 1)
    # Deleted documents and those that are not listed only make these frequencies too high.
    freqs = index.doc_freqs[first:last]
    num_terms = max(request.num_terms, len(freqs) if len(freqs) <= _FEW_WORDS else 0)
    counts: NDArray[np.int64] | None = None
    if listed is None:
        chosen, bound = _most_frequent(freqs, num_terms)
        if not view.deleted:
            counts = freqs[chosen].astype(np.int64)
    else:
        chosen, counts, bound = _most_frequent_among(view, freqs, first, num_terms, listed)
    terms = (chosen + first).astype(np.uint32)
    return _Candidates(terms, np.zeros(len(terms), np.uint8), bound, counts)


def _most_frequent(freqs: NDArray[np.integer], num: int) -> tuple[NDArray[np.int64], int]:
    """Return the positions of the greatest frequencies, and the greatest of the others.

    Of equal ones the first are taken, so the choice does not depend on the number of shards.
    """
    if len(freqs) <= num:
        return np.arange(len(freqs)), 0
    last = freqs[np.argpartition(freqs, len(freqs) - num)[len(freqs) - num]]
    above = np.flatnonzero(freqs > last)
    equal = np.flatnonzero(freqs == last)
    is_cut = len(above) + len(equal) > num
    chosen = np.concatenate((above, equal[: num - len(above)]))
    bound = int(last) if is_cut else int(freqs[freqs < last].max())
    return chosen, bound


def _most_frequent_among(
    view: SegmentView,
    freqs: NDArray[np.integer],
    first: int,
    num: int,
    listed: NDArray[np.uint32],
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the words that most listed documents have.

    Args:
        view: the segment.
        freqs: of its words from `first` on, among all its documents.
        first: ordinal of the first word.
        num: how many to return, at least 1.
        listed: the documents that count, ascending.

    Returns:
        Their positions; how many of the documents have each; a bound for the others.
    """
    nothing = np.zeros(0, np.int64)
    if len(listed) == 0:
        return nothing, nothing, 0
    index = text_index(view.segment)
    bits = bitset_of(listed, view.segment.num_docs)
    greatest = np.zeros(num, np.int64)
    orders, parts = [], []
    rest = 0
    for order in _by_frequency(freqs):
        check_call()
        limits = np.minimum(freqs[order], len(listed)).astype(np.int64)
        terms = (order + first).astype(np.uint32)
        part = _count_most(index.lists, index.dense_lists, terms, limits, listed, bits, greatest)
        orders.append(order[: len(part)])
        parts.append(part)
        if len(part) < len(order):
            rest = int(limits[len(part)])
            break
    if not orders:
        return nothing, nothing, 0
    counted, counts = np.concatenate(orders), np.concatenate(parts)
    # Back into the order of the words, which decides among equal counts.
    order = np.argsort(counted)
    counted, counts = counted[order], counts[order]
    best, bound = _most_frequent(counts, num)
    best = best[counts[best] > 0]
    return counted[best], counts[best], max(bound, rest)


def _by_frequency(freqs: NDArray[np.integer]) -> Iterator[NDArray[np.int64]]:
    """Yield the positions of frequencies, the greatest first, equal ones in order; in few parts."""
    rest = np.arange(len(freqs))
    while len(rest):
        part = rest
        if len(rest) > 2 * _COUNTED_AT_ONCE:
            own = freqs[rest]
            least = np.partition(own, len(own) - _COUNTED_AT_ONCE)[len(own) - _COUNTED_AT_ONCE]
            part = rest[own >= least]
            rest = rest[own < least]
        else:
            rest = rest[:0]
        yield part[np.argsort(-freqs[part].astype(np.int64), kind="stable")]


def _count_texts(
    view: SegmentView, texts: Sequence[str], listed: NDArray[np.uint32] | None
) -> NDArray[np.int64]:
    """Return how many of the documents that count have each word."""
    index = text_index(view.segment)
    counts = np.zeros(len(texts), np.int64)
    known, terms = [], []
    for i, text in enumerate(texts):
        term = index.vocabulary.find(text)
        if term is not None:
            known.append(i)
            terms.append(term)
    counts[known] = count_terms(view, np.array(terms, np.uint32), listed)
    return counts


def _count_sets(
    snapshot: Snapshot,
    sets: Sequence[tuple[str, ...]],
    listed: Sequence[NDArray[np.uint32] | None],
) -> tuple[int, ...]:
    """Return how many of the documents that count have all words of each set."""
    totals = np.zeros(len(sets), np.int64)
    distinct = dict.fromkeys(itertools.chain.from_iterable(sets))
    for view, docs in zip(snapshot.views, listed, strict=True):
        vocabulary = text_index(view.segment).vocabulary
        ordinals = dict(zip(distinct, vocabulary.find_all(distinct), strict=True))
        terms = [[ordinals[word] for word in words] for words in sets]
        known = [i for i, own in enumerate(terms) if min(own) >= 0]
        single = [i for i in known if len(terms[i]) == 1]
        totals[single] += count_terms(
            view, np.array([terms[i][0] for i in single], np.uint32), docs
        )
        several = [i for i in known if len(terms[i]) > 1]
        live = NO_BITS if view.live_mask is None else view.live_mask
        wanted = Wanted.of(live) if docs is None else Wanted.among(docs)
        for start in range(0, len(several), _SETS_AT_ONCE):
            check_call()
            part = several[start : start + _SETS_AT_ONCE]
            own = [terms[i] for i in part]
            totals[part] += count_with_all_terms(view.segment, own, wanted)
    return tuple(totals.tolist())
