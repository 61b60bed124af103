"""Processes have room for descriptors before they have threads: `open` and `accept` never wait."""

from __future__ import annotations

from pathlib import Path

from common.process.descriptor_limit_and_table import TABLE_SIZE
from tests.cluster.conftest import Services


def test_shards_and_coordinator_have_room(services: Services) -> None:
    service = services(2)
    pids = service.pids_of("shard") + service.pids_of("coordinator")
    assert len(pids) == 3
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        size = next(line.split()[1] for line in status if line.startswith("FDSize:"))
        assert int(size) >= TABLE_SIZE
