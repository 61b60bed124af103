"""The map of an index with places: cells as circles, and what is in view narrows the hits."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.dashboard.conftest import Service, violations

TOWNS = {"Vienna": (48.2, 16.4, 6), "Graz": (47.1, 15.4, 3), "Sydney": (-33.9, 151.2, 2)}


@pytest.fixture(autouse=True, scope="module")
def places(browser: Any, service: Service) -> None:
    """An index `places` with points (after the browser: nothing starts without one)."""
    items: list[dict[str, Any]] = [
        {"id": f"{town}-{n}", "name": f"{town} {n}", "town": town, "height": n * 7 % 50,
         "_geo": {"lat": lat, "lng": lng}}
        for town, (lat, lng, number) in TOWNS.items()
        for n in range(number)
    ]  # fmt: skip
    items.append({"id": "nowhere", "name": "Nowhere", "town": "Nowhere"})
    service.make_index("places", {"aggregations": {"town": {}}}, items)
    service.make_index("no-places", {"aggregations": {"town": {}}}, [{"id": 1, "town": "Graz"}])


def section(page: Any) -> Any:
    return page.get_by_role("region", name="Map", exact=True)


def box_of(page: Any) -> list[float]:
    (sides,) = parse_qs(urlsplit(page.url).query)["box._geo"]
    return [float(side) for side in sides.split(",")]


def test_what_is_in_view_narrows_the_hits(page: Any, expect: Any, axe: str) -> None:
    page.goto("/dashboard/places")
    expect(page.locator(".total")).to_have_text("12 items")
    circles = section(page).locator("circle")
    expect(circles.locator("title")).to_have_text(["9 items", "2 items"])
    expect(section(page).get_by_role("img")).to_have_accessible_name("Map: 11 places in view")
    assert violations(page, axe) == []
    expect(page.locator(".item").first).to_contain_text("48.2, 16.4")

    circles.first.click()
    expect(page.locator(".total")).to_have_text("9 items")
    expect(circles.locator("title")).to_have_text(["6 items", "3 items"])
    expect(page.locator(".chip")).to_have_text(["Map: what is in view"])
    top, right, bottom, left = box_of(page)
    assert (right - left, top - bottom) == (90, 45)
    assert violations(page, axe) == []
    page.reload()
    expect(page.locator(".total")).to_have_text("9 items")

    page.get_by_role("button", name="Remove Map: what is in view").click()
    expect(page.locator(".total")).to_have_text("12 items")
    page.go_back()
    expect(page.locator(".total")).to_have_text("9 items")
    section(page).get_by_role("button", name="All places").click()
    expect(page.locator(".total")).to_have_text("12 items")
    assert "box" not in page.url


def test_the_map_is_moved_by_keys_and_by_dragging(page: Any, expect: Any) -> None:
    page.goto("/dashboard/places")
    plot = section(page).get_by_role("application")
    expect(section(page).locator("circle")).to_have_count(2)
    plot.focus()
    page.keyboard.press("+")
    expect(page.locator(".total")).to_have_text("0 items")
    assert box_of(page) == [45, 90, -45, -90]
    page.keyboard.press("ArrowUp")
    expect(page.locator(".total")).to_have_text("9 items")
    assert box_of(page) == [67.5, 90, -22.5, -90]
    page.keyboard.press("0")
    expect(page.locator(".total")).to_have_text("12 items")

    section(page).get_by_role("button", name="Zoom in").click()
    expect(page.locator(".total")).to_have_text("0 items")
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.9)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.5, steps=4)
    page.mouse.up()
    expect(page.locator(".total")).to_have_text("2 items")
    assert box_of(page)[1] == 180


def test_the_map_opens_on_all_places(page: Any, service: Service, expect: Any, axe: str) -> None:
    items = [{"id": n, "_geo": {"lat": 48.1 + n / 100, "lng": 16.3 + n / 50}} for n in range(10)]
    items.append({"id": "two", "_geo": [{"lat": 48.1, "lng": 16.3}, {"lat": 47.9, "lng": 16.3}]})
    items.append({"id": "nowhere"})
    service.make_index("town", {}, items)
    page.goto("/dashboard/town")
    circles = section(page).locator("circle")
    expect(section(page).get_by_role("img")).to_have_accessible_name("Map: 12 places in view")
    assert circles.count() > 6  # one circle, if the world's cells were counted
    drawing = section(page).locator("svg[role=img]").first
    west, north, width, height = (float(one) for one in drawing.get_attribute("viewBox").split())
    assert 0.6 < width / 2 < 2
    assert west / 2 < 16.3 < 16.48 < (west + width) / 2
    assert -(north + height) / 2 < 47.9 < 48.19 < -north / 2
    expect(page.locator(".total")).to_have_text("12 items")
    assert "box" not in page.url
    assert section(page).get_by_role("button", name="Zoom out").is_disabled()

    section(page).get_by_role("button", name="Zoom in").click()
    expect(page.locator(".chip")).to_have_text(["Map: what is in view"])
    section(page).get_by_role("button", name="Zoom out").click()
    expect(page.locator(".chip")).to_have_count(0)
    expect(page.locator(".total")).to_have_text("12 items")
    assert "box" not in page.url
    assert violations(page, axe) == []


def test_no_map_without_places(page: Any, expect: Any) -> None:
    page.goto("/dashboard/no-places")
    expect(page.locator(".total")).to_have_text("1 item")
    expect(section(page)).to_have_count(0)


def test_the_page_of_an_item_shows_where_it_is(
    page: Any, service: Service, expect: Any, axe: str
) -> None:
    service.make_index(
        "spots",
        {"geo_fields": ["_geo"]},
        [{"id": 1, "name": "Graz", "_geo": {"lat": 47.1, "lng": 15.4}, "at": {"lat": 1, "lng": 2},
          "ways": [{"lat": 3, "lng": 4}]},
         {"id": 2, "name": "Chukotka", "_geo": {"lat": 66, "lng": 179.9}}],
    )  # fmt: skip
    page.goto("/dashboard/spots?item=1")
    facts = page.locator(".item-facts")
    expect(facts.get_by_role("img", name="Where this is on the map")).to_be_visible()
    expect(facts).to_contain_text("1, 2")
    expect(facts).to_contain_text("3, 4")
    expect(facts).not_to_contain_text("{")
    assert violations(page, axe) == []
    facts.get_by_role("link", name="47.1, 15.4").click()
    expect(page.locator(".total")).to_have_text("1 item")
    assert box_of(page) == [57.1, 35.4, 37.1, -4.6]
    page.goto("/dashboard/spots?item=2")
    page.locator(".item-facts").get_by_role("link", name="66, 179.9").click()
    expect(page.locator(".total")).to_have_text("1 item")
