"""What tests read from the search page."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.dashboard.conftest import Service


def total_text(service: Service, index: str, request: dict[str, Any]) -> str:
    total = service.call("POST", f"/{index}/search", request)["pagination"]["total"]
    return f"{total:,} item" + ("" if total == 1 else "s")


def state_of(page: Any) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def facet(page: Any, title: str) -> Any:
    return page.get_by_role("region", name=title, exact=True)


def value(page: Any, title: str, key: str) -> Any:
    keys = page.locator(".value-key").get_by_text(key, exact=True)
    return facet(page, title).locator(".value").filter(has=keys)


def open_facet(page: Any, title: str) -> Any:
    section = facet(page, title)
    toggle = section.locator(".facet-toggle")
    if toggle.get_attribute("aria-expanded") != "true":
        toggle.click()
    return section


def range_of(page: Any, field: str) -> tuple[float, float]:
    low, _, high = state_of(page)[f"range.{field}"][0].partition("..")
    return float(low or "-inf"), float(high or "inf")
