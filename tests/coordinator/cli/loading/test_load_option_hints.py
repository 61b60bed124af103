"""The options that `facetd load` names before it loads: for lists, dates, decimal commas, ids."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator.cli.commands import main
from coordinator.cli.sources import format_dispatch
from coordinator.cli.sources.source import ReadOptions
from coordinator.command_line_client import Client
from tests.coordinator.cli.loads import run
from tests.service import Service


def test_one_object_around_an_array_is_mentioned(
    service: Service, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "wrapped.json"
    file.write_text('{"total": 2, "products": [{"id": 1}, {"id": 2}]}')
    result = run(service, "load", str(file))
    assert result.exit_code == 0, result.output
    said = "one item; --items products loads the objects in its 'products' instead"
    assert f"{said} (after facetd delete wrapped)\n" in result.stderr
    assert f"{said}\n" in run(service, "load", str(file)).stderr  # the index has had items before
    assert f"{said}\n" in run(service, "load", str(file), "--dry-run").stderr
    result = run(service, "load", str(file), "--items", "products", "--index", "inner-products")
    assert json.loads(result.stdout)["created"] == 2
    client.request("DELETE", "/inner-products")
    file.write_text('{"id": 1, "sizes": [{"n": 1}]}\n{"id": 2, "sizes": [{"n": 1}]}\n')
    assert "one item" not in run(service, "load", str(file)).stderr
    client.request("DELETE", "/wrapped")


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["red|oak", "oak", "red|pine|oak", "pine|red"], "--split 'tags=|' reads tags as lists"),
        (["red; oak", "oak; red", "oak"], "--split 'tags=;' reads tags as lists, of red, oak"),
        (["Call me; Ishmael", "It was; the best", "of times"], None),
        (["a" * 61 + "|b"] * 4, None),
        (["1", "2"], None),
        (["Tom &amp; Ann", "Tom &amp; Ann", "Tom &amp; Eve"], None),
    ],
)
def test_cells_that_are_lists_are_named(
    service: Service, tmp_path: Path, cells: list[str], said: str | None
) -> None:
    file = tmp_path / "listed.csv"
    file.write_text("name,tags\n" + "".join(f"x{i},{cell}\n" for i, cell in enumerate(cells)))
    shown = run(service, "load", str(file), "--dry-run").stderr
    assert said in shown if said else "--split" not in shown
    assert "--split" not in run(service, "load", str(file), "--dry-run", "--split", "tags=|").stderr


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.ndjson", '{"_id": "1", "_source": {"a": 1}}', "facetd import elasticsearch"),
        ("a.ndjson", '{"index": {"_id": "1"}}\n{"a": 1}', "is a _bulk body of Elasticsearch"),
        ("a.json", '[{"isbn": "1", "title": "Sea"}]', "for example --id-field isbn"),
        ("a.csv", "title,isbn13\nSea,1\n", "for example --id-field isbn13"),
        ("a.json", '[{"_id": {"$oid": "5f"}}]', "for example --id-field '_id.$oid'"),
        ("a.csv", "Artikel-Nr.,name\n1,Sea\n", "for example --id-field Artikel-Nr.\n"),
        ("a.csv", "name,Product ID\nSea,1\n", "for example --id-field 'Product ID'\n"),
        ("a.json", '[{"productId": 7, "paid": 1}]', "for example --id-field productId\n"),
        (
            "a.csv",
            "title,year,paid,valid\nSea,1,2,3\n",
            "--id-field names the field of their ids\n",
        ),
        ("a.csv", "ID,isbn\n1,1\n", None),
        ("a.json", '[{"id": 1, "isbn": "1"}]', None),
    ],
)
def test_what_a_load_would_make_is_said_before(
    service: Service, tmp_path: Path, name: str, content: str, said: str | None
) -> None:
    file = tmp_path / name
    file.write_text(content)
    shown = run(service, "load", str(file), "--dry-run").stderr
    assert said in shown if said else "no id" not in shown
    assert ("its first item {" in shown) == (not name.endswith(".csv"))
    named = run(service, "load", str(file), "--dry-run", "--id-field", "isbn").stderr
    assert "no id" not in named


def test_options_are_named_as_a_shell_takes_them(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("on sale,net price\n31.12.2024,$5\n30.12.2024,$6\n")
    said = CliRunner().invoke(main, ["load", str(file), "--dry-run"]).stderr
    assert "--type 'on sale=dmy' reads them as dates" in said
    assert "--type 'net price=number' reads net price as numbers of $" in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "--decimal , reads price as numbers, such as 1.299,00\n"),
        (["--type", "price=number"], "'1.299,00' is not of type number; --decimal , reads"),
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
        (["1-2-2024", "3-4-2024"], "--type released=dmy (day first) or --type released=mdy"),
        (["31.12.2024", "12.31.2024"], "write them as 2024-12-31"),
        (["3 May 2021", "May 3, 2021"], "write them as 2024-12-31"),
        (["31.12.2024", "unknown"], None),
        (["31.12.2024 14:05", "1.2.2024, 9:05:30"], "--type released=dmy reads them as dates"),
        (["12/31/2024 2:05 PM"], "--type released=mdy reads them as dates"),
        (["2024/12/31", "2024-1-1"], "--type released=ymd reads them as dates"),
        (["2024-12-31", "2024-01-01"], None),
        (["2024-12-31 14:05", "2024-01-01T09:05:30+01:00"], None),
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


def test_what_stands_for_no_value_is_named(tmp_path: Path) -> None:
    file = tmp_path / "films.csv"
    file.write_text("id,year,votes\n1,1999,\\N\n2,NA,7\n")
    arguments = ["load", str(file), "--dry-run", "--port", "1"]

    said = CliRunner().invoke(main, arguments).stderr
    assert "year, votes: text because of cells such as NA; --null NA --null '\\N' reads" in said
    better = CliRunner().invoke(main, [*arguments, "--null", "NA", "--null", "\\N"]).stderr
    assert better.count("integer") == 3
    assert "--null" not in better


def test_groups_of_thousands_are_named_beside_decimal_commas(tmp_path: Path) -> None:
    """1.200 was read as 1.2, without a word, where 12,50 was named."""
    file = tmp_path / "stock.csv"
    file.write_text("id;price;stock;weight;rate\n1;12,50;1.200;1.5;1,5\n2;7,00;12;1.200;2.000\n")
    arguments = ["load", str(file), "--dry-run", "--port", "1"]

    said = CliRunner().invoke(main, arguments).stderr
    assert (
        "--decimal , reads price, stock, rate as numbers, such as 12,50, and 1.200 as 1200" in said
    )
    chosen = CliRunner().invoke(main, [*arguments, "--type", "stock=number"]).stderr
    assert "--decimal , reads price, rate as numbers, such as 12,50\n" in chosen
    file.write_text("id;stock\n1;1.200\n2;12\n")
    assert "--decimal" not in CliRunner().invoke(main, arguments).stderr


def test_few_texts_beside_numbers_are_named(tmp_path: Path) -> None:
    file = tmp_path / "goods.csv"
    cells = [*("12,50",) * 19, "auf Anfrage"]
    file.write_text("id;price\n" + "".join(f"{n};{cell}\n" for n, cell in enumerate(cells)))
    arguments = ["load", str(file), "--dry-run", "--port", "1"]

    said = CliRunner().invoke(main, arguments).stderr
    assert "price: text because of cells such as auf Anfrage; --null 'auf Anfrage' reads" in said
    better = CliRunner().invoke(main, [*arguments, "--null", "auf Anfrage"]).stderr
    assert "--decimal , reads price as numbers" in better
    assert "--null" not in better


def test_columns_of_several_orders_of_dates_are_named_apart(tmp_path: Path) -> None:
    file = tmp_path / "films.csv"
    file.write_text("id,a,b,c\n1,31.1.2024,1/31/2024,30.1.2024\n2,1.2.2024,2/1/2024,\n")

    result = CliRunner().invoke(main, ["load", str(file), "--dry-run", "--port", "1"])

    assert "a, c: dates such as 31.1.2024 stay text; --type a=dmy reads" in result.stderr
    assert "b: dates such as 1/31/2024 stay text; --type b=mdy reads" in result.stderr


@pytest.mark.parametrize(
    ("content", "is_said"),
    [
        ("Report of 2024,,\n,,\nid,name,year\n1,a,1999\n", True),
        ("# made by a program\nid,name\n1,a\n", True),
        ("id,name\n1,a,b\n", False),
        ("id,name\n1,a\n2,b,c\n3,d,e\n", False),
    ],
)
def test_a_title_above_the_header_is_noticed(tmp_path: Path, content: str, is_said: bool) -> None:
    file = tmp_path / "films.csv"
    file.write_text(content)

    result = CliRunner().invoke(main, ["load", str(file), "--dry-run", "--port", "1"])

    assert ("if the columns are named in a later line" in result.stderr) is is_said


@pytest.mark.parametrize(
    ("order", "cells", "dates"),
    [
        ("dmy", ["31.12.2024", " 1.2.2024", ""], ["2024-12-31", "2024-02-01"]),
        ("mdy", ["12/31/2024", "1-2-2024", ""], ["2024-12-31", "2024-01-02"]),
        ("ymd", ["2024/12/31", "2024.1.2"], ["2024-12-31", "2024-01-02"]),
        (
            "dmy",
            ["31.12.2024 14:05", "1.2.2024, 9:05:30"],
            ["2024-12-31T14:05", "2024-02-01T09:05:30"],
        ),
        (
            "mdy",
            ["12/31/2024 2:05 PM", "1/2/2024 12:00 a.m."],
            ["2024-12-31T14:05", "2024-01-02T00:00"],
        ),
        ("dmy", ["1.2.2024", "2024-12-31", "2024/1/2"], ["2024-02-01", "2024-12-31", "2024-01-02"]),
    ],
)
def test_dates_are_read_in_the_order_that_is_said(
    tmp_path: Path, order: str, cells: list[str], dates: list[str]
) -> None:
    file = tmp_path / "films.csv"
    file.write_text("id;released\n" + "".join(f'{i};"{one}"\n' for i, one in enumerate(cells)))
    source = format_dispatch.read(str(file), ReadOptions(kinds={"released": order}))
    items = [json.loads(line) for line in b"".join(source.pieces()).splitlines()]
    assert [item["released"] for item in items if "released" in item] == dates


def test_what_is_no_date_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "films.csv"
    file.write_text("id,released\n1,31/12/2024\n2,12/31/2024\n3,2024\n")
    options = ["--type", "released=dmy", "--dry-run", "--port", "1"]
    result = CliRunner().invoke(main, ["load", str(file), *options])
    assert result.exit_code != 0
    assert "line 3: '12/31/2024' is not a date such as 31.12.2024" in result.stderr
    assert "line 4: '2024' is not a date such as 31.12.2024" in result.stderr


def test_rows_that_only_a_wrong_kind_refuses_do_not_blame_the_header(tmp_path: Path) -> None:
    file = tmp_path / "films.csv"
    file.write_text("id,name\n1,Sea\n2,Sky\n")
    options = ["--type", "name=integer", "--dry-run", "--port", "1"]
    result = CliRunner().invoke(main, ["load", str(file), *options])
    assert "'Sea'" in result.stderr
    assert "no row fits the first line" not in result.stderr


@pytest.mark.parametrize(("rows", "is_said"), [("", True), ("1,Sea\n", False)])
def test_a_table_without_rows_is_named(tmp_path: Path, rows: str, is_said: bool) -> None:
    file = tmp_path / "books.csv"
    file.write_text(f"id,name\n{rows}")
    result = CliRunner().invoke(main, ["load", str(file), "--dry-run", "--port", "1"])
    assert ("books.csv names columns but has no rows" in result.stderr) == is_said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty; items are a JSON array, JSON objects one a line"),
        ("\n \n\n", "is empty; items are a JSON array, JSON objects one a line"),
        (" [\n] ", "is an array without items"),
        ('{"id": 1}', None),
    ],
)
def test_json_without_items_is_named(
    client: Client, service: Service, tmp_path: Path, text: str, said: str | None
) -> None:
    file = tmp_path / "books.json"
    file.write_text(text)
    port = ("--port", str(service.port))
    for source, stdin in ((str(file), ""), ("-", text)):
        for more in (["--dry-run"], [], ["--update"]):
            arguments = ["load", source, "--index", "books", *more, *port]
            result = CliRunner().invoke(main, arguments, input=stdin)
            assert result.exit_code == 0, result.output
            found = [
                line for line in result.stderr.splitlines() if "is empty" in line or "array" in line
            ]
            assert len(found) == (said is not None), result.stderr
            assert said is None or f"{'stdin' if source == '-' else source} {said}" in found[0]
    client.request("DELETE", "/books")
