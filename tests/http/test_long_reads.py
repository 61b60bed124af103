"""Reads of all items hold their state themselves: no cursor lease ends them."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path

from coordinator.routes.matching_scan import PAGE_ITEMS
from tests.http.local_service import local_service
from tests.service import Client

NUM_ITEMS = 3 * PAGE_ITEMS + 1
LEASE_MS = 1
"""Shorter than any page takes."""


def _load(client: Client) -> None:
    items = [{"id": number, "name": "one"} for number in range(NUM_ITEMS)]
    assert client.post("/films/configuration", {}).status == 200
    body = b"\n".join(json.dumps(item).encode() for item in items)
    assert client.post_text("/films/index", body).status == 200


async def test_export_goes_on_after_a_lease_would_have_ended(tmp_path: Path) -> None:
    def export() -> list[int]:
        with closing(service.client()) as client:
            _load(client)
            return [json.loads(line)["id"] for line in client.get("/films/items").body.splitlines()]

    async with local_service(tmp_path / "data", cursor_lease_ms=LEASE_MS) as service:
        assert sorted(await asyncio.to_thread(export)) == list(range(NUM_ITEMS))


async def test_change_by_filter_goes_on_after_a_lease_would_have_ended(tmp_path: Path) -> None:
    def change() -> int:
        with closing(service.client()) as client:
            _load(client)
            document = {"filter": "", "fields": {"name": "two"}}
            assert client.post("/films/items/update", document).status == 200
            total: int = client.search("films", query="two")["pagination"]["total"]
            return total

    async with local_service(tmp_path / "data", cursor_lease_ms=LEASE_MS) as service:
        assert await asyncio.to_thread(change) == NUM_ITEMS


async def test_export_keeps_no_state_when_it_is_over(tmp_path: Path) -> None:
    def export() -> list[bytes]:
        with closing(service.client()) as client:
            _load(client)
            assert client.get("/films/items").status == 200
            metrics = client.get("/_metrics").body.splitlines()
            return [line for line in metrics if line.startswith(b"facetd_states_in_use")]

    async with local_service(tmp_path / "data", cursor_lease_ms=60_000) as service:
        assert await asyncio.to_thread(export) == [b"facetd_states_in_use 0.0"]
