"""Linked brushes: while a range is dragged, everything else shows its counts without a request."""

from __future__ import annotations

import re
import statistics
from typing import Any

import pytest

from tests.dashboard.conftest import Service, violations

FIRST_SERIAL = 2**53 + 1
MOVE_MS_MAX = 4.0
ROUNDS_MAX = 3


@pytest.fixture(autouse=True, scope="module")
def wares(browser: Any, service: Service) -> None:
    """An index `wares` with two histograms, a list and a tree, after the browser."""
    items = [
        {
            "id": n,
            "name": f"Ware {'red' if n % 3 else 'blue'}",
            "brand": f"brand {n * n % 7}",
            "path": ["A > B", "A", "C"][n % 3],
            "price": n % 50,
            "weight": n * 31 % 90,
        }
        for n in range(600)
    ]
    settings = {"conjunction": False}
    configuration = {
        "aggregations": dict.fromkeys(("brand", "path", "price", "weight"), settings),
        "hierarchies": {"kind": {"path": "path", "separator": " > "}},
    }
    service.make_index("brushed", configuration, items)


@pytest.fixture(scope="module")
def large_numbers(wares: None, service: Service) -> None:
    """An index `large` whose serial numbers are beyond what JavaScript's numbers can tell apart."""
    items = [{"id": n, "serial": FIRST_SERIAL + n} for n in range(1000)]
    service.make_index("large", {"aggregations": {"serial": {}}}, items)


def section(page: Any, title: str) -> Any:
    return page.get_by_role("region", name=title, exact=True)


def counts(page: Any, title: str) -> dict[str, int]:
    rows = section(page, title).locator(".value").all()
    return {
        row.locator(".value-key").inner_text(): int(row.locator(".value-count").inner_text())
        for row in rows
    }


def bars(page: Any, title: str) -> list[int]:
    titles = section(page, title).locator(".bar title").all_text_contents()
    return [int(text.rpartition(": ")[2].replace(",", "")) for text in titles]


@pytest.mark.own_tab
def test_a_brush_moves_without_a_request(
    page: Any, service: Service, expect: Any, axe: str
) -> None:
    page.goto("/dashboard/brushed?q=red")
    expect(page.locator(".total")).to_have_text("400 items")
    plot = section(page, "Price").locator(".plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    with page.expect_response(re.compile("/brushed/search")) as prepared:
        page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 20)
    prepared.value.finished()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.mouse.down()
    for share in (0.4, 0.5, 0.6):
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + 20, steps=5)
    # The mouse is still down: nothing is applied, everything is shown.
    low, high = (
        int(section(page, "Price").get_by_role("slider").nth(end).get_attribute("aria-valuetext"))
        for end in (0, 1)
    )
    wanted = {
        "query": "red",
        "filters": {"price": {"gte": low, "lt": high + 1}},
        "facet_fields": ["brand"],
        "trees": {"kind": {"open": []}},
        "facet_ranges": {"weight": [{"from": n, "to": n + 1} for n in range(90)]},
    }
    expected = service.call("POST", "/brushed/search", wanted)
    assert 0 < expected["pagination"]["total"] < 400
    expect(page.locator(".total")).to_have_text(f"{expected['pagination']['total']} items")
    assert requests == []
    brands = expected["data"]["aggregations"]["brand"]["buckets"]
    assert counts(page, "Brand") == {one["key"]: one["doc_count"] for one in brands}
    assert counts(page, "Kind") == {
        one["path"]: one["doc_count"] for one in expected["data"]["trees"]["kind"]
    }
    assert sum(bars(page, "Weight")) == expected["pagination"]["total"]
    assert violations(page, axe) == []

    page.mouse.up()
    page.wait_for_url(f"**range.price={low}..{high + 1}*")
    expect(page.locator(".total")).to_have_text(f"{expected['pagination']['total']} items")
    assert len(requests) >= 1
    page.reload()
    expect(page.locator(".total")).to_have_text(f"{expected['pagination']['total']} items")


def test_ends_of_ranges_keep_every_digit(
    page: Any, service: Service, expect: Any, large_numbers: None
) -> None:
    low, high = FIRST_SERIAL + 100, FIRST_SERIAL + 301
    page.goto(f"/dashboard/large?range.serial={low}..{high}")
    expect(page.locator(".total")).to_have_text("201 items")
    serial = section(page, "Serial")
    expect(serial.get_by_label("Serial from")).to_have_value(str(low))
    expect(serial.get_by_label("Serial to")).to_have_value(str(high - 1))
    expect(page.get_by_text(f"Serial: {low:,} – {high - 1:,}")).to_be_visible()
    serial.get_by_label("Serial to").fill(str(low))
    serial.get_by_label("Serial to").press("Enter")
    expect(page.locator(".total")).to_have_text("1 item")
    page.wait_for_url(f"**range.serial={low}..{low + 1}*")
    page.reload()
    expect(page.locator(".total")).to_have_text("1 item")
    serial.get_by_role("button", name="Clear the range of Serial").click()
    expect(page.locator(".total")).to_have_text("1,000 items")
    assert sum(bars(page, "Serial")) == 1000
    serial.get_by_role("slider").first.press("ArrowRight")
    page.wait_for_url("**range.serial=*")
    edge = int(page.url.partition("range.serial=")[2].partition("..")[0])
    assert FIRST_SERIAL < edge < FIRST_SERIAL + 1000
    expect(page.locator(".total")).to_have_text(f"{FIRST_SERIAL + 1000 - edge} items")


def test_keys_move_a_brush_without_a_request(page: Any, service: Service, expect: Any) -> None:
    page.goto("/dashboard/brushed")
    expect(page.locator(".total")).to_have_text("600 items")
    handle = section(page, "Price").get_by_role("slider").first
    with page.expect_response(re.compile("/brushed/search")) as prepared:
        handle.focus()
    prepared.value.finished()
    handle.press("ArrowRight")
    expect(page.locator(".total")).not_to_have_text("600 items")
    page.wait_for_url("**range.price=*")
    handle.press("Home")
    expect(page.locator(".total")).to_have_text("600 items")


def test_a_move_is_soon_drawn(page: Any, expect: Any) -> None:
    page.goto("/dashboard/brushed")
    expect(page.locator(".total")).to_have_text("600 items")
    plot = section(page, "Price").locator(".plot")
    with page.expect_response(re.compile("/brushed/search")) as prepared:
        plot.hover()
    prepared.value.finished()
    for _ in range(ROUNDS_MAX):
        times = plot.evaluate(MOVES)
        if statistics.median(times) <= MOVE_MS_MAX:
            break
    assert statistics.median(times) <= MOVE_MS_MAX


MOVES = """(plot) => {
  const box = plot.getBoundingClientRect();
  const fire = (type, share) =>
    plot.dispatchEvent(
      new PointerEvent(type, {
        bubbles: true, button: 0, pointerId: 1, clientX: box.left + share * box.width,
        clientY: box.top + 5,
      }),
    );
  plot.setPointerCapture = () => {};
  fire("pointerdown", 0.1);
  const times = [];
  for (let n = 0; n < 60; n += 1) {
    const start = performance.now();
    fire("pointermove", 0.2 + n / 100);
    document.body.offsetHeight; // with its layout
    times.push(performance.now() - start);
  }
  fire("pointerup", 0.8);
  return times;
}"""
