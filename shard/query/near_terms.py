"""Which words of the index are near a text, and how many items have them?

    ha, is_prefix, words (tom)   ──▶  hanks 31, hardy 12, …     completions beside "tom"
    godfathr, typos 2            ──▶  godfather 3 (1 edit)      other spellings
    counted ((tom, hanks), …)    ──▶  31, …                     items that have all of some words

Suggestions and "did you mean" are made of these. A document counts if it is live, passes the
filters and has all of `words`, in any field; so a key's filter hides words like items.

With typos all near words are returned, else about the `num_terms` most frequent ones, and a bound
for the others: the coordinator adds up the shards' counts and asks for more where the bounds leave
room for another word (`coordinator/read/near_terms.py`). Within a shard the same holds for its
segments: candidates come from each, and are counted in all.

Cost: one addition a word of the range. Beside other words, or under a filter, words are counted in
the order of their frequency, until no other one can have more: microseconds each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.deadline import check_call
from common.protocol.messages import TermsResponse
from shard.query.filter_matches import narrow
from shard.query.spacings import docs_with_all_of
from shard.query.statistics import count_listed, deleted_docs
from shard.segment.doc_sets import count_docs, list_all_docs, pick_docs
from shard.segment.text_index import text_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from common.protocol.messages import TermsRequest
    from shard.segment.snapshot import SegmentView, Snapshot

_COUNTED_AT_ONCE: Final = 128
"""Words counted among listed documents before the next bound is looked at."""
_FAST_US: Final = 2_000.0
"""Up to this estimate, words are listed on the event loop."""
_SCANNED_US: Final = 0.006
"""Cost per typo and word of the vocabulary."""
_COUNTED_US: Final = 2.0
"""Cost of counting a word among listed documents."""
_LISTED_US: Final = 0.002
"""Cost per document of the segment of listing those that pass filters."""


class _Candidates(NamedTuple):
    """The most frequent near words of a segment."""

    terms: NDArray[np.uint32]
    distances: NDArray[np.uint8]
    bound: int
    """No other near word has more documents."""


def near_terms(snapshot: Snapshot, request: TermsRequest) -> TermsResponse:
    """Return the words near a text, or the counts of the request's sets.

    Raises:
        DeadlineExceeded: the caller has stopped waiting.
    """
    listed = [_listed_docs(snapshot, view, request) for view in snapshot.views]
    if request.counted:
        return TermsResponse((), _count_sets(snapshot, request.counted, listed))
    found: dict[str, int] = {}
    bound = 0
    for view, docs in zip(snapshot.views, listed, strict=True):
        check_call()
        candidates = _candidates(view, request, docs)
        bound += candidates.bound
        vocabulary = text_index(view.segment).vocabulary
        for term, distance in zip(
            candidates.terms.tolist(), candidates.distances.tolist(), strict=True
        ):
            found[vocabulary.term(term)] = distance
    texts = list(found)
    counts = np.zeros(len(texts), np.int64)
    for view, docs in zip(snapshot.views, listed, strict=True):
        check_call()
        counts += _count_texts(view, texts, docs)
    rows = [
        (text, count, found[text])
        for text, count in zip(texts, counts.tolist(), strict=True)
        if count > 0
    ]
    terms, positive, distances = zip(*rows, strict=True) if rows else ((), (), ())
    return TermsResponse(terms, positive, distances, bound)


def is_slow_to_list(snapshot: Snapshot, request: TermsRequest) -> bool:
    """Return whether `near_terms` is likely to take more than a few milliseconds."""
    num_us = 0.0
    is_narrowed = bool(request.words or request.filters)
    for view in snapshot.views:
        vocabulary = text_index(view.segment).vocabulary
        num_us += request.typos * len(vocabulary) * _SCANNED_US
        if is_narrowed:
            num_us += view.segment.num_docs * _LISTED_US
            if request.text and not request.typos:
                first, last = vocabulary.prefix_range(request.text)
                num_us += (last - first) * _COUNTED_US
    return num_us > _FAST_US


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
        return _Candidates(terms, distances, 0)
    if request.is_prefix:
        first, last = vocabulary.prefix_range(request.text)
    else:
        exact = vocabulary.find(request.text)
        first, last = (0, 0) if exact is None else (exact, exact + 1)
    # Deleted documents and those that are not listed only make these frequencies too high.
    freqs = index.doc_freqs[first:last]
    if listed is None:
        chosen, bound = _most_frequent(freqs, request.num_terms)
    else:
        chosen, bound = _most_frequent_among(view, freqs, first, request.num_terms, listed)
    terms = (chosen + first).astype(np.uint32)
    return _Candidates(terms, np.zeros(len(terms), np.uint8), bound)


def _most_frequent(freqs: NDArray[np.integer], num: int) -> tuple[NDArray[np.int64], int]:
    """Return the positions of the greatest frequencies, and the greatest of the others.

    The first of equal ones are taken, so that the same words are for any number of shards.
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
) -> tuple[NDArray[np.int64], int]:
    """Return the positions of the words that most listed documents have; a bound for the others.

    Args:
        view: the segment.
        freqs: of its words from `first` on, among all its documents.
        first: ordinal of the first word.
        num: how many are wanted.
        listed: the documents that count, ascending.
    """
    if len(listed) == 0:
        return np.zeros(0, np.int64), 0
    lists = text_index(view.segment).lists
    order = np.argsort(-freqs.astype(np.int64), kind="stable")
    limits = np.minimum(freqs[order], len(listed))
    counts = np.zeros(len(order), np.int64)
    end = 0
    while end < len(order):
        check_call()
        start, end = end, min(end + _COUNTED_AT_ONCE, len(order))
        terms = (order[start:end] + first).astype(np.uint32)
        counts[start:end] = count_listed(lists, terms, listed)
        if end < len(order) and np.count_nonzero(counts[:end] >= limits[end]) >= num:
            break
    # Back into the order of the words, which decides among equal counts.
    counted = np.sort(order[:end])
    counts = counts[:end][np.argsort(order[:end])]
    best, bound = _most_frequent(counts, num)
    if end < len(order):
        bound = max(bound, int(limits[end]))
    return counted[best[counts[best] > 0]], bound


def _count_texts(
    view: SegmentView, texts: Sequence[str], listed: NDArray[np.uint32] | None
) -> NDArray[np.int64]:
    """Return how many of the documents that count have each word."""
    index = text_index(view.segment)
    counts = np.zeros(len(texts), np.int64)
    places, terms = [], []
    for place, text in enumerate(texts):
        term = index.vocabulary.find(text)
        if term is not None:
            places.append(place)
            terms.append(term)
    ordinals = np.array(terms, np.uint32)
    if listed is not None:
        counts[places] = count_listed(index.lists, ordinals, listed)
        return counts
    counts[places] = index.doc_freqs[ordinals]
    deleted = deleted_docs(view)
    if deleted is not None:
        counts[places] -= count_listed(index.lists, ordinals, deleted)
    return counts


def _count_sets(
    snapshot: Snapshot,
    sets: Sequence[tuple[str, ...]],
    listed: Sequence[NDArray[np.uint32] | None],
) -> tuple[int, ...]:
    """Return how many of the documents that count have all words of each set."""
    single = [words[0] for words in sets if len(words) == 1]
    totals = np.zeros(len(sets), np.int64)
    is_single = np.array([len(words) == 1 for words in sets], np.bool_)
    for view, docs in zip(snapshot.views, listed, strict=True):
        totals[is_single] += _count_texts(view, single, docs)
        for place in np.flatnonzero(~is_single).tolist():
            found = docs_with_all_of(view.segment, sets[place], docs)
            deleted = deleted_docs(view) if docs is None else None
            totals[place] += len(found)
            if deleted is not None:
                totals[place] -= len(np.intersect1d(found, deleted, assume_unique=True))
    return tuple(totals.tolist())
