"""The list of indexes in Chromium: creating, configuring, loading, emptying, removing; health."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from coordinator.dashboard import ASSETS_PATH
from tests.dashboard.conftest import Service, drop_file

pytestmark = pytest.mark.usefixtures("films")


def test_list_shows_items_size_shards_and_state(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard")

    row = page.locator(".index-row").filter(has=page.get_by_role("link", name="films", exact=True))
    entry = next(i for i in service.call("GET", "/_indexes")["indexes"] if i["name"] == "films")
    expect(row.locator("dd").nth(0)).to_have_text(f"{entry['items']:,}")
    expect(row.locator("dd").nth(1)).to_have_text(re.compile(r"\d.* [kMG]?B"))
    expect(row.locator("dd").nth(2)).to_have_text("2")
    expect(row.locator(".state")).to_have_text(entry["state"])
    expect(row.get_by_role("listitem").filter(has_text="Genres")).to_be_visible()


def test_the_tab_keeps_its_icon_on_the_pages_of_the_list(page: Any, service: Service) -> None:
    """A relative address of the list's page would lead nowhere on an index's."""
    page.goto("/dashboard")
    page.get_by_role("link", name="films", exact=True).click()
    page.wait_for_url("**/dashboard/films")
    icon = page.evaluate("document.querySelector('link[rel=icon]').href")
    assert icon == f"{service.url}/{ASSETS_PATH}/icon.svg"


def test_create_configure_load_empty_and_remove(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard")
    page.get_by_role("button", name="Create index").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name").fill("made by hand")
    dialog.get_by_role("button", name="Add a facet").click()
    dialog.get_by_label("Field", exact=True).fill("tags")
    dialog.get_by_label("Title").fill("Topics")
    dialog.get_by_label("Values").fill("7")
    dialog.get_by_role("button", name="Create index").click()

    expect(page.get_by_text("This index is empty")).to_be_visible()
    configuration = service.call("GET", "/made%20by%20hand/configuration")
    assert configuration["aggregations"] == {"tags": {"title": "Topics", "size": 7}}

    lines = "\n".join([json.dumps({"id": n, "tags": ["a"]}) for n in range(9)] + ["{broken", "[1]"])
    page.goto("/dashboard")
    name = "made by hand"
    page.get_by_role("button", name=f"Load a file into {name}").click()
    drop_file(page, ".drop-zone", "items.ndjson", lines)
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("checkbox").check()
    dialog.get_by_role("button", name="Load", exact=True).click()
    expect(dialog.locator(".tile dd").nth(0)).to_have_text("9")
    expect(dialog.locator(".tile dd").nth(2)).to_have_text("2")
    expect(dialog.get_by_role("row").nth(1)).to_contain_text("10")
    dialog.get_by_role("button", name="Done").click()

    row = page.locator(".index-row").filter(has_text=name)
    expect(row.locator("dd").nth(0)).to_have_text("9")
    page.get_by_role("button", name=f"Empty {name}").click()
    page.get_by_role("dialog").get_by_role("textbox").fill(name)
    page.get_by_role("button", name="Empty the index").click()
    expect(row.locator("dd").nth(0)).to_have_text("0")
    assert service.call("GET", "/made%20by%20hand/configuration") == configuration

    page.get_by_role("button", name=f"Remove {name}").click()
    remove = page.get_by_role("button", name="Remove the index")
    expect(remove).to_be_disabled()
    page.get_by_role("dialog").get_by_role("textbox").fill("made by han")
    expect(remove).to_be_disabled()
    page.get_by_role("dialog").get_by_role("textbox").fill(name)
    remove.click()
    expect(row).to_have_count(0)


@pytest.mark.parametrize("fails", [False, True])
def test_emptying_keeps_configuration_and_aliases_or_changes_nothing(
    page: Any, service: Service, expect: Any, fails: bool
) -> None:
    name = "n" * 63 + ("1" if fails else "0")
    configuration = {"aggregations": {"tags": {"size": 3}}}
    service.call("POST", f"/{name}/configuration", configuration)
    # A deletion by filter would leave an item without an id.
    service.call("POST", f"/{name}/items", [{"id": 1, "tags": ["a"]}, {"tags": ["b"]}])
    service.call("POST", "/_aliases", {"aliases": {f"alias-{fails}": name}})
    try:
        if fails:
            page.route("**/rename", lambda route: route.fulfill(status=500, json={}))
        page.goto("/dashboard")
        page.get_by_role("button", name=f"Empty {name}").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("textbox").fill(name)
        dialog.get_by_role("button", name="Empty the index").click()
        if fails:
            expect(dialog.get_by_role("alert")).not_to_be_empty()
        else:
            expect(dialog).to_have_count(0)

        summary = service.call("GET", f"/{name}")
        assert summary["items"] == (2 if fails else 0)
        assert summary["aliases"] == [f"alias-{fails}"]
        assert service.call("GET", f"/{name}/configuration") == configuration
        names = [one["name"] for one in service.call("GET", "/_indexes")["indexes"]]
        assert not [one for one in names if "-empty-" in one]
    finally:
        service.call("DELETE", f"/{name}")


def test_configuration_mistakes_are_shown_at_the_field(page: Any, expect: Any) -> None:
    page.goto("/dashboard")
    page.get_by_role("button", name="Configure films").click()
    dialog = page.get_by_role("dialog")
    size = dialog.locator('[data-path="aggregations.tags.size"]')
    # The control itself allows no negative number; the service must be asked to see its message.
    size.evaluate("input => { input.removeAttribute('min'); input.value = '-3' }")
    dialog.get_by_role("button", name="Save").click()
    expect(size).to_have_attribute("aria-invalid", "true")
    expect(dialog.locator(".at-field")).to_contain_text("size")
    size.fill("")

    dialog.get_by_role("tab", name="JSON").click()
    area = dialog.get_by_role("textbox", name="Configuration as JSON")
    area.fill('{"aggregations": {"tags": {"size": "many"}}}')
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("aggregations.tags.size")
    area.fill('{"aggregations": ')
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("not JSON")


def test_health(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard/_health")
    expect(page.get_by_text(re.compile("All 2 shards serve"))).to_be_visible()
    shards = page.get_by_role("region", name="Shards").get_by_role("row")
    expect(shards).to_have_count(3)
    expect(page.get_by_role("region", name="Segments").get_by_role("row").nth(1)).to_be_visible()
    expect(page.locator(".chart svg").first).to_have_attribute("aria-label", re.compile("Requests"))
    expect(page.locator(".line").first).to_have_attribute("d", re.compile("L"))
