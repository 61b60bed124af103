"""Shards placed over hosts: an index that no host holds alone, with two copies of each shard.

All connections between the hosts are encrypted. One cluster serves all tests, in their order.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from tests.replication.several_hosts import (
    Hosts,
    PlacedHosts,
    SharedLogServers,
    num_serving,
    placement,
    replica_state,
)
from tests.replication.small_disks import fill, small_disks
from tests.replication.test_data_comparison import cluster_command, command, compared
from tests.replication.workload import (
    INDEX,
    assert_alike,
    change_much,
    check,
    clients_at_work,
    configure,
    contents_at_rest,
    exported,
    load,
)
from tests.service import Service
from tests.waiting import wait_until

PLACED = ("0,1", "1,2", "2,0")
NUM_REQUESTS = 50
NUM_REQUESTS_LONG = 120


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
        PlacedHosts(folder, log, PLACED, 3, None, **tls) as hosts,
    ):
        yield hosts


@pytest.fixture
def some_items(hosts: Hosts) -> None:
    """Make the index, unless a test before has made it."""
    client = hosts.services[0].client()
    if client.get(f"/{INDEX}").status == 404:
        configure(hosts.services[0])
        load(client, 300)
    client.close()
    hosts.wait_equal()


def test_hosts_that_hold_some_shards_answer_as_one(
    hosts: Hosts, pytestconfig: pytest.Config
) -> None:
    configure(hosts.services[0], {"aggregations": {"genre": {}, "year": {}}})
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(one.client())) for one in hosts.services]
        load(clients[1], 3000)
        hosts.wait_equal()
        change_much(clients)
        seq = hosts.wait_equal()
        for client in clients:
            reply = client.request("GET", f"/{INDEX}/search", headers={"x-min-seq": str(seq)})
            assert reply.json["meta"]["seq"] == seq
    contents = [exported(service) for service in hosts.services]
    assert contents[0] == contents[1] == contents[2]

    is_long = pytestconfig.getoption("--long")
    assert_alike(hosts, NUM_REQUESTS_LONG if is_long else NUM_REQUESTS)


@pytest.mark.usefixtures("some_items")
def test_copies_of_shards_are_compared_and_shown(hosts: Hosts) -> None:
    wait_until(lambda: num_serving(hosts.services[0]) == [2, 2, 2])
    states = compared(hosts)
    assert {one["difference"] for one in states} == {""}
    # A host that was silent for long on a busy machine is shown as such until it is heard again.
    wait_until(lambda: cluster_command(hosts.services[0], "status").returncode == 0)
    assert "served by" in cluster_command(hosts.services[0], "status").stdout


@pytest.mark.usefixtures("some_items")
def test_a_backup_has_all_shards_at_one_entry_of_the_log(hosts: Hosts, tmp_path: Path) -> None:
    source, data = tmp_path / "backup", tmp_path / "data"
    with clients_at_work(hosts, range(7, 10)) as clients:
        clients.wait_written(20)
        made = command(hosts.services[1], "backup", str(source))
        assert made.returncode == 0, made
        clients.wait_written(20)
    for service in hosts.services:
        left = service.data / "snapshots"
        wait_until(partial(_is_empty, left))  # no host keeps its copy
    restored = Service(data, 3)
    done = command(restored, "restore", str(source), "--data-dir", str(data))
    assert done.returncode == 0, done
    with restored:
        items = [json.loads(line) for line in exported(restored).splitlines()]
    hosts.wait_equal()
    now = [json.loads(line) for line in exported(hosts.services[0]).splitlines()]
    tokens, tokens_now = ([one["token"] for one in some if "token" in one] for some in (items, now))
    assert 0 < len(tokens) < len(tokens_now)
    assert tokens == tokens_now[: len(tokens)]


def _is_empty(folder: Path) -> bool:
    return not list(folder.glob("*"))


@pytest.mark.usefixtures("some_items")
def test_a_backup_at_rest_is_what_the_hosts_have(hosts: Hosts, tmp_path: Path) -> None:
    data = tmp_path / "data"
    contents = contents_at_rest(hosts)
    with closing(hosts.services[2].client()) as client:
        made = client.post("/_snapshots", {"name": "monday"})
        assert made.status == 200, made
        assert client.post("/_snapshots", {"name": "monday"}).status == 400
        listed = client.get("/_snapshots").json["snapshots"]
        assert [one["name"] for one in listed] == ["monday"]
        folder = Path(made.json["directory"])
        assert {one.name for one in folder.glob("shard-*")} == {"shard-0", "shard-1", "shard-2"}
        restored = Service(data, 3)
        done = command(restored, "restore", str(folder), "--data-dir", str(data))
        assert done.returncode == 0, done
        assert client.delete("/_snapshots/monday").status == 200
    with restored:
        assert exported(restored) == contents[0] != b""


@pytest.mark.usefixtures("some_items")
def test_an_export_is_a_backup(hosts: Hosts, tmp_path: Path) -> None:
    first, second, third = hosts.services
    configuration, items = tmp_path / "films.json", tmp_path / "films.ndjson"
    shown = command(first, "configure", INDEX)
    assert shown.returncode == 0, shown
    configuration.write_text(shown.stdout)
    written = command(second, "export", INDEX, "--output", str(items))
    assert written.returncode == 0, written

    options = ("--index", "restored", "--config", str(configuration), "--format", "ndjson")
    loaded = command(third, "load", str(items), *options)
    assert loaded.returncode == 0, loaded

    assert items.read_bytes() == exported(first) != b""
    hosts.wait_equal()
    assert command(first, "export", "restored").stdout.encode() == items.read_bytes()
    assert command(second, "configure", "restored").stdout == shown.stdout
    assert command(first, "delete", "restored", "--yes").returncode == 0


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
            with context.wrap_socket(connection, server_hostname=host) as anonymous:
                answer = anonymous.recv(1000)
        except (ssl.SSLError, ConnectionError):
            answer = b""
    assert answer == b""


@pytest.mark.usefixtures("some_items")
def test_nothing_is_lost_and_reads_go_on_when_a_host_burns(hosts: Hosts) -> None:
    client = hosts.services[0].client()
    assert client.delete(f"/{INDEX}").status == 200
    client.close()
    configure(hosts.services[0])
    with clients_at_work(hosts, (1, 2)) as clients:
        clients.wait_written(10)
        burnt = hosts.services[1]
        burnt.kill_all()
        clients.wait_written(10)
        wait_until(lambda: min(num_serving(hosts.services[0])) == 1)
        hosts.empty(1)
        burnt.start()
        wait_until(lambda: num_serving(hosts.services[0]) == [2, 2, 2])
        clients.wait_written(10)
    assert "taking shards" in burnt.log()
    check(hosts, clients.writers)
    states = compared(hosts)
    assert {one["difference"] for one in states} == {""}


@pytest.mark.usefixtures("some_items")
def test_a_shard_moves_to_another_host_and_back(hosts: Hosts) -> None:
    before = exported(hosts.services[0])
    third = hosts.services[2]
    names = [(replica_state(service) or {})["name"] for service in hosts.services]

    def place(shards: str) -> None:
        assert third.terminate() == 0
        third.environment["FACETD_SHARDS_HERE"] = shards
        third.start()

    place("0-1")  # shard 1 is taken from another host, shard 2 stays
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


@pytest.mark.usefixtures("some_items")
def test_a_shard_moves_while_all_serve(hosts: Hosts) -> None:
    before = exported(hosts.services[0])
    names = [(replica_state(service) or {})["name"] for service in hosts.services]
    first, _, third = hosts.services
    with clients_at_work(hosts, (3, 4)) as clients:
        clients.wait_written(5)
        ways = ("--from", names[0], "--to", names[2])
        moved = cluster_command(hosts.services[1], "move", "1", *ways)
        assert moved.returncode == 0, moved
        assert "shard 1 is in place" in moved.stdout
        clients.wait_written(5)
        there = sorted((names[1], names[2]))
        wait_until(lambda: sorted(placement(first)["shards"][1]["placed"]) == there)
        wait_until(lambda: sorted(placement(first)["shards"][1]["serving"]) == there)
        wait_until(lambda: len(first.pids_of("shard")) == 1)
        assert len(third.pids_of("shard")) == 3

        # What was moved stays there when hosts are started again as before.
        first.kill_all()
        clients.wait_written(5)
        first.start()
        assert third.terminate() == 0
        third.start()
        wait_until(lambda: num_serving(first) == [2, 2, 2])
        assert sorted(placement(first)["shards"][1]["placed"]) == there
        clients.wait_written(5)

        # Back again: what was left behind is followed from there.
        added = cluster_command(first, "add", names[0], "--shard", "1")
        assert added.returncode == 0, added
        wait_until(lambda: num_serving(first) == [2, 3, 2])
        removed = cluster_command(first, "remove", names[2], "--shard", "1")
        assert removed.returncode == 0, removed
        wait_until(lambda: num_serving(first) == [2, 2, 2])
        clients.wait_written(5)
    assert all(one.error is None for one in clients.writers), [one.error for one in clients.writers]
    hosts.wait_equal(60)
    assert len({exported(service) for service in hosts.services}) == 1
    assert set(before.splitlines()) <= set(exported(first).splitlines())
    states = compared(hosts)
    assert {one["difference"] for one in states} == {""}


def test_an_order_that_cannot_be_carried_out_is_refused(hosts: Hosts) -> None:
    names = [(replica_state(service) or {})["name"] for service in hosts.services]
    client = hosts.services[0].client()
    for order, problem in (
        ({"shard": 7, "to": names[0]}, "there are shards 0 to 2"),
        ({"shard": 1}, "name the host"),
        ({"shard": 1, "to": "nobody"}, "there is no host 'nobody'"),
        ({"shard": 1, "to": names[0]}, "holds shard 1 already"),
        ({"shard": 2, "from": names[0], "to": names[2]}, "holds shard 2 already"),
    ):
        reply = client.post("/_cluster/shards", order)
        assert (reply.status, reply.json["error"]["code"]) == (400, "invalid_placement"), reply
        assert problem in reply.json["error"]["message"]
    client.close()
    for words, problem in (
        (("move", "7", "--from", names[0], "--to", names[1]), "no shard 7"),
        (("move", "0", "--from", "nobody", "--to", names[1]), "there is no host 'nobody'"),
        (("move", "0", "--from", names[0], "--to", names[0]), "are the same host"),
        (("add", "nobody", "--shard", "1"), "there is no host 'nobody'"),
        (("remove", names[0], "--shard", "-1"), "no shard -1"),
    ):
        refused = cluster_command(hosts.services[0], *words)
        assert (refused.returncode, refused.stdout) == (1, ""), refused
        assert problem in refused.stderr


def test_hosts_of_the_same_name_serve_and_say_so(tmp_path: Path) -> None:
    with SharedLogServers(tmp_path, 1) as log:
        hosts = PlacedHosts(tmp_path, log, PLACED, 3, log_host="vm")
        with hosts:
            for service in hosts.services:
                wait_until(lambda one=service: num_serving(one) == [2, 2, 2])  # type: ignore[misc]
                wait_until(lambda one=service: "another host has the same name" in one.log())  # type: ignore[misc]
            refused = cluster_command(hosts.services[0], "add", "vm", "--shard", "2")
            assert "3 hosts are called 'vm'" in refused.stderr


class HostsAfterTheFirst(PlacedHosts):
    """The first host serves before the others start."""

    is_together: ClassVar[bool] = False


def test_a_log_of_hosts_that_hold_some_shards_begins_with_a_backup(tmp_path: Path) -> None:
    first = Service(tmp_path / "alone", 3)
    source = tmp_path / "backup"
    with first:
        configure(first)
        with closing(first.client()) as client:
            load(client, 300)
        before = exported(first)
        assert command(first, "backup", str(source)).returncode == 0
    with SharedLogServers(tmp_path, 1) as log:
        hosts = HostsAfterTheFirst(tmp_path, log, ("0-2", "1,2", "2,0"), 3)
        for service in hosts.services[1:]:
            service.environment["FACETD_LOG_CREATE"] = "no"
        giving = hosts.services[0]
        restored = command(giving, "restore", str(source), "--data-dir", str(giving.data))
        assert restored.returncode == 0, restored
        giving.environment["FACETD_SHARDS_HERE"] = "0,1"
        with pytest.raises(AssertionError, match="--shards-here 0-2"):
            giving.start()
        giving.kill_all()
        giving.environment["FACETD_SHARDS_HERE"] = "0-2"
        with hosts:
            hosts.wait_equal()
            with closing(hosts.services[1].client()) as client:
                assert client.post(f"/{INDEX}/items", {"id": "new"}).status == 200
            hosts.wait_equal()
            contents = [exported(service) for service in hosts.services]
            assert contents[0] == contents[1] == contents[2]
            assert contents[0].splitlines()[:-1] == before.splitlines()
            wait_until(lambda: num_serving(hosts.services[1]) == [2, 2, 3])
            giving.kill_all()
            giving.environment["FACETD_SHARDS_HERE"] = "0,1"
            giving.start()
            wait_until(lambda: num_serving(hosts.services[1]) == [2, 2, 2])
            assert exported(giving) == contents[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_host_too_full_for_a_configuration_that_others_have_refuses_at_once(
    tmp_path: Path,
) -> None:
    """Its searches used to be tried for seven seconds, and `/_ready` to say 200."""
    with small_disks([tmp_path / "host-0"]) as has_disk, SharedLogServers(tmp_path, 1) as log:
        if not has_disk:
            pytest.skip("cannot mount a small disk")
        with (
            PlacedHosts(tmp_path, log, PLACED, 3) as hosts,
            closing(hosts.services[0].client()) as full,
            closing(hosts.services[1].client()) as other,
        ):
            for index in (INDEX, "unchanged"):
                assert other.post(f"/{index}/configuration", {}).status == 200
                assert other.post(f"/{index}/items", {"id": "1", "genre": "war"}).status == 200
            hosts.wait_equal()
            filler = tmp_path / "host-0" / "filler"
            fill(filler)
            configure(hosts.services[1], {"aggregations": {"genre": {}}})

            search = f"/{INDEX}/search?query=war"
            for page in ("/_ready", search):
                wait_until(lambda page=page: full.get(page).status == 503, 10)  # type: ignore[misc]
            began = time.monotonic()
            for page in ("/_ready", search):
                refused = full.get(page)
                assert (refused.status, refused.headers.get("retry-after")) == (503, "1"), refused
                assert refused.json["error"]["code"] == "replica_lags"
                assert "the disk of this host is full" in refused.json["error"]["message"]
            assert time.monotonic() - began < 1.0
            assert full.get("/unchanged/search?query=war").status == 200
            assert (other.get("/_ready").status, other.get(search).status) == (200, 200)

            filler.unlink()
            hosts.services[0].wait_ready()
            wait_until(lambda: full.get(search).status == 200, 10)
