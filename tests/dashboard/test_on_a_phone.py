"""What only a phone does: it capitalizes, mends and enlarges what is typed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.conftest import Service, watched_page

pytestmark = pytest.mark.usefixtures("films")
PHONE = {"viewport": {"width": 360, "height": 640}, "has_touch": True, "is_mobile": True}
TYPED = "input:not([type=checkbox], [type=file]), textarea"
DIALOGS = {
    "/dashboard": ("Create index", "Load a file into films", "Configure films", "Remove films"),
    "/dashboard/_service": ("Create a key", "Create an alias", "Make a snapshot"),
    "/dashboard/films?item=1": ("Edit",),
}


def test_names_are_typed_as_they_are_and_nothing_is_enlarged(
    browser: Any, service: Service, expect: Any
) -> None:
    """A capital letter in front kept "Remove the index" off: its name has none."""
    with watched_page(browser, service, **PHONE) as page:
        for path, labels in DIALOGS.items():
            for label in labels:
                page.goto(path)
                page.get_by_role("button", name=label, exact=True).click()
                dialog = page.get_by_role("dialog")
                expect(dialog).to_be_visible()
                page.wait_for_load_state("networkidle")
                typed = dialog.locator(TYPED).evaluate_all(
                    """all => all.map(one => [
                        one.getAttribute("autocapitalize"), one.getAttribute("autocorrect"),
                        parseFloat(getComputedStyle(one).fontSize) >= 16,
                    ])"""
                )
                assert typed or label.startswith("Load"), label
                assert all(one == ["off", "off", True] for one in typed), (label, typed)


def test_any_file_can_be_chosen(browser: Any, service: Service, expect: Any) -> None:
    """A phone offers only the types that it knows, of which `.ndjson` is none."""
    for touch in (PHONE, {}):
        with watched_page(browser, service, **touch) as page:
            page.goto("/dashboard")
            page.get_by_role("button", name="Load a file", exact=True).click()
            chosen = page.get_by_role("dialog").locator("input[type=file]")
            assert (chosen.get_attribute("accept") is None) == bool(touch)
