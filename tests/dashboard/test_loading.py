"""From a local file to a faceted page, in real Chromium."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dashboard.conftest import Service, Tab, drop_file, violations

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
    tab: Tab, service: Service, expect: Any, axe: str, width: int
) -> None:
    with tab.used(viewport={"width": width, "height": 740}, reduced_motion="reduce") as page:
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


def test_a_review_that_is_long_keeps_its_buttons_in_sight(tab: Tab, expect: Any) -> None:
    table = ",".join(["Erscheinungsdatum", *(f"column {n}" for n in range(20))])
    table += "\n" + ",".join(["many words " * 20, *("a|b" for _ in range(20))])
    with tab.used(viewport={"width": 1280, "height": 700}) as page:
        page.goto("/dashboard")
        drop_file(page, ".page-head", "my tools.csv", table + "\n")
        dialog = page.get_by_role("dialog")
        dialog.evaluate("d => d.scrollTo({ top: 0, behavior: 'instant' })")
        expect(dialog.get_by_role("button", name="Load", exact=True)).to_be_in_viewport(ratio=1)
        name = dialog.get_by_role("rowheader", name="Erscheinungsdatum")
        lines = name.evaluate(
            """th => { const range = document.createRange(); range.selectNodeContents(th);
            return range.getClientRects().length; }"""
        )
        assert lines == 1, "a name is not broken beside room for it"
        dialog.get_by_role("button", name="Load", exact=True).click()
        expect(dialog.get_by_text("on disk and searchable")).to_be_visible()
        assert "0.0 s" not in dialog.inner_text()


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
    rows = "".join(f"M-{n};Möbel {n};1.{n:03},5;{n},0;1.{n:03}\n" for n in range(40))
    page.goto("/dashboard")
    drop_file(page, ".page-head", "comma.csv", f"Artikel;Name;Preis;Breite;Lager\n{rows}")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("Preis, Breite, Lager have decimal commas")).to_be_visible()
    expect(dialog.get_by_label("Kind of Lager")).to_have_value("number")
    dialog.get_by_label("Kind of Lager").select_option("number 1,5")
    expect(dialog.get_by_label("Kind of Preis")).to_have_value("text")
    dialog.get_by_label("Kind of Preis").select_option("number 1,5")
    dialog.get_by_label("Ids come from").select_option("Artikel")
    dialog.get_by_role("button", name="Load", exact=True).click()
    dialog.get_by_role("button", name="Apply").click()
    expect(page.locator(".total")).to_have_text("40 items")
    item = service.call("GET", "/comma/items/M-7")
    assert (item["Preis"], item["Breite"], item["Lager"]) == (1007.5, "7,0", 1007)


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


def test_pictures_are_proposed_and_shown(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard")
    rows = "".join(f"{n},Lamp {n},/dashboard/assets/icon.svg\n" for n in range(10))
    drop_file(page, ".page-head", "pictures.csv", f"id,title,photo\n{rows}")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Load", exact=True).click()
    expect(dialog.get_by_text("Pictures: photo")).to_be_visible()
    dialog.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("img", name="Picture of Lamp 3")).to_be_visible()
    assert service.call("GET", "/pictures/configuration")["display"] == {"image": "photo"}


def dated_row(n: int) -> str:
    day, month = n % 28 + 1, n % 12 + 1
    return f"{n},Hall {n},{day}.{month}.20{n + 10},{month}/{month}/2024,{day} May 2021"


DATED = "\n".join(["id,name,opened,seen,said", *map(dated_row, range(40)), ""])


@pytest.mark.parametrize("width", [360, 1280])
def test_dates_in_other_notations_are_named_and_read_on_a_click(
    tab: Tab, service: Service, expect: Any, axe: str, width: int
) -> None:
    with tab.used(viewport={"width": width, "height": 740}) as page:
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
        "“13.1.2022” is not a date such as 12/31/2024"
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
        "lat,lng,name\n,,Sea\n",
    ],
)
def test_what_is_no_pair_of_degrees_is_not_offered(page: Any, expect: Any, table: str) -> None:
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my tools.csv", table)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Load", exact=True)).to_be_visible()
    expect(dialog.get_by_text("geo point")).to_have_count(0)


def test_a_table_without_rows_says_so(page: Any, service: Service, expect: Any) -> None:
    for name, text in (
        ("my tools.csv", "id,name\n"),
        ("my tools.csv", "id,name\n,\n"),
        ("my tools.tsv", "id\tname"),
    ):
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
    expect(dialog.get_by_role("checkbox", name="Leave out rows")).not_to_be_checked()
    load.click()
    expect(dialog.get_by_role("alert")).to_contain_text(
        "1 row of the file cannot become an item; nothing was sent. Mend it, or leave it out"
    )
    expect(dialog.get_by_role("region", name="Rejected lines")).to_contain_text("62")
    names = [index["name"] for index in service.call("GET", "/_indexes")["indexes"]]
    assert "my-tools" not in names

    dialog.get_by_role("checkbox", name="Leave out rows").check()
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


def test_a_table_without_a_header_is_read_so_on_a_click(
    page: Any, service: Service, expect: Any
) -> None:
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my-tools.csv", "1,Saw\n2,Axe\n")
    dialog = page.get_by_role("dialog")
    header = dialog.get_by_role("checkbox", name="The first line names the columns")
    expect(header).to_be_checked()
    expect(dialog).to_contain_text("It seems to be a row like the others.")
    header.uncheck()
    expect(dialog.get_by_label("Kind of column2")).to_have_value("text")
    dialog.get_by_label("Ids come from").select_option(label="column1")
    dialog.get_by_role("button", name="Load", exact=True).click()
    expect(dialog).to_contain_text("2 items on disk")
    assert service.call("GET", "/my-tools/items/1") == {"id": 1, "column1": 1, "column2": "Saw"}


def test_quotes_that_do_not_close_are_text_on_a_click(page: Any, expect: Any) -> None:
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my-tools.tsv", 'id\tname\n1\t"Saw" of Ann\n')
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Read all quotes as text").click()
    expect(dialog.get_by_role("row", name="name")).to_contain_text('"Saw" of Ann')
    quotes = dialog.get_by_role("checkbox", name="Quotes enclose cells")
    expect(quotes).not_to_be_checked()


def test_names_that_are_no_names_may_be_a_row(page: Any, expect: Any) -> None:
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my-tools.csv", "Saw,Saw\nAxe,Axe\n")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("names more than once. The repeated columns are called Saw_2.")
    expect(dialog.get_by_label("Kind of Saw_2")).to_have_value("text")
    dialog.get_by_role("checkbox", name="The first line names the columns").uncheck()
    expect(dialog.get_by_label("Kind of column2")).to_have_value("text")
    expect(dialog).not_to_contain_text("more than once")


def test_a_title_above_the_header_is_named(page: Any, expect: Any) -> None:
    page.goto("/dashboard")
    drop_file(
        page, ".page-head", "my-tools.csv", "Our tools;;\n;;\nid;name;price\n1;Saw;2\n2;Axe;3\n"
    )
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("No row fits it: if the columns are named in a later line")
    dialog.get_by_role("checkbox", name="The first line names the columns").uncheck()
    expect(dialog.get_by_label("Kind of column1")).to_be_visible()
    expect(dialog).not_to_contain_text("No row fits it")


def test_a_column_without_a_name_may_have_none(page: Any, expect: Any) -> None:
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my-tools.csv", "Saw,,x\nAxe,b,y\n")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_contain_text("Column 2 has no name")
    dialog.get_by_role("button", name="Read the first line as a row").click()
    expect(dialog.get_by_label("Kind of column2")).to_have_value("text")


def test_items_are_headed_by_what_tells_them_apart(
    page: Any, service: Service, expect: Any
) -> None:
    """A spreadsheet in German: no column is called like a title, and the first is yes or no."""
    table = "Aktiv,Artikelnummer,Bezeichnung\n" + "".join(
        f"{'ja' if n % 2 else 'nein'},{1000 + n},Stuhl {n}\n" for n in range(40)
    )
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my-tools.csv", table)
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("combobox", name="Ids come from").select_option(label="Artikelnummer")
    dialog.get_by_role("button", name="Load", exact=True).click()
    expect(dialog.get_by_role("checkbox", name="Aktiv")).to_be_checked()
    expect(dialog.get_by_role("checkbox", name="Artikelnummer")).to_have_count(0)
    dialog.get_by_role("button", name="Apply").click()
    expect(page.locator(".item h2").first).to_have_text("Stuhl 0")


def test_cells_that_stand_for_no_value_are_empty_on_a_click(page: Any, expect: Any) -> None:
    page.goto("/dashboard")
    drop_file(page, ".page-head", "my-tools.csv", "id,price\n1,7\n2,NA\n3,\\N\n")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Kind of price")).to_have_value("text")
    expect(dialog).to_contain_text("price: text because of cells such as NA.")
    dialog.get_by_role("button", name="Read them as empty").click()
    expect(dialog.get_by_label("Kind of price")).to_have_value("integer")
    expect(dialog).to_contain_text("Read as empty: NA, \\N.")
    dialog.get_by_role("button", name="Read them as empty", pressed=True).click()
    expect(dialog.get_by_label("Kind of price")).to_have_value("text")


def test_the_items_may_be_within_one_object(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard")
    answer = (
        '{"took": 3, "data": {"tools": [\n{"id": 1, "name": "Saw"},\n{"id": 2, "name": "Axe"}]}}'
    )
    drop_file(page, ".page-head", "answered.json", answer)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The whole file is one object.")
    expect(dialog.get_by_role("row", name="took")).to_be_visible()
    dialog.get_by_role("button", name="Load the objects in data.tools").click()
    expect(dialog.get_by_role("row", name="name")).to_contain_text("Saw")
    expect(dialog.get_by_role("row", name="took")).to_have_count(0)
    dialog.get_by_role("button", name="Load", exact=True).click()
    expect(dialog).to_contain_text("2 items on disk")
    assert service.call("GET", "/answered/items/2") == {"id": 2, "name": "Axe"}
    service.call("DELETE", "/answered")


STORED = "1,200 items of the file are stored. Load the file again when the cause is mended"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"json": {"error": {"code": "insufficient_storage"}}, "status": 507}, "Nothing was chang"),
        (
            {
                "status": 507,
                "json": {
                    "error": {"code": "insufficient_storage", "created": 1000, "updated": 200}
                },
            },
            STORED,
        ),
        (
            {
                "status": 500,
                "json": {"error": {"code": "partly_stored", "created": 1, "updated": 0}},
            },
            "1 item of the file is stored.",
        ),
        ({"body": "<html>Bad Gateway</html>", "status": 502}, "is not known: look at the index"),
        ({"body": "<html>Too Large</html>", "status": 413}, "Nothing was changed."),
    ],
)
def test_a_load_that_fails_says_what_it_has_left(
    page: Any, service: Service, expect: Any, answer: dict[str, Any], said: str
) -> None:
    service.make_index("failing", {}, [{"id": 1}])
    if "json" in answer:
        answer["json"]["error"] |= {"message": "The disk is full.", "status": answer["status"]}
    page.route("**/failing/index", lambda route: route.fulfill(**answer))
    page.goto("/dashboard/failing")
    expect(page.locator(".total")).to_have_text("1 item")
    drop_file(page, ".results", "items.ndjson", '{"id":2}\n')
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Load", exact=True).click()
    expect(dialog).to_contain_text(said)
    expect(dialog.get_by_text("Nothing was changed")).to_have_count(
        1 if said.startswith("Nothing") else 0
    )


def test_what_is_being_stored_goes_on_when_the_dialog_is_closed(
    page: Any, service: Service, expect: Any
) -> None:
    """The index that was made for it stays, although it had no item yet."""
    held: list[Any] = []
    removed: list[str] = []

    def note(request: Any) -> None:
        if request.method == "DELETE":
            removed.append(request.url)

    def show_load(route: Any) -> None:
        load = {"state": "storing", "items_read": 9, "items_stored": 0}
        ids = [one.request.headers["x-request-id"] for one in held]
        route.fulfill(json={"loads": [load | {"id": one} for one in ids]})

    page.on("request", note)
    page.route("**/my-tools/index", lambda route: held.append(route))
    page.route("**/_loads", show_load)
    page.goto("/dashboard")
    page.evaluate(
        """() => {
            const { send } = XMLHttpRequest.prototype;
            XMLHttpRequest.prototype.send = function (body) {
                send.call(this, body);
                this.upload.dispatchEvent(new ProgressEvent("load"));
            };
        }"""
    )  # a held request is never sent
    drop_file(page, ".page-head", "my tools.csv", TOOLS)
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Load", exact=True).click()
    expect(dialog).to_contain_text("Stored 0 of 9 items")
    with page.expect_event("requestfailed"):
        dialog.get_by_role("button", name="Close, and let it go on").click()
    expect(page.get_by_role("link", name="my-tools", exact=True)).to_be_visible()
    page.remove_listener("request", note)
    assert removed == []


def test_of_several_files_the_others_are_named(page: Any, expect: Any) -> None:
    page.goto("/dashboard")
    page.evaluate(
        """() => {
            const dataTransfer = new DataTransfer();
            for (const name of ["part-1.csv", "part-2.csv", "part-3.csv"])
              dataTransfer.items.add(new File(["id,a\\n1,x\\n"], name));
            const options = { bubbles: true, cancelable: true, dataTransfer };
            document.querySelector(".page-head").dispatchEvent(new DragEvent("drop", options));
        }"""
    )
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("textbox", name="Into the index")).to_have_value("part-1")
    expect(dialog.get_by_role("status").filter(has_text="One file at a time")).to_contain_text(
        "part-1.csv is read. Drop part-2.csv, part-3.csv afterwards."
    )


def test_a_file_is_dropped_on_the_page_of_its_index(
    page: Any, service: Service, expect: Any
) -> None:
    service.make_index("dropped", {}, [{"id": 1, "name": "Saw"}])
    page.goto("/dashboard/dropped")
    expect(page.locator(".total")).to_have_text("1 item")
    drop_file(page, ".results", "more.csv", "id,name\n2,Axe\n")
    dialog = page.get_by_role("dialog", name="Load a file into dropped")
    dialog.get_by_role("button", name="Load", exact=True).click()
    expect(dialog).to_contain_text("1 item on disk")
    page.keyboard.press("Escape")
    expect(page.locator(".total")).to_have_text("2 items")
