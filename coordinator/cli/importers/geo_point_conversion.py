"""Geo points in the forms that other engines accept, as {"lat": …, "lng": …} (pure).

An engine stores them as they were sent:

    {"lat": 48.2, "lon": 16.4}     "48.2,16.4"     [48.2, 16.4], or longitude first
    {"type": "Point", "coordinates": [16.4, 48.2]}     "POINT (16.4 48.2)"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

_WKT_POINT: Final = re.compile(r"\s*POINT\s*\(\s*(\S+)\s+(\S+)\s*\)\s*\Z", re.IGNORECASE)
_TWO: Final = 2
_MEMBERS: Final = ({"lat", "lon"}, {"lat", "lng"})
_DEPTH_MAX: Final = 4
"""Of objects in which points are looked for."""


def as_point(value: Any, *, has_longitude_first: bool) -> dict[str, float] | None:
    """Return a point in any form that engines accept; None if it is not a point.

    Args:
        value: a point there.
        has_longitude_first: whether a list of two numbers begins with the longitude.
    """
    if isinstance(value, dict):
        if value.get("type") == "Point":
            return _of_numbers(value.get("coordinates"), has_longitude_first=True)
        return _of_numbers([value.get("lat"), value.get("lng", value.get("lon"))])
    if isinstance(value, str):
        wkt = _WKT_POINT.match(value)
        if wkt is not None:
            return _of_numbers(list(wkt.groups()), has_longitude_first=True)
        return _of_numbers(value.split(","))
    if isinstance(value, list) and all(type(one) in (int, float) for one in value):
        return _of_numbers(value, has_longitude_first=has_longitude_first)
    return None


def _of_numbers(value: Any, *, has_longitude_first: bool = False) -> dict[str, float] | None:
    """Return two numbers, or texts of numbers, as a point; None if they are not one."""
    if not isinstance(value, list) or len(value) < _TWO or len(value) > _TWO + 1:
        return None
    try:
        lat, lng = (float(one) for one in value[:_TWO])
    except (TypeError, ValueError):
        return None
    if has_longitude_first:
        lat, lng = lng, lat
    return {"lat": lat, "lng": lng} if abs(lat) <= 90 and abs(lng) <= 180 else None


def point_fields(items: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the fields whose values are all objects of a latitude and a longitude alone."""
    are_points: dict[str, bool] = {}
    for item in items:
        _look_at(item, "", 0, are_points)
    return [path for path, is_one in are_points.items() if is_one]


def _look_at(value: Any, path: str, depth: int, are_points: dict[str, bool]) -> None:
    """Note for a path, and those below it, whether its values are points."""
    if value is None:
        return
    if isinstance(value, list):
        for one in value:
            _look_at(one, path, depth, are_points)
        return
    is_point = (
        isinstance(value, dict)
        and value.keys() in _MEMBERS
        and as_point(value, has_longitude_first=False) is not None
    )
    if path:
        are_points[path] = are_points.get(path, True) and is_point
    if isinstance(value, dict) and not is_point and depth < _DEPTH_MAX:
        for name, inner in value.items():
            _look_at(inner, f"{path}.{name}" if path else name, depth + 1, are_points)
