"""The text index against dictionaries; merged against built at once; packing round trips."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.analysis import edit_distance_kernels
from shard.segment.field_registry import FieldRegistry
from shard.segment.merge_state import MergeState
from shard.segment.segment import Segment
from shard.segment.text.field_lengths import DECODED_LENGTHS, encode_length
from shard.segment.text.positions import decode_varint, encode_varint, skip_varints
from shard.segment.text.postings import (
    BLOCK_ENTRIES,
    BLOCK_HEADER_BYTES,
    ENTRY_BYTES_MAX,
    LEAST_FIELD_MAX,
    POSTINGS_PADDING,
    Entries,
    decode_block,
    encode_block,
    new_block,
)
from shard.segment.text.text_index import TextIndex, text_index
from shard.segment.text.text_merge import merge_text
from tests.shard.text_model import join, list_places, make_segment, osa_distance

WORDS = st.sampled_from(
    [
        "a",
        "b",
        "sea",
        "seal",
        "tea",
        "rain",
        "raining",
        "trainstation",
        "trainstations",
        "Ünïcode",
        "日本語",
        "ที่ดี",
        "don't",
        "x1",
    ]
)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)
VALUES = TEXTS | st.lists(TEXTS, max_size=3) | st.fixed_dictionaries({"c": TEXTS})
ITEMS = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", "list", "deep"]), VALUES, max_size=4), max_size=12
)


def _distance(word: str, term: str, edits_max: int, *, is_prefix: bool) -> int | None:
    """Return the kernel's OSA distance, or None if it is greater than `edits_max`."""
    encoded = np.frombuffer(bytearray(term.encode()), np.uint8)
    points = np.frombuffer(bytearray(word.encode("utf-32-le")), np.int32)
    band = np.empty((3, 5), np.int64)
    distance = int(
        edit_distance_kernels.osa_distance(
            points, encoded, 0, len(encoded), edits_max, is_prefix, band
        )
    )
    return distance if 0 <= distance <= edits_max else None


def read_all(
    index: TextIndex, registry: FieldRegistry
) -> dict[str, dict[tuple[int, str], list[int]]]:
    """Read every posting and position of an index, block by block."""
    result: dict[str, dict[tuple[int, str], list[int]]] = {}
    block = Entries(*new_block())
    docs, fields, freqs = block
    lists, places = index.lists, index.positions
    for term, text in enumerate(index.vocabulary.terms(0, len(index.vocabulary))):
        entries = result[text] = {}
        at = int(lists.posting_starts[term])
        cursor = int(places.position_starts[term])
        row = int(lists.skip_starts[term])
        left = int(lists.entry_counts[term])
        while left:
            count = min(left, BLOCK_ENTRIES)
            if lists.skip_starts[term] != lists.skip_starts[term + 1]:
                assert lists.skip_postings[row] == at - lists.posting_starts[term]
                assert places.skip_positions[row] == cursor - places.position_starts[term]
            at = int(decode_block(lists.postings, at, count, block))
            if lists.skip_starts[term] != lists.skip_starts[term + 1]:
                assert lists.skip_docs[row] == docs[0]
            row += 1
            left -= count
            for i in range(count):
                positions = []
                position = 0
                for _ in range(freqs[i]):
                    delta, cursor = decode_varint(places.positions, cursor)
                    position += delta
                    positions.append(position)
                entries[int(docs[i]), registry.paths[fields[i]]] = positions
        assert at == lists.posting_starts[term + 1]
        assert cursor == places.position_starts[term + 1]
        assert index.doc_freqs[term] == len({doc for doc, _ in entries})
    return result


@given(ITEMS)
def test_an_index_holds_every_word_of_every_text(items: list[dict[str, Any]]) -> None:
    registry = FieldRegistry()
    index = text_index(make_segment(items, registry))
    places, lengths = list_places(items)

    assert read_all(index, registry) == places
    assert list(index.vocabulary.terms(0, len(index.vocabulary))) == sorted(
        places, key=lambda term: term.encode()
    )
    totals: dict[str, int] = {}
    for (_, path), length in lengths.items():
        totals[path] = totals.get(path, 0) + length
    assert {
        registry.paths[number]: total
        for number, total in zip(
            index.length_fields.tolist(), index.field_totals.tolist(), strict=True
        )
    } == totals


@given(ITEMS, st.data())
def test_merged_segments_equal_one_built_from_the_kept_items(
    items: list[dict[str, Any]], data: st.DataObject
) -> None:
    registry = FieldRegistry()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(items)), max_size=3)))
    is_kept = data.draw(st.lists(st.booleans(), min_size=len(items), max_size=len(items)))
    parts = []
    maps = []
    num_docs = 0
    for start, end in zip([0, *cuts], [*cuts, len(items)], strict=True):
        parts.append(make_segment(items[start:end], registry))
        doc_map = np.full(end - start, -1, np.int64)
        for i in range(start, end):
            if is_kept[i]:
                doc_map[i - start] = num_docs
                num_docs += 1
        maps.append(doc_map)

    merged = join(merge_text(MergeState.of(parts, maps)))

    kept = [item for item, keep in zip(items, is_kept, strict=True) if keep]
    built = make_segment(kept, registry)
    assert sorted(merged) == sorted(built)
    for name, array in merged.items():
        assert array.dtype == built[name].dtype, name
        assert array.tolist() == built[name].tolist(), name


def test_long_lists_have_skip_rows_and_survive_a_merge() -> None:
    registry = FieldRegistry()
    items = [{"t": "every", "u": "every " * (i % 4)} for i in range(700)]
    index = text_index(make_segment(items, registry))
    assert len(index.lists.skip_docs) > 5
    assert read_all(index, registry) == list_places(items)[0]

    parts = [make_segment(items[:300], registry), make_segment(items[300:], registry)]
    maps = [np.arange(300), np.arange(300, 700)]
    merged = TextIndex(Segment(join(merge_text(MergeState.of(parts, maps))), num_docs=700))
    assert read_all(merged, registry) == list_places(items)[0]


def test_a_batch_with_more_distinct_words_than_the_first_table_holds() -> None:
    registry = FieldRegistry()
    items = [{"t": " ".join(f"word{i * 100 + j}" for j in range(100))} for i in range(80)]
    index = text_index(make_segment(items, registry))
    assert read_all(index, registry) == list_places(items)[0]


ENTRIES = st.lists(
    st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1), st.integers(1, (1 << 24) - 1)),
    min_size=1,
    max_size=BLOCK_ENTRIES,
    unique_by=lambda entry: entry[:2],
)


def pack(entries: list[tuple[int, int, int]]) -> bytes:
    """Return the block of entries, bit by bit as `shard.segment.text.postings` draws it."""
    docs, fields, freqs = zip(*entries, strict=True)
    least = min(*fields, LEAST_FIELD_MAX)
    deltas = [0, *(doc - before for before, doc in itertools.pairwise(docs))]
    delta_bits, field_bits, freq_bits = (
        max(numbers).bit_length()
        for numbers in (deltas, [one - least for one in fields], [one - 1 for one in freqs])
    )
    bits = 0
    size = 0
    for delta, field, freq in zip(deltas, fields, freqs, strict=True):
        low = (field - least) << freq_bits | freq - 1
        bits |= (delta << field_bits + freq_bits | low) << size
        size += delta_bits + field_bits + freq_bits
    header = delta_bits | field_bits << 6 | freq_bits << 11
    return b"".join(
        (
            header.to_bytes(2, "little"),
            least.to_bytes(1, "little"),
            docs[0].to_bytes(4, "little"),
            bits.to_bytes((size + 7) // 8, "little"),
        )
    )


@given(ENTRIES | ENTRIES.map(lambda entries: [(d % 50, f % 3, n % 4 + 1) for d, f, n in entries]))
def test_blocks_survive_packing(entries: list[tuple[int, int, int]]) -> None:
    entries = sorted(entries)
    block = Entries(
        np.array([entry[0] for entry in entries], np.uint32),
        np.array([entry[1] for entry in entries], np.uint16),
        np.array([entry[2] for entry in entries], np.uint32),
    )
    out = np.full(
        3 + BLOCK_HEADER_BYTES + ENTRY_BYTES_MAX * len(entries) + POSTINGS_PADDING, 77, np.uint8
    )

    end = encode_block(out, 3, block, len(entries))

    assert out[:end].tobytes() == b"MMM" + pack(entries)
    read = Entries(*new_block())
    assert decode_block(out, 3, len(entries), read) == end
    assert [array[: len(entries)].tolist() for array in read] == [one.tolist() for one in block]


@pytest.mark.parametrize(("least", "num_bits"), [(0, 1), (6, 1), (255, 1), (300, 6)])
def test_neighbouring_fields_take_one_bit_whatever_their_numbers(least: int, num_bits: int) -> None:
    count = 64
    block = Entries(
        np.repeat(np.arange(count // 2, dtype=np.uint32), 2),
        np.tile(np.array([least, least + 1], np.uint16), count // 2),
        np.ones(count, np.uint32),
    )
    out = np.zeros(1_000, np.uint8)

    end = encode_block(out, 0, block, count)

    assert end == BLOCK_HEADER_BYTES + count * (1 + num_bits) // 8
    read = Entries(*new_block())
    assert decode_block(out, 0, count, read) == end
    assert read.fields[:count].tolist() == block.fields.tolist()


@given(st.lists(st.integers(0, 2**32 - 1), max_size=50))
def test_varints_survive(numbers: list[int]) -> None:
    out = np.zeros(5 * len(numbers) + 1, np.uint8)
    cursor = 0
    for number in numbers:
        cursor = encode_varint(out, cursor, number)
    assert skip_varints(out, 0, len(numbers)) == cursor
    cursor = 0
    for number in numbers:
        found, cursor = decode_varint(out, cursor)
        assert found == number


class TestLengthCodes:
    def test_every_code_stands_for_itself(self) -> None:
        codes = [int(encode_length(int(length), DECODED_LENGTHS)) for length in DECODED_LENGTHS]
        assert codes == list(range(256))

    @given(st.integers(1, 9_000_000))
    def test_is_near(self, length: int) -> None:
        decoded = int(DECODED_LENGTHS[encode_length(length, DECODED_LENGTHS)])
        assert abs(decoded - length) <= 0.034 * length  # 179 is worst: 173 or 185


LETTERS = st.text(alphabet="abcя", min_size=1, max_size=9)


class TestVocabulary:
    @given(st.sets(LETTERS | st.text("ab", min_size=8, max_size=12), max_size=25), LETTERS)
    def test_exact_and_prefix_as_by_comparing_all(self, terms: set[str], word: str) -> None:
        index = text_index(make_segment([{"t": " ".join(terms)}], FieldRegistry()))
        vocabulary = index.vocabulary
        listed = vocabulary.terms(0, len(vocabulary)) if len(vocabulary) else []
        assert listed == sorted(terms, key=str.encode)
        assert vocabulary.find(word) == (listed.index(word) if word in listed else None)
        words = [word, *listed, word + "x"]
        expected = [listed.index(one) if one in listed else -1 for one in words]
        assert vocabulary.find_all(words) == expected
        known, ends = vocabulary.find_known(words)
        assert known.tolist() == [term for term in expected if term >= 0]
        assert np.diff(ends, prepend=0).tolist() == [int(term >= 0) for term in expected]
        first, last = vocabulary.prefix_range(word)
        assert listed[first:last] == [term for term in listed if term.startswith(word)]

    @given(
        st.sets(st.text(alphabet="abcdя17", min_size=1, max_size=9), max_size=25),
        st.text(alphabet="abcdя", min_size=2, max_size=8),
        st.integers(1, 2),
        st.booleans(),
    )
    def test_similar_terms_as_by_the_full_table(
        self, terms: set[str], word: str, edits_max: int, is_prefix: bool
    ) -> None:
        index = text_index(make_segment([{"t": " ".join(terms)}], FieldRegistry()))
        listed = index.vocabulary.terms(0, len(index.vocabulary)) if terms else []
        found, distances = index.vocabulary.similar(word, edits_max, is_prefix=is_prefix)

        expected = {}
        for term in listed:
            beginnings = range(len(term) + 1) if is_prefix else [len(term)]
            distance = min(
                # No typo falls on a digit, and the word has none.
                99 if set(term[:length]) & {"1", "7"} else osa_distance(word, term[:length])
                for length in beginnings
            )
            is_near = distance <= edits_max
            plain = distance if is_near else None
            assert _distance(word, term, edits_max, is_prefix=is_prefix) == plain
            # Another first letter is one edit more.
            distance += term[0] != word[0]
            if is_near and distance <= 2:
                expected[term] = distance
        assert {
            listed[ordinal]: distance
            for ordinal, distance in zip(found.tolist(), distances.tolist(), strict=True)
        } == expected

    @pytest.mark.parametrize(
        ("word", "term", "distance"),
        [
            ("sae", "sea", 1),
            ("ca", "abc", None),
            ("shwashank", "shawshank", 1),
            ("a", "a", 0),
            ("iphones", "iphone8", None),
            ("model", "mode2", None),
        ],
    )
    def test_a_transposition_is_one_edit(self, word: str, term: str, distance: int | None) -> None:
        assert _distance(word, term, 2, is_prefix=False) == distance
