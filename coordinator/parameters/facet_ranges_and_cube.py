"""Counts by interval, and joint counts with the intervals of a field (pure).

facet_ranges   {"price": [{"to": 10}, {"from": 10}]} | {"price": {"interval": 10}}
               {"date": {"calendar": "month"}}       | {"_geo": {"grid": 6}}
               {"_geo": {"origin": {"lat": 48.2, "lng": 16.4}, "rings": [0, 1000, 5000]}}
facet_cube     {"field": "price", "interval": 10}    | {"field": "price", "edges": [0, 10, 50, 200]}
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from common.limits import Limits
from coordinator.parameters.facet_specs import CubeSpec
from coordinator.parameters.geo import read_metres, read_point
from coordinator.parameters.value_parsers import (
    Mistake,
    check_bounds,
    check_field,
    integer,
    object_of,
    optional_bool,
)

CALENDARS: Final = ("year", "quarter", "month", "week", "day", "hour")
SPAN: Final = re.compile(r"[1-9][0-9]{0,4}[smhd]", re.ASCII)
"""A time span of fixed length: "90m", "6h", "7d"."""


def read_facet_ranges(
    value: Any, geo_fields: Sequence[str], limits: Limits
) -> list[tuple[str, dict[str, Any]]]:
    """Read the intervals to count by, as field and members of a `RangeRequest`."""
    wanted = object_of(value, 'for example {"price": [{"to": 10}, {"from": 10}]}')
    if len(wanted) > limits.facet_ranges_max:
        raise Mistake(f"names more than {limits.shown('facet_ranges_max')} fields")
    found = []
    for name, ranges in wanted.items():
        path = f".{name[:100]}"
        check_field(name, limits, path)
        if name in geo_fields:
            found.append((name, _place_options(ranges, limits, path)))
        else:
            found.append((name, _range_options(ranges, limits, path)))
    return found


def _place_options(value: Any, limits: Limits, path: str) -> dict[str, Any]:
    """Read the rings around a point, or the grid, to count points by."""
    if isinstance(value, dict) and set(value) == {"origin", "rings"}:
        rings = value["rings"]
        if not isinstance(rings, list) or not 1 <= len(rings) <= limits.geo_rings_max:
            shown = limits.shown("geo_rings_max")
            raise Mistake(f"must list 1 to {shown} distances in metres", path=f"{path}.rings")
        metres = [read_metres(one, f"{path}.rings[{i}]") for i, one in enumerate(rings)]
        if any(low >= high for low, high in itertools.pairwise(metres)):
            raise Mistake("must be ascending distances", path=f"{path}.rings")
        origin = read_point(value["origin"], f"{path}.origin")
        return {"origin": origin, "rings": tuple(metres)}
    if isinstance(value, dict) and set(value) == {"grid"}:
        return {"zoom": integer(value["grid"], 0, "geo_zoom_max", limits, f"{path}.grid")}
    raise Mistake(
        'must be {"origin": {"lat": 48.2, "lng": 16.4}, "rings": [0, 1000, 5000]} or {"grid": 6}',
        path=path,
    )


def _range_options(value: Any, limits: Limits, path: str) -> dict[str, Any]:
    """Read the intervals of one field: explicit, of equal width, or of the calendar."""
    if isinstance(value, list):
        if not 1 <= len(value) <= limits.range_bounds_max:
            raise Mistake(f"must list 1 to {limits.shown('range_bounds_max')} ranges", path=path)
        return {
            "bounds": tuple(
                _range_bounds(one, limits, f"{path}[{i}]") for i, one in enumerate(value)
            )
        }
    if isinstance(value, dict) and len(value) > 1 and "missing" in value:
        wants_missing = optional_bool(value, "missing", False, path)
        rest = {name: one for name, one in value.items() if name != "missing"}
        return {**_range_options(rest, limits, path), "wants_missing": wants_missing}
    if isinstance(value, dict) and set(value) == {"ranges"} and isinstance(value["ranges"], list):
        return _range_options(value["ranges"], limits, path)
    if isinstance(value, dict) and set(value) == {"interval"}:
        return {"interval": _interval(value["interval"], f"{path}.interval")}
    if isinstance(value, dict) and set(value) | {"time_zone"} == {"calendar", "time_zone"}:
        return _calendar_options(value, path)
    raise Mistake(
        'must be a list such as [{"to": 10}, {"from": 10, "to": 50}], {"interval": 10} or '
        '{"calendar": "month"}; an object may also have "missing": true',
        path=path,
    )


def _interval(value: Any, path: str) -> int | float:
    """Read the width of intervals."""
    if type(value) in (int, float) and 0 < value < 1e300:
        is_whole = value < 2**53 and value == int(value)
        return int(value) if is_whole else float(value)
    raise Mistake("must be a number above 0", path=path)


def read_facet_cube(value: Any, limits: Limits) -> CubeSpec:
    """Read `facet_cube`: the field by whose bins everything else is counted."""
    options = object_of(value, 'for example {"field": "price", "interval": 10}')
    if set(options) not in ({"field", "interval"}, {"field", "edges"}):
        raise Mistake(
            'must be {"field": "price", "interval": 10} or {"field": "price", "edges": [0, 10, 50]}'
        )
    field = check_field(options["field"], limits, ".field")
    if "interval" in options:
        return CubeSpec(field, interval=_interval(options["interval"], ".interval"))
    edges = options["edges"]
    if not isinstance(edges, list) or not 2 <= len(edges) <= limits.facet_cube_bins_max + 1:
        raise Mistake(
            f"must list the edges of 1 to {limits.shown('facet_cube_bins_max')} bins, ascending",
            path=".edges",
        )
    for i, edge in enumerate(edges):
        if type(edge) not in (int, float):
            raise Mistake("must be a number", path=f".edges[{i}]")
    if any(low >= high for low, high in itertools.pairwise(edges)):
        raise Mistake("must be ascending numbers", path=".edges")
    return CubeSpec(field, tuple(edges))


def _calendar_options(value: dict[str, Any], path: str) -> dict[str, Any]:
    """Read a calendar interval and its time zone."""
    calendar, time_zone = value["calendar"], value.get("time_zone")
    if not isinstance(calendar, str) or not (calendar in CALENDARS or SPAN.fullmatch(calendar)):
        raise Mistake(
            'must be "year", "quarter", "month", "week", "day", "hour" or a span such as "90m", '
            '"6h" or "7d"',
            path=f"{path}.calendar",
        )
    if time_zone is None:
        return {"calendar": calendar}
    if not isinstance(time_zone, str) or not _is_time_zone(time_zone):
        raise Mistake(
            'must be the name of a zone of the tz database, such as "Europe/Vienna" or "UTC"',
            path=f"{path}.time_zone",
        )
    return {"calendar": calendar, "time_zone": time_zone}


def _is_time_zone(name: str) -> bool:
    """Return whether a text names a zone of the tz database.

    Its folder has other files: the zone of the machine, and copies that count leap seconds.
    """
    if name.startswith(("posix", "right/")) or name in ("localtime", "Factory"):
        return False
    try:
        ZoneInfo(name)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return False
    return True


def _range_bounds(value: Any, limits: Limits, path: str) -> tuple[Any, Any]:
    """Read one {"from", "to"}: numbers or texts, at least one of the two."""
    if not isinstance(value, dict) or not value or not set(value) <= {"from", "to"}:
        raise Mistake('must be an object with "from" (inclusive), "to" (exclusive)', path=path)
    low, high = value.get("from"), value.get("to")
    check_bounds(low, high, path, limits)
    if low is not None and high is not None and low > high:
        raise Mistake(f"is reversed: from {low!r} is above to {high!r}", path=path)
    return (low, high)
