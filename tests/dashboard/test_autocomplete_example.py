"""The page of examples/autocomplete: suggestions while typing, with the keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.conftest import ROOT, Service

EXAMPLES = ROOT / "examples"


@pytest.fixture
def shop(page: Any, service: Service) -> Any:
    """The page, as if the service's own host served it."""
    configuration = (EXAMPLES / "shop" / "configuration.json").read_text()
    service.load_index("products", configuration, (EXAMPLES / "shop/products.ndjson").read_text())
    content = Path(EXAMPLES / "autocomplete" / "index.html").read_text()
    assert content.count("http://127.0.0.1:3000") == 1
    content = content.replace("http://127.0.0.1:3000", service.url)
    address = f"{service.url}/autocomplete"
    page.route(address, lambda route: route.fulfill(body=content, content_type="text/html"))
    page.goto(address)
    return page


def test_suggestions_are_chosen_with_the_keyboard(shop: Any, expect: Any) -> None:
    box = shop.get_by_role("combobox")
    box.press_sequentially("lant")
    option = shop.get_by_role("option")
    expect(option).to_have_text(["lantern1"])
    expect(box).to_have_attribute("aria-expanded", "true")
    box.press("ArrowDown")
    expect(option.first).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", "suggestion-0")
    box.press("Enter")
    expect(box).to_have_value("lantern")
    expect(shop.get_by_role("status")).to_have_text("1 product")
    expect(shop.locator("#hits li")).to_have_text(["Paper lantern, € 15"])
    expect(box).to_have_attribute("aria-expanded", "false")


def test_arrow_keys_go_round(shop: Any, expect: Any) -> None:
    box = shop.get_by_role("combobox")
    box.press_sequentially("la")
    options = shop.get_by_role("option")
    expect(options).to_have_text(["Lampscategory, 4", "lamp3", "lantern1"])
    for key, number in (("ArrowUp", 2), ("ArrowUp", 1), ("ArrowDown", 2), ("ArrowDown", 0)):
        box.press(key)
        expect(options.nth(number)).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", "suggestion-0")
    box.press("m")
    expect(options).to_have_text(["Lampscategory, 4", "lamp3"])
    expect(box).to_have_attribute("aria-activedescendant", "")
    box.press("Escape")
    expect(options).to_have_count(0)


def test_a_click_searches_for_a_suggestion(shop: Any, expect: Any) -> None:
    shop.get_by_role("combobox").press_sequentially("lam")
    shop.get_by_role("option", name="Lamps").click()
    expect(shop.get_by_role("status")).to_have_text("4 products")


def test_a_refusal_is_shown(shop: Any, service: Service, expect: Any) -> None:
    service.call("DELETE", "/products")
    shop.get_by_role("combobox").press_sequentially("l")
    expect(shop.get_by_role("status")).to_contain_text("products")
