"""Items, coded by words, and the values that they are stored as, byte by byte."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

from shard.storage.item_compression.word_codec import WordCodec
from shard.storage.item_compression.word_training import train_words
from shard.storage.lmdb_codecs import as_bytes_array

_TITLES = [
    "deep blue sea",
    "Ünïcode crème",
    "日本語 テキスト",
    "один два",
    "a_b c-d",
    "x  y",
    "𝒳 1",
]


def spans(
    items: Sequence[bytes],
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return items joined, with the start and size of each."""
    sizes = np.array([len(item) for item in items], np.int64)
    return as_bytes_array(b"".join(items)), np.cumsum(sizes) - sizes, sizes


def make_item(number: int) -> bytes:
    """Return an item of JSON; its words occur in many others."""
    fields = {
        "id": number,
        "title": f"{_TITLES[number % len(_TITLES)]} {number % 11}",
        "price": number / 100,
        "tags": ["sea", "red"][: number % 3],
        "size": {"width": number % 5},
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


CONTENT = train_words(*spans([make_item(number) for number in range(2_000)]))
assert CONTENT is not None
CODES = WordCodec(CONTENT)


def encode_items(items: Sequence[bytes], codes: WordCodec = CODES) -> list[bytes]:
    """Return the frame of each item; empty where it would not be smaller."""
    frames, sizes = codes.encode(*spans(items))
    ends = np.cumsum(sizes).tolist()
    assert ends[-1:] == [len(frames)][: len(items)]
    return [
        frames[end - size : end].tobytes() for end, size in zip(ends, sizes.tolist(), strict=True)
    ]


def make_value(record: int, codec: int, frame: bytes, place: int = 0) -> bytes:
    """Return the value of an item."""
    rest = bytes([codec]) + place.to_bytes(8, "little") + frame
    checksum = (xxhash.xxh64_intdigest(rest) ^ record) & 0xFFFFFFFF
    return checksum.to_bytes(4, "little") + rest
