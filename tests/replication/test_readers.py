"""A host of several whose requests are answered by several processes (`--coordinators`)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.replication.several_hosts import Hosts, SharedLogServers
from tests.replication.workload import INDEX, check, clients_at_work, configure
from tests.service import Service
from tests.waiting import wait_until

NUM_COORDINATORS = 3
NUM_WRITES = 12


def readers(service: Service) -> list[int]:
    """Return the processes that only read."""
    found = []
    for pid in service.pids():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--slot" in words and b"--lock" not in words:
            found.append(pid)
    return found


def read_through_new_connections(service: Service, seq: int, num: int) -> None:
    """Read what a host has acknowledged, through whichever process takes the connection."""
    for _ in range(num):
        client = service.client()
        reply = client.get(f"/{INDEX}/search", per_page="0")
        assert reply.status == 200, reply
        assert reply.json["meta"]["seq"] >= seq
        client.close()


def test_any_process_of_any_host_reads_and_takes_writes(tmp_path: Path) -> None:
    with (
        SharedLogServers(tmp_path, 1) as log,
        Hosts(tmp_path, log, (2, 1), coordinators=str(NUM_COORDINATORS)) as hosts,
    ):
        configure(hosts.services[0])
        hosts.wait_equal()
        for service in hosts.services:
            wait_until(lambda service=service: len(readers(service)) == NUM_COORDINATORS - 1)  # type: ignore[misc]
        for number in range(NUM_WRITES):
            writing = hosts.services[number % 2]
            client = writing.client()
            reply = client.post(f"/{INDEX}/items", [{"id": 900_000 + number}])
            client.close()
            assert reply.status == 200, reply
            seq = reply.json["seq"]
            read_through_new_connections(writing, seq, 3)
            other = hosts.services[1 - number % 2].client()  # the other host, by its number
            found = other.request(
                "GET", f"/{INDEX}/search?per_page=0", headers={"x-min-seq": str(seq)}
            )
            other.close()
            assert found.status == 200, found
            assert found.json["meta"]["seq"] >= seq

        with clients_at_work(hosts, (1, 2)) as clients:
            clients.wait_written(5)
            service = hosts.services[0]
            killed = readers(service)[0]
            os.kill(killed, signal.SIGKILL)
            clients.wait_written(5)
            wait_until(
                lambda: (
                    killed not in readers(service) and len(readers(service)) == NUM_COORDINATORS - 1
                )
            )
            clients.wait_written(5)
        for number in range(NUM_WRITES):
            client = hosts.services[0].client()
            client.delete(f"/{INDEX}/items/{900_000 + number}")
            client.close()
        check(hosts, clients.writers)
