"""A hierarchy of the configuration as a tree of which several branches may be chosen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.conftest import Service, Tab, violations

PATHS = ["Home > Garden > Seeds", "Home > Garden", "Home > Kitchen", "Toys > Cars", "Toys"]


@pytest.fixture(autouse=True, scope="module")
def wares(browser: Any, service: Service) -> None:
    """An index `wares` with a tree (after the browser: nothing starts without one)."""
    items = [{"id": n, "name": f"Ware {n}", "path": PATHS[n % 5]} for n in range(20)]
    items += [{"id": 20 + n, "name": "x", "path": f"More > {n:02}"} for n in range(15)]
    configuration = {
        "aggregations": {"path": {"conjunction": False}},
        "hierarchies": {"category": {"path": "path", "separator": " > "}},
    }
    service.make_index("wares", configuration, items)


def tree(page: Any) -> Any:
    return page.get_by_role("region", name="Category", exact=True)


def test_branches_open_and_several_are_chosen(
    page: Any, service: Service, expect: Any, axe: str
) -> None:
    page.goto("/dashboard/wares")
    expect(tree(page).locator(".value-key")).to_have_text(["More", "Home", "Toys"])
    expect(page.get_by_role("region", name="Path", exact=True)).to_have_count(0)
    tree(page).get_by_role("button", name="Open Home").click()
    expect(tree(page).locator(".value-key")).to_have_text(
        ["More", "Home", "Garden", "Kitchen", "Toys"]
    )
    tree(page).get_by_role("button", name="Kitchen 4").click()
    expect(page.locator(".total")).to_have_text("4 items")
    tree(page).get_by_role("button", name="Toys 8").click()
    expect(page.locator(".total")).to_have_text("12 items")
    expect(page.locator(".chip")).to_have_text(["Category: Home > Kitchen", "Category: Toys"])
    assert violations(page, axe) == []

    page.reload()
    expect(page.locator(".total")).to_have_text("12 items")
    kitchen = tree(page).get_by_role("button", name="Kitchen 4")
    expect(kitchen).to_have_attribute("aria-pressed", "true")
    kitchen.click()
    expect(page.locator(".total")).to_have_text("8 items")


def test_the_tree_is_walked_by_arrow_keys(page: Any, expect: Any) -> None:
    page.goto("/dashboard/wares")
    tree(page).get_by_role("button", name="More 15").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(tree(page).get_by_role("button", name="Garden 8")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(tree(page).get_by_role("button", name="Seeds 4")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".total")).to_have_text("4 items")
    page.keyboard.press("ArrowRight")
    expect(tree(page).get_by_role("button", name="Open Seeds")).to_have_count(0)
    expect(tree(page).get_by_role("button", name="Seeds 4")).to_be_focused()


def test_long_branches_show_more_on_demand(tab: Tab, expect: Any) -> None:
    with tab.used(viewport={"width": 360, "height": 740}) as page:
        page.goto("/dashboard/wares")
        page.get_by_role("button", name="Filters").click()
        tree(page).get_by_role("button", name="Open More").click()
        expect(tree(page).get_by_role("button", name="00 1")).to_be_visible()
        expect(tree(page).get_by_role("button", name="14 1")).to_have_count(0)
        tree(page).get_by_role("button", name="More of Category").press("Enter")
        expect(tree(page).get_by_role("button", name="14 1")).to_be_visible()
        expect(tree(page).get_by_role("button", name="09 1")).to_be_focused()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
