"""What a host remembers of itself is written by one at a time, also while it stops."""

from __future__ import annotations

import asyncio
import errno
import os
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


async def test_a_full_disk_is_told_once_and_asked_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The position rests while nothing can be applied: each line would need room, too."""
    monkeypatch.setattr(module, "REST_SECONDS", 0.001)
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.05)
    progress = Progress(tmp_path)
    await progress.begin(ReplicaFile(REPLICA_FORMAT, "cluster", "host", 1, 0))
    num_tries, is_full = 0, True

    def write(data: Path, replica: ReplicaFile) -> None:
        nonlocal num_tries
        num_tries += 1
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_replica(data, replica)

    def num_told() -> int:
        return len([one for one in caplog.records if "cannot be written" in one.getMessage()])

    monkeypatch.setattr(module, "write_replica", write)
    with caplog.at_level("WARNING", logger="facetd"):
        writing = asyncio.ensure_future(progress.run())
        progress.position = Position(2, 0)
        loop = asyncio.get_running_loop()
        begun_at = loop.time()
        await until(lambda: num_tries >= 4)
        assert loop.time() - begun_at > 2 * module.SAVE_SECONDS
        assert num_told() == 1

        is_full = False
        await until(lambda: progress.saved_seq == 2)
        is_full = True
        progress.position = Position(3, 0)
        await until(lambda: num_told() == 2)  # full once more, told once more
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
