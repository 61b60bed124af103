"""The text structures of a segment together: its arrays "text.*", and how a query reads them.

    text_builder (from a batch) ──┐                 ┌─▶ vocabulary
    text_merge (from segments) ───┴─▶ text_arrays ──┼─▶ postings, positions
                                                    ├─▶ prefix_lists, bitset_postings
                                                    └─▶ TextIndex: what a query reads

`field_lengths` makes its arrays of its own. Each structure has a file in this folder, which draws
its arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shard.caches.derived_values import derived
from shard.segment.merge_allocator import GrowingArray, MergeAllocator
from shard.segment.segment import Segment, name_group
from shard.segment.text.bitset_postings import DenseLists, make_dense_lists
from shard.segment.text.field_lengths import FieldLengths
from shard.segment.text.positions import Positions
from shard.segment.text.postings import PostingLists
from shard.segment.text.prefix_entries_in_batch import BatchWords
from shard.segment.text.prefix_lists import PrefixPart, PrefixRanges, add_prefix_lists
from shard.segment.text.vocabulary import Terms, Vocabulary, finish_vocabulary


class InvertedText(NamedTuple):
    """The text of a segment by term, as building and merging make it.

    Attributes:
        term_bytes: of the vocabulary.
        term_starts: of the vocabulary.
        lists: the posting list of each term, without their bytes.
        postings: the bytes of the posting lists; those of prefixes are appended.
        doc_freqs: documents of each term.
        positions: of each term.
    """

    term_bytes: NDArray[np.uint8]
    term_starts: NDArray[np.int64]
    lists: PostingLists
    postings: GrowingArray[np.uint8]
    doc_freqs: NDArray[np.uint32]
    positions: Positions


def text_arrays(
    text: InvertedText,
    num_docs: int,
    allocator: MergeAllocator,
    origin: BatchWords | Sequence[PrefixPart],
) -> dict[str, NDArray[np.generic]]:
    """Return the arrays "text.*" of a segment, all but those of field lengths.

    Args:
        text: of the segment.
        num_docs: documents of the segment.
        allocator: makes the large arrays.
        origin: the batch, or the parts that the segment is merged from.
    """
    terms = finish_vocabulary(text.term_bytes, text.term_starts, allocator)
    ranges, all_lists, all_freqs = add_prefix_lists(
        terms, text.lists, text.postings, text.doc_freqs, num_docs, origin, allocator
    )
    dense = make_dense_lists(all_lists, all_freqs, len(text.doc_freqs), num_docs, allocator)
    return (
        name_group("text", terms)
        | name_group("text", all_lists)
        | name_group("text", text.positions)
        | name_group("text", ranges)
        | name_group("text", dense)
        | {"text.doc_freqs": all_freqs}
    )


class TextIndex:
    """Read access to the text structures of one segment; get it from `text_index`.

    Attributes:
        num_docs: documents of the segment, deleted ones included.
        vocabulary: its words.
        lists: the posting lists of the words, then those of prefixes.
        doc_freqs: documents of each list.
        positions: of the words.
        field_lengths: number of words of each field of a document.
        length_fields: field number of each row of these.
        field_num_docs: documents with words in each row.
        field_totals: sum of the lengths of each row.
        prefix_ranges: the terms of each prefix list.
        prefix_lists: by range of terms [first, last) with a common prefix, the ordinal of their
            prefix list.
        dense_lists: bitset postings of the longest lists.
    """

    __slots__ = (
        "dense_lists",
        "doc_freqs",
        "field_lengths",
        "field_num_docs",
        "field_totals",
        "length_fields",
        "lists",
        "num_docs",
        "positions",
        "prefix_lists",
        "prefix_ranges",
        "vocabulary",
    )

    def __init__(self, segment: Segment) -> None:
        self.num_docs = segment.num_docs
        self.vocabulary = Vocabulary(segment.group(Terms, "text"))
        self.lists = segment.group(PostingLists, "text")
        self.dense_lists = segment.group(DenseLists, "text")
        self.doc_freqs: NDArray[np.uint32] = segment["text.doc_freqs"]
        self.positions = segment.group(Positions, "text")
        self.field_lengths = segment.group(FieldLengths, "text")
        self.length_fields: NDArray[np.uint16] = segment["text.length_fields"]
        self.field_num_docs: NDArray[np.int64] = segment["text.field_num_docs"]
        self.field_totals: NDArray[np.int64] = segment["text.field_totals"]
        self.prefix_ranges = segment.group(PrefixRanges, "text")
        firsts, lasts = self.prefix_ranges
        self.prefix_lists: dict[tuple[int, int], int] = {
            terms: len(self.vocabulary) + i
            for i, terms in enumerate(zip(firsts.tolist(), lasts.tolist(), strict=True))
        }


@derived
def text_index(segment: Segment) -> TextIndex:
    """Return the text reader of a segment."""
    return TextIndex(segment)
