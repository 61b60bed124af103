"""What comes late: answers to a page that was left, timers of its controls, keys that expired."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import Any

import pytest

from tests.dashboard.conftest import Service, watched_page
from tests.waiting import wait_until

PHONE = {"width": 390, "height": 800}


@pytest.fixture(autouse=True, scope="module")
def races(browser: Any, service: Service) -> None:
    """An index `races` with a histogram and a map, after the browser."""
    items = [
        {"id": n, "name": f"Race {n}", "price": n, "_geo": {"lat": 10, "lng": 10}}
        for n in range(1, 60)
    ]
    service.make_index("races", {"aggregations": {"price": {}}}, items)


def handle(page: Any) -> Any:
    return page.get_by_role("region", name="Price", exact=True).get_by_role("slider").first


def test_an_answer_does_not_undo_a_key_press(page: Any, expect: Any) -> None:
    page.goto("/dashboard/races")
    expect(page.locator(".total")).to_have_text("59 items")
    held: list[Any] = []

    def hold_first(route: Any) -> None:
        if held:
            route.continue_()
        held.append(route)

    page.route("**/races/search", hold_first)
    page.get_by_role("searchbox", name="Search races").press("Enter")
    wait_until(lambda: bool(page.wait_for_timeout(20) or held))
    handle(page).press("ArrowRight")
    held[0].continue_()
    page.wait_for_url(re.compile(r"range\.price="))


@pytest.mark.own_tab
@pytest.mark.parametrize("control", ["histogram", "map"])
def test_a_timer_leaves_the_next_page_alone(
    page: Any, service: Service, expect: Any, control: str
) -> None:
    page.clock.install()
    page.goto("/dashboard/races")
    expect(page.locator(".total")).to_have_text("59 items")
    page.clock.pause_at(page.evaluate("Date.now() / 1000 + 1"))
    if control == "map":
        page.get_by_role("application").press("+")
    else:
        handle(page).press("ArrowRight")
    page.get_by_role("link", name="Health", exact=True).click()
    page.clock.run_for(1000)
    assert page.url == f"{service.url}/dashboard/_health"


def test_a_finger_that_scrolls_moves_no_brush(browser: Any, service: Service, expect: Any) -> None:
    """The browser cancels a touch as soon as it scrolls the page with it."""
    with watched_page(browser, service, viewport=PHONE, has_touch=True, is_mobile=True) as page:
        page.goto("/dashboard/races")
        expect(page.locator(".total")).to_have_text("59 items")
        page.get_by_role("button", name="Filters").click()
        plot = page.get_by_role("region", name="Price", exact=True).locator(".plot")
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        session = page.context.new_cdp_session(page)
        for kind, points in (
            ("touchStart", [{"x": x, "y": y}]),
            ("touchMove", [{"x": x + 30, "y": y}]),
        ):
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        expect(plot).to_have_class(re.compile("is-brushed"))
        session.send("Input.dispatchTouchEvent", {"type": "touchCancel", "touchPoints": []})
        expect(plot).not_to_have_class(re.compile("is-brushed"))
        assert page.url == f"{service.url}/dashboard/races"


def test_an_item_that_comes_late_does_not_name_the_next_page(page: Any, expect: Any) -> None:
    held: list[Any] = []
    page.goto("/dashboard/races")
    page.route("**/races/items/1", lambda route: held.append(route))
    answers = [re.compile(f"/races/{of}") for of in ("search", "stats", "configuration")]
    with ExitStack() as stack:
        for answer in answers:
            stack.enter_context(page.expect_response(answer))
        page.get_by_role("link", name="Race 1", exact=True).click()
    wait_until(lambda: bool(page.wait_for_timeout(20) or held))
    page.get_by_role("link", name="Health", exact=True).click()
    expect(page).to_have_title("Health · facetd")
    for route in held:
        route.continue_()
    page.wait_for_timeout(200)
    expect(page).to_have_title("Health · facetd")


def test_a_load_whose_key_expired_asks_for_another(page: Any, expect: Any) -> None:
    keys: list[str | None] = []

    def guard(route: Any) -> None:
        keys.append(route.request.headers.get("x-api-key"))
        if keys[-1] == "new":
            route.fulfill(json={"created": 1, "updated": 0})
        else:
            error = {"code": "unauthorized", "message": "The key has expired.", "status": 401}
            route.fulfill(status=401, json={"error": error})

    page.route("**/races/index", guard)
    page.goto("/dashboard/races")
    page.get_by_role("button", name="Load a file").click()
    page.set_input_files(
        "input[type=file]", {"name": "a.ndjson", "mimeType": "", "buffer": b'{"id": 99}\n'}
    )
    page.get_by_role("button", name="Load", exact=True).click()
    page.get_by_label("API key").fill("new")
    page.get_by_label("API key").press("Enter")
    expect(page.get_by_role("dialog").locator(".tiles")).to_contain_text("Added")
    assert keys == [None, "new"]


@pytest.mark.own_tab
def test_a_connection_that_breaks_within_an_answer_is_tried_again(page: Any, expect: Any) -> None:
    page.add_init_script("""
        const read = Response.prototype.text;
        let broken = 0;
        Response.prototype.text = function () {
          if (!this.url.endsWith("/search") || !window.breaks || broken++) return read.call(this);
          return Promise.reject(new TypeError("network error"));
        };
    """)
    page.goto("/dashboard/races")
    expect(page.locator(".total")).to_have_text("59 items")
    page.evaluate("window.breaks = true")
    page.get_by_role("searchbox", name="Search races").fill("race 7")
    expect(page.get_by_role("alert")).to_contain_text("The service cannot be reached")
    expect(page.locator(".total")).to_have_text("1 item")
