"""Keys are sorted as bytes compare, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common import string_sort_kernels
from common.string_sort_kernels import sort_keys

PREFIXES = st.sampled_from(
    [b"", b"a", b"prefix", b"eight by", b"a prefix of more than 40 bytes " * 2]
)
KEYS = st.builds(
    lambda prefix, rest: prefix + rest,
    PREFIXES,
    st.binary(max_size=3) | st.sampled_from([b"\0", b"\0\0", b"a\0", b"\xff" * 9]),
)


def sorted_numbers(keys: Sequence[bytes], num_known: int = 0) -> list[int]:
    """Return the order of keys, of which the first ones were sorted before."""
    sizes = [len(key) for key in keys]
    offsets = np.zeros(len(keys) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    arena = np.frombuffer(bytearray(b"".join(keys)), np.uint8)
    known = sort_keys(arena, offsets[: num_known + 1]) if num_known else None
    found: list[int] = sort_keys(arena, offsets, known).tolist()
    return found


@pytest.mark.parametrize("many", [2, 3, 1 << 30])
@pytest.mark.parametrize("levels", [0, 1, 8])
@given(st.lists(KEYS, max_size=40), st.data())
@example([b"a\0", b"a", b"a\0\0", b"", b"a\0"], None)
def test_keys_are_sorted_and_equal_ones_keep_their_order(
    many: int, levels: int, keys: list[bytes], data: st.DataObject | None
) -> None:
    num_known = 0 if data is None else data.draw(st.integers(0, len(keys)))
    with (
        mock.patch.object(string_sort_kernels, "_MANY", many),
        mock.patch.object(string_sort_kernels, "_LEVELS_MAX", levels),
    ):
        found = sorted_numbers(keys, num_known)
    assert found == sorted(range(len(keys)), key=lambda number: (keys[number], number))


def test_very_many_keys_are_sorted() -> None:
    keys = [b"%08d and then %d" % (i * 7919 % 300, i * 104729 % 20_000) for i in range(20_000)]
    assert sorted_numbers(keys) == sorted(
        range(len(keys)), key=lambda number: (keys[number], number)
    )
