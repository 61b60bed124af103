"""A reader during writes and kills never sees a silently partial or mixed answer.

Every batch puts the same number of items with one batch name on all shards, replacing those of the
batch before: each answer must show every batch whole or not at all, facets and total must agree.
"""

from __future__ import annotations

import http.client
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.service import Client, Service
from tests.waiting import wait_until

BATCH_ITEMS = 24
SLOTS = 8


def write_batches(port: int, stop: threading.Event, problems: list[str]) -> None:
    client = Client(port, timeout=15)
    number = 0
    while not stop.is_set():
        number += 1
        slot = number % SLOTS
        items = [
            {"id": f"{slot}-{n}", "slot": f"s{slot}", "batch": f"b{number}", "name": "tide"}
            for n in range(BATCH_ITEMS)
        ]
        try:
            reply = client.post("/r/items", items)
            if reply.status not in (200, 503, 504):
                problems.append(f"write answered {reply.status}: {reply.body!r}")
        except (OSError, http.client.HTTPException):
            client.close()
            stop.wait(0.02)
    client.close()


def mixed(answer: dict[str, Any], is_whole: bool) -> str | None:
    """Return what is wrong with one answer."""
    total = answer["pagination"]["total"]
    facets = answer["data"]["aggregations"]
    for name in ("slot", "batch"):
        counts = [b["doc_count"] for b in facets[name]["buckets"] if b["doc_count"]]
        if sum(counts) != total:
            return f"{name} adds up to {sum(counts)}, total is {total}"
        if is_whole and any(count % BATCH_ITEMS for count in counts):
            return f"{name} has a part of a batch: {counts}"
    return None


def read(
    port: int, stop: threading.Event, is_whole: bool, problems: list[str], answered: list[int]
) -> None:
    """Search until told to stop; `answered` gets the total of each answer."""
    client = Client(port, timeout=15)
    while not stop.is_set():
        try:
            reply = client.post("/r/search", {"query": "tide", "per_page": 3})
        except (OSError, http.client.HTTPException):
            client.close()
            stop.wait(0.02)
            continue
        if reply.status == 200:
            answered.append(reply.json["pagination"]["total"])
            problem = mixed(reply.json, is_whole)
            if problem:
                problems.append(problem)
        elif reply.status not in (503, 504):
            problems.append(f"search answered {reply.status}: {reply.body!r}")
        else:
            stop.wait(0.02)
    client.close()


NUM_AFTERWARDS = 20
"""Answers that are looked at once the last shard is back."""
CONFIGURATION = {"aggregations": {"slot": {"size": 100}, "batch": {"size": 1000}}}


@pytest.mark.timeout(120)
def test_batches_are_seen_whole_while_nothing_fails(tmp_path: Path) -> None:
    with Service(tmp_path / "data", 3) as service:
        client = service.client()
        assert client.post("/r/configuration", CONFIGURATION).status == 200
        client.close()
        problems: list[str] = []
        stop = threading.Event()
        writer = threading.Thread(target=write_batches, args=(service.port, stop, problems))
        writer.start()
        timer = threading.Timer(6, stop.set)
        timer.start()
        answered: list[int] = []
        read(service.port, stop, True, problems, answered)
        writer.join()
        timer.join()
        assert not problems, problems[:5]
        assert len(answered) > 10


@pytest.mark.timeout(180)
def test_answers_are_whole_or_errors_while_shards_are_killed(tmp_path: Path) -> None:
    """A batch whose shard dies may be there in part (its outcome is unknown to its writer); but
    totals and facets of one answer always agree, and nothing is left out silently."""
    with Service(tmp_path / "data", 2) as service:
        client = service.client()
        assert client.post("/r/configuration", CONFIGURATION).status == 200
        client.close()
        problems: list[str] = []
        stop = threading.Event()
        chance = random.Random(5)
        answered: list[int] = []

        def kill() -> None:
            for _ in range(3):
                time.sleep(chance.uniform(0.5, 1.5))
                pids = service.pids_of("--shard-id")
                if pids:
                    os.kill(chance.choice(pids), signal.SIGKILL)
            service.wait_ready()
            wanted = len(answered) + NUM_AFTERWARDS
            wait_until(lambda: len(answered) >= wanted or problems)
            stop.set()

        threads = [
            threading.Thread(target=write_batches, args=(service.port, stop, problems)),
            threading.Thread(target=kill),
        ]
        for thread in threads:
            thread.start()
        read(service.port, stop, False, problems, answered)
        for thread in threads:
            thread.join()
        assert not problems, problems[:5]
        assert len(answered) > 10
