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
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

START_SECONDS_MAX = 90.0
DEMO = Path(__file__).parents[2] / "coordinator" / "demo"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
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

    def make_index(self, name: str, configuration: Any, items: list[Any]) -> None:
        """Create an index and load it."""
        self.call("POST", f"/{name}/configuration", configuration)
        if items:
            lines = "\n".join(json.dumps(item) for item in items)
            self.call("POST", f"/{name}/index", lines, "text/plain")

    def make_films(self, name: str = "films") -> None:
        """Create an index of the demo's films, anew."""
        with contextlib.suppress(urllib.error.HTTPError):
            self.call("DELETE", f"/{name}")
        self.call("POST", f"/{name}/configuration", (DEMO / "configuration.json").read_text())
        self.call("POST", f"/{name}/index", (DEMO / "films.ndjson").read_text(), "text/plain")


@dataclass
class Watch:
    """What a page did that it should not have."""

    problems: list[str] = field(default_factory=list)

    def note(self, problem: str) -> None:
        # The browser reports every 4xx and 5xx answer; those are the page's own business.
        if "Failed to load resource" not in problem:
            self.problems.append(problem)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running_service(data_dir: Path, *flags: str) -> Iterator[Service]:
    """Start `facetd serve` with two shards; stop it in order."""
    port = free_port()
    command = [sys.executable, "-m", "coordinator", "serve", "--port", str(port), "--shards", "2"]
    with (data_dir.parent / f"{data_dir.name}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--data-dir", str(data_dir), *flags], stdout=log, stderr=log
        )
        try:
            wait_until_ready(process, f"http://127.0.0.1:{port}/_ready")
            yield Service(f"http://127.0.0.1:{port}")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the service ended with status {process.returncode}"
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as response:
            if response.status == 200:
                return
        time.sleep(0.1)
    pytest.fail("the service was not ready in time")


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service that the tests share; each test makes the indexes that it changes."""
    if url := os.environ.get("FACETD_TEST_URL"):
        yield Service(url)
        return
    with running_service(tmp_path_factory.mktemp("dashboard") / "data") as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, started once."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    executable = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if executable is None:
        pytest.skip(f"no Chromium found under any of the names {', '.join(CHROMIUM_NAMES)}")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any, service: Service) -> Iterator[Any]:
    """A fresh page; the test fails if it logged an error or asked any other host for anything."""
    with watched_page(browser, service) as opened:
        yield opened


@contextlib.contextmanager
def watched_page(browser: Any, service: Service, **options: Any) -> Iterator[Any]:
    watch = Watch()
    settings = {"viewport": {"width": 1280, "height": 900}, "base_url": service.url} | options
    context = browser.new_context(**settings)
    context.set_default_timeout(ACTION_MS_MAX)
    opened = context.new_page()
    opened.on("console", lambda message: message.type == "error" and watch.note(message.text))
    opened.on("pageerror", lambda error: watch.note(f"uncaught: {error}"))
    opened.on("dialog", lambda dialog: (watch.note(f"dialog: {dialog.message}"), dialog.dismiss()))
    opened.on(
        "request",
        lambda request: (
            request.url.startswith(service.url) or watch.note(f"request to {request.url}")
        ),
    )
    yield opened
    context.close()
    assert watch.problems == []
