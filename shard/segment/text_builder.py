"""Inverts a batch: from the words of its documents to the text structures of a segment.

    extraction ──▶ number_words ──▶ invert ──▶ vocabulary, postings, positions, field lengths
                   term_numbering

The distinct words (a tenth of all) are sorted, and a counting sort brings the occurrences into term
order. They come out of the numbering by document, field and position, and the sort is stable, so
each list is in posting order without any comparison.

Worked example: the documents {"title": "sea sea"} and {"title": "the sea"}, numbered in
`term_numbering`; inverting gives sea: (doc 0, title, 2x) (doc 1, title, 1x), positions 0 1 | 1;
the: (doc 1, title, 1x), position 0.

Costs: 4 µs for an item of 50 words; a batch of one item 0.2 ms. Scratch: 16 bytes a word. Prefix
lists add to that in segments of thousands of items.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from common.analysis.tokenizer import TABLES
from common.kernels.decorator import kernel
from common.kernels.types import I64Array, Rows, U8Array, U32Array, int64, uint64
from shard.segment.extraction import Extraction
from shard.segment.field_lengths import DECODED_LENGTHS, arrange_lengths
from shard.segment.merge_arrays import MEMORY, Growing
from shard.segment.positions import POSITION_BYTES_MAX, Positions, encode_varint
from shard.segment.postings import (
    BLOCK_ENTRIES,
    BLOCK_HEADER_BYTES,
    ENTRY_BYTES_MAX,
    POSTINGS_PADDING,
    TERM_FREQ_MAX,
    PostingLists,
    add_block,
    new_block,
    trim_lists,
)
from shard.segment.term_numbering import COUNT, END, KEY, START, FieldInstances, number_words
from shard.segment.text_index import text_arrays
from shard.segment.vocabulary import TERM_PADDING, sort_ties

_S32: Final = uint64(32)
_LOW32: Final = uint64(0xFFFFFFFF)


@kernel
def _reserve_lists(num_terms: int, num_entries: int) -> PostingLists:
    """Return `PostingLists` with room for the given numbers of terms and entries."""
    num_blocks = num_entries // BLOCK_ENTRIES + num_terms
    num_bytes = num_entries * ENTRY_BYTES_MAX + num_blocks * BLOCK_HEADER_BYTES + POSTINGS_PADDING
    return PostingLists(
        np.empty(num_bytes, np.uint8),
        np.empty(num_terms + 1, np.int64),
        np.empty(num_terms, np.uint32),
        np.empty(num_terms + 1, np.uint32),
        np.empty(num_blocks, np.uint32),
        np.empty(num_blocks, np.uint32),
    )


@kernel
def _invert(
    words: U32Array,
    positions: U32Array,
    instances: FieldInstances,
    terms: Rows[np.int64],
    term_bytes: U8Array,
    order: I64Array,
) -> tuple[U8Array, I64Array, PostingLists, U32Array, Positions]:
    """Bring occurrences into term order and pack them.

    Args:
        words: number of the word of each occurrence.
        positions: position of each occurrence.
        instances: the fields of documents that hold the occurrences.
        terms: per word a row as in `_number_chunk`.
        term_bytes: the bytes of the words.
        order: word numbers in the order of the vocabulary.

    Returns:
        (the vocabulary's bytes and starts, `PostingLists`, documents of each term, `Positions`).
    """
    instance_docs, instance_fields, _, instance_starts = instances
    num_terms = len(order)
    # Copy the words in vocabulary order, and give each word its range of occurrences.
    sorted_starts = np.empty(num_terms + 1, np.int64)
    sorted_starts[0] = 0
    num_bytes = terms[num_terms - 1, END] if num_terms > 0 else 0
    sorted_bytes = np.zeros(num_bytes + TERM_PADDING, np.uint8)
    cursors = np.empty(num_terms, np.int64)
    total = 0
    for rank in range(num_terms):
        number = order[rank]
        start = terms[number, START]
        size = terms[number, END] - start
        target = sorted_starts[rank]
        for offset in range(size):
            sorted_bytes[target + offset] = term_bytes[start + offset]
        sorted_starts[rank + 1] = target + size
        cursors[number] = total
        total += terms[number, COUNT]

    # Counting sort; an occurrence becomes instance << 32 | position.
    occurrences = np.empty(total, np.uint64)
    for instance in range(len(instance_docs)):
        upper = uint64(instance) << _S32
        for i in range(instance_starts[instance], instance_starts[instance + 1]):
            number = words[i]
            occurrences[cursors[number]] = upper | uint64(positions[i])
            cursors[number] += 1

    # Pack one list per term: an entry per instance, a block per 128 entries.
    lists = _reserve_lists(num_terms, total)
    _, posting_starts, entry_counts, skip_starts, skip_docs, _ = lists
    doc_freqs = np.empty(num_terms, np.uint32)
    packed_positions = np.empty(total * POSITION_BYTES_MAX, np.uint8)
    position_starts = np.empty(num_terms + 1, np.int64)
    skip_positions = np.empty(len(skip_docs), np.uint32)
    block = new_block()
    docs, fields, freqs = block

    cursor = 0
    position_cursor = 0
    num_rows = 0
    i = 0
    for rank in range(num_terms):
        posting_starts[rank] = cursor
        position_starts[rank] = position_cursor
        skip_starts[rank] = num_rows
        stop = i + terms[order[rank], COUNT]
        row = num_rows
        num_entries = 0
        num_docs = 0
        filled = 0
        previous_doc = int64(-1)
        block_position = position_cursor
        while i < stop:
            # One entry: write its positions as deltas while counting its frequency.
            instance = occurrences[i] >> _S32
            freq = 0
            previous: Any = 0
            entry_position = position_cursor
            while i < stop and occurrences[i] >> _S32 == instance:
                if freq < TERM_FREQ_MAX:
                    position = int64(occurrences[i] & _LOW32)
                    position_cursor = encode_varint(
                        packed_positions, position_cursor, position - previous
                    )
                    previous = position
                    freq += 1
                i += 1
            # The block is full: write it, with the offset of its first position.
            if filled == BLOCK_ENTRIES:
                skip_positions[row] = block_position - position_starts[rank]
                cursor = add_block(lists, rank, row, cursor, block, filled)
                row += 1
                filled = 0
            if filled == 0:
                block_position = entry_position
            doc = int64(instance_docs[instance])
            docs[filled] = doc
            fields[filled] = instance_fields[instance]
            freqs[filled] = freq
            filled += 1
            num_entries += 1
            # A document counts once, whatever its number of fields.
            if doc != previous_doc:
                num_docs += 1
                previous_doc = doc
        # The last block. Skip rows stay only if the list has several blocks.
        skip_positions[row] = block_position - position_starts[rank]
        cursor = add_block(lists, rank, row, cursor, block, filled)
        if row > num_rows:
            num_rows = row + 1
        entry_counts[rank] = num_entries
        doc_freqs[rank] = num_docs
    position_starts[num_terms] = position_cursor
    return (
        sorted_bytes,
        sorted_starts,
        trim_lists(lists, num_terms, num_rows, cursor),
        doc_freqs,
        Positions(
            packed_positions[:position_cursor].copy(),
            position_starts,
            skip_positions[:num_rows].copy(),
        ),
    )


def build_text(
    extraction: Extraction, is_searchable: NDArray[np.bool_]
) -> dict[str, NDArray[np.generic]]:
    """Build all text structures of a batch.

    Args:
        extraction: the values of the batch's documents.
        is_searchable: by field number; at least as long as the greatest field number of the batch.

    Returns:
        The arrays "text.*" of a segment; the same names for an empty batch.

    Cost: about 80 ns a word; scratch of 16 bytes a word.
    """
    words, positions, instance_arrays, terms, term_bytes = number_words(
        extraction, is_searchable, TABLES, DECODED_LENGTHS
    )
    instances = FieldInstances(*instance_arrays)
    keys = terms[:, KEY].astype(np.uint64)
    order = np.argsort(keys)
    sort_ties(order, keys, term_bytes, terms)
    inverted = _invert(words, positions, instances, terms, term_bytes, order)
    term_bytes, term_starts, all_lists, doc_freqs, all_positions = inverted
    lists = PostingLists(*all_lists)
    postings = Growing(MEMORY, np.uint8)
    postings.append(lists.postings[:-POSTINGS_PADDING])
    arrays = text_arrays(
        extraction.num_docs,
        postings,
        term_bytes,
        term_starts,
        lists,
        doc_freqs,
        Positions(*all_positions),
        MEMORY,
    )
    return arrays | arrange_lengths(
        instances.docs, instances.fields, instances.codes, extraction.num_docs
    )
