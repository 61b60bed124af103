"""Many small indexes: the time of a start, a kill and a stop depends on the few in use."""

from __future__ import annotations

import http.client
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.service import Client, Service
from tests.waiting import wait_until

NUM_INDEXES = 72
OPEN_MAX = 8
"""Per shard; more than `FEW_INDEXES` exist, so a start opens none that is settled."""
SLACK = 3
"""Indexes that may be on their way out."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    environment = {"FACETD_SHARD_OPEN_INDEXES_MAX": str(OPEN_MAX), "FACETD_SHARD_IDLE_MS": "50"}
    service = Service(
        tmp_path_factory.mktemp("many") / "data", num_shards=2, environment=environment
    )
    with service:
        client = service.client()
        for number in range(NUM_INDEXES):
            configured = client.post(
                f"/tenant{number}/configuration", {"aggregations": {"color": {}}}
            )
            assert configured.status == 200, configured.body
            assert client.post(f"/tenant{number}/items", items_of(number)).status == 200
        client.close()
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with closing(service.client()) as client:
        yield client


def items_of(number: int) -> list[dict[str, Any]]:
    colors = ("red", "green", "blue")
    return [
        {"id": i, "title": f"thing {i} of tenant{number}", "color": colors[i % 3]}
        for i in range(5 + number % 7)
    ]


def open_environments(pid: int) -> set[str]:
    """Return the data files that a process has mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split()[-1] for line in lines if line.endswith("/data.mdb")}


def wait_for_room(service: Service) -> None:
    """Wait until no shard has more indexes open than it should."""

    def counts() -> list[int]:
        return [len(open_environments(pid)) for pid in service.pids_of("shard")]

    wait_until(
        lambda: len(found := counts()) == 2 and max(found) <= OPEN_MAX + SLACK, 20, problem=counts
    )


def check_all(client: Client) -> None:
    """Check what is listed, which opens nothing."""
    rows = {row["name"]: row for row in client.get("/_indexes").json["indexes"]}
    assert len(rows) == NUM_INDEXES
    for number in range(NUM_INDEXES):
        row = rows[f"tenant{number}"]
        assert (row["items"], row["state"]) == (len(items_of(number)), "ready"), row
        assert row["bytes"] > 0


def check_found(client: Client, number: int) -> None:
    found = client.search(f"tenant{number}", query="thing", per_page=50, facet_fields=["color"])
    expected = items_of(number)
    assert sorted(one["id"] for one in found["data"]["items"]) == [one["id"] for one in expected]
    buckets = found["data"]["aggregations"]["color"]["buckets"]
    assert sum(bucket["doc_count"] for bucket in buckets) == len(expected)


def test_few_are_open_and_all_are_there(service: Service, client: Client) -> None:
    wait_for_room(service)
    for number in range(0, NUM_INDEXES, 3):
        check_found(client, number)
    wait_for_room(service)
    check_all(client)
    assert client.get("/_metrics").status == 200
    assert client.get("/_stats").status == 200
    wait_for_room(service)
    # A write, and a read at once: the shard opens it for either.
    reply = client.post("/tenant7/items", [{"id": 2, "title": "thing two", "color": "red"}])
    assert reply.json["updated"] == 1, reply.body
    check_found(client, 7)


def test_killed_shard_comes_back_with_few_open(service: Service, client: Client) -> None:
    for number in range(3):
        items = items_of(number)
        assert client.post(f"/tenant{number}/items", items).status == 200
    (first, *_) = service.pids_of("shard")
    os.kill(first, signal.SIGKILL)
    wait_ready(service, first)
    wait_for_room(service)
    check_all(client)
    for number in (0, 1, 2, 50, 71):
        check_found(client, number)


def wait_ready(service: Service, killed: int) -> None:
    """Wait until another process serves in place of a killed one."""

    def is_back() -> bool:
        with closing(service.client(5)) as client:
            is_ready = client.get("/_ready").status == 200
        pids = service.pids_of("shard")
        return is_ready and killed not in pids and len(pids) == 2

    wait_until(is_back, 20, ignoring=(OSError, http.client.HTTPException))


def test_a_closed_index_takes_a_configuration(service: Service, client: Client) -> None:
    wait_for_room(service)
    reply = client.post("/tenant54/configuration", {"aggregations": {"color": {}, "title": {}}})
    assert reply.status == 200, reply.body
    found = client.search("tenant54", facet_fields=["title"])
    assert len(found["data"]["aggregations"]["title"]["buckets"]) == len(items_of(54))
    assert client.post("/tenant54/configuration", {"aggregations": {"color": {}}}).status == 200
    check_found(client, 54)


def test_closed_index_is_dropped_and_created_again(service: Service, client: Client) -> None:
    wait_for_room(service)
    assert client.delete("/tenant44").status == 200
    assert client.post("/tenant44/search", {}).status == 404
    assert client.post("/tenant44/configuration", {"aggregations": {"color": {}}}).status == 200
    assert client.post("/tenant44/items", items_of(44)).status == 200
    check_found(client, 44)
    check_all(client)


def test_closed_indexes_are_copied_and_restored(service: Service, client: Client) -> None:
    wait_for_room(service)
    made = client.post("/_snapshots", {"name": "all"})
    assert made.status == 200, made.body
    wait_for_room(service)
    body = {"indexes": ["tenant33", "tenant71"], "rename": {"tenant33": "a", "tenant71": "b"}}
    restored = client.post("/_snapshots/all/restore", body)
    assert restored.status == 200, restored.body
    for name, number in (("a", 33), ("b", 71)):
        assert client.search(name, query="thing")["pagination"]["total"] == len(items_of(number))
        assert client.delete(f"/{name}").status == 200
    assert client.delete("/_snapshots/all").status == 200


def test_stops_in_order_and_starts_with_few_open(service: Service, client: Client) -> None:
    client.close()
    assert service.terminate() == 0
    assert '"killed"' not in service.log()
    service.start()
    # All are settled: none is open but those that a request names.
    assert [len(open_environments(pid)) for pid in service.pids_of("shard")] == [0, 0]
    check_all(client)
    assert [len(open_environments(pid)) for pid in service.pids_of("shard")] == [0, 0]
    check_found(client, 69)
    assert [len(open_environments(pid)) for pid in service.pids_of("shard")] == [1, 1]
