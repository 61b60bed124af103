"""Boosts: numbers and dates of items that multiply their scores; one parser for all uses.

    {"popularity": {"log": 0.3},                     × 1 + 0.3 · ln(1 + popularity)
     "in_stock":   {"linear": 1},                    × 1 + 1 · in_stock (true is 1)
     "reviews":    {"saturation": 50, "weight": 2},  × 1 + 2 · reviews / (reviews + 50)
     "released":   {"decay": "180d"},                × 1 + 0.5 ^ (age / 180 days)
     "year":       {"reciprocal": 5, "origin": 2020}, × 1 + 1 / (1 + |year - 2020| / 5)
     "_geo":       {"decay": 2000, "origin": {"lat": 48.2, "lng": 16.4}}}
                                                     × 1 + 0.5 ^ (metres from there / 2000)

Each boost is a factor of the score, so it has the same effect for rare words and common ones. An
item without a value has the factor 1; negative numbers count as 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias, TypeGuard

from msgspec import Struct

from common.moments import timestamp_of
from common.value_kinds_and_facet_keys import ValueKind

WEIGHT_MAX: Final = 1_000.0
SCALE_MAX: Final = 1e15
"""Largest distance or duration: 30 million years in seconds."""
FUNCTIONS: Final = ("log", "linear", "saturation", "decay", "reciprocal")
_BY_DISTANCE: Final = frozenset(("decay", "reciprocal"))
_UNITS: Final = {
    "s": 1.0,
    "min": 60.0,
    "h": 3_600.0,
    "d": 86_400.0,
    "w": 7 * 86_400.0,
    "y": 365.25 * 86_400.0,
}
_DURATION: Final = re.compile(r"([0-9]{1,16}(?:\.[0-9]{1,40})?)(s|min|h|d|w|y)", re.ASCII)
"""With as many digits as `written` needs for any double up to `SCALE_MAX`."""
MILLISECONDS_MIN: Final = 1e11
"""Numbers from here on are moments in milliseconds, smaller ones in seconds (up to the year 5138).
"""

NO_POINT: Final = (
    'has points: a boost of it needs the point to count from, such as {"decay": 2000, "origin": '
    '{"lat": 48.2, "lng": 16.4}}'
)
"""The error of a boost of a field of points without an origin."""

NUMBER_KINDS: Final = frozenset(
    (ValueKind.INTEGER, ValueKind.FLOAT, ValueKind.TRUE, ValueKind.FALSE)
)
"""Values that count as numbers: true is 1."""
MOMENT_KINDS: Final = NUMBER_KINDS | {ValueKind.STRING}
"""Values that may be moments: dates, and seconds or milliseconds since 1970."""

Report: TypeAlias = Callable[[str, str], None]
"""Takes the path within the value, and what would be valid."""


class Boost(Struct, frozen=True, array_like=True):
    """How one field changes the score."""

    field: str
    function: str
    """Of `FUNCTIONS`."""
    weight: float
    scale: float = 1.0
    """Where saturation reaches one half; half-life of decay; where reciprocal reaches one half."""
    origin: float | None = None
    """Origin of distances; None: the time of the search, from which only ages count.
    """
    is_time: bool = False
    """Whether distances are seconds between moments; else differences of numbers."""
    point: tuple[float, float] | None = None
    """Latitude and longitude: distances are metres from it to the nearest point of an item."""

    @property
    def value_kinds(self) -> frozenset[ValueKind]:
        """Kinds of values that it counts; empty: points, which are not scalars."""
        if self.point is not None:
            return frozenset()
        return MOMENT_KINDS if self.is_time else NUMBER_KINDS

    @property
    def depends_on_time(self) -> bool:
        """Whether the factor of an item changes with time."""
        return self.is_time and self.origin is None


def parse_duration(value: Any) -> float | None:
    """Return the seconds of a duration such as "180d", or None if it is invalid."""
    matched = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if matched is None:
        return None
    seconds = float(matched[1]) * _UNITS[matched[2]]
    return seconds if 0 < seconds <= SCALE_MAX else None


def parse_boosts(
    value: Any, check_field: Callable[[str, str], bool], report: Report
) -> tuple[Boost, ...]:
    """Parse boosts by field.

    Args:
        value: an object; the caller bounds its size.
        check_field: takes the path of a mistake and a name; whether it can be a field's.
        report: is called for each mistake.
    """
    boosts = []
    for name, options in value.items():
        path = f".{name[:100]}"
        if check_field(path, name):
            boost = _parse_boost(name, options, path, report)
            if boost is not None:
                boosts.append(boost)
    return tuple(boosts)


def _parse_boost(name: str, options: Any, path: str, report: Report) -> Boost | None:
    functions = [one for one in FUNCTIONS if isinstance(options, dict) and one in options]
    if len(functions) != 1:
        report(
            path,
            "must be an object with one of log, linear, saturation, decay and reciprocal, for "
            'example {"log": 0.3}, {"saturation": 50, "weight": 2} or {"decay": "180d"}',
        )
        return None
    (function,) = functions
    known = {function}
    known |= {"weight"} if function not in ("log", "linear") else set()
    known |= {"origin"} if function in _BY_DISTANCE else set()
    for other in options:
        if other not in known:
            listed = ", ".join(sorted(known))
            report(f"{path}.{other[:100]}", f"is unknown next to {function}; known are {listed}")
            return None
    weight = options[function]
    if "weight" in known:
        weight = 1.0 if options.get("weight") is None else options["weight"]
    if not _is_number(weight) or not 0 < weight <= WEIGHT_MAX:
        of = function if "weight" not in known else "weight"
        report(f"{path}.{of}", f"must be a number above 0, up to {WEIGHT_MAX:g}")
        return None
    if "weight" not in known:
        return Boost(name, function, float(weight))
    return _parse_scale(name, function, float(weight), options, path, report)


def _parse_scale(
    name: str, function: str, weight: float, options: dict[str, Any], path: str, report: Report
) -> Boost | None:
    scale, origin = options[function], options.get("origin")
    seconds = parse_duration(scale)
    if seconds is not None and function in _BY_DISTANCE:
        timestamp = timestamp_of(origin) if isinstance(origin, str) else None
        if origin is not None and timestamp is None:
            report(f"{path}.origin", 'must be an ISO date such as "2026-01-31"; absent: now')
            return None
        return Boost(name, function, weight, seconds, timestamp, is_time=True)
    if not _is_number(scale) or not 0 < scale <= SCALE_MAX:
        durations = ', or a duration such as "180d" (s, min, h, d, w, y)'
        report(
            f"{path}.{function}",
            f"must be a number above 0, up to {SCALE_MAX:g}"
            f"{durations if function in _BY_DISTANCE else ''}",
        )
        return None
    if function in _BY_DISTANCE and isinstance(origin, dict | list):
        point = _point_of(origin)
        if point is None:
            report(
                f"{path}.origin",
                'must have a lat from -90 to 90 and a lng from -180 to 180, such as {"lat": 48.2, '
                '"lng": 16.4}',
            )
            return None
        return Boost(name, function, weight, float(scale), point=point)
    if function in _BY_DISTANCE and not (_is_number(origin) and abs(origin) <= SCALE_MAX):
        report(
            f"{path}.origin",
            f"must be the number, or the point, from which {function} counts distances",
        )
        return None
    return Boost(name, function, weight, float(scale), None if origin is None else float(origin))


def _point_of(value: Any) -> tuple[float, float] | None:
    """Return a point, {"lat", "lng"} or [lat, lng]; None if it is invalid."""
    if isinstance(value, dict) and set(value) == {"lat", "lng"}:
        value = [value["lat"], value["lng"]]
    if not isinstance(value, list) or len(value) != 2 or not all(map(_is_number, value)):
        return None
    lat, lng = value
    return (float(lat), float(lng)) if abs(lat) <= 90 and abs(lng) <= 180 else None


def _is_number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float)


def written(boosts: Iterable[Boost]) -> dict[str, Any]:
    """Return boosts as an object that parses to them."""
    document: dict[str, Any] = {}
    for boost in boosts:
        if boost.function in ("log", "linear"):
            document[boost.field] = {boost.function: boost.weight}
            continue
        options: dict[str, Any] = {
            boost.function: f"{Decimal(repr(boost.scale)).normalize():f}s"
            if boost.is_time
            else boost.scale,
            "weight": boost.weight,
        }
        if boost.point is not None:
            options["origin"] = dict(zip(("lat", "lng"), boost.point, strict=True))
        elif boost.origin is not None:
            options["origin"] = (
                datetime.fromtimestamp(boost.origin, UTC).isoformat()
                if boost.is_time
                else boost.origin
            )
        document[boost.field] = options
    return document
