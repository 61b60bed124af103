"""The Model Context Protocol server with a key that has a filter, over a real service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from facetd import AsyncClient
from tests.facetd.test_mcp import content_of, official
from tests.service import Service


async def test_a_tenant_sees_its_own_items_with_every_tool(tmp_path: Path) -> None:
    mcp = official()
    from facetd.mcp import create_server

    with Service(tmp_path / "data", 1) as service:
        root = service.client()
        actions = ["search", "write", "configure", "admin"]
        root.headers["x-api-key"] = root.post("/_keys", {"actions": actions}).json["key"]
        root.post("/lamps/configuration", {"aggregations": {"color": {}}})
        root.post(
            "/lamps/items",
            [
                {"id": 1, "tenant": 7, "color": "green", "name": "green lamp"},
                {"id": 2, "tenant": 8, "color": "red", "name": "red lamp"},
            ],
        )
        key: dict[str, Any] = {"actions": ["search"], "filter": "tenant = 7"}
        token = root.post("/_keys", key).json["key"]
        root.close()
        url = f"http://127.0.0.1:{service.port}"
        async with (
            AsyncClient(url, key=token) as client,
            mcp.Client(create_server(client)) as session,
        ):

            async def ask(tool: str, **arguments: Any) -> Any:
                return await session.call_tool(tool, arguments)

            (listed,) = content_of(await ask("list_indexes"))
            described = content_of(await ask("describe_index", index="lamps"))
            found = content_of(await ask("search", index="lamps", query="lamp"))
            values = content_of(await ask("facet_values", index="lamps", facet="color"))
            explained = content_of(await ask("explain", index="lamps", query="lamp"))
            own = content_of(await ask("get_item", index="lamps", id=1))
            foreign = await ask("get_item", index="lamps", id=2)
            sizes = await ask("statistics", index="lamps")

    assert (listed["name"], listed["items"]) == ("lamps", None)
    assert (described["items"], described["example"]["id"]) == (1, 1)
    assert [item["id"] for item in found["items"]] == [1]
    assert values["counts"] == {"green": 1}
    assert [one["id"] for one in explained] == [1]
    assert own["id"] == 1
    assert foreign.is_error
    assert sizes.is_error
