"""The start of a host that makes the log."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.replication.host import log_position as progress_module
from coordinator.replication.host.log_position import Progress
from coordinator.replication.host.replica_file import ReplicaFile, read_replica, write_replica
from coordinator.replication.log.jetstream_info import StreamInfo
from coordinator.replication.startup import log_stream_creation
from coordinator.replication.startup.log_stream_creation import create_log
from coordinator.settings import Settings


async def test_a_host_that_has_made_the_log_waits_for_room_to_note_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stopped; the next start took the log, made from its data, for one of other data."""
    made = StreamInfo.read(
        {
            "state": {"first_seq": 8, "last_seq": 7},
            "config": {
                "num_replicas": 1,
                "metadata": {"facetd-cluster": "c0", "facetd-origin": "8"},
            },
        }
    )

    async def info() -> StreamInfo:
        return made

    refusals = [OSError(errno.ENOSPC, "No space left on device") for _ in range(2)]

    def refuse_at_first(data: Path, replica: ReplicaFile) -> None:
        if refusals:
            raise refusals.pop()
        write_replica(data, replica)

    monkeypatch.setattr(log_stream_creation, "CREATE_SECONDS", 0)
    monkeypatch.setattr(progress_module, "write_replica", refuse_at_first)
    host: Any = SimpleNamespace(
        settings=Settings(data_dir=tmp_path),
        progress=Progress(tmp_path),
        stream=SimpleNamespace(info=info),
    )
    watch: Any = SimpleNamespace(info=None)

    await create_log(host, watch, 7)

    replica = read_replica(tmp_path)
    assert replica is not None
    assert (replica.cluster, replica.seq) == ("c0", 7)
    assert watch.info is made
