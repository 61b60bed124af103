"""Gives every distinct word of a batch a number, in one pass over its text.

A hash table numbers the words in order of first appearance. Occurrences come out by document,
field and position; `text_builder` inverts them.

Worked example: two documents {"title": "sea sea"} and {"title": "the sea"}; numbering gives sea 0,
the 1 and the occurrences (0, pos 0) (0, pos 1) | (1, pos 0) (0, pos 1).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.analysis.tokenizer import STATE_SIZE, CharacterTables, token_buffers, tokenize_span
from common.kernels.byte_words import load_u64
from common.kernels.decorator import arguments, kernel
from common.kernels.room import rows_with_room, with_room
from common.kernels.types import (
    U64,
    BoolArray,
    I64Array,
    Rows,
    U8Array,
    U32Array,
    U64Array,
    int64,
    uint64,
)
from common.values import ValueKind
from shard.segment.extraction import Extraction
from shard.segment.field_lengths import encode_length
from shard.segment.positions import POSITION_GAP
from shard.segment.vocabulary import term_key

_STRING: Final = int(ValueKind.STRING)
_CHUNK_WORDS: Final = 1024
"""Words that the tokenizer returns at a time: they stay in the first-level cache."""
_TABLE_SIZE_MIN: Final = 2048

KEY: Final = 0
"""Columns of the words of a batch, see `_number_chunk`."""
START: Final = 1
END: Final = 2
COUNT: Final = 3

_K1: Final = uint64(0x9E3779B97F4A7C15)
_K2: Final = uint64(0xD6E8FEB86659FD93)
_S32: Final = uint64(32)
_LOW32: Final = uint64(0xFFFFFFFF)


@arguments
class FieldInstances(NamedTuple):
    """The fields of documents that have words; all values of one field count as one.

    Attributes:
        docs: document of each.
        fields: its field.
        codes: code of its length.
        starts: its first occurrence, with a sentinel.
    """

    docs: NDArray[np.uint32]
    fields: NDArray[np.uint16]
    codes: NDArray[np.uint8]
    starts: NDArray[np.int64]


@kernel(inline=True, allocates=False)
def _hash_term(key: U64, term_bytes: U8Array, start: int, length: int) -> U64:
    """Return a hash in the upper 32 bits; the rest is zero. The padding must be readable."""
    digest = (key ^ uint64(length)) * _K1
    if length > 8:
        at = start + 8
        end = start + length
        while at < end:
            word = load_u64(term_bytes, at)
            if end - at < 8:
                word &= ~(~uint64(0) << uint64(8 * (end - at)))
            digest = (digest ^ digest >> _S32 ^ word) * _K2
            at += 8
    digest ^= digest >> _S32
    digest *= _K2
    return digest & ~_LOW32


@kernel(allocates=False)
def _number_chunk(
    chunk_bytes: U8Array,
    chunk_ends: I64Array,
    table: U64Array,
    terms: Rows[np.int64],
    term_bytes: U8Array,
    num_terms: int,
    numbers: U32Array,
) -> int:
    """Write the number of each word of a chunk; new words get the next numbers.

    A slot of the table is 0 or ``hash << 32 | number + 1``; a row of `terms` is (key, where the
    bytes begin, where they end, occurrences): half a cache line, because a lookup costs what it
    misses in the cache. The arrays have room for as many new words as the chunk has.

    Returns:
        How many distinct words there are now.
    """
    slot_mask = uint64(len(table) - 1)
    num_bytes: Any = terms[num_terms - 1, END] if num_terms > 0 else 0
    begin: Any = int64(0)
    for word in range(len(chunk_ends)):
        stop = chunk_ends[word]
        size: Any = stop - begin
        key = term_key(chunk_bytes, begin, size)
        tag = _hash_term(key, chunk_bytes, begin, size)
        slot = tag >> _S32 & slot_mask
        number: Any = int64(-1)
        while True:
            entry = table[slot]
            if entry == 0:
                break
            # Same hash: compare key and length, then the bytes after the first eight.
            if entry & ~_LOW32 == tag:
                candidate = int64(entry & _LOW32) - 1
                other = terms[candidate, START]
                if terms[candidate, KEY] == int64(key) and terms[candidate, END] - other == size:
                    offset: Any = int64(8)
                    while (
                        offset < size and term_bytes[other + offset] == chunk_bytes[begin + offset]
                    ):
                        offset += 1
                    if offset >= size:
                        number = candidate
                        break
            slot = (slot + uint64(1)) & slot_mask
        if number < 0:
            # A new word: fill the slot, copy the bytes, start a row.
            number = int64(num_terms)
            table[slot] = tag | uint64(number + 1)
            for offset in range(size):
                term_bytes[num_bytes + offset] = chunk_bytes[begin + offset]
            terms[number, KEY] = int64(key)
            terms[number, START] = num_bytes
            num_bytes += size
            terms[number, END] = num_bytes
            terms[number, COUNT] = 0
            num_terms += 1
        terms[number, COUNT] += 1
        numbers[word] = number
        begin = stop
    return num_terms


@kernel
def _grow_table(table: U64Array) -> U64Array:
    """Return a table of twice the size with the same entries, which carry their hash."""
    larger = np.zeros(2 * len(table), np.uint64)
    slot_mask = uint64(len(larger) - 1)
    for entry in table:
        if entry != 0:
            slot = entry >> _S32 & slot_mask
            while larger[slot] != 0:
                slot = (slot + uint64(1)) & slot_mask
            larger[slot] = entry
    return larger


@kernel
def number_words(
    extraction: Extraction,
    is_searchable: BoolArray,
    tables: CharacterTables,
    decoded_lengths: I64Array,
) -> tuple[U32Array, U32Array, FieldInstances, Rows[np.int64], U8Array]:
    """Split all searchable strings into words and number the distinct ones.

    Returns:
        (number of each occurrence uint32, its position uint32; `FieldInstances`; per distinct word
        a row as in `_number_chunk`; bytes of the distinct words).
    """
    text = extraction.text
    docs = extraction.doc
    fields = extraction.field
    kinds = extraction.kind
    starts = extraction.start
    ends = extraction.end
    num_values = len(docs)
    # Size the output from the bytes of text.
    num_text_bytes = 0
    num_selected = 0
    for value in range(num_values):
        if kinds[value] == _STRING and is_searchable[fields[value]]:
            num_text_bytes += ends[value] - starts[value]
            num_selected += 1
    # Four bytes are at most three words (a decomposed Thai vowel: two characters, bigram and tail;
    # é# with a space: bare, with its symbol, and the spelling).
    capacity = num_text_bytes * 3 // 4 + num_selected + 2
    words = np.empty(capacity, np.uint32)
    positions = np.empty(capacity, np.uint32)
    instance_docs = np.empty(num_selected, np.uint32)
    instance_fields = np.empty(num_selected, np.uint16)
    instance_codes = np.empty(num_selected, np.uint8)
    instance_starts = np.empty(num_selected + 1, np.int64)

    table_size = _TABLE_SIZE_MIN
    while table_size < 65536 and table_size < num_text_bytes >> 3:
        table_size *= 2
    table = np.zeros(table_size, np.uint64)
    terms = np.empty((table_size >> 1, 4), np.int64)
    chunk = token_buffers(_CHUNK_WORDS)
    chunk_bytes, chunk_ends, chunk_positions, _, _ = chunk
    term_bytes = np.empty(table_size * 4 + 2 * len(chunk_bytes), np.uint8)
    num_terms = 0

    state = np.empty(STATE_SIZE, np.int64)
    selected = np.empty(64, np.int64)

    num_words = 0
    num_instances = 0
    value = 0
    while value < num_values:
        # Sort the document's searchable values by field, in document order within a field: a value
        # is packed as field << 44 | value.
        doc = docs[value]
        num_of_doc = 0
        is_sorted = True
        while value < num_values and docs[value] == doc:
            if kinds[value] == _STRING and is_searchable[fields[value]]:
                if num_of_doc == len(selected):
                    selected = with_room(selected, 2 * num_of_doc)
                selected[num_of_doc] = int64(fields[value]) << 44 | value
                if num_of_doc > 0 and selected[num_of_doc - 1] > selected[num_of_doc]:
                    is_sorted = False
                num_of_doc += 1
            value += 1
        if not is_sorted:
            if num_of_doc <= 64:
                for i in range(1, num_of_doc):
                    item = selected[i]
                    j = i
                    while j > 0 and selected[j - 1] > item:
                        selected[j] = selected[j - 1]
                        j -= 1
                    selected[j] = item
            else:
                selected[:num_of_doc].sort()
        i = 0
        while i < num_of_doc:
            # One instance: all values of this field, with positions that run on.
            field = selected[i] >> 44
            first_word = num_words
            length = 0
            state[:] = 0
            while i < num_of_doc and selected[i] >> 44 == field:
                source = selected[i] & ((int64(1) << 44) - 1)
                i += 1
                position_before = state[0]
                at = starts[source]
                end = ends[source]
                while True:
                    count, at = tokenize_span(text, at, end, tables, True, state, chunk)
                    if count == 0:
                        break
                    while num_terms + count > len(terms):
                        # More than half full: double the table, whose entries carry their hash.
                        table = _grow_table(table)
                        terms = rows_with_room(terms, len(table) >> 1)
                    num_bytes = terms[num_terms - 1, END] if num_terms > 0 else 0
                    while num_bytes + len(chunk_bytes) > len(term_bytes):
                        term_bytes = with_room(term_bytes, 2 * len(term_bytes))
                    num_terms = _number_chunk(
                        chunk_bytes,
                        chunk_ends[:count],
                        table,
                        terms,
                        term_bytes,
                        num_terms,
                        words[num_words:],
                    )
                    for word in range(count):
                        positions[num_words + word] = chunk_positions[word]
                    num_words += count
                # The field's length counts words, not the gaps between values.
                length += state[0] - position_before
                if num_words > first_word and state[0] > position_before:
                    state[0] += POSITION_GAP
            if num_words > first_word:
                instance_docs[num_instances] = doc
                instance_fields[num_instances] = field
                instance_codes[num_instances] = encode_length(length, decoded_lengths)
                instance_starts[num_instances] = first_word
                num_instances += 1
    instance_starts[num_instances] = num_words
    return (
        words[:num_words],
        positions[:num_words],
        FieldInstances(
            instance_docs[:num_instances],
            instance_fields[:num_instances],
            instance_codes[:num_instances],
            instance_starts[: num_instances + 1],
        ),
        terms[:num_terms],
        term_bytes,
    )
