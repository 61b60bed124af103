"""Several hosts on the health page: majority, leader, the position of each host, what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.conftest import Tab, violations


def server(name: str, **what: Any) -> dict[str, Any]:
    return {"name": name, "is_leader": False, "is_current": True, "num_missing": 0, **what}


def host(name: str, **what: Any) -> dict[str, Any]:
    usual = {"version": "1", "shards": 2, "seq": 1042, "lag_ms": 310, "is_serving": True}
    compared = {"compared_seq": 1000, "compared_age_s": 60, "num_equal": 3, "difference": ""}
    others = {"trouble": "", "digest": "ab", "snapshot_at": "", "is_here": False}
    away = {"is_away": False, "silent_s": 0}
    return {"host": f"id-{name}", "name": name, **usual, **compared, **others, **away, **what}


WELL: dict[str, Any] = {
    "log": {
        "is_up": True,
        "stream": "facetd",
        "leader": "n1",
        "first_seq": 1,
        "last_seq": 1042,
        "bytes": 9000,
        "servers": [server("n1", is_leader=True), server("n2"), server("n3")],
        "addresses": [],
    },
    "hosts": [host("a:3000", is_here=True), host("b:3000"), host("c:3000")],
}
ILL: dict[str, Any] = {
    "log": {
        **WELL["log"],
        "is_up": False,
        "last_seq": None,
        "servers": [
            server("n1", is_leader=True),
            server("n2", is_current=False, num_missing=7),
            server("n3", is_current=False, num_missing=9),
        ],
    },
    "hosts": [
        host("a:3000", is_here=True, trouble="the disk is full", lag_ms=61_000),
        host("b:3000", is_away=True, silent_s=75),
        host("c:3000", compared_seq=0, num_equal=0, is_serving=False, lag_ms=-1),
    ],
}


def show(page: Any, state: dict[str, Any]) -> Any:
    page.route("**/_cluster", lambda route: route.fulfill(json=state))
    page.goto("/dashboard/_health")
    return page.get_by_role("region", name="Several hosts", exact=True)


def rows(section: Any, name: str) -> Any:
    return section.get_by_role("region", name=name, exact=True).locator("tbody tr")


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_all_hosts_are_shown(tab: Tab, expect: Any, axe: str, width: int, scheme: str) -> None:
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with tab.used(reduced_motion="reduce", **options) as page:
        section = show(page, WELL)

        expect(section.get_by_role("status")).to_have_text(
            "The log has a majority: 3 of 3 servers have it all, n1 leads"
        )
        expect(section).to_contain_text("n1 leads · ends at entry 1,042")
        expect(rows(section, "Hosts")).to_have_count(3)
        expect(rows(section, "Hosts").first.locator("td")).to_have_text(
            ["a:3000 (this one)", "serving", "1,042", "310 ms", "2", "3 equal at 1,000"]
        )
        expect(rows(section, "Servers of the log").first.locator("td")).to_have_text(
            ["n1 (leads)", "up", "0"]
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page, axe) == []


@pytest.mark.parametrize("width", [360, 1280])
def test_what_is_wrong_is_said(tab: Tab, expect: Any, axe: str, width: int) -> None:
    options = {"viewport": {"width": width, "height": 800}}
    with tab.used(reduced_motion="reduce", **options) as page:
        section = show(page, ILL)

        expect(section.get_by_role("status")).to_contain_text("nothing can be written")
        expect(section.get_by_role("listitem")).to_have_text(["a:3000: the disk is full"])
        states = [row.locator("td").nth(1) for row in rows(section, "Hosts").all()]
        for state, text in zip(states, ["trouble", "away for 1 min 15 s", "starting"], strict=True):
            expect(state).to_have_text(text)
        expect(rows(section, "Servers of the log").nth(2).locator("td")).to_have_text(
            ["n3", "behind or away", "9"]
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page, axe) == []


def test_a_single_host_shows_nothing_of_it(page: Any, expect: Any) -> None:
    with page.expect_response("**/_cluster") as answered:
        page.goto("/dashboard/_health")

    assert answered.value.json()["log"] is None
    expect(page.get_by_role("heading", name="Shards", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="Hosts", exact=True)).to_be_hidden()
