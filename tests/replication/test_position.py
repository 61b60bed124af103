"""The state of a host is written by one task at a time."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from common.data_directory import DataDirectoryError, replica_path
from coordinator.replication.host import log_position
from coordinator.replication.host.log_position import Progress
from coordinator.replication.host.replica_file import (
    REPLICA_FORMAT,
    Position,
    ReplicaFile,
    read_replica,
    write_replica,
)


def test_the_position_is_written_by_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_replica(tmp_path, ReplicaFile(REPLICA_FORMAT, "c", "h", 1, 1))
    num_writing = 0
    most = 0

    def write(data: Path, replica: ReplicaFile) -> None:
        nonlocal num_writing, most
        num_writing += 1
        most = max(most, num_writing)
        time.sleep(0.02)
        write_replica(data, replica)
        num_writing -= 1

    async def save_together() -> None:
        own = Progress(tmp_path)

        async def save(seq: int) -> None:
            own.position = Position(seq, seq)
            await own.save()

        await asyncio.gather(*(save(seq) for seq in range(2, 6)))
        own.position = Position(6, 6)
        await own.save()

    monkeypatch.setattr(log_position, "write_replica", write)
    asyncio.run(save_together())

    assert most == 1
    found = read_replica(tmp_path)
    assert found is not None
    assert found.seq == 6


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": "1"}', b'{"cluster": "\xff"}'])
def test_a_damaged_file_is_refused_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    replica_path(tmp_path).write_bytes(content)
    with pytest.raises(DataDirectoryError, match=r"cannot be read .* empty the directory"):
        read_replica(tmp_path)
