"""Analytics: counts, bounded memory, cost."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InternalError, StorageFull
from coordinator.analytics import daily_search_counts, search_analytics
from coordinator.analytics.heavy_hitters import FrequentKeys
from coordinator.analytics.search_analytics import Analytics


@given(st.lists(st.integers(0, 30), max_size=400), st.integers(1, 8))
def test_true_numbers_are_within_the_bounds(keys: list[int], num_max: int) -> None:
    counter: FrequentKeys[int] = FrequentKeys(num_max, 1)
    for key in keys:
        counter.at(key)[0] += 1
        assert len(counter) <= 2 * num_max
    exact = Counter(keys)
    for key, (count, missed) in counter.rows():
        assert count <= exact[key] <= count + missed
    known = {key for key, _ in counter.rows()}
    assert all(number <= counter.floor for key, number in exact.items() if key not in known)


class Clock:
    """Stands in for the time of day."""

    def __init__(self) -> None:
        self.now = 20_000 * 86_400.0 + 3600
        self.set_forward = 0.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now - self.set_forward

    def set(self, seconds: float) -> None:
        """Set the clock forward, or back."""
        self.now += seconds
        self.set_forward += seconds

    def sleep(self, _: float) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(search_analytics, "time", clock)
    return clock


def _report(counted: Analytics, index: str | None = None, days: int = 7) -> dict[str, Any]:
    return asyncio.run(counted.report(index, days, 10))


def test_popular_missed_and_slow(tmp_path: Path, clock: Clock) -> None:
    counted = Analytics(tmp_path / "a", 30, 100)
    for client, query, hits, took in (
        (1, "Sea", 5, 100),
        (2, "sea ", 5, 300),
        (3, "xyz", 0, 200),
        (4, "", 9, 900),
    ):
        counted.record(client, "films", query, hits, took)
    counted.record(5, "books", "sea", 0, 50)
    found = _report(counted)
    assert (found["searches"], found["no_hits"]) == (5, 2)
    sea = {"index": "films", "query": "sea", "searches": 2, "no_hits": 0, "took_us": 200}
    assert found["popular"][0] == {**sea, "clicks": 0}
    assert [row["query"] for row in found["without_hits"]] == ["sea", "xyz"]
    slow = [(row["query"], row["took_us"]) for row in found["slow"]]
    assert slow == [("", 900), ("sea", 300), ("xyz", 200), ("sea", 50)]
    assert _report(counted, "books")["searches"] == 1


def test_typing_counts_once(tmp_path: Path, clock: Clock) -> None:
    counted = Analytics(tmp_path / "a", 30, 100)
    for text in ("", "s", "st", "sta", "star", "star w", "star wa", "star wars"):
        counted.record("me", "films", text, 1, 1)
        counted.record("you", "films", "land", 1, 1)
        clock.now += 1
    counted.record("me", "films", "sea", 1, 1)
    clock.now += 60
    counted.record("me", "films", "seal", 1, 1)
    queries = {row["query"]: row["searches"] for row in _report(counted)["popular"]}
    assert queries == {"star wars": 1, "land": 1, "sea": 1, "seal": 1}


def test_clicks_belong_to_counted_searches(tmp_path: Path, clock: Clock) -> None:
    counted = Analytics(tmp_path / "a", 30, 100)
    counted.record(1, "films", "sea", 5, 100)
    assert counted.click(1, "films", "Sea", "7", 1)
    assert counted.click(2, "films", "sea", "7", 4)
    assert not counted.click(1, "films", "never", "7", 1)
    assert not counted.click(1, "none", "", "7", 1)
    found = _report(counted)
    assert found["clicked"] == [{"index": "films", "id": "7", "clicks": 2, "position": 2.5}]
    assert (found["popular"][0]["clicks"], found["popular"][0]["position"]) == (2, 2.5)


def test_a_click_does_not_count_what_others_are_still_typing(tmp_path: Path, clock: Clock) -> None:
    counted = Analytics(tmp_path / "a", 30, 100)
    counted.record("other", "films", "la", 1, 1)
    counted.record("me", "films", "sea", 1, 1)
    assert counted.click("me", "films", "sea", "7", 1)
    clock.now += 1
    counted.record("other", "films", "land", 1, 1)
    queries = {row["query"]: row["searches"] for row in _report(counted)["popular"]}
    assert queries == {"land": 1, "sea": 1}


def test_days_are_kept_over_restarts_and_then_removed(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / "a"

    def on_a_day(text: str) -> Analytics:
        counted = Analytics(folder, 3, 100)
        counted.record(1, "films", text, 0, 5)
        counted.record(2, "films", text, 0, 5)
        asyncio.run(counted.save())
        return counted

    on_a_day("one")
    on_a_day("one")
    clock.now += 86_400
    two = on_a_day("two")
    two.record(1, "films", "late", 1, 1)
    clock.now += 86_400  # midnight passes while it runs
    two.record(1, "films", "three", 1, 1)
    found = _report(two)
    assert [day["searches"] for day in found["days"]] == [4, 3, 1]
    assert {row["query"]: row["searches"] for row in found["popular"]} == {
        "one": 4, "two": 2, "late": 1, "three": 1,
    }  # fmt: skip
    asyncio.run(two.save())
    assert len(list(folder.iterdir())) == 3
    assert _report(Analytics(folder, 3, 100)) == found
    clock.now += 86_400
    four = on_a_day("four")
    assert len(list(folder.iterdir())) == 3
    asyncio.run(four.forget("films"))
    assert _report(Analytics(folder, 3, 100))["searches"] == 0
    asyncio.run(four.forget(None))
    # A damaged file is skipped and reported.
    next(folder.iterdir()).write_text("no JSON")
    assert _report(Analytics(folder, 3, 100))["searches"] == 0


def test_a_file_that_is_no_day_does_not_keep_an_index_from_being_forgotten(tmp_path: Path) -> None:
    counted = Analytics(tmp_path, 3, 5)
    other = tmp_path / "2026-99-99.json"
    other.write_text("an operator's")

    asyncio.run(counted.forget("films"))

    assert other.read_text() == "an operator's"


@pytest.mark.parametrize(("number", "expected"), [(28, StorageFull), (5, InternalError)])
def test_what_the_disk_does_not_forget_is_told(
    tmp_path: Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    expected: type[Exception],
) -> None:
    folder = tmp_path / "a"
    counted = Analytics(folder, 30, 100)
    counted.record(1, "films", "embarrassing", 1, 1)
    asyncio.run(counted.save())
    for name in ("films", None):
        with monkeypatch.context() as patch:
            refused = OSError(number, "refused")
            patch.setattr(search_analytics, "write_atomically", Mock(side_effect=refused))
            with pytest.raises(expected, match="not everything is forgotten"):
                asyncio.run(counted.forget(name))
            asyncio.run(counted.save())  # in the background: it is tried again
    asyncio.run(counted.forget("films"))
    assert _report(Analytics(folder, 30, 100))["searches"] == 0


def test_what_is_forgotten_stays_so_after_a_power_loss(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if analytics were switched off since, so that no day is written."""
    folder = tmp_path / "a"
    counted = Analytics(folder, 30, 100)
    counted.record(1, "films", "embarrassing", 1, 1)
    asyncio.run(counted.save())
    synced: list[list[Path]] = []
    monkeypatch.setattr(
        search_analytics, "sync_folder", lambda one: synced.append(list(one.iterdir()))
    )
    asyncio.run(Analytics(folder, 0, 100).forget(None))
    assert synced == [[]]


def test_what_cannot_be_saved_now_is_saved_later(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a"
    counted = Analytics(folder, 30, 100)
    counted.record(1, "films", "sea", 1, 1)
    for error in (OSError(28, "refused"), MemoryError()):
        with monkeypatch.context() as patch:
            patch.setattr(search_analytics, "write_atomically", Mock(side_effect=error))
            asyncio.run(counted.save())
    asyncio.run(counted.save())
    assert _report(Analytics(folder, 30, 100))["searches"] == 1


def test_a_day_is_on_disk_before_it_has_its_name(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a power loss could leave an empty file, and none of the day's earlier counts."""
    calls: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def noting(*arguments: Any, name: str = name, real: Any = real) -> None:
            calls.append(name)
            real(*arguments)

        monkeypatch.setattr(os, name, noting)
    counted = Analytics(tmp_path / "a", 30, 100)
    counted.record(1, "films", "sea", 1, 1)
    asyncio.run(counted.save())
    assert calls == ["fsync", "fsync", "replace", "fsync"]  # the folder, the file, its name
    assert len(list((tmp_path / "a").iterdir())) == 1


def test_another_file_in_the_folder_is_left_alone(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / "a"
    counted = Analytics(folder, 30, 100)
    counted.record(1, "films", "sea", 1, 1)
    asyncio.run(counted.save())
    copy = folder / "2024-copy.json"
    copy.write_text("{}")
    for name in ("films", None):
        asyncio.run(counted.forget(name))
    assert copy.exists()


def test_a_damaged_file_is_no_day(tmp_path: Path, clock: Clock) -> None:
    """Some damage leaves JSON: what is not as it was written fails no report, and no start."""
    folder = tmp_path / "a"
    counted = Analytics(folder, 30, 100)
    counted.record(1, "films", "sea", 1, 1)
    counted.click(1, "films", "sea", "7", 1)
    asyncio.run(counted.save())
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    assert _report(Analytics(folder, 30, 100))["searches"] == 1
    damaged = [b"[]", b"{}", b"null", b'"', b"\xff", whole.replace(b"{", b"[").replace(b"}", b"]")]
    for position in range(len(whole)):
        for bit in range(8):
            one = bytearray(whole)
            one[position] ^= 1 << bit
            damaged.append(bytes(one))
    for content in damaged:
        path.write_bytes(content)
        _report(Analytics(folder, 30, 100))


def test_memory_is_bounded(tmp_path: Path, clock: Clock) -> None:
    counted = Analytics(tmp_path / "a", 30, 50)
    for number in range(30_000):
        counted.record(number, "films", f"text {number}" * 100, 0, number)
        counted.click(number, "films", "", str(number), 1)
    day = counted._today
    assert len(day.queries) <= 100
    assert len(day.clicked) <= 100
    assert len(day.slow) == daily_search_counts.SLOW_MAX
    assert len(counted._typing) <= search_analytics.TYPING_MAX
    asyncio.run(counted.save())
    (file,) = (tmp_path / "a").iterdir()
    assert file.stat().st_size < 150_000
    assert json.loads(file.read_text())["totals"]["films"][0] == 30_000


def test_counting_takes_a_few_microseconds(tmp_path: Path) -> None:
    counted = Analytics(tmp_path / "a", 30, 5_000)
    best = min(_seconds_of_notes(counted, first) for first in range(0, 50_000, 10_000))
    assert best / 10_000 < 30e-6  # 2 µs on an idle machine


def _seconds_of_notes(counted: Analytics, first: int) -> float:
    started = time.perf_counter()
    for number in range(first, first + 10_000):
        counted.record((None, "10.0.0.1"), "films", f"text {number % 7_000}", 3, 250)
    return time.perf_counter() - started


def test_a_clock_set_forward_and_back_counts_for_the_day_of_each_search(
    tmp_path: Path, clock: Clock
) -> None:
    counted = Analytics(tmp_path / "a", 30, 100)
    folder = tmp_path / "a"
    for number, seconds in enumerate((86_400.0, 100 * 86_400.0)):
        counted.record(1, "films", f"before {number}", 1, 1)
        asyncio.run(counted.save())
        clock.set(seconds)
        counted.record(2, "films", f"ahead {number}", 1, 1)
        asyncio.run(counted.save())
        clock.set(-seconds)
        counted.record(3, "films", f"after {number}", 1, 1)
        found = _report(counted)
        assert [day["date"] for day in found["days"]] == ["2024-10-04"]
        asyncio.run(counted.save())
    expected = {"after 0", "after 1", "before 0", "before 1"}
    assert {row["query"] for row in found["popular"]} == expected
    assert found["searches"] == 4
    assert len(list(folder.glob("*.json"))) == 3  # none was taken for too old
    again = Analytics(folder, 30, 100)
    assert _report(again) == found
    clock.now += 86_400.0
    assert [day["searches"] for day in _report(again)["days"]] == [4, 1]
    again.record(1, "films", "the next day", 1, 1)
    asyncio.run(again.save())
    assert [day["searches"] for day in _report(Analytics(folder, 30, 100))["days"]] == [4, 2]


def test_a_search_right_before_midnight_counts_for_its_day(tmp_path: Path, clock: Clock) -> None:
    """Also if another coordinator tells of it later."""
    counted = Analytics(tmp_path / "a", 30, 100)
    clock.now += 86_400.0 - 3600 - 0.5
    late = (clock.now, 1, "films", "late", 1, 1)
    clock.now += 1
    counted.record(2, "films", "early", 1, 1)
    asyncio.run(counted.save())
    counted.record_all([late])
    counted.record(2, "films", "earlier", 1, 1)
    assert [day["searches"] for day in _report(counted)["days"]] == [1, 2]
    asyncio.run(counted.save())
    assert [day["searches"] for day in _report(Analytics(tmp_path / "a", 30, 100))["days"]] == [
        1,
        2,
    ]


def test_without_searches_today_the_days_before_move_on(tmp_path: Path, clock: Clock) -> None:
    counted = Analytics(tmp_path / "a", 30, 100)
    counted.record(1, "films", "sea", 1, 1)
    assert _report(counted, days=1)["searches"] == 1
    clock.now += 86_400.0
    assert _report(counted, days=1)["searches"] == 0
    assert _report(counted, days=2)["searches"] == 1
