"""A full disk: reads go on, writes are refused, and freeing space is the only remedy needed.

The whole service, started as a user starts it, on a disk that is full from some call on (see
failing_disk.py): every write that would need a further block is refused.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.failing_disk import COMPILER, FailingDisk
from tests.service import ROOT, Client, Service, is_running
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(
    COMPILER is None, reason="needs a C compiler for the library that lets calls fail"
)

NUM_ITEMS = 200


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FailingDisk]:
    (tmp_path / "library").mkdir()
    disk = FailingDisk(tmp_path / "library")
    yield disk
    disk.close()


def fill_index(client: Client) -> None:
    configuration: dict[str, Any] = {"aggregations": {"colour": {}}}
    assert client.post("/f/configuration", configuration).status == 200
    items = [{"id": n, "colour": "rb"[n % 2], "name": f"thing {n}"} for n in range(NUM_ITEMS)]
    assert client.post("/f/items", items).status == 200


def check_reads(client: Client, num_items: int = NUM_ITEMS) -> None:
    answer = client.search("f", query="thing", per_page=1)
    assert answer["pagination"]["total"] == num_items
    counts = {b["key"]: b["doc_count"] for b in answer["data"]["aggregations"]["colour"]["buckets"]}
    assert counts["b"] == NUM_ITEMS // 2
    assert client.get("/f/items/7").json["name"] == "thing 7"


def write_until(client: Client, status: int, seconds: float = 30) -> None:
    """Write until it is answered by a status; until then a shard may be restarting."""
    deadline = time.monotonic() + seconds
    items = [{"id": f"x{n}", "colour": "r", "name": "thing " + "long " * 50} for n in range(300)]
    while True:
        reply = client.post("/f/items", items)
        if reply.status == status:
            return
        assert reply.status in (503, 507), reply.body
        assert time.monotonic() < deadline, reply.body
        time.sleep(0.1)


@pytest.mark.timeout(240)
def test_a_full_disk_stops_writes_and_nothing_else(tmp_path: Path, disk: FailingDisk) -> None:
    """Full in the middle; started again while it is full; and well as soon as there is room."""
    data = tmp_path / "data"
    with Service(data, 2, environment=disk.environment) as service:
        client = service.client()
        fill_index(client)
        former = service.pids_of("shard")
        disk.watch(data)
        disk.fill(1)
        write_until(client, 507)
        # A shard whose commit was refused ends, once; one that looks after that knows before.
        wait_until(lambda: not all(map(is_running, former)))
        write_until(client, 507)
        service.wait_ready(20)
        check_reads(client)
        write_until(client, 507)
        check_reads(client)
        client.close()
        service.kill_all()
        service.start()  # no free block, from the first moment on
        client = service.client()
        check_reads(client)
        write_until(client, 507)
        assert client.post("/g/configuration", {}).status == 507
        check_reads(client)
        disk.heal()
        write_until(client, 200)
        check_reads(client, NUM_ITEMS + 300)
        client.close()
        assert service.terminate() == 0


def start_on_full_disk(data: Path, disk: FailingDisk, nth: int) -> subprocess.CompletedProcess[str]:
    disk.watch(data)
    disk.fill(nth)
    return subprocess.run(
        [sys.executable, "-m", "coordinator", "serve", "--data-dir", str(data), "--port", "0"],
        cwd=ROOT,
        env={**os.environ, **disk.environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.timeout(240)
@pytest.mark.parametrize("nth", [1, 6])
def test_a_first_start_on_a_full_disk_says_so_and_ends(
    tmp_path: Path, disk: FailingDisk, nth: int
) -> None:
    ended = start_on_full_disk(tmp_path / "data", disk, nth)
    assert disk.heal() > 0
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr
    with Service(tmp_path / "data", 1) as service:
        client = service.client()
        fill_index(client)
        check_reads(client)
        client.close()
