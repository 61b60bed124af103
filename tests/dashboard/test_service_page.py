"""API keys, aliases and snapshots, as the page of the service shows and changes them."""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.dashboard.conftest import Service, Tab, violations


@pytest.fixture(autouse=True, scope="module")
def books(browser: Any, service: Service) -> None:
    """Two small indexes (after the browser: nothing starts without one)."""
    for name in ("books-1", "books-2"):
        service.make_index(name, {"aggregations": {"year": {}}}, [{"id": 1, "year": 2000}])


def sheet(page: Any, name: str) -> Any:
    return page.locator("section.panel").filter(has=page.get_by_role("heading", name=name))


def row(page: Any, name: str, key: str) -> Any:
    return sheet(page, name).locator("tbody tr").filter(has=page.get_by_role("rowheader", name=key))


def test_an_alias_is_created_changed_and_removed(
    page: Any, service: Service, expect: Any, axe: str
) -> None:
    page.goto("/dashboard/_service")
    page.get_by_role("button", name="Create an alias").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Alias").fill("books-1")
    dialog.get_by_label("Stands for").select_option("books-1")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is an index")
    dialog.get_by_label("Alias").fill("bookshop")
    dialog.get_by_role("button", name="Create").click()
    expect(row(page, "Aliases", "bookshop")).to_contain_text("books-1")
    assert violations(page, axe) == []

    page.get_by_role("button", name="Change the alias bookshop").click()
    dialog.get_by_label("Stands for").select_option("books-2")
    assert violations(page, axe) == []
    dialog.get_by_role("button", name="Save").click()
    expect(row(page, "Aliases", "bookshop")).to_contain_text("books-2")
    assert service.call("GET", "/_aliases")["aliases"] == {"bookshop": "books-2"}

    page.get_by_role("button", name="Remove the alias bookshop").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(sheet(page, "Aliases").get_by_text("No alias yet")).to_be_visible()
    assert service.call("GET", "/_aliases")["aliases"] == {}


@pytest.mark.parametrize("width", [360, 1280])
def test_a_long_list_is_not_cut(tab: Tab, service: Service, expect: Any, width: int) -> None:
    """The page scrolls, not a window within it."""
    aliases = [f"alias-{number}" for number in range(12)]
    service.call("POST", "/_aliases", {"aliases": dict.fromkeys(aliases, "books-1")})
    with tab.used(viewport={"width": width, "height": 740}) as page:
        page.goto("/dashboard/_service")
        rows = sheet(page, "Aliases").locator("tbody tr")
        expect(rows).to_have_count(12)
        assert page.locator(".table-scroll").evaluate_all(
            "all => all.every((one) => one.scrollHeight <= one.clientHeight)"
        )
    service.call("POST", "/_aliases", {"aliases": dict.fromkeys(aliases)})


def test_a_snapshot_is_made_restored_under_another_name_and_removed(
    page: Any, service: Service, expect: Any
) -> None:
    page.goto("/dashboard/_service")
    page.get_by_role("button", name="Make a snapshot").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).not_to_have_value("")
    dialog.get_by_label("Name").fill("by-page")
    dialog.get_by_role("button", name="Make it").click()
    expect(row(page, "Snapshots", "by-page")).to_contain_text("books-1")

    page.get_by_role("button", name="Restore from by-page").click()
    dialog.get_by_label("Index in the snapshot").select_option("books-2")
    name = dialog.get_by_label("As a new index called")
    expect(name).to_have_value("books-2-restored-1")
    dialog.get_by_role("button", name="Restore").click()
    expect(page.locator(".toast").filter(has_text="Restored books-2-restored-1")).to_be_visible()
    assert service.call("GET", "/books-2-restored-1/items/1") == {"id": 1, "year": 2000}

    page.get_by_role("button", name="Remove the snapshot by-page").click()
    dialog.get_by_role("textbox").fill("by-page")
    dialog.get_by_role("button", name="Remove").click()
    expect(row(page, "Snapshots", "by-page")).to_have_count(0)
    assert service.call("GET", "/_snapshots")["snapshots"] == []


@pytest.fixture
def made_keys(service: Service) -> Iterator[list[str]]:
    """Keys that a test has made; all keys are removed afterwards, the first one last."""
    made: list[str] = []
    yield made
    if not made:
        return
    for token in made[::-1]:
        request = urllib.request.Request(
            f"{service.url}/_keys/{token.split('_')[1]}",
            method="DELETE",
            headers={"X-API-Key": made[0]},
        )
        with contextlib.suppress(urllib.error.HTTPError):  # the test has removed it itself
            urllib.request.urlopen(request, timeout=30).close()


def test_keys_are_made_with_limits_shown_once_and_deleted(
    tab: Tab, service: Service, expect: Any, axe: str, made_keys: list[str]
) -> None:
    with tab.used(viewport={"width": 360, "height": 740}, reduced_motion="reduce") as page:
        page.goto("/dashboard/_service")
        dialog = page.get_by_role("dialog")
        expect(sheet(page, "API keys").get_by_text("No key yet")).to_be_visible()
        page.get_by_role("button", name="Create a key").click()
        assert violations(page, axe) == []
        dialog.get_by_label("Description").fill("the owner")
        dialog.get_by_role("button", name="Create the key").click()
        made_keys.append(dialog.get_by_label("API key").input_value())
        shown = dialog.get_by_label("API key")
        is_whole = "(one) => one.scrollHeight <= one.clientHeight + 2"
        assert shown.evaluate(is_whole)
        hyphens = "fk_0123456789ab_-" + "x" * 42
        shown.evaluate("(one, key) => (one.value = key)", hyphens)
        assert shown.evaluate(is_whole), "no key is broken at its hyphens"
        shown.evaluate("(one, key) => (one.value = key)", made_keys[0])
        assert violations(page, axe) == []
        dialog.get_by_role("button", name="Done").click()
        expect(row(page, "API keys", "the owner")).to_contain_text("admin")

        page.get_by_role("button", name="Create a key").click()
        dialog.get_by_label("Description").fill("the shop")
        dialog.get_by_label("On the indexes").fill("books-1, shop-*")
        dialog.get_by_label("Expires").select_option(label="in 30 days")
        dialog.get_by_label("Only items that match").fill("year >")
        dialog.get_by_role("button", name="Create the key").click()
        expect(dialog.get_by_role("alert")).not_to_be_empty()
        dialog.get_by_label("Only items that match").fill("year > 1990")
        dialog.get_by_role("button", name="Create the key").click()
        made_keys.append(dialog.get_by_label("API key").input_value())
        dialog.get_by_role("button", name="Done").click()
        shop = row(page, "API keys", "the shop")
        for text in ("search", "books-1", "shop-*", "year > 1990", "20"):
            expect(shop).to_contain_text(text)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert violations(page, axe) == []
        request = urllib.request.Request(
            service.url + "/_keys", headers={"X-API-Key": made_keys[0]}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            (stored,) = (
                key for key in json.load(answer)["keys"] if key["description"] == "the shop"
            )
        assert stored["actions"] == ["search"]
        assert stored["indexes"] == ["books-1", "shop-*"]
        assert stored["filter"] == "year > 1990"
        assert stored["expires_at"] is not None

        page.get_by_role("button", name="Delete the key the shop").click()
        dialog.get_by_role("button", name="Delete").click()
        expect(shop).to_have_count(0)
