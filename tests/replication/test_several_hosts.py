"""Three servers of the log and three hosts: nothing acknowledged is lost, whatever is killed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common import data_directory
from tests.recorded_answers import NUM_REQUESTS, SEED, RecordedService, Requests
from tests.replication.several_hosts import Hosts, SharedLogServers, replica_state
from tests.replication.workload import INDEX, JSON, configure, exported
from tests.service import Client
from tests.waiting import wait_until


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SharedLogServers]:
    with SharedLogServers(tmp_path) as servers:
        yield servers


WORDS = ("sea", "river", "mountain", "forest", "city", "night")


def load(client: Client, num_items: int) -> None:
    """Load items that do not compress well: their group is longer than a message may be."""
    order = random.Random(5)
    lines = []
    for number in range(num_items):
        item: dict[str, Any] = {
            "name": " ".join(order.choices(WORDS, k=3)),
            "genre": order.sample(WORDS, order.randrange(3)),
            "year": order.randrange(1950, 2000),
            "text": order.randbytes(250).hex(),
        }
        if number % 10:
            item["id"] = number
        lines.append(json.dumps(item))
    reply = client.post_text(f"/{INDEX}/index", "\n".join(lines).encode())
    assert reply.status == 200, reply
    assert reply.json["created"] == num_items


def change_much(clients: list[Client]) -> None:
    """Change items and indexes through all hosts in turn."""
    a, b, c = clients
    tag = a.get(f"/{INDEX}/items/11").headers["etag"]
    item = json.dumps({"name": "changed"}).encode()
    assert a.request("PUT", f"/{INDEX}/items/11", item, {**JSON, "if-match": tag}).status == 200
    assert b.request("PUT", f"/{INDEX}/items/11", item, {**JSON, "if-match": tag}).status == 409
    assert c.request("PATCH", f"/{INDEX}/items/11", b'{"year": 1999}', JSON).status == 200
    assert c.request("PATCH", f"/{INDEX}/items/no", b'{"year": 1999}', JSON).status == 404
    reply = b.post(f"/{INDEX}/items/update", {"filter": "year < 1960", "fields": {"old": True}})
    assert reply.status == 200, reply
    assert reply.json["updated"] > 100
    reply = c.post(f"/{INDEX}/items/delete", {"filter": "genre = city AND year > 1990"})
    assert reply.status == 200, reply
    assert reply.json["deleted"] > 10
    assert a.delete(f"/{INDEX}/items/12").status == 200
    assert b.post("/other/configuration", {"typo": 0}).status == 200
    assert b.post("/other/items", [{"id": 1}]).status == 200
    assert b.post("/_aliases", {"aliases": {"movies": INDEX}}).status == 200
    assert b.delete("/other").status == 200


@pytest.mark.parametrize(
    "num_requests", [NUM_REQUESTS // 5, pytest.param(NUM_REQUESTS, marks=pytest.mark.long)]
)
def test_hosts_with_different_numbers_of_shards_answer_alike(
    tmp_path: Path, log: SharedLogServers, num_requests: int
) -> None:
    with Hosts(tmp_path, log, (1, 2, 3)) as hosts:
        configure(hosts.services[0], {"aggregations": {"genre": {}, "year": {}}})
        hosts.wait_equal()
        clients = [service.client() for service in hosts.services]
        load(clients[1], 5000)
        hosts.wait_equal()
        change_much(clients)
        seq = hosts.wait_equal()
        assert clients[0].get(f"/{INDEX}/search").json["meta"]["seq"] == seq
        assert clients[2].get("/movies/search", per_page="0").status == 200
        contents = [exported(service) for service in hosts.services]
        assert contents[0] == contents[1] == contents[2]
        for client in clients:
            client.close()

        requests = Requests(SEED)
        recorded = [RecordedService(f"http://127.0.0.1:{one.port}") for one in hosts.services]
        recorded[1].load(requests)
        hosts.wait_equal()
        num_good = 0
        for path, body in requests.requests(num_requests):
            answers = [service.ask(path, body) for service in recorded]
            assert answers[0] == answers[1] == answers[2], (path, body)
            num_good += answers[0][0] == 200
        assert num_good > 0.7 * num_requests
        for service in recorded:
            service.close()


def test_without_the_log_reads_go_on(tmp_path: Path, log: SharedLogServers) -> None:
    with Hosts(tmp_path, log, (1,)) as hosts:
        service = hosts.services[0]
        client = service.client()
        assert client.post(f"/{INDEX}/configuration", {}).status == 200
        assert client.post(f"/{INDEX}/items", [{"id": 1, "name": "sea"}]).status == 200
        wait_until(lambda: (replica_state(service) or {})["seq"] == 2)
        for server in log.servers[:2]:
            server.kill()
        reply = client.post(f"/{INDEX}/items", [{"id": 2}])
        assert reply.status == 503
        assert reply.json["error"]["code"] == "log_unavailable"

        def refused() -> bool:
            """Return whether a write is refused before it is sent to the log."""
            reply = client.post(f"/{INDEX}/items", [{"id": 3}])
            assert reply.status == 503
            return "reads go on" in reply.json["error"]["message"]

        wait_until(refused, 90)  # the host has noticed that the log is away
        started = time.monotonic()
        assert refused()
        assert time.monotonic() - started < 2
        assert client.search(INDEX, query="sea")["pagination"]["total"] == 1
        log.servers[2].kill()
        wait_until(lambda: b'"seq":2' in data_directory.replica_path(service.data).read_bytes())
        client.close()
        service.restart()  # without any log
        client = service.client()
        assert client.search(INDEX, query="sea")["pagination"]["total"] == 1
        for number in range(3):
            log.start(number)
        wait_until(lambda: client.post(f"/{INDEX}/items", [{"id": 4}]).status == 200)
        client.close()


def test_a_log_that_may_lose_writes_is_refused(tmp_path: Path) -> None:
    with SharedLogServers(tmp_path, 1, sync="2m") as log:
        hosts = Hosts(tmp_path, log, (1,))
        service = hosts.services[0]
        service.start(wait=False)
        assert service.process is not None
        assert service.process.wait(60) == 1
        line = service.log().splitlines()[-1]
        assert line.startswith("facetd: the log may lose what it has confirmed")
        assert "sync_interval: always" in line
