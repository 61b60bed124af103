"""Dates that kernels read are those that Python reads, text by text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from zoneinfo import available_timezones

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.key_arena import KeyArena
from common.moments import timestamp_of
from common.protocol.messages import RangeRequest
from shard.collect.facets import calendar_buckets as calendar_buckets_module
from shard.collect.facets.calendar_buckets import bucket_of, calendar_buckets
from shard.segment.columns import iso_dates
from shard.segment.columns.iso_dates import timestamps_of
from shard.segment.columns.text_ordinal_columns import text_column
from tests.shard.columns_model import World

YEARS = st.sampled_from(["0000", "0001", "0002", "1582", "1900", "2255", "2256", "9998", "9999"])
NUMBERS = st.one_of(
    st.integers(1, 12).map("{:02}".format),
    st.integers(0, 61).map("{:02}".format),
    st.sampled_from(["2", "002", "1x", "-1", "١٢", ""]),
)
FRACTIONS = st.sampled_from([".", ",", ""]).flatmap(
    lambda point: st.text("0123456789", max_size=8).map(lambda digits: point + digits)
)
ZONES = st.one_of(
    st.sampled_from(["", "Z", "z", "+", " Z", "+01", "+0100", "-00:00", "+24:00", "Z ", "+01:0"]),
    st.tuples(st.sampled_from("+-"), NUMBERS, NUMBERS).map(
        lambda one: f"{one[0]}{one[1]}:{one[2]}"
    ),
)
USUAL = st.datetimes().flatmap(
    lambda moment: st.sampled_from(
        [
            moment.isoformat(),
            moment.isoformat(" ", "minutes"),
            moment.isoformat("T", "seconds") + "Z",
            moment.isoformat("T", "milliseconds") + "+05:30",
            moment.isoformat("t", "seconds") + "-00:44",
            *[moment.isoformat()[:length] for length in (4, 7, 10)],
        ]
    )
)
"""The forms that kernels decide, and one that they do not."""


@st.composite
def _texts(draw: st.DrawFn) -> str:
    """Draw a text that looks like a date; often it is none."""
    year = draw(YEARS | st.integers(1, 9_999).map("{:04}".format))
    month, day, hour, minute, second = (draw(NUMBERS) for _ in range(5))
    fraction, zone = draw(FRACTIONS), draw(ZONES)
    separator = draw(st.sampled_from(["T", " ", "t", "_", ""]))
    hyphen, colon = draw(st.sampled_from(["-", "-", "", "/"])), draw(st.sampled_from("::-"))
    whole = (
        f"{year}{hyphen}{month}{hyphen}{day}"
        f"{separator}{hour}{colon}{minute}{colon}{second}{fraction}{zone}"
    )
    cut = draw(st.none() | st.integers(0, len(whole)))
    return whole[:cut] + (draw(ZONES) if cut else "")


TEXTS = st.one_of(USUAL, _texts(), st.text(max_size=12))


@given(st.lists(TEXTS, max_size=20))
@example(
    ["2256-01-01T00:00:00.000001", "9999-12-31T23:59:59.999999-23:59", "0001-01-01T00:00+01:00"]
)
@example(["1969-12-31T23:59:59.999999Z", "2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29"])
def test_timestamps_are_those_of_python(texts: list[str]) -> None:
    expected = [timestamp_of(text) for text in texts]
    found = timestamps_of(_arena(texts))
    assert [None if np.isnan(one) else one for one in found.tolist()] == expected


def test_python_reads_unusual_texts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime(2024, 2, 29, 23, 59, 58, 125_000)
    usual = [moment.isoformat()[:length] for length in (4, 7, 10, 16, 19, 21, 23, 26)]
    usual += [text + zone for text in usual[3:] for zone in ("Z", "+01:00", "-12:30")]
    left: list[str] = []

    def note(text: str) -> float | None:
        left.append(text)
        return timestamp_of(text)

    monkeypatch.setattr(iso_dates, "timestamp_of", note)
    timestamps_of(_arena([*usual, "soon", "a title", "20240229", "2024-W09-4", ""]))
    assert left == ["20240229", "2024-W09-4"]


@given(
    st.lists(TEXTS.filter(bool), min_size=1, max_size=20),
    st.sampled_from(["year", "quarter", "month", "week", "day", "hour", "7s", "90m", "6h", "2d"]),
    st.sampled_from([None, None, "Europe/Vienna", "America/St_Johns", "Pacific/Apia"]),
)
@example(
    ["2024-03-31T00:59:59Z", "2024-03-31T01:00Z", "2024-03-30T23:00Z"], "hour", "Europe/Vienna"
)
@example(["2024-10-27T00:30Z", "2024-10-27T01:30Z", "2024-10-27T02:30Z"], "hour", "Europe/Vienna")
@example(["1599-12-31T23:30Z", "1600-01-01T00:00Z", "2399-12-31T23:59Z"], "day", "Europe/Vienna")
@example(["2400-01-01T00:00Z", "2399-12-31T23:59-01:00", "2011-12-30"], "day", "Pacific/Apia")
@example(["2011-12-30T09:59Z", "2011-12-30T10:00Z", "2011-12-31T00:00"], "day", "Pacific/Apia")
@example(["2007-03-11T03:31Z", "2007-03-11T03:30Z"], "90m", "America/St_Johns")
@example(["1969-12-31T23:59", "1970-01-01T00:00", "1969-12-31", "0002-01-01T01:00"], "99999d", None)
def test_buckets_of_a_calendar_are_those_of_each_text(
    texts: list[str], calendar: str, time_zone: str | None
) -> None:
    snapshot = World([{"day": text} for text in texts], facets=()).snapshot
    (view,) = snapshot.views
    field = snapshot.registry.number("day")
    assert field is not None
    column = text_column(snapshot, view, field)
    assert column is not None
    request = RangeRequest("day", calendar=calendar, time_zone=time_zone)
    keys, bucket_of_code = calendar_buckets(column, request, view.segment)
    for number, key in enumerate(column.all_keys()):
        bucket = int(bucket_of_code[number + 1])
        expected = bucket_of(key.decode("utf-8", "replace"), calendar, time_zone)
        assert (keys[bucket - 1] if bucket else None) == expected
    assert len(set(keys)) == len(keys)


def test_python_parses_few_times_of_a_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    start = datetime(2024, 3, 1, tzinfo=UTC)
    texts = [(start + timedelta(minutes=7 * i)).isoformat() for i in range(8_000)]
    parsed: list[str] = []

    def note(text: str, calendar: str, time_zone: str | None) -> str | None:
        parsed.append(text)
        return bucket_of(text, calendar, time_zone)

    monkeypatch.setattr(calendar_buckets_module, "bucket_of", note)
    snapshot = World([{"day": text} for text in texts], facets=()).snapshot
    (view,) = snapshot.views
    field = snapshot.registry.number("day")
    assert field is not None
    column = text_column(snapshot, view, field)
    assert column is not None
    request = RangeRequest("day", calendar="day", time_zone="Europe/Vienna")
    calendar_buckets(column, request, view.segment)
    assert len(parsed) < 40 + 24 * 60 // 7 + 1, "one a day, and all of the day with two offsets"


def test_no_zone_changes_its_offset_twice_within_a_day() -> None:
    zone = import_module("zoneinfo._zoneinfo").ZoneInfo  # it shows when offsets change
    names = available_timezones()
    assert "Europe/Vienna" in names
    for name in names:
        seconds = zone(name)._trans_utc
        days = [second // 86_400 for second in seconds]
        assert len(set(days)) == len(days), name


def _arena(texts: list[str]) -> KeyArena:
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)])
    return KeyArena(np.frombuffer(bytearray(b"".join(encoded)), np.uint8), offsets)
