"""What a host remembers of itself is written by one at a time, also while it stops."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from coordinator.replication.host import log_position as module
from coordinator.replication.host.log_position import Progress
from coordinator.replication.host.replica_file import (
    REPLICA_FORMAT,
    Position,
    ReplicaFile,
    read_replica,
    write_replica,
)
from tests.waiting import until


async def test_a_write_that_a_stop_interrupts_ends_before_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share the name of a temporary file: the final one could be torn."""
    progress = Progress(tmp_path)
    await progress.begin(ReplicaFile(REPLICA_FORMAT, "cluster", "host", 1, 0))
    writing, gate = threading.Event(), threading.Event()
    num_writing = 0

    def write_slowly(data: Path, replica: ReplicaFile) -> None:
        nonlocal num_writing
        num_writing += 1
        assert num_writing == 1
        writing.set()
        gate.wait()
        write_replica(data, replica)
        num_writing -= 1

    monkeypatch.setattr(module, "write_replica", write_slowly)
    progress.position = Position(2, 0)
    interrupted = asyncio.ensure_future(progress.save())
    await until(writing.is_set)
    interrupted.cancel()
    progress.position = Position(3, 0)
    last = asyncio.ensure_future(progress.save())
    for _ in range(10):
        await asyncio.sleep(0)
    assert num_writing == 1
    gate.set()
    await asyncio.gather(interrupted, last, return_exceptions=True)
    replica = read_replica(tmp_path)
    assert replica is not None
    assert replica.seq == 3
