"""The page reads files, in real Chromium, as `facetd load` reads them."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.loading.proposed_geo_point import offer_geo_point
from coordinator.cli.sources import format_dispatch
from coordinator.cli.sources.geo_points import coordinate_fields, hold_degrees
from coordinator.cli.sources.source import BAD_ROWS_SHOWN, ReadOptions, Source, SourceError
from tests.dashboard.conftest import Tab, drop_file

FILES: dict[str, bytes] = {
    "kinds.csv": b"a,b,c,d,e\n1,1.5,true,007,[1]\n-2,2e3,False,1,{}\n,,,,\n",
    "numbers.csv": b"a,b\n7,1\n1.5,-0\n",
    "big.csv": b"id,n\n9223372036854775807,18446744073709551615\n1,-9223372036854775808\n",
    "too-big.csv": b"id,n\n9223372036854775808,18446744073709551616\n",
    "rounded.csv": b"a,b,c\n9007199254740993,123456789012345678901,9007199254740992\n1.5,1,0.5\n",
    "prices.csv": "id,a,b\n1,€10.00,$1\n2,€7,€1\n".encode(),
    "quotes.csv": b'a,b\n"x ""y"", z",q"r\n"two\r\nlines","\n"\n',
    "returns.csv": b"a,b\r1,2\r\r3,4\r",
    "blank.csv": b"\n\na,b\n\n1,2\n   \n",
    "semicolon.csv": b'id;name;tags\n1;Sea;a|b\n2;"Land; dry";\n',
    "separator.csv": b"sep=;\r\nid;a,b\r\n1;x,y\r\n2\r\n",
    "separator-marked.csv": b'\xef\xbb\xbf"sep=|"\nid|a;b\n1|x;y\n',
    "pipes.csv": b"id|name\n1|Sea\n2|Land\n",
    "tabs.tsv": b"id\tname\n1\ta,b\n2\t\n",
    "untitled": b"id\tname\n1\ta,b\n",
    "bom.csv": b"\xef\xbb\xbfid,name\n1,\xc3\xa9\n",
    "wide.csv": "ID,näme\n1,é😀\n".encode("utf-16"),
    "bad.csv": b"id,name\n1,a\n2\n,c\n3,d,e\n4,f\n",
    "marked.csv": b"id,a,,\n1,x,,\n,,,\n2,y\n  ,\n3,z,,,\n4,z,,q\n",
    "nulls.csv": b"id,a,b\n1,NA,1.5\n2,7,-\n3,,x\n",
    "wide-le.csv": "ID;name\n1;B\u00fccher\n".encode("utf-16-le"),
    "wide-be.csv": "ID;name\n1;B\u00fccher\n".encode("utf-16-be"),
    "json.csv": b'a\n"[1,\n2]"\n"{""x"": 1.0}"\n',
    "spaces.csv": b"id,n,t\n 1 , 2 , three \n",
    "latin.csv": "id,name\n1,é\n".encode("latin-1"),
    "open.csv": b'id,name\n1,"never\nends\n',
    "after.csv": b'id,name\n1,"a"b\n',
    "twice.csv": b"a,a\n1,2\n",
    "thrice.csv": b"ID,a, a_2,a,,a \n1,2,3,4,,6\n",
    "ids.csv": b",id,row,id\n1,2,3,4\n",
    "nameless.csv": b"a,,b\n1,2,3\n",
    "spacer.csv": b"id,,name, ,x,\n1,,a,,3,\n2, ,b\n3,4\n,,c,,,\n5,,e,,7,,\n",
    "numbered.csv": b",a\n0,x\n1,y\n",
    "numbered-row.csv": b",row\n0,x\n",
    "empty.csv": b"",
    "one column.txt": b"name\na\n",
    "items.yaml": b"- id: 1\n  name: a\n",
    "table.export": b"id;name\n1;a\n",
    "packed.csv.gz": gzip.compress(b"id,name\n1,a\n"),
    "packed.csv": gzip.compress(b"id,name\n1,a\n"),
    "packed": gzip.compress(b"id\tname\n1\ta\n"),
    "returns-semicolon.csv": b"a;b\r1;2\r3;4\r",
    "page.csv": b"\n<!DOCTYPE html>\n<html>\n<p>a,b</p>\n",
    "feed.csv": b'\xef\xbb\xbf<?xml version="1.0"?>\n<a>\n</a>\n',
    "paper.csv": b"%PDF-1.7\na\nb\n",
    "plain.csv.gz": b"id,name\n1,a\n",
    "long.csv": b"id,text\n" + b"".join(b'%d,"%s\n"\n' % (n, b"word " * 40) for n in range(900)),
}

READ = """async ({ name, body, kinds = {}, makesPlaces = false, options = {} }) => {
    const { makeBody, readSource } = await import("/dashboard/assets/sources/file.js");
    const bytes = Uint8Array.from(atob(body), (character) => character.charCodeAt(0));
    try {
      const source = await readSource(new File([bytes], name), options);
      for (const column of source.columns) column.kind = kinds[column.name] ?? column.kind;
      if (makesPlaces) (source.table ?? source.json).makesPlaces = true;
      const made = await makeBody(source);
      const text = await made.body.text();
      return { text, lines: made.lines, bad: made.bad.map((row) => row.line) };
    } catch (error) {
      return { error: error.message, name: error.name };
    }
}"""

_ROWS = b"id,a\n" + b"".join(b"%d,x\n" % n for n in range(100_000))
CUT_OFF = gzip.compress(_ROWS, mtime=0)[:-2_000]  # all workers name the test alike


def read_by_command_line(source: Source) -> dict[str, Any]:
    text = b"".join(source.pieces()).decode()
    items = text.count("\n")
    return {
        "items": [json.loads(line) for line in text.splitlines()],
        "lines": [int(source.place_of(n + 1).removeprefix("line ")) for n in range(items)],
        "bad": [int(row.place.removeprefix("line ")) for row in source.bad_rows],
    }


def test_the_page_reads_csv_as_the_command_line_does(modules: Any, tmp_path: Path) -> None:
    for name, body in FILES.items():
        argument = {"name": name, "body": base64.b64encode(body).decode()}
        found = modules.evaluate(READ, argument)
        path = tmp_path / name
        path.write_bytes(body)
        try:
            expected = read_by_command_line(format_dispatch.read(str(path), ReadOptions()))
        except SourceError:
            assert found.get("name") == "SourceError", name
            continue
        assert "error" not in found, (name, found)
        found["items"] = [json.loads(line) for line in found.pop("text").splitlines()]
        assert found == expected, name
        kinds = [[type(value) for value in item.values()] for item in found["items"]]
        assert kinds == [[type(value) for value in item.values()] for item in expected["items"]]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("rows.csv", "7,Alien\n8,Dune\n9\n", {"hasHeader": False}),
        ("twice.csv", "a,a\nb,b\n", {"hasHeader": False}),
        ("quotes.tsv", 'a\tb\n"The Thing" again\t1\n"\t2\n', {"hasQuotes": False}),
        ("nulls.csv", "a,b\nNA,x\n 7 , - \n\\N,-\n", {"nulls": ["NA", "-"]}),
        ("quotes.csv", '"x;1\n"y,";2\n', {"hasQuotes": False, "hasHeader": False}),
    ],
)
def test_the_page_reads_tables_without_header_or_quotes_as_the_command_line_does(
    modules: Any, tmp_path: Path, name: str, content: str, options: dict[str, Any]
) -> None:
    path = tmp_path / name
    path.write_text(content)
    reading = ReadOptions(
        has_header=options.get("hasHeader", True),
        has_quotes=options.get("hasQuotes", True),
        null_texts=tuple(options.get("nulls", ())),
    )
    expected = read_by_command_line(format_dispatch.read(str(path), reading))
    body = base64.b64encode(content.encode()).decode()
    found = modules.evaluate(READ, {"name": name, "body": body, "options": options})
    found["items"] = [json.loads(line) for line in found.pop("text").splitlines()]
    assert found == expected
    assert len(expected["items"]) >= 2


@pytest.mark.parametrize("name", ["items.csv", "items.csv.gz"])
def test_both_readings_of_a_file_tell_how_far_they_are(modules: Any, name: str) -> None:
    body = b"id,a\n" + b"".join(b"%d,%d\n" % (n, n * n * 7919 % 999_983) for n in range(200_000))
    shares = modules.evaluate(
        """async ({ name, body }) => {
            const { makeBody, readSource } = await import("/dashboard/assets/sources/file.js");
            const bytes = Uint8Array.from(atob(body), (character) => character.charCodeAt(0));
            const shares = [[], []];
            let pass = 0;
            const onRead = (share) => shares[pass].push(share);
            const source = await readSource(new File([bytes], name), {}, onRead);
            pass = 1;
            await makeBody(source);
            return shares;
        }""",
        {
            "name": name,
            "body": base64.b64encode(gzip.compress(body) if name.endswith("gz") else body).decode(),
        },
    )
    for pass_ in shares:
        assert pass_ == sorted(pass_)
        assert pass_[-1] == 1


DATES = """id,a
1,31.12.2024
2,1/3/2024
3, 29-2-2024
4,29.2.2023
5,29.2.1900
6,29/02/2000
7,0.1.2024
8,1.0.2024
9,13.13.2024
10,31.4.2024
11,1.1.0000
12,1.1.24
13,1.1-2024
14,12/31/2024
15,
16,١.1.2024
17,3 May 2021
18,001.1.2024
19,31.12.2024 14:05
20,"12/31/2024, 2:05:09 PM"
21,1.2.2024 12:00 a.m.
22,1.2.2024 13:00 pm
23,1.2.2024 24:00
24,1.2.2024 9:60
25,1.2.2024T9:5
26,2024/12/31
27,2024-2-3 0:00
28,2024-12-31
29,2024/13/1
30,1.2.2024  9:05
31,1.2.2024 9:05:61
"""


@pytest.mark.parametrize("order", ["dmy", "mdy", "ymd"])
def test_the_page_reads_dates_as_the_command_line_does(
    modules: Any, tmp_path: Path, order: str
) -> None:
    path = tmp_path / "dates.csv"
    path.write_text(DATES)
    expected = read_by_command_line(
        format_dispatch.read(str(path), ReadOptions(kinds={"a": order}))
    )
    body = base64.b64encode(DATES.encode()).decode()
    found = modules.evaluate(READ, {"name": path.name, "body": body, "kinds": {"a": order}})
    found["items"] = [json.loads(line) for line in found.pop("text").splitlines()]
    found["bad"] = found["bad"][:BAD_ROWS_SHOWN]
    assert found == expected
    assert len(found["items"]) >= 3


def test_the_page_finds_notations_of_dates_as_the_command_line_does(
    modules: Any, tmp_path: Path
) -> None:
    columns = {
        "day": ["31.12.2024", "1.1.2024"],
        "month": ["12/31/2024", "1/1/2024"],
        "either": ["1/2/2024", "3/4/2024"],
        "neither": ["31/12/2024", "12/31/2024"],
        "named": ["3 May 2021", "3. Sept. 1999"],
        "english": ["May 3, 2021", "march 13, 2021"],
        "mixed": ["3 May 2021", "3.5.2021"],
        "timed": ["31.12.2024 14:05", "1.1.2024, 9:05:01"],
        "halves": ["12/31/2024 2:05 PM", "1/1/2024 12:00 am"],
        "year": ["2024/12/31", "2024/1/1 10:00"],
        "unpadded": ["2024-12-31", "2024-1-1"],
        "iso": ["2024-12-31", "2024-12-31T14:05:00Z"],
        "spaced": ["2024-12-31 14:05", "2024-12-31 14:05:30"],
        "first": ["2024-12-31", "31.12.2024"],
        "word": ["31.12.2024", "soon"],
        "number": ["1", "2"],
        "short": ["3.5.21", "4.5.21"],
    }
    rows = [",".join(f'"{cell}"' for cell in row) for row in zip(*columns.values(), strict=True)]
    text = "\n".join([",".join(columns), *rows, ""])
    path = tmp_path / "notations.csv"
    path.write_text(text)
    expected = {
        one.name: [one.has_other_dates, list(one.date_orders) if one.has_other_dates else []]
        for one in format_dispatch.read(str(path), ReadOptions()).columns
    }
    found = modules.evaluate(
        """async (text) => {
            const { readSource } = await import("/dashboard/assets/sources/file.js");
            const { columns } = await readSource(new File([text], "notations.csv"));
            return Object.fromEntries(columns.map(({ name, hasOtherDates, dateOrders }) =>
                [name, [hasOtherDates, hasOtherDates ? dateOrders : []]]));
        }""",
        text,
    )
    assert found == expected
    named = [name for name, (is_date, _) in found.items() if is_date]
    assert named == [*columns][:10]
    assert found["timed"][1] == ["dmy"]
    assert found["halves"][1] == ["mdy"]
    assert found["year"][1] == ["ymd"]


def test_the_page_finds_what_stands_for_no_value_as_the_command_line_does(
    modules: Any, tmp_path: Path
) -> None:
    numbers = [str(n) for n in range(40)]
    columns = {
        "request": ["on request", *numbers[1:]],
        "three": ["a", "b", *numbers[2:-1], "c"],
        "four": ["a", "b", "c", *numbers[3:-1], "d"],
        "often": ["none"] * 5 + numbers[5:],
        "price": ["1,50 €"] * 39 + ["auf Anfrage"],
        "date": ["1.2.2024"] * 39 + ["?"],
        "both": ["NA", *numbers[2:], "tbd"],
        "list": ["[1]"] * 39 + ["[]"],
        "code": [f"A{n}" for n in numbers[1:]] + ["none"],
        "flag": ["true", "false"] * 20,
        "words": ["red|oak", "oak"] * 20,
    }
    rows = [";".join(row) for row in zip(*columns.values(), strict=True)]
    text = "\n".join([";".join(columns), *rows, ""])
    path = tmp_path / "odd.csv"
    path.write_text(text)
    expected = {
        one.name: [one.kind, list(one.null_texts), one.separator, one.example]
        for one in format_dispatch.read(str(path), ReadOptions()).columns
    }
    found = modules.evaluate(
        """async (text) => {
            const { readSource } = await import("/dashboard/assets/sources/file.js");
            const { columns } = await readSource(new File([text], "odd.csv"));
            return Object.fromEntries(columns.map(({ name, kind, nullTexts, separator, example }) =>
                [name, [kind, nullTexts, separator, example]]));
        }""",
        text,
    )
    assert found == expected
    assert {name: nulls for name, (_, nulls, _, _) in found.items() if nulls} == {
        "request": ["on request"],
        "three": ["a", "b", "c"],
        "price": ["auf Anfrage"],
        "date": ["?"],
        "both": ["NA", "tbd"],
    }
    kinds = {name: kind for name, (kind, _, _, _) in found.items() if kind != "text"}
    assert kinds == {"list": "json", "flag": "boolean"}
    assert found["words"][2] == "|"


def test_the_page_finds_lists_as_the_command_line_does(modules: Any, tmp_path: Path) -> None:
    columns = {
        "bars": ["red|oak", "oak", "red|pine|oak", "pine|red"],
        "points": ["red; oak", "oak; red", "oak", ""],
        "text": ["Call me; Ishmael", "It was; the best", "of times", "it"],
        "long": ["a" * 61 + "|b"] * 4,
        "just": ["😀" * 60 + "|b"] * 4,
        "alone": ["red|oak", "oak", "red", "pine"],
        "pair": ["red|oak", "pine", "red", "elm"],
        "entities": ["a &amp; b", "a &amp; c", "a &amp; b", "a &amp; c"],
        "numbers": ["1", "2", "3", "4"],
    }
    rows = [",".join(row) for row in zip(*columns.values(), strict=True)]
    text = "\n".join([",".join(columns), *rows, ""])
    path = tmp_path / "lists.csv"
    path.write_text(text)
    expected = {
        one.name: one.separator for one in format_dispatch.read(str(path), ReadOptions()).columns
    }
    found = modules.evaluate(
        """async (text) => {
            const { readSource } = await import("/dashboard/assets/sources/file.js");
            const { columns } = await readSource(new File([text], "lists.csv"));
            return Object.fromEntries(columns.map(({ name, separator }) => [name, separator]));
        }""",
        text,
    )
    assert found == expected
    assert [*found.values()] == ["|", ";", "", "", "|", "|", "|", "", ""]


def test_the_page_makes_places_as_the_command_line_does(modules: Any, tmp_path: Path) -> None:
    text = "id,lat,lng\n1,48.2,16\n2,-7,\n3,,5\n4,-0,1e1\n5, 1.25 ,-180\n"
    path = tmp_path / "places.csv"
    path.write_text(text)
    source = format_dispatch.read(str(path), ReadOptions(point_fields=("lat", "lng")))
    expected = [json.loads(line) for line in b"".join(source.pieces()).splitlines()]
    body = base64.b64encode(text.encode()).decode()
    found = modules.evaluate(READ, {"name": path.name, "body": body, "makesPlaces": True})
    assert [json.loads(line) for line in found["text"].splitlines()] == expected
    assert sum("_geo" in item for item in expected) == 3


@pytest.mark.parametrize("makes_places", [False, True])
def test_the_page_reads_json_that_is_spread_over_lines_as_the_command_line_does(
    modules: Any, tmp_path: Path, makes_places: bool
) -> None:
    text = '{\r\n "lat": 1,\n "lon": 2, "t": "}\\n{"\r\n}\n'
    text += '{\n "id": 2\n} {"id": 3}\n{\n "id":\n}\n{}\n'
    path = tmp_path / "spread.json"
    path.write_bytes(text.encode())
    source = format_dispatch.read(str(path), ReadOptions())
    source = offer_geo_point(source, "auto" if makes_places else "none")
    body = base64.b64encode(text.encode()).decode()
    found = modules.evaluate(READ, {"name": path.name, "body": body, "makesPlaces": makes_places})
    expected = b"".join(source.pieces()).decode()
    assert re.sub(r":(-?\d+)\.0([,}])", r":\1\2", expected) == found["text"]
    assert ("_geo" in found["text"]) is makes_places


@pytest.mark.parametrize("path", ["items", "data.rows", "data.more"])
@pytest.mark.parametrize("makes_places", [False, True])
def test_the_page_finds_the_array_of_items_as_the_command_line_does(
    modules: Any, tmp_path: Path, path: str, makes_places: bool
) -> None:
    rows = ",\r\n".join(
        f'{{"id": {n}, "lat": 1, "lon": 2, "t": "]é}}{n * 7}"}}' for n in range(4000)
    )
    text = '{"took": [3, {"at": [{"x": 1}]}],\n "ite\\u006ds": [ {"n": "]}\\"["} ],\n'
    text += f'"data": {{"items": [[1]], "rows": [\n{rows}\n], "more": [{{"id": 9}}]}}, "z": [7]}}\n'
    file = tmp_path / "answer.json"
    file.write_bytes(text.encode())
    source = format_dispatch.read(str(file), ReadOptions(items_path=path))
    source = offer_geo_point(source, "auto" if makes_places else "none")
    expected = b"".join(source.pieces()).decode()
    body = base64.b64encode(text.encode()).decode()
    argument = {"name": file.name, "body": body, "options": {"itemsPath": path}}
    found = modules.evaluate(
        READ, {**argument, "makesPlaces": makes_places and path == "data.rows"}
    )
    assert json.loads(found["text"]) == json.loads(expected)
    assert found["text"].count("\n") == text.count("\n")
    arrays = modules.evaluate(
        """async (text) => {
            const { readSource } = await import("/dashboard/assets/sources/file.js");
            return (await readSource(new File([text], "answer.json"))).json.innerArrays;
        }""",
        text,
    )
    assert arrays == ["items", "data.rows", "data.more"]
    assert source.inner_arrays == arrays[:2]  # its sample is shorter


def test_the_page_makes_places_of_json_as_the_command_line_does(
    modules: Any, tmp_path: Path
) -> None:
    lines = [
        '{"id": 1, "lat": 48.2, "lon": 16, "s": "}{\\"\\\\", "n": 12345678901234567890}',
        '{"id": 2, "lat": "-7.5", "lon": " 1e1 ", "in": {"lat": 1, "lon": [{}]}}',
        '{"id": 3, "lat": "", "lon": 5}\r',
        '{"id": 4, "lat": null, "lon": 5}',
        "",
        '{"id": 5, "lat": 1}',
    ]
    # Beyond the sample: what holds no degrees, has a place already, or is not JSON.
    lines += [f'{{"id": {n}, "lat": {n % 90}.5, "lon": 1, "t": "{"é" * 60}"}}' for n in range(9000)]
    lines += ['{"id": 6, "lat": 91, "lon": 5}', '{"id": 7, "lat": 1, "lon": 5, "_geo": null}']
    lines += ['{"id": 8, "lat": 1, "lon": 5, "broken" }', '{"id": 9, "lat": 1, "lon": "west"']
    texts = {
        "places.ndjson": "\n".join(lines).encode(),
        "places.json": ("[" + ",\n".join(line for line in lines if line) + "]").encode(),
        "places.ndjson.gz": gzip.compress("\n".join(lines).encode()),
    }
    for name, body in texts.items():
        path = tmp_path / name
        path.write_bytes(body)
        source = offer_geo_point(format_dispatch.read(str(path), ReadOptions()), "auto")
        expected = b"".join(source.pieces()).decode()
        argument = {"name": name, "body": base64.b64encode(body).decode(), "makesPlaces": True}
        found = modules.evaluate(READ, argument)
        assert (found["lines"], found["bad"]) == (None, [])
        assert found["text"].count("_geo") == expected.count("_geo") == 9003
        # The same, but for the spelling of numbers.
        assert re.sub(r":(-?\d+)\.0([,}])", r":\1\2", expected) == found["text"]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ('{"at": {"lat": 48.2, "lon": "16"}}', ["at.lat", "at.lon"]),
        (
            '{"at": {"type": "Point", "coordinates": [16.4, 48.2, 170]}}',
            ["at.coordinates.1", "at.coordinates.0"],
        ),
        ('{"at": {"lat": 48, "lng": 16}}', None),  # a geo point as it is
        ('{"at": {"type": "Point", "coordinates": [16.4, 98]}}', None),
        ('{"at": {"type": "LineString", "coordinates": [[1, 2], [3, 4]]}}', None),
        ('{"at": {"lat": 1, "lon": 2}, "to": {"lat": 1, "lon": 2}}', None),
    ],
)
def test_the_page_finds_places_in_objects_as_the_command_line_does(
    modules: Any, tmp_path: Path, line: str, fields: list[str] | None
) -> None:
    lines = line + '\n{"at": null}\n{"at": [1]}\n'
    path = tmp_path / "places.ndjson"
    path.write_text(lines)
    source = format_dispatch.read(str(path), ReadOptions())
    named = coordinate_fields(source)
    found = list(named) if named and hold_degrees(source, named) else None
    read = modules.evaluate(
        """async (text) => {
            const { readSource } = await import("/dashboard/assets/sources/file.js");
            const { json } = await readSource(new File([text], "places.ndjson"));
            if (json.degreeNames === null) return [null, text];
            json.makesPlaces = true;
            return [json.degreeNames, await (await json.convert()).text()];
        }""",
        lines,
    )
    assert read[0] == found == fields
    expected = b"".join(offer_geo_point(source, "auto").pieces()).decode()
    assert re.sub(r":(-?\d+)\.0([,}])", r":\1\2", expected) == read[1]


@pytest.mark.parametrize(
    "second",
    [
        '{"id": 2, "lat": 91, "lon": 0}',
        '{"id": 2, "lat": "high", "lon": "low"}',
        '{"id": 2, "lat": true, "lon": 1}',
        '{"id": 2, "_geo": {"lat": 1, "lng": 2}}',
        '{"id": 2, "latitude": 1}',
    ],
)
def test_fields_of_json_that_hold_no_degrees_are_no_places(modules: Any, second: str) -> None:
    degrees = modules.evaluate(
        """async (text) => {
            const { readSource } = await import("/dashboard/assets/sources/file.js");
            return (await readSource(new File([text], "places.ndjson"))).json.degreeNames;
        }""",
        '{"id": 1, "lat": 48, "lon": 16}\n' + second,
    )
    assert degrees is None


def test_the_beginning_of_json_tells_its_fields(modules: Any) -> None:
    text = (
        '[\n {"id": 1, "s": "}{", "l": [1], "o": {"a": {}}},\n {"id": 2.5, "n": null, "b": true},'
    )
    columns = modules.evaluate(
        """async (text) => {
            const { readSource } = await import("/dashboard/assets/sources/file.js");
            const source = await readSource(new File([text], "things.json"));
            return source.columns.map(({ name, kind, filled }) => [name, kind, filled]);
        }""",
        text,
    )

    assert columns == [
        ["id", "number", 2],
        ["s", "text", 1],
        ["l", "list", 1],
        ["o", "object", 1],
        ["b", "boolean", 1],
    ]


def test_numbers_in_groups_are_read_on_a_click_as_by_the_command_line(
    page: Any, expect: Any, tmp_path: Path
) -> None:
    text = 'id,n\n1,"1,299.00"\n2,"12,345,678"\n3,7\n4,"-1,000"\n'
    page.goto("/dashboard")
    drop_file(page, ".page-head", "groups.csv", text)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("n has numbers in groups, such as 1,299.00.")).to_be_visible()
    dialog.get_by_role("button", name="Read as numbers").click()
    expect(dialog.get_by_label("Kind of n")).to_have_value("number 1,299.5")
    path = tmp_path / "groups.csv"
    path.write_text(text + '5,"1,2"\n')
    expected = read_by_command_line(
        format_dispatch.read(str(path), ReadOptions(kinds={"n": "number"}))
    )
    body = base64.b64encode(path.read_bytes()).decode()
    found = page.evaluate(READ, {"name": path.name, "body": body, "kinds": {"n": "number 1,299.5"}})
    found["items"] = [json.loads(line) for line in found.pop("text").splitlines()]
    assert found == expected
    assert [item["n"] for item in expected["items"]] == [1299.0, 12345678.0, 7.0, -1000.0]


@pytest.mark.parametrize(
    ("prices", "kind", "decimal", "values"),
    [
        (["€10.00", "-€1,299.50", "€ 7"], "number 1,299.5", ".", [10.0, -1299.5, 7.0]),
        (["10,00 €", "1.299,50€", "7 €"], "number 1,5", ",", [10.0, 1299.5, 7.0]),
        (["12%", "-2.5 %", "0%"], "number 1,299.5", ".", [12.0, -2.5, 0.0]),
        (["USD 1", "USD 2", "USD 3.5"], "number 1,299.5", ".", [1.0, 2.0, 3.5]),
        (["$1", "€2", "3"], "number 1,299.5", ".", [1.0, 3.0]),
    ],
)
def test_prices_are_read_on_a_click_as_by_the_command_line(
    page: Any,
    expect: Any,
    tmp_path: Path,
    prices: list[str],
    kind: str,
    decimal: str,
    values: list[float],
) -> None:
    text = "id;price\n" + "".join(f"{n};{price}\n" for n, price in enumerate(prices))
    page.goto("/dashboard")
    if len(values) == len(prices):
        drop_file(page, ".page-head", "prices.csv", text)
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_text(f", such as {prices[0]}.")).to_be_visible()
        dialog.get_by_role("button", name="Read as numbers").click()
        expect(dialog.get_by_label("Kind of price")).to_have_value(kind)
    path = tmp_path / "prices.csv"
    path.write_text(text)
    reading = ReadOptions(kinds={"price": "number"}, decimal=decimal)
    expected = read_by_command_line(format_dispatch.read(str(path), reading))
    body = base64.b64encode(path.read_bytes()).decode()
    found = page.evaluate(READ, {"name": path.name, "body": body, "kinds": {"price": kind}})
    found["items"] = [json.loads(line) for line in found.pop("text").splitlines()]
    assert found == expected
    assert [item["price"] for item in expected["items"]] == values


@pytest.mark.parametrize(
    ("cells", "kind", "decimal", "values"),
    [
        (["1\u202f299,00", "12,5", "7"], "number 1,5", ",", [1299.0, 12.5, 7.0]),
        (
            ["1'299.50", "12.5", "1\u2019234\u2019567"],
            "number 1,299.5",
            ".",
            [1299.5, 12.5, 1234567.0],
        ),
        (["1\u00a0299,00 €", "12,50\u202f€", "7 €"], "number 1,5", ",", [1299.0, 12.5, 7.0]),
    ],
)
def test_numbers_in_groups_by_spaces_and_apostrophes_are_read_on_a_click_as_by_the_command_line(
    page: Any,
    expect: Any,
    tmp_path: Path,
    cells: list[str],
    kind: str,
    decimal: str,
    values: list[float],
) -> None:
    text = "id;n\n" + "".join(f"{row};{cell}\n" for row, cell in enumerate(cells))
    page.goto("/dashboard")
    drop_file(page, ".page-head", "groups.csv", text)
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Read as numbers").click()
    expect(dialog.get_by_label("Kind of n")).to_have_value(kind)
    path = tmp_path / "groups.csv"
    path.write_text(text + "5;1 29,0\n")
    reading = ReadOptions(kinds={"n": "number"}, decimal=decimal)
    expected = read_by_command_line(format_dispatch.read(str(path), reading))
    body = base64.b64encode(path.read_bytes()).decode()
    found = page.evaluate(READ, {"name": path.name, "body": body, "kinds": {"n": kind}})
    found["items"] = [json.loads(line) for line in found.pop("text").splitlines()]
    assert found == expected
    assert [item["n"] for item in expected["items"]] == values


def test_digits_in_groups_by_spaces_may_be_codes_and_are_not_proposed_as_numbers(
    page: Any, expect: Any
) -> None:
    page.goto("/dashboard")
    drop_file(page, ".page-head", "towns.csv", "id,pin\n1,110 001\n2,226 010\n")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Kind of pin")).to_have_value("text")
    expect(dialog.get_by_role("button", name="Read as numbers")).to_have_count(0)


def test_booleans_are_read_in_words_as_by_the_command_line(modules: Any, tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text("id,a\n1,yes\n2,NO\n3, Y \n4,f\n5,1\n6,0\n7,\n8,ja\n9,TRUE\n")
    reading = ReadOptions(kinds={"a": "boolean"})
    expected = read_by_command_line(format_dispatch.read(str(path), reading))
    body = base64.b64encode(path.read_bytes()).decode()
    found = modules.evaluate(READ, {"name": path.name, "body": body, "kinds": {"a": "boolean"}})
    found["items"] = [json.loads(line) for line in found.pop("text").splitlines()]
    assert found == expected
    assert expected["bad"] == [9]


def test_numbers_that_would_be_rounded_stay_text_unless_the_user_says_so(
    page: Any, expect: Any
) -> None:
    page.goto("/dashboard")
    drop_file(page, ".page-head", "long.csv", "id,n\n1,9007199254740993\n2,1.5\n")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("n: whole numbers such as 9007199254740993")).to_be_visible()
    expect(dialog.get_by_label("Kind of n")).to_have_value("text")
    dialog.get_by_role("button", name="Read as numbers").click()
    expect(dialog.get_by_label("Kind of n")).to_have_value("number")


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("sales.xlsx", b""),
        ("sales.ods", b"PK"),
        ("a.csv", b"PK\x03\x04"),
        ("b.csv", b"\xd0\xcf\x11\xe0"),
    ],
)
def test_a_workbook_is_to_be_saved_as_csv_for_the_command_line_reads_none_either(
    modules: Any, name: str, start: bytes
) -> None:
    said = modules.evaluate(
        """async ([start, name]) => {
            const { readSource } = await import("/dashboard/assets/sources/file.js");
            const file = new File([new Uint8Array(start)], name);
            return readSource(file).then(() => "nothing", (error) => error.message);
        }""",
        [list(start), name],
    )
    assert "Save the sheet as CSV" in said


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("cut.csv.gz", CUT_OFF, r"It is cut off or damaged near line \d+\."),
        ("latin.csv", "id,a\n1,é\n".encode("latin-1"), r"It is not UTF-8 near line \d+\."),
        ("wide.csv", "id,a\n1,é\n".encode("utf-16") + b"x", r"It is cut off or damaged near"),
        ("cut-short.csv.gz", CUT_OFF[:20], r"It is cut off or damaged"),
        ("plain.csv.gz", b"id,a\n1,2\n", r"It is not compressed, although its name says so\."),
        ("page.csv", b"<html>\n<p>a,b</p>\n</html>\n", r"This is a web page, not a table\."),
        ("feed.csv", b"<?xml version='1.0'?>\n<a>\n</a>\n", r"This is XML, which is not read\."),
        ("paper.pdf", b"%PDF-1.7\n1\n", r"This is a PDF, not a table\."),
        ("files.csv", b"BZh91AY,\n", r"This is an archive\."),
        ("files.tar", b"a" * 257 + b"ustar\n1\n", r"This is an archive\."),
        ("none.json", b"", r"It is empty: there is nothing to load\."),
    ],
)
def test_a_file_that_cannot_be_read_is_answered_with_its_own_fault(
    modules: Any, name: str, content: bytes, message: str
) -> None:
    body = base64.b64encode(content).decode()
    found = modules.evaluate(READ, {"name": name, "body": body})
    assert found["name"] == "SourceError"
    assert re.match(message, found["error"]), found


def test_json_that_is_nested_too_deep_for_the_browser_is_for_the_service_to_refuse(
    modules: Any,
) -> None:
    content = '{"id": 1, "a": ' + "[" * 20_000 + "]" * 20_000 + "}\n"
    body = base64.b64encode(content.encode()).decode()
    assert modules.evaluate(READ, {"name": "deep.json", "body": body}).get("text") == content


def test_a_remedy_fits_into_a_telephone(tab: Tab, expect: Any) -> None:
    with tab.used(viewport={"width": 340, "height": 740}) as page:
        page.goto("/dashboard")
        page.evaluate(
            """() => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array([97, 44, 98, 10, 49, 44, 233])], "a.csv"));
            const options = { bubbles: true, cancelable: true, dataTransfer: transfer };
            document.querySelector(".page-head").dispatchEvent(new DragEvent("drop", options));
            }"""
        )
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name="Windows-1252")).to_be_visible()
        assert dialog.evaluate("d => d.scrollWidth <= d.clientWidth")
