"""The page of one item, and what the search page says when words are not found."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.dashboard.conftest import Service, Tab, violations

BIG_ID = 2**62 + 1
THINGS: list[dict[str, Any]] = [
    {
        "id": f"a/{n} b" if n else BIG_ID,
        "name": f"Thing {n}",
        "kind": "ab"[n % 2],
        "tags": [f"t{n:02}", "all"],
        "text": "Long words of a text. " * 20,
        "part": {"of": [{"n": n}]},
        "variants": [{"size": "M", "colors": ["red", "blue"], "price": 19, "note": None}, {}],
        "link": "https://example.org/x",
    }
    for n in range(40)
]


@pytest.fixture(autouse=True, scope="module")
def things(browser: Any, service: Service) -> None:
    """An index `pages` (after the browser: nothing starts without one)."""
    configuration = {"aggregations": {"kind": {}, "tags": {"conjunction": False}}}
    service.make_index("pages", configuration, THINGS)


def test_an_item_has_a_page_that_can_be_linked_to(
    page: Any, service: Service, expect: Any, axe: str
) -> None:
    page.goto("/dashboard/pages?q=thing+0")
    variant = "size: M · colors: red, blue · price: 19"
    expect(page.locator(".item .tag").get_by_text(variant).first).to_be_visible()
    page.get_by_role("link", name="Thing 0").click()
    expect(page).to_have_url(f"{service.url}/dashboard/pages?item={BIG_ID}")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Thing 0")
    expect(page).to_have_title("Thing 0 · pages · facetd")
    facts = page.locator(".item-facts")
    expect(facts).to_contain_text(THINGS[0]["text"].strip())
    expect(facts).to_contain_text('{"of":[{"n":0}]}')
    expect(facts.locator(".tag").get_by_text(variant)).to_be_visible()
    page.get_by_text("As JSON").click()
    assert json.loads(page.get_by_label("The item as JSON").inner_text())["id"] == BIG_ID
    assert violations(page, axe) == []

    facts.get_by_role("link", name="t00").click()
    expect(page.locator(".total")).to_have_text("1 item")
    page.go_back()
    page.go_back()
    expect(page.get_by_role("searchbox", name="Search pages")).to_have_value("thing 0")


def test_an_item_is_opened_edited_and_deleted_by_keyboard(
    page: Any, service: Service, expect: Any
) -> None:
    service.call("POST", "/pages/items", [{"id": "x/y ü", "name": "Only"}])
    page.goto("/dashboard/pages?q=only")
    expect(page.locator(".item")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Only")

    page.get_by_role("button", name="Edit").press("Enter")
    area = page.get_by_role("dialog").get_by_role("textbox")
    expect(area).to_be_enabled()
    area.fill(json.dumps({"id": "x/y ü", "name": "Changed"}))
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Changed")

    page.get_by_role("button", name="Delete").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Delete").press("Enter")
    expect(page).to_have_url(f"{service.url}/dashboard/pages")
    page.goto("/dashboard/pages?item=x%2Fy%20%C3%BC")
    expect(page.get_by_role("heading", name="There is no item")).to_be_visible()


def test_words_that_nothing_has_together_still_find_something(page: Any, expect: Any) -> None:
    page.goto("/dashboard/pages?q=t01+t02")

    expect(page.locator(".messages")).to_contain_text("No item has all of these words")
    expect(page.locator(".total")).to_have_text("1 item")
    page.goto("/dashboard/pages?q=thing&find.tags=t0")
    expect(page.locator(".total")).to_have_text("40 items")
    expect(page.locator(".messages")).to_be_empty()


def test_another_query_that_the_service_means_is_offered(page: Any, expect: Any) -> None:
    def answer(route: Any) -> None:
        response = route.fetch()
        body = response.json()
        if "thign" in route.request.post_data:
            body["meta"]["did_you_mean"] = "thing"
        route.fulfill(response=response, json=body)

    page.route("**/pages/search", answer)
    page.goto("/dashboard/pages?q=thign")
    page.get_by_role("button", name="thing", exact=True).click()

    expect(page.get_by_role("searchbox", name="Search pages")).to_have_value("thing")
    expect(page.get_by_text("Did you mean")).to_have_count(0)


def test_what_is_typed_is_completed(page: Any, expect: Any, axe: str) -> None:
    page.goto("/dashboard/pages")
    box = page.get_by_role("searchbox", name="Search pages")
    box.press_sequentially("thing wo")
    row = page.get_by_role("group", name="Suggestions")
    expect(row.get_by_role("button", name="thing words", exact=True)).to_be_visible()
    assert violations(page, axe) == []

    row.get_by_role("button", name="thing words", exact=True).click()
    expect(box).to_have_value("thing words")
    expect(box).to_be_focused()
    expect(row).to_be_hidden()
    expect(page.locator(".total")).to_have_text("40 items")


def test_a_facet_says_how_many_values_it_has(page: Any, expect: Any) -> None:
    page.goto("/dashboard/pages?q=thing")
    pages = page.get_by_role("region", name="Tags", exact=True).locator(".facet-pages")
    expect(pages).to_contain_text("10 of 41 values")
    page.goto("/dashboard/pages?is.kind=a")
    expect(pages).to_contain_text("10 of 21 values")
    page.get_by_role("button", name="More values of Tags").click()
    expect(pages).to_contain_text("11–20 of 21")


def test_a_phone_has_one_row_of_controls(tab: Tab, expect: Any, axe: str) -> None:
    with tab.used(viewport={"width": 360, "height": 740}) as page:
        page.goto("/dashboard/pages")
        expect(page.locator(".item").first).to_be_visible()
        shown = page.locator(".controls").locator("button:visible, select:visible")
        tops = {round(control.bounding_box()["y"]) for control in shown.all()}
        assert len(tops) == 1
        expect(page.get_by_role("button", name="Table")).to_be_hidden()

        more = page.get_by_role("button", name="More controls")
        more.click()
        expect(more).to_have_attribute("aria-expanded", "true")
        page.get_by_role("button", name="Table").click()
        expect(page.locator(".items-table")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert violations(page, axe) == []
        page.goto(f"/dashboard/pages?item={BIG_ID}")
        expect(page.locator(".item-facts")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert violations(page, axe) == []


def test_a_table_shows_names_as_large_as_values_and_lists_apart(page: Any, expect: Any) -> None:
    page.goto("/dashboard/pages")
    page.get_by_role("button", name="Table").click()
    table = page.get_by_role("region", name="Items as a table")
    expect(table).to_be_visible()
    sizes = table.evaluate(
        """region => ["tbody th", "tbody td"].map(
            (cell) => getComputedStyle(region.querySelector(cell)).fontSize)"""
    )
    assert sizes[0] == sizes[1]
    first, second = table.locator("tbody tr").first.locator(".tag").all()[:2]
    one, other = first.bounding_box(), second.bounding_box()
    assert one["y"] != other["y"] or one["x"] + one["width"] + 3 <= other["x"]
    # The header stays while the rows are scrolled.
    top = table.locator("thead th").first.bounding_box()["y"]
    assert table.evaluate("region => (region.scrollTop = 200, region.scrollTop)") > 0
    assert table.locator("thead th").first.bounding_box()["y"] == top


def test_the_reference_is_linked(page: Any, expect: Any) -> None:
    page.goto("/dashboard")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="API").click()

    expect(page).to_have_url(re.compile("/_docs$"))


def test_pinned_items_name_the_rule_that_applied(
    page: Any, service: Service, expect: Any, axe: str
) -> None:
    rules = [
        {"when": {"query": {"is": "thing"}}, "pin": [BIG_ID, {"id": "a/7 b", "position": 2}]},
        {"name": "all year", "pin": ["a/7 b"]},
        {"name": "later", "when": {"query": {"is": "other"}}, "pin": ["a/1 b"]},
    ]
    service.make_index("pinned", {"rules": rules}, THINGS)
    page.goto("/dashboard/pinned?q=thing")
    marks = page.locator(".item .item-pin")
    expect(marks).to_have_text(["Pinned by “rule 1”", "Pinned by “rule 1”"])
    pinned = page.locator(".item").filter(has=page.locator(".item-pin"))
    expect(pinned.locator("h2")).to_have_text(["Thing 0", "Thing 7"])
    assert violations(page, axe) == []
    page.goto("/dashboard/pinned?q=thing+7&view=table")
    expect(page.locator("th .item-pin")).to_have_text(["Pinned by “all year”"])
    assert violations(page, axe) == []
    page.set_viewport_size({"width": 360, "height": 700})
    page.goto("/dashboard/pinned?q=thing")
    expect(marks.first).to_be_visible()
    assert violations(page, axe) == []
