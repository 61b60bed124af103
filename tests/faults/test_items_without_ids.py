"""Kills while items without ids are written: an answer says what was stored, so retries create no
duplicates.

Each round, four writers post batches of items without ids, one process is killed, and every answer
is compared with what is there afterwards:

    200                                all items of the batch, once
    500 partly_stored                  those at positions in neither `not_stored` nor `unknown`, and
                                       none of `not_stored`
    an error that invites to try again none (a coordinator that dies answers nothing: any, once)
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.service import Client, Service

NUM_WRITERS = 4
NUM_ITEMS = 701


class Writer(threading.Thread):
    """Posts batches until it is told to stop; notes what each was answered."""

    def __init__(self, port: int, name: str, stop: threading.Event) -> None:
        super().__init__()
        self._client = Client(port)
        self._name = name
        self._stopping = stop
        self.answers: dict[str, dict[str, Any] | None] = {}

    def run(self) -> None:
        for number in range(100_000):
            if self._stopping.is_set():
                break
            batch = f"{self._name}-{number}"
            items = [{"batch": batch, "n": n} for n in range(NUM_ITEMS)]
            try:
                reply = self._client.post("/bare/items", items)
                self.answers[batch] = {**reply.json, "status": reply.status}
            except (OSError, http.client.HTTPException):
                self.answers[batch] = None  # the connection has ended
        self._client.close()


def wanted(answer: dict[str, Any] | None) -> tuple[set[int], set[int]]:
    """Return the positions that must be there, and those that may be."""
    everything = set(range(NUM_ITEMS))
    if answer is None:
        return set(), everything
    if answer["status"] == 200:
        return everything, everything
    error = answer["error"]
    if error["code"] != "partly_stored":
        assert answer["status"] in (503, 504), answer
        # A deadline may pass while the outcome is open; everything else says that nothing is there.
        return set(), everything if answer["status"] == 504 else set()
    missing, unknown = (
        {n for first, last in error[name] for n in range(first, last + 1)}
        for name in ("not_stored", "unknown")
    )
    assert error["stored"] == NUM_ITEMS - len(missing | unknown)
    return everything - missing - unknown, everything - missing


@pytest.mark.timeout(170)
@pytest.mark.parametrize("num_shards", [2, 3])
def test_an_answer_says_which_items_without_ids_were_stored(
    tmp_path: Path, num_shards: int
) -> None:
    chance = random.Random(num_shards)
    with Service(tmp_path / "data", num_shards) as service:
        client = service.client()
        configuration = {"aggregations": {"batch": {"size": 10_000}}}
        assert client.post("/bare/configuration", configuration).status == 200
        answers: dict[str, dict[str, Any] | None] = {}
        for round_number in range(5):
            stop = threading.Event()
            writers = [
                Writer(service.port, f"{round_number}-{n}", stop) for n in range(NUM_WRITERS)
            ]
            for writer in writers:
                writer.start()
            stop.wait(chance.uniform(0.1, 0.5))
            victim = chance.choice(["shard", "shard", "coordinator"])
            os.kill(chance.choice(service.pids_of(victim)), signal.SIGKILL)
            stop.wait(chance.uniform(0.0, 0.2))
            stop.set()
            for writer in writers:
                writer.join(60)
                assert not writer.is_alive(), "a request hung"
                answers |= writer.answers
            service.wait_ready(30)
            client.close()
        stored: dict[str, Counter[int]] = {batch: Counter() for batch in answers}
        for line in client.get("/bare/items").body.splitlines():
            item = json.loads(line)
            stored[item["batch"]][item["n"]] += 1
        for batch, answer in answers.items():
            least, most = wanted(answer)
            assert set(stored[batch].values()) <= {1}, "an item was stored twice"
            assert least <= set(stored[batch]) <= most, (batch, answer)
        client.close()
    assert any(answer is not None and answer["status"] == 200 for answer in answers.values())
