"""`/_docs`: requests that can be changed and sent in place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dashboard.conftest import Service, Tab


@pytest.fixture(autouse=True, scope="module")
def only(browser: Any, service: Service) -> None:
    """An index with a facet (after the browser: nothing starts without one)."""
    items = [{"id": "a b", "kind": "x", "name": "Thing"}]
    service.make_index("first", {"aggregations": {"kind": {}}}, items)


def section(page: Any, route: str) -> Any:
    return page.locator("section").filter(has=page.get_by_label(f"Try it: {route}", exact=True))


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("GET /{index}/search", {"total": 1}),
        ("POST /{index}/search", {"total": 1}),
        ("GET /{index}/facet", {"total": 1}),
        ("POST /_search", {}),
        ("GET /{index}/items/{id}", {"id": "a b"}),
        ("GET /{index}/configuration", {}),
        ("GET /_indexes", {}),
    ],
)
def test_an_example_runs_in_place(
    tab: Tab, expect: Any, route: str, expected: dict[str, Any]
) -> None:
    with tab.used(viewport={"width": 360, "height": 740}) as page:
        page.goto("/_docs")
        page.route(
            "**/_indexes",
            lambda wanted: wanted.fulfill(
                json={"indexes": [{"name": "first", "facets": ["kind"]}]}
            ),
        )
        page.get_by_label(f"Try it: {route}", exact=True).click()
        form = section(page, route).locator("form")
        form.get_by_role("button", name="Run").click()
        expect(form.get_by_role("status")).to_contain_text("200")
        answer = json.loads(form.get_by_label("Answer of").inner_text())
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    found = answer.get("pagination", answer)
    assert {key: found[key] for key in expected} == expected


def test_a_request_can_be_changed_and_a_mistake_is_shown(page: Any, expect: Any) -> None:
    page.goto("/_docs")
    route = "POST /{index}/search"
    page.get_by_label(f"Try it: {route}", exact=True).click()
    form = section(page, route).locator("form")
    form.get_by_label("Body of").fill('{"per_page": -1}')
    form.get_by_role("button", name="Run").click()

    expect(form.get_by_role("status")).to_contain_text("400")
    expect(form.get_by_label("Answer of")).to_contain_text("invalid_per_page")


def test_what_changes_something_is_not_offered(page: Any, expect: Any) -> None:
    page.goto("/_docs")

    expect(page.locator("details").first).to_be_visible()
    expect(page.locator("section").filter(has_text="DELETE").locator("details")).to_have_count(0)


def test_the_contents_lead_to_a_route_and_the_header_to_the_dashboard(
    page: Any, expect: Any
) -> None:
    page.goto("/_docs")
    page.get_by_role("navigation", name="Contents").get_by_text("/{index}/suggest").first.click()
    expect(page.locator("section:target h3")).to_contain_text("/{index}/suggest")
    expect(page.locator("section:target h3")).to_be_in_viewport()
    page.get_by_role("link", name="Dashboard", exact=True).click()
    expect(page.get_by_role("heading", name="Indexes")).to_be_visible()


def test_tables_fit_a_phone(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/_docs")

    too_wide = (
        "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)"
    )
    assert page.evaluate(f"{too_wide}.length") == 0
