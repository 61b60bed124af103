"""Geo points that are found in the items of a file of JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coordinator.cli.loading import proposed_geo_point
from coordinator.cli.sources import format_dispatch
from coordinator.cli.sources.source import ReadOptions

POINT = {"type": "Point", "coordinates": [16.4, 48.2, 170]}


EMPTY = {"at": {"type": "Point", "coordinates": []}}


def points_of(tmp_path: Path, items: list[object], options: ReadOptions) -> list[object]:
    path = tmp_path / "places.ndjson"
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    source = proposed_geo_point.offer_geo_point(format_dispatch.read(str(path), options), "auto")
    return [json.loads(line).get("_geo") for line in b"".join(source.pieces()).splitlines()]


@pytest.mark.parametrize(
    "options",
    [ReadOptions(), ReadOptions(point_fields=("at.coordinates.1", "at.coordinates.0"))],
)
def test_a_geojson_point_becomes_a_geo_point(tmp_path: Path, options: ReadOptions) -> None:
    items: list[object] = [{"at": POINT}, {"at": None}, EMPTY, {}]
    assert points_of(tmp_path, items, options) == [{"lat": 48.2, "lng": 16.4}, None, None, None]


@pytest.mark.parametrize(
    "value",
    [
        {"type": "Point", "coordinates": [16.4, 98]},  # no latitude
        {"type": "LineString", "coordinates": [[1, 2], [3, 4]]},
    ],
)
def test_what_is_no_point_is_not_proposed(tmp_path: Path, value: object) -> None:
    assert points_of(tmp_path, [{"at": value}], ReadOptions()) == [None]
    assert points_of(tmp_path, [{"at": value}, {"at": POINT}], ReadOptions()) == [None, None]
