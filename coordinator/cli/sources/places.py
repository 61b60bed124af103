"""Places from two fields of an item: its latitude and longitude become `_geo`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from coordinator.cli.sources.source import SourceError

FIELD: Final = "_geo"
BOUNDS: Final = (90.0, 180.0)
"""The greatest latitude and longitude, in degrees."""
_LATITUDES: Final = ("lat", "latitude")
_LONGITUDES: Final = ("lng", "lon", "long", "longitude")


def named_like_places(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the fields that are called like a latitude and a longitude.

    None unless there is exactly one of each, or if there is a geo point already.
    """
    listed = list(names)
    if FIELD in listed:
        return None
    latitudes = [name for name in listed if name.lower() in _LATITUDES]
    longitudes = [name for name in listed if name.lower() in _LONGITUDES]
    if len(latitudes) != 1 or len(longitudes) != 1:
        return None
    return latitudes[0], longitudes[0]


def with_place(item: Any, fields: tuple[str, str], place: str) -> Any:
    """Return an item with its place; without a place if either field is empty.

    Args:
        item: as parsed.
        fields: of its latitude and longitude, in degrees; both stay in the item.
        place: of the item in its source, for errors.

    Raises:
        SourceError: a field holds no number of degrees.
    """
    if not isinstance(item, dict):
        return item  # the service refuses it, with its line
    values = [item.get(field) for field in fields]
    if any(value is None or value == "" for value in values):
        return item
    lat, lng = (
        _degrees(value, bound, field, place)
        for value, bound, field in zip(values, BOUNDS, fields, strict=True)
    )
    return {**item, FIELD: {"lat": lat, "lng": lng}}


def _degrees(value: Any, bound: float, field: str, place: str) -> float:
    try:
        number = float(value) if isinstance(value, (int, float, str)) else None
    except ValueError:
        number = None
    if number is None or isinstance(value, bool) or not -bound <= number <= bound:
        raise SourceError(
            f"{place}: {field!r} must hold degrees from {-bound:g} to {bound:g}, not {value!r}"
        )
    return number
