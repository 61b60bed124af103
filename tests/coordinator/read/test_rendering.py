"""Projection and additions leave the rest of an item as it was stored."""

from __future__ import annotations

import orjson
import pytest

from coordinator.read.rendering import add_members, project

ITEM = orjson.dumps(
    {
        "id": 1,
        "name": "Léon",
        "a": {"b": 1, "c": [{"d": 2, "e": 3}, {"e": 4}, 5]},
        "x.y": True,
        "x": {"y": False, "z": None},
    }
)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["id", "name"], {"id": 1, "name": "Léon"}),
        (["a.b"], {"a": {"b": 1}}),
        (["a.c.e"], {"a": {"c": [{"e": 3}, {"e": 4}]}}),
        (["x.y"], {"x.y": True, "x": {"y": False}}),
        (["nothing", "a.nothing"], {}),
    ],
)
def test_only_some_fields(fields: list[str], expected: dict[str, object]) -> None:
    assert orjson.loads(project(ITEM, fields, None)) == expected


@pytest.mark.parametrize(
    ("excluded", "gone"),
    [
        (["a", "x.y", "x"], {"id": 1, "name": "Léon"}),
        (
            ["a.c.e", "name", "x", "x.y"],
            {"id": 1, "a": {"b": 1, "c": [{"d": 2}, {}, 5]}},
        ),
    ],
)
def test_without_some_fields(excluded: list[str], gone: dict[str, object]) -> None:
    assert orjson.loads(project(ITEM, None, excluded)) == gone


@pytest.mark.parametrize("stored", [b"{}", b"{ }", b'{"a": 1}', b'{"a":"}"} ', b'{"a":{}}\n'])
def test_added_members_keep_the_stored_bytes(stored: bytes) -> None:
    rendered = add_members(stored, {"_score": 1.5})
    assert orjson.loads(rendered) == {**orjson.loads(stored), "_score": 1.5}
    assert rendered.startswith(stored.rstrip()[:-1])
    assert add_members(stored, {}) is stored
