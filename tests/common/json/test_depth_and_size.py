"""The shape of a JSON text is that of its value, and costs one pass over its bytes."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.json.depth_and_size import shape_of

values = st.recursive(
    st.none() | st.integers(-5, 5) | st.text('a"\\[]{}é', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text('a"\\[{', max_size=4), inner, max_size=3)
    ),
    max_leaves=30,
)


def depth(value: object) -> int:
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 0


def num_values(value: object) -> int:
    if isinstance(value, list | dict):
        inside = value if isinstance(value, list) else value.values()
        return 1 + max(1, sum(map(num_values, inside)))
    return 1


@given(values)
def test_it_is_that_of_the_value(value: object) -> None:
    shape = shape_of(orjson.dumps(value), 1_000)
    assert shape.depth == depth(value)
    assert shape.num_values == num_values(value)


@given(st.binary(max_size=200) | st.text('"\\[]{}', max_size=40).map(str.encode))
def test_any_bytes_have_one(body: bytes) -> None:
    shape = shape_of(body, 1_000)
    num_brackets = body.count(b"[") + body.count(b"{")
    assert 0 <= shape.depth <= num_brackets
    assert 1 <= shape.num_values <= 1 + num_brackets + body.count(b",")


@pytest.mark.parametrize("body", [b"", b'"', b'"\\', b'["\\"', b'["[[[[', b"]]]]["])
def test_broken_texts_are_read_to_their_end(body: bytes) -> None:
    assert shape_of(body, 1_000).depth <= 1


def test_it_stops_past_the_depth_asked_for() -> None:
    assert shape_of(b"[" * 1_000, 64).depth == 65
