"""What a screen reader is told, and when; what stays in sight until it was read."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.dashboard.conftest import Service, Tab
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("films")

WATCH = """(selector) => {
    window.numChanges = 0;
    const observer = new MutationObserver((changes) => (window.numChanges += changes.length));
    const options = { childList: true, subtree: true, characterData: true };
    for (const place of document.querySelectorAll(selector)) observer.observe(place, options);
}"""


@pytest.mark.own_tab
@pytest.mark.parametrize("path", ["/dashboard", "/dashboard/_health", "/dashboard/films"])
def test_a_failure_that_lasts_is_said_once_and_keeps_the_focus(
    page: Any, expect: Any, path: str
) -> None:
    page.clock.install()
    page.goto(path)
    expect(page.locator("h1").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    num_asked = 0
    error = {"code": "shard_unavailable", "message": "Shard 1 is away.", "status": 503}

    def fail(route: Any) -> None:
        nonlocal num_asked
        num_asked += 1
        route.fulfill(status=503, json={"error": error})

    pages = re.compile(r"/(_indexes|_stats|films/search)$")
    page.route(pages, fail)
    if path.endswith("films"):
        page.get_by_role("searchbox", name="Search films").fill("war")
    page.clock.run_for(5_000)
    again = page.get_by_role("button", name="Try again")
    again.focus()
    page.evaluate(WATCH, ".messages")
    wait_until(lambda: bool(page.clock.run_for(5_000) or num_asked >= 4))
    expect(again).to_be_focused()
    assert page.evaluate("window.numChanges") == 0

    again.press("Enter")  # who asks is told again
    wait_until(lambda: page.evaluate("window.numChanges > 0"))
    expect(again).to_be_focused()
    page.unroute(pages)
    again.press("Enter")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("main")).to_be_focused()


@pytest.mark.own_tab
@pytest.mark.parametrize(
    ("path", "asked"), [("/dashboard", "**/_indexes"), ("/dashboard/_health", "**/_stats")]
)
def test_a_state_is_read_out_only_when_it_changes(page: Any, path: str, asked: str) -> None:
    page.clock.install()
    page.goto(path)
    page.locator("[role=status]", has_text=re.compile("index|serve")).wait_for()
    page.evaluate(WATCH, "[role=status]")
    for _ in range(2):
        with page.expect_response(asked):
            page.clock.run_for(5_000)
    assert page.evaluate("window.numChanges") == 0


def test_what_is_said_during_a_dialog_is_in_it_and_stays_after_it(page: Any, expect: Any) -> None:
    """Beside an open dialog nothing is read out, and its backdrop covers the rest."""
    page.goto("/dashboard")
    page.get_by_role("button", name="Create index").click()
    dialog = page.get_by_role("dialog")
    page.evaluate(
        """async () => {
            const { toast } = await import("/dashboard/assets/components/notice.js");
            toast("The key is in the clipboard");
        }"""
    )
    said = dialog.get_by_role("status").filter(has_text="The key is in the clipboard")
    expect(said).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("#toasts")).to_have_text("The key is in the clipboard")


@pytest.mark.own_tab
def test_warnings_of_a_configuration_stay_until_they_are_closed(
    page: Any, service: Service, expect: Any
) -> None:
    service.make_index("warned", {}, [{"id": 1, "name": "Saw"}])
    page.clock.install()
    page.goto("/dashboard/warned")
    page.get_by_role("button", name="Configure", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("tab", name="Search").click()
    dialog.get_by_label("Searchable fields").fill("nmae")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    page.clock.run_for(600_000)
    toast = page.locator(".toast")
    expect(toast).to_contain_text("did you mean name?")
    toast.get_by_role("button", name="Close").click()
    expect(toast).to_have_count(0)


def test_the_last_key_is_not_deleted_unawares(tab: Tab, expect: Any) -> None:
    key = {"id": "0123456789ab", "description": "", "actions": ["admin"], "indexes": ["*"]}
    keys = [key | {"filter": None, "expires_at": None}]
    with tab.used() as page:
        page.route("**/_keys", lambda route: route.fulfill(json={"keys": keys}))
        page.goto("/dashboard/_service")
        page.get_by_role("button", name="Delete the key 0123456789ab").click()
        expect(page.get_by_role("dialog")).to_contain_text(
            "It is the last key. As long as there is no key, everybody who reaches the service may"
        )
        page.get_by_role("button", name="Cancel").click()
        keys.append(keys[0] | {"id": "another"})
        page.reload()
        page.get_by_role("button", name="Delete the key another").click()
        expect(page.get_by_role("dialog")).to_contain_text("is refused from now on")
        expect(page.get_by_role("dialog")).not_to_contain_text("last key")


def test_a_link_that_cannot_be_copied_is_shown_to_be_copied_by_hand(
    page: Any, service: Service, expect: Any
) -> None:
    """Browsers give the clipboard to pages of HTTPS and of this machine only."""
    page.goto("/dashboard/films?item=1")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_role("button", name="Copy link").click()
    area = page.get_by_role("dialog", name="Copy this link").get_by_role("textbox", name="Link")
    expect(area).to_be_focused()
    expect(area).to_have_value(f"{service.url}/dashboard/films?item=1")
