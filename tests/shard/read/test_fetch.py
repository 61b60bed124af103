"""Stored items and fields, as the coordinator fetches them."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from common.protocol.messages import FetchRequest, GetRequest
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


def test_fields_tell_paths_kinds_and_numbers_of_documents() -> None:
    world = World([{"a": 1}, {"a": [None, "x"]}, {"b": {"c": 1.5}}], cuts=[1])
    assert corpus_statistics.fields_of(world.snapshot) == (
        {"path": "a", "num_docs": 2, "kinds": ["string", "integer", "null"]},
        {"path": "b.c", "num_docs": 1, "kinds": ["float"]},
    )
