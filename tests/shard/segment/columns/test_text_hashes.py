"""Hashes of texts are those of hashlib."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from common.key_arena import KeyArena
from shard.segment.columns.text_hashes import hash_texts

LENGTHS = (0, 1, 7, 8, 9, 127, 128, 129, 255, 256, 257, 1_000)


@given(st.lists(st.binary(max_size=40) | st.sampled_from(LENGTHS).map(lambda n: b"x" * n)))
@example([bytes(range(200)) * 2, *[b"\xff" * length for length in LENGTHS]])
def test_hashes_are_those_of_hashlib(texts: list[bytes]) -> None:
    offsets = np.cumsum([0, *map(len, texts)])
    arena = KeyArena(np.frombuffer(bytearray(b"".join(texts)), np.uint8), offsets)
    numbers = np.arange(len(texts))[::-1].copy()
    expected = [
        int.from_bytes(blake2b(text, digest_size=8).digest(), "little") for text in texts[::-1]
    ]
    assert hash_texts(arena, numbers).tolist() == expected
