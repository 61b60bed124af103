"""A hanging shard is replaced; no answer is partial and no client hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.faults.workload import CONFIGURATION
from tests.service import Client, Service
from tests.waiting import wait_until

NUM_ITEMS = 60
SILENT_SECONDS = 10
"""After which a silent shard is killed: what is asked before takes three seconds, or some more."""
HANG_SECONDS_MAX = 30
"""Until it is replaced; most of it is for a busy machine."""


def make_index(client: Client, name: str) -> None:
    """Make an index of items that every search finds."""
    assert client.post(f"/{name}/configuration", CONFIGURATION).status == 200
    items = [{"id": n, "colour": "red", "writer": "w"} for n in range(NUM_ITEMS)]
    assert client.post(f"/{name}/items", items).status == 200


@pytest.mark.timeout(180)
def test_a_hung_shard_is_an_error_or_a_flagged_part_until_it_is_replaced(tmp_path: Path) -> None:
    settings = {"FACETD_SILENT_SHARD_SECONDS": str(SILENT_SECONDS)}
    with Service(tmp_path / "data", 2, environment=settings) as service:
        client = service.client()
        make_index(client, "hung")

        (victim, *_) = service.pids_of("--shard-id")[:1]
        os.kill(victim, signal.SIGSTOP)
        started = time.monotonic()
        reply = client.get("/_ready")
        assert (reply.status, reply.json["error"]["code"]) == (503, "shard_unavailable")
        assert len(reply.json["error"]["shards"]["failed"]) == 1
        assert client.get("/_health").status == 200
        assert time.monotonic() - started < 5

        started = time.monotonic()
        reply = client.post("/hung/search", {"timeout_ms": 1000})
        assert reply.status in (503, 504), reply.body
        assert time.monotonic() - started < 5

        reply = client.post("/hung/search", {"timeout_ms": 2000, "partial": "allow"})
        if reply.status == 200:
            answer = reply.json
            assert answer["meta"]["shards"]["failed"] == 1
            assert 0 < answer["pagination"]["total"] < NUM_ITEMS
        else:
            assert reply.status in (503, 504), reply.body

        wait_until(
            lambda: client.post("/hung/search", {"timeout_ms": 1000}).status == 200,
            HANG_SECONDS_MAX,
        )
        answer = client.search("hung")
        assert answer["pagination"]["total"] == NUM_ITEMS
        assert answer["meta"]["shards"]["failed"] == 0
        assert client.post("/hung/items", [{"id": 1000}]).status == 200
        client.close()


@pytest.mark.timeout(120)
def test_a_slow_shard_has_the_time_that_the_request_has(tmp_path: Path) -> None:
    settings = {"FACETD_SHARD_TIMEOUT_MS": "200"}
    with Service(tmp_path / "data", 2, environment=settings) as service:
        client = service.client()
        make_index(client, "slow")
        client.post("/slow/items", [{"id": 0, "colour": "red", "note": "a"}])
        client.search("slow", distinct="note")

        (victim, *_) = service.pids_of("--shard-id")[:1]
        os.kill(victim, signal.SIGSTOP)
        partial = client.post("/slow/search", {"partial": "allow"})
        assert partial.json["meta"]["shards"]["failed"] == 1
        for field, advice in (("colour", ""), ("note", "; the first search by texts of 'note' ")):
            late = client.post("/slow/search", {"distinct": field})
            assert late.status == 504
            assert late.json["error"]["message"].partition("in time")[2].startswith(advice)
            assert bool(advice) == ("sorting_fields" in late.json["error"]["message"])
        going_on = threading.Timer(1, os.kill, (victim, signal.SIGCONT))
        going_on.start()
        whole = client.post("/slow/search", {"timeout_ms": 30_000})
        going_on.join()
        assert whole.status == 200, whole.body
        assert whole.json["pagination"]["total"] == NUM_ITEMS
        client.close()
