"""How long writes and reads are unavailable after a kill of a host, or of a server of the log.

Every host has a writer of its own, which sends the next item as soon as the last one is answered.
A pause of the writes is the longest time without an acknowledgement of a host that was not killed,
one of the reads that of a client that asks one other host if the first one fails.

    FACETD_FAILOVER_KILLS=100 pytest --long -s tests/replication/test_failover.py -k long
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import signal
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.replication.several_hosts import Hosts, SharedLogServers, is_healthy, replica_state
from tests.replication.workload import INDEX, ClientThread, Reader, at_work, configure
from tests.service import Service
from tests.waiting import wait_until

SERVERS = ("leader of the log", "leader of JetStream", "other server")
PARTS = ("shard", "coordinator")
"""A process of a host; the supervisor starts it again."""
KINDS = (*SERVERS, "host", *PARTS)
KILLS_LONG = int(os.environ.get("FACETD_FAILOVER_KILLS", "100"))
PAUSE_SECONDS = 8.0
"""In the short form, which runs beside others; the long form is strict."""
PAUSE_SECONDS_LONG = 2.0
LAG_MS_MAX = 1_500
"""Of a host that is well; one that was killed first applies what it has missed."""
WRITE_PAUSE_SECONDS = 0.05
"""Between two writes of a host: those that follow must have time to catch up."""


class HostWriter(ClientThread):
    """Writes to one host, one item after the other."""

    def __init__(self, number: int, service: Service) -> None:
        super().__init__()
        self.number = number
        self.service = service
        self.refused: list[tuple[float, str]] = []

    def run(self) -> None:
        client = self.service.client(15)
        for number in itertools.count():
            if self.ends.is_set():
                break
            try:
                reply = client.post(f"/{INDEX}/items", {"id": 1000 * self.number + number % 1000})
            except (OSError, http.client.HTTPException) as error:
                self.refused.append((time.monotonic(), repr(error)))
                time.sleep(0.02)
                continue
            now = time.monotonic()
            if reply.status == 200:
                self.answered_at.append(now)
                time.sleep(WRITE_PAUSE_SECONDS)
            else:
                self.refused.append((now, reply.body.decode()[:300]))
                time.sleep(0.02)
        client.close()


@dataclass
class Failover:
    """Three hosts, three servers, who writes and who reads."""

    log: SharedLogServers
    hosts: Hosts
    writers: list[HostWriter]
    reader: Reader
    pauses: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    read_pauses: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def kill(self, kind: str, dice: random.Random) -> None:
        """Kill one of the six, measure, and start it again."""
        self.wait_well()
        killed = self._choose(kind, dice)
        begun_at = time.monotonic()
        if kind in SERVERS:
            self.log.servers[killed].kill()
        elif kind in PARTS:
            os.kill(self.hosts.services[killed].pids_of(kind)[0], signal.SIGKILL)
        else:
            self.hosts.services[killed].kill_all()
        others = [one for one in self.writers if kind in SERVERS or one.number != killed]
        clients = (*others, self.reader)
        wait_until(lambda: all(one.has_answer_since(begun_at) for one in clients))
        # A host that could write at once may be stopped later: its connection may be found dead.
        ended_at = time.monotonic() + 0.5
        wait_until(lambda: all(one.has_answer_since(ended_at) for one in clients))
        pauses = [round(one.pause(begun_at, ended_at), 2) for one in others]
        self.pauses[kind].append(max(pauses))
        reading = round(self.reader.pause(begun_at, ended_at), 2)
        self.read_pauses[kind].append(reading)
        print(f"{kind} {killed}: {pauses}, reads {reading}", flush=True)
        if kind in SERVERS:
            self.log.start(killed)
        elif kind not in PARTS:
            self.hosts.services[killed].start(wait=False)

    def _choose(self, kind: str, dice: random.Random) -> int:
        leader = int((replica_state(self.hosts.services[0]) or {})["leader"].removeprefix("n"))
        meta = leader_of_jetstream(self.log)
        if kind == "leader of the log":
            return leader
        if kind == "leader of JetStream":
            return meta
        numbers = [one for one in range(3) if kind not in SERVERS or one not in (leader, meta)]
        return dice.choice(numbers)

    def wait_well(self) -> None:
        """Return once all six have everything, and everybody can write."""
        for service in self.hosts.services:
            service.wait_ready()
        for server in self.log.servers:
            wait_until(lambda server=server: is_healthy(server))  # type: ignore[misc]
        wait_until(lambda: all(map(_is_well, self.hosts.services)), 120)
        now = time.monotonic()
        wait_until(lambda: all(one.has_answer_since(now) for one in self.writers))

    def report(self) -> dict[str, Any]:
        return {
            "pauses": _summaries(self.pauses),
            "read_pauses": _summaries(self.read_pauses),
            "acknowledged": sum(len(one.answered_at) for one in self.writers),
            "refused": sum(len(one.refused) for one in self.writers),
            "reads": self.reader.num_read,
            "reads_failed": len(self.reader.failures),
        }


def _is_well(service: Service) -> bool:
    state = replica_state(service) or {}
    return bool(
        state
        and state["is_log_up"]
        and state["num_current"] == 3
        and not state["trouble"]
        and 0 <= state["lag_ms"] < LAG_MS_MAX
    )


def _summaries(pauses: dict[str, list[float]]) -> dict[str, Any]:
    every = [pause for some in pauses.values() for pause in some]
    return {kind: _summary(some) for kind, some in {**pauses, "all": every}.items()}


def _summary(pauses: list[float]) -> dict[str, Any]:
    ascending = sorted(pauses)
    return {
        "kills": len(ascending),
        "p50": ascending[len(ascending) // 2],
        "p99": ascending[min(len(ascending) - 1, int(len(ascending) * 0.99))],
        "max": ascending[-1],
    }


def leader_of_jetstream(log: SharedLogServers) -> int:
    """Return which server leads the group that makes streams and consumers."""

    def find() -> str:
        for server in log.servers:
            address = f"http://127.0.0.1:{server.monitor}/jsz"
            with urllib.request.urlopen(address, timeout=2) as answer:
                leader = json.loads(answer.read()).get("meta_cluster", {}).get("leader", "")
                if leader:
                    return str(leader)
        return ""

    return int(wait_until(find, ignoring=(OSError,)).removeprefix("n"))


@contextmanager
def failover(folder: Path) -> Iterator[Failover]:
    """Start everything."""
    with SharedLogServers(folder) as log, Hosts(folder, log) as hosts:
        configure(hosts.services[0])
        hosts.wait_equal()
        writers = [HostWriter(number, one) for number, one in enumerate(hosts.services)]
        reader = Reader(hosts)
        found = Failover(log, hosts, writers, reader)
        try:
            with at_work(*writers, reader):
                yield found
        finally:
            if found.pauses:
                print(json.dumps(found.report()), flush=True)
        assert not reader.failures, reader.failures[:3]
        hosts.wait_equal(60)


def test_writes_go_on_soon_after_a_kill(tmp_path: Path) -> None:
    dice = random.Random(1)
    with failover(tmp_path) as found:
        for kind in KINDS:
            found.kill(kind, dice)
        logs = "".join(service.log() for service in found.hosts.services)
        assert "asked for an election" in logs
        assert "another server leads the log" in logs
        assert max(map(max, found.pauses.values())) < PAUSE_SECONDS, found.report()


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_writes_go_on_soon_after_a_kill_for_long(tmp_path: Path) -> None:
    dice = random.Random(2)
    with failover(tmp_path) as found:
        for _ in range(KILLS_LONG // len(KINDS)):
            for kind in dice.sample(KINDS, len(KINDS)):
                found.kill(kind, dice)
        assert found.report()["pauses"]["all"]["p99"] <= PAUSE_SECONDS_LONG, found.report()
