"""Three servers of the log and three hosts: nothing acknowledged is lost, whatever is killed."""

from __future__ import annotations

import http.client
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from common import data_directory
from common.process.thread_priority import REPLICA_BACKGROUND_NICENESS
from tests.recorded_answers import NUM_REQUESTS
from tests.replication.several_hosts import Hosts, SharedLogServers, replica_state
from tests.replication.workload import (
    INDEX,
    JSON,
    assert_alike,
    change_much,
    configure,
    exported,
    load,
)
from tests.service import Service
from tests.waiting import wait_until


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SharedLogServers]:
    with SharedLogServers(tmp_path) as servers:
        yield servers


@pytest.mark.parametrize(
    "num_requests", [NUM_REQUESTS // 12, pytest.param(NUM_REQUESTS, marks=pytest.mark.long)]
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

        # A run of all tests may have been given a low priority itself.
        lowest = max(os.getpriority(os.PRIO_PROCESS, 0), REPLICA_BACKGROUND_NICENESS)
        assert max(map(_niceness, hosts.services)) <= lowest
        assert_alike(hosts, num_requests)


def _niceness(service: Service) -> int:
    """Return that of the thread of the lowest priority."""
    threads = [path for pid in service.pids() for path in Path(f"/proc/{pid}/task").iterdir()]
    return max(os.getpriority(os.PRIO_PROCESS, int(path.name)) for path in threads)


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
        # Another host, which the log answers, may have made an index meanwhile.
        wait_until(lambda: _denied(service) == {(503, "replica_lags")})
        assert client.search(INDEX, query="sea")["pagination"]["total"] == 1
        log.servers[2].kill()
        wait_until(lambda: b'"seq":2' in data_directory.replica_path(service.data).read_bytes())
        client.close()
        service.restart()  # without any log
        client = service.client()
        assert client.search(INDEX, query="sea")["pagination"]["total"] == 1
        assert _denied(service) == {(503, "replica_lags")}
        for number in range(3):
            log.start(number)
        wait_until(lambda: client.post(f"/{INDEX}/items", [{"id": 4}]).status == 200)
        wait_until(lambda: _denied(service) == {(404, "index_not_found")})
        client.close()


def _denied(service: Service) -> set[tuple[int, str]]:
    """Return what a host says of an index that it does not have, to a read and to a write."""
    return {
        _status(service, "GET", "/made-elsewhere/search", {}),
        _status(service, "PUT", "/made-elsewhere/items/1", {}),
    }


@pytest.mark.parametrize("num_coordinators", [1, 2])
def test_a_host_that_starts_denies_nothing_that_others_may_have_made(
    tmp_path: Path, log: SharedLogServers, num_coordinators: int
) -> None:
    """An index or a key made on another host meanwhile is not there yet: that is no 404 or 401."""
    with Hosts(tmp_path, log, (1,), coordinators=str(num_coordinators)) as hosts:
        service = hosts.services[0]
        client = service.client()
        assert client.post(f"/{INDEX}/configuration", {}).status == 200
        made = client.post("/_keys", {"actions": ["admin", "configure", "search", "write"]})
        assert made.status == 200
        wait_until(lambda: b'"seq":2' in data_directory.replica_path(service.data).read_bytes())
        client.close()
        _kill(service, log)
        service.start(wait=False)
        known = {"x-api-key": made.json["key"]}
        unknown = {"x-api-key": "fk_" + 8 * "0" + "_" + 40 * "0"}
        requests = [
            ("GET", "/made-elsewhere/search", known),
            ("PUT", "/made-elsewhere/items/1", known),
            ("DELETE", "/made-elsewhere", known),
            ("GET", "/1/indexes/made-elsewhere", known),
            ("GET", f"/{INDEX}/search", unknown),
        ]
        said: list[set[tuple[int, str]]] = [set() for _ in requests]
        is_ready = False
        while not is_ready:
            is_ready = _status(service, "GET", "/_ready", known)[0] == 200
            found = [_status(service, *request) for request in requests]
            if not is_ready and _status(service, "GET", "/_ready", known)[0] != 200:
                for codes, one in zip(said, found, strict=True):
                    codes.add(one)
            time.sleep(0.01)  # the host that starts needs the processor
        assert all(codes <= {(503, "starting"), (0, "")} for codes in said), said
        assert all((503, "starting") in codes for codes in said), said
        # It serves what it has without the log, and denies nothing before that is back.
        codes = {_status(service, *request) for request in requests}
        assert codes <= {(503, "replica_lags"), (503, "log_unavailable")}, codes
        for number in range(len(log.servers)):
            log.start(number)
        reads = (requests[0], requests[3], requests[4])
        wait_until(lambda: [_status(service, *one)[0] for one in reads] == [404, 404, 401])


def _status(service: Service, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """Return status and code of an answer; 0: there is none."""
    client = service.client(5)
    try:
        body = b"{}" if method == "PUT" else None
        reply = client.request(method, path, body, {**JSON, **headers})
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        client.close()
    is_error = reply.status >= 400 and b'"error"' in reply.body
    return reply.status, reply.json["error"]["code"] if is_error else ""


def _kill(service: Service, log: SharedLogServers) -> None:
    service.kill_all()
    for server in log.servers:
        server.kill()


def test_a_host_killed_right_after_its_first_write_has_it_without_the_log(
    tmp_path: Path, log: SharedLogServers
) -> None:
    with Hosts(tmp_path, log, (2,)) as hosts:
        service = hosts.services[0]
        position = data_directory.replica_path(service.data)
        at_first = position.read_bytes()
        client = service.client()
        assert client.post(f"/{INDEX}/configuration", {}).status == 200
        items = [{"id": id, "name": "sea"} for id in range(20)]
        seq = client.post(f"/{INDEX}/items", items).json["seq"]
        client.close()
        _kill(service, log)
        position.write_bytes(at_first)  # as if it had been killed before the position was saved
        assert b'"seq":0' in at_first
        service.start()
        client = service.client()
        headers = {"x-min-seq": str(seq)}
        reply = client.request("GET", f"/{INDEX}/search?query=sea", headers=headers)
        assert reply.json["pagination"]["total"] == 20
        assert reply.json["meta"]["seq"] == seq
        for number in range(3):
            log.start(number)
        wait_until(
            lambda: client.post(f"/{INDEX}/items", [{"id": 20, "name": "sea"}]).status == 200
        )
        assert client.search(INDEX, query="sea")["pagination"]["total"] == 21
        client.close()


def test_a_group_that_one_shard_lacks_is_not_shown_without_the_log(
    tmp_path: Path, log: SharedLogServers
) -> None:
    with Hosts(tmp_path, log, (2,)) as hosts:
        service = hosts.services[0]
        client = service.client(2)
        assert client.post(f"/{INDEX}/configuration", {}).status == 200
        seq = client.post(f"/{INDEX}/items", [{"id": 100, "name": "sea"}]).json["seq"]
        os.kill(service.pids_of("shard")[1], signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            client.post(f"/{INDEX}/items", [{"id": id, "name": "sea"} for id in range(20)])
        client.close()
        _kill(service, log)
        service.start()
        client = service.client()
        found = client.search(INDEX, query="sea")
        assert (found["pagination"]["total"], found["meta"]["seq"]) == (1, seq)
        assert "serving without the log" in service.log()
        for number in range(3):
            log.start(number)
        wait_until(lambda: client.search(INDEX, query="sea")["pagination"]["total"] == 21)
        client.close()


def test_an_empty_host_that_finds_no_log_serves_once_it_has_heard_from_it(
    tmp_path: Path, log: SharedLogServers
) -> None:
    hosts = Hosts(tmp_path, log, (1, 1))
    first, second = hosts.services
    try:
        first.start()
        second.start()
        assert second.terminate() == 0
        for server in log.servers:
            server.kill()
        second.start(wait=False)
        wait_until(lambda: "starting without the log" in second.log())
        wait_until(lambda: "waiting for the log" in second.log())  # and serves nothing meanwhile
        client = second.client()
        assert client.get("/_ready").status == 503
        for number in range(3):
            log.start(number)
        second.wait_ready()  # although no client writes anything
        client.close()
    finally:
        for service in hosts.services:
            service.kill_all()


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


def test_an_empty_host_that_others_may_reach_takes_the_keys_from_the_log(
    tmp_path: Path, log: SharedLogServers
) -> None:
    hosts = Hosts(tmp_path, log, (1, 1))
    first, second = hosts.services
    second.arguments += ("--host", "0.0.0.0")
    try:
        first.start()
        client = first.client()
        key = client.post("/_keys", {"actions": ["admin"]}).json["key"]
        client.close()
        assert first.terminate() == 0  # so the second finds no host, only the log
        second.start()
        client = second.client()
        assert client.get("/_keys").status == 401
        assert client.request("GET", "/_keys", headers={"x-api-key": key}).status == 200
        client.close()
    finally:
        for service in hosts.services:
            service.kill_all()


def test_hosts_without_any_key_are_not_open_to_the_network(
    tmp_path: Path, log: SharedLogServers
) -> None:
    hosts = Hosts(tmp_path, log, (1,))
    service = hosts.services[0]
    service.arguments += ("--host", "0.0.0.0")
    try:
        service.start(wait=False)
        assert service.process is not None
        assert service.process.wait(60) == 1
        assert "on a host that listens on 127.0.0.1; all hosts know it then" in service.log()
        assert not data_directory.manifest_path(service.data).exists()
        assert "log made" not in service.log()  # refused before anything was made
    finally:
        service.kill_all()
