"""The fields of an index: how many there may be, and how dead ones go."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

from common.deadline import Deadline
from common.protocol.messages import FieldNamesRequest
from common.protocol.methods import FIELD_NAMES
from coordinator.cluster.fan_out import gather
from tests.http.local_service import LocalService, local_service
from tests.service import Reply

LIMIT = 20
JSON = {"content-type": "application/json"}


def flood(first: int, num_fields: int) -> dict[str, Any]:
    """Return an item with fields that no other has."""
    return {"id": first, **{f"field{first}-{i}": "text" for i in range(num_fields)}}


def code(reply: Reply) -> str:
    assert reply.status == 400, reply.body
    assert f"{LIMIT} (limit index_fields_max)" in reply.json["error"]["message"]
    found: str = reply.json["error"]["code"]
    return found


async def test_a_full_index_refuses_new_fields_only(tmp_path: Path) -> None:
    def use(service: LocalService) -> None:
        with closing(service.client()) as client:
            client.post("/films/configuration", {})
            assert client.post("/films/items", [flood(1, 9), flood(2, 10)]).status == 200
            # 20 fields: any further one is refused, in every way of writing.
            for attempt in (
                client.post("/films/items", [{"id": 3}, {"id": 4, "new": 1}]),
                client.request("PUT", "/films/items/4", b'{"new": 1}', JSON),
                client.request("PATCH", "/films/items/1", b'{"new": 1}', JSON),
                client.request("PATCH", "/films/items", b'[{"id": 1, "new": 1}]', JSON),
                client.post("/films/items/update", {"filter": "", "fields": {"new": 1}}),
                client.post_text("/films/index", b'{"id": 3}\n{"id": 4, "new": {"a": 1}}\n'),
                client.post(
                    "/1/indexes/films/batch",
                    {
                        "requests": [
                            {"action": "addObject", "body": {"objectID": "4", "new": 1}},
                        ]
                    },
                ),
            ):
                if "error" in attempt.json:
                    assert code(attempt) == "too_many_index_fields"
                else:  # Algolia's form
                    assert attempt.status == 400
                    assert "limit index_fields_max" in attempt.json["message"]
            assert client.get("/films/stats").json["items"] == 2
            # Known ones go on, and the others of a load that skips bad lines.
            assert client.post("/films/items", [{"id": 5, "field1-3": 7}]).status == 200
            skipping = client.post_text(
                "/films/index?on_error=skip", b'{"id": 6}\n{"id": 7, "new": 1}\n'
            )
            assert skipping.status == 200, skipping.body
            assert skipping.json["errors"][0]["line"] == 2

    async with local_service(tmp_path / "data", index_fields_max=LIMIT) as service:
        await asyncio.to_thread(use, service)


async def test_dead_fields_go_when_the_configuration_is_posted_again(tmp_path: Path) -> None:
    configuration: dict[str, Any] = {"aggregations": {"tag": {}}}
    items = [{"id": i, "title": f"word{i % 7} film", "tag": f"t{i % 3}"} for i in range(60)]

    def load(service: LocalService) -> Any:
        with closing(service.client()) as client:
            client.post("/films/configuration", configuration)
            assert client.post("/films/items", items).status == 200
            return client.search("films", query="word3 film", per_page=60)["data"]

    def flood_and_delete(service: LocalService) -> None:
        with closing(service.client()) as client:
            for first in range(1_000, 1_008):
                assert client.post("/films/items", [flood(first, 90)]).status == 200
            ids = list(range(1_000, 1_008))
            assert client.post("/films/items/delete", {"ids": ids}).status == 200

    def configure(service: LocalService) -> Any:
        with closing(service.client()) as client:
            assert client.post("/films/configuration", configuration).status == 200
            return client.search("films", query="word3 film", per_page=60)["data"]

    async def field_names(service: LocalService) -> set[str]:
        answers = await gather(
            service.services.cluster,
            FIELD_NAMES,
            FieldNamesRequest(1),
            Deadline.after_ms(10_000),
        )
        return {path for answer in answers for path in answer.paths}

    async with local_service(tmp_path / "data", index_fields_max=800) as service:
        before = await asyncio.to_thread(load, service)
        assert await field_names(service) == {"id", "title", "tag"}
        await asyncio.to_thread(flood_and_delete, service)
        assert len(await field_names(service)) == 3 + 720
        assert await asyncio.to_thread(configure, service) == before
        # So searches cost what they did, and there is room for others.
        assert await field_names(service) == {"id", "title", "tag"}
        await asyncio.to_thread(flood_and_delete, service)
