"""The facet key of a value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.value_kinds_and_facet_keys import facet_key


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("drama", "drama"),
        ("Ä ", "Ä "),
        ("", None),
        (True, "true"),
        (False, "false"),
        (1994, "1994"),
        (-0, "0"),
        (-0.0, "0"),
        (9.0, "9"),
        (9.5, "9.5"),
        (1e15, "1000000000000000"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e-4, "0.0001"),
        (1e-5, "1e-05"),
        (0.1 + 0.2, "0.30000000000000004"),
        (2**64 - 1, "18446744073709551615"),
        (None, None),
        ([], None),
        (["a"], None),
        ({"a": 1}, None),
    ],
)
def test_facet_key(value: Any, key: str | None) -> None:
    assert facet_key(value) == key


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_key_of_a_float_names_the_same_float(value: float) -> None:
    key = facet_key(value)

    assert key is not None
    assert float(key) == value
