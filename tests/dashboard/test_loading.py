"""From a local file to a faceted page, in real Chromium; CSV as `facetd load` reads it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.loading import offer_places
from coordinator.cli.sources import formats
from coordinator.cli.sources.places import hold_degrees, named_like_places
from coordinator.cli.sources.source import ReadOptions, Source, SourceError
from tests.dashboard.conftest import Service, drop_file, violations, watched_page

TOOLS = "id,name,colour,price,tags\n" + "".join(
    f'{n},"Tool ""{n}""",{["red", "green", "blue"][n % 3]},{n / 4},x|y\n' for n in range(60)
)


@pytest.fixture(autouse=True)
def no_tools(browser: Any, service: Service) -> None:
    """Remove the index of the test before (after the browser: nothing starts without one)."""
    if any(index["name"] == "my-tools" for index in service.call("GET", "/_indexes")["indexes"]):
        service.call("DELETE", "/my-tools")


@pytest.mark.parametrize("width", [360, 1280])
def test_a_csv_becomes_a_faceted_page_with_two_keystrokes(
    browser: Any, service: Service, expect: Any, axe: str, width: int
) -> None:
    with watched_page(
        browser, service, viewport={"width": width, "height": 740}, reduced_motion="reduce"
    ) as page:
        page.goto("/dashboard")
        drop_file(page, ".page-head", "My tools.csv", TOOLS)
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("textbox", name="Into the index")).to_have_value("my-tools")
        expect(dialog.get_by_label("Kind of price")).to_have_value("number")
        expect(dialog.get_by_role("button", name="Load", exact=True)).to_be_focused()
        assert dialog.evaluate("d => d.scrollWidth <= d.clientWidth")
        assert violations(page, axe) == []
        page.keyboard.press("Enter")

        expect(dialog.get_by_role("button", name="Apply")).to_be_focused()
        expect(dialog.get_by_role("checkbox", name="colour")).to_be_checked()
        assert dialog.evaluate("d => d.scrollWidth <= d.clientWidth")
        assert violations(page, axe) == []
        page.keyboard.press("Enter")

        expect(page).to_have_url(f"{service.url}/dashboard/my-tools")
        expect(page.locator(".total")).to_have_text("60 items")
        expect(page.locator(".item h2").first).to_have_text('Tool "0"')
    configuration = service.call("GET", "/my-tools/configuration")
    assert "colour" in configuration["aggregations"]
    assert configuration["searchable_fields"][0] == "name^3"
    item = service.call("GET", "/my-tools/items/3")
    assert item == {"id": 3, "name": 'Tool "3"', "colour": "red", "price": 0.75, "tags": "x|y"}


def test_kinds_ids_and_facets_are_the_users_choice(
    page: Any, service: Service, expect: Any
) -> None:
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my tools.csv", TOOLS)
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Kind of tags").select_option("list |")
    dialog.get_by_label("Kind of price").select_option("text")
    dialog.get_by_label("Ids come from").select_option("name")
    dialog.get_by_role("button", name="Load", exact=True).click()
    dialog.get_by_role("checkbox", name="colour").uncheck()
    dialog.get_by_role("button", name="Apply").click()
    expect(page.locator(".total")).to_have_text("60 items")

    item = service.call("GET", "/my-tools/items/Tool%20%223%22")
    assert (item["tags"], item["price"], item["name"]) == (["x", "y"], "0.75", 'Tool "3"')
    facets = service.call("GET", "/my-tools/configuration")["aggregations"]
    assert "colour" not in facets
    assert "tags" in facets


def test_decimal_commas_are_numbers_where_the_user_says_so(
    page: Any, service: Service, expect: Any
) -> None:
    rows = "".join(f"M-{n};Möbel {n};1.{n:03},5;{n},0\n" for n in range(40))
    page.goto("/dashboard")
    drop_file(page, ".page-head", "comma.csv", f"Artikel;Name;Preis;Breite\n{rows}")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("Preis, Breite have decimal commas")).to_be_visible()
    expect(dialog.get_by_label("Kind of Preis")).to_have_value("text")
    dialog.get_by_label("Kind of Preis").select_option("number 1,5")
    dialog.get_by_label("Ids come from").select_option("Artikel")
    dialog.get_by_role("button", name="Load", exact=True).click()
    dialog.get_by_role("button", name="Apply").click()
    expect(page.locator(".total")).to_have_text("40 items")
    item = service.call("GET", "/comma/items/M-7")
    assert (item["Preis"], item["Breite"]) == (1007.5, "7,0")


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
    expected = read_by_command_line(formats.read(str(path), ReadOptions(kinds={"n": "number"})))
    body = base64.b64encode(path.read_bytes()).decode()
    found = page.evaluate(READ, {"name": path.name, "body": body, "kinds": {"n": "number 1,299.5"}})
    found["items"] = [json.loads(line) for line in found.pop("text").splitlines()]
    assert found == expected
    assert [item["n"] for item in expected["items"]] == [1299.0, 12345678.0, 7.0, -1000.0]


def test_lists_are_named_and_read_on_a_click(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard")
    rows = "".join(f"{n},{'red|oak' if n % 2 else 'oak|pine'}\n" for n in range(40))
    drop_file(page, ".page-head", "woods.csv", f"id,kinds\n{rows}")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("kinds: cells seem to be lists, divided by |")).to_be_visible()
    dialog.get_by_role("button", name="Read as lists").click()
    dialog.get_by_role("button", name="Load", exact=True).click()
    expect(dialog.get_by_text("3 values: oak, pine, red")).to_be_visible()
    dialog.get_by_role("button", name="Apply").click()
    expect(page.locator(".total")).to_have_text("40 items")
    assert service.call("GET", "/woods/items/1")["kinds"] == ["red", "oak"]


def dated_row(n: int) -> str:
    day, month = n % 28 + 1, n % 12 + 1
    return f"{n},Hall {n},{day}.{month}.20{n + 10},{month}/{month}/2024,{day} May 2021"


DATED = "\n".join(["id,name,opened,seen,said", *map(dated_row, range(40)), ""])


@pytest.mark.parametrize("width", [360, 1280])
def test_dates_in_other_notations_are_named_and_read_on_a_click(
    browser: Any, service: Service, expect: Any, axe: str, width: int
) -> None:
    with watched_page(browser, service, viewport={"width": width, "height": 740}) as page:
        page.goto("/dashboard")
        drop_file(page, ".page-head", "my tools.csv", DATED)
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_text("opened: dates such as 1.1.2010 stay text.")).to_be_visible()
        expect(
            dialog.get_by_text("said: dates such as 1 May 2021 stay text. Write")
        ).to_be_visible()
        read = dialog.get_by_role("button", name="Read as dates")
        expect(read).to_have_attribute("aria-pressed", "false")
        read.click()
        expect(read).to_have_attribute("aria-pressed", "true")
        expect(dialog.get_by_label("Kind of opened")).to_have_value("dmy")
        dialog.get_by_label("Kind of opened").select_option("text")
        expect(read).to_have_attribute("aria-pressed", "false")
        read.click()
        dialog.get_by_role("button", name="Day first").click()
        dialog.get_by_role("button", name="Month first").click()
        expect(dialog.get_by_role("button", name="Day first")).to_have_attribute(
            "aria-pressed", "false"
        )
        assert dialog.evaluate("d => d.scrollWidth <= d.clientWidth")
        assert violations(page, axe) == []
        dialog.get_by_role("button", name="Load", exact=True).click()
        expect(dialog).to_contain_text("dates from 2010-01-01 to 2049-04-12")
        dialog.get_by_role("button", name="Apply").click()
        expect(page.locator(".total")).to_have_text("40 items")
    item = service.call("GET", "/my-tools/items/13")
    assert item["opened"] == "2023-02-14"
    assert item["seen"] == "2024-02-02"
    assert item["said"] == "14 May 2021"


def test_a_date_that_the_chosen_order_cannot_have_is_named(page: Any, expect: Any) -> None:
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my tools.csv", DATED)
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Kind of opened").select_option("mdy")
    dialog.get_by_role("button", name="Load", exact=True).click()
    expect(dialog.get_by_role("region", name="Rejected lines")).to_contain_text(
        "“13.1.2022” is no date such as 12/31/2024"
    )


CITIES = "id,name,Lat,Longitude\n" + "".join(
    f"{n},City {n},{n - 20}.5,{n * 4}\n" for n in range(40)
)


def test_two_columns_of_degrees_become_a_geo_point_of_a_new_index(
    page: Any, service: Service, expect: Any
) -> None:
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my tools.csv", CITIES + "40,Nowhere,,\n")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Make a geo point (_geo) of Lat and Longitude")).to_be_checked()
    dialog.get_by_role("button", name="Load", exact=True).click()
    expect(dialog.locator(".tile dd").nth(0)).to_have_text("41")
    point = service.call("GET", "/my-tools/items/3")["_geo"]
    assert point == {"lat": -17.5, "lng": 12.0}
    assert "_geo" not in service.call("GET", "/my-tools/items/40")


def test_an_index_that_exists_gets_geo_points_only_if_the_user_says_so(
    page: Any, service: Service, expect: Any
) -> None:
    service.make_index("my-tools", {}, [{"id": 1000}])
    for is_wanted in (False, True):
        page.goto("/dashboard")
        drop_file(page, ".page-head", "my tools.csv", CITIES)
        dialog = page.get_by_role("dialog")
        choice = dialog.get_by_label("Make a geo point (_geo) of Lat and Longitude")
        expect(choice).not_to_be_checked()
        choice.set_checked(is_wanted)
        dialog.get_by_role("button", name="Load", exact=True).click()
        expect(dialog.locator(".tile dd").nth(0)).to_be_visible()
        assert ("_geo" in service.call("GET", "/my-tools/items/3")) == is_wanted


def test_the_geo_point_is_the_default_of_new_indexes_until_the_user_decides(
    page: Any, service: Service, expect: Any
) -> None:
    service.make_index("my-tools", {}, [{"id": 1000}])
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my tools.csv", CITIES)
    dialog = page.get_by_role("dialog")
    name = dialog.get_by_role("textbox", name="Into the index")
    choice = dialog.get_by_label("Make a geo point (_geo) of Lat and Longitude")
    expect(choice).not_to_be_checked()
    name.fill("others")
    expect(choice).to_be_checked()
    name.fill("my-tools")
    expect(choice).not_to_be_checked()
    name.fill("others")
    choice.uncheck()
    name.fill("my-tools")
    name.fill("others")
    expect(choice).not_to_be_checked()


def test_json_of_degrees_gets_geo_points_in_a_new_index(
    page: Any, service: Service, expect: Any
) -> None:
    lines = [{"id": n, "lat": n - 20.5, "lon": n * 4, "n": 1} for n in range(40)]
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my tools.json", json.dumps(lines))
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Make a geo point (_geo) of lat and lon")).to_be_checked()
    dialog.get_by_role("button", name="Load", exact=True).click()
    expect(dialog.locator(".tile dd").nth(0)).to_have_text("40")
    item = service.call("GET", "/my-tools/items/3")
    assert item == {**lines[3], "_geo": {"lat": -17.5, "lng": 12}}


def test_a_file_dropped_before_the_indexes_are_listed_waits_for_their_names(
    page: Any, service: Service, expect: Any
) -> None:
    service.make_index("my-tools", {}, [{"id": 1000}])

    def list_late(route: Any) -> None:
        page.wait_for_timeout(1000)
        route.continue_()

    page.route("**/_indexes", list_late)
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my tools.csv", CITIES)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("There is an index of this name")).to_be_visible()
    expect(dialog.get_by_label("Make a geo point (_geo) of Lat and Longitude")).not_to_be_checked()


@pytest.mark.parametrize(
    "table",
    [
        "lat,lng\n48.2,181\n",  # no longitude
        "lat,lng\n48.2,east\n",
        "lat,latitude,lng\n1,2,3\n",
        "lat,lng,_geo\n1,2,\n",
        "lat,name\n1,2\n",
        "lat,lng\n,\n",
    ],
)
def test_what_is_no_pair_of_degrees_is_not_offered(page: Any, expect: Any, table: str) -> None:
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my tools.csv", table)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Load", exact=True)).to_be_visible()
    expect(dialog.get_by_text("geo point")).to_have_count(0)


def test_a_table_without_rows_says_so(page: Any, service: Service, expect: Any) -> None:
    for name, text in (("my tools.csv", "id,name\n"), ("my tools.tsv", "id\tname")):
        page.goto("/dashboard")
        drop_file(page, ".page-head", name, text)
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("alert")).to_contain_text(
            "The file names 2 columns but has no rows: there is nothing to load."
        )
        expect(dialog.get_by_role("button", name="Choose another file")).to_be_visible()


def test_a_bad_row_refuses_the_file_unless_bad_rows_are_left_out(
    page: Any, service: Service, expect: Any
) -> None:
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my tools.csv", TOOLS + "61,short\n62,a,b,3,c\n")
    dialog = page.get_by_role("dialog")
    load = dialog.get_by_role("button", name="Load", exact=True)
    expect(dialog.get_by_role("checkbox")).not_to_be_checked()
    load.click()
    expect(dialog.get_by_role("alert")).to_contain_text("1 row of the file cannot become")
    expect(dialog.get_by_role("region", name="Rejected lines")).to_contain_text("62")
    names = [index["name"] for index in service.call("GET", "/_indexes")["indexes"]]
    assert "my-tools" not in names

    dialog.get_by_role("checkbox").check()
    load.click()
    expect(dialog.locator(".tile dd").nth(0)).to_have_text("61")
    expect(dialog.locator(".tile dd").nth(2)).to_have_text("1")
    expect(dialog.get_by_role("region", name="Rejected lines")).to_contain_text("62")


def test_a_line_that_the_service_rejects_is_named_as_in_the_file(
    page: Any, service: Service, expect: Any
) -> None:
    """Line breaks in cells and blank lines: rows and lines differ; and no empty index stays."""
    page.goto("/dashboard")
    long_id = "x" * 300
    drop_file(page, ".page-head", "my tools.csv", f'id,name\na,"two\nlines"\n\n{long_id},b\n')
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Load", exact=True).click()
    rejected = dialog.get_by_role("region", name="Rejected lines")
    expect(rejected.get_by_role("row").nth(1).get_by_role("cell").first).to_have_text("5")
    expect(dialog).to_contain_text("Nothing was changed")
    names = [index["name"] for index in service.call("GET", "/_indexes")["indexes"]]
    assert "my-tools" not in names


def test_a_refused_file_changes_nothing_and_says_why(
    page: Any, service: Service, expect: Any
) -> None:
    service.make_index("refusing", {"aggregations": {}}, [{"id": 1}])
    page.goto("/dashboard")
    page.get_by_role("button", name="Load a file into refusing").click()
    drop_file(page, ".drop-zone", "items.ndjson", '{"id":2}\n{broken')
    expect(page.get_by_role("checkbox")).not_to_be_checked()
    page.get_by_role("dialog").get_by_role("button", name="Load", exact=True).click()

    expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("dialog")).to_contain_text("Nothing was changed")
    assert service.call("GET", "/refusing/stats")["items"] == 1


def test_facets_are_proposed_for_an_index_without_any(
    page: Any, service: Service, expect: Any
) -> None:
    items = [{"id": n, "kind": "ab"[n % 2]} for n in range(20)]
    service.make_index("bare", {}, items)
    page.goto("/dashboard/bare")
    page.get_by_role("button", name="Propose facets").click()
    page.get_by_role("dialog").get_by_role("button", name="Apply").click()

    expect(page.get_by_role("region", name="Kind", exact=True)).to_be_visible()


def test_dates_and_trees_are_proposed_and_can_be_left_out(
    page: Any, service: Service, expect: Any
) -> None:
    paths = ["Phones", "Phones > Cases", "Books > Travel"]
    items = [
        {"id": n, "made": f"20{n % 40 + 10}-03-04", "path": paths[n % 3], "kind": "ab"[n % 2]}
        for n in range(120)
    ]
    for name in ("dated", "treeless"):
        service.make_index(name, {}, items)
        page.goto(f"/dashboard/{name}")
        page.get_by_role("button", name="Propose facets").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("dates from 2010-03-04 to 2049-03-04")
        expect(dialog).to_contain_text("a tree, 3 values")
        if name == "treeless":
            dialog.get_by_role("checkbox", name="path").uncheck()
        dialog.get_by_role("button", name="Apply").click()
        expect(
            page.get_by_role("region", name="Made", exact=True).get_by_role("img")
        ).to_be_visible()
    configured = service.call("GET", "/treeless/configuration")
    assert set(configured["aggregations"]) == {"made", "kind"}
    assert not configured.get("hierarchies")
    page.goto("/dashboard/dated")
    expect(page.get_by_role("region", name="Path", exact=True)).to_contain_text("Phones")


def test_a_file_for_the_command_line_says_so(page: Any, expect: Any) -> None:
    page.goto("/dashboard")
    drop_file(page, ".page-head", "things.parquet", "PAR1")

    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(
        "facetd load things.parquet"
    )


# --- the same as `facetd load`

FILES: dict[str, bytes] = {
    "kinds.csv": b"a,b,c,d,e\n1,1.5,true,007,[1]\n-2,2e3,False,1,{}\n,,,,\n",
    "numbers.csv": b"a,b\n7,1\n1.5,-0\n",
    "big.csv": b"id,n\n9223372036854775807,18446744073709551615\n1,-9223372036854775808\n",
    "too-big.csv": b"id,n\n9223372036854775808,18446744073709551616\n",
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
    "json.csv": b'a\n"[1,\n2]"\n"{""x"": 1.0}"\n',
    "spaces.csv": b"id,n,t\n 1 , 2 , three \n",
    "latin.csv": "id,name\n1,é\n".encode("latin-1"),
    "open.csv": b'id,name\n1,"never\nends\n',
    "after.csv": b'id,name\n1,"a"b\n',
    "twice.csv": b"a,a\n1,2\n",
    "nameless.csv": b"a,,b\n1,2,3\n",
    "numbered.csv": b",a\n0,x\n1,y\n",
    "numbered-row.csv": b",row\n0,x\n",
    "empty.csv": b"",
    "one column.txt": b"name\na\n",
    "items.yaml": b"- id: 1\n  name: a\n",
    "table.export": b"id;name\n1;a\n",
    "packed.csv.gz": gzip.compress(b"id,name\n1,a\n"),
    "long.csv": b"id,text\n" + b"".join(b'%d,"%s\n"\n' % (n, b"word " * 40) for n in range(900)),
}

READ = """async ({ name, body, kinds = {}, makesPlaces = false }) => {
    const { makeBody, readSource } = await import("/dashboard/assets/sources/file.js");
    const bytes = Uint8Array.from(atob(body), (character) => character.charCodeAt(0));
    try {
      const source = await readSource(new File([bytes], name));
      for (const column of source.columns) column.kind = kinds[column.name] ?? column.kind;
      if (makesPlaces) (source.table ?? source.json).makesPlaces = true;
      const made = await makeBody(source);
      const text = await made.body.text();
      return { text, lines: made.lines, bad: made.bad.map((row) => row.line) };
    } catch (error) {
      return { error: error.message, name: error.name };
    }
}"""


def read_by_command_line(source: Source) -> dict[str, Any]:
    text = b"".join(source.pieces()).decode()
    items = text.count("\n")
    return {
        "items": [json.loads(line) for line in text.splitlines()],
        "lines": [int(source.place_of(n + 1).removeprefix("line ")) for n in range(items)],
        "bad": [int(row.place.removeprefix("line ")) for row in source.bad_rows],
    }


def test_the_page_reads_csv_as_the_command_line_does(page: Any, tmp_path: Path) -> None:
    page.goto("/dashboard")
    for name, body in FILES.items():
        argument = {"name": name, "body": base64.b64encode(body).decode()}
        found = page.evaluate(READ, argument)
        path = tmp_path / name
        path.write_bytes(body)
        try:
            expected = read_by_command_line(formats.read(str(path), ReadOptions()))
        except SourceError:
            assert found.get("name") == "SourceError", name
            continue
        assert "error" not in found, (name, found)
        found["items"] = [json.loads(line) for line in found.pop("text").splitlines()]
        assert found == expected, name
        kinds = [[type(value) for value in item.values()] for item in found["items"]]
        assert kinds == [[type(value) for value in item.values()] for item in expected["items"]]


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
"""


@pytest.mark.parametrize("order", ["dmy", "mdy"])
def test_the_page_reads_dates_as_the_command_line_does(
    page: Any, tmp_path: Path, order: str
) -> None:
    path = tmp_path / "dates.csv"
    path.write_text(DATES)
    expected = read_by_command_line(formats.read(str(path), ReadOptions(kinds={"a": order})))
    page.goto("/dashboard")
    body = base64.b64encode(DATES.encode()).decode()
    found = page.evaluate(READ, {"name": path.name, "body": body, "kinds": {"a": order}})
    found["items"] = [json.loads(line) for line in found.pop("text").splitlines()]
    assert found == expected
    assert len(found["items"]) >= 3


def test_the_page_finds_notations_of_dates_as_the_command_line_does(
    page: Any, tmp_path: Path
) -> None:
    columns = {
        "day": ["31.12.2024", "1.1.2024"],
        "month": ["12/31/2024", "1/1/2024"],
        "either": ["1/2/2024", "3/4/2024"],
        "neither": ["31/12/2024", "12/31/2024"],
        "named": ["3 May 2021", "3. Sept. 1999"],
        "english": ["May 3, 2021", "march 13, 2021"],
        "mixed": ["3 May 2021", "3.5.2021"],
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
        for one in formats.read(str(path), ReadOptions()).columns
    }
    page.goto("/dashboard")
    found = page.evaluate(
        """async (text) => {
            const { readSource } = await import("/dashboard/assets/sources/file.js");
            const { columns } = await readSource(new File([text], "notations.csv"));
            return Object.fromEntries(columns.map(({ name, hasOtherDates, dateOrders }) =>
                [name, [hasOtherDates, hasOtherDates ? dateOrders : []]]));
        }""",
        text,
    )
    assert found == expected
    assert [name for name, (is_date, _) in found.items() if is_date] == [*columns][:7]


def test_the_page_finds_lists_as_the_command_line_does(page: Any, tmp_path: Path) -> None:
    columns = {
        "bars": ["red|oak", "oak", "red|pine|oak", "pine|red"],
        "points": ["red; oak", "oak; red", "oak", ""],
        "text": ["Call me; Ishmael", "It was; the best", "of times", "it"],
        "long": ["a" * 61 + "|b"] * 4,
        "just": ["😀" * 60 + "|b"] * 4,
        "numbers": ["1", "2", "3", "4"],
    }
    rows = [",".join(row) for row in zip(*columns.values(), strict=True)]
    text = "\n".join([",".join(columns), *rows, ""])
    path = tmp_path / "lists.csv"
    path.write_text(text)
    expected = {one.name: one.separator for one in formats.read(str(path), ReadOptions()).columns}
    page.goto("/dashboard")
    found = page.evaluate(
        """async (text) => {
            const { readSource } = await import("/dashboard/assets/sources/file.js");
            const { columns } = await readSource(new File([text], "lists.csv"));
            return Object.fromEntries(columns.map(({ name, separator }) => [name, separator]));
        }""",
        text,
    )
    assert found == expected
    assert [*found.values()] == ["|", ";", "", "", "|", ""]


def test_the_page_makes_places_as_the_command_line_does(page: Any, tmp_path: Path) -> None:
    text = "id,lat,lng\n1,48.2,16\n2,-7,\n3,,5\n4,-0,1e1\n5, 1.25 ,-180\n"
    path = tmp_path / "places.csv"
    path.write_text(text)
    source = formats.read(str(path), ReadOptions(place_fields=("lat", "lng")))
    expected = [json.loads(line) for line in b"".join(source.pieces()).splitlines()]
    page.goto("/dashboard")
    body = base64.b64encode(text.encode()).decode()
    found = page.evaluate(READ, {"name": path.name, "body": body, "makesPlaces": True})
    assert [json.loads(line) for line in found["text"].splitlines()] == expected
    assert sum("_geo" in item for item in expected) == 3


def test_the_page_makes_places_of_json_as_the_command_line_does(page: Any, tmp_path: Path) -> None:
    lines = [
        '{"id": 1, "lat": 48.2, "lon": 16, "s": "}{\\"\\\\", "n": 12345678901234567890}',
        '{"id": 2, "lat": "-7.5", "lon": " 1e1 ", "in": {"lat": 1, "lon": [{}]}}',
        '{"id": 3, "lat": "", "lon": 5}\r',
        '{"id": 4, "lat": null, "lon": 5}',
        "",
        '{"id": 5, "lat": 1}',
    ]
    # Beyond the sample: what holds no degrees, has a place already, or is no JSON.
    lines += [f'{{"id": {n}, "lat": {n % 90}.5, "lon": 1, "t": "{"é" * 60}"}}' for n in range(9000)]
    lines += ['{"id": 6, "lat": 91, "lon": 5}', '{"id": 7, "lat": 1, "lon": 5, "_geo": null}']
    lines += ['{"id": 8, "lat": 1, "lon": 5, "broken" }', '{"id": 9, "lat": 1, "lon": "west"']
    texts = {
        "places.ndjson": "\n".join(lines).encode(),
        "places.json": ("[" + ",\n".join(line for line in lines if line) + "]").encode(),
        "places.ndjson.gz": gzip.compress("\n".join(lines).encode()),
    }
    page.goto("/dashboard")
    for name, body in texts.items():
        path = tmp_path / name
        path.write_bytes(body)
        source = offer_places(formats.read(str(path), ReadOptions()), "auto")
        expected = b"".join(source.pieces()).decode()
        argument = {"name": name, "body": base64.b64encode(body).decode(), "makesPlaces": True}
        found = page.evaluate(READ, argument)
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
    page: Any, tmp_path: Path, line: str, fields: list[str] | None
) -> None:
    lines = line + '\n{"at": null}\n{"at": [1]}\n'
    path = tmp_path / "places.ndjson"
    path.write_text(lines)
    source = formats.read(str(path), ReadOptions())
    named = named_like_places(source)
    found = list(named) if named and hold_degrees(source, named) else None
    page.goto("/dashboard")
    read = page.evaluate(
        """async (text) => {
            const { readSource } = await import("/dashboard/assets/sources/file.js");
            const { json } = await readSource(new File([text], "places.ndjson"));
            if (json.degreeNames === null) return [null, text];
            return [json.degreeNames, await (await json.convert()).text()];
        }""",
        lines,
    )
    assert read[0] == found == fields
    expected = b"".join(offer_places(source, "auto").pieces()).decode()
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
def test_fields_of_json_that_hold_no_degrees_are_no_places(page: Any, second: str) -> None:
    page.goto("/dashboard")
    degrees = page.evaluate(
        """async (text) => {
            const { readSource } = await import("/dashboard/assets/sources/file.js");
            return (await readSource(new File([text], "places.ndjson"))).json.degreeNames;
        }""",
        '{"id": 1, "lat": 48, "lon": 16}\n' + second,
    )
    assert degrees is None


def test_the_beginning_of_json_tells_its_fields(page: Any) -> None:
    page.goto("/dashboard")
    text = (
        '[\n {"id": 1, "s": "}{", "l": [1], "o": {"a": {}}},\n {"id": 2.5, "n": null, "b": true},'
    )
    columns = page.evaluate(
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
