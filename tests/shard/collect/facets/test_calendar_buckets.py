"""Calendar buckets of texts."""

from __future__ import annotations

import pytest

from shard.collect.facets.calendar_buckets import bucket_of


@pytest.mark.parametrize(
    ("text", "buckets"),
    [
        ("2024-02-29", ("2024", "2024-Q1", "2024-02", "2024-W09", "2024-02-29")),
        ("2024-02-30", ("2024", "2024-Q1", "2024-02", None, None)),
        ("2023-02-29T10:00Z", ("2023", "2023-Q1", "2023-02", None, None)),
        ("2024-01-00", ("2024", "2024-Q1", "2024-01", None, None)),
        ("2024-01-00T10:00Z", ("2024", "2024-Q1", "2024-01", None, None)),
        ("2024-12", ("2024", "2024-Q4", "2024-12", None, None)),
        ("2024", ("2024", None, None, None, None)),
        ("2024-13-01", ("2024", None, None, None, None)),
        ("2024-06-30T23:30:00-02:00", ("2024", "2024-Q2", "2024-06", "2024-W26", "2024-06-30")),
        ("2020-W05", (None, None, None, None, None)),
        ("2020-w05-3", (None, None, None, None, None)),
        ("20240229", ("2024", "2024-Q1", "2024-02", "2024-W09", "2024-02-29")),
        ("20240229T100000Z", ("2024", "2024-Q1", "2024-02", "2024-W09", "2024-02-29")),
        ("2024-02-03T25:00", ("2024", "2024-Q1", "2024-02", "2024-W05", "2024-02-03")),
        ("202402", (None, None, None, None, None)),
        ("2020-winter", (None, None, None, None, None)),
        ("2024-06-30 noon", (None, None, None, None, None)),
        ("2024-06-30 10:00 PM", (None, None, None, None, None)),
        ("soon", (None, None, None, None, None)),
    ],
)
def test_periods_are_read_as_written(text: str, buckets: tuple[str | None, ...]) -> None:
    calendars = ("year", "quarter", "month", "week", "day")
    assert tuple(bucket_of(text, calendar, None) for calendar in calendars) == buckets


def test_a_zone_moves_what_has_a_time() -> None:
    quarters = [bucket_of(f"2024-06-30{time}", "quarter", "Europe/Vienna") for time in ("", "T23Z")]
    assert quarters == ["2024-Q2", "2024-Q3"]


@pytest.mark.parametrize("day", ["2024-01-00", "2024-02-30"])
def test_a_day_that_does_not_exist_is_in_no_bucket_of_a_zone(day: str) -> None:
    calendars = ("month", "week", "day", "hour", "6h", "2d")
    assert {bucket_of(f"{day}T10:00Z", one, "Europe/Vienna") for one in calendars} == {None}


_LATE = ("2024-06-30", "T23", "T18:00:00", "T22:30:00", "T00:00:00")
_DAY_ONLY = ("2024-06-30", None, None, None, "T00:00:00")


@pytest.mark.parametrize(
    ("text", "zone", "buckets"),
    [
        ("2024-06-30T23:05:00Z", None, _LATE),
        ("2024-06-30t23:05:00z", None, _LATE),
        ("2024-06-30t21:05z", "Europe/Vienna", _LATE),
        ("2024-06-30 23:59:60Z", None, _LATE),
        ("2024-06-30", None, _DAY_ONLY),
        ("2024-06-30", "Europe/Vienna", _DAY_ONLY),
    ],
)
def test_shorter_spans_than_a_day_need_a_time(
    text: str, zone: str | None, buckets: tuple[str | None, ...]
) -> None:
    found = [bucket_of(text, calendar, zone) for calendar in ("day", "hour", "6h", "90m", "1d")]
    assert [(one and one.removeprefix("2024-06-30")) or one for one in found] == list(buckets)
