"""From a user's complaint ("request 4f2a-1b failed") to the lines of the shards that served it."""

from __future__ import annotations

import json
import re
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from common.process.request_id_context import REQUEST_IDS_MAX
from tests.service import Client, Service
from tests.waiting import wait_until

NUM_ITEMS = 4_000
ENVIRONMENT = {
    # Each shard fails its first group, as a bug would, and is slow to commit the others.
    "FACETD_FAULTS": "writer.receive=error@1,writer.commit=delay:15",
}
ARGUMENTS = ("--set", "shard.slow_call_ms=1")


def shard_lines(service: Service, style: str) -> list[dict[str, Any]]:
    """Return process, event and ids of every line that a shard wrote."""
    lines = []
    for line in service.log().splitlines():
        if style == "json" and line.startswith("{"):
            lines.append(json.loads(line))
        elif style == "text":
            found = re.match(r'\S+ \w+ (shard-\d) "([^"]*)"(.*)', line)
            if found:
                process, event, rest = found.groups()
                fields = dict(re.findall(r' (\w+)=(\[[^]]*\]|"(?:\\.|[^"])*"|\S+)', rest))
                lines.append({"process": process, "event": event, **fields})
                if "request_ids" in fields:
                    lines[-1]["request_ids"] = json.loads(fields["request_ids"])
    return [line for line in lines if line["process"].startswith("shard-")]


def processes(lines: list[dict[str, Any]], event: str, request_id: str) -> set[str]:
    """Return who wrote of an event for a request."""
    return {
        line["process"]
        for line in lines
        if line["event"] == event and line.get("request_id", "").strip('"') == request_id
    }


def send(client: Client, path: str, document: Any, request_id: str) -> int:
    headers = {"content-type": "application/json", "x-request-id": request_id}
    return client.request("POST", path, json.dumps(document).encode(), headers).status


@pytest.mark.parametrize("style", ["json", "text"])
def test_request_is_found_in_the_lines_of_the_shards(tmp_path: Path, style: str) -> None:
    environment = {**ENVIRONMENT, "FACETD_LOG_STYLE": style}
    with (
        Service(tmp_path / "data", 2, environment=environment, arguments=ARGUMENTS) as service,
        closing(service.client()) as client,
    ):
        assert client.post("/things/configuration", {"aggregations": {"k": {}}}).status == 200
        items = [{"id": i, "k": f"k{i % 997}", "name": f"n{i}"} for i in range(NUM_ITEMS)]
        assert send(client, "/things/items", items, "order 66") == 500
        assert send(client, "/things/items", items, "order-67") == 200
        search = {"query": "n", "per_page": 1000, "highlight": {"fields": ["name"]}}
        assert send(client, "/things/search", search, "look") == 200
        threads = [
            threading.Thread(target=put_one, args=(service, i)) for i in range(2 * REQUEST_IDS_MAX)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        unnamed = client.post("/things/items", items).headers["x-request-id"]

        both = {"shard-0", "shard-1"}
        # A shard answers first, then tells how long that took.
        wait_until(lambda: processes(shard_lines(service, style), "slow call", unnamed) == both, 20)
        lines = shard_lines(service, style)

    assert processes(lines, "handler failed", "order 66") == both
    assert processes(lines, "slow call", "order-67") == both
    assert processes(lines, "slow call", "look") == both
    assert processes(lines, "slow call", unnamed) == both

    groups = [line["request_ids"] for line in lines if "request_ids" in line]
    assert groups, "no two writes shared a group"
    named = {one for ids in groups for one in ids}
    assert named <= {f"one-{i}" for i in range(2 * REQUEST_IDS_MAX)}
    assert all(2 <= len(ids) <= REQUEST_IDS_MAX for ids in groups)


def put_one(service: Service, number: int) -> None:
    with closing(service.client()) as client:
        assert send(client, "/things/items", [{"id": f"x{number}"}], f"one-{number}") == 200
