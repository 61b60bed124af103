"""Merges the text structures of segments.

The sorted vocabularies are walked in parallel (`vocabulary_and_postings_merge`), one range of terms
after the other, so that memory is bounded whatever the size of the segments. No text is read.

Costs: 1.5 µs for an item of 50 words; in memory, a few times the `piece_bytes` of the allocator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shard.segment.merge_allocator import GrowingArray
from shard.segment.merge_state import MergeState
from shard.segment.segment import Segment
from shard.segment.text.field_lengths import merge_lengths
from shard.segment.text.positions import Positions
from shard.segment.text.postings import POSTINGS_PADDING, PostingLists
from shard.segment.text.postings_writer import lists_room
from shard.segment.text.prefix_entries_in_merge import NewDocs
from shard.segment.text.prefix_lists import PrefixPart, PrefixRanges
from shard.segment.text.text_index import InvertedText, text_arrays
from shard.segment.text.vocabulary import TERM_PADDING, Terms, Vocabulary
from shard.segment.text.vocabulary_and_postings_merge import (
    Filled,
    MergedText,
    PartBases,
    TextParts,
    merge_terms,
)


class _TextMerge:
    """The text of a segment while it is merged, one range of terms after the other.

    Args:
        state: what is merged.
    """

    def __init__(self, state: MergeState) -> None:
        parts, doc_maps, _, allocator = state
        self._parts = parts
        self._vocabularies = [Vocabulary(part.group(Terms, "text")) for part in parts]
        self._num_bytes = sum(
            len(part["text.postings"]) + len(part["text.positions"]) for part in parts
        )
        self._doc_maps = doc_maps
        self._shifts = [_shift_of(doc_map) for doc_map in doc_maps]
        needed = [
            doc_map[: 0 if shift >= 0 else None]
            for doc_map, shift in zip(doc_maps, self._shifts, strict=True)
        ]
        self._doc_map = allocator.concatenate(needed)
        self._doc_bases = np.cumsum([0, *map(len, needed)])[:-1]
        self._allocator = allocator
        self._term_bytes = GrowingArray(allocator, np.uint8)
        self._term_starts = GrowingArray(allocator, np.int64)
        self._postings = GrowingArray(allocator, np.uint8)
        self._posting_starts = GrowingArray(allocator, np.int64)
        self._entry_counts = GrowingArray(allocator, np.uint32)
        self._skip_starts = GrowingArray(allocator, np.uint32)
        self._skip_docs = GrowingArray(allocator, np.uint32)
        self._skip_postings = GrowingArray(allocator, np.uint32)
        self._doc_freqs = GrowingArray(allocator, np.uint32)
        self._positions = GrowingArray(allocator, np.uint8)
        self._position_starts = GrowingArray(allocator, np.int64)
        self._skip_positions = GrowingArray(allocator, np.uint32)

    def run(self) -> None:
        """Merge everything."""
        begins = [0] * len(self._parts)
        while (ends := self._choose_ends(begins)) != begins:
            self._merge_range(begins, ends)
            begins = ends

    def finish(self) -> InvertedText:
        """Return the merged text."""
        self._term_starts.append(np.array([self._term_bytes.length], np.int64))
        self._term_bytes.append(np.zeros(TERM_PADDING, np.uint8))
        self._posting_starts.append(np.array([self._postings.length], np.int64))
        self._skip_starts.append(np.array([self._skip_docs.length], np.uint32))
        self._position_starts.append(np.array([self._positions.length], np.int64))
        lists = PostingLists(
            np.zeros(0, np.uint8),
            self._posting_starts.finish(),
            self._entry_counts.finish(),
            self._skip_starts.finish(),
            self._skip_docs.finish(),
            self._skip_postings.finish(),
        )
        positions = Positions(
            self._positions.finish(),
            self._position_starts.finish(),
            self._skip_positions.finish(),
        )
        return InvertedText(
            self._term_bytes.finish(),
            self._term_starts.finish(),
            lists,
            self._postings,
            self._doc_freqs.finish(),
            positions,
        )

    def prefix_parts(self) -> list[PrefixPart]:
        """Return the parts as the lists of prefixes are copied from them."""
        return [
            PrefixPart(
                part.group(Terms, "text"),
                part.group(PostingLists, "text"),
                part.group(PrefixRanges, "text"),
                part.num_docs,
                NewDocs(shift, doc_map),
            )
            for part, doc_map, shift in zip(self._parts, self._doc_maps, self._shifts, strict=True)
        ]

    def _choose_ends(self, begins: Sequence[int]) -> list[int]:
        """Return, by part, the end of the next range of terms; the same range in all parts."""
        if self._num_bytes <= self._allocator.piece_bytes:
            return list(map(len, self._vocabularies))
        share = max(1, self._allocator.piece_bytes // len(self._parts))
        nexts = [
            _count_within(part, begin, share)
            for part, begin in zip(self._parts, begins, strict=True)
        ]
        bounds = [
            vocabulary.term(stop)
            for vocabulary, stop in zip(self._vocabularies, nexts, strict=True)
            if stop < len(vocabulary)
        ]
        if not bounds:
            return nexts
        bound = min(bounds)
        return [
            max(begin, one.prefix_range(bound)[0])
            for one, begin in zip(self._vocabularies, begins, strict=True)
        ]

    def _merge_range(self, begins: Sequence[int], ends: Sequence[int]) -> None:
        """Merge the terms of the parts between these ordinals, and append them."""
        parts = self._join(begins, ends)
        num_terms = len(parts.entry_counts)
        num_entries = int(parts.entry_counts.sum(dtype=np.int64))
        num_rows, num_bytes = lists_room(num_terms, num_entries)
        postings, term_bytes, positions = self._postings, self._term_bytes, self._positions
        by_term = (
            self._term_starts,
            self._posting_starts,
            self._entry_counts,
            self._skip_starts,
            self._doc_freqs,
            self._position_starts,
        )
        by_row = self._skip_docs, self._skip_postings, self._skip_positions
        filled = merge_terms(
            parts,
            MergedText(
                term_bytes.reserve(len(parts.term_bytes)),
                self._term_starts.reserve(num_terms),
                PostingLists(
                    postings.reserve(num_bytes),
                    self._posting_starts.reserve(num_terms),
                    self._entry_counts.reserve(num_terms),
                    self._skip_starts.reserve(num_terms),
                    self._skip_docs.reserve(num_rows),
                    self._skip_postings.reserve(num_rows),
                ),
                self._doc_freqs.reserve(num_terms),
                Positions(
                    positions.reserve(len(parts.positions)),
                    self._position_starts.reserve(num_terms),
                    self._skip_positions.reserve(num_rows),
                ),
            ),
            Filled(
                self._doc_freqs.length,
                term_bytes.length,
                postings.length,
                self._skip_docs.length,
                positions.length,
            ),
        )
        num_terms, term_bytes.length, postings.length, num_rows, positions.length = filled
        for one in by_term:
            one.length = num_terms
        for one in by_row:
            one.length = num_rows
        postings.evict()
        positions.evict()

    def _join(self, begins: Sequence[int], ends: Sequence[int]) -> TextParts:
        """Concatenate a range of the terms of all parts, and note where each part begins."""
        ranges = list(zip(self._parts, begins, ends, strict=True))

        def by_term(name: str, more: int = 0) -> NDArray[Any]:
            return self._allocator.concatenate([part[name][a : b + more] for part, a, b in ranges])

        def in_bytes(
            name: str, starts: str, padding: int
        ) -> tuple[NDArray[Any], NDArray[np.int64]]:
            """Return the bytes of the terms, and by part what to add to its own offsets."""
            bounds = [(int(part[starts][a]), int(part[starts][b])) for part, a, b in ranges]
            pieces = [
                part[name][low:high]
                for (part, _, _), (low, high) in zip(ranges, bounds, strict=True)
            ]
            at = 0
            bases = []
            for low, high in bounds:
                bases.append(at - low)
                at += high - low
            return self._allocator.concatenate(pieces, padding), np.array(bases)

        term_bytes, byte_bases = in_bytes("text.term_bytes", "text.term_starts", TERM_PADDING)
        postings, posting_bases = in_bytes("text.postings", "text.posting_starts", POSTINGS_PADDING)
        positions, position_bases = in_bytes("text.positions", "text.position_starts", 0)
        bases = PartBases(
            byte_bases, posting_bases, position_bases, self._doc_bases, np.array(self._shifts)
        )
        return TextParts(
            term_bytes=term_bytes,
            term_starts=by_term("text.term_starts", 1),
            term_keys=by_term("text.term_keys"),
            postings=postings,
            posting_starts=by_term("text.posting_starts", 1),
            entry_counts=by_term("text.entry_counts"),
            positions=positions,
            position_starts=by_term("text.position_starts", 1),
            doc_map=self._doc_map,
            term_bases=np.cumsum([0, *(b - a for _, a, b in ranges)], dtype=np.int64),
            bases=bases,
        )


def _shift_of(doc_map: NDArray[np.int64]) -> int:
    """Return by how much all ordinals of a part are shifted; -1: it loses documents."""
    if not len(doc_map):
        return 0
    first, last = int(doc_map[0]), int(doc_map[-1])
    return first if first >= 0 and last - first == len(doc_map) - 1 else -1


def _count_within(part: Segment, begin: int, num_bytes: int) -> int:
    """Return the end of the longest run of terms from `begin` whose bytes do not exceed a number.

    That is, neither the bytes of their postings nor those of their positions. The run has at least
    one term, if any is left.
    """
    num_terms = len(part["text.term_keys"])
    stop = num_terms
    for name in ("text.posting_starts", "text.position_starts"):
        starts = part[name][: num_terms + 1]
        stop = min(stop, int(np.searchsorted(starts, starts[begin] + num_bytes, "right")) - 1)
    return min(max(stop, begin + 1), num_terms)


def merge_text(state: MergeState) -> Iterator[dict[str, NDArray[np.generic]]]:
    """Merge the text structures of segments, leaving out dropped documents.

    Args:
        state: what is merged.

    Yields:
        The arrays "text.*": all together the same as if the kept documents had been built in one
        batch.

    Cost: about 35 ns an entry; in memory, a few times the `piece_bytes` of the allocator.
    """
    merge = _TextMerge(state)
    merge.run()
    yield text_arrays(merge.finish(), state.num_docs, state.allocator, merge.prefix_parts())
    yield merge_lengths(state)
