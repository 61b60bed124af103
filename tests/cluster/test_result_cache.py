"""With the result cache on, answers are still those of the newest state, and of no other client."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.service import Client, Service

CONFIGURATION: dict[str, Any] = {"aggregations": {"genre": {}}}
ITEMS = [{"id": i, "name": "sea story", "genre": "drama" if i % 2 else "crime"} for i in range(20)]


def answered(reply: Any) -> Any:
    """Return an answer without what differs every time."""
    assert reply.status == 200, reply.body
    document = reply.json
    del document["timings"], document["meta"]["request_id"], document["meta"]["took_us"]
    return document


def lookups(client: Client) -> tuple[int, int]:
    text = client.get("/_metrics").body.decode()
    found = dict(re.findall(r'facetd_result_cache_lookups_total\{outcome="(\w+)"\} (\d+)', text))
    return int(found["hit"]), int(found["miss"])


def test_repeated_searches_are_answered_from_the_cache_until_the_next_write(
    tmp_path: Path,
) -> None:
    environment = {"FACETD_RESULT_CACHE_BYTES": "1000000"}
    with (
        Service(tmp_path / "data", 2, environment=environment) as service,
        closing(service.client()) as client,
    ):
        assert client.post("/films/configuration", CONFIGURATION).status == 200
        assert client.post("/films/index", ITEMS).status == 200
        body = {"query": "sea", "filters": {"genre": ["drama"]}, "per_page": 3}
        first = answered(client.post("/films/search", body))
        assert lookups(client) == (0, 1)
        assert answered(client.post("/films/search", body)) == first
        assert lookups(client) == (1, 1)
        other = answered(client.post("/films/search", {**body, "per_page": 4}))
        assert len(other["data"]["items"]) == 4

        assert (
            client.post("/films/items", [{"id": 99, "name": "sea", "genre": "drama"}]).status == 200
        )
        fresh = answered(client.post("/films/search", body))
        assert fresh["pagination"]["total"] == first["pagination"]["total"] + 1
        assert fresh["meta"]["seq"] > first["meta"]["seq"]

        cursor = {"query": "sea", "per_page": 5, "cursor": "*"}
        pages = [client.post("/films/search", cursor).json for _ in range(2)]
        assert pages[0]["data"]["items"] == pages[1]["data"]["items"]
        hits, misses = lookups(client)
        assert (hits, misses) == (1, 3)
