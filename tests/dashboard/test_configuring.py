"""Forms of the configuration with a preview, and two configurations side by side."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.conftest import Service, Tab, violations

CONFIGURATION: dict[str, Any] = {
    "aggregations": {"kind": {"size": 5}},
    "searchable_fields": ["name"],
    "rules": [{"name": "kept", "when": {"from": "2020-01-01"}, "bury": ["kind = b"]}],
    "boost": {"year": {"reciprocal": 5, "origin": 2020}},
    "unknown_to_the_form": {"a": 1},
}
ITEMS = [
    {"id": n, "name": f"Lamp {'big ' * n}", "kind": "ab"[n % 2], "sold": n * 100, "year": 2000 + n}
    for n in range(1, 7)
] + [{"id": 7, "name": "Lantern", "kind": "a", "sold": 1, "year": 2001}]


@pytest.fixture(autouse=True)
def lamps(browser: Any, service: Service) -> None:
    """A fresh index `lamps` (after the browser: nothing starts without one)."""
    service.make_index("lamps", CONFIGURATION, ITEMS)
    for index in service.call("GET", "/_indexes")["indexes"]:
        if index["name"].startswith("lamps-trial"):
            service.call("DELETE", f"/{index['name']}")


def open_part(page: Any, part: str) -> Any:
    page.goto("/dashboard/lamps")
    page.get_by_role("button", name="Configure", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("tab", name=part).click()
    return dialog


def titles(page: Any, side: int) -> Any:
    return page.locator(".compared-side").nth(side).locator("li a")


def test_the_form_keeps_what_it_does_not_know(page: Any, service: Service, expect: Any) -> None:
    dialog = open_part(page, "Ranking")
    expect(
        dialog.get_by_role("group", name="boost", exact=True).get_by_label("How")
    ).to_be_disabled()
    for part in ("Synonyms", "Rules", "Search", "JSON", "Facets"):
        dialog.get_by_role("tab", name=part).click()
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)

    assert service.call("GET", "/lamps/configuration") == CONFIGURATION


def test_rules_are_previewed_and_saved(page: Any, service: Service, expect: Any, axe: str) -> None:
    dialog = open_part(page, "Rules")
    expect(dialog.get_by_role("group", name="rule", exact=True)).to_have_count(1)
    dialog.get_by_text("Preview", exact=True).click()
    dialog.get_by_label("Query to try").fill("lamp")
    expect(titles(page, 0)).to_have_count(6)
    expect(dialog.locator(".comparison")).to_contain_text("The first 6 hits are the same")
    dialog.get_by_role("button", name="Add a rule").click()
    rule = dialog.get_by_role("group", name="rule", exact=True).nth(1)
    rule.get_by_role("textbox", name="Name", exact=True).fill("lamp day")
    rule.get_by_label("It holds").select_option(label="when the query is")
    rule.get_by_role("textbox", name="Query", exact=True).fill("lamp")
    rule.get_by_label("Pin").fill("7, 5@2")
    rule.get_by_label("Hide").fill("1")
    rule.get_by_label("From").fill("2020-01-02")
    rule.get_by_label("Until").fill("2021-01-01")
    expect(titles(page, 1)).to_have_count(6)  # its period is over
    expect(dialog.locator(".comparison")).to_contain_text("The first 6 hits are the same")
    rule.get_by_label("Until").fill("")
    expect(titles(page, 1).first).to_have_text("Lantern")
    expect(dialog.locator(".change.is-new")).to_have_count(1)
    expect(dialog.locator(".change.is-gone")).to_have_count(1)
    assert violations(page, axe) == []
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)

    saved = service.call("GET", "/lamps/configuration")
    assert saved["rules"] == [
        *CONFIGURATION["rules"],
        {
            "name": "lamp day",
            "when": {"query": {"is": "lamp"}, "from": "2020-01-02"},
            "pin": [7, {"id": 5, "position": 2}],
            "hide": [1],
        },
    ]
    page.goto("/dashboard/lamps?q=lamp")
    expect(page.locator(".item h2").first).to_have_text("Lantern")


def test_numbers_that_rank_are_previewed_and_saved(
    page: Any, service: Service, expect: Any
) -> None:
    dialog = open_part(page, "Ranking")
    dialog.get_by_text("Preview", exact=True).click()
    dialog.get_by_label("Query to try").fill("lamp")
    dialog.get_by_role("button", name="Add a number").click()
    boost = dialog.get_by_role("group", name="boost", exact=True).nth(1)
    boost.get_by_label("Field").fill("sold")
    boost.get_by_label("Strength").fill("900")
    expect(dialog.locator(".change.is-up").first).to_be_visible()
    dialog.get_by_label("Hits must have").select_option("any")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)

    saved = service.call("GET", "/lamps/configuration")
    assert saved["boost"] == {**CONFIGURATION["boost"], "sold": {"log": 900}}
    assert saved["match"] == "any"


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_all_parts_of_the_form_are_in_sight(tab: Tab, expect: Any, width: int) -> None:
    with tab.used(viewport={"width": width, "height": 800}) as page:
        tabs = open_part(page, "Facets").get_by_role("tab")
        expect(tabs).to_have_count(6)
        for tab in tabs.all():
            expect(tab).to_be_in_viewport(ratio=1)


def test_what_saves_stays_in_sight_below_a_long_form(tab: Tab, expect: Any) -> None:
    with tab.used(viewport={"width": 390, "height": 600}) as page:
        dialog = open_part(page, "Facets")
        for _ in range(4):
            dialog.get_by_role("button", name="Add a facet").click()
        for label in ("Save", "Cancel"):
            expect(dialog.get_by_role("button", name=label)).to_be_in_viewport(ratio=1)


def test_synonyms_are_tried_in_a_copy_compared_and_taken_over(
    tab: Tab, service: Service, expect: Any, axe: str
) -> None:
    options = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}
    with tab.used(reduced_motion="reduce", **options) as page:
        dialog = open_part(page, "Synonyms")
        for number, words in enumerate(("lantern, lamp", "torch")):
            dialog.get_by_role("button", name="Add synonyms").click()
            row = dialog.get_by_role("group", name="synonym", exact=True).nth(number)
            row.get_by_label("Words").fill(words)
        row.get_by_label("How").select_option(label="also find")
        row.get_by_label("These").fill("lamp, lantern")
        dialog.get_by_text("Preview", exact=True).click()
        dialog.get_by_label("Query to try").fill("lantern")
        expect(dialog).to_contain_text("Not in this preview: synonyms")
        assert violations(page, axe) == []
        dialog.get_by_role("button", name="Try it in a copy").click()

        expect(page).to_have_url(f"{service.url}/dashboard/lamps?compare=lamps-trial&q=lantern")
        expect(titles(page, 0)).to_have_count(1)
        expect(titles(page, 1)).to_have_count(7)
        expect(page.locator(".change.is-new")).to_have_count(6)
        differences = page.get_by_role("region", name="Differences")
        expect(differences).to_contain_text("synonyms")
        assert differences.evaluate("region => region.scrollWidth <= region.clientWidth"), (
            "both values of a setting are in sight on a phone"
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert violations(page, axe) == []

        page.get_by_role("button", name="Configure lamps like lamps-trial").click()
        page.get_by_role("button", name="Replace the configuration").click()
        expect(page.get_by_text("None: both are configured alike")).to_be_visible()
        expect(titles(page, 0)).to_have_count(7)
        page.get_by_role("button", name="Remove lamps-trial").click()
        page.get_by_role("dialog").get_by_role("textbox").fill("lamps-trial")
        page.get_by_role("button", name="Remove the index").click()
        expect(page).to_have_url(f"{service.url}/dashboard/lamps")
    saved = service.call("GET", "/lamps/configuration")["synonyms"]
    assert saved == [["lantern", "lamp"], {"from": ["torch"], "to": ["lamp", "lantern"]}]


def test_two_indexes_are_asked_the_same(page: Any, service: Service, expect: Any) -> None:
    service.make_index("lamps-2", {}, ITEMS[:2])
    page.goto("/dashboard/lamps?q=lamp")
    page.get_by_role("link", name="Compare").click()
    page.get_by_label("Compare with").select_option("lamps-2")
    expect(page).to_have_url(f"{service.url}/dashboard/lamps?compare=lamps-2&q=lamp")
    expect(titles(page, 1)).to_have_count(2)

    page.get_by_label("Query for both").fill("lantern")
    expect(titles(page, 0)).to_have_text(["Lantern"])
    expect(titles(page, 1)).to_have_count(0)
    page.wait_for_url("**q=lantern")


def test_each_of_two_indexes_is_shown_by_its_own_titles(
    page: Any, service: Service, expect: Any
) -> None:
    service.make_index("lamps-3", {}, [{"id": 1, "title": "A lamp of another shop"}])
    page.goto("/dashboard/lamps?compare=lamps-3&q=lamp")
    expect(titles(page, 1)).to_have_text(["A lamp of another shop"])


def test_a_mistake_is_shown_in_its_part_of_the_form(page: Any, expect: Any) -> None:
    dialog = open_part(page, "Rules")
    dialog.get_by_role("button", name="Add a rule").click()
    dialog.get_by_role("group", name="rule", exact=True).nth(1).get_by_label("Show only").fill(
        "kind =="
    )
    dialog.get_by_role("tab", name="Facets").click()
    dialog.get_by_role("button", name="Save").click()

    expect(dialog.get_by_role("tab", name="Rules")).to_have_attribute("aria-selected", "true")
    expect(dialog.locator(".at-field")).to_be_visible()


def test_a_rule_keeps_its_query_given_as_a_text(page: Any, service: Service, expect: Any) -> None:
    """Without it, the rule would hold for every query."""
    rules = [{"when": {"query": "lamp"}, "pin": [7]}]
    service.call("POST", "/lamps/configuration", CONFIGURATION | {"rules": rules})
    dialog = open_part(page, "Rules")
    rule = dialog.get_by_role("group", name="rule", exact=True)
    expect(rule.get_by_role("textbox", name="Query", exact=True)).to_have_value("lamp")
    rule.get_by_label("Pin").fill("6")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)

    saved = service.call("GET", "/lamps/configuration")
    assert saved["rules"] == [{"when": {"query": {"is": "lamp"}}, "pin": [6]}]


def test_ids_of_many_digits_survive_the_form(page: Any, service: Service, expect: Any) -> None:
    pinned = 2**62 + 1
    service.call("POST", "/lamps/configuration", CONFIGURATION | {"rules": [{"pin": [pinned]}]})
    dialog = open_part(page, "Rules")
    pin = dialog.get_by_role("group", name="rule", exact=True).get_by_label("Pin")
    expect(pin).to_have_value(str(pinned))
    for part in ("JSON", "Search"):
        dialog.get_by_role("tab", name=part).click()
    dialog.get_by_label("Stop words").fill("the")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)

    saved = service.call("GET", "/lamps/configuration")
    assert (saved["rules"], saved["stop_words"]) == ([{"pin": [pinned]}], ["the"])


def test_ids_that_only_look_like_numbers_are_pinned(
    page: Any, service: Service, expect: Any
) -> None:
    """007 and 7 are two items; what the notation of the form cannot say stays as it is."""
    kept = {"name": "kept", "pin": ["a,b", "x@5", 7], "hide": ["c, d"]}
    service.call("POST", "/lamps/configuration", CONFIGURATION | {"rules": [kept]})
    dialog = open_part(page, "Rules")
    rule = dialog.get_by_role("group", name="rule", exact=True)
    rule.get_by_role("textbox", name="Name", exact=True).fill("still kept")
    dialog.get_by_role("button", name="Add a rule").click()
    rule.nth(1).get_by_label("Pin").fill("007, 7, 0, 08@2")
    rule.nth(1).get_by_label("Hide").fill("00")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)

    rules = service.call("GET", "/lamps/configuration")["rules"]
    pins = ["007", 7, 0, {"id": "08", "position": 2}]
    assert rules == [kept | {"name": "still kept"}, {"pin": pins, "hide": ["00"]}]


def test_a_number_that_is_wrong_is_shown_from_any_part_of_the_form(page: Any, expect: Any) -> None:
    """Browsers refuse to send it without a word if it is out of sight."""
    dialog = open_part(page, "Facets")
    values = dialog.get_by_role("spinbutton", name="Values")
    values.fill("-1")
    dialog.get_by_role("tab", name="Search").click()
    dialog.get_by_role("button", name="Save").click()

    expect(dialog.get_by_role("tab", name="Facets")).to_have_attribute("aria-selected", "true")
    expect(values).to_be_focused()
    values.fill("3")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
