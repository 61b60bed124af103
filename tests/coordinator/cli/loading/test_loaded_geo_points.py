"""Geo points from two fields of an item: named, proposed, refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinator.cli.commands import main
from coordinator.cli.loading import proposed_geo_point
from coordinator.cli.sources import format_dispatch
from coordinator.cli.sources.json_object_splitting import edit_objects
from coordinator.cli.sources.source import ReadOptions
from coordinator.command_line_client import Client
from tests.coordinator.cli.loads import CITIES, index_names, run
from tests.service import Service

POINTS_OF_JSON = """\
{"id": 1, "name": "Vi}enna", "lat": 48.21, "lon": 16.37}
{"id": 2, "name": "\\"{Paris\\\\", "lat": "48.86", "lon": 2.35, "in": {"lat": 1}}
{"id": 3, "n": 12345678901234567890, "lat": null, "lon": 3}

{"id": 4, "lat": 4}
"""


@pytest.mark.parametrize("name", ["cities.csv", "cities.ndjson", "cities.json"])
def test_two_columns_become_a_geo_point(
    service: Service, client: Client, tmp_path: Path, name: str
) -> None:
    header, *rows = (line.split(",") for line in CITIES.splitlines())
    items = [{k: v for k, v in zip(header, row, strict=True) if v} for row in rows]
    file = tmp_path / name
    lines = "".join(json.dumps(item) + "\n" for item in items)
    texts = {"csv": CITIES, "ndjson": lines, "json": json.dumps(items)}
    file.write_text(texts[name.partition(".")[2]])

    result = run(service, "load", str(file), "--index", "places", "--geo", "lat,lon")

    assert result.exit_code == 0, result.output
    near = "/places/search?filter=_geoRadius(48.2,16.4,20000)"
    found = client.request("GET", near)["data"]["items"]
    assert [item["_geo"] for item in found] == [{"lat": 48.21, "lng": 16.37}]
    assert client.request("GET", "/places/search")["pagination"]["total"] == 3
    client.request("DELETE", "/places")


@pytest.mark.parametrize(
    ("option", "row", "message"),
    [
        ("lat,height", "4,Up,1,2", "has no column 'height'; its columns are id, name, lat, lon"),
        ("lat", "4,Up,1,2", "'lat' is not LAT,LNG: name two fields"),
        (
            "lat,lon",
            "4,Up,91,2",
            "csv, line 5: 'lat' must hold degrees from -90 to 90, not 91",
        ),
    ],
)
def test_what_is_no_point_is_refused(
    service: Service, client: Client, tmp_path: Path, option: str, row: str, message: str
) -> None:
    file = tmp_path / "places.csv"
    file.write_text(f"{CITIES}{row}\n")

    result = run(service, "load", str(file), "--geo", option)

    assert result.exit_code != 0
    assert message in result.stderr
    assert "places" not in index_names(client)


def test_points_are_proposed_for_a_new_index(
    service: Service, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "proposed.csv"
    file.write_text(CITIES)
    for option, num_points in (("none", 0), ("auto", 2)):
        result = run(service, "load", str(file), "--configure", option)
        assert result.exit_code == 0, result.output
        found = client.request("GET", "/proposed/search?filter=_geo%20EXISTS")
        assert found["pagination"]["total"] == num_points
        client.request("DELETE", "/proposed")


@pytest.mark.parametrize(("key", "is_made"), [("y", True), ("\r", True), ("n", False)])
def test_one_key_makes_points(tmp_path: Path, key: str, is_made: bool) -> None:
    file = tmp_path / "cities.csv"
    file.write_text(CITIES)
    source = format_dispatch.read(str(file), ReadOptions())
    source = proposed_geo_point.offer_geo_point(source, "ask", read_key=lambda: key)
    items = [json.loads(line) for line in b"".join(source.pieces()).splitlines()]
    assert [item["name"] for item in items if "_geo" in item] == ["Vienna", "Paris"] * is_made


def test_points_in_objects_are_proposed(service: Service, client: Client, tmp_path: Path) -> None:
    """As Elasticsearch writes them: {"lat", "lon"}, which is not a point here as it is."""
    file = tmp_path / "inner.ndjson"
    items: list[dict[str, Any]] = [
        {"id": 1, "at": {"lat": 48.2, "lon": 16.4}, "size": {"h": 1}},
        {"id": 2, "at": None},
        {"id": 3, "size": {"lat": 1}},
    ]
    file.write_text("".join(json.dumps(item) + "\n" for item in items))
    loaded = run(service, "load", str(file), "--configure", "auto")
    assert loaded.exit_code == 0, loaded.output
    near = client.request("GET", "/inner/search?filter=_geoRadius(48.2,16.4,100)")
    assert near["data"]["items"] == [{**items[0], "_geo": {"lat": 48.2, "lng": 16.4}}]
    client.request("DELETE", "/inner")
    said = run(service, "load", str(file), "--configure", "none")
    assert "--geo at.lat,at.lon combines these fields into a geo point" in said.stderr
    wanted = run(service, "load", str(file), "--geo", "at.lat,at.lon")
    assert wanted.exit_code == 0, wanted.output
    assert client.request("GET", "/inner/search?filter=_geo%20EXISTS")["pagination"]["total"] == 1
    client.request("DELETE", "/inner")


@pytest.mark.parametrize("is_array", [False, True])
def test_points_of_json_are_proposed(
    service: Service, client: Client, tmp_path: Path, is_array: bool
) -> None:
    file = tmp_path / "seen.json"
    items = [json.loads(line) for line in POINTS_OF_JSON.splitlines() if line]
    # Beyond the sample an item that has no degrees is loaded without a point.
    items += [{"id": f"{i}-{'x' * 90}", "lat": i / 100, "lon": -i / 100} for i in range(2_000)]
    items.append({"id": "last", "lat": "north", "lon": 4})
    lines = POINTS_OF_JSON + "".join(json.dumps(item) + "\n" for item in items[4:])
    file.write_text(json.dumps(items, indent=1) if is_array else lines)
    for option, num_points in (("none", 0), ("auto", 2_002)):
        result = run(service, "load", str(file), "--configure", option)
        assert result.exit_code == 0, result.output
        found = client.request("GET", "/seen/search?filter=_geo%20EXISTS")
        assert found["pagination"]["total"] == num_points
        assert client.request("GET", "/seen/search")["pagination"]["total"] == len(items)
        paris = client.request("GET", "/seen/items/2")
        assert paris.pop("_geo", None) == ({"lat": 48.86, "lng": 2.35} if num_points else None)
        assert paris == items[1]
        client.request("DELETE", "/seen")


def test_a_line_that_is_no_json_keeps_its_number_where_points_are_made(
    service: Service, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "broken.ndjson"
    file.write_text(POINTS_OF_JSON + '{"id": 5, "lat": 1, "lon": }\n')
    result = run(service, "load", str(file), "--configure", "auto")
    assert result.exit_code != 0
    assert "line 6" in result.stderr
    assert "broken" not in index_names(client)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
def test_objects_are_found_wherever_the_pieces_end(size: int) -> None:
    text = ('[1, "{", ' + POINTS_OF_JSON.replace("}\n", "},\n") + ']{"never": "ends').encode()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    found: list[bytes] = []

    def edit(item: bytes) -> bytes:
        found.append(item)
        return b"<%d>" % len(found)

    edited = b"".join(edit_objects(pieces, edit)).decode()
    assert edited == '[1, "{", <1>,\n<2>,\n<3>,\n\n<4>,\n]{"never": "ends'
    assert [json.loads(item) for item in found] == [
        json.loads(line) for line in POINTS_OF_JSON.splitlines() if line
    ]


@pytest.mark.parametrize(
    "item",
    [
        '{"id": 2, "lat": 91, "lon": 0}',
        '{"id": 2, "lat": 5335000, "lon": 16}',
        '{"id": 2, "lat": "high", "lon": "low"}',
        '{"id": 2, "lat": true, "lon": 1}',
        '{"id": 2, "_geo": {"lat": 1, "lng": 2}}',
        '{"id": 2, "latitude": 1}',
        '{"id": 1, "lat": "", "lon": null}',
    ],
)
def test_fields_of_json_that_hold_no_degrees_are_no_points(tmp_path: Path, item: str) -> None:
    file = tmp_path / "items.ndjson"
    first = "" if '"lon": null' in item else '{"id": 1, "lat": 48, "lon": 16}\n'
    file.write_text(first + item)
    source = format_dispatch.read(str(file), ReadOptions())
    assert proposed_geo_point.offer_geo_point(source, "auto") is source


@pytest.mark.parametrize("row", ["low,high", "48.2,500000", "5335000,16.4", ",", "91,0"])
def test_columns_that_hold_no_degrees_are_no_points(tmp_path: Path, row: str) -> None:
    file = tmp_path / "texts.csv"
    file.write_text(f"id,lat,long\n1,48,16\n2,{row}\n" if row != "," else "id,lat,long\n1,,\n")
    source = format_dispatch.read(str(file), ReadOptions())
    assert proposed_geo_point.offer_geo_point(source, "auto") is source


def test_a_column_that_is_the_geo_point_already_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text('lat,long,_geo\n48,16,"{""lat"":1,""lng"":2}"\n')
    source = format_dispatch.read(str(file), ReadOptions())
    assert proposed_geo_point.offer_geo_point(source, "auto") is source


def test_columns_of_coordinates_are_mentioned(tmp_path: Path) -> None:
    file = tmp_path / "places.csv"
    file.write_text(CITIES)
    result = CliRunner().invoke(main, ["load", str(file), "--dry-run"])
    assert "--geo lat,lon combines these columns into a geo point" in result.stderr
