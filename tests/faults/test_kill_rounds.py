"""Kills at random moments under load: nothing acknowledged is lost, nothing deleted comes back.

Each round lets eight writers work, kills something with SIGKILL (one shard, the coordinator, or
everything), waits until the service is ready again, and checks every item and facet count.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import pytest

from tests.faults.workload import CONFIGURATION, Ledger, Writer, check
from tests.service import Service

NUM_WRITERS = 8


OFTEN_FLUSHED = {"FACETD_SHARD_FLUSH_DOCS": "64", "FACETD_SHARD_IDLE_MS": "50"}
"""Settings with which segments are written to files and merged all the time."""


def run_rounds(
    data: Path, num_shards: int, num_rounds: int, seed: int, environment: dict[str, str]
) -> None:
    """Run kill rounds on one data directory; raises at the first round that shows a problem."""
    chance = random.Random(seed)
    with Service(data, num_shards, environment=environment) as service:
        client = service.client()
        assert client.post("/kill/configuration", CONFIGURATION).status == 200
        writers: list[Writer] = []
        ledgers: list[Ledger] = []
        for round_number in range(num_rounds):
            stop = threading.Event()
            writers = [
                Writer(service.port, "kill", n, chance.randrange(1 << 30), stop)
                for n in range(NUM_WRITERS)
            ]
            if ledgers:
                for writer, ledger in zip(writers, ledgers, strict=True):
                    writer.ledger = ledger
                    writer.version = round_number * 1_000_000
            for writer in writers:
                writer.start()
            stop.wait(chance.uniform(0.05, 0.8))
            victim = chance.choice(["shard", "coordinator", "all"])
            if victim == "all":
                service.kill_all()
            else:
                for pid in service.pids_of(victim)[: chance.randrange(1, num_shards + 1)]:
                    os.kill(pid, signal.SIGKILL)
            stop.wait(chance.uniform(0.0, 0.3))
            stop.set()
            for writer in writers:
                writer.join(30)
                assert not writer.is_alive(), "a request hung"
            if victim == "all":
                service.start()
            else:
                service.wait_ready(20)
            client.close()
            ledgers = [writer.ledger for writer in writers]
            problems = check(client, "kill", ledgers)
            assert not problems, (round_number, victim, problems[:10], service.log()[-4000:])
        client.close()
        assert sum(ledger.num_acknowledged for ledger in ledgers) > num_rounds


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("num_shards", "environment"), [(1, OFTEN_FLUSHED), (2, {}), (3, OFTEN_FLUSHED)]
)
def test_nothing_acknowledged_is_lost(
    tmp_path: Path, num_shards: int, environment: dict[str, str]
) -> None:
    run_rounds(tmp_path / "data", num_shards, 4, seed=num_shards, environment=environment)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("environment", [{}, OFTEN_FLUSHED], ids=["default", "often flushed"])
@pytest.mark.parametrize("num_shards", [1, 2, 3])
def test_nothing_acknowledged_is_lost_in_hundreds_of_rounds(
    tmp_path: Path, num_shards: int, environment: dict[str, str]
) -> None:
    run_rounds(tmp_path / "data", num_shards, 100, 1000 + num_shards, environment)
