"""Changes of stored values against a naive model, and at the edges of types and ranges."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.partial_updates import (
    NAMES,
    ConditionFailed,
    Inapplicable,
    as_item,
    is_change,
    mistake_in,
    resolved,
)

_scalars = st.sampled_from([0, 1, -2, 1.5, "a", "b", "1"])
_stored = st.one_of(
    _scalars,
    st.sampled_from([None, True]),
    st.lists(st.one_of(_scalars, st.just(True)), max_size=4),
)
_changes = st.builds(
    lambda name, value: {"_operation": name, "value": value}, st.sampled_from(NAMES), _scalars
).filter(lambda change: mistake_in(change) is None)


def is_number(value: Any) -> bool:
    return type(value) in (int, float)


def naive(change: dict[str, Any], old: Any) -> Any:
    """Return the new value, an exception's class, or None where there is no value."""
    name, value = change["_operation"], change["value"]
    if name in ("Add", "AddUnique", "Remove"):
        if old is None:
            return None if name == "Remove" else [value]
        if not isinstance(old, list):
            return Inapplicable
        is_there = [one == value and one is not True for one in old]
        if name == "Remove":
            return [one for one, same in zip(old, is_there, strict=True) if not same]
        return old if name == "AddUnique" and any(is_there) else [*old, value]
    old = 0 if old is None else old
    if not is_number(old) or (name.startswith("IncrementF") and type(old) is float):
        return Inapplicable
    if name == "Increment":
        return old + value
    if name == "Decrement":
        return old - value
    if type(old) is float:
        return Inapplicable
    if name == "IncrementFrom":
        return old + 1 if old == value else ConditionFailed
    return value if value > old else ConditionFailed


@given(_stored, _changes)
def test_changes_equal_the_naive_model(old: Any, change: dict[str, Any]) -> None:
    expected = naive(change, old)
    changes, stored = orjson.dumps({"id": 1, "a": change, "b": {"c": 1}}), orjson.dumps({"a": old})
    if expected in (Inapplicable, ConditionFailed):
        with pytest.raises(expected):
            resolved(changes, stored)
        return
    result = orjson.loads(resolved(changes, stored))
    assert result.pop("id") == 1
    assert result.pop("b") == {"c": 1}
    assert result == ({} if expected is None else {"a": expected})


@pytest.mark.parametrize(
    ("old", "name", "value"),
    [
        (2**64 - 1, "Increment", 1),
        (-(2**63), "Decrement", 1),
        (1e308, "Increment", 1e308),
        (2**64 - 1, "IncrementFrom", 2**64 - 1),
    ],
)
def test_results_out_of_range_are_refused(old: float, name: str, value: float) -> None:
    change = {"a": {"_operation": name, "value": value}}
    with pytest.raises(Inapplicable):
        resolved(orjson.dumps(change), orjson.dumps({"a": old}))


def test_elements_that_stay_are_kept_digit_for_digit() -> None:
    change = {"a": {"_operation": "Remove", "value": 1}}
    assert (
        resolved(orjson.dumps(change), b'{"a":[1.50,1.0,1,1e2,true]}') == b'{"a":[1.50,1e2,true]}'
    )


def test_an_item_shows_the_fields_that_changes_make() -> None:
    changes = {
        "n": {"_operation": "Increment", "value": 2},
        "t": {"_operation": "Add", "value": "x"},
        "o": {"value": 3},
    }
    assert as_item(changes) == {"n": 2, "t": ["x"], "o": {"value": 3}}
    assert not is_change(changes["o"])
