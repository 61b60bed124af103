"""Eight bytes as a number whose order is that of the bytes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from common.kernels.big_endian import load_big_endian


@given(st.binary(min_size=8, max_size=30), st.data())
def test_the_first_of_eight_bytes_is_the_highest(content: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(content) - 8))
    number = load_big_endian(np.frombuffer(bytearray(content), np.uint8), position)
    assert int(number) == int.from_bytes(content[position : position + 8], "big")
