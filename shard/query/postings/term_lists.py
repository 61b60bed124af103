"""The posting lists of one segment, as a query searches, scores and counts them.

match           documents with all terms, scored    term_conjunction
docs_with_all   the same without scores             term_conjunction
score_any       given documents                     term_scores
mark            documents with any term             term_marking
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import numpy as np

from common.analysis.field_classes import ALL_CLASSES
from shard.caches.derived_values import derived
from shard.query.postings.term_conjunction import count_all, docs_with_terms, match_all
from shard.query.postings.term_marking import mark_terms
from shard.query.postings.term_plan import QueryTerms, SearchedLists
from shard.query.postings.term_scores import score_any
from shard.query.scoring.bm25f import FieldTfNorms, ScoredLists
from shard.query.scoring.scratch_arrays import SCRATCH
from shard.segment.text.bitset_postings import find_dense
from shard.segment.text.postings_cursor import Wanted
from shard.segment.text.text_index import text_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from shard.segment.segment import Segment

_NO_WEIGHTS: Final = np.zeros(0)


class TermLists:
    """The posting lists of one segment, as one query scores them.

    Args:
        segment: whose lists.
        fields: tf norms of the query's fields.
        k1: in units of 2^-24.
        bits: clean bitset over the segment's documents; used by one call at a time.
    """

    __slots__ = ("fields", "index", "k1", "searched", "segment")

    def __init__(
        self, segment: Segment, fields: FieldTfNorms, k1: float, bits: NDArray[np.uint64]
    ) -> None:
        self.segment = segment
        self.index = text_index(segment)
        self.fields = fields
        self.k1 = k1
        index = self.index
        self.searched = SearchedLists(
            fields.lists, index.dense_lists, fields.are_all_searched, k1, index.num_docs, bits
        )
        """What kernels take."""

    def match(
        self,
        words: QueryTerms,
        wanted: Wanted,
        *,
        is_scored: bool = True,
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the wanted documents that have all terms.

        Args:
            words: the terms.
            wanted: the documents to look at; a list needs no bitset.
            is_scored: whether scores are wanted.

        Returns:
            Documents, ascending; scores in units of 2^-32 (empty if not wanted).
        """
        matched: tuple[NDArray[np.uint32], NDArray[np.int64]] = match_all(
            self.searched, words, wanted, is_scored
        )
        return matched

    def score_any(self, words: QueryTerms, docs: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return what documents, ascending, score for those of the terms that they have."""
        scores: NDArray[np.int64] = score_any(self.searched, words, docs)
        return scores

    def docs_with_all(
        self,
        terms: Iterable[int],
        wanted: Wanted,
    ) -> NDArray[np.uint32]:
        """Return the wanted documents that have all of some terms; as `match`, without scores.

        The terms count in all fields, and need not be in order.
        """
        docs: NDArray[np.uint32] = docs_with_terms(
            self.searched, np.array(list(terms), np.uint32), wanted
        )
        return docs

    def mark(
        self,
        terms: NDArray[np.uint32],
        masks: NDArray[np.uint64],
        wanted: Wanted,
        marked: NDArray[np.uint64],
    ) -> None:
        """Set the bits of the documents that have at least one of the terms.

        Args:
            terms: ordinals.
            masks: of the field classes in which each counts.
            wanted: the documents to look at; also a list needs its bitset.
            marked: the bitset.
        """
        assert len(wanted.bits) or not wanted.is_listed, "a list without its bitset"
        words = QueryTerms(terms.astype(np.int64), masks, _NO_WEIGHTS)
        mark_terms(self.searched, words, wanted, marked)

    def counts_everywhere(self, mask: int) -> bool:
        """Return whether all entries of a term count, in whatever field: a bitset tells no fields.

        Args:
            mask: of the field classes in which the term counts.
        """
        return self.fields.are_all_searched and mask == ALL_CLASSES

    def has_bitset(self, term: int, mask: int) -> bool:
        """Return whether a bitset of a term's documents is stored, all of which count."""
        return self.counts_everywhere(mask) and find_dense(self.index.dense_lists, term) >= 0

    def count(self, term: int, mask: int) -> int | None:
        """Return how many documents have a term, deleted ones included; None: not stored."""
        if not self.counts_everywhere(mask):
            return None
        return int(self.index.doc_freqs[term])


@derived
def _unscored_fields(segment: Segment) -> FieldTfNorms:
    """Return the tf norms of no field: for lists that are read for their documents."""
    index = text_index(segment)
    nothing = np.zeros((0, 256)), np.zeros(0, np.uint64)
    lists = ScoredLists(index.lists, index.field_lengths, *nothing)
    return FieldTfNorms(lists, (), are_all_searched=True)


def docs_with_all_terms(
    segment: Segment,
    terms: Iterable[int],
    wanted: Wanted,
) -> NDArray[np.uint32]:
    """Return the wanted documents, ascending, that have all of some terms in any field.

    Args:
        segment: where to look.
        terms: ordinals, at least one.
        wanted: the documents to look at; a list needs no bitset.
    """
    index = text_index(segment)
    SCRATCH.reserve(index.num_docs)
    lists = TermLists(segment, _unscored_fields(segment), 0.0, SCRATCH.members)
    return lists.docs_with_all(terms, wanted)


def count_with_all_terms(
    segment: Segment,
    sets: Sequence[Sequence[int]],
    wanted: Wanted,
) -> NDArray[np.int64]:
    """Return, by set of terms, how many wanted documents have all of them in any field.

    Args:
        segment: where to look.
        sets: ordinals, at least one each.
        wanted: the documents to look at; a list needs no bitset.
    """
    index = text_index(segment)
    SCRATCH.reserve(index.num_docs)
    lists = TermLists(segment, _unscored_fields(segment), 0.0, SCRATCH.members)
    count = index.lists.entry_counts.item
    rarest_first = [sorted(set(terms), key=count) for terms in sets]
    terms = np.array(list(itertools.chain.from_iterable(rarest_first)), np.int64)
    words = QueryTerms(terms, np.full(len(terms), ALL_CLASSES, np.uint64), np.ones(len(terms)))
    counts: NDArray[np.int64] = count_all(
        lists.searched,
        words,
        np.cumsum([len(one) for one in rarest_first]),
        wanted,
    )
    return counts
