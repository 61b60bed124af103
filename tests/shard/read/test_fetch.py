"""Stored items, facet values and fields, as the coordinator fetches them."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from common.protocol.messages import (
    FacetValuesRequest,
    FetchRequest,
    GetRequest,
)
from shard.read import corpus_statistics, fetch
from tests.shard.columns_model import World


def test_get_finds_the_live_item_of_an_id_only() -> None:
    world = World(
        [{"id": 5, "v": 1}, {"id": "x"}, {"id": "5", "v": 2}, {}], cuts=[2], deleted=frozenset({0})
    )

    def get(identifier: bytes) -> Any:
        document = fetch.get(world.snapshot, GetRequest(1, 1, identifier)).document
        return None if document is None else orjson.loads(document)

    assert get(b"5") == {"id": "5", "v": 2}
    assert get(b"x") == {"id": "x"}
    assert get(b"y") is None


def test_fetch_returns_documents_in_the_order_asked_for() -> None:
    world = World([{"id": n} for n in range(5)], cuts=[2])
    records = np.array([4, 0, 3], np.uint64).tobytes()
    found = fetch.fetch(world.snapshot, FetchRequest(1, 1, 1, records))
    assert [orjson.loads(one or b"{}")["id"] for one in found.documents] == [4, 0, 3]
    assert found.marks == ()


def test_facet_values_are_the_tail_of_the_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([{"tags": ["a", "b"]}, {"tags": "c"}])
    epoch = world.snapshot.dictionaries["tags"].epoch
    ask = fetch.facet_values
    monkeypatch.setattr(fetch, "FACET_VALUES_MAX", 1)
    first = ask(world.snapshot, FacetValuesRequest(1, "tags", epoch, 0))
    assert (first.keys, first.sizes) == (b"a", b"\1\0\0\0")
    monkeypatch.undo()
    tail = ask(world.snapshot, FacetValuesRequest(1, "tags", epoch, 1))
    assert (tail.epoch, tail.start, tail.keys) == (epoch, 1, b"bc")
    other = ask(world.snapshot, FacetValuesRequest(1, "tags", epoch + 1, 2))
    assert (other.epoch, other.start, other.keys) == (epoch, 0, b"abc")
    assert ask(world.snapshot, FacetValuesRequest(1, "no", 0, 0)).sizes == b""


def test_fields_tell_paths_kinds_and_numbers_of_documents() -> None:
    world = World([{"a": 1}, {"a": [None, "x"]}, {"b": {"c": 1.5}}], cuts=[1])
    assert corpus_statistics.fields_of(world.snapshot) == (
        {"path": "a", "num_docs": 2, "kinds": ["string", "integer", "null"]},
        {"path": "b.c", "num_docs": 1, "kinds": ["float"]},
    )
