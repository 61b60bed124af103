"""Projection and additions leave the rest of an item as it was stored."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.read.hit_rendering import Projection, add_members

ITEM = orjson.dumps(
    {
        "id": 1,
        "name": "Léon",
        "a": {"b": 1, "c": [{"d": 2, "e": 3}, {"e": 4}, 5]},
        "x.y": True,
        "x": {"y": False, "z": None},
    }
)


def naive(value: Any, paths: list[list[str]], *, keeps: bool) -> Any:
    """Project by looking at every path for every key."""
    if isinstance(value, list):
        return [naive(one, paths, keeps=keeps) for one in value if not keeps or type(one) is dict]
    if not isinstance(value, dict):
        return value
    result = {}
    for key, member in value.items():
        rests = [
            path[length:]
            for path in paths
            for length in range(1, len(path) + 1)
            if ".".join(path[:length]) == key
        ]
        if any(key.startswith(".".join(path) + ".") for path in paths):
            rests.append([])  # inside of what the path names
        if [] in rests or not rests:
            if bool(rests) is keeps:
                result[key] = member
        elif not keeps:
            result[key] = naive(member, rests, keeps=False)
        elif isinstance(member, dict | list) and (kept := naive(member, rests, keeps=True)):
            result[key] = kept
    return result


keys = st.sampled_from(["a", "b", "a.b", "b.a", "a.b.a", "", "."])
items = st.dictionaries(
    keys,
    st.recursive(
        st.integers(0, 9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=12,
    ),
    max_size=4,
)
paths = st.lists(st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=6), max_size=5)


@given(item=items, paths=paths, keeps=st.booleans())
def test_projection_is_that_of_looking_at_every_path(
    item: dict[str, Any], paths: list[list[str]], keeps: bool
) -> None:
    fields = [".".join(path) for path in paths]
    projection = Projection(fields, None) if keeps else Projection(None, fields)
    shown = projection.of_item(item)
    assert shown == naive(item, [field.split(".") for field in fields], keeps=keeps)
    assert list(shown) == [key for key in item if key in shown]


def test_many_fields_of_many_parts_cost_one_lookup_for_each_key() -> None:
    """256 fields of 128 parts, and items with as many levels as they may have."""
    item: Any = 1
    for _ in range(63):
        item = {"a": item, "b": 1}
    fields = [".".join(["a"] * 127 + [f"{i}"]) for i in range(256)]
    began = time.process_time()
    projection = Projection(None, fields)
    for _ in range(1_000):
        assert projection.of_item(item) == item
    assert time.process_time() - began < 5.0  # comparing all paths with each key takes an hour


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["id", "name"], {"id": 1, "name": "Léon"}),
        (["a.b"], {"a": {"b": 1}}),
        (["a.c.e"], {"a": {"c": [{"e": 3}, {"e": 4}]}}),
        (["x.y"], {"x.y": True, "x": {"y": False}}),
        (["x"], {"x.y": True, "x": {"y": False, "z": None}}),
        (["nothing", "a.nothing"], {}),
    ],
)
def test_only_some_fields(fields: list[str], expected: dict[str, object]) -> None:
    assert orjson.loads(Projection(fields, None).of(ITEM)) == expected


@pytest.mark.parametrize(
    ("excluded", "gone"),
    [
        (["a", "x.y", "x"], {"id": 1, "name": "Léon"}),
        (["a", "x"], {"id": 1, "name": "Léon"}),
        (
            ["a.c.e", "name", "x", "x.y"],
            {"id": 1, "a": {"b": 1, "c": [{"d": 2}, {}, 5]}},
        ),
    ],
)
def test_without_some_fields(excluded: list[str], gone: dict[str, object]) -> None:
    assert orjson.loads(Projection(None, excluded).of(ITEM)) == gone


@pytest.mark.parametrize("stored", [b"{}", b"{ }", b'{"a": 1}', b'{"a":"}"} ', b'{"a":{}}\n'])
def test_added_members_keep_the_stored_bytes(stored: bytes) -> None:
    rendered = add_members(stored, {"_score": 1.5})
    assert orjson.loads(rendered) == {**orjson.loads(stored), "_score": 1.5}
    assert rendered.startswith(stored.rstrip()[:-1])
    assert add_members(stored, {}) is stored
