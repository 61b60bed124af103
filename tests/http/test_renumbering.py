"""A facet of ever new values: unused ones are dropped when the configuration is applied again."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shard.partition import reindex
from tests.http.local_service import local_service
from tests.service import Client

CONFIGURATION: dict[str, Any] = {"aggregations": {"session": {"size": 100}, "colour": {}}}
NUM_ITEMS = 60
GROUPS = 300
"""More than the log of groups keeps: what died in those is still built, hidden."""


def _buckets(client: Client) -> dict[str, dict[str, int]]:
    found = client.search("visits")["data"]["aggregations"]
    return {
        name: {one["key"]: one["doc_count"] for one in facet["buckets"]}
        for name, facet in found.items()
    }


async def test_dead_values_go_on_all_shards_and_in_the_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reindex, "DEAD_VALUES_MIN", 1_000)

    def known() -> int:
        (cache,) = service.services.search._services.caches._caches.values()
        return len(cache.facets.values("session"))

    def run() -> tuple[int, int]:
        with closing(service.client()) as client:
            assert client.post("/visits/configuration", CONFIGURATION).status == 200
            for number in range(GROUPS):
                items = [
                    {"id": key, "session": f"{number} {key}", "colour": "rg"[key % 2]}
                    for key in range(NUM_ITEMS)
                ]
                assert client.post("/visits/items", items).status == 200
            before = _buckets(client)
            assert before["session"] == {f"{GROUPS - 1} {key}": 1 for key in range(NUM_ITEMS)}
            num_before = known()
            assert client.post("/visits/configuration", CONFIGURATION).status == 200
            assert _buckets(client) == before
            return num_before, known()

    async with local_service(tmp_path / "data") as service:
        num_before, num_after = await asyncio.to_thread(run)
    assert num_before == GROUPS * NUM_ITEMS
    assert 2 * num_after < num_before
