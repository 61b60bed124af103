"""The real service on a free port, and real Chromium to look at it.

Needs playwright (any version that can drive an installed Chromium) and Chromium itself; without
one of them the tests of this folder that need a browser are skipped and say so.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.service import free_port

START_SECONDS_MAX = 90.0
ROOT = Path(__file__).parents[2]
DEMO = ROOT / "coordinator" / "demo"
CHROMIUM_NAMES = (
    *("chromium-headless-shell", "chrome-headless-shell"),
    *("chromium", "chromium-browser", "google-chrome", "chrome"),
)
"""The first that is installed. A headless shell has the engine alone, without the windows around
pages that `chromium --headless` draws too: half the CPU."""
CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ACTION_MS_MAX = 10_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a browser unless this folder runs alone.

    Playwright's blocking interface keeps an event loop running in the main thread until the session
    ends; asynchronous tests of other folders cannot run beside it.
    """
    folder = Path(__file__).parent
    if all(folder in item.path.parents for item in items):
        return
    reason = "needs a browser: run `pytest tests/dashboard` alone"
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()) and folder in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


@dataclass
class Service:
    """A running service, as a client sees it."""

    url: str

    def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        """Make one request; raises on any status but 2xx."""
        encoded = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else encoded,
            headers={"Content-Type": content_type},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.loads(response.read() or b"null")

    def wait_until_ready(self, process: subprocess.Popen[bytes] | None = None) -> None:
        """Wait until all shards serve; fails if the process ends before."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            assert process is None or process.poll() is None, "the service has ended"
            with contextlib.suppress(OSError):
                self.call("GET", "/_ready")
                return
            time.sleep(0.1)
        pytest.fail("the service was not ready in time")

    def make_index(self, name: str, configuration: Any, items: list[Any]) -> None:
        """Recreate an index and load it."""
        self.load_index(name, json.dumps(configuration), "\n".join(map(json.dumps, items)))

    def make_films(self, name: str = "films") -> None:
        """Recreate an index of the demo's films."""
        configuration = (DEMO / "configuration.json").read_text()
        self.load_index(name, configuration, (DEMO / "films.ndjson").read_text())

    def load_index(self, name: str, configuration: str, lines: str) -> None:
        """Replace an index by one of this configuration and these lines of JSON."""
        with contextlib.suppress(urllib.error.HTTPError):
            self.call("DELETE", f"/{name}")
        self.call("POST", f"/{name}/configuration", configuration)
        self.call("POST", f"/{name}/index", lines, "text/plain")


class Watch:
    """Notes what a page does that it should not."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.problems: list[str] = []

    def on_console(self, message: Any) -> None:
        # The browser reports every 4xx and 5xx answer; those are the page's own business.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.problems.append(message.text)

    def on_error(self, error: Any) -> None:
        self.problems.append(f"uncaught: {error}")

    def on_dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def on_request(self, request: Any) -> None:
        if not request.url.startswith(self.url):
            self.problems.append(f"request to {request.url}")


@contextlib.contextmanager
def running_service(data_dir: Path, *flags: str) -> Iterator[Service]:
    """Start `facetd serve` with two shards; stop it in order."""
    port = free_port()
    command = [sys.executable, "-m", "coordinator", "serve", "--port", str(port), "--shards", "2"]
    with (data_dir.parent / f"{data_dir.name}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--data-dir", str(data_dir), *flags], cwd=ROOT, stdout=log, stderr=log
        )
        try:
            running = Service(f"http://127.0.0.1:{port}")
            running.wait_until_ready(process)
            yield running
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service that the tests share; each test makes the indexes that it changes."""
    if url := os.environ.get("FACETD_TEST_URL"):
        yield Service(url)
        return
    with running_service(tmp_path_factory.mktemp("dashboard") / "data") as running:
        yield running


def find_chromium() -> str | None:
    """Return the path of the first that is installed."""
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


@contextlib.contextmanager
def opened_browser() -> Iterator[Any]:
    """Chromium; skips where it, or the library that drives it, is missing."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    executable = find_chromium()
    if executable is None:
        pytest.skip(f"no Chromium found under any of the names {', '.join(CHROMIUM_NAMES)}")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, started once."""
    with opened_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def films(browser: Any, service: Service) -> None:
    """The demo's films, under the name `films` (after the browser: nothing starts without one)."""
    service.make_films()


VIEWPORT = {"width": 1280, "height": 900}
MEDIA = ("color_scheme", "reduced_motion")
"""What a tab can be told again for each test; all else is of its context."""
QUIET_PATH = "/dashboard/assets/icon.svg"
"""Where a tab waits between two tests: of the service's origin, and asks for nothing."""


class Tab:
    """One tab that tests use one after the other.

    It keeps the service's modules, compiled, and its process; a new one for each test took twice
    the processor time of a page. Between tests it loses its routes, its storage and its page. What
    a tab cannot lose (an init script, a clock, a listener, a permission) is for tests that are
    marked `own_tab`.
    """

    def __init__(self, browser: Any, service: Service) -> None:
        self._service = service
        context = browser.new_context(viewport=VIEWPORT, base_url=service.url)
        context.set_default_timeout(ACTION_MS_MAX)
        self._page = context.new_page()
        self._leave_page()

    def _leave_page(self) -> None:
        self._page.goto(QUIET_PATH)
        self._page.evaluate("sessionStorage.clear()")

    @contextlib.contextmanager
    def used(self, viewport: Any = VIEWPORT, **media: Any) -> Iterator[Any]:
        """Lend an empty page, of this size and these `MEDIA`; fails as `watched` does."""
        self._page.set_viewport_size(viewport)
        self._page.emulate_media(media="null", **(dict.fromkeys(MEDIA, "null") | media))
        try:
            with watched(self._page, self._service):
                yield self._page
        finally:
            self._page.unroute_all(behavior="ignoreErrors")
            self._leave_page()


@pytest.fixture(scope="session")
def tab(browser: Any, service: Service) -> Tab:
    """The tab that tests share."""
    return Tab(browser, service)


@pytest.fixture
def page(request: pytest.FixtureRequest, browser: Any, service: Service) -> Iterator[Any]:
    """An empty page; the test fails if it logged an error or asked any other host for anything."""
    if request.node.get_closest_marker("own_tab"):
        opened = watched_page(browser, service)
    else:
        opened = request.getfixturevalue("tab").used()
    with opened as page:
        yield page


@pytest.fixture(scope="module")
def opened_dashboard(browser: Any, service: Service) -> Iterator[Any]:
    """The dashboard, opened once for all tests of a file."""
    with watched_page(browser, service) as opened:
        opened.goto("/dashboard")
        yield opened


@pytest.fixture
def modules(opened_dashboard: Any, service: Service) -> Iterator[Any]:
    """A page whose modules a test calls; it changes nothing of the page itself."""
    with watched(opened_dashboard, service):
        yield opened_dashboard


@contextlib.contextmanager
def watched(page: Any, service: Service) -> Iterator[None]:
    """Fail if a page does meanwhile what it should not."""
    watch = Watch(service.url)
    listeners = {
        "console": watch.on_console,
        "pageerror": watch.on_error,
        "dialog": watch.on_dialog,
        "request": watch.on_request,
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    try:
        yield
    finally:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
    assert watch.problems == []


@contextlib.contextmanager
def watched_page(browser: Any, service: Service, **options: Any) -> Iterator[Any]:
    """A page in a tab of its own; fails as `watched` does."""
    context = browser.new_context(**{"viewport": VIEWPORT, "base_url": service.url} | options)
    context.set_default_timeout(ACTION_MS_MAX)
    opened = context.new_page()
    with watched(opened, service):
        yield opened
        context.close()


@pytest.fixture
def expect() -> Any:
    """Playwright's assertions, which wait until they hold."""
    return pytest.importorskip("playwright.sync_api").expect


def drop_file(page: Any, selector: str, name: str, text: str) -> None:
    """Drop a file, as the browser would, on an element."""
    page.evaluate(
        """([selector, name, text]) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([text], name, { type: "text/plain" }));
            const target = document.querySelector(selector);
            for (const type of ["dragenter", "dragover", "drop"]) {
              const options = { bubbles: true, cancelable: true, dataTransfer: transfer };
              target.dispatchEvent(new DragEvent(type, options));
            }
        }""",
        [selector, name, text],
    )


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, fetched into a temporary folder."""
    folder = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, so axe-core cannot be fetched")
    fetched = subprocess.run(
        [npm, "pack", "axe-core@4"], cwd=folder, capture_output=True, text=True, timeout=120
    )
    if fetched.returncode != 0:
        pytest.skip("axe-core could not be fetched from npm")
    archive = next(Path(folder).glob("axe-core-*.tgz"))
    with tarfile.open(archive) as files:
        member = files.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


SETTLED = """() => document.querySelector('[aria-busy="true"]') === null
    && document.getAnimations().every((one) => !(one instanceof CSSTransition))"""
"""Whether a page is neither busy nor fading: while it is, its colours are not those to be read."""


def violations(page: Any, axe: str) -> list[str]:
    """Return what axe finds on a page that has settled.

    It fetches style sheets only for a rule that is not among its usual ones, and films only for one
    about their sound: neither is loaded.
    """
    page.evaluate(axe)
    page.wait_for_function(SETTLED)
    options = {"resultTypes": ["violations"], "preload": False}
    found = page.evaluate(
        "async (options) => (await axe.run(document, options)).violations", options
    )
    return [
        f"{violation['id']}: {node['target']} {node['failureSummary']}"
        for violation in found
        for node in violation["nodes"]
    ]
