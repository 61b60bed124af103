"""The other hosts, as this one knows them, and what it says of itself."""

from __future__ import annotations

import asyncio
import errno
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.replication.peers.peer_states import ASK_SECONDS, HostState, Peers
from coordinator.snapshots.snapshots_on_disk import (
    SNAPSHOT_FORMAT,
    ServiceSnapshot,
    write_snapshot,
)


class _Stream:
    """A log that is connected, and on which no other host answers."""

    name = "log"
    is_connected = True

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    def client(self) -> _Stream:
        return self

    async def subscribe(self, subject: str, cb: Any) -> None:
        pass

    async def ask_all(self, subject: str, seconds: float, enough: int) -> list[bytes]:
        self.asked.set()
        return []


def _peers(folder: Any, stream: _Stream | None = None) -> Peers:
    host: Any = SimpleNamespace(
        id="b41d", stream=stream, settings=SimpleNamespace(snapshot_folder=folder)
    )
    return Peers(host, lambda: None)  # type: ignore[arg-type, return-value]


class _Log:
    """A log on which some hosts answer; what a host answers is what it would send."""

    name = "log"

    def __init__(self) -> None:
        self.hosts: list[Peers] = []

    async def ask_all(self, subject: str, seconds: float, enough: int) -> list[bytes]:
        answers: list[bytes] = []

        async def respond(content: bytes) -> None:
            answers.append(content)

        for host in self.hosts:
            await host._answer(SimpleNamespace(respond=respond))  # type: ignore[arg-type]
        return answers

    async def tell(self, subject: str, content: bytes) -> None:
        for host in self.hosts:
            await host._take_forgetting(SimpleNamespace(data=content))  # type: ignore[arg-type]

    def start(self, name: str) -> Peers:
        host: Any = SimpleNamespace(id=name, stream=self, settings=SimpleNamespace())
        self.hosts.append(Peers(host, lambda: None))  # type: ignore[arg-type, return-value]
        return self.hosts[-1]


async def test_a_host_that_starts_learns_who_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Peers, "own", property(lambda host: _state(host._host.id, host._host.id)))
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    log = _Log()
    first, second, lost = map(log.start, ("first", "second", "lost"))
    for host in log.hosts:
        await host.ask()
    log.hosts.remove(lost)
    now += 20.0
    for host in (first, second):  # again, one after the other
        log.hosts.remove(host)
        again = log.start(host._host.id)
        await again.ask()
        assert [(one.name, silent) for one, silent in again.hosts if silent] == [("lost", 20.0)]
        assert again.num_away == 1

    cut_off, told = log.hosts
    log.hosts.remove(cut_off)
    await told.forget("lost")
    log.hosts.append(cut_off)  # which still tells of it
    await told.ask()
    assert (cut_off.num_away, told.num_away) == (1, 0)


class _StaleFolder:
    """A folder of another machine, which does not answer any more."""

    def is_dir(self) -> bool:
        return True

    def iterdir(self) -> Any:
        raise OSError(errno.ESTALE, "stale file handle")


async def test_hosts_are_asked_also_where_the_folder_of_snapshots_cannot_be_read() -> None:
    stream = _Stream()
    running = asyncio.create_task(_peers(_StaleFolder(), stream).run())
    try:
        async with asyncio.timeout(5):
            await stream.asked.wait()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_what_is_no_snapshot_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    peers = _peers(tmp_path)
    (tmp_path / "copied").mkdir()  # and not complete yet
    for _ in range(3):
        peers._look_for_snapshots()
    assert peers._newest_snapshot == ""
    assert [one.getMessage() for one in caplog.records] == ["not a snapshot"]

    made = ServiceSnapshot(SNAPSHOT_FORMAT, "copied", "2026-11-27", "facetd", 1, (), ())
    write_snapshot(tmp_path / "copied", made)
    peers._look_for_snapshots()
    assert peers._newest_snapshot == "2026-11-27"
    (tmp_path / "copied").rename(tmp_path / "copied.partial")
    peers._look_for_snapshots()
    assert peers._newest_snapshot == ""


def _state(host: str, name: str) -> HostState:
    return HostState(
        host=host,
        name=name,
        version="0",
        shards=1,
        seq=1,
        lag_ms=0,
        is_serving=True,
        trouble="",
        compared_seq=0,
        compared_age_s=-1,
        num_equal=0,
        difference="",
        digest="",
        snapshot_at="",
    )


@pytest.mark.parametrize("is_beside", [False, True])
def test_a_lost_host_is_replaced_by_a_later_one_of_its_name_only(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_beside: bool,
) -> None:
    peers = _peers(tmp_path)
    monkeypatch.setattr(Peers, "own", property(lambda _: _state("b41d", "me")))
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for _ in range(3):
        peers._note(_state("lost", "vm:3000"))
        if is_beside:
            peers._note(_state("other", "vm:3000"))
        now += ASK_SECONDS
    warnings = ["two hosts have the same name; give each its own (log_host)"] * is_beside
    assert [one.getMessage() for one in caplog.records] == warnings

    for _ in range(4):
        now += ASK_SECONDS
        peers._note(_state("other", "vm:3000"))
    assert peers.num_away == is_beside
    assert [state.host for state, _ in peers.hosts] == ["b41d", *["lost"] * is_beside, "other"]
