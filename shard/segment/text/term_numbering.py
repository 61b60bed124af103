"""Numbers the distinct words of a batch, in one pass over its text.

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

from common.analysis.tokenizer import (
    STATE_SIZE,
    CharacterTables,
    TokenBuffers,
    token_buffers,
    tokenize_span,
)
from common.kernels.array_growth import grown, grown_rows
from common.kernels.decorator import arguments, kernel
from common.kernels.intrinsics import load_u64, prefetch
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
from common.value_kinds_and_facet_keys import ValueKind
from shard.segment.items.value_extraction import Extraction
from shard.segment.text.field_lengths import encode_length
from shard.segment.text.positions import POSITION_GAP
from shard.segment.text.vocabulary import TERM_PADDING, sort_ties, term_key

_STRING: Final = int(ValueKind.STRING)
CHUNK_WORDS: Final = 1024
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
"""Columns of `DistinctWords.rows`."""
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


@arguments
class DistinctWords(NamedTuple):
    """The distinct words of a batch by number, and the hash table that finds them.

    Attributes:
        slots: 0 or ``hash << 32 | number + 1``; at most half of them are taken.
        rows: by number: key, where its bytes begin, where they end, occurrences. Half a cache line,
            because a lookup costs what it misses in the cache.
        word_bytes: the bytes of the words.
    """

    slots: NDArray[np.uint64]
    rows: Rows[np.int64]
    word_bytes: NDArray[np.uint8]


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
def _find_word(word: U8Array, key: U64, tag: U64, distinct: DistinctWords) -> tuple[int, int]:
    """Return the number of a word and its slot; -1 and a free slot if the word is new."""
    slots, rows, word_bytes = distinct
    slot_mask = uint64(len(slots) - 1)
    size: Any = int64(len(word))
    slot = tag >> _S32 & slot_mask
    while True:
        entry = slots[slot]
        if entry == 0:
            return int64(-1), int64(slot)
        # Same hash: compare key and length, then the bytes after the first eight.
        if entry & ~_LOW32 == tag:
            number = int64(entry & _LOW32) - 1
            other = rows[number, START]
            if rows[number, KEY] == int64(key) and rows[number, END] - other == size:
                offset: Any = int64(8)
                while offset < size and word_bytes[other + offset] == word[offset]:
                    offset += 1
                if offset >= size:
                    return number, int64(slot)
        slot = (slot + uint64(1)) & slot_mask


@kernel(inline=True, allocates=False)
def _add_word(word: U8Array, key: U64, number: int, num_bytes: int, distinct: DistinctWords) -> int:
    """Append a new word, its bytes and its row; return how many bytes the words have then."""
    for offset in range(len(word)):
        distinct.word_bytes[num_bytes + offset] = word[offset]
    distinct.rows[number, KEY] = int64(key)
    distinct.rows[number, START] = num_bytes
    num_bytes += len(word)
    distinct.rows[number, END] = num_bytes
    distinct.rows[number, COUNT] = 0
    return num_bytes


@kernel(inline=True, allocates=False)
def _num_bytes(distinct: DistinctWords, num_terms: int) -> int:
    """Return how many bytes the first `num_terms` words have."""
    return distinct.rows[num_terms - 1, END] if num_terms > 0 else int64(0)


@kernel(allocates=False)
def _hash_words(
    buffers: TokenBuffers, count: int, slots: U64Array, hashed: Rows[np.uint64]
) -> None:
    """Write key and hash of each word of a chunk, and let the processor load its slot."""
    slot_mask = uint64(len(slots) - 1)
    begin: Any = int64(0)
    for word in range(count):
        stop = buffers.word_ends[word]
        key = term_key(buffers.word_bytes, begin, stop - begin)
        tag = _hash_term(key, buffers.word_bytes, begin, stop - begin)
        hashed[word, 0] = key
        hashed[word, 1] = tag
        prefetch(slots, int64(tag >> _S32 & slot_mask))
        begin = stop


@kernel(allocates=False)
def number_chunk(
    buffers: TokenBuffers,
    count: int,
    hashed: Rows[np.uint64],
    distinct: DistinctWords,
    num_terms: int,
    numbers: U32Array,
) -> int:
    """Write the number of each word of a chunk; new words get the next numbers.

    Args:
        buffers: the words of the chunk.
        count: how many they are.
        hashed: scratch.
        distinct: the words so far; with room for as many new ones.
        num_terms: how many they are.
        numbers: output.

    Returns:
        The number of distinct words then.
    """
    slots, rows, _ = distinct
    slot_mask = uint64(len(slots) - 1)
    _hash_words(buffers, count, slots, hashed)
    num_bytes = _num_bytes(distinct, num_terms)
    begin: Any = int64(0)
    for word in range(count):
        # The row that the slot of a later word names, most likely its own.
        later = min(word + _WORDS_AHEAD, count - 1)
        entry = slots[hashed[later, 1] >> _S32 & slot_mask]
        prefetch(rows, 4 * max(int64(entry & _LOW32) - 1, 0))
        stop = buffers.word_ends[word]
        text = buffers.word_bytes[begin:stop]
        key, tag = hashed[word, 0], hashed[word, 1]
        number, slot = _find_word(text, key, tag, distinct)
        if number < 0:
            number = int64(num_terms)
            slots[slot] = tag | uint64(number + 1)
            num_bytes = _add_word(text, key, number, num_bytes, distinct)
            num_terms += 1
        rows[number, COUNT] += 1
        numbers[word] = number
        begin = stop
    return num_terms


@kernel
def new_words(num_text_bytes: int, chunk_bytes: int) -> DistinctWords:
    """Return the words of a batch before any is known.

    The table begins small, so that a batch of few items clears little memory, and stays at most
    half full: half as many words as slots.
    """
    size = _TABLE_SIZE_MIN
    while size < _TABLE_SIZE_FIRST_MAX and size < num_text_bytes >> 3:
        size *= 2
    return DistinctWords(
        np.zeros(size, np.uint64),
        np.empty((size >> 1, 4), np.int64),
        np.empty(size * 4 + 2 * chunk_bytes, np.uint8),
    )


@kernel
def grow_table(slots: U64Array) -> U64Array:
    """Return a table of twice the size with the same entries, which carry their hash."""
    larger = np.zeros(2 * len(slots), np.uint64)
    slot_mask = uint64(len(larger) - 1)
    for entry in slots:
        if entry != 0:
            slot = entry >> _S32 & slot_mask
            while larger[slot] != 0:
                slot = (slot + uint64(1)) & slot_mask
            larger[slot] = entry
    return larger


@kernel(inline=True, allocates=False)
def _has_room(distinct: DistinctWords, num_terms: int, count: int, chunk_bytes: int) -> bool:
    """Return whether as many new words as a chunk has fit."""
    num_bytes = _num_bytes(distinct, num_terms)
    has_rows = num_terms + count <= len(distinct.rows)
    return has_rows and num_bytes + chunk_bytes <= len(distinct.word_bytes)


@kernel
def _with_room(
    distinct: DistinctWords, num_terms: int, count: int, chunk_bytes: int
) -> DistinctWords:
    """Return the words with room for as many new ones as a chunk has."""
    slots, rows, word_bytes = distinct
    num_bytes = _num_bytes(distinct, num_terms)
    while num_terms + count > len(rows):
        slots = grow_table(slots)
        rows = grown_rows(rows, len(slots) >> 1)
    while num_bytes + chunk_bytes > len(word_bytes):
        word_bytes = grown(word_bytes, 2 * len(word_bytes))
    return DistinctWords(slots, rows, word_bytes)


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


@kernel(inline=True)
def _room_for_instances(size: int) -> FieldInstances:
    """Return arrays for the members of `FieldInstances`, not filled."""
    return FieldInstances(
        np.empty(size, np.uint32),
        np.empty(size, np.uint16),
        np.empty(size, np.uint8),
        np.empty(size + 1, np.int64),
    )


@kernel(inline=True, allocates=False)
def _put_instance(
    instances: FieldInstances, at: int, doc: int, field: int, code: int, start: int
) -> None:
    """Write a field of a document that has words."""
    instances.docs[at] = doc
    instances.fields[at] = field
    instances.codes[at] = code
    instances.starts[at] = start


@kernel
def number_words(
    extraction: Extraction,
    is_searchable: BoolArray,
    tables: CharacterTables,
    decoded_lengths: I64Array,
) -> tuple[U32Array, U32Array, FieldInstances, Rows[np.int64], U8Array]:
    """Split all searchable strings into words and number the distinct ones.

    One kernel on purpose: with the loop over a string's chunks in one of its own, inlined too, it
    takes a fifth longer (the demo's films, 252,000 words, an AMD EPYC, 2026-11-29).

    Returns:
        (number of each occurrence uint32, its position uint32; `FieldInstances`; `rows` and
        `word_bytes` of `DistinctWords`).
    """
    text = extraction.text
    docs = extraction.doc
    starts = extraction.start
    ends = extraction.end
    num_strings, num_text_bytes = _measure_text(extraction, is_searchable)
    # Four bytes are at most three words (a decomposed Thai vowel: two characters, bigram and tail;
    # é# with a space: bare, with its symbol, and the spelling). Pages that stay untouched cost
    # nothing.
    capacity = num_text_bytes * 3 // 4 + num_strings + 2
    words = np.empty(capacity, np.uint32)
    positions = np.empty(capacity, np.uint32)
    num_words = 0
    instances = _room_for_instances(num_strings)
    num_instances = 0
    buffers = token_buffers(CHUNK_WORDS)
    word_positions = buffers.positions
    chunk_bytes = len(buffers.word_bytes)
    hashed = np.empty((CHUNK_WORDS, 2), np.uint64)
    distinct = new_words(num_text_bytes, chunk_bytes)
    num_terms = 0

    state = np.empty(STATE_SIZE, np.int64)
    selected = np.empty(_INSERTION_MAX, np.int64)
    value = 0
    while value < len(docs):
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
                while True:
                    count, at = tokenize_span(text, at, ends[source], tables, True, state, buffers)
                    if count == 0:
                        break
                    if not _has_room(distinct, num_terms, count, chunk_bytes):
                        distinct = _with_room(distinct, num_terms, count, chunk_bytes)
                    num_terms = number_chunk(
                        buffers, count, hashed, distinct, num_terms, words[num_words:]
                    )
                    for word in range(count):
                        positions[num_words + word] = word_positions[word]
                    num_words += count
                # The field's length counts words, not the gaps between values.
                length += state[0] - position_before
                if num_words > first_word and state[0] > position_before:
                    state[0] += POSITION_GAP
            if num_words > first_word:
                code = encode_length(length, decoded_lengths)
                _put_instance(instances, num_instances, doc, field, code, first_word)
                num_instances += 1
    instances.starts[num_instances] = num_words
    return (
        words[:num_words],
        positions[:num_words],
        FieldInstances(
            instances.docs[:num_instances],
            instances.fields[:num_instances],
            instances.codes[:num_instances],
            instances.starts[: num_instances + 1],
        ),
        distinct.rows[:num_terms],
        distinct.word_bytes,
    )


def vocabulary_order(terms: NDArray[np.int64], term_bytes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the numbers of words in the order of a vocabulary.

    Args:
        terms: per word a row of `DistinctWords`.
        term_bytes: the bytes of the words.
    """
    keys = terms[:, KEY].astype(np.uint64)
    order = np.argsort(keys)
    sort_ties(order, keys, term_bytes, terms)
    return order


@kernel
def arrange_terms(
    terms: Rows[np.int64], term_bytes: U8Array, order: I64Array
) -> tuple[U8Array, I64Array, I64Array]:
    """Put the words into the order of the vocabulary.

    Args:
        terms: per word a row of `DistinctWords`.
        term_bytes: the bytes of the words.
        order: word numbers in the order of the vocabulary.

    Returns:
        (the vocabulary's bytes and starts; by word number, where its occurrences begin among those
        of all words in this order).
    """
    num_terms = len(order)
    sorted_starts = np.empty(num_terms + 1, np.int64)
    sorted_starts[0] = 0
    num_bytes = terms[num_terms - 1, END] if num_terms > 0 else 0
    sorted_bytes = np.zeros(num_bytes + TERM_PADDING, np.uint8)
    first_occurrences = np.empty(num_terms, np.int64)
    num_occurrences = 0
    for rank in range(num_terms):
        number = order[rank]
        start = terms[number, START]
        size = terms[number, END] - start
        target = sorted_starts[rank]
        for offset in range(size):
            sorted_bytes[target + offset] = term_bytes[start + offset]
        sorted_starts[rank + 1] = target + size
        first_occurrences[number] = num_occurrences
        num_occurrences += terms[number, COUNT]
    return sorted_bytes, sorted_starts, first_occurrences
