"""Reading ahead: whole files, in order, within a share of the available memory."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from shard.storage import read_ahead
from shard.storage.read_ahead import FILE_BYTES_MIN, ReadAhead, read_once
from tests.waiting import wait_until


def test_it_reads_to_the_end_or_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1_000_000))
    going = threading.Event()
    assert read_once(path, 1 << 30, going) == 1_000_000
    assert 300_000 <= read_once(path, 300_000, going) < 1_000_000
    assert read_once(path, 0, going) == 0
    going.set()
    assert read_once(path, 1 << 30, going) == 0


def test_files_are_read_one_after_the_other_and_small_ones_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[Path, int]] = []

    def note(path: Path, bytes_max: int, is_stopping: threading.Event) -> int:
        read.append((path, bytes_max))
        if path.name == "gone":
            raise FileNotFoundError
        return 0

    monkeypatch.setattr(read_ahead, "read_once", note)
    monkeypatch.setattr(read_ahead, "available_bytes", lambda: 8 << 20)
    ahead = ReadAhead(2)
    for name, size in (("a", FILE_BYTES_MIN), ("b", 7), ("gone", 1 << 30), ("c", 1 << 30)):
        ahead.read(tmp_path / name, size)
    wait_until(lambda: len(read) == 3)
    ahead.stop()
    assert read == [(tmp_path / name, 2 << 20) for name in ("a", "gone", "c")]


def test_what_is_to_be_verified_is_so_before_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(
        read_ahead, "read_once", lambda path, _, is_stopping: done.append(path.name)
    )
    ahead = ReadAhead(1)
    ahead.verify(lambda is_stopping: done.append("verified"))
    ahead.read(tmp_path / "read", FILE_BYTES_MIN)
    wait_until(lambda: len(done) == 2)
    ahead.stop()
    assert done == ["verified", "read"]


def test_it_stops_without_having_begun() -> None:
    ReadAhead(1).stop()
