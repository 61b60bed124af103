"""Pinned items: hits whether or not they have the words of the query, if they pass the filters.

matches of the query ──┬─ union ──▶ all hits: counted, and the base of facets
pinned, passing filters ┘
ranked matches ─┬─ without the pinned ones ─▶ the order of the others
                └─ pinned, score of the query or 0 ─▶ `SearchResponse.pinned`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shard.query.filters.filter_bitsets import docs_with_ids
from shard.query.matches import Matches
from shard.segment.doc_sets import add_docs, are_in, remove_docs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from common.protocol.messages import Pin
    from shard.segment.snapshot import SegmentView, Snapshot


class PinnedDocs(NamedTuple):
    """The pinned live documents of a segment."""

    numbers: NDArray[np.int64]
    """Position of each in `SearchRequest.pins`."""
    docs: NDArray[np.uint32]
    """Ascending."""

    def among(self, bitset: NDArray[np.uint64] | None) -> PinnedDocs:
        """Return those in a bitset (None: all)."""
        if bitset is None or not len(self.docs):
            return self
        is_in = are_in(bitset, self.docs)
        return PinnedDocs(self.numbers[is_in], self.docs[is_in])


def find_pinned(snapshot: Snapshot, view: SegmentView, pins: Sequence[Pin]) -> PinnedDocs:
    """Return the pinned documents of a segment, whatever the filters say."""
    return PinnedDocs(*docs_with_ids(snapshot, view, [pin.id for pin in pins]))


def with_docs(matches: Matches, docs: NDArray[np.uint32]) -> Matches:
    """Return matches with documents added; those that did not match score 0."""
    if not len(docs) or matches.is_all:
        return matches
    if matches.scores is None:
        bitset = matches.bitset.copy()
        add_docs(bitset, docs)
        return Matches(matches.view, bitset=bitset)
    return with_scored_docs(matches, docs, np.zeros(len(docs)))


def with_scored_docs(
    matches: Matches, docs: NDArray[np.uint32], scores: NDArray[np.float64]
) -> Matches:
    """Return scored matches with documents added, unless they are among them, and their scores."""
    at, is_match = _find(matches, docs)
    if is_match.all():
        return matches
    assert matches.scores is not None, "scored matches have scores"
    at, is_other = at[~is_match], ~is_match
    return Matches(
        matches.view,
        docs=np.insert(matches.docs, at, docs[is_other]),
        scores=np.insert(matches.scores, at, scores[is_other]),
    )


def without_docs(matches: Matches, docs: NDArray[np.uint32]) -> Matches:
    """Return matches with documents removed."""
    if not len(docs) or not matches.count:
        return matches
    if matches.scores is None:
        bitset = matches.bitset.copy()
        remove_docs(bitset, docs)
        return Matches(matches.view, bitset=bitset)
    is_kept = ~np.isin(matches.docs, docs)
    return Matches(matches.view, docs=matches.docs[is_kept], scores=matches.scores[is_kept])


def scores_of(matches: Matches, docs: NDArray[np.uint32]) -> NDArray[np.float64] | None:
    """Return the scores of documents, 0 for those that do not match; None without scores."""
    if matches.scores is None:
        return None
    scores = np.zeros(len(docs))
    at, is_match = _find(matches, docs)
    scores[is_match] = matches.scores[at[is_match]]
    return scores


def _find(
    matches: Matches, docs: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where documents are among matches, or would be, and whether they are."""
    at = np.searchsorted(matches.docs, docs)
    is_match = np.searchsorted(matches.docs, docs, side="right") > at
    return at, is_match
