"""`facetd load` as a newcomer uses it: tables, refusals, the proposal, and the bar."""

from __future__ import annotations

import json
import os
import pty
import select
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from coordinator.cli import indexes, loading, source_remarks
from coordinator.cli.commands import main
from coordinator.cli.sources import formats
from coordinator.cli.sources.json_objects import edit_objects
from coordinator.cli.sources.source import ReadOptions
from coordinator.clients.http_client import Client, ClientError
from tests.service import ROOT, Service

BOOKS = "id,title,genre\n" + "".join(f"{i},Book {i},{'ab'[i % 2]}\n" for i in range(1, 21))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("loading") / "data", 2) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Client:
    return Client(f"http://127.0.0.1:{service.port}")


def _run(service: Service, *arguments: str, text: str | bytes | None = None) -> Result:
    url = f"http://127.0.0.1:{service.port}"
    return CliRunner().invoke(main, [*arguments, "--url", url], input=text)


def _indexes(client: Client) -> list[str]:
    return [index["name"] for index in client.request("GET", "/_indexes")["indexes"]]


def test_several_files_are_loaded_in_turn(service: Service, client: Client, tmp_path: Path) -> None:
    parts = [tmp_path / f"part-{i}.ndjson" for i in range(3)]
    for i, part in enumerate(parts):
        part.write_text(f'{{"id": {i}, "shelf": "a"}}')
    configuration = tmp_path / "configuration.json"
    configuration.write_text('{"aggregations": {"shelf": {}}}')
    into = ("--index", "parts", "--config", str(configuration))
    result = _run(service, "load", *map(str, parts), *into)
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["created"] for line in result.stdout.splitlines()] == [1, 1, 1]
    assert client.request("GET", "/parts")["items"] == 3
    assert "shelf" in client.request("GET", "/parts/configuration")["aggregations"]

    parts[1].write_text("{")
    result = _run(service, "load", *map(str, parts))
    assert result.exit_code == 1
    assert f"facetd: loaded before this: {parts[0]}\n" in result.stderr
    assert [name for name in _indexes(client) if name.startswith("part-")] == ["part-0"]


def test_a_table_becomes_an_index_of_its_name(
    service: Service, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "My books (new).csv"
    file.write_text(BOOKS)
    result = _run(service, "load", str(file))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["created"] == 20
    assert "20 rows, 3 columns" in result.stderr
    assert "integer, the id" in result.stderr
    assert "facet   genre  (2 values" in result.stderr
    assert "--configure auto" in result.stderr
    assert client.request("GET", "/my-books-new/items/3") == {
        "id": 3, "title": "Book 3", "genre": "b",
    }  # fmt: skip
    assert client.request("GET", "/my-books-new/configuration") == {}, (
        "the question was not answered"
    )


def test_one_object_around_an_array_is_mentioned(
    service: Service, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "wrapped.json"
    file.write_text('{"total": 2, "products": [{"id": 1}, {"id": 2}]}')
    result = _run(service, "load", str(file))
    assert result.exit_code == 0, result.output
    assert "one item; if the objects in its 'products' are the items" in result.stderr
    file.write_text('{"id": 1, "sizes": [{"n": 1}]}\n{"id": 2, "sizes": [{"n": 1}]}\n')
    assert "one item" not in _run(service, "load", str(file)).stderr
    client.request("DELETE", "/wrapped")


def test_the_proposal_is_applied_by_option_and_by_a_key(
    service: Service, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "auto.csv"
    file.write_text(BOOKS)
    assert _run(service, "load", str(file), "--configure", "auto").exit_code == 0
    applied = client.request("GET", "/auto/configuration")
    assert list(applied["aggregations"]) == ["genre"]
    assert applied["searchable_fields"][0] == "title^3"
    assert _run(service, "load", str(file), "--index", "kept", "--configure", "none").exit_code == 0
    keys = iter("n\r")
    for expected in (dict[str, Any](), applied):
        loading.offer_configuration(client, "kept", "ask", read_key=lambda: next(keys))
        assert client.request("GET", "/kept/configuration") == expected


CITIES = "id,name,lat,lon\n1,Vienna,48.21,16.37\n2,Nowhere,,\n3,Paris,48.85,2.35\n"


@pytest.mark.parametrize("name", ["cities.csv", "cities.ndjson", "cities.json"])
def test_two_columns_become_a_place(
    service: Service, client: Client, tmp_path: Path, name: str
) -> None:
    header, *rows = (line.split(",") for line in CITIES.splitlines())
    items = [{k: v for k, v in zip(header, row, strict=True) if v} for row in rows]
    file = tmp_path / name
    lines = "".join(json.dumps(item) + "\n" for item in items)
    texts = {"csv": CITIES, "ndjson": lines, "json": json.dumps(items)}
    file.write_text(texts[name.partition(".")[2]])

    result = _run(service, "load", str(file), "--index", "places", "--geo", "lat,lon")

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
        ("lat,lon", "4,Up,91,2", "'lat' must hold degrees from -90 to 90, not 91"),
    ],
)
def test_what_is_no_place_is_refused(
    service: Service, client: Client, tmp_path: Path, option: str, row: str, message: str
) -> None:
    file = tmp_path / "places.csv"
    file.write_text(f"{CITIES}{row}\n")

    result = _run(service, "load", str(file), "--geo", option)

    assert result.exit_code != 0
    assert message in result.stderr
    assert "places" not in _indexes(client)


def test_places_are_proposed_for_a_new_index(
    service: Service, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "proposed.csv"
    file.write_text(CITIES)
    for option, places in (("none", 0), ("auto", 2)):
        result = _run(service, "load", str(file), "--configure", option)
        assert result.exit_code == 0, result.output
        found = client.request("GET", "/proposed/search?filter=_geo%20EXISTS")
        assert found["pagination"]["total"] == places
        client.request("DELETE", "/proposed")


@pytest.mark.parametrize(("key", "is_made"), [("y", True), ("\r", True), ("n", False)])
def test_one_key_makes_places(tmp_path: Path, key: str, is_made: bool) -> None:
    file = tmp_path / "cities.csv"
    file.write_text(CITIES)
    source = formats.read(str(file), ReadOptions())
    source = loading.offer_places(source, "ask", read_key=lambda: key)
    items = [json.loads(line) for line in b"".join(source.pieces()).splitlines()]
    assert [item["name"] for item in items if "_geo" in item] == ["Vienna", "Paris"] * is_made


PLACES_OF_JSON = """\
{"id": 1, "name": "Vi}enna", "lat": 48.21, "lon": 16.37}
{"id": 2, "name": "\\"{Paris\\\\", "lat": "48.86", "lon": 2.35, "in": {"lat": 1}}
{"id": 3, "n": 12345678901234567890, "lat": null, "lon": 3}

{"id": 4, "lat": 4}
"""


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["red|oak", "oak", "red|pine|oak", "pine|red"], '--split "tags=|" reads tags as lists'),
        (["red; oak", "oak; red", "oak"], '--split "tags=;" reads tags as lists, of red, oak'),
        (["Call me; Ishmael", "It was; the best", "of times"], None),
        (["a" * 61 + "|b"] * 4, None),
        (["1", "2"], None),
    ],
)
def test_cells_that_are_lists_are_named(
    service: Service, tmp_path: Path, cells: list[str], said: str | None
) -> None:
    file = tmp_path / "listed.csv"
    file.write_text("name,tags\n" + "".join(f"x{i},{cell}\n" for i, cell in enumerate(cells)))
    shown = _run(service, "load", str(file), "--dry-run").stderr
    assert said in shown if said else "--split" not in shown
    assert (
        "--split" not in _run(service, "load", str(file), "--dry-run", "--split", "tags=|").stderr
    )


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.ndjson", '{"_id": "1", "_source": {"a": 1}}', "facetd import elasticsearch"),
        ("a.ndjson", '{"index": {"_id": "1"}}\n{"a": 1}', "is a _bulk body of Elasticsearch"),
        ("a.json", '[{"isbn": "1", "title": "Sea"}]', "for example --id-field isbn"),
        ("a.csv", "title,isbn13\nSea,1\n", "for example --id-field isbn13"),
        ("a.json", '[{"_id": {"$oid": "5f"}}]', "for example --id-field '_id.$oid'"),
        ("a.csv", "title,year\nSea,1\n", "--id-field names the field of their ids\n"),
        ("a.csv", "ID,isbn\n1,1\n", None),
        ("a.json", '[{"id": 1, "isbn": "1"}]', None),
    ],
)
def test_what_a_load_would_make_is_said_before(
    service: Service, tmp_path: Path, name: str, content: str, said: str | None
) -> None:
    file = tmp_path / name
    file.write_text(content)
    shown = _run(service, "load", str(file), "--dry-run").stderr
    assert said in shown if said else "no id" not in shown
    assert ("its first item {" in shown) == (not name.endswith(".csv"))
    named = _run(service, "load", str(file), "--dry-run", "--id-field", "isbn").stderr
    assert "no id" not in named


def test_places_in_objects_are_proposed(service: Service, client: Client, tmp_path: Path) -> None:
    """As Elasticsearch writes them: {"lat", "lon"}, which is no point here as it is."""
    file = tmp_path / "inner.ndjson"
    items: list[dict[str, Any]] = [
        {"id": 1, "at": {"lat": 48.2, "lon": 16.4}, "size": {"h": 1}},
        {"id": 2, "at": None},
        {"id": 3, "size": {"lat": 1}},
    ]
    file.write_text("".join(json.dumps(item) + "\n" for item in items))
    loaded = _run(service, "load", str(file), "--configure", "auto")
    assert loaded.exit_code == 0, loaded.output
    near = client.request("GET", "/inner/search?filter=_geoRadius(48.2,16.4,100)")
    assert near["data"]["items"] == [{**items[0], "_geo": {"lat": 48.2, "lng": 16.4}}]
    client.request("DELETE", "/inner")
    said = _run(service, "load", str(file), "--configure", "none")
    assert "--geo at.lat,at.lon makes places of these fields" in said.stderr
    wanted = _run(service, "load", str(file), "--geo", "at.lat,at.lon")
    assert wanted.exit_code == 0, wanted.output
    assert client.request("GET", "/inner/search?filter=_geo%20EXISTS")["pagination"]["total"] == 1
    client.request("DELETE", "/inner")


@pytest.mark.parametrize("is_array", [False, True])
def test_places_of_json_are_proposed(
    service: Service, client: Client, tmp_path: Path, is_array: bool
) -> None:
    file = tmp_path / "seen.json"
    items = [json.loads(line) for line in PLACES_OF_JSON.splitlines() if line]
    # Beyond the sample an item that has no degrees is loaded without a place.
    items += [{"id": f"{i}-{'x' * 90}", "lat": i / 100, "lon": -i / 100} for i in range(2_000)]
    items.append({"id": "last", "lat": "north", "lon": 4})
    lines = PLACES_OF_JSON + "".join(json.dumps(item) + "\n" for item in items[4:])
    file.write_text(json.dumps(items, indent=1) if is_array else lines)
    for option, places in (("none", 0), ("auto", 2_002)):
        result = _run(service, "load", str(file), "--configure", option)
        assert result.exit_code == 0, result.output
        found = client.request("GET", "/seen/search?filter=_geo%20EXISTS")
        assert found["pagination"]["total"] == places
        assert client.request("GET", "/seen/search")["pagination"]["total"] == len(items)
        paris = client.request("GET", "/seen/items/2")
        assert paris.pop("_geo", None) == ({"lat": 48.86, "lng": 2.35} if places else None)
        assert paris == items[1]
        client.request("DELETE", "/seen")


def test_a_line_that_is_no_json_keeps_its_number_where_places_are_made(
    service: Service, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "broken.ndjson"
    file.write_text(PLACES_OF_JSON + '{"id": 5, "lat": 1, "lon": }\n')
    result = _run(service, "load", str(file), "--configure", "auto")
    assert result.exit_code != 0
    assert "line 6" in result.stderr
    assert "broken" not in _indexes(client)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
def test_objects_are_found_wherever_the_pieces_end(size: int) -> None:
    text = ('[1, "{", ' + PLACES_OF_JSON.replace("}\n", "},\n") + ']{"never": "ends').encode()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    found: list[bytes] = []

    def edit(item: bytes) -> bytes:
        found.append(item)
        return b"<%d>" % len(found)

    edited = b"".join(edit_objects(pieces, edit)).decode()
    assert edited == '[1, "{", <1>,\n<2>,\n<3>,\n\n<4>,\n]{"never": "ends'
    assert [json.loads(item) for item in found] == [
        json.loads(line) for line in PLACES_OF_JSON.splitlines() if line
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
def test_fields_of_json_that_hold_no_degrees_are_no_places(tmp_path: Path, item: str) -> None:
    file = tmp_path / "items.ndjson"
    first = "" if '"lon": null' in item else '{"id": 1, "lat": 48, "lon": 16}\n'
    file.write_text(first + item)
    source = formats.read(str(file), ReadOptions())
    assert loading.offer_places(source, "auto") is source


@pytest.mark.parametrize("row", ["low,high", "48.2,500000", "5335000,16.4", ",", "91,0"])
def test_columns_that_hold_no_degrees_are_no_places(tmp_path: Path, row: str) -> None:
    file = tmp_path / "texts.csv"
    file.write_text(f"id,lat,long\n1,48,16\n2,{row}\n" if row != "," else "id,lat,long\n1,,\n")
    source = formats.read(str(file), ReadOptions())
    assert loading.offer_places(source, "auto") is source


def test_a_column_that_is_the_geo_point_already_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text('lat,long,_geo\n48,16,"{""lat"":1,""lng"":2}"\n')
    source = formats.read(str(file), ReadOptions())
    assert loading.offer_places(source, "auto") is source


def test_columns_of_coordinates_are_mentioned(tmp_path: Path) -> None:
    file = tmp_path / "places.csv"
    file.write_text(CITIES)
    result = CliRunner().invoke(main, ["load", str(file), "--dry-run"])
    assert "--geo lat,lon makes places of these columns" in result.stderr


def test_an_index_that_exists_keeps_its_configuration(
    service: Service, client: Client, tmp_path: Path
) -> None:
    client.configure("mine", {"match": "any"})
    file = tmp_path / "mine.csv"
    file.write_text(BOOKS)
    assert "proposed" not in _run(service, "load", str(file), "--configure", "auto").stderr
    assert client.request("GET", "/mine/configuration") == {"match": "any"}


@pytest.mark.parametrize(
    ("name", "content", "messages"),
    [
        ("rows.csv", "id,a\n1,2\n2\n", ["line 3: 1 cell, and the header has 2", "--skip-bad"]),
        ("ids.ndjson", '{"id":1}\n{"id":-1}\n', ["line 2, byte 7: an id must be"]),
        ("text.json", "id,a\n1,2\n", ["line 1, byte 1", "facetd load also reads CSV"]),
        ("none.csv", "", ["is empty; its first line must name the columns"]),
    ],
)
def test_a_refused_load_leaves_no_index_and_is_told_once(
    service: Service, client: Client, tmp_path: Path, name: str, content: str, messages: list[str]
) -> None:
    file = tmp_path / name
    file.write_text(content)
    before = _indexes(client)
    result = _run(service, "load", str(file), "--index", "refused")
    assert result.exit_code == 1
    assert result.stdout == ""
    for message in messages:
        assert result.stderr.count(message) == 1, result.stderr
    assert _indexes(client) == before


def test_a_refusal_of_the_service_names_the_line_of_the_table(
    service: Service, client: Client, tmp_path: Path
) -> None:
    long = "x" * 300
    file = tmp_path / "long.csv"
    file.write_text(f'id,a\n1,"two\nlines"\n{long},2\n')
    result = _run(service, "load", str(file))
    assert result.exit_code == 1
    assert "line 4: an id must be" in result.stderr
    skipped = _run(service, "load", str(file), "--skip-bad")
    answer = json.loads(skipped.stdout)
    assert (answer["created"], answer["rejected"]) == (1, 1)
    assert answer["errors"][0]["place"] == "line 4"


def test_bad_rows_are_left_out_on_request_and_counted(
    service: Service, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "some.csv"
    file.write_text("id,a\n1,2\n2\n3,4\n")
    result = _run(service, "load", str(file), "--skip-bad")
    answer = json.loads(result.stdout)
    assert (answer["created"], answer["rejected"]) == (2, 1)
    assert "line 3" in result.stderr


def test_a_dry_run_needs_no_service(tmp_path: Path) -> None:
    file = tmp_path / "books.csv"
    file.write_text(BOOKS)
    result = CliRunner().invoke(main, ["load", str(file), "--dry-run", "--port", "1"])
    assert result.exit_code == 0
    assert "20 rows, 3 columns" in result.stderr


def test_a_wide_table_is_shown_in_part(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(source_remarks.COLUMNS_SHOWN + 50)]
    file = tmp_path / "wide.csv"
    file.write_text(f"{','.join(names)}\n{','.join('1' for _ in names)}\n")

    result = CliRunner().invoke(main, ["load", str(file), "--dry-run", "--port", "1"])

    assert result.exit_code == 0
    assert "… and 50 columns more" in result.stderr
    assert "c149" not in result.stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "--decimal , reads price as numbers, such as 1.299,00\n"),
        (["--type", "price=number"], "'1.299,00' is no number; --decimal , reads decimal commas"),
        (["--decimal", ","], "price   number"),
        (["--decimal", ";"], "'.', ','"),
    ],
)
def test_decimal_commas_are_named(tmp_path: Path, more: list[str], said: str) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("id;price;size\n1;1.299,00;1,000\n2;7;2,000\n")

    result = CliRunner().invoke(main, ["load", str(file), "--dry-run", "--port", "1", *more])

    assert said in result.output


@pytest.mark.parametrize(
    ("cells", "advice"),
    [
        (["31.12.2024", "1.2.2024"], "--type released=dmy reads them as dates"),
        (["12/31/2024", ""], "--type released=mdy reads them as dates"),
        (["1-2-2024", "3-4-2024"], "--type released=dmy (day first) or released=mdy"),
        (["31.12.2024", "12.31.2024"], "write them as 2024-12-31"),
        (["3 May 2021", "May 3, 2021"], "write them as 2024-12-31"),
        (["31.12.2024", "unknown"], None),
        (["2024-12-31", "2024-01-01"], None),
        (["1.2.3", "12 of 2024"], None),
        (["12 Monkeys 1995", "3 Idiots 2009"], None),
        (["", ""], None),
    ],
)
def test_dates_that_stay_text_are_named(
    tmp_path: Path, cells: list[str], advice: str | None
) -> None:
    file = tmp_path / "films.csv"
    file.write_text("id;released\n" + "".join(f'{i};"{one}"\n' for i, one in enumerate(cells)))

    result = CliRunner().invoke(main, ["load", str(file), "--dry-run", "--port", "1"])

    said = f"released: dates such as {cells[0]} stay text; {advice}"
    assert (said in result.stderr) == (advice is not None)


@pytest.mark.parametrize(
    ("order", "cells", "dates"),
    [
        ("dmy", ["31.12.2024", " 1.2.2024", ""], ["2024-12-31", "2024-02-01"]),
        ("mdy", ["12/31/2024", "1-2-2024", ""], ["2024-12-31", "2024-01-02"]),
    ],
)
def test_dates_are_read_in_the_order_that_is_said(
    tmp_path: Path, order: str, cells: list[str], dates: list[str]
) -> None:
    file = tmp_path / "films.csv"
    file.write_text("id;released\n" + "".join(f'{i};"{one}"\n' for i, one in enumerate(cells)))
    source = formats.read(str(file), ReadOptions(kinds={"released": order}))
    items = [json.loads(line) for line in b"".join(source.pieces()).splitlines()]
    assert [item["released"] for item in items if "released" in item] == dates


def test_what_is_no_date_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "films.csv"
    file.write_text("id,released\n1,31/12/2024\n2,12/31/2024\n3,2024\n")
    options = ["--type", "released=dmy", "--dry-run", "--port", "1"]
    result = CliRunner().invoke(main, ["load", str(file), *options])
    assert result.exit_code != 0
    assert "line 3: '12/31/2024' is no date such as 31.12.2024" in result.stderr
    assert "line 4: '2024' is no date such as 31.12.2024" in result.stderr


@pytest.mark.parametrize(("rows", "is_said"), [("", True), ("1,Sea\n", False)])
def test_a_table_without_rows_is_named(tmp_path: Path, rows: str, is_said: bool) -> None:
    file = tmp_path / "books.csv"
    file.write_text(f"id,name\n{rows}")
    result = CliRunner().invoke(main, ["load", str(file), "--dry-run", "--port", "1"])
    assert ("books.csv names columns but has no rows" in result.stderr) == is_said


def test_rows_of_a_query(service: Service, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE product (id INTEGER, name TEXT)")
    connection.executemany("INSERT INTO product VALUES (?, ?)", [(i, f"n{i}") for i in range(50)])
    connection.commit()
    connection.close()
    query = "SELECT name AS sku, id AS n FROM product WHERE id < 7"
    arguments = ("--index", "shop", "--query", query, "--id-field", "sku")
    assert json.loads(_run(service, "load", str(path), *arguments).stdout)["created"] == 7
    assert client.request("GET", "/shop/items/n3") == {"sku": "n3", "n": 3, "id": "n3"}


@pytest.mark.parametrize(("status", "expected"), [(404, False), (403, True), (503, None)])
def test_whether_there_is_an_index(
    monkeypatch: pytest.MonkeyPatch, status: int, expected: bool | None
) -> None:
    """A key that may only write may load into an index that is there."""
    client = Client("http://127.0.0.1:1")

    def refuse(*_: object) -> Any:
        raise ClientError("no", status=status)

    monkeypatch.setattr(client, "request", refuse)
    if expected is None:
        with pytest.raises(ClientError):
            indexes.exists(client, "films")
    else:
        assert indexes.exists(client, "films") is expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-"], "name the --index to load into"),
        (["postgres://localhost/shop"], "say which rows to load: --table NAME"),
        (["postgres://localhost/shop", "--query", "SELECT 1"], "name the --index to load into"),
        (["http://[::1/x.csv"], "is no address"),
        (["x.csv", "--type", "a"], "'a' is not FIELD=KIND"),
        (["x.csv", "--delimiter", "ab"], "one character"),
        (["x.csv", "--format", "xls"], "'csv', 'tsv'"),
        (["x.csv", "--port", "x"], "port must be an integer"),
    ],
)
def test_wrong_use(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["load", *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_the_bar_is_over_what_is_durable(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While items are sent nothing is stored, and the bar is empty."""
    seen: list[dict[str, Any]] = []

    def pieces() -> Iterator[bytes]:
        for start in range(0, 400, 100):
            yield b"".join(b'{"id":%d}\n' % i for i in range(start, start + 100)) + b" " * 2**20
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                loads = client.request("GET", "/_loads")["loads"]
                if loads and loads[0]["items_read"] >= start:
                    seen.extend(loads)
                    break

    client.configure("bar", {})
    client.load("bar", pieces(), request_id="load-x")
    assert {one["id"] for one in seen} == {"load-x"}
    assert all(one["state"] == "receiving" and one["items_stored"] == 0 for one in seen)
    received = [one["bytes_received"] for one in seen]
    assert received == sorted(received)
    assert client.request("GET", "/_loads") == {"loads": []}


def test_on_a_terminal_one_key_configures(service: Service, client: Client, tmp_path: Path) -> None:
    file = tmp_path / "terminal.csv"
    file.write_text(BOOKS)
    main_end, other_end = pty.openpty()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "coordinator", "load", str(file)),
            *("--url", f"http://127.0.0.1:{service.port}"),
        ],
        cwd=ROOT,
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        close_fds=True,
    )
    os.close(other_end)
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([main_end], [], [], 0.5)
        if not ready:
            if b"[Y/n]" in shown:  # what is typed before the terminal is raw is thrown away
                os.write(main_end, b"y")
            continue
        try:
            piece = os.read(main_end, 65_536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(main_end)
    try:
        assert process.wait(30) == 0, shown
    finally:
        process.kill()
        process.wait()
    text = click.unstyle(shown.decode())
    assert "terminal: 20 created" in text
    assert "20/20" in text
    assert "stored" in text
    assert "genre" in client.request("GET", "/terminal/configuration")["aggregations"]
