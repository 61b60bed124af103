"""The owner of several coordinators: what it counts of the others."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from coordinator.cluster.shared_memory import create_shared_state
from coordinator.http.metrics import Counts, Metrics
from coordinator.http.reader_coordinator_reports import ReaderReport
from coordinator.process import coordinator_process
from coordinator.process.coordinator_process import ReaderProcesses


def _report(pid: int, num_requests: int) -> bytes:
    counts = Counts.none()
    counts.routes["GET /x"] = ({200: num_requests}, [0] * 16, 0.0)
    return msgspec.msgpack.encode(ReaderReport(pid, counts, 0, 0.0, [], [], []))


async def test_a_reader_whose_last_report_comes_after_its_end_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator_process, "LAST_REPORT_SECONDS", 0.01)
    services: Any = SimpleNamespace(
        metrics=Metrics(),
        analytics=SimpleNamespace(record_all=lambda searches: None),
        slow_queries=SimpleNamespace(latest=[]),
        catalog=SimpleNamespace(state=SimpleNamespace(revision=1), is_active=True),
        cluster=SimpleNamespace(share=lambda shared: None),
    )
    memory = create_shared_state(3)
    slot: Any = SimpleNamespace(state=memory, ordinal=0, exchange=-1)
    settings: Any = SimpleNamespace(coordinators=3)
    processes = ReaderProcesses(settings, slot, services)
    running = [1, 2]
    monkeypatch.setattr(processes.shared, "readers", lambda: running)
    reports = processes._reports

    def num_counted() -> int:
        return reports.counts().routes["GET /x"][0][200]

    processes._take_report(_report(1, 100))
    running.remove(1)
    processes._take_report(_report(2, 7))
    processes._take_report(_report(1, 105))
    assert num_counted() == 112
    await asyncio.sleep(0.05)
    processes._take_report(_report(2, 8))
    assert num_counted() == 113
    assert [one.pid for one in reports.processes()] == [2]
    os.close(memory)
