"""Shards placed over hosts whose connections are cut: to each other, and to the log."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.replication.host.replica_file import read_replica
from tests.replication.proxies import Proxies
from tests.replication.several_hosts import (
    Hosts,
    PlacedHosts,
    SharedLogServers,
    num_serving,
    replica_state,
)
from tests.replication.workload import INDEX, check, clients_at_work, configure
from tests.service import Client, Service
from tests.waiting import wait_until

PLACED = ("0,1", "1,2", "2,0")
NUM_ITEMS = 60
READ_SECONDS = 20.0
"""Deadlines are the service's own, 5 s; the rest is for a busy machine."""
SNAPSHOT_SECONDS = 20.0
"""A snapshot asks another host after 5 s; the rest is for a busy machine."""


@pytest.fixture(scope="module")
def proxies() -> Iterator[Proxies]:
    with Proxies() as proxies:
        yield proxies


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, proxies: Proxies) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("cuts")
    with (
        SharedLogServers(folder, 1, proxies=proxies) as log,
        PlacedHosts(folder, log, PLACED, 3, proxies) as hosts,
    ):
        configure(hosts.services[0], {"aggregations": {"round": {}}})
        put(hosts.services[0], 0)
        hosts.wait_equal()
        yield hosts


def put(service: Service, round_: int) -> int:
    """Replace all items; return the entry of the log."""
    client = service.client()
    items = [{"id": number, "round": round_} for number in range(NUM_ITEMS)]
    try:
        reply = client.post(f"/{INDEX}/items", items)
    finally:
        client.close()
    assert reply.status == 200, reply
    return int(reply.json["seq"])


def rounds_seen(reply: Any) -> dict[int, int]:
    """Return how many items of each round a search has counted; of one state there is one round."""
    buckets = reply.json["data"]["aggregations"]["round"]["buckets"]
    return {int(one["key"]): one["doc_count"] for one in buckets if one["doc_count"]}


def search(client: Client, **headers: str) -> Any:
    return client.request(
        "GET",
        f"/{INDEX}/search?per_page=0",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


def test_a_host_that_is_cut_off_is_read_elsewhere(hosts: Hosts, proxies: Proxies) -> None:
    wait_until(lambda: num_serving(hosts.services[0]) == [2, 2, 2])
    first, cut, third = hosts.services
    proxies.cut([one for one in proxies.all if one.target == "host 1"])
    try:
        for round_ in range(1, 4):
            seq = put((first, third, cut)[round_ % 3], round_)
            for service in hosts.services:
                client = service.client(READ_SECONDS)
                reply = search(client, x_min_seq=str(seq))
                client.close()
                assert reply.status == 200, reply
                assert rounds_seen(reply) == {round_: NUM_ITEMS}
        wait_until(lambda: sorted(num_serving(first)) == [1, 1, 2])  # of shards 1 and 2 one copy
        assert sorted(num_serving(cut)) == [2, 2, 2]  # it reaches the others
    finally:
        proxies.mend()
    wait_until(lambda: num_serving(first) == [2, 2, 2])
    hosts.wait_equal()


@pytest.mark.parametrize("number", [1, 2])
def test_a_snapshot_takes_a_shard_of_another_host_soon_after_one_is_cut_off(
    hosts: Hosts, proxies: Proxies, number: int
) -> None:
    """Shard 2 is on both; the snapshot waited half a minute for the host that it asks first."""
    wait_until(lambda: num_serving(hosts.services[0]) == [2, 2, 2])
    client = hosts.services[0].client(60)
    cut = f"host {number}"
    proxies.cut([one for one in proxies.all if cut in (one.source, one.target)])
    try:
        began_at = time.monotonic()
        reply = client.post("/_snapshots", {"name": f"without-{number}"})
        seconds = time.monotonic() - began_at
    finally:
        proxies.mend()
        client.close()
    assert reply.status == 200, reply
    assert seconds < SNAPSHOT_SECONDS
    hosts.wait_equal(60)


def test_a_host_without_the_log_shows_one_old_state_and_writes_nothing(
    hosts: Hosts, proxies: Proxies
) -> None:
    before = put(hosts.services[0], 10)
    hosts.wait_equal()
    cut = hosts.services[2]
    client = cut.client(READ_SECONDS)
    proxies.cut([one for one in proxies.all if one.source == "host 2"])
    try:
        wait_until(lambda: (replica_state(cut) or {}).get("is_log_up") is False)
        reply = client.post(f"/{INDEX}/items", [{"id": 1, "round": 99}])
        assert (reply.status, reply.json["error"]["code"]) == (503, "log_unavailable"), reply
        for round_ in range(11, 15):  # the others go on without it
            seq = put(hosts.services[round_ % 2], round_)
            reply = search(client)
            assert reply.status == 200, reply
            assert reply.json["meta"]["seq"] == before
            assert rounds_seen(reply) == {10: NUM_ITEMS}  # all shards, also those read elsewhere
        asked_at = time.monotonic()
        reply = search(client, x_min_seq=str(seq))
        assert (reply.status, reply.json["error"]["code"]) == (504, "deadline_exceeded"), reply
        assert time.monotonic() - asked_at < READ_SECONDS
        reply = search(client, x_max_lag_ms="1000")
        assert (reply.status, reply.json["error"]["code"]) == (503, "replica_lags"), reply
    finally:
        proxies.mend()
    hosts.wait_equal()
    reply = search(client, x_min_seq=str(seq))
    assert rounds_seen(reply) == {14: NUM_ITEMS}
    client.close()


def test_after_a_power_cut_each_host_shows_one_state_without_the_log(
    hosts: Hosts, proxies: Proxies
) -> None:
    before = put(hosts.services[0], 15)
    wait_until(lambda: all(saved_seq(service) >= before for service in hosts.services))
    written = {before: 15}

    def write() -> None:
        for round_ in itertools.count(20):
            with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
                written[put(hosts.services[round_ % 3], round_)] = round_
                continue
            return

    writer = threading.Thread(target=write)
    writer.start()
    wait_until(lambda: len(written) >= 20)
    kill_at_once(hosts)
    writer.join()
    proxies.cut([one for one in proxies.all if one.source.startswith("host ")])
    try:
        for service in hosts.services:
            service.start(wait=False)
        for service in hosts.services:
            service.wait_ready()
            client = service.client(READ_SECONDS)
            reply = search(client)
            client.close()
            assert reply.status == 200, reply
            seq = reply.json["meta"]["seq"]
            last = max(round_ for at, round_ in written.items() if at <= seq)
            unanswered = max(written.values()) + 1
            assert rounds_seen(reply) in ({last: NUM_ITEMS}, {unanswered: NUM_ITEMS}), seq
    finally:
        proxies.mend()
    hosts.wait_equal(60)
    client = hosts.services[0].client(READ_SECONDS)
    reply = search(client)
    client.close()
    assert list(rounds_seen(reply).values()) == [NUM_ITEMS]
    assert max(rounds_seen(reply)) >= max(written.values())


def saved_seq(service: Service) -> int:
    """Return how far a host had come when it wrote that down last."""
    replica = read_replica(service.data)
    return replica.seq if replica is not None else 0


def kill_at_once(hosts: Hosts) -> None:
    """Kill all processes of all hosts, as a power cut does."""
    for pid in [pid for service in hosts.services for pid in service.pids()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for service in hosts.services:
        service.kill_all()


def test_nothing_is_lost_while_connections_are_cut_one_after_the_other(
    hosts: Hosts, proxies: Proxies
) -> None:
    other_index = hosts.services[0].client()
    assert other_index.delete(f"/{INDEX}").status == 200
    other_index.close()
    configure(hosts.services[0])
    with clients_at_work(hosts, (1, 2)) as clients:
        try:
            clients.wait_written(5)
            for proxy in proxies.all:
                if "host" in proxy.source or "host" in proxy.target:
                    proxies.cut([proxy])
                    clients.wait_written(5)
                    proxies.mend()
                    wait_until(lambda: num_serving(hosts.services[0]) == [2, 2, 2])
        finally:
            proxies.mend()
    check(hosts, clients.writers)
