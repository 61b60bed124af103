"""Several coordinators (`--coordinators`): whichever a client reaches, the service is one."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.http.hostile import GROUPS
from tests.http.raw_client import exchange
from tests.http.test_hostile_requests import check
from tests.http.test_hostile_service import prepare
from tests.service import START_SECONDS, Client, Service
from tests.waiting import wait_until

NUM_COORDINATORS = 3
ITEMS = [{"id": i, "name": f"star {i}", "tags": ["a"]} for i in range(20)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("readers") / "data"
    options = ("--coordinators", str(NUM_COORDINATORS))
    with Service(data, 2, arguments=options) as running:
        yield running


def test_all_listen_before_anything_is_in_the_catalog(tmp_path: Path) -> None:
    options = ("--coordinators", str(NUM_COORDINATORS))
    with (
        Service(tmp_path / "data", 1, arguments=options) as new,
        clients_of_all(new) as found,
    ):
        assert len(found) == NUM_COORDINATORS
        assert new.log().count("reading") == NUM_COORDINATORS - 1


@pytest.fixture
def clients(service: Service) -> Iterator[list[Client]]:
    """One client of each coordinator, on an index of its own making."""
    with clients_of_all(service) as found:
        found[0].delete("/films")
        assert found[0].post("/films/configuration", {"aggregations": {"tags": {}}}).status == 200
        assert found[0].post("/films/items", ITEMS).status == 200
        yield found


@contextmanager
def clients_of_all(service: Service) -> Iterator[list[Client]]:
    """Open one client of each coordinator: its request ids begin alike."""
    found: dict[str, Client] = {}

    def has_all() -> bool:
        client = service.client()
        prefix = client.get("/status").headers["x-request-id"].partition("-")[0]
        if found.setdefault(prefix, client) is not client:
            client.close()
        return len(found) == NUM_COORDINATORS

    try:
        wait_until(has_all, START_SECONDS, ignoring=(OSError, http.client.HTTPException))
        yield list(found.values())
    finally:
        for client in found.values():
            client.close()


def pids(service: Service, *, of_readers: bool) -> list[int]:
    """Return the process ids of the readers, or of the owner."""
    return [
        pid
        for pid in service.pids_of("coordinator")
        if (b"--lock" in Path(f"/proc/{pid}/cmdline").read_bytes()) is not of_readers
    ]


def total(client: Client, **parameters: Any) -> int:
    number: int = client.search("films", per_page=0, **parameters)["pagination"]["total"]
    return number


def together(*works: Callable[[], None]) -> None:
    """Run functions in threads; the first failure is raised."""
    failures: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("group", ["bodies", "protocol", "bulk", "methods"])
async def test_hostile_requests_get_the_same_answers(service: Service, group: str) -> None:
    await prepare(service)
    wrong = []
    for case in GROUPS[group]:
        reply = await exchange(service.port, case.request, half_closes=case.half_closes)
        problem = check(case, reply)
        if problem is not None:
            wrong.append(f"{case.name}: {problem}")

    assert not wrong, "\n".join(wrong)


def test_write_is_seen_by_every_coordinator_at_once(
    service: Service, clients: list[Client]
) -> None:
    def write(name: str, first: int) -> None:
        with clients_of_all(service) as ours:
            writer = ours[first]
            for i in range(12):
                path = f"/films/items/{name}{i}"
                item = {"id": f"{name}{i}", "name": name}
                assert writer.post("/films/items", [item]).status == 200
                other = ours[i % len(ours)]
                assert total(other, query=name) == i + 1
                assert other.get(path).json == item
                if i % 4 == 3:
                    assert other.delete(path).status == 200
                    assert writer.get(path).status == 404
                    assert total(writer, query=name) == i
                    assert writer.post("/films/items", [item]).status == 200

    together(*(partial(write, name, i) for i, name in enumerate(("planet", "comet", "nebula"))))
    assert {total(client) for client in clients} == {len(ITEMS) + 36}


def test_catalog_is_one(clients: list[Client]) -> None:
    first, second, third = clients

    for i, changing in enumerate(clients):
        title = f"Tags {i}"
        change = {"aggregations": {"tags": {"title": title}}}
        assert changing.post("/films/configuration", change).status == 200
        for client in clients:
            answer = client.search("films")
            assert answer["data"]["aggregations"]["tags"]["title"] == title
    assert first.post("/_aliases", {"aliases": {"movies": "films"}}).status == 200
    assert second.search("movies")["pagination"]["total"] == len(ITEMS)
    assert third.post("/_aliases", {"aliases": {"movies": None}}).status == 200
    assert {client.post("/movies/search", {}).status for client in clients} == {404}
    assert second.delete("/films").status == 200
    assert {client.post("/films/search", {}).status for client in clients} == {404}


def test_keys_hold_everywhere_at_once(clients: list[Client]) -> None:
    first, second, third = clients
    admin = second.post("/_keys", {"actions": ["admin", "search"]}).json
    try:
        assert {client.post("/films/search", {}).status for client in clients} == {401}
        for client in clients:
            client.headers["x-api-key"] = admin["key"]
        reading = third.post(
            "/_keys", {"actions": ["search"], "indexes": ["films"], "filter": 'name = "star 1"'}
        ).json
        for client in clients:
            client.headers["x-api-key"] = reading["key"]
            assert total(client) == 1
            assert client.post("/films/items", ITEMS).status == 403
        first.headers["x-api-key"] = admin["key"]
        assert first.delete(f"/_keys/{reading['id']}").status == 200
        assert second.post("/films/search", {}).status == 401
    finally:
        first.headers["x-api-key"] = admin["key"]
        assert first.delete(f"/_keys/{admin['id']}").status == 200
        for client in clients:
            client.headers.clear()
    assert {total(client) for client in clients} == {len(ITEMS)}


def test_cursor_goes_on_wherever_it_is_sent(clients: list[Client]) -> None:
    found: list[int] = []
    cursor = "*"
    for i in range(4):
        client = clients[i % len(clients)]
        answer = client.search("films", cursor=cursor, per_page=5, sort="id")
        found += [item["id"] for item in answer["data"]["items"]]
        cursor = answer["pagination"]["cursor"]
        assert client.post("/films/items", [{"id": 100 + i, "name": "later"}]).status == 200

    assert sorted(found) == list(range(20))


def test_streams_pass_through(service: Service, clients: list[Client]) -> None:
    lines = b"".join(json.dumps({"id": i, "name": "x" * 500}).encode() + b"\n" for i in range(2000))
    for client in clients:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
        connection.request(
            "POST",
            "/films/index",
            iter([lines[i : i + 70_000] for i in range(0, len(lines), 70_000)]),
            {"content-type": "application/x-ndjson"},
            encode_chunked=True,
        )
        assert connection.getresponse().status == 200
        connection.close()
        reply = client.get("/films/items")
        assert reply.status == 200
        assert reply.headers["transfer-encoding"] == "chunked"
        assert len(reply.body.splitlines()) == 2000
        assert client.get("/status").status == 200  # on the same connection
    for _ in range(6):
        with socket.create_connection(("127.0.0.1", service.port), timeout=30) as old:
            old.sendall(b"GET /films/items HTTP/1.0\r\n\r\n")
            reply_1_0 = b""
            while part := old.recv(1 << 16):
                reply_1_0 += part
        head, _, body = reply_1_0.partition(b"\r\n\r\n")
        assert b"chunked" not in head
        assert len(body.splitlines()) == 2000


def test_no_interim_response_is_sent_to_a_client_of_http_1_0(
    service: Service, clients: list[Client]
) -> None:
    head = (
        b"POST /films/items HTTP/1.0\r\nContent-Type: application/json\r\n"
        b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n[]"
    )
    for _ in range(4 * NUM_COORDINATORS):
        with socket.create_connection(("127.0.0.1", service.port), timeout=30) as old:
            old.sendall(head)
            assert old.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def test_metrics_and_analytics_are_of_all(clients: list[Client]) -> None:
    def counted() -> float:
        text = clients[0].get("/_metrics").body.decode()
        name = 'facetd_http_requests_total{route="POST /{index}/search",status="200"}'
        return float(next((line for line in text.splitlines() if name in line), "0 0").split()[-1])

    before, searches = counted(), analytics(clients[1])
    for i, client in enumerate(clients):
        for j in range(5):
            client.headers["x-forwarded-for"] = f"10.0.{i}.{j}"  # who searches
            total(client, query="star")

    wait_until(lambda: counted() == before + 15)
    wait_until(lambda: analytics(clients[2]) == searches + 15)
    text = clients[1].get("/_metrics").body.decode()
    assert text.count("facetd_reader_cpu_seconds_total{") == NUM_COORDINATORS - 1


def test_a_client_with_long_addresses_stops_no_reports(clients: list[Client]) -> None:
    """A report has 64 KB, for the searches of up to forty clients."""
    searches = analytics(clients[0])
    for i, client in enumerate(clients):
        for j in range(40):
            client.headers["x-forwarded-for"] = f"10.0.{i}.{j}, " + "x" * 7_000
            total(client, query="star")

    wait_until(lambda: analytics(clients[2]) == searches + 120)


def analytics(client: Client) -> int:
    number: int = client.get("/_analytics", index="films").json["searches"]
    return number


def test_killed_reader_is_replaced_and_the_others_answer(
    service: Service, clients: list[Client]
) -> None:
    before = pids(service, of_readers=True)
    os.kill(before[0], signal.SIGKILL)

    num_answered = 0
    for client in clients:
        try:
            num_answered += total(client) == len(ITEMS)
        except (OSError, http.client.HTTPException):
            continue
    assert num_answered >= NUM_COORDINATORS - 1
    with clients_of_all(service) as found:
        for client in found:
            assert client.post("/films/items", [{"id": 1, "name": "new"}]).status == 200
            assert total(client, query="new") == 1
    after = pids(service, of_readers=True)
    assert before[1] in after
    assert before[0] not in after


def test_searches_go_on_while_a_killed_owner_is_replaced(
    service: Service, clients: list[Client]
) -> None:
    (owner,) = pids(service, of_readers=False)
    os.kill(owner, signal.SIGKILL)

    readers = 0
    for client in clients:
        try:
            assert total(client) == len(ITEMS)
        except (OSError, http.client.HTTPException):
            continue  # a client of the owner
        readers += 1
        # Waits for the new owner, unless the former one was to answer it.
        written = client.post("/films/items", [{"id": 100 + readers, "name": "after"}])
        assert written.status in (200, 503)
        if written.status == 503:
            assert written.json["error"]["code"] == "starting"
    assert readers == NUM_COORDINATORS - 1
    service.wait_ready()
    with clients_of_all(service) as found:
        for i, client in enumerate(found):
            assert client.post("/films/items", [{"id": 200 + i, "name": "later"}]).status == 200
            assert total(client, query="later") == i + 1


def test_stop_ends_readers_before_shards(tmp_path: Path) -> None:
    with Service(tmp_path / "data", 1, arguments=("--coordinators", "2")) as service:
        client = service.client()
        assert client.post("/films/configuration", {}).status == 200
        client.close()
        assert service.terminate() == 0
        log = service.log()
        assert "warning" not in log, log
        assert log.index('"ended" what="reader 1"') < log.index('shard-0 "stopping"')


def test_port_that_is_taken_ends_the_service(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        service = Service(tmp_path / "data", 1, port=port, arguments=("--coordinators", "2"))
        service.start(wait=False)
        assert service.process is not None
        assert service.process.wait(30) == 1
        assert f"cannot listen on 127.0.0.1:{port}" in service.log()


def test_start_waits_for_a_port_that_a_killed_reader_still_has(tmp_path: Path) -> None:
    listen = "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); "
    listen += "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    like_a_reader = ("-m", "coordinator", "coordinator", "--parent-pipe", "3")
    with subprocess.Popen(
        [sys.executable, "-c", listen, *like_a_reader],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        port = int(reader.stdout.readline())
        release = threading.Timer(1.5, reader.stdin.close)
        service = Service(tmp_path / "data", 1, port=port, arguments=("--coordinators", "2"))
        try:
            service.start(wait=False)
            wait_until((tmp_path / "data" / "lock").exists)
            release.start()
            service.wait_ready()
        finally:
            release.cancel()
            service.kill_all()
            reader.kill()
