"""Dates and times as texts: the one grammar of items, requests and configurations.

    date     2026   2026-11   2026-11-22   20261122
    time     follows a whole date, after T, t or a space: 14   14:05   14:05:30   14:05:30.25
             (also 140530, and a comma)
    offset   follows a time, possibly after a space: Z   z   UTC   +01   +01:00   +0100

These are the calendar dates of ISO 8601 and RFC 3339. A text with anything else in it is no date:
neither "2026-11-22 10:00 PM" nor a week such as 2026-W47, which may begin in another year. A leap
second counts as the one before it. A time without an offset is in UTC.

A text may be well-formed and name a day or time that does not exist. It is then still in its year
and its month, which are as written, but on no day; and it is no moment (`timestamp_of`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, NamedTuple

_FORM: Final = re.compile(
    r"(\d{4})(?:(-?)(\d\d)(?:\2(\d\d)"
    r"(?:[Tt ](\d\d)(?:(:?)(\d\d)(?:\6(\d\d)(?:[.,](\d+))?)?)?"
    r"(?: ?(Z|z|UTC|([+-])(\d\d)(?::?([0-5]\d))?))?)?)?)?",
    re.ASCII,
)
_LEAP_SECOND: Final = 60


class WrittenTime(NamedTuple):
    """A time of day, and its offset from UTC."""

    hour: int
    minute: int
    second: int
    microsecond: int
    zone: timezone | None


class WrittenMoment(NamedTuple):
    """The parts of a date or time as they are written; they need not exist."""

    year: int
    month: int | None
    day: int | None
    time: WrittenTime | None

    def local(self) -> datetime:
        """Return its first moment, in the zone in which it is written, if it names one.

        Raises:
            ValueError: there is no such day or time.
        """
        month, day = (1 if one is None else one for one in (self.month, self.day))
        if self.time is None:
            return datetime(self.year, month, day)
        hour, minute, second, microsecond, zone = self.time
        return datetime(self.year, month, day, hour, minute, second, microsecond, zone)


def read_moment(text: str) -> WrittenMoment | None:
    """Return the parts of a text that has the form of a date or time, else None."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    year, hyphen, month, day, *clock = found.groups()
    if month is None:
        return WrittenMoment(int(year), None, None, None)
    if day is None:  # 202611 is a number of six digits
        return WrittenMoment(int(year), int(month), None, None) if hyphen else None
    hour, _, minute, second, fraction, offset, sign, *ahead = clock
    if hour is None:
        return WrittenMoment(int(year), int(month), int(day), None)
    zone = None if offset is None else UTC
    if sign is not None:
        minutes = int(ahead[0]) * 60 + int(ahead[1] or 0)
        if minutes >= 24 * 60:
            return None
        zone = timezone(timedelta(minutes=-minutes if sign == "-" else minutes))
    whole_second = int(second or 0)
    whole_second -= whole_second == _LEAP_SECOND
    microsecond = int((fraction or "0")[:6].ljust(6, "0"))
    time = WrittenTime(int(hour), int(minute or 0), whole_second, microsecond, zone)
    return WrittenMoment(int(year), int(month), int(day), time)


def timestamp_of(text: str) -> float | None:
    """Return a date or time as seconds since 1970, else None.

    A year, or a year and a month, is its first moment.
    """
    written = read_moment(text)
    if written is None:
        return None
    try:
        moment = written.local()
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
