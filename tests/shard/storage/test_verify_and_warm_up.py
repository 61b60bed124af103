"""Reading ahead: what is searched first, then whole files, within a share of the memory."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path

import pytest

from shard.storage import verify_and_warm_up
from shard.storage.verify_and_warm_up import FILE_BYTES_MIN, WarmUp, read_once
from tests.threads import no_new_threads
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

    monkeypatch.setattr(verify_and_warm_up, "read_once", note)
    monkeypatch.setattr(verify_and_warm_up, "available_bytes", lambda: 8 << 20)
    monkeypatch.setattr(verify_and_warm_up, "LATER_SECONDS", 0.0)
    ahead = WarmUp(2)
    for name, size in (("a", FILE_BYTES_MIN), ("b", 7), ("gone", 1 << 30), ("c", 1 << 30)):
        ahead.read(tmp_path / name, size)
    wait_until(lambda: len(read) == 3)
    ahead.stop()
    assert read == [(tmp_path / name, 2 << 20) for name in ("a", "gone", "c")]


def test_it_goes_on_once_the_system_starts_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(verify_and_warm_up, "read_once", lambda path, *_: read.append(path.name))
    monkeypatch.setattr(verify_and_warm_up, "LATER_SECONDS", 0.0)
    ahead = WarmUp(1)
    with no_new_threads():
        ahead.read(tmp_path / "a", FILE_BYTES_MIN)
    ahead.read(tmp_path / "b", FILE_BYTES_MIN)
    wait_until(lambda: read == ["a", "b"])
    ahead.stop()


def test_what_searches_read_of_all_segments_comes_first_and_the_rest_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    priorities: list[int] = []
    monkeypatch.setattr(
        verify_and_warm_up, "read_once", lambda path, _, is_stopping: done.append(path.name)
    )
    monkeypatch.setattr(
        verify_and_warm_up, "run_in_background", lambda: priorities.append(len(done))
    )
    monkeypatch.setattr(verify_and_warm_up, "LATER_SECONDS", 0.3)
    ahead = WarmUp(1)

    def note(what: str, _is_stopping: threading.Event) -> None:
        done.append(what)

    for name in ("a", "b"):
        ahead.verify(partial(note, f"searched of {name}"), partial(note, f"all of {name}"))
        ahead.read(tmp_path / f"items of {name}", FILE_BYTES_MIN)
    wait_until(lambda: len(done) == 2)
    assert not priorities
    wait_until(lambda: len(done) == 6)
    ahead.stop()
    assert done[:2] == ["searched of a", "searched of b"]
    assert done[2:] == ["all of a", "items of a", "all of b", "items of b"]
    assert priorities == [2]


def test_what_cannot_be_read_is_logged_and_the_rest_is_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(verify_and_warm_up, "LATER_SECONDS", 0.0)
    done: list[str] = []

    def fail(_is_stopping: threading.Event) -> None:
        raise MemoryError("no room to read into")

    ahead = WarmUp(1)
    ahead.verify(fail, fail)
    ahead.verify(lambda _: done.append("searched"), lambda _: done.append("all"))
    wait_until(lambda: len(done) == 2)
    ahead.stop()
    assert [record.message for record in caplog.records] == ["reading ahead failed"] * 2


def test_it_stops_at_once_while_the_rest_waits(tmp_path: Path) -> None:
    ahead = WarmUp(1)
    ahead.read(tmp_path / "not there", FILE_BYTES_MIN)
    started = time.monotonic()
    ahead.stop()
    assert time.monotonic() - started < verify_and_warm_up.LATER_SECONDS / 2


def test_it_stops_without_having_begun() -> None:
    WarmUp(1).stop()
