"""What clients do to several hosts meanwhile, and what must be there in the end."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import threading
import time
from typing import Any

from tests.replication.several_hosts import Hosts
from tests.service import Client, Service

INDEX = "films"
JSON = {"content-type": "application/json"}
PAUSE_SECONDS = 0.02
"""Between two requests of a client: hosts shall have time for each other."""
FIRST_READ_SECONDS = 2.0
OTHER_READ_SECONDS = 10.0


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
        self.acknowledged_at: list[float] = []
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
            time.sleep(PAUSE_SECONDS)
            if is_done:
                self.acknowledged_at.append(time.monotonic())

    def _send(self, client: Client, method: str, path: str, document: Any) -> bool:
        try:
            reply = client.request(method, path, json.dumps(document).encode(), JSON)
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)
            return False
        if reply.status == 200:
            return True
        assert reply.status in (500, 503, 504, 507), reply
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
        self.num_read = 0
        self.failures: list[str] = []

    def run(self) -> None:
        order = random.Random(7)
        while not self.ends.is_set():
            chosen = order.sample(self.hosts.services, 2)
            self.num_read += 1
            told = self._read(chosen[0], FIRST_READ_SECONDS)
            if told:
                other = self._read(chosen[1], OTHER_READ_SECONDS)
                if other:
                    self.failures.append(f"{told}; {other}")
            time.sleep(PAUSE_SECONDS)

    def _read(self, service: Service, seconds: float) -> str:
        """Read once; return why that failed, or nothing."""
        client = service.client(seconds)
        try:
            reply = client.get(f"/{INDEX}/search", per_page="1")
        except (OSError, http.client.HTTPException) as error:
            return f"{service.data.parent.name} {error!r}"
        finally:
            client.close()
        return "" if reply.status == 200 else f"{service.data.parent.name} {reply.body[:200]!r}"


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
