"""The health page: axes of its charts, and what people search for."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.dashboard.conftest import Service, Tab, violations


@pytest.fixture(autouse=True, scope="module")
def searched(browser: Any, service: Service) -> None:
    """An index `sought` that was searched (after the browser: nothing starts without one)."""
    service.make_index("sought", {}, [{"id": n, "name": f"Ship {n}"} for n in range(5)])
    service.call("DELETE", "/_analytics")
    for query in ("ship", "zeppelin"):
        service.call("POST", "/sought/search", {"query": query})


def panel(page: Any, name: str) -> Any:
    return page.locator("section.panel").filter(has=page.get_by_role("heading", name=name))


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_searches_are_listed_and_lead_to_their_hits(
    tab: Tab, expect: Any, axe: str, width: int, scheme: str
) -> None:
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with tab.used(reduced_motion="reduce", **options) as page:
        page.goto("/dashboard/_health")
        rows = panel(page, "Most frequent").get_by_role("row")
        row = rows.filter(has=page.get_by_role("link", name="ship", exact=True))
        expect(row.get_by_role("cell").nth(1)).to_have_text("sought")
        expect(row.get_by_role("cell").nth(2)).to_have_text(re.compile(r"^\d+$"))
        expect(row.get_by_role("cell").nth(3)).to_have_text("0 %")
        empty = panel(page, "Without a hit")
        expect(empty).to_contain_text("zeppelin")
        expect(empty).not_to_contain_text("ship")
        expect(page.get_by_role("region", name="Searches")).to_contain_text(
            re.compile(r"\d+ searches, \d+ % without a hit")
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page, axe) == []
        # No table stands beside an empty half of the page.
        region = page.get_by_role("region", name="Searches").bounding_box()
        assert panel(page, "Slowest").bounding_box()["width"] == region["width"]

        page.get_by_label("Searches of").select_option("today")
        expect(page.get_by_role("region", name="Searches")).to_contain_text(
            re.compile(r"\d+ searches, \d+ % without a hit")
        )
        row.get_by_role("link", name="ship").click()
        expect(page.locator(".total")).to_have_text("5 items")


def test_charts_have_axes_of_values_and_time(page: Any, expect: Any) -> None:
    page.goto("/dashboard/_health")
    memory = page.locator(".chart").filter(has=page.get_by_role("heading", name="Memory"))

    expect(memory.locator(".chart-times span")).to_have_text(["30 s ago", "15 s ago", "now"])
    ticks = memory.locator(".chart-ticks span")
    expect(ticks.first).to_have_text(re.compile(r"^\d+(\.0)? [kMG]B$"))
    expect(ticks.last).to_have_text("0 B")


def test_days_are_drawn_as_bars(page: Any, expect: Any) -> None:
    def answer(route: Any) -> None:
        response = route.fetch()
        body = response.json()
        body["days"] = [
            {"date": f"2026-01-0{n}", "searches": 100 * n, "no_hits": n, "took_us": 1}
            for n in range(1, 5)
        ]
        route.fulfill(response=response, json=body)

    page.route("**/_analytics?*", answer)
    page.goto("/dashboard/_health")
    chart = page.locator(".chart").filter(has=page.get_by_role("heading", name="Searches a day"))

    expect(chart.locator("g")).to_have_count(4)
    expect(chart.locator(".chart-ticks span")).to_have_text(["400", "200", "0"])
    expect(chart.locator(".chart-times span")).to_have_text(["2026-01-01", "2026-01-04"])
    expect(chart.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("2026-01-03: 300, 3 without a hit")
    )


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 1), (0.3, 0.3), (1, 1), (181e6, 200e6), (2400, 3000), (7, 8)]
)
def test_the_end_of_an_axis_is_round(modules: Any, value: float, expected: float) -> None:
    script = "async (x) => (await import('/dashboard/assets/components/chart.js')).roundUp(x)"

    assert modules.evaluate(script, value) == pytest.approx(expected)


def test_searches_without_words_that_find_nothing_are_not_denied(
    page: Any, service: Service, expect: Any
) -> None:
    service.call("DELETE", "/_analytics")
    service.call("POST", "/sought/search", {"filter": "name = nothing"})
    page.goto("/dashboard/_health")
    expect(page.get_by_role("region", name="Searches")).to_contain_text("1 search, 100 %")
    expect(panel(page, "Without a hit")).to_contain_text("Every search with words found something.")


def test_a_long_query_leaves_its_figures_in_sight(tab: Tab, service: Service, expect: Any) -> None:
    service.call("POST", "/sought/search", {"query": "x" * 4_000})
    with tab.used(viewport={"width": 1280, "height": 800}) as page:
        page.goto("/dashboard/_health")
        row = panel(page, "Without a hit").get_by_role("row").filter(has_text="xxxx")
        expect(row.get_by_role("cell").last).to_be_in_viewport(ratio=1)
        assert row.bounding_box()["height"] < 120
