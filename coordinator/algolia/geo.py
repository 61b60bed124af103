"""Algolia's parameters of places → filter nodes and orders (pure).

aroundLatLng        "48.2, 16.4"                        a point
insideBoundingBox   "49,17,48,16" or [[49, 17, 48, 16]]  two opposite corners; several: any of them
insidePolygon       [[48, 16, 49, 17, 48, 18]]           corners; several: any of them
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from common.limits import Limits
from common.query_syntax_tree import Filter, GeoBox, Or
from coordinator.parameters.geo import Point, polygon_of, read_metres, read_point
from coordinator.parameters.value_parsers import Mistake, json_of_text

_BOX_NUMBERS: Final = 4
_POLYGON_NUMBERS_MIN: Final = 6


def parse_point(value: Any) -> Point:
    """Read a point."""
    return read_point(_numbers(value), "")


def parse_radius(value: Any) -> float:
    """Read a distance in metres."""
    try:
        (metres,) = _numbers([value] if isinstance(value, int | float) else value)
    except (Mistake, ValueError):
        raise Mistake('must be a distance in metres, or "all"') from None
    return read_metres(metres, "")


def parse_boxes(field: str, value: Any, limits: Limits) -> Filter | None:
    """Read bounding boxes; None for none.

    Clients send any two opposite corners. Maps send those in the north-east and south-west, and
    may show more than half of the world, or a part across 180°. Only where these two would make a
    box of more than half of the world across 180° are they those in the north-west and south-east.
    """

    def boxes(numbers: list[float]) -> list[Filter]:
        if not numbers or len(numbers) % _BOX_NUMBERS:
            raise Mistake("must have four numbers for each box: lat, lng, lat, lng")
        corners = _points(numbers)
        return [_box(field, *two) for two in zip(corners[::2], corners[1::2], strict=True)]

    return _any_of(value, boxes, limits)


def _box(field: str, corner: Point, other: Point) -> Filter:
    """Return the box between two opposite corners."""
    (lat, lng), (other_lat, other_lng) = corner, other
    left, right = (other_lng, lng) if lat > other_lat else (lng, other_lng)
    if left > right and (right - left) % 360.0 > 180.0:
        left, right = right, left
    return GeoBox(field, min(lat, other_lat), max(lat, other_lat), left, right)


def parse_polygons(field: str, value: Any, limits: Limits) -> Filter | None:
    """Read polygons; None for none."""

    def polygon(numbers: list[float]) -> list[Filter]:
        if len(numbers) < _POLYGON_NUMBERS_MIN or len(numbers) % 2:
            raise Mistake("must have pairs of lat and lng for each polygon, at least three")
        if len(numbers) > 2 * limits.geo_corners_max:
            raise Mistake(f"has more than {limits.shown('geo_corners_max')} corners")
        return [polygon_of(field, _points(numbers))]

    return _any_of(value, polygon, limits)


def _any_of(
    value: Any, read: Callable[[list[float]], list[Filter]], limits: Limits
) -> Filter | None:
    """Return what one area, or any of several, covers."""
    if isinstance(value, str) and value.startswith("["):
        value = json_of_text(value)
    if value in ("", []):
        return None
    listed = value if isinstance(value, list) and isinstance(value[0], list) else [value]
    areas = [area for one in listed for area in read(_numbers(one))]
    if len(areas) > limits.filter_conditions_max:
        raise Mistake(f"has more than {limits.shown('filter_conditions_max')} areas")
    return Or(tuple(areas))


def _numbers(value: Any) -> list[float]:
    """Read numbers, as a list or separated by commas."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or any(isinstance(one, bool) for one in parts):
        raise Mistake("must be numbers, latitude before longitude")
    try:
        return [float(one) for one in parts]
    except (TypeError, ValueError, OverflowError):
        raise Mistake("must be numbers, latitude before longitude") from None


def _points(numbers: list[float]) -> list[Point]:
    return [
        read_point([lat, lng], "") for lat, lng in zip(numbers[::2], numbers[1::2], strict=True)
    ]
