"""Hypothesis strategies for items as JSON bytes, written in every way that the same item may be
written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

from hypothesis import strategies as st

texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["", "id", "a", 'quo"te', "back\\slash", "tab\t", "\x00", "é", "日本語", "🎬", "\u2028"]
)
keys = st.sampled_from(["id", "a", "b", "tags", "a.b", "", "é", 'q"', "\\", "longer key"]) | texts
integers = st.integers(-(2**63), 2**64 - 1) | st.integers(-20, 20)
floats = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 9.0, 9.5, 1e15, 1e16, 1e20, 1e21, 1e22, 1e-4, 1e-5, 0.1 + 0.2, 5e-324]
)
scalars = st.none() | st.booleans() | integers | floats | texts


class Token(str):
    """A number that is to be written as it stands."""

    __slots__ = ()


def number_tokens() -> Iterator[Token]:
    """Yield floats as clients may write them: zeros at the end, exponents, many digits."""
    wholes = ["0", "1", "9", "10", "123", "123456789012345678"]
    fractions = ["", ".0", ".5", ".50", ".0001", ".00001", ".00010", ".1234567890123456789"]
    exponents = ["", "e0", "E5", "e+21", "e-7", "e22", "e-300", "e280"]
    for sign, whole, fraction, exponent in product(["", "-"], wholes, fractions, exponents):
        if fraction or exponent:
            yield Token(sign + whole + fraction + exponent)


class Pairs(list[Any]):
    """An object as a list of (key, value), so that keys may come twice."""


values = st.recursive(
    scalars
    | st.sampled_from(list(number_tokens())),  # drawn as one: drawing takes most of the time
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(st.tuples(keys, inner), max_size=5).map(Pairs)
    ),
    max_leaves=12,
)


@st.composite
def items(draw: st.DrawFn) -> bytes:
    """One item, with or without white space, escapes and duplicate keys."""
    item = Pairs(draw(st.lists(st.tuples(keys, values), max_size=8)))
    item = Pairs((key, value) for key, value in item if key != "id")
    if draw(st.booleans()):
        identifier = draw(st.integers(0, 2**63 - 1) | texts.filter(bool))
        item.insert(draw(st.integers(0, len(item))), ("id", identifier))
    space = draw(st.sampled_from(["", " ", "\n\t ", "\r"]))
    return write(item, space, ensure_ascii=draw(st.booleans())).encode()


def write(value: Any, space: str, *, ensure_ascii: bool) -> str:
    """Return the value as JSON text."""
    if isinstance(value, Token):
        return str(value)
    if isinstance(value, Pairs):
        members = (
            json.dumps(key, ensure_ascii=ensure_ascii)
            + space
            + ":"
            + space
            + write(inner, space, ensure_ascii=ensure_ascii)
            for key, inner in value
        )
        return "{" + space + ("," + space).join(members) + space + "}"
    if isinstance(value, list):
        inner = (space + "," + space).join(
            write(element, space, ensure_ascii=ensure_ascii) for element in value
        )
        return "[" + space + inner + space + "]"
    return json.dumps(value, ensure_ascii=ensure_ascii)
