"""Statistics of the documents that a key's filter lets through, as if there were no others.

`segment_statistics` subtracts deletions from stored sums; these numbers are counted afresh, since
each filter has its own. So neither scores nor ignored words reveal to the holder of a
filtered key anything about documents that the key may not see.

Cost: the posting blocks of a word's terms that hold visible documents; for lengths, one byte a
field and visible document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from common.distinct_values import without_repeats
from shard.query.bm25_statistics.segment_statistics import (
    count_forms,
    count_terms,
    other_forms,
    subtract_lengths,
)
from shard.query.filters.filter_intersection import narrow
from shard.query.phrases.phrase_search import find_phrase, phrase_terms
from shard.query.terms.expansion import count_by_kind, expand_word
from shard.segment.doc_sets import count_docs, list_all_docs
from shard.segment.text.field_lengths import DECODED_LENGTHS
from shard.segment.text.text_index import text_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from common.analysis.field_classes import FieldClasses
    from common.query_syntax_tree import Filter, Word
    from shard.segment.snapshot import SegmentView, Snapshot


class Visible(NamedTuple):
    """The live documents of a segment that pass a filter."""

    view: SegmentView
    docs: NDArray[np.uint32]
    """Ascending."""


def visible_docs(snapshot: Snapshot, view: SegmentView, clauses: Sequence[Filter]) -> Visible:
    """Return the live documents of a segment that pass all clauses (at least one)."""
    bitset = narrow(snapshot, view, view.live_mask, clauses)
    assert bitset is not None, "no clauses"
    return Visible(view, list_all_docs(bitset, count_docs(bitset)))


def visible_doc_freqs(visible: Visible, word: Word, classes: FieldClasses) -> NDArray[np.int64]:
    """Return how many visible documents have a word, by `MatchKind`, counted as in `doc_freqs`."""
    view, docs = visible
    expansion = expand_word(view.segment, word, classes)
    index = text_index(view.segment)
    counts = count_by_kind(expansion, count_terms(view, expansion.terms, docs))
    for kind, forms, num_better in other_forms(expansion):
        counts[kind] = count_forms(index.lists, forms, num_better, index.num_docs, docs, True)
    for phrase in expansion.phrases:
        found = find_phrase(index, phrase_terms(index, phrase, is_prefix=False), docs)
        counts[word.phrase_kind(phrase)] += len(without_repeats(found.docs))
    return counts


def visible_field_statistics(visible: Visible) -> dict[int, tuple[int, int]]:
    """Return, by field number: visible documents with words in it, sum of their lengths."""
    index = text_index(visible.view.segment)
    # From zero, so that subtracting the visible documents leaves their negated sums.
    num_docs, totals = np.zeros_like(index.field_num_docs), np.zeros_like(index.field_totals)
    subtract_lengths(index.field_lengths, visible.docs, DECODED_LENGTHS, num_docs, totals)
    return {
        number: (-count, -total)
        for number, count, total in zip(
            index.length_fields.tolist(), num_docs.tolist(), totals.tolist(), strict=True
        )
        if count < 0
    }
