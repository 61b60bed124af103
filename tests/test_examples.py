"""Everything in examples/ runs: against a real service, in Chromium and Node where these are."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.dashboard.conftest import find_chromium
from tests.facetd.scripted import serving
from tests.npm.install import packages
from tests.service import ROOT, Service, free_port
from tests.waiting import wait_until

EXAMPLES = ROOT / "examples"
USUAL_URL = "http://127.0.0.1:3000"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A folder, and the port where it is served."""
    folder = tmp_path_factory.mktemp("pages")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(_Quiet, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever).start()
    yield folder, server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, pages: tuple[Path, int]) -> Iterator[Service]:
    """The service that examples/README.md starts."""
    origin = {"FACETD_ALLOWED_ORIGINS": f"http://127.0.0.1:{pages[1]}"}
    data = tmp_path_factory.mktemp("examples") / "data"
    with Service(data, 2, environment=origin) as service:
        loaded = subprocess.run(
            [
                *(sys.executable, "-m", "coordinator", "load", "examples/shop/products.ndjson"),
                *("--config", "examples/shop/configuration.json", "--port", str(service.port)),
            ],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        assert json.loads(loaded.stdout)["created"] == 24
        yield service


def _rendered(url: str, folder: Path) -> str:
    """Return a page's document after its scripts have run."""
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("needs chromium: apt-get install chromium")
    shown = subprocess.run(
        [
            *(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *("--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}"),
            *("--virtual-time-budget=15000", url),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    return shown.stdout


def _check_shop(document: str) -> None:
    assert "24 results found" in document, document[-3000:]
    assert "Desk lamp" in document
    assert "Textiles" in document
    assert "€ " in document
    assert "ais-RangeInput-form" in document


def test_the_page_in_plain_html(service: Service, pages: tuple[Path, int]) -> None:
    folder, port = pages
    library = packages() / "node_modules/instantsearch.js/dist/instantsearch.production.min.js"
    shutil.copy(library, folder / "instantsearch.js")
    text = (EXAMPLES / "shop" / "index.html").read_text()
    address = (
        "https://cdn.jsdelivr.net/npm/instantsearch.js@4.118.1/dist/instantsearch.production.min.js"
    )
    assert address in text
    text = text.replace(address, "instantsearch.js")
    assert text.count(USUAL_URL) == 1
    for name, facetd in (("index.html", service.port), ("alone.html", 1)):
        (folder / name).write_text(text.replace(USUAL_URL, f"http://127.0.0.1:{facetd}"))
    url = f"http://127.0.0.1:{port}/index.html"
    _check_shop(_rendered(url, folder))
    other = url.replace("//127.0.0.1:", "//localhost:", 1)  # an origin that is not allowed
    for address in (other, f"http://127.0.0.1:{port}/alone.html"):
        assert "No answer from facetd at http://127.0.0.1:" in _rendered(address, folder)


def test_both_pages_look_the_same() -> None:
    page = (EXAMPLES / "shop" / "index.html").read_text()
    style = page.split("<style>\n")[1].split("    </style>")[0]
    assert textwrap.dedent(style) == (EXAMPLES / "react" / "src" / "style.css").read_text()


def test_the_page_in_react(service: Service, tmp_path: Path) -> None:
    source = tmp_path / "react"
    shutil.copytree(EXAMPLES / "react", source)
    (source / "node_modules").symlink_to(packages() / "node_modules")
    vite = str(packages() / "node_modules" / ".bin" / "vite")
    command = [vite, "build", "--logLevel", "warn"]
    subprocess.run(command, cwd=source, timeout=120, check=True)
    found, failed = (_previewed(vite, source, facetd) for facetd in (service.port, 1))
    _check_shop(found)
    assert "The search failed: " in failed
    assert "No results" not in failed


@pytest.mark.parametrize("status", [200, 502])
def test_the_client_of_the_page_in_react_names_another_server(tmp_path: Path, status: int) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node: apt-get install nodejs")
    shutil.copy(EXAMPLES / "react" / "src" / "client.js", tmp_path / "client.mjs")
    (tmp_path / "page.mjs").write_text(
        'import { createSearchClient } from "./client.mjs";\n'
        "const client = createSearchClient(process.argv[2]);\n"
        "console.log(await client.search([]).then(JSON.stringify, (error) => error.message));\n"
    )
    with serving((status, b"<html>")) as server:
        command = [node, str(tmp_path / "page.mjs"), server.url]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == f"no answer of facetd ({status})\n"


def _previewed(vite: str, source: Path, facetd: int) -> str:
    """Return the page as Vite's server shows it, which passes requests on to a port of facetd."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [vite, "preview", "--host", "127.0.0.1", "--port", str(port), "--strictPort"],
        cwd=source,
        env={**os.environ, "FACETD_URL": f"http://127.0.0.1:{facetd}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(url, server)
        return _rendered(url, source.parent)
    finally:
        server.terminate()
        server.wait(20)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server that was started answers."""

    def answers() -> bool:
        assert process.poll() is None
        try:
            with urllib.request.urlopen(url, timeout=20):
                return True
        except HTTPError:
            return True

    wait_until(answers, 60, ignoring=(OSError,))


def _get(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)


@contextmanager
def _shop_service(facetd: str) -> Iterator[str]:
    """Run the example with FastAPI in front of a service; yield its address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES / "fastapi"), "app:app"),
            *("--port", str(port), "--log-level", "warning"),
        ],
        cwd=ROOT,
        env={**os.environ, "FACETD_URL": facetd},
    )
    try:
        _wait_for(url, process)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def test_the_service_with_fastapi(service: Service) -> None:
    for package in ("fastapi", "uvicorn"):
        pytest.importorskip(package, reason=f"needs {package}: pip install {package}")
    with _shop_service(f"http://127.0.0.1:{service.port}") as url:
        status, found = _get(f"{url}/search?q=lamp&category=Lamps&price_max=100")
        assert status == 200
        prices = {one["name"]: one["price_with_tax"] for one in found["products"]}
        assert prices == {"Desk lamp": 46.8, "Reading lamp": 70.8, "Paper lantern": 18.0}
        assert _get(f"{url}/products/1")[1]["name"] == "Desk lamp"
        assert _get(f"{url}/products/999")[0] == 404
        assert _get(f"{url}/search?page=0")[0] == 422


def test_the_service_with_fastapi_says_that_facetd_failed(pages: tuple[Path, int]) -> None:
    for package in ("fastapi", "uvicorn"):
        pytest.importorskip(package, reason=f"needs {package}: pip install {package}")
    with _shop_service(f"http://127.0.0.1:{pages[1]}") as url:  # a web server, but not facetd
        status, answer = _get(f"{url}/search?q=lamp")
        assert (status, answer["detail"].partition(":")[0]) == (502, "the search failed")


def test_the_notebook(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACETD_URL", f"http://127.0.0.1:{service.port}")
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text())
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert names["result"].created == 2_000
    assert names["page"].total > 0
    assert sum(bucket["doc_count"] for bucket in names["ranges"]["visitors"]) == 2_000


def test_the_packages_of_the_react_example_are_those_that_are_tested() -> None:
    described = json.loads((EXAMPLES / "react" / "package.json").read_text())
    wanted = described["dependencies"] | described["devDependencies"]
    tested = json.loads((ROOT / "tests" / "npm" / "package.json").read_text())["dependencies"]
    assert {name: version.lstrip("^") for name, version in wanted.items()} == {
        name: tested[name] for name in wanted
    }
