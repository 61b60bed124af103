"""Coordinator and shards hash the path of a field alike: FNV-1a, continued from the parent's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.field_path_hash import HASH_BASIS, hash_path


def hash_of(path: bytes) -> int:
    return int(hash_path(np.frombuffer(bytearray(path), np.uint8)))


@pytest.mark.parametrize(
    ("path", "expected"),
    [(b"", 0xCBF29CE484222325), (b"a", 0xAF63DC4C8601EC8C), (b"foobar", 0x85944171F73967E8)],
)
def test_it_is_fnv_1a(path: bytes, expected: int) -> None:
    """The published test vectors of the hash."""
    assert hash_of(path) == expected


@given(st.text(max_size=20))
def test_it_goes_on_byte_by_byte(path: str) -> None:
    expected = int(HASH_BASIS)
    for byte in path.encode():
        expected = (expected ^ byte) * 0x100000001B3 % (1 << 64)
    assert hash_of(path.encode()) == expected
