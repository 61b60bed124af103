"""The dashboard and `/_docs` behind the real nginx, which serves facetd under a path."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.conftest import Service, watched_page
from tests.service import free_port
from tests.waiting import wait_until

CONFIGURATION = """\
daemon off; pid {folder}/pid; error_log {folder}/error.log; {user}
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location /shop/search/ {{
            proxy_pass {service}/;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
        }}
    }}
}}
"""


@pytest.fixture(scope="module")
def proxied(
    browser: Any, service: Service, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """The service as the world sees it, with films (and after the browser: it may skip)."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        pytest.skip("needs nginx: apt-get install nginx-light")
    service.make_films()
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    text = CONFIGURATION.format(
        folder=folder,
        port=port,
        service=service.url,
        user="user root;" if os.geteuid() == 0 else "",
    )
    (folder / "nginx.conf").write_text(text)
    process = subprocess.Popen([nginx, "-c", folder / "nginx.conf", "-p", folder])
    try:
        _wait_for(port, process, folder / "error.log")
        yield Service(f"http://127.0.0.1:{port}/shop/search")
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    def listens() -> bool:
        assert process.poll() is None, log.read_text()
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listens, problem=log.read_text)


def test_all_of_it_works_under_a_path(browser: Any, proxied: Service, expect: Any) -> None:
    base = proxied.url
    with watched_page(browser, proxied) as page:  # fails on any request outside of the path
        page.goto(f"{base}/")
        expect(page).to_have_url(f"{base}/dashboard")
        page.get_by_role("link", name="films", exact=True).first.click()
        expect(page).to_have_url(f"{base}/dashboard/films")
        page.get_by_role("searchbox").first.fill("godfather")
        expect(page.get_by_text("The Godfather").first).to_be_visible()
        page.reload()
        expect(page.get_by_text("The Godfather").first).to_be_visible()
        for name in ("Health", "Service", "Indexes"):
            page.get_by_role("link", name=name, exact=True).click()
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert page.url.startswith(f"{base}/dashboard")
        page.goto(f"{base}/dashboard/not-there")
        page.get_by_role("button", name="All indexes").click()
        expect(page).to_have_url(f"{base}/dashboard")
        page.get_by_role("link", name="API", exact=True).click()
        expect(page).to_have_url(f"{base}/_docs")
        page.get_by_label("Try it: GET /_indexes", exact=True).click()
        section = page.locator("section").filter(
            has=page.get_by_label("Try it: GET /_indexes", exact=True)
        )
        section.get_by_role("button", name="Run").click()
        expect(section.get_by_role("status")).to_contain_text("200")


def test_items_are_loaded_under_a_path(browser: Any, proxied: Service) -> None:
    script = """async (base) => {
        const { loadItems } = await import(`${base}/dashboard/assets/api.js`);
        const options = { onProgress() {}, signal: new AbortController().signal, requestId: "a" };
        const answer = await loadItems("films", new Blob(['{"id": "new"}']), options);
        return answer.created;
    }"""
    with watched_page(browser, proxied) as page:
        page.goto(f"{proxied.url}/dashboard")
        assert page.evaluate(script, proxied.url) == 1


def test_the_search_client_finds_its_service(browser: Any, proxied: Service) -> None:
    script = """async (base) => {
        const { createSearchClient } = await import(`${base}/_instantsearch.js`);
        const asked = [{ indexName: "films", params: { query: "godfather" } }];
        return (await createSearchClient().search(asked)).results[0].nbHits;
    }"""
    with watched_page(browser, proxied) as page:
        page.goto(f"{proxied.url}/dashboard")
        assert page.evaluate(script, proxied.url) >= 2
