"""The dashboard by keyboard alone, on small screens, and as axe sees it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.conftest import Service, Tab, violations, watched_page
from tests.dashboard.search_page import facet, total_text, value

pytestmark = pytest.mark.usefixtures("films", "long_name")
LONG_NAME = "another-configuration-of-the-films-with-a-long-name"

FEWER = "&per_page=10"  # the other items of a usual page are as these are
VIEWS = {
    "indices": "/dashboard",
    "search": "/dashboard/films?q=war&is.genres=Drama&not.country=Japan&range.year=1950..2000"
    + FEWER,
    "explained": f"/dashboard/films?q=prison&explain=1{FEWER}",
    "json": f"/dashboard/films?view=json{FEWER}",
    "empty": "/dashboard/films?is.genres=Nothing",
    "unknown": "/dashboard/not-there",
    "item": "/dashboard/films?item=1",
    "comparison": "/dashboard/films?compare=films&q=war",
    "comparison with a long name": f"/dashboard/films?compare={LONG_NAME}&q=war",
    "docs": "/_docs",
    "service": "/dashboard/_service",
    "health": "/dashboard/_health",
}
DIALOGS = ("Configure films", "Load a file into films", "Remove films", "Empty films")


@pytest.fixture(scope="module")
def long_name(films: None, service: Service) -> None:
    service.make_films(LONG_NAME)


def test_keyboard_alone(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard/films")
    expect(page.locator(".item").first).to_be_visible()
    search = page.get_by_role("searchbox", name="Search films")
    page.locator(".index-name").click()
    page.keyboard.press("/")
    expect(search).to_be_focused()
    page.keyboard.type("love")
    expect(page.locator(".total")).to_have_text(total_text(service, "films", {"query": "love"}))
    page.keyboard.press("ArrowDown")
    expect(page.locator(".item").first).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator(".item").nth(1)).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(search).to_be_focused()

    first = facet(page, "Genres").locator(".value").first
    first.focus()
    page.keyboard.press("ArrowDown")
    second = facet(page, "Genres").locator(".value").nth(1)
    expect(second).to_be_focused()
    key = second.locator(".value-key").inner_text()
    page.keyboard.press("Space")
    expect(value(page, "Genres", key)).to_have_attribute("aria-pressed", "true")
    expect(value(page, "Genres", key)).to_be_focused()
    page.keyboard.press("x")
    expect(value(page, "Genres", key)).to_have_attribute("aria-pressed", "mixed")

    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("h")
    expect(page.get_by_role("heading", name="Health")).to_be_visible()


@pytest.mark.parametrize("opened", [360, pytest.param(2560, marks=pytest.mark.long)])
def test_nothing_is_wider_than_the_page(
    browser: Any, service: Service, expect: Any, opened: int
) -> None:
    """Each page opens on a phone, or on a wide screen; then the window grows and shrinks."""
    with watched_page(
        browser, service, viewport={"width": opened, "height": 800}, has_touch=True
    ) as page:
        for path in VIEWS.values():
            page.set_viewport_size({"width": opened, "height": 800})
            page.goto(path)
            page.wait_for_load_state("networkidle")
            for width in (opened, 768, 1280, 2560, 360):
                page.set_viewport_size({"width": width, "height": 800})
                seen = page.evaluate("document.documentElement.scrollWidth")
                assert seen <= width, (path, width)


def test_the_facets_open_on_a_small_screen(tab: Tab, expect: Any) -> None:
    with tab.used(viewport={"width": 360, "height": 740}) as page:
        page.goto("/dashboard/films")
        expect(page.locator(".item").first).to_be_visible()
        expect(facet(page, "Genres")).to_be_hidden()
        page.get_by_role("button", name="Filters").click()
        value(page, "Genres", "Drama").click()
        expect(page.get_by_role("button", name="Filters (1)")).to_be_visible()


@pytest.mark.parametrize(
    ("scheme", "width", "views"),
    [
        ("light", 360, list(VIEWS)),
        ("dark", 1280, ["indices", "explained", "item", "docs", "health"]),
        pytest.param("dark", 1280, list(VIEWS), marks=pytest.mark.long),
    ],
)
def test_axe_finds_no_violation(
    tab: Tab,
    axe: str,
    expect: Any,
    scheme: str,
    width: int,
    views: list[str],
) -> None:
    """In the dark, pages whose parts the others have as well are left to the long form."""
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
    with tab.used(reduced_motion="reduce", **options) as page:
        for name in views:
            page.goto(VIEWS[name])
            page.wait_for_load_state("networkidle")
            if width == 360 and page.locator(".filters-toggle").is_visible():
                page.locator(".filters-toggle").click()
            assert violations(page, axe) == [], name


@pytest.mark.parametrize(
    ("scheme", "labels"),
    [
        ("light", DIALOGS),
        ("dark", DIALOGS[:1]),
        pytest.param("dark", DIALOGS[1:], marks=pytest.mark.long),
    ],
)
def test_axe_finds_no_violation_in_dialogs(
    tab: Tab, axe: str, expect: Any, scheme: str, labels: tuple[str, ...]
) -> None:
    with tab.used(color_scheme=scheme, reduced_motion="reduce") as page:
        for label in labels:
            page.goto("/dashboard")
            page.get_by_role("button", name=label).click()
            expect(page.get_by_role("dialog")).to_be_visible()
            page.wait_for_load_state("networkidle")
            assert violations(page, axe) == [], label
        page.goto("/dashboard/films")
        page.locator(".item-actions button").first.click()
        expect(page.get_by_role("dialog").get_by_role("textbox")).to_be_enabled()
        assert violations(page, axe) == []


def test_a_long_field_name_leaves_the_controls_beside_the_total(
    page: Any, service: Service, expect: Any
) -> None:
    field = "operating_temperature_range_of_the_device_in_degrees_celsius"
    service.make_index("long-names", {}, [{"id": n, field: n} for n in range(3)])
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/dashboard/long-names")
    sort = page.get_by_role("combobox", name="Sort by")
    expect(sort).to_contain_text("Operating temperature")
    assert sort.bounding_box()["width"] < 200  # so there is room for a total of a million items
    total = page.locator(".total").bounding_box()
    curl = page.get_by_role("button", name="Copy as curl").bounding_box()
    assert curl["y"] < total["y"] + total["height"]


@pytest.mark.parametrize("width", [375, 768, 961, 1024, 1136, 1137, 1280])
def test_the_controls_are_one_row(tab: Tab, width: int, expect: Any) -> None:
    with tab.used(viewport={"width": width, "height": 800}) as page:
        page.goto("/dashboard/films?q=family&is.genres=Crime&sort=rating:desc")
        expect(page.locator(".item").first).to_be_visible()
        rows = page.locator(".controls").bounding_box()["height"]
        assert rows < 60
        curl = page.get_by_role("button", name="Copy as curl")
        if not curl.is_visible():
            page.get_by_role("button", name="More controls").click()
        expect(curl).to_be_visible()


def test_on_a_phone_the_actions_of_an_item_stay_beside_its_title(
    tab: Tab, service: Service
) -> None:
    items = [{"id": 1000 + n, "title": "A long title in words " * (n + 1)} for n in range(3)]
    service.make_index("long-titles", {"searchable_fields": ["title"]}, items)
    with tab.used(viewport={"width": 390, "height": 844}) as page:
        page.goto("/dashboard/long-titles")
        page.locator(".item").first.wait_for()
        shown = page.locator(".item").all()
        assert len(shown) == len(items)
        for item in shown:
            title = item.locator("h2").bounding_box()
            actions = item.locator(".item-actions").bounding_box()
            assert abs(actions["y"] - title["y"]) < 10
            assert actions["x"] >= title["x"] + title["width"]


def test_focus_stays_where_the_keyboard_has_pressed(page: Any, expect: Any) -> None:
    """Buttons that are drawn again lost it: the next Tab began at the top of the page."""

    def press(name: str, then: str) -> None:
        page.get_by_role("button", name=name, exact=True).focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name=then, exact=True)).to_be_focused()

    page.goto("/dashboard/films?per_page=100")
    press("Next page", "Next page")
    expect(page.get_by_role("button", name="Page 2")).to_have_attribute("aria-current", "page")
    press("Page 3", "Page 3")
    expect(page.get_by_role("button", name="Page 3")).to_have_attribute("aria-current", "page")
    press("Next page", "Page 4")  # the last one: there is no next
    expect(page.get_by_role("button", name="Page 4")).to_have_attribute("aria-current", "page")

    page.goto("/dashboard/films?is.genres=Drama&is.genres=Crime&is.language=English")
    press("Remove Genres: Drama", "Remove Genres: Crime")
    page.get_by_role("button", name="Clear all").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.get_by_role("button", name="Remove Genres: Crime")).to_have_count(0)


def test_what_is_chosen_is_seen_with_the_colours_of_the_system(
    browser: Any, service: Service, expect: Any
) -> None:
    """Those draw no backgrounds, and borders that are transparent."""
    style = "one => { const s = getComputedStyle(one); return [s.backgroundColor, s.%s]; }"

    def seen(control: Any, border: str) -> tuple[str, ...]:
        return tuple(control.evaluate(style % border))

    with watched_page(browser, service, forced_colors="active") as page:
        page.goto("/dashboard/films?explain=1")
        expect(page.locator(".item").first).to_be_visible()
        explain, table = (page.get_by_role("button", name=name) for name in ("Explain", "Table"))
        assert seen(explain, "color") != seen(table, "color")
        page.goto("/dashboard/_health")
        here, there = (page.get_by_role("link", name=name) for name in ("Health", "Service"))
        expect(here).to_be_visible()
        assert seen(here, "borderBottomColor") != seen(there, "borderBottomColor")
