"""Points of an item, distances and areas."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from tests.oracle.elements import elements_of
from tests.oracle.items import Item, is_number, values_of

EARTH_RADIUS = 6_371_008.8


AREAS = ("radius", "box", "polygon")


def points_of(item: Item, path: str) -> list[tuple[float, float]]:
    """Return the points of a field: objects with one number lat and one lng within bounds."""
    points = []
    for element in elements_of(item, path):
        lats = [one for one in values_of(element, "lat") if is_number(one)]
        lngs = [one for one in values_of(element, "lng") if is_number(one)]
        if len(lats) == len(lngs) == 1 and abs(lats[0]) <= 90 and abs(lngs[0]) <= 180:
            points.append((lats[0] + 0.0, lngs[0] + 0.0))
    return points


def distance(point: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the length of the great circle between two points, in metres."""
    (lat, lng), (other_lat, other_lng) = point, other
    lng = -180.0 if lng == 180.0 else lng
    radians = math.pi / 180.0
    half_lat = math.sin((other_lat - lat) * radians * 0.5)
    half_lng = math.sin((other_lng - lng) * radians * 0.5)
    cosines = math.cos(lat * radians) * math.cos(other_lat * radians)
    squared = half_lat * half_lat + cosines * (half_lng * half_lng)
    return 2.0 * EARTH_RADIUS * math.asin(math.sqrt(min(1.0, squared)))


def as_point(value: Any) -> tuple[float, float]:
    return (value["lat"], value["lng"]) if isinstance(value, dict) else (value[0], value[1])


def in_box(point: tuple[float, float], top_right: Any, bottom_left: Any) -> bool:
    """Return whether a point lies in a box; 180 and -180 are one meridian, poles lie on all."""
    lat, lng = point
    (top, right), (bottom, left) = as_point(top_right), as_point(bottom_left)
    if not bottom <= lat <= top:
        return False
    if abs(lat) == 90:
        return True
    for same in {lng, -180.0, 180.0} if abs(lng) == 180 else {lng}:
        if left <= same <= right if left <= right else same >= left or same <= right:
            return True
    return False


def in_polygon(point: tuple[float, float], corners: list[Any]) -> bool:
    """Return whether a point lies in a polygon: a line to the east leaves it once more than it
    enters, on one of the planes that the earth can be unrolled to.
    """
    lat, lng = point
    lng = -180.0 if lng == 180 else lng
    points = [as_point(corner) for corner in corners]
    border = [points[0]]
    for corner_lat, corner_lng in (*points[1:], points[0]):
        step = (corner_lng - border[-1][1]) % 360.0
        border.append((corner_lat, border[-1][1] + (step - 360.0 if step > 180.0 else step)))
    if abs(border[-1][1] - border[0][1]) > 1:
        pole = math.copysign(91.0, sum(one for one, _ in points))  # is inside
        border += [(pole, border[-1][1]), (pole, border[0][1]), border[0]]
    for turn in range(-3, 4):
        east = lng + 360.0 * turn
        crossings = 0
        for (low, low_lng), (high, high_lng) in itertools.pairwise(border):
            if (low > lat) != (high > lat):
                crossing = low_lng + (lat - low) / (high - low) * (high_lng - low_lng)
                crossings += east < crossing
        if crossings % 2:
            return True
    return False


def in_area(item: Item, path: str, name: str, area: Any) -> bool:
    tests: dict[str, Callable[[tuple[float, float]], bool]] = {
        "radius": lambda point: distance(point, as_point(area)) <= area["metres"],
        "box": lambda point: in_box(point, area["top_right"], area["bottom_left"]),
        "polygon": lambda point: in_polygon(point, area),
    }
    return any(tests[name](point) for point in points_of(item, path))


def cell_of(point: tuple[float, float], zoom: int) -> str:
    """Return the cell of a grid that a point lies in."""
    count = 1 << zoom
    lat, lng = point
    lng = -180.0 if lng == 180 else lng
    column = min(count - 1, math.floor((lng + 180.0) / (360.0 / count)))
    row = min(count - 1, math.floor((90.0 - lat) / (180.0 / count)))
    return f"{zoom}/{column}/{row}"
