"""From a file of one's own to a faceted page, in real Chromium; CSV as `facetd load` reads it."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.sources import formats
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
    "empty.csv": b"",
    "packed.csv.gz": gzip.compress(b"id,name\n1,a\n"),
    "long.csv": b"id,text\n" + b"".join(b'%d,"%s\n"\n' % (n, b"word " * 40) for n in range(900)),
}

READ = """async ({ name, body }) => {
    const { makeBody, readSource } = await import("/dashboard/assets/sources/file.js");
    const bytes = Uint8Array.from(atob(body), (character) => character.charCodeAt(0));
    try {
      const made = await makeBody(await readSource(new File([bytes], name)));
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
