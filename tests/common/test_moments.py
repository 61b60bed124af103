"""Dates and times as texts: which are read, and as which moment."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.moments import read_moment, timestamp_of


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("1970-01-02", 86_400.0),
        ("19700102", 86_400.0),
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01t00:01:00z", 60.0),
        ("19700101T000100Z", 60.0),
        ("1970-01-01 00:01 UTC", 60.0),
        ("1970-01-01T01", 3_600.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("1970-01-01 01:00:00 +0100", 0.0),
        ("1969-12-31T23-01", 0.0),
        ("1970-01-01 00:00:01.5", 1.5),
        ("1970-01-01T00:00:01,25", 1.25),
        ("1970-01-01T00:00:00.1234567", 0.123456),
        ("1970-01-01T00:00:60Z", 59.0),
        ("1970-02", 31 * 86_400.0),
        ("1971", 365 * 86_400.0),
        ("1969-12-31", -86_400.0),
        ("0001-01-01T00:00+23:59", -62_135_596_800.0 - 86_340),
    ],
)
def test_dates_are_timestamps(text: str, timestamp: float) -> None:
    assert timestamp_of(text) == timestamp


@pytest.mark.parametrize(
    "text",
    [
        *("", "soon", "197", "19700", "197001", "1970-1", "1970-01-1", "1970-0102", "197001-02"),
        *("1970-W01-4", "1970-001", "１９７０-01-01", "1970-01-01T", "1970-01-01T1", "1970-01T10"),
        *("1970-01-01_10:00", "1970-01-01T10:0500", "1970-01-01T1005:00", "1970-01-01 10:00 PM"),
        *("1970-01-01T10:00+01:60", "1970-01-01T10:00+24:00", "1970-01-01Z", "1970-01-01 noon"),
        *(" 1970", "1970 ", "1970-01-01T10:00:00.", "1970-01-01T10:00.5", "+1970-01-01"),
    ],
)
def test_other_texts_are_no_dates(text: str) -> None:
    assert read_moment(text) is None
    assert timestamp_of(text) is None


@pytest.mark.parametrize(
    "text",
    ["2026-02-30", "2026-13", "2026-00-01", "2024-02-03T25:00", "2024-02-03T24:00", "0000",
     "2024-02-03T10:60", "2024-02-03T10:00:61"],
)  # fmt: skip
def test_what_does_not_exist_is_written_but_no_moment(text: str) -> None:
    assert read_moment(text) is not None
    assert timestamp_of(text) is None


@given(
    st.datetimes(timezones=st.none() | st.integers(-1_439, 1_439).map(
        lambda minutes: timezone(timedelta(minutes=minutes))
    )),
    st.sampled_from("Tt "),
)  # fmt: skip
def test_what_python_writes_is_read_back(moment: datetime, separator: str) -> None:
    written = read_moment(moment.isoformat(separator))
    assert written is not None
    assert written.local() == moment
