"""Items are decoded byte for byte; damaged codes never decode to something else."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from shard.storage.item_batch_decoding import read_values
from shard.storage.item_compression.word_codec import WordCodec
from shard.storage.item_compression.word_cutting import TOKEN_BYTES_MAX
from shard.storage.item_compression.word_dictionary import DamagedDictionary
from shard.storage.item_compression.word_training import train_words
from tests.shard.storage.values import CODES, CONTENT, encode_items, make_item, make_value, spans


def _decode(frames: Sequence[bytes], codes: WordCodec = CODES) -> list[bytes | None]:
    """Decode frames one by one, and together as the values of a page; both must agree."""
    values = [make_value(record, 17, frame) for record, frame in enumerate(frames)]
    together = read_values(range(len(frames)), values, 17, codes.decoding, sys.maxsize)
    assert together == [codes.decode(frame) for frame in frames]
    return together


PIECES = st.sampled_from(
    [
        *(b'{"id":', b"7", b" ", b"  ", b"sea", b"deep", b'","title":"', b'"', b":", b"}"),
        *(b"a" * 62, b"b" * TOKEN_BYTES_MAX, b"-" * 70, b"\xff", b"\0"),
        *("é".encode(), "語".encode(), "𝒳".encode()),
    ]
)
ITEMS = st.binary(max_size=40) | st.lists(PIECES | st.binary(max_size=3)).map(b"".join)


@given(st.lists(ITEMS | st.integers(0, 10**12).map(make_item), max_size=6))
@example([b"", b" ", b"a", b"a b", b"a" * 200, b"a" * 64 + b" b", b" a ", b'"a":"b":'])
def test_what_was_encoded_comes_back(items: list[bytes]) -> None:
    frames = encode_items(items)
    for frame, item in zip(frames, items, strict=True):
        assert len(frame) < len(item) or not frame
    coded = [pair for pair in zip(frames, items, strict=True) if pair[0]]
    assert _decode([frame for frame, _ in coded]) == [item for _, item in coded]


def test_long_runs_of_known_and_unknown_bytes_come_back() -> None:
    """As part of an item that is long enough for its frame to be smaller in any case."""
    known = b"".join(make_item(number) for number in range(3_000))
    for odd in (b"w" * 10_000, b"q" * 63 + b" " + b"q" * 64, b"=" * 999, bytes(range(256)) * 8):
        item = known + odd + known
        (frame,) = encode_items([item])
        assert 0 < len(frame) < len(item) / 2
        assert _decode([frame]) == [item]


def test_words_with_one_space_between_need_no_code_for_it() -> None:
    start, end = b'{"id":7,"title":"', b'","price":0.07,"tags":["sea"],"size":{"width":2}}'
    apart, touching = (start + words + end for words in (b"deep blue sea 7", b"deepblue sea 7"))
    (frame,), (other,) = encode_items([apart]), encode_items([touching])
    assert 0 < len(frame) < 16
    assert len(other) > len(frame)


@given(st.binary(max_size=60))
@example(b"\x80\x80\x80\x80\x80\x80\x80\x01")
@example(b"\xff\xff\xff\xff\xff\xff\xff\x7f")
def test_hostile_frames_are_refused_or_decode_to_what_they_say(frame: bytes) -> None:
    (item,) = _decode([frame])
    assert item is None or len(item) <= len(frame) * 8 * (TOKEN_BYTES_MAX + 1)


@given(st.integers(0, 1999), st.integers(0, 10**6), st.integers(0, 255))
def test_damaged_frames_leave_their_neighbours_alone(number: int, where: int, byte: int) -> None:
    before, frame, after = encode_items(
        [make_item(number), make_item(number + 1), make_item(number + 2)]
    )
    at = where % len(frame)
    damaged = frame[:at] + bytes([byte]) + frame[at + 1 :]
    for one in (damaged, frame[:at]):
        found = _decode([before, one, after])
        assert (found[0], found[2]) == (make_item(number), make_item(number + 2))


@pytest.mark.parametrize("items", [[], [b""], [b"a", b"b"]], ids=["none", "empty", "different"])
def test_nothing_in_common_gives_no_dictionary(items: list[bytes]) -> None:
    assert train_words(*spans(items)) is None


@given(st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def test_damaged_dictionaries_are_refused_or_harmless(where: int, byte: int, cuts: bool) -> None:
    assert CONTENT is not None
    whole = bytearray(zstandard.ZstdDecompressor().decompress(CONTENT))
    at = where % len(whole)
    if cuts:
        del whole[at:]
    else:
        whole[at] = byte
    try:
        codes = WordCodec(zstandard.ZstdCompressor().compress(bytes(whole)))
    except DamagedDictionary:
        return
    items = [make_item(5), b"some thing else"]
    for frame, item in zip(encode_items(items, codes), items, strict=True):
        assert not frame or _decode([frame], codes) in ([item], [None])
    _decode(encode_items(items), codes)


@pytest.mark.parametrize("content", [b"", b"x" * 100, zstandard.ZstdCompressor().compress(b"")])
def test_a_value_that_is_not_a_dictionary_is_refused(content: bytes) -> None:
    with pytest.raises(DamagedDictionary):
        WordCodec(content)


def test_codes_are_as_short_as_their_tokens_are_frequent() -> None:
    """Fibonacci's numbers ask for the longest codes; they stay within the limit."""
    counts: list[int] = []
    a, b = 1, 1
    while len(counts) < 40:
        counts.append(a)
        a, b = b, a + b
    words = [f"w{i}" for i in range(40)]
    items = [
        (" ".join([word] * min(count, 20_000))).encode()
        for word, count in zip(words, counts, strict=True)
    ]
    content = train_words(*spans(items))
    assert content is not None
    codes = WordCodec(content)
    frames = encode_items([b" ".join([b"w39"] * 50), b" ".join([b"w2"] * 50)], codes)
    assert 0 < len(frames[0]) < len(frames[1])
    assert _decode(frames, codes) == [b" ".join([b"w39"] * 50), b" ".join([b"w2"] * 50)]
