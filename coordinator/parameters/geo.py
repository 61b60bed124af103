"""Points and areas in parameters → filter nodes (pure).

point      {"lat": 48.2, "lng": 16.4} or [48.2, 16.4]
radius     {"lat": 48.2, "lng": 16.4, "metres": 2000}
box        {"top_right": point, "bottom_left": point}     west of its right side; may cross 180°
polygon    [point, point, point, …]                       each side takes the shorter way round
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from common.limits import Limits
from common.query_syntax_tree import GeoBox, GeoPolygon, GeoRadius
from coordinator.parameters.value_parsers import Mistake, check_members

Point: TypeAlias = tuple[float, float]
"""Latitude and longitude in degrees."""

AREA_MEMBERS: Final = ("radius", "box", "polygon")
METRES_MAX: Final = 1e9
"""More than the distance between any two points on earth."""
_CORNERS_MIN: Final = 3
_FULL_TURN: Final = 360.0
_PAST_POLE: Final = 91.0


def read_point(value: Any, path: str) -> Point:
    """Read a point."""
    if isinstance(value, dict) and set(value) == {"lat", "lng"}:
        value = [value["lat"], value["lng"]]
    if not isinstance(value, list) or len(value) != 2:
        raise Mistake('must be a point, {"lat": 48.2, "lng": 16.4} or [48.2, 16.4]', path=path)
    lat, lng = value
    if not _is_number(lat) or not _is_number(lng) or abs(lat) > 90 or abs(lng) > 180:
        raise Mistake("must have a lat from -90 to 90 and a lng from -180 to 180", path=path)
    return float(lat), float(lng)


def read_metres(value: Any, path: str) -> float:
    """Read a distance."""
    if not _is_number(value) or not 0 <= value <= METRES_MAX:
        raise Mistake(f"must be a distance in metres, from 0 to {METRES_MAX:.0f}", path=path)
    return float(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def read_radius(field: str, value: Any, path: str) -> GeoRadius:
    """Read a circle."""
    if not isinstance(value, dict) or set(value) != {"lat", "lng", "metres"}:
        raise Mistake('must be for example {"lat": 48.2, "lng": 16.4, "metres": 2000}', path=path)
    lat, lng = read_point({"lat": value["lat"], "lng": value["lng"]}, path)
    return GeoRadius(field, lat, lng, read_metres(value["metres"], f"{path}.metres"))


def read_box(field: str, value: Any, path: str) -> GeoBox:
    """Read a box."""
    if not isinstance(value, dict):
        raise Mistake('must be an object with the points "top_right", "bottom_left"', path=path)
    check_members(value, ("top_right", "bottom_left"), path)
    return box_of(
        field,
        read_point(value.get("top_right"), f"{path}.top_right"),
        read_point(value.get("bottom_left"), f"{path}.bottom_left"),
        path,
    )


def box_of(field: str, top_right: Point, bottom_left: Point, path: str = "") -> GeoBox:
    """Return the box with two opposite corners."""
    (top, right), (bottom, left) = top_right, bottom_left
    if top < bottom:
        raise Mistake("has a top_right that is south of its bottom_left", path=path)
    return GeoBox(field, bottom, top, left, right)


def read_polygon(field: str, value: Any, limits: Limits, path: str) -> GeoPolygon:
    """Read a polygon."""
    if not isinstance(value, list):
        raise Mistake("must be a list of points", path=path)
    check_corners(value, limits, path)
    points = [read_point(one, f"{path}[{i}]") for i, one in enumerate(value)]
    return polygon_of(field, points, path)


def check_corners(points: Sequence[object], limits: Limits, path: str = "") -> None:
    """Reject more corners than a polygon may have."""
    if len(points) > limits.geo_corners_max:
        raise Mistake(f"has more than {limits.shown('geo_corners_max')} corners", path=path)


def polygon_of(field: str, points: Sequence[Point], path: str = "") -> GeoPolygon:
    """Return the polygon with the given corners, on one plane.

    Every side takes the shorter way round the earth, so longitudes continue past 180°. A border
    that ends a full turn away from its start encloses a pole, the nearer one: the area then extends
    past that pole, which it contains.
    """
    if len(points) < _CORNERS_MIN:
        raise Mistake("must have at least 3 corners", path=path)
    lngs = [points[0][1]]
    for _, lng in (*points[1:], points[0]):
        step = (lng - lngs[-1]) % _FULL_TURN
        lngs.append(lngs[-1] + (step - _FULL_TURN if step > _FULL_TURN / 2 else step))
    corners = [(lat, lng) for (lat, _), lng in zip(points, lngs, strict=False)]
    end = lngs.pop()
    if abs(end - lngs[0]) > 1.0:
        pole = math.copysign(_PAST_POLE, sum(lat for lat, _ in points))
        corners += [(points[0][0], end), (pole, end), (pole, lngs[0])]
    if max(lngs) - min(lngs) > _FULL_TURN or abs(end - lngs[0]) > _FULL_TURN + 1.0:
        raise Mistake("goes round the earth more than once", path=path)
    # Shift the polygon to within a turn of where points are, whichever way the border went.
    turns = math.floor(((min(lngs) + max(lngs)) / 2 + 180.0) / _FULL_TURN)
    return GeoPolygon(field, tuple((lat, lng - turns * _FULL_TURN) for lat, lng in corners))


def read_area(
    field: str, name: str, value: Any, limits: Limits, path: str
) -> GeoRadius | GeoBox | GeoPolygon:
    """Read the area in a member of a filter object."""
    if name == "radius":
        return read_radius(field, value, path)
    if name == "box":
        return read_box(field, value, path)
    return read_polygon(field, value, limits, path)
