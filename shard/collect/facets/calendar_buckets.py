"""Calendars: assign a date or time to its year, week, hour or fixed span.

    2026-11-22                 year 2026   quarter 2026-Q4   month 2026-11   week 2026-W47
    2026-11-22T14:05:00+01:00  day 2026-11-22   hour 2026-11-22T14   6h 2026-11-22T12:00:00

`common/moments.py` says which texts are dates. Each is in the bucket in which it was written. With
a time zone, a text that has a time is converted first; one without an offset is taken as UTC. A
date without a time belongs to no zone, and to no shorter span than a day. Weeks are those of
ISO 8601: they start on Monday, and the first one has a Thursday. 30 February is in a month, but in
no week and on no day.

The texts of a segment are read once; a text's code then leads to its bucket. A kernel finds texts
that are in the same one: days, or hours and spans. Of these, Python parses the first. A merge of
segments has the buckets of its segment made, if searches have used those of its parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import numpy as np

from common.moments import WrittenMoment, WrittenTime, read_moment
from common.protocol.messages import RangeRequest
from shard.caches.lru_cache import COLUMN_CACHE
from shard.segment.columns.iso_dates import spans_of
from shard.segment.columns.text_ordinal_columns import TextColumn, needs_documents, text_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment
    from shard.segment.snapshot import SegmentView, Snapshot

_FIXED: Final = re.compile(r"([1-9]\d{0,4})([smhd])", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_EPOCH: Final = datetime(1970, 1, 1)
_DAY: Final = timedelta(days=1)
_NAME_BYTES: Final = 100
"""Bytes of the name of a bucket."""


def bucket_of(text: str, calendar: str, time_zone: str | None) -> str | None:
    """Return the key of a text's bucket, or None if the text is not a date or time that has one.

    Args:
        text: a value.
        calendar: year, quarter, month, week, day, hour, or a span such as "6h".
        time_zone: the zone to convert to; None: the one in which the text was written.
    """
    written = read_moment(text)
    if written is None:
        return None
    try:
        if time_zone is not None and written.time is not None:
            written = _converted(written, ZoneInfo(time_zone))
        return _key_of(written, calendar)
    except (ValueError, OverflowError):
        return None  # no such day or time, or outside the years 1 to 9999


def _converted(written: WrittenMoment, zone: ZoneInfo) -> WrittenMoment:
    """Return a moment with a time as it is written in another zone."""
    moment = written.local()
    there = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(zone)
    time = WrittenTime(there.hour, there.minute, there.second, there.microsecond, None)
    return WrittenMoment(there.year, there.month, there.day, time)


def _key_of(written: WrittenMoment, calendar: str) -> str | None:
    """Return the bucket of a moment, if it is precise enough.

    Raises:
        ValueError: there is no such day or time.
    """
    year, month, day, time = written
    if calendar == "year":
        return f"{year:04}"
    if month is None or not 1 <= month <= 12:
        return None
    if calendar == "quarter":
        return f"{year:04}-Q{(month + 2) // 3}"
    if calendar == "month":
        return f"{year:04}-{month:02}"
    if day is None:
        return None
    date_of_day = date(year, month, day)
    if calendar == "week":
        iso_year, week, _ = date_of_day.isocalendar()
        return f"{iso_year:04}-W{week:02}"
    if calendar == "day":
        return date_of_day.isoformat()
    if calendar == "hour":
        return None if time is None else f"{date_of_day}T{written.local().hour:02}"
    span = _span_of(calendar)
    if time is None and span % _DAY:
        return None
    moment = written.local().replace(tzinfo=None)
    return (_EPOCH + (moment - _EPOCH) // span * span).isoformat()


def _span_of(calendar: str) -> timedelta:
    """Return the length of a span such as "6h"."""
    found = _FIXED.fullmatch(calendar)
    assert found is not None, "the coordinator lets no other through"
    return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])


def calendar_buckets(
    texts: TextColumn, request: RangeRequest, segment: Segment
) -> tuple[list[str], NDArray[np.int64]]:
    """Return the keys of the buckets, and by code the bucket's position + 1 (0: no date).

    Cached with the segment that first needed them.
    """
    assert request.calendar is not None, "no calendar"
    calendar, time_zone = request.calendar, request.time_zone

    def make() -> tuple[list[str], NDArray[np.int64]]:
        first_texts, group_of = _group(texts, calendar, time_zone)
        positions: dict[str, int] = {}
        bucket_of_group = np.zeros(len(first_texts), np.int64)
        for group, key in enumerate(texts.keys(first_texts.tolist())):
            name = bucket_of(key.decode("utf-8", "replace"), calendar, time_zone)
            if name is not None:
                bucket_of_group[group] = positions.setdefault(name, len(positions) + 1)
        bucket_of_code = np.zeros(texts.num_values + 1, np.int64)
        bucket_of_code[1:] = bucket_of_group[group_of]
        return list(positions), bucket_of_code

    return COLUMN_CACHE.get_or_make(_key(texts, request), make, _size, segment)


def _key(texts: TextColumn, request: RangeRequest) -> tuple[object, ...]:
    return "calendar", texts.identity, request.field, request.calendar, request.time_zone


def _size(made: tuple[list[str], NDArray[np.int64]]) -> int:
    return made[1].nbytes + _NAME_BYTES * len(made[0])


def carry_calendars(snapshot: Snapshot, parts: Iterable[SegmentView], merged: SegmentView) -> None:
    """Assign the texts of a merged segment to the buckets that are cached for its parts.

    Args:
        snapshot: has the parts.
        parts: that were merged.
        merged: the segment; no search has it yet.
    """
    found = set[tuple[str, str, str | None]]()
    for part in parts:
        for key in COLUMN_CACHE.keys_of(part.segment):
            match key:
                case ("calendar", _, str(path), str(calendar), None | str() as time_zone):
                    found.add((path, calendar, time_zone))
    for path, calendar, time_zone in found:
        field = snapshot.registry.number(path)
        if field is not None and not needs_documents(snapshot, merged, field):
            texts = text_column(snapshot, merged, field)
            if texts is not None:
                request = RangeRequest(path, calendar=calendar, time_zone=time_zone)
                made = calendar_buckets(texts, request, merged.segment)
                # Those of a facet are there, but would go with the part that first needed them.
                COLUMN_CACHE.put(_key(texts, request), made, _size(made), merged.segment)


def _group(
    texts: TextColumn, calendar: str, time_zone: str | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group texts that are in the same bucket.

    Returns:
        (the first text of each group; by text: its group).
    """
    span = timedelta(hours=1) if calendar == "hour" else _DAY
    if _FIXED.fullmatch(calendar):
        span = _span_of(calendar)
    zone = None if time_zone is None else ZoneInfo(time_zone)
    spans, are_left = spans_of(texts.arena, span // timedelta(seconds=1), zone)
    read, left = np.flatnonzero(~are_left), np.flatnonzero(are_left)
    _, firsts, groups = np.unique(spans[read], return_index=True, return_inverse=True)
    group_of = np.empty(texts.num_values, np.int64)
    group_of[read] = groups
    group_of[left] = np.arange(len(firsts), len(firsts) + len(left))
    return np.concatenate([read[firsts], left]), group_of
