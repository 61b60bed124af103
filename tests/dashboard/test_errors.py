"""What the dashboard says when nothing is found, or something fails."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest

from tests.dashboard.conftest import Service, Tab
from tests.dashboard.search_page import total_text

pytestmark = pytest.mark.usefixtures("films")


def test_an_unknown_index_says_what_to_do(page: Any, expect: Any) -> None:
    page.goto("/dashboard/not%20there")
    expect(page.get_by_role("heading", name="There is no index “not there”")).to_be_visible()
    page.get_by_role("button", name="Create it").click()
    expect(page.get_by_role("dialog").get_by_role("textbox", name="Name")).to_have_value(
        "not there"
    )


def test_no_hits_offers_a_way_back(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard/films?is.genres=Drama&range.year=3000..")
    expect(page.get_by_text("No item matches")).to_be_visible()
    page.get_by_role("button", name="Remove all filters").click()
    expect(page.locator(".total")).to_have_text(total_text(service, "films", {}))


def test_words_of_no_item_are_named(page: Any, expect: Any) -> None:
    page.goto("/dashboard/films?q=xqzxqz")
    expect(page.get_by_text("In no item: xqzxqz.")).to_be_visible()
    page.goto("/dashboard/films?q=godfather xqzxqz")
    expect(page.get_by_text("Found nowhere, so left out: xqzxqz.")).to_be_visible()


def test_a_failing_search_says_so_and_recovers_by_itself(
    page: Any, service: Service, expect: Any
) -> None:
    page.goto("/dashboard/films")
    expect(page.locator(".item").first).to_be_visible()
    error = {"code": "shard_unavailable", "message": "Shard 1 does not answer.", "status": 503}
    page.route(
        "**/films/search",
        lambda route: route.fulfill(status=503, json={"error": error}),
    )
    page.get_by_role("searchbox", name="Search films").fill("war")
    expect(page.get_by_role("alert")).to_contain_text("Shard 1 does not answer.")
    expect(page.locator(".item").first).to_be_visible()
    page.unroute("**/films/search")
    expect(page.locator(".total")).to_have_text(total_text(service, "films", {"query": "war"}))
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_killed_shard_is_survived(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard/films")
    expect(page.locator(".item").first).to_be_visible()
    os.kill(service.call("GET", "/_stats")["shards"][1]["pid"], signal.SIGKILL)

    page.get_by_role("searchbox", name="Search films").fill("love")
    # Whether the page saw an error depends on how fast the shard is back; in the end it is right.
    expect(page.locator(".total")).to_have_text(re.compile(r"^\d+ items$"), timeout=30_000)
    service.wait_until_ready()
    total = total_text(service, "films", {"query": "love"})
    expect(page.locator(".total")).to_have_text(total, timeout=30_000)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_service_that_needs_a_key_asks_for_it(page: Any, expect: Any) -> None:
    keys: list[str | None] = []

    def guard(route: Any) -> None:
        keys.append(route.request.headers.get("x-api-key"))
        if keys[-1] == "secret":
            route.continue_()
        else:
            error = {"code": "unauthorized", "message": "A key is needed.", "status": 401}
            route.fulfill(status=401, json={"error": error})

    page.route("**/_indexes", guard)
    page.goto("/dashboard")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("API key").fill("wrong")
    dialog.get_by_label("API key").press("Enter")
    expect(dialog.locator(".field-error")).to_have_text("A key is needed.")
    dialog.get_by_label("API key").fill("secret")
    dialog.get_by_label("API key").press("Enter")
    expect(page.get_by_role("link", name="films", exact=True)).to_be_visible()
    assert page.evaluate("sessionStorage.getItem('facetd-api-key')") == "secret"
    assert keys[:3] == [None, "wrong", "secret"]


def test_an_address_that_is_no_text_is_no_index(page: Any, expect: Any) -> None:
    page.goto("/dashboard/50%")
    expect(page.get_by_role("heading", name="There is no index “50%”")).to_be_visible()


def test_what_fails_in_a_long_dialog_is_in_sight(tab: Tab, expect: Any) -> None:
    error = {"code": "insufficient_storage", "message": "The disk is full.", "status": 507}
    with tab.used(viewport={"width": 360, "height": 640}) as page:
        page.goto("/dashboard/films")
        page.get_by_role("button", name="Configure", exact=True).click()
        dialog = page.get_by_role("dialog")
        page.route(
            "**/films/configuration", lambda route: route.fulfill(status=507, json={"error": error})
        )
        dialog.get_by_role("button", name="Save").click()
        alert = dialog.get_by_role("alert").filter(has_text="The disk is full.")
        expect(alert).to_be_in_viewport(ratio=1)
        save = dialog.get_by_role("button", name="Save").bounding_box()
        told = alert.bounding_box()
        assert told["y"] + told["height"] <= save["y"]


def test_who_enters_no_key_is_asked_once_and_told_nothing_false(page: Any, expect: Any) -> None:
    """The page said that without a key everybody may do anything."""
    error = {"code": "unauthorized", "message": "The key has expired.", "status": 401}
    page.route(
        re.compile("/_(keys|aliases|indexes|snapshots)$"),
        lambda route: route.fulfill(status=401, json={"error": error}),
    )
    page.goto("/dashboard/_service")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_role("alert")).to_contain_text("The key has expired.")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("main")).not_to_contain_text("everybody")

    page.get_by_role("button", name="Try again").click()
    page.unroute_all()
    dialog.get_by_label("API key").fill("another")
    dialog.get_by_role("button", name="Use this key").click()
    expect(page.get_by_role("main")).to_contain_text("everybody")
    expect(page.get_by_text("No alias yet")).to_be_visible()
