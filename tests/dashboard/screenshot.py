"""Draws the picture of the dashboard in the documents: python -m tests.dashboard.screenshot."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import Any

from tests.dashboard.conftest import ROOT, Service, opened_browser, running_service

PICTURE = ROOT / "docs" / "dashboard.webp"
PICTURE_BYTES_MAX = 150_000
VIEWPORT = {"width": 1280, "height": 800}
WARM_UPS = 4
QUERY = "?q=family&is.genres=Crime&sort=rating:desc"


def draw(browser: Any, service: Service) -> bytes:
    """Return a picture of the films' search page, as WebP."""
    context = browser.new_context(viewport=VIEWPORT, base_url=service.url)
    try:
        page = context.new_page()
        for _ in range(WARM_UPS + 1):  # so that it shows the time of a search that is not the first
            page.goto(f"/dashboard/films{QUERY}")
            page.locator(".value").first.wait_for()
        page.locator(".total").click()  # the text of the search loses its selection
        session = context.new_cdp_session(page)
        taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": 80})
        return base64.b64decode(taken["data"])
    finally:
        context.close()


def main() -> None:
    """Redraw the picture."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_service(Path(folder) / "data") as service,
        opened_browser() as browser,
    ):
        service.make_films("films")
        PICTURE.write_bytes(draw(browser, service))
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
