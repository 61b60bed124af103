"""Dates and times as texts, read by kernels: what follows from the usual forms of ISO 8601.

Question: which moment, or which day or hour, is each of these texts? A column has up to a million
of them, and Python reads one in 1 µs.

    2026   2026-11   2026-11-22   2026-11-22T14:05   …:05:30   …:30.25   (Z, +01:00, or none)

The kernels decide these forms, and texts that do not begin like any date. They leave all others
(basic forms, weeks, days that do not exist, years near the ends of the calendar) to the functions
in Python, with which they agree bit for bit.

In a time zone, the offset from UTC is looked up by day of UTC: Python computes it at both ends of
each day that occurs. Where they differ, texts are left to Python. (No zone has changed its offset
twice within one day of UTC; a test looks at all of them.)

Cost: 25 ns a text; in a zone 50 ns, and 2 µs a day.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final

import numpy as np

from common.distinct_values import distinct_values
from common.kernels.decorator import kernel
from common.kernels.types import BoolArray, F64Array, I32Array, I64Array, U8Array, int64, uint8
from common.moments import timestamp_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.key_arena import KeyArena

NO_DATE: Final = -1
"""Of `_read_date`: no function finds a date in the text."""
LEFT: Final = 0
"""The form is not one of the usual ones: Python decides."""
YEAR_OR_MONTH: Final = 1
DAY: Final = 2
TIME: Final = 3

_YEAR_LENGTH: Final = 4
_MONTH_LENGTH: Final = 7
_DAY_LENGTH: Final = 10
_DAY_SECONDS: Final = 86_400
_MICROSECONDS: Final = 1_000_000
_EXACT_SECONDS_MAX: Final = 9_000_000_000
"""Up to this many seconds, a double holds every number of microseconds (2^53)."""
_NO_SPAN: Final = -(1 << 62)
_FIRST_DAY: Final = -135_140
_NUM_DAYS: Final = 292_194
"""Days whose offsets from UTC are looked up: 1600 to 2399."""
_NO_OFFSET: Final = 1 << 30
"""The offset of a day that has several, or that does not occur."""
_AS_WRITTEN: Final = np.zeros(0, np.int32)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO: Final = uint8(0x30)
_COLON: Final = 0x3A
_HYPHEN: Final = 0x2D


@kernel(inline=True, allocates=False)
def _number(keys: U8Array, start: int, num_digits: int) -> int:
    """Return the number of some digits; negative if one is none."""
    number = int64(0)
    for i in range(num_digits):
        digit = uint8(keys[start + i] - _ZERO)
        if digit > uint8(9):
            return -1
        number = number * 10 + int64(digit)
    return number


@kernel(inline=True, allocates=False)
def _days_in(year: int, month: int) -> int:
    """Return how many days a month has."""
    if month == 2:
        return 28 + int64((year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0)))
    return 30 + ((month + (month >> 3)) & 1)


@kernel(inline=True, allocates=False)
def _days_until(year: int, month: int, day: int) -> int:
    """Return the days from 1970-01-01 to a date.

    Counted from 1 March of the year 0, so that the leap day is the last of its year.
    """
    shifted = year - int64(month <= 2)
    day_of_year = (153 * (month - 3 + 12 * int64(month <= 2)) + 2) // 5 + day - 1
    return shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + day_of_year - 719_468


@kernel(allocates=False)
def _read_time(keys: U8Array, at: int, end: int) -> tuple[int, int, int, int]:
    """Read a time such as 14:05:30.25+01:00.

    Returns:
        (where the usual forms end, or -1; seconds of the day; microseconds; seconds of the offset
        from UTC).
    """
    nothing = (int64(-1), int64(0), int64(0), int64(0))
    if end - at < 5 or keys[at + 2] != _COLON:
        return nothing
    hour = _number(keys, at, 2)
    minute = _number(keys, at + 3, 2)
    second = int64(0)
    fraction = int64(0)
    at += 5
    if end - at >= 3 and keys[at] == _COLON:
        second = _number(keys, at + 1, 2)
        at += 3
        if at < end and keys[at] == 0x2E:
            unit = int64(_MICROSECONDS)
            at += 1
            while at < end and uint8(keys[at] - _ZERO) <= uint8(9):
                if unit == 1:
                    return nothing
                unit //= 10
                fraction += int64(uint8(keys[at] - _ZERO)) * unit
                at += 1
            if unit == _MICROSECONDS:
                return nothing
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        return nothing
    offset = int64(0)
    if at < end and keys[at] == 0x5A:  # Z
        at += 1
    elif end - at == 6 and keys[at + 3] == _COLON and (keys[at] == 0x2B or keys[at] == _HYPHEN):
        offset_hour = _number(keys, at + 1, 2)
        offset_minute = _number(keys, at + 4, 2)
        if not (0 <= offset_hour < 24 and 0 <= offset_minute < 60):
            return nothing
        offset = offset_hour * 3_600 + offset_minute * 60
        if keys[at] == _HYPHEN:
            offset = -offset
        at += 6
    return at, hour * 3_600 + minute * 60 + second, fraction, offset


@kernel(allocates=False)
def _read_date(keys: U8Array, start: int, end: int) -> tuple[int, int, int, int]:
    """Read a date or time.

    Returns:
        (what it is; seconds from 1970 to it as written; microseconds; seconds of its offset).
    """
    no_date = (int64(NO_DATE), int64(0), int64(0), int64(0))
    left = (int64(LEFT), int64(0), int64(0), int64(0))
    length = end - start
    if length < _YEAR_LENGTH:
        return no_date
    year = _number(keys, start, 4)
    if year < 0:
        return no_date
    if not 1 < year < 9_999:  # an offset may lead out of the calendar
        return left
    if length == _YEAR_LENGTH:
        return int64(YEAR_OR_MONTH), _days_until(year, 1, 1) * _DAY_SECONDS, int64(0), int64(0)
    if length < _MONTH_LENGTH or keys[start + 4] != _HYPHEN:
        return left
    month = _number(keys, start + 5, 2)
    if not 1 <= month <= 12:
        return left
    if length == _MONTH_LENGTH:
        return int64(YEAR_OR_MONTH), _days_until(year, month, 1) * _DAY_SECONDS, int64(0), int64(0)
    if length < _DAY_LENGTH or keys[start + 7] != _HYPHEN:
        return left
    day = _number(keys, start + 8, 2)
    if not 1 <= day <= _days_in(year, month):
        return left
    midnight = _days_until(year, month, day) * _DAY_SECONDS
    if length == _DAY_LENGTH:
        return int64(DAY), midnight, int64(0), int64(0)
    separator = keys[start + _DAY_LENGTH]
    if separator != 0x54 and separator != 0x20:  # T, space
        return left
    after, second, microsecond, offset = _read_time(keys, start + _DAY_LENGTH + 1, end)
    if after != end:
        return left
    return int64(TIME), midnight + second, microsecond, offset


@kernel(allocates=False)
def _read_timestamps(
    keys: U8Array, offsets: I64Array, timestamps: F64Array, are_left: BoolArray
) -> None:
    """Write the timestamp of each text, NaN if it is no date; set those that Python decides."""
    for i in range(len(timestamps)):
        form, second, microsecond, offset = _read_date(keys, offsets[i], offsets[i + 1])
        second -= offset
        are_left[i] = form == LEFT
        timestamps[i] = np.nan
        if form > LEFT:
            timestamps[i] = float(second)
            if microsecond:
                # The quotient is rounded once, like Python's, if the dividend is exact.
                timestamps[i] = float(second * _MICROSECONDS + microsecond) / _MICROSECONDS
                are_left[i] = abs(second) > _EXACT_SECONDS_MAX


def timestamps_of(arena: KeyArena) -> NDArray[np.float64]:
    """Return what `timestamp_of` returns for each text; NaN for None."""
    timestamps = np.empty(arena.num_keys)
    are_left = np.empty(arena.num_keys, np.bool_)
    _read_timestamps(*arena, timestamps, are_left)
    left = np.flatnonzero(are_left)
    read = [timestamp_of(one.decode("utf-8", "replace")) for one in arena.keys_of(left)]
    timestamps[left] = [np.nan if one is None else one for one in read]
    return timestamps


@kernel(allocates=False)
def _find_days(keys: U8Array, offsets: I64Array, occurs: BoolArray) -> None:
    """Set the days of UTC that times are on, counted from `_FIRST_DAY`."""
    for i in range(len(offsets) - 1):
        form, second, _, offset = _read_date(keys, offsets[i], offsets[i + 1])
        day = (second - offset) // _DAY_SECONDS - _FIRST_DAY
        if form == TIME and 0 <= day < _NUM_DAYS:
            occurs[day] = True


def _offsets_by_day(arena: KeyArena, zone: tzinfo) -> NDArray[np.int32]:
    """Return how many seconds a zone is ahead of UTC, by day of UTC that times are on."""
    occurs = np.zeros(_NUM_DAYS, np.bool_)
    _find_days(*arena, occurs)
    days = np.flatnonzero(occurs)
    ends = distinct_values(np.concatenate([days, days + 1]))
    offsets = np.zeros(_NUM_DAYS + 1, np.int32)
    offsets[ends] = [_offset_at(zone, _FIRST_DAY + day) for day in ends.tolist()]
    by_day = np.full(_NUM_DAYS, _NO_OFFSET, np.int32)
    even = days[offsets[days] == offsets[days + 1]]
    by_day[even] = offsets[even]
    return by_day


def _offset_at(zone: tzinfo, day: int) -> int:
    """Return how many seconds a zone is ahead at the beginning of a day of UTC."""
    offset = (_EPOCH + timedelta(days=day)).astimezone(zone).utcoffset()
    assert offset is not None, "a zone without offsets"
    return offset // timedelta(seconds=1)


@kernel(allocates=False)
def _read_spans(
    keys: U8Array,
    offsets: I64Array,
    span: int,
    zone_offsets: I32Array,
    spans: I64Array,
    are_left: BoolArray,
) -> None:
    """Write the number of each text's span, and which texts Python decides; see `spans_of`.

    Args:
        keys: the texts.
        offsets: where each begins, with a sentinel.
        span: in seconds.
        zone_offsets: `_offsets_by_day`; empty: as written.
        spans: output.
        are_left: output.
    """
    for i in range(len(spans)):
        form, second, _, offset = _read_date(keys, offsets[i], offsets[i + 1])
        is_time = form == TIME
        are_left[i] = LEFT <= form <= YEAR_OR_MONTH
        if is_time and len(zone_offsets):
            second -= offset
            day = second // _DAY_SECONDS - _FIRST_DAY
            ahead = int64(_NO_OFFSET)
            if 0 <= day < len(zone_offsets):
                ahead = int64(zone_offsets[day])
            are_left[i] = ahead == _NO_OFFSET
            second += ahead
        # Days have even numbers, spans of times odd ones.
        spans[i] = 2 * (second // (span if is_time else _DAY_SECONDS)) + int64(is_time)
        if form == NO_DATE:
            spans[i] = _NO_SPAN


def spans_of(
    arena: KeyArena, span: int, zone: tzinfo | None = None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return a number for the day or span that each text is in.

    Texts with equal numbers are all no dates, or the same day, or times within the same span.

    Args:
        arena: the texts.
        span: in seconds, counted from 1970.
        zone: to which times are converted, those without an offset from UTC; None: as written.

    Returns:
        (the numbers; which texts Python decides, whose numbers say nothing).
    """
    spans = np.empty(arena.num_keys, np.int64)
    are_left = np.empty(arena.num_keys, np.bool_)
    zone_offsets = _AS_WRITTEN if zone is None else _offsets_by_day(arena, zone)
    _read_spans(*arena, span, zone_offsets, spans, are_left)
    return spans, are_left
