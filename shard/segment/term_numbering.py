"""Gives every distinct word of a batch a number, in one pass over its text.

    a document's strings, by field ─▶ words, 1,024 at a time ─▶ numbers and positions
                                      (tokenizer)               (hash table)

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
from common.kernels.byte_words import load_u64, prefetch
from common.kernels.decorator import arguments, kernel
from common.kernels.growth import grown, grown_rows
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
_WORDS_AHEAD: Final = 8
"""How many words ahead of numbering a word's row is loaded."""
_TABLE_SIZE_MIN: Final = 2048
_TABLE_SIZE_FIRST_MAX: Final = 65_536
"""Slots of the hash table that a large batch begins with."""
_INSERTION_MAX: Final = 64
"""Strings of a document that are sorted by insertion."""
_VALUE_BITS: Final = 44
"""Bits of a value's number, in a string that sorts by field; the field is above."""
_VALUE_MASK: Final = (1 << _VALUE_BITS) - 1

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


@kernel(inline=True, allocates=False)
def _find_word(
    word: U8Array, key: U64, tag: U64, table: U64Array, terms: Rows[np.int64], term_bytes: U8Array
) -> tuple[int, int]:
    """Return the number of a word and its slot; -1 and a free slot if the word is new."""
    slot_mask = uint64(len(table) - 1)
    size: Any = int64(len(word))
    slot = tag >> _S32 & slot_mask
    while True:
        entry = table[slot]
        if entry == 0:
            return int64(-1), int64(slot)
        # Same hash: compare key and length, then the bytes after the first eight.
        if entry & ~_LOW32 == tag:
            number = int64(entry & _LOW32) - 1
            other = terms[number, START]
            if terms[number, KEY] == int64(key) and terms[number, END] - other == size:
                offset: Any = int64(8)
                while offset < size and term_bytes[other + offset] == word[offset]:
                    offset += 1
                if offset >= size:
                    return number, int64(slot)
        slot = (slot + uint64(1)) & slot_mask


@kernel(allocates=False)
def _hash_words(
    chunk_bytes: U8Array, chunk_ends: I64Array, table: U64Array, hashed: Rows[np.uint64]
) -> None:
    """Write key and hash of each word of a chunk, and let the processor load its slot."""
    slot_mask = uint64(len(table) - 1)
    begin: Any = int64(0)
    for word in range(len(chunk_ends)):
        stop = chunk_ends[word]
        key = term_key(chunk_bytes, begin, stop - begin)
        tag = _hash_term(key, chunk_bytes, begin, stop - begin)
        hashed[word, 0] = key
        hashed[word, 1] = tag
        prefetch(table, int64(tag >> _S32 & slot_mask))
        begin = stop


@kernel(allocates=False)
def _number_chunk(
    chunk_bytes: U8Array,
    chunk_ends: I64Array,
    table: U64Array,
    terms: Rows[np.int64],
    term_bytes: U8Array,
    num_terms: int,
    hashed: Rows[np.uint64],
    numbers: U32Array,
) -> int:
    """Write the number of each word of a chunk; new words get the next numbers.

    A slot of the table is 0 or ``hash << 32 | number + 1``; a row of `terms` is (key, where the
    bytes begin, where they end, occurrences): half a cache line, because a lookup costs what it
    misses in the cache. The arrays have room for as many new words as the chunk has.

    Returns:
        How many distinct words there are now.
    """
    _hash_words(chunk_bytes, chunk_ends, table, hashed)
    slot_mask = uint64(len(table) - 1)
    num_words = len(chunk_ends)
    num_bytes: Any = terms[num_terms - 1, END] if num_terms > 0 else 0
    begin: Any = int64(0)
    for word in range(num_words):
        # The row that the slot of a later word names, most likely its own.
        later = min(word + _WORDS_AHEAD, num_words - 1)
        entry = table[hashed[later, 1] >> _S32 & slot_mask]
        prefetch(terms, 4 * max(int64(entry & _LOW32) - 1, 0))
        stop = chunk_ends[word]
        size: Any = stop - begin
        key, tag = hashed[word, 0], hashed[word, 1]
        number, slot = _find_word(chunk_bytes[begin:stop], key, tag, table, terms, term_bytes)
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


@kernel(allocates=False)
def _measure_text(extraction: Extraction, is_searchable: BoolArray) -> tuple[int, int]:
    """Return how many searchable strings a batch has, and how many bytes these have."""
    num_strings = 0
    num_bytes = 0
    for value in range(len(extraction.doc)):
        if extraction.kind[value] == _STRING and is_searchable[extraction.field[value]]:
            num_strings += 1
            num_bytes += extraction.end[value] - extraction.start[value]
    return num_strings, num_bytes


@kernel
def _sort_numbers(numbers: I64Array) -> None:
    """Sort numbers: few of them by insertion, which is faster then."""
    if len(numbers) > _INSERTION_MAX:
        numbers.sort()
        return
    for i in range(1, len(numbers)):
        number = numbers[i]
        j = i
        while j > 0 and numbers[j - 1] > number:
            numbers[j] = numbers[j - 1]
            j -= 1
        numbers[j] = number


@kernel
def _select_strings(
    extraction: Extraction, is_searchable: BoolArray, first: int, selected: I64Array
) -> tuple[I64Array, int, int]:
    """List the searchable strings of a document by field, within a field in document order.

    Args:
        extraction: the batch.
        is_searchable: by field.
        first: the document's first value.
        selected: scratch.

    Returns:
        (the strings, as ``field << _VALUE_BITS | value``, in `selected` or a longer array; their
        number; the first value of the next document).
    """
    docs, fields, kinds = extraction.doc, extraction.field, extraction.kind
    num_selected = 0
    is_sorted = True
    value = first
    while value < len(docs) and docs[value] == docs[first]:
        if kinds[value] == _STRING and is_searchable[fields[value]]:
            if num_selected == len(selected):
                selected = grown(selected, 2 * num_selected)
            selected[num_selected] = int64(fields[value]) << _VALUE_BITS | value
            if num_selected > 0 and selected[num_selected - 1] > selected[num_selected]:
                is_sorted = False
            num_selected += 1
        value += 1
    if not is_sorted:
        _sort_numbers(selected[:num_selected])
    return selected, num_selected, value


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
    starts = extraction.start
    ends = extraction.end
    num_values = len(docs)
    num_strings, num_text_bytes = _measure_text(extraction, is_searchable)
    # Four bytes are at most three words (a decomposed Thai vowel: two characters, bigram and tail;
    # é# with a space: bare, with its symbol, and the spelling). Pages that stay untouched cost
    # nothing.
    capacity = num_text_bytes * 3 // 4 + num_strings + 2
    words = np.empty(capacity, np.uint32)
    positions = np.empty(capacity, np.uint32)
    instance_docs = np.empty(num_strings, np.uint32)
    instance_fields = np.empty(num_strings, np.uint16)
    instance_codes = np.empty(num_strings, np.uint8)
    instance_starts = np.empty(num_strings + 1, np.int64)

    # The table begins small, so that a batch of few items clears little memory, and stays at most
    # half full: half as many terms as slots.
    table_size = _TABLE_SIZE_MIN
    while table_size < _TABLE_SIZE_FIRST_MAX and table_size < num_text_bytes >> 3:
        table_size *= 2
    table = np.zeros(table_size, np.uint64)
    terms = np.empty((table_size >> 1, 4), np.int64)
    chunk = token_buffers(_CHUNK_WORDS)
    chunk_bytes, chunk_ends, chunk_positions, _, _ = chunk
    term_bytes = np.empty(table_size * 4 + 2 * len(chunk_bytes), np.uint8)
    hashed = np.empty((_CHUNK_WORDS, 2), np.uint64)
    num_terms = 0

    state = np.empty(STATE_SIZE, np.int64)
    selected = np.empty(_INSERTION_MAX, np.int64)
    num_words = 0
    num_instances = 0
    value = 0
    while value < num_values:
        doc = docs[value]
        selected, num_selected, value = _select_strings(extraction, is_searchable, value, selected)
        i = 0
        while i < num_selected:
            # One instance: all values of this field, with positions that run on.
            field = selected[i] >> _VALUE_BITS
            first_word = num_words
            length = 0
            state[:] = 0
            while i < num_selected and selected[i] >> _VALUE_BITS == field:
                source = selected[i] & _VALUE_MASK
                i += 1
                position_before = state[0]
                at = starts[source]
                end = ends[source]
                while True:
                    count, at = tokenize_span(text, at, end, tables, True, state, chunk)
                    if count == 0:
                        break
                    # Make room for as many new terms as the chunk has words.
                    while num_terms + count > len(terms):
                        table = _grow_table(table)
                        terms = grown_rows(terms, len(table) >> 1)
                    num_bytes = terms[num_terms - 1, END] if num_terms > 0 else 0
                    while num_bytes + len(chunk_bytes) > len(term_bytes):
                        term_bytes = grown(term_bytes, 2 * len(term_bytes))
                    num_terms = _number_chunk(
                        chunk_bytes,
                        chunk_ends[:count],
                        table,
                        terms,
                        term_bytes,
                        num_terms,
                        hashed,
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
