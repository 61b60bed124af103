"""Geo points from two fields of an item: its latitude and longitude become `_geo`.

Fields that the user names must hold degrees. For those that are found by their names, an item that
has none gets no point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import orjson

from coordinator.cli.sources.exact_json_codec import encoded
from coordinator.cli.sources.json_and_ndjson import placed_items
from coordinator.cli.sources.json_object_splitting import edit_objects, value_at
from coordinator.cli.sources.source import Source, SourceError

FIELD: Final = "_geo"
BOUNDS: Final = (90.0, 180.0)
"""The greatest latitude and longitude, in degrees."""
_LATITUDES: Final = ("lat", "latitude")
_LONGITUDES: Final = ("lng", "lon", "long", "longitude")


def coordinate_fields(source: Source) -> tuple[str, str] | None:
    """Return the fields of a source that are called like a latitude and a longitude.

    None unless there is exactly one of each, or if there is a geo point already.
    """
    listed = [column.name for column in source.columns]
    listed += dict.fromkeys(name for item in source.sample for name in item)
    if FIELD in listed:
        return None
    return _pair(listed) or _inner_pair(source)


def _pair(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the one name of a latitude and the one of a longitude; None unless there are both."""
    listed = list(names)
    latitudes = [name for name in listed if name.lower() in _LATITUDES]
    longitudes = [name for name in listed if name.lower() in _LONGITUDES]
    if len(latitudes) != 1 or len(longitudes) != 1:
        return None
    return latitudes[0], longitudes[0]


def _inner_pair(source: Source) -> tuple[str, str] | None:
    """Return the pair in the one field of objects that have one: {"lat", "lon"}, a GeoJSON point.

    None for objects of "lat" and "lng", which are points as they are.
    """
    found: dict[str, tuple[str, str] | None] = {}
    for item in source.sample:
        for name, value in item.items():
            if isinstance(value, dict) and "." not in name:
                found.setdefault(name, _pair_in(value))
    pairs = [(name, pair) for name, pair in found.items() if pair]
    if len(pairs) != 1 or pairs[0][1] == ("lat", "lng"):
        return None
    name, (latitude, longitude) = pairs[0]
    return f"{name}.{latitude}", f"{name}.{longitude}"


def _pair_in(value: dict[str, Any]) -> tuple[str, str] | None:
    """Return the latitude and the longitude of an object, which may be a GeoJSON point."""
    if value.get("type") == "Point" and isinstance(value.get("coordinates"), list):
        return "coordinates.1", "coordinates.0"
    return _pair(value)


def hold_degrees(source: Source, fields: tuple[str, str]) -> bool:
    """Return whether all values of two fields that are known hold degrees, and there are some.

    All values of a table of text are known, those of JSON in the sample.
    """
    if source.sample:
        values = [[value_at(item, field) for item in source.sample] for field in fields]
        filled = [[value for value in one if not _is_empty(value)] for one in values]
        return all(filled) and all(
            _is_degrees(value, bound)
            for one, bound in zip(filled, BOUNDS, strict=True)
            for value in one
        )
    greatest = {column.name: column.greatest for column in source.columns}
    return all(
        (value := greatest[field]) is not None and value <= bound
        for field, bound in zip(fields, BOUNDS, strict=True)
    )


def with_points(source: Source, fields: tuple[str, str]) -> Source:
    """Return a source whose items have a geo point.

    Args:
        source: of the items.
        fields: of each item's latitude and longitude, in degrees.

    Raises:
        SourceError: there is no such column. Its pieces raise it for a value that is not a degree.
    """
    columns = [column.name for column in source.columns]
    for field in fields:
        if columns and field not in columns:
            raise SourceError(
                f"--geo: {source.name} has no column {field!r}; its columns are "
                f"{', '.join(columns)}"
            )

    def pieces_with_points() -> Iterator[bytes]:
        for place, item in placed_items(source):
            yield encoded(with_point(item, fields, place)) + b"\n"

    return replace(source, pieces=pieces_with_points)


def with_seen_points(source: Source, fields: tuple[str, str]) -> Source:
    """Return a source of JSON whose items have a geo point if two of their fields hold degrees."""
    pieces = source.pieces
    return replace(
        source,
        pieces=lambda: edit_objects(pieces(), lambda text: insert_point(text, fields)),
    )


def insert_point(text: bytes, fields: tuple[str, str]) -> bytes:
    """Return the JSON of an item with its point; unchanged unless both fields hold degrees."""
    try:
        item = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text  # the service refuses it, with its line
    values = [value_at(item, field) for field in fields]
    pairs = zip(values, BOUNDS, strict=True)
    if FIELD in item or not all(_is_degrees(value, bound) for value, bound in pairs):
        return text
    point = orjson.dumps({"lat": float(values[0]), "lng": float(values[1])})
    return b"%s,%s:%s}" % (text[:-1], orjson.dumps(FIELD), point)


def with_point(item: Any, fields: tuple[str, str], place: str) -> Any:
    """Return an item with its point; without one if either field is empty.

    Args:
        item: as parsed.
        fields: of its latitude and longitude, in degrees; both stay in the item.
        place: of the item in its source, for errors.

    Raises:
        SourceError: a field holds no number of degrees.
    """
    if not isinstance(item, dict):
        return item  # the service refuses it, with its line
    values = [value_at(item, field) for field in fields]
    if any(map(_is_empty, values)):
        return item
    lat, lng = (
        _degrees(value, bound, field, place)
        for value, bound, field in zip(values, BOUNDS, fields, strict=True)
    )
    return {**item, FIELD: {"lat": lat, "lng": lng}}


def _is_empty(value: Any) -> bool:
    return value is None or value == ""


def _is_degrees(value: Any, bound: float) -> bool:
    """Return whether a value is a number, or the text of one, from -bound to bound."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return False
    try:
        return -bound <= float(value) <= bound
    except ValueError:
        return False


def _degrees(value: Any, bound: float, field: str, place: str) -> float:
    if not _is_degrees(value, bound):
        raise SourceError(
            f"{place}: {field!r} must hold degrees from {-bound:g} to {bound:g}, not {value!r}"
        )
    return float(value)
