"""Shards placed over hosts: an index that no host holds alone, with two copies of each shard.

All connections between the hosts are encrypted. One cluster serves all tests, in their order.
"""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.recorded_answers import SEED, RecordedService, Requests
from tests.replication.several_hosts import Hosts, PlacedHosts, SharedLogServers, replica_state
from tests.replication.test_comparison import cluster_command, compared
from tests.replication.test_several_hosts import change_much, load
from tests.replication.workload import INDEX, Reader, Writer, check, configure, exported
from tests.service import Service
from tests.waiting import wait_until

PLACED = ("0,1", "1,2", "2,0")
NUM_REQUESTS = 120


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a certificate that signs itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", str(key), "-out", str(certificate), "-subj", "/CN=facetd"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


@pytest.fixture(scope="module")
def hosts(
    tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path]
) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("placed")
    tls = {
        "rpc_tls_cert": str(certificate[0]),
        "rpc_tls_key": str(certificate[1]),
        "rpc_tls_ca": str(certificate[0]),
    }
    with (
        SharedLogServers(folder, 1) as log,
        PlacedHosts(folder, log, PLACED, 3, **tls) as hosts,
    ):
        yield hosts


def placement(service: Service) -> dict[str, Any]:
    """Return which host has which shard, as a host sees it."""
    client = service.client()
    reply = client.get("/_cluster")
    client.close()
    assert reply.status == 200, reply
    found: dict[str, Any] = reply.json["placement"]
    return found


def num_serving(service: Service) -> list[int]:
    return [len(one["serving"]) for one in placement(service)["shards"]]


def test_hosts_that_hold_some_shards_answer_as_one(hosts: Hosts) -> None:
    configure(hosts.services[0], {"aggregations": {"genre": {}, "year": {}}})
    clients = [service.client() for service in hosts.services]
    load(clients[1], 3000)
    hosts.wait_equal()
    change_much(clients)
    seq = hosts.wait_equal()
    for client in clients:
        reply = client.request("GET", f"/{INDEX}/search", headers={"x-min-seq": str(seq)})
        assert reply.json["meta"]["seq"] == seq
        client.close()
    contents = [exported(service) for service in hosts.services]
    assert contents[0] == contents[1] == contents[2]

    requests = Requests(SEED)
    recorded = [RecordedService(f"http://127.0.0.1:{one.port}") for one in hosts.services]
    recorded[1].load(requests)
    hosts.wait_equal()
    num_good = 0
    for path, body in requests.requests(NUM_REQUESTS):
        answers = [service.ask(path, body) for service in recorded]
        assert answers[0] == answers[1] == answers[2], (path, body)
        num_good += answers[0][0] == 200
    assert num_good > 0.7 * NUM_REQUESTS
    for service in recorded:
        service.close()


def test_copies_of_shards_are_compared_and_shown(hosts: Hosts) -> None:
    wait_until(lambda: num_serving(hosts.services[0]) == [2, 2, 2])
    states = compared(hosts)
    assert {one["difference"] for one in states} == {""}
    # A host that was silent for long on a busy machine is shown as such until it is heard again.
    wait_until(lambda: cluster_command(hosts.services[0], "status").returncode == 0)
    assert "served by" in cluster_command(hosts.services[0], "status").stdout
    names = [(replica_state(service) or {})["name"] for service in hosts.services]
    steps = cluster_command(hosts.services[0], "move", "1", names[0], names[2]).stdout
    assert "--shards-here 0-2 --of 3" in steps  # there
    assert "--shards-here 0 --of 3" in steps  # here
    wrong = cluster_command(hosts.services[0], "move", "2", names[0], names[2])
    assert "holds shards 0-1, not 2" in wrong.stderr
    client = hosts.services[0].client()
    reply = client.post("/_snapshots", {"name": "all"})
    assert (reply.status, reply.json["error"]["code"]) == (409, "not_with_placed_shards")
    client.close()


def test_only_hosts_with_a_certificate_are_heard(
    hosts: Hosts, certificate: tuple[Path, Path]
) -> None:
    host, port = hosts.services[0].environment["FACETD_RPC_LISTEN"].split(":")
    with socket.create_connection((host, int(port)), 10) as plain:
        plain.sendall(b"hello, in plain text\r\n\r\n")
        assert b"hello" not in plain.recv(1000)  # an alert of TLS, or nothing
    context = ssl.create_default_context(cafile=certificate[0])
    with socket.create_connection((host, int(port)), 10) as connection:
        try:
            with context.wrap_socket(connection, server_hostname=host) as nobody:
                answer = nobody.recv(1000)
        except (ssl.SSLError, ConnectionError):
            answer = b""
    assert answer == b""


def test_nothing_is_lost_and_reads_go_on_when_a_host_burns(hosts: Hosts) -> None:
    client = hosts.services[0].client()
    assert client.delete(f"/{INDEX}").status == 200
    client.close()
    configure(hosts.services[0])
    writers = [Writer(number, hosts) for number in (1, 2)]
    reader = Reader(hosts)
    threads: list[Writer | Reader] = [*writers, reader]
    for thread in threads:
        thread.start()

    def wait_written(num: int) -> None:
        before = sum(len(one.acknowledged_at) for one in writers)
        wait_until(lambda: sum(len(one.acknowledged_at) for one in writers) >= before + num)

    try:
        wait_written(10)
        burnt = hosts.services[1]
        burnt.kill_all()
        wait_written(10)
        wait_until(lambda: min(num_serving(hosts.services[0])) == 1)
        hosts.empty(1)
        burnt.start()
        wait_until(lambda: num_serving(hosts.services[0]) == [2, 2, 2])
        wait_written(10)
    finally:
        for thread in threads:
            thread.ends.set()
        for thread in threads:
            thread.join(60)
    assert not reader.failures, reader.failures[:3]
    assert "taking shards" in burnt.log()
    check(hosts, writers)
    states = compared(hosts)
    assert {one["difference"] for one in states} == {""}


def test_a_shard_moves_to_another_host_and_back(hosts: Hosts) -> None:
    before = exported(hosts.services[0])
    third = hosts.services[2]
    names = [(replica_state(service) or {})["name"] for service in hosts.services]

    def place(shards: str) -> None:
        assert third.terminate() == 0
        third.environment["FACETD_SHARDS_HERE"] = shards
        third.start()

    place("0-1")  # shard 1 is taken from another host, shard 2 stays behind
    wait_until(lambda: num_serving(third) == [2, 3, 1])
    assert exported(third) == before
    client = third.client()
    assert client.post(f"/{INDEX}/items", [{"id": 900_000 + n} for n in range(50)]).status == 200
    client.close()
    problem = "shard 2 is served by 1 of 2 hosts"
    wait_until(lambda: problem in cluster_command(hosts.services[0], "status").stdout)

    place("0,2")  # shard 2 follows the log from where it was left
    wait_until(lambda: num_serving(third) == [2, 2, 2])
    wait_until(lambda: names[2] in placement(hosts.services[0])["shards"][2]["serving"])
    hosts.wait_equal()
    assert len({exported(service) for service in hosts.services}) == 1
    assert exported(third).count(b"\n") == before.count(b"\n") + 50
    states = compared(hosts)
    assert {one["difference"] for one in states} == {""}
