"""Facets of one request: options by facet, counts by interval, joint counts (pure).

facets         {"tags": {"size": 20, "sort": "term", "query": "dr", "offset": 10, …}}
               {"brand": {"stats": ["price"]}}
facet_ranges   {"price": [{"to": 10}, {"from": 10}]} | {"price": {"interval": 10}}
               {"date": {"calendar": "month"}}       | {"_geo": {"grid": 6}}
               {"_geo": {"origin": {"lat": 48.2, "lng": 16.4}, "rings": [0, 1000, 5000]}}
facet_cube     {"field": "price", "interval": 10}    | {"field": "price", "edges": [0, 10, 50, 200]}
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from common.index_configuration import FacetConfiguration, IndexConfiguration
from common.limits import Limits
from common.search_option_parsers import parse_facet_sort
from coordinator.parameters.geo import read_metres, read_point
from coordinator.parameters.parameter_kinds import (
    Mistake,
    check_bounds,
    check_field,
    check_members,
    integer,
    object_of,
    optional_bool,
    optional_integer,
    read_collation,
)
from coordinator.parameters.parsed_parameters import CubeSpec, FacetSummary

FACET_OPTIONS: Final = (
    "size",
    "sort",
    "order",
    "conjunction",
    "hide_zero",
    "query",
    "offset",
    "stats",
    "missing",
    "cardinality",
    "percentiles",
    "collation",
)
CALENDARS: Final = ("year", "quarter", "month", "week", "day", "hour")
SPAN: Final = re.compile(r"[1-9][0-9]{0,4}[smhd]", re.ASCII)
"""A time span of fixed length: "90m", "6h", "7d"."""


class FacetOptions(NamedTuple):
    """The options of one facet in a request."""

    configuration: FacetConfiguration
    """The index's settings, overridden by the request's."""
    key_query: str | None
    offset: int
    summary: FacetSummary


def read_facet_options(
    value: Any, configuration: IndexConfiguration, limits: Limits
) -> dict[str, FacetOptions]:
    """Read the options of facets, by facet."""
    facets = configuration.facets
    found: dict[str, FacetOptions] = {}
    wanted = object_of(value, 'of options by facet, for example {"tags": {"size": 20}}')
    for name, options in wanted.items():
        path = f".{name[:100]}"
        base = facets.get(name)
        if base is None:
            check_field(name, limits, path)
            position = len(facets) + sum(one not in facets for one in found) + 1
            if position - len(facets) > limits.field_facets_max:
                known = ", ".join(facets) or "none"
                raise Mistake(
                    f"names more than {limits.shown('field_facets_max')} that are not facets; the "
                    f"facets are {known[:500]}"
                )
            base = FacetConfiguration(
                name,
                name,
                position,
                conjunction=False,
                hide_zero=True,
                collation=configuration.collation_of(name),
            )
        if not isinstance(options, dict):
            raise Mistake("must be an object of options", path=path)
        check_members(options, FACET_OPTIONS, path)
        found[name] = FacetOptions(
            _overridden(base, options, limits, path),
            _key_query(options.get("query"), limits, path),
            optional_integer(options, "offset", "facet_offset_max", limits, 0, path),
            FacetSummary(
                optional_bool(options, "missing", False, path),
                optional_bool(options, "cardinality", False, path),
                _percentiles(options.get("percentiles"), limits, path),
                _statistics_fields(options.get("stats"), limits, path),
            ),
        )
    return found


def _statistics_fields(value: Any, limits: Limits, path: str) -> tuple[str, ...]:
    """Read the fields whose numbers are summed up by value; `stats` may also be true or false."""
    if value is None or isinstance(value, bool):
        return ()
    shown = limits.shown("value_statistics_max")
    if not isinstance(value, list) or len(value) > limits.value_statistics_max:
        raise Mistake(
            f'must be true, false, or list up to {shown} with numbers: ["price"]',
            path=f"{path}.stats",
        )
    fields = [check_field(one, limits, f"{path}.stats") for one in value]
    return tuple(dict.fromkeys(fields))


def _percentiles(value: Any, limits: Limits, path: str) -> tuple[float, ...]:
    """Read the percentiles requested of a facet's numbers."""
    if value is None:
        return ()
    if (
        not isinstance(value, list)
        or len(value) > limits.percentiles_max
        or not all(type(one) in (int, float) and 0 <= one <= 100 for one in value)
    ):
        shown = limits.shown("percentiles_max")
        raise Mistake(
            f"must list up to {shown} percentiles, such as [50, 95]", path=f"{path}.percentiles"
        )
    return tuple(value)


def _key_query(value: Any, limits: Limits, path: str) -> str | None:
    """Read the words (or prefixes of words) that keys must contain."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > limits.query_chars_max:
        raise Mistake(
            f"must be a text of up to {limits.shown('query_chars_max')} characters",
            path=f"{path}.query",
        )
    return value


def _overridden(
    base: FacetConfiguration, options: dict[str, Any], limits: Limits, path: str
) -> FacetConfiguration:
    """Return a facet's settings overridden by the request's options."""
    sort = base.sort
    if options.get("sort") is not None or options.get("order") is not None:
        parsed = parse_facet_sort(
            options.get("sort"), options.get("order"), base.chosen_filters_on_top
        )
        if isinstance(parsed, str):
            raise Mistake(parsed, path=f"{path}.sort")
        sort = parsed
    collation = base.collation
    if options.get("collation") is not None:
        collation = read_collation(options["collation"], f"{path}.collation")
    return replace(
        base,
        sort=sort,
        collation=collation,
        size=optional_integer(options, "size", "facet_size_max", limits, base.size, path),
        conjunction=optional_bool(options, "conjunction", base.conjunction, path),
        hide_zero=optional_bool(options, "hide_zero", base.hide_zero, path),
        show_facet_stats=base.show_facet_stats
        if isinstance(options.get("stats"), list)
        else optional_bool(options, "stats", base.show_facet_stats, path),
    )


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
            'must be the name of a time zone, such as "Europe/Vienna" or "UTC"',
            path=f"{path}.time_zone",
        )
    return {"calendar": calendar, "time_zone": time_zone}


def _is_time_zone(name: str) -> bool:
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
