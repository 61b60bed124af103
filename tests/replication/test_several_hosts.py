"""Three servers of the log and three hosts: nothing acknowledged is lost, whatever is killed."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.replication.several_hosts import Hosts, SharedLogServers, replica_state, until
from tests.service import Client, Service

ROUNDS = 6
ROUNDS_LONG = 300
FAULT_SECONDS = 0.7
INDEX = "films"
JSON = {"content-type": "application/json"}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SharedLogServers]:
    with SharedLogServers(tmp_path) as servers:
        yield servers


class Writer(threading.Thread):
    """Writes to any host, and remembers what was acknowledged and what may have been stored."""

    def __init__(self, number: int, hosts: Hosts) -> None:
        super().__init__(daemon=True)
        self.number = number
        self.hosts = hosts
        self.random = random.Random(number)
        self.ends = threading.Event()
        self.acknowledged: dict[int, int] = {}
        self.sent: dict[int, int] = {}
        self.anonymous: dict[str, bool] = {}
        self.pauses: list[float] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.error = error

    def _run(self) -> None:
        clients = [Client(one.port, 3) for one in self.hosts.services]
        try:
            self._write(clients)
        finally:
            for client in clients:
                client.close()

    def _write(self, clients: list[Client]) -> None:
        written_at = time.monotonic()
        for version in itertools.count(1):
            if self.ends.is_set():
                return
            client = self.random.choice(clients)
            if version % 4 == 0:
                token = f"{self.number}-{version}"
                self.anonymous[token] = False
                is_done = self._send(client, "POST", f"/{INDEX}/items", [{"token": token}])
                self.anonymous[token] = is_done
            else:
                id = self.number * 1000 + self.random.randrange(20)
                self.sent[id] = version
                item = {"version": version, "writer": self.number}
                is_done = self._send(client, "PUT", f"/{INDEX}/items/{id}", item)
                if is_done:
                    self.acknowledged[id] = version
            if is_done:
                now = time.monotonic()
                self.pauses.append(now - written_at)
                written_at = now

    def _send(self, client: Client, method: str, path: str, document: Any) -> bool:
        try:
            reply = client.request(method, path, json.dumps(document).encode(), JSON)
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)
            return False
        if reply.status == 200:
            return True
        assert reply.status in (500, 503, 504), reply
        if reply.status == 500:
            assert reply.json["error"]["code"] == "partly_stored", reply
        time.sleep(0.02)
        return False


class Reader(threading.Thread):
    """Reads from any host, and once from another one if that fails."""

    def __init__(self, hosts: Hosts) -> None:
        super().__init__(daemon=True)
        self.hosts = hosts
        self.ends = threading.Event()
        self.num_read = self.num_failed = 0

    def run(self) -> None:
        order = random.Random(7)
        while not self.ends.is_set():
            chosen = order.sample(self.hosts.services, 2)
            self.num_read += 1
            self.num_failed += not any(self._read(service) for service in chosen)
            time.sleep(0.01)

    def _read(self, service: Service) -> bool:
        client = service.client(2)
        try:
            return client.get(f"/{INDEX}/search", per_page="1").status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            client.close()


def configure(service: Service, document: Any = None) -> None:
    """Create the index."""
    client = service.client()
    assert client.post(f"/{INDEX}/configuration", document or {}).status == 200
    client.close()


def exported(service: Service) -> bytes:
    """Return all items of a host, in the order of their insertion."""
    client = service.client(60)
    reply = client.get(f"/{INDEX}/items")
    client.close()
    assert reply.status == 200, reply
    return reply.body


def faults(hosts: Hosts, log: SharedLogServers, order: random.Random) -> Iterator[None]:
    """Do one harm after the other; at most one host and one server are away at a time."""

    def kill_host(number: int) -> None:
        hosts.services[number].kill_all()

    def stop_host(number: int) -> None:
        assert hosts.services[number].terminate() == 0

    def kill_part(number: int) -> None:
        part = order.choice(("shard", "coordinator"))
        for pid in hosts.services[number].pids_of(part)[:1]:
            _signal(pid, signal.SIGKILL)

    def pause_host(number: int) -> None:
        for pid in hosts.services[number].pids_of("coordinator"):
            _signal(pid, signal.SIGSTOP)

    def empty_host(number: int) -> None:
        hosts.services[number].kill_all()
        hosts.empty(number)

    def mend_host(number: int) -> None:
        service = hosts.services[number]
        if service.process is None:
            service.start(wait=False)
        else:
            for pid in service.pids():
                _signal(pid, signal.SIGCONT)

    def mend_log(number: int) -> None:
        server = log.servers[number]
        if server.process is None:
            log.start(number)
        else:
            server.signal(signal.SIGCONT)

    harms: list[tuple[Callable[[int], None], Callable[[int], None]]] = [
        (kill_host, mend_host),
        (empty_host, mend_host),
        (kill_part, mend_host),
        (pause_host, mend_host),
        (stop_host, mend_host),
        (lambda number: log.servers[number].kill(), mend_log),
        (lambda number: log.servers[number].signal(signal.SIGSTOP), mend_log),
    ]
    while True:
        for harm, mend in order.sample(harms, len(harms)):
            number = order.randrange(3)
            if mend is mend_host:  # a client shall find a host that serves
                for service in hosts.services:
                    service.wait_ready()
            harm(number)
            time.sleep(FAULT_SECONDS)
            mend(number)
            yield


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def check(hosts: Hosts, writers: list[Writer]) -> None:
    """Compare what the hosts have with what was acknowledged."""
    for service in hosts.services:
        service.wait_ready()
    hosts.wait_equal(60)
    contents = [exported(service) for service in hosts.services]
    assert contents[0] == contents[1] == contents[2], "the hosts differ"
    items = [json.loads(line) for line in contents[0].splitlines()]
    versions = {item["id"]: item["version"] for item in items if "id" in item}
    tokens = [item["token"] for item in items if "token" in item]
    for writer in writers:
        assert writer.error is None, writer.error
        for id, version in writer.acknowledged.items():
            assert version <= versions[id] <= writer.sent[id], (id, version, versions.get(id))
        lost = [t for t, is_done in writer.anonymous.items() if is_done and t not in tokens]
        assert not lost
    assert len(tokens) == len(set(tokens)), "something was stored twice"
    assert set(tokens) <= {token for writer in writers for token in writer.anonymous}
    assert versions.keys() <= {id for writer in writers for id in writer.sent}


@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_lost(tmp_path: Path, log: SharedLogServers) -> None:
    run_rounds(tmp_path, log, ROUNDS, seed=1)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_nothing_acknowledged_is_lost_for_long(tmp_path: Path, log: SharedLogServers) -> None:
    run_rounds(tmp_path, log, ROUNDS_LONG, seed=2)


def run_rounds(folder: Path, log: SharedLogServers, num_rounds: int, seed: int) -> None:
    with Hosts(folder, log, (1, 2, 1)) as hosts:
        configure(hosts.services[0])
        hosts.wait_equal()
        writers = [Writer(number, hosts) for number in range(1, 4)]
        reader = Reader(hosts)
        threads: list[Writer | Reader] = [*writers, reader]
        for thread in threads:
            thread.start()
        try:
            for _ in itertools.islice(faults(hosts, log, random.Random(seed)), num_rounds):
                assert all(writer.error is None for writer in writers), writers
        finally:
            for thread in threads:
                thread.ends.set()
            for thread in threads:
                thread.join(60)
        check(hosts, writers)
        pauses = sorted(itertools.chain.from_iterable(writer.pauses for writer in writers))
        print(
            f"{len(pauses)} acknowledged, longest pause {pauses[-1]:.2f} s, "
            f"{reader.num_failed} of {reader.num_read} reads failed"
        )
        assert len(pauses) > num_rounds
        for service in hosts.services:
            state = replica_state(service)
            assert state is not None
            assert state["trouble"] == ""


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


def requests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield many different searches."""
    queries = ["", "sea", "river mountain", "sae", '"night city"', "mou"]
    filters = ["", "genre = sea", "year > 1980 AND genre IN [river, night]", "old = true"]
    orders = [{}, {"sort": ["year:desc"]}, {"sort": ["name:asc", "year:asc"]}]
    pages = [{"per_page": 20}, {"per_page": 7, "page": 3}, {"per_page": 0}]
    for query, filter, order, page in itertools.product(queries, filters, orders, pages):
        yield f"/{INDEX}/search", {"query": query, "filter": filter, **order, **page}
    for query in queries:
        yield f"/{INDEX}/facet", {"name": "genre", "search_query": query}


def test_hosts_with_different_numbers_of_shards_answer_alike(
    tmp_path: Path, log: SharedLogServers
) -> None:
    with Hosts(tmp_path, log, (1, 2, 3)) as hosts:
        configure(hosts.services[0], {"aggregations": {"genre": {}, "year": {}}})
        hosts.wait_equal()
        clients = [service.client() for service in hosts.services]
        load(clients[1], 5000)
        hosts.wait_equal()
        change_much(clients)
        seq = hosts.wait_equal()
        num_hits = 0
        for path, parameters in requests():
            answers = [client.post(path, parameters) for client in clients]
            assert {answer.status for answer in answers} == {200}, answers
            shown = [untimed(answer.body) for answer in answers]
            assert shown[0] == shown[1] == shown[2], parameters
            num_hits += b'"total":0' not in answers[0].body
        assert num_hits > 150
        assert clients[0].get(f"/{INDEX}/search").json["meta"]["seq"] == seq
        assert clients[2].get("/movies/search", per_page="0").status == 200
        contents = [exported(service) for service in hosts.services]
        assert contents[0] == contents[1] == contents[2]
        for client in clients:
            client.close()


def untimed(body: bytes) -> bytes:
    """Return an answer without what depends on time and process."""
    return re.sub(
        rb'"timings":\{[^}]*\}|"took_us":\d+|"cursor":"[^"]*"|"request_id":"[^"]*"|"shards":\{[^}]*\}',
        b"",
        body,
    )


def test_without_the_log_reads_go_on(tmp_path: Path, log: SharedLogServers) -> None:
    with Hosts(tmp_path, log, (1,)) as hosts:
        service = hosts.services[0]
        client = service.client()
        assert client.post(f"/{INDEX}/configuration", {}).status == 200
        assert client.post(f"/{INDEX}/items", [{"id": 1, "name": "sea"}]).status == 200
        until(lambda: (replica_state(service) or {})["seq"] == 2)
        for server in log.servers[:2]:
            server.kill()
        reply = client.post(f"/{INDEX}/items", [{"id": 2}])
        assert reply.status == 503
        assert reply.json["error"]["code"] == "log_unavailable"
        started = time.monotonic()
        reply = client.post(f"/{INDEX}/items", [{"id": 3}])
        assert reply.status == 503
        assert "reads go on" in reply.json["error"]["message"]
        assert time.monotonic() - started < 2
        assert client.search(INDEX, query="sea")["pagination"]["total"] == 1
        log.servers[2].kill()
        time.sleep(1.5)  # the position is written once a second
        client.close()
        service.restart()  # without any log
        client = service.client()
        assert client.search(INDEX, query="sea")["pagination"]["total"] == 1
        for number in range(3):
            log.start(number)
        until(lambda: client.post(f"/{INDEX}/items", [{"id": 4}]).status == 200)
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
