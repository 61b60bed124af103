"""The search page in Chromium: text, facets, ranges, paging, items and their actions."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest

from tests.dashboard import screenshot
from tests.dashboard.conftest import Service
from tests.dashboard.search_page import facet, open_facet, range_of, state_of, total_text, value

pytestmark = pytest.mark.usefixtures("films")

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def test_search_as_you_type_with_highlighting(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard/films")
    expect(page.locator(".total")).to_have_text(total_text(service, "films", {}))

    page.get_by_role("searchbox", name="Search films").press_sequentially("priso", delay=20)

    expect(page.locator(".total")).to_have_text(total_text(service, "films", {"query": "priso"}))
    expect(page.locator(".item mark").first).to_have_text(re.compile("^priso", re.I))
    assert state_of(page) == {"q": ["priso"]}


def test_any_names_of_fields_are_shown(page: Any, service: Service, expect: Any) -> None:
    names = {"": "none", " ": "blank", "_": "low", ".": "dot", "a.b": "dotted", "é\n😀": "odd"}
    facets: dict[str, Any] = {"aggregations": {name: {} for name in names if name}}
    service.call("POST", "/names/configuration", facets)
    service.call("POST", "/names/items", [{"id": n, **names} for n in range(3)])
    page.goto("/dashboard/names")
    expect(page.locator(".total")).to_have_text("3 items")
    expect(page.locator(".facets").get_by_text("dotted").first).to_be_visible()
    page.locator(".item").first.click()


def test_on_paper_is_what_was_found_without_what_can_be_pressed(page: Any, expect: Any) -> None:
    page.goto("/dashboard/films?q=godfather")
    expect(page.locator(".item").first).to_be_visible()
    page.emulate_media(media="print")
    for hidden in (".top", ".facets", ".item button", ".toolbar .button"):
        expect(page.locator(hidden).first).to_be_hidden()
    for shown in (".item", ".total", ".search-input"):
        expect(page.locator(shown).first).to_be_visible()


def test_a_value_is_selected_then_excluded_then_neither(
    page: Any, service: Service, expect: Any
) -> None:
    page.goto("/dashboard/films")
    drama = value(page, "Genres", "Drama")
    drama.click()
    expect(drama).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".total")).to_have_text(
        total_text(service, "films", {"filters": {"genres": ["Drama"]}})
    )
    assert state_of(page) == {"is.genres": ["Drama"]}

    drama.click()
    expect(drama).to_have_attribute("aria-pressed", "mixed")
    expect(page.locator(".total")).to_have_text(
        total_text(service, "films", {"not_filters": {"genres": ["Drama"]}})
    )
    assert state_of(page) == {"not.genres": ["Drama"]}
    expect(page.locator(".chip")).to_have_text("Genres: not Drama")

    drama.click()
    expect(drama).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".total")).to_have_text(total_text(service, "films", {}))
    expect(page.locator(".chips")).to_be_hidden()


def test_counts_agree_with_the_service(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard/films?is.genres=Crime")
    expect(page.locator(".chip")).to_be_visible()
    expect(value(page, "Genres", "Crime")).to_have_attribute("aria-pressed", "true")
    request = {"filters": {"genres": ["Crime"]}, "facet_fields": ["genres"]}
    answer = service.call("POST", "/films/search", request)

    buckets = answer["data"]["aggregations"]["genres"]["buckets"]
    expected = [[b["key"], f"{b['doc_count']:,}"] for b in buckets if b["doc_count"]]
    shown = facet(page, "Genres").locator(".value")
    expect(shown).not_to_have_count(0)
    texts = [
        [row.locator(".value-key").inner_text(), row.locator(".value-count").inner_text()]
        for row in shown.all()
    ]
    assert texts[: len(expected)] == expected


def test_and_or_switch(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard/films?is.genres=Crime&is.genres=Comedy")
    expect(page.locator(".total")).to_have_text(
        total_text(service, "films", {"filters": {"genres": {"all": ["Crime", "Comedy"]}}})
    )
    facet(page, "Genres").get_by_role("button", name="or", exact=True).click()
    expect(page.locator(".total")).to_have_text(
        total_text(service, "films", {"filters": {"genres": {"any": ["Crime", "Comedy"]}}})
    )
    assert state_of(page)["join.genres"] == ["any"]


def test_more_values_and_search_within_a_facet(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard/films")
    actors = facet(page, "Actors")
    first = service.call("POST", "/films/facet", {"name": "actors", "page": 2})
    actors.get_by_role("button", name="More values of Actors").click()
    expect(actors.locator(".value-key").first).to_have_text(first["data"]["buckets"][0]["key"])
    expect(actors).to_contain_text(f"11–20 of {first['pagination']['total']:,}")
    assert state_of(page) == {"at.actors": ["2"]}

    actors.get_by_role("searchbox").fill("hanks")
    expect(actors.locator(".value-key").first).to_have_text("Tom Hanks")
    value(page, "Actors", "Tom Hanks").click()
    expect(page.locator(".total")).to_have_text(
        total_text(service, "films", {"filters": {"actors": ["Tom Hanks"]}})
    )
    actors.get_by_role("searchbox").fill("")
    expect(actors.locator(".value-key").first).to_have_text("Tom Hanks")
    expect(actors.locator(".value").first).to_have_attribute("aria-pressed", "true")


def test_brush_a_histogram(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard/films")
    expect(page.locator(".item").first).to_be_visible()
    plot = open_facet(page, "Year").locator(".plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 20, steps=5)
    page.mouse.up()

    page.wait_for_url("**range.year=*")
    low, high = range_of(page, "year")
    assert low < high
    wanted = {"filters": {"year": {"gte": low, "lt": high}}}
    expect(page.locator(".total")).to_have_text(total_text(service, "films", wanted))
    expect(page.locator(".chip")).to_contain_text("Year: ")

    handle = page.get_by_role("slider", name="Year, lower end")
    handle.focus()
    handle.press("ArrowRight")
    page.wait_for_url(lambda url: f"range.year={low:.0f}.." not in url)
    moved, same = range_of(page, "year")
    assert moved > low
    assert same == high

    facet(page, "Year").get_by_label("Year from").fill("1999")
    facet(page, "Year").get_by_label("Year to").fill("1999")
    facet(page, "Year").get_by_label("Year to").press("Tab")
    expect(page.locator(".total")).to_have_text(
        total_text(service, "films", {"filters": {"year": {"gte": 1999, "lte": 1999}}})
    )
    page.get_by_role("button", name="Clear the range of Year").click()
    expect(page.locator(".total")).to_have_text(total_text(service, "films", {}))


def test_date_histogram(page: Any, service: Service, expect: Any) -> None:
    items = [{"id": n, "day": f"20{n:02d}-0{1 + n % 9}-15"} for n in range(24)]
    service.make_index("dated", {"aggregations": {"day": {}}}, items)
    page.goto("/dashboard/dated")

    section = facet(page, "Day")
    expect(section.locator(".plot .bar")).to_have_count(24)
    expect(section.locator(".plot svg")).to_have_attribute("aria-label", re.compile("24 items"))
    section.get_by_label("Day from").fill("2010-01-01")
    section.get_by_label("Day from").press("Tab")
    expect(page.locator(".total")).to_have_text("14 items")
    expect(page.locator(".chip")).to_have_text("Day: from 2010-01-01")


def test_sort_page_and_back(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard/films")
    page.get_by_label("Sort by").select_option("year")
    page.get_by_role("button", name=re.compile("Ascending")).click()
    newest = service.call(
        "POST", "/films/search", {"sort_field": "year", "order": "desc", "page": 2, "per_page": 20}
    )["data"]["items"]
    page.get_by_role("button", name="Page 2", exact=True).click()
    expect(page.locator(".item h2").first).to_have_text(newest[0]["name"])
    assert state_of(page) == {"sort": ["year:desc"], "page": ["2"]}

    page.go_back()
    expect(page.get_by_role("button", name="Page 1", exact=True)).to_have_attribute(
        "aria-current", "page"
    )
    assert state_of(page) == {"sort": ["year:desc"]}
    page.go_back()
    page.go_back()
    expect(page.get_by_label("Sort by")).to_have_value("")
    page.go_forward()
    expect(page.get_by_label("Sort by")).to_have_value("year")


def test_the_url_carries_the_whole_state(page: Any, service: Service, expect: Any) -> None:
    page.goto(
        "/dashboard/films?q=war&sort=year:asc&is.genres=Drama&not.country=Japan"
        "&range.year=1950..2000&join.genres=any&view=json&per_page=10&explain=1"
    )
    request = {
        "query": "war",
        "filters": {"genres": ["Drama"], "year": {"gte": 1950, "lt": 2000}},
        "not_filters": {"country": ["Japan"]},
    }
    expect(page.locator(".total")).to_have_text(total_text(service, "films", request))
    expect(page.get_by_role("searchbox", name="Search films")).to_have_value("war")
    expect(page.locator(".chip")).to_have_count(3)
    expect(page.get_by_role("button", name="JSON")).to_have_attribute("aria-pressed", "true")
    assert json.loads(page.locator(".item pre").first.inner_text())["id"]


def test_edit_and_delete(page: Any, service: Service, expect: Any) -> None:
    big = 2**62 + 1
    items = [{"id": big, "name": "First"}, {"id": "second", "name": "Second"}]
    service.make_index("editable", {"aggregations": {}}, items)
    page.goto("/dashboard/editable")

    page.get_by_role("button", name="Edit First").click()
    area = page.get_by_role("dialog").get_by_role("textbox")
    expect(area).to_have_value(re.compile(f'"id": {big}'))
    area.fill(json.dumps({"id": big, "name": "Changed"}))
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".item h2").first).to_have_text("Changed")
    assert service.call("GET", f"/editable/items/{big}")["name"] == "Changed"

    page.get_by_role("button", name="Edit Changed").click()
    expect(area).to_be_enabled()
    area.fill("{broken")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("not JSON")
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Delete Second").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator(".total")).to_have_text("1 item")
    assert service.call("GET", "/editable/stats")["items"] == 1


def test_an_edit_that_was_overtaken_is_refused(page: Any, service: Service, expect: Any) -> None:
    service.make_index("contested", {"aggregations": {}}, [{"id": 1, "name": "Mine"}])
    page.goto("/dashboard/contested")
    page.get_by_role("button", name="Edit Mine").click()
    area = page.get_by_role("dialog").get_by_role("textbox")
    expect(area).to_be_enabled()
    service.call("POST", "/contested/items/1/update", {"id": 1, "name": "Theirs"})

    area.fill('{"id": 1, "name": "Lost"}')
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Somebody changed")
    assert service.call("GET", "/contested/items/1")["name"] == "Theirs"


def test_explanation_and_timings(page: Any, expect: Any) -> None:
    page.goto("/dashboard/films?q=prison+escape&explain=1")
    explanation = page.locator(".item").first.get_by_role("group", name="Why this rank")
    expect(explanation.locator(".stack-part").first).to_be_visible()
    expect(explanation.locator(".legend")).to_contain_text("prison")
    total = float(explanation.locator("p").inner_text().removeprefix("Score "))
    parts = [float(part) for part in explanation.locator(".legend b").all_inner_texts()]
    assert sum(parts) == pytest.approx(total, rel=0.02, abs=0.01 * len(parts))

    page.locator(".timings summary").click()
    expect(page.locator(".timings .legend li").first).to_be_visible()
    expect(page.locator(".timings")).to_contain_text("as seen by this browser")


def test_every_part_of_a_score_has_a_name(page: Any, service: Service, expect: Any) -> None:
    items = [{"id": n, "title": ["Lamp", "Lamp shade", "Desk"][n % 3], "sold": n} for n in range(9)]
    rules = [
        {"name": "desk first", "pin": [{"id": 2, "position": 1}]},
        {"name": "old stock", "bury": ["sold < 3"]},
        {"name": "this week", "boost": [{"filter": "sold = 6", "factor": 3}]},
    ]
    boost = {"sold": {"log": 0.3}}
    service.make_index(
        "ranked", {"searchable_fields": ["title"], "rules": rules, "boost": boost}, items
    )
    page.goto("/dashboard/ranked?q=lamp&explain=1")
    shown = page.get_by_role("group", name="Why this rank")
    expect(shown.first).to_contain_text("Pinned to place 1 by the rule “desk first”")
    for part in (
        "a whole field as typed",
        "“lamp” in title",
        "boost by sold",
        "the rule “this week”",
        "Lowered by the rule “old stock”",
    ):
        expect(shown.filter(has_text=part).first).to_be_visible()
    page.goto("/dashboard/ranked?q=lamp+shade+desk&explain=1")
    expect(shown.filter(has_text="“lamp” in title").first).to_be_visible()
    assert "undefined" not in page.locator(".results").inner_text()


@pytest.mark.own_tab
def test_copy_as_curl(page: Any, service: Service, expect: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/dashboard/films?q=it's&is.genres=Drama")
    expect(page.locator(".total")).to_be_visible()
    expect(page.locator(".timings")).to_be_visible()
    page.get_by_role("button", name="Copy as curl").click()
    expect(page.locator(".toast")).to_be_visible()
    command = page.evaluate("navigator.clipboard.readText()")

    assert command.startswith(f"curl '{service.url}/films/search'")
    if shutil.which("curl"):
        answer = subprocess.run(["sh", "-c", command], capture_output=True, check=True).stdout
        found = json.loads(answer)
        assert total_text(
            service, "films", {"query": "it's", "filters": {"genres": ["Drama"]}}
        ).startswith(f"{found['pagination']['total']} ")


@pytest.mark.own_tab
def test_an_older_answer_never_replaces_a_newer_one(page: Any, expect: Any) -> None:
    """Answers to early letters are held back, and the abort is ignored, as a bad proxy would."""
    page.add_init_script(
        """
        const original = window.fetch;
        window.fetch = async (path, options) => {
          const { signal, ...rest } = options ?? {};
          const query = path.endsWith("/search") ? JSON.parse(rest.body).query ?? "" : "";
          const answer = await original(path, rest);
          const late = { g: 900, go: 700, god: 500, godf: 300 }[query] ?? 0;
          await new Promise((resolve) => setTimeout(resolve, late));
          return answer;
        };
        window.shown = [];
        new MutationObserver(() => {
          const title = document.querySelector(".item h2")?.textContent;
          if (title && title !== window.shown.at(-1)) window.shown.push(title);
        }).observe(document, { childList: true, subtree: true });
        """
    )
    page.goto("/dashboard/films")
    expect(page.locator(".item").first).to_be_visible()
    page.evaluate("window.shown.length = 0")
    search = page.get_by_role("searchbox", name="Search films")
    search.press_sequentially("godfather", delay=60)
    expect(page.locator(".item h2").first).to_have_text("The Godfather")
    page.wait_for_timeout(1200)
    expect(page.locator(".item h2").first).to_have_text("The Godfather")
    assert page.evaluate("window.shown.at(-1)") == "The Godfather"
    assert "q=godfather" in page.url


def test_values_full_of_markup_are_shown_as_text(page: Any, service: Service, expect: Any) -> None:
    item = {"id": EVIL, "name": f"{EVIL} & co", "tags": [EVIL, "&amp;"], "deep": {"x": EVIL}}
    configuration = {"aggregations": {"tags": {"title": EVIL}}}
    service.make_index("evil", configuration, [item])
    page.goto("/dashboard/evil?q=script")

    expect(page.locator(".item h2")).to_have_text(f"{EVIL} & co")
    expect(page.locator(".item h2 mark").first).to_have_text("script")
    expect(page.locator(".value-key").first).to_have_text(re.compile(re.escape("&amp;") + "|<scr"))
    expect(page.locator(".facet-title")).to_have_text(EVIL)
    page.get_by_role("button", name="JSON").click()
    expect(page.locator(".item pre")).to_contain_text("<script>alert(1)</script>")
    assert page.locator("main script, main img").count() == 0


def test_large_integers_are_not_rounded(page: Any, service: Service, expect: Any) -> None:
    exact = 2**63 - 1
    service.make_index("large", {"aggregations": {}}, [{"id": exact, "name": "Largest"}])
    page.goto("/dashboard/large?view=json")
    expect(page.locator(".item pre")).to_contain_text(str(exact))
    expect(page.locator(".item-id")).to_have_text(str(exact))


def test_a_facet_of_35000_values_is_paged_not_rendered(
    page: Any, service: Service, expect: Any
) -> None:
    items = [{"id": n, "name": f"n{n}", "product": f"product {n:05d}"} for n in range(35_000)]
    service.make_index("many", {"aggregations": {"product": {}}}, items)
    page.goto("/dashboard/many")
    section = facet(page, "Product")
    section.get_by_role("button", name="More values of Product").click()
    expect(section).to_contain_text("11–20 of 35,000")
    page.goto("/dashboard/many?at.product=3500")
    expect(section).to_contain_text("34,991–35,000 of 35,000")
    expect(section.locator(".value-key").last).to_have_text("product 34999")
    assert section.locator(".value").count() == 10
    assert page.evaluate("document.querySelectorAll('*').length") < 2000
    section.get_by_role("searchbox").fill("12345")
    expect(section.locator(".value-key").first).to_have_text("product 12345")


def test_items_are_shown_as_the_configuration_says(
    page: Any, service: Service, expect: Any
) -> None:
    picture = service.url + "/dashboard/assets/icon.svg"
    things = [
        {"id": n, "code": f"code {n}", "label": f"Thing {n}", "cover": picture, "price": n}
        for n in range(3)
    ]
    configuration = {"display": {"title": "label", "image": "cover", "fields": ["price"]}}
    service.make_index("things", configuration, things)
    page.goto("/dashboard/things")

    expect(page.locator(".item h2").first).to_have_text("Thing 0")
    expect(page.get_by_role("img", name="Picture of Thing 0")).to_be_visible()
    expect(page.locator(".item").first.locator("dt").first).to_have_text("Price")

    page.get_by_role("button", name="Table").click()
    headings = page.locator(".items-table thead th")
    expect(headings).to_have_text(["Label", "Price"])
    expect(page.locator(".items-table tbody tr").nth(2)).to_contain_text("Thing 2")
    assert state_of(page)["view"] == ["table"]


def test_a_date_in_a_table_stays_on_one_line(page: Any, service: Service, expect: Any) -> None:
    text = "a long text that takes what room there is " * 8
    item = {"id": 1, "title": "Thing", "made": "2024-01-10", "a": text, "b": text, "c": text}
    service.make_index("dated", {}, [item])
    page.goto("/dashboard/dated?view=table")
    date = page.get_by_role("cell", name="2024-01-10", exact=True)
    expect(date).to_be_visible()
    lines = date.evaluate(
        """td => { const range = document.createRange(); range.selectNodeContents(td);
        return range.getClientRects().length; }"""
    )
    assert lines == 1


def test_the_keys_of_the_keyboard_are_told_apart(page: Any, service: Service, expect: Any) -> None:
    service.make_index("dated", {}, [])
    page.goto("/dashboard")
    page.get_by_role("button", name="Keyboard").click()
    keys = page.get_by_role("dialog").locator("kbd").filter(has_text="g i")
    assert keys.inner_text() == "g i   g s   g h"


def test_the_heaviest_searchable_field_heads_an_item(
    page: Any, service: Service, expect: Any
) -> None:
    things = [{"id": 1, "name": "80", "model": "LaserJet 4100"}]
    service.make_index("printers", {"searchable_fields": ["name", "model^3"]}, things)
    page.goto("/dashboard/printers")

    expect(page.locator(".item h2").first).to_have_text("LaserJet 4100")


def test_pages_of_a_facet_leave_out_values_without_a_hit(
    page: Any, service: Service, expect: Any
) -> None:
    things = [{"id": n, "kind": "a" if n < 20 else "b", "tag": f"t{n:02}"} for n in range(40)]
    service.make_index("many", {"aggregations": {"tag": {}, "kind": {}}}, things)
    page.goto("/dashboard/many?is.kind=a&at.tag=2")

    expect(facet(page, "Tag").locator(".facet-pages")).to_contain_text("11–20 of 20")


def test_the_picture_in_the_documents_can_be_drawn_again(browser: Any, service: Service) -> None:
    service.make_films("films")
    for picture in (screenshot.draw(browser, service), screenshot.PICTURE.read_bytes()):
        assert picture[8:12] == b"WEBP"
        assert len(picture) <= screenshot.PICTURE_BYTES_MAX


def test_any_field_can_be_a_facet_and_dates_end_with_9999(
    page: Any, service: Service, expect: Any
) -> None:
    items = [
        {"id": n, "until": "9999-12-31" if n == 1 else f"20{n:02}-05-01"}
        | ({"constructor": f"Team {n % 3}"} if n % 2 else {})
        for n in range(1, 60)
    ]
    service.make_index("odd", {"aggregations": {"constructor": {}, "until": {}}}, items)
    page.goto("/dashboard/odd?view=table")
    expect(page.locator(".total")).to_have_text("59 items")
    page.locator(".value-key").get_by_text("Team 1", exact=True).click()
    expect(page.locator(".total")).to_have_text("10 items")
    page.get_by_role("button", name="Remove Constructor: Team 1").click()
    expect(page.locator(".total")).to_have_text("59 items")
    expect(page.locator(".items-table")).not_to_contain_text("native code")
    until = page.get_by_role("region", name="Until", exact=True)
    expect(until.locator("svg[role=img]")).to_have_attribute("aria-label", re.compile(": 59 items"))
    expect(page.get_by_role("alert")).to_have_count(0)
