"""The configurations of nginx and Caddy in deploy/proxy, with the real programs."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urljoin

import pytest

from facetd import tenant_token
from tests.service import ROOT, Service, free_port
from tests.waiting import wait_until

PROXIES = ROOT / "deploy" / "proxy"
HOSTS = ("search.example.org", "shop.example.org")
BASES = (f"https://{HOSTS[0]}", f"https://{HOSTS[1]}/search")
PAGES_ORIGIN = "https://pages.example.org"
LOAD_ITEMS = 3_000


class Answer(NamedTuple):
    """An answer through a proxy."""

    status: int
    headers: dict[str, str]
    body: bytes


class _Connection(http.client.HTTPSConnection):
    """HTTPS to a port of this machine, under the name of a host."""

    def __init__(self, host: str, port: int, certificate: Path, address: str) -> None:
        self._context_of_test = ssl.create_default_context(cafile=str(certificate))
        super().__init__(host, context=self._context_of_test, timeout=60)
        self._port_of_test = port
        self._address = address

    def connect(self) -> None:
        plain = socket.create_connection(
            ("127.0.0.1", self._port_of_test), 60, source_address=(self._address, 0)
        )
        self.sock = self._context_of_test.wrap_socket(plain, server_hostname=self.host)


class Proxy:
    """A running proxy in front of a running service."""

    def __init__(self, service: Service, port: int, certificate: Path) -> None:
        self.service = service
        self._port = port
        self._certificate = certificate

    def ask(
        self,
        method: str,
        url: str,
        body: bytes | Iterator[bytes] | None = None,
        headers: dict[str, str] | None = None,
        address: str = "127.0.0.1",
    ) -> Answer:
        """Send one request from an address of this machine."""
        _, _, host, path = url.split("/", 3)
        connection = _Connection(host, self._port, self._certificate, address)
        try:
            connection.request(method, f"/{path}", body, headers or {})
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, names, answer.read())
        finally:
            connection.close()


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for both hosts."""
    certificate, key = folder / "search.pem", folder / "search.key"
    names = ",".join(f"DNS:{host}" for host in HOSTS)
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=facetd test", "-addext", f"subjectAltName={names}"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def _nginx(folder: Path, port: int, service: int, files: tuple[Path, Path]) -> list[str]:
    """Write nginx's configuration, with our ports and paths; return the command."""
    text = (PROXIES / "nginx.conf").read_text()
    text = text.replace("[::]:443", f"[::1]:{port}").replace("listen 443", f"listen {port}")
    text = text.replace("127.0.0.1:3000", f"127.0.0.1:{service}")
    text = text.replace("/etc/ssl/search.pem", str(files[0]))
    text = text.replace("/etc/ssl/search.key", str(files[1]))
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        text = re.sub(r".*\[::1\].*\n", "", text)
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
        + (f"user {'root' if os.geteuid() == 0 else 'nobody'};\n" if os.geteuid() == 0 else "")
        + f"events {{}}\nhttp {{\naccess_log off;\n{paths}{text}\n}}\n"
    )
    return ["nginx", "-c", str(folder / "nginx.conf"), "-p", str(folder)]


def _caddy(folder: Path, port: int, service: int, files: tuple[Path, Path]) -> list[str]:
    """Write Caddy's configuration, with our ports and certificate; return the command."""
    text = (PROXIES / "Caddyfile").read_text()
    text = text.replace("127.0.0.1:3000", f"127.0.0.1:{service}")
    for host in HOSTS:
        text = text.replace(f"{host} {{", f"{host} {{\n\ttls {files[0]} {files[1]}")
    options = f"admin off\n\tskip_install_trust\n\thttp_port {free_port()}\n\thttps_port {port}"
    (folder / "Caddyfile").write_text(f"{{\n\t{options}\n}}\n{text}")
    return ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


_MAKERS: dict[str, Callable[[Path, int, int, tuple[Path, Path]], list[str]]] = {
    "nginx": _nginx,
    "caddy": _caddy,
}


@pytest.fixture(scope="module", params=_MAKERS)
def proxy(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    name = str(request.param)
    for program in (name, "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}: apt-get install {program}")
    folder = tmp_path_factory.mktemp(name)
    files = _certificate(folder)
    environment = {
        **os.environ,
        "HOME": str(folder),
        "FACETD_ALLOWED_HOSTS": ",".join(HOSTS),
        "FACETD_ALLOWED_ORIGINS": PAGES_ORIGIN,
        "FACETD_TRUSTED_PROXIES": "127.0.0.1",
        "FACETD_CLIENT_REQUESTS_PER_SECOND": "1",
        "FACETD_CLIENT_BURST": "40",
    }
    with Service(folder / "data", 2, environment=environment) as service:
        port = free_port()
        command = _MAKERS[name](folder, port, service.port, files)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            found = Proxy(service, port, files[0])
            _wait(found, process, folder / "log")
            yield found
        finally:
            process.terminate()
            process.wait(20)


def _wait(proxy: Proxy, process: subprocess.Popen[bytes], log: Path) -> None:
    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        status: int = proxy.ask("GET", f"https://{HOSTS[0]}/_health").status
        return status == 200

    broken = (OSError, http.client.HTTPException)
    wait_until(answers, problem=log.read_text, ignoring=broken)


@pytest.mark.parametrize("base", BASES)
def test_requests_of_pages(proxy: Proxy, base: str) -> None:
    origin = base.removesuffix("/search")
    headers = {"Origin": origin, "Content-Type": "application/json"}
    changed = proxy.ask("POST", f"{base}/pages/configuration", b"{}", headers)
    assert changed.status == 200, changed.body
    stranger = {**headers, "Origin": "https://evil.example"}
    assert proxy.ask("POST", f"{base}/pages/configuration", b"{}", stranger).status == 403
    assert proxy.ask("GET", f"{base}/_instantsearch.js").status == 200
    missing = proxy.ask("GET", f"{base}/none/search")
    assert json.loads(missing.body)["error"]["code"] == "index_not_found"
    queries = json.dumps({"requests": [{"indexName": "pages", "query": ""}]}).encode()
    found = proxy.ask("POST", f"{base}/1/indexes/*/queries", queries, headers)
    assert json.loads(found.body)["results"][0]["nbHits"] == 0


@pytest.mark.parametrize("base", BASES)
def test_pages_find_their_files_under_any_path(proxy: Proxy, base: str) -> None:
    start = proxy.ask("GET", f"{base}/")
    assert start.status == 302
    assert urljoin(f"{base}/", start.headers["location"]) == f"{base}/dashboard"
    for path in ("dashboard", "dashboard/films", "dashboard/_health", "_docs"):
        page = proxy.ask("GET", f"{base}/{path}")
        assert page.status == 200
        names = re.findall(r'<(?:link|script|a) [^>]*(?:src|href)="([^"#]+)"', page.body.decode())
        assert len(names) >= 3
        for name in names:
            assert proxy.ask("GET", urljoin(f"{base}/{path}", name)).status == 200, (path, name)


@pytest.mark.parametrize("base", BASES)
def test_ids_arrive_as_they_were_sent(proxy: Proxy, base: str) -> None:
    headers = {"Content-Type": "application/json"}
    address = f"127.0.0.{20 + BASES.index(base)}"
    url = f"{base}/ids{BASES.index(base)}"

    def ask(method: str, target: str, body: bytes | None = None) -> Answer:
        return proxy.ask(method, target, body, headers, address)

    assert ask("POST", f"{url}/configuration", b"{}").status == 200
    for name in ("a/b", "a b", "a%2Fb", "a?b", "ü", "a/../b", "//", "&=+#"):
        item = f"{url}/items/{quote(name, safe='')}"
        stored = ask("PUT", item, json.dumps({"name": name}).encode())
        assert stored.status == 200, (name, stored.body)
        assert json.loads(ask("GET", item).body) == {"id": name, "name": name}
    listed = ask("GET", f"{url}/search?query=a&filter=id%20%3D%20%22a%2Fb%22")
    assert json.loads(listed.body)["pagination"]["total"] == 1


def test_large_loads_and_exports_stream_through(proxy: Proxy) -> None:
    base = f"https://{HOSTS[1]}/search"
    text = b"word" * 2_500  # 30 MB in all; to index many words is not the proxy's work
    lines = (b'{"id":%d,"text":"%s"}\n' % (number, text) for number in range(LOAD_ITEMS))
    proxy.ask("POST", f"{base}/large/configuration", b"{}", {"Content-Type": "application/json"})
    loaded = proxy.ask("POST", f"{base}/large/index", lines, {"Content-Type": "text/plain"})
    assert json.loads(loaded.body)["created"] == LOAD_ITEMS, loaded.body[:300]
    exported = proxy.ask("GET", f"{base}/large/items")
    assert exported.status == 200
    assert exported.body.count(b"\n") == LOAD_ITEMS
    refused = proxy.ask(
        "POST",
        f"{base}/large/index",
        iter([b'{"id": 1}\n', b"no JSON\n"]),
        {"Content-Type": "text/plain"},
    )
    assert refused.status == 400


def test_each_client_has_its_own_rate(proxy: Proxy) -> None:
    url = f"https://{HOSTS[0]}/_indexes"
    # Another address of this machine: for facetd all come from the proxy.
    statuses = [proxy.ask("GET", url, address="127.0.0.9").status for _ in range(60)]
    assert 429 in statuses
    assert proxy.ask("GET", url, address="127.0.0.10").status == 200
    # A client cannot pretend to be another one.
    pretended = {"X-Forwarded-For": "192.0.2.7"}
    assert 429 in [
        proxy.ask("GET", url, headers=pretended, address="127.0.0.9").status for _ in range(3)
    ]


def test_tenants_search_from_pages_of_another_origin(proxy: Proxy) -> None:
    # The last test: its first key closes the service for good.
    admin = ""

    def call(method: str, path: str, body: object = None) -> Any:
        headers = {"Content-Type": "application/json", "X-API-Key": admin}
        url = f"https://{HOSTS[0]}{path}"
        content = b"" if body is None else json.dumps(body).encode()
        answer = proxy.ask(method, url, content, headers, "127.0.0.11")
        assert answer.status // 100 == 2, answer.body
        return json.loads(answer.body)

    call("POST", "/tenants/configuration", {"aggregations": {"tenant": {}}})
    call("POST", "/tenants/items", [{"id": one, "tenant": one % 3} for one in range(9)])
    admin = call("POST", "/_keys", {"actions": ["search", "write", "admin"]})["key"]
    key = call("POST", "/_keys", {"actions": ["search"]})
    token = tenant_token(key["key"], filter="tenant = 1", indexes=["tenants"], expires_in=600)
    query = b'{"facet_fields": ["tenant"]}'
    page = {"Origin": PAGES_ORIGIN, "Content-Type": "application/json"}
    allowed = {**page, "Authorization": f"Bearer {token}"}
    urls = [f"{base}/tenants/search" for base in BASES]
    for url in urls:
        asked = {"Access-Control-Request-Method": "POST"}
        preflight = proxy.ask("OPTIONS", url, None, {**page, **asked})
        assert preflight.status == 204
        assert preflight.headers["access-control-allow-origin"] == PAGES_ORIGIN
        assert "X-API-Key" in preflight.headers["access-control-allow-headers"]
        found = proxy.ask("POST", url, query, allowed)
        assert found.headers["access-control-allow-origin"] == PAGES_ORIGIN
        answer = json.loads(found.body)
        assert answer["pagination"]["total"] == 3
        buckets = answer["data"]["aggregations"]["tenant"]["buckets"]
        assert [(one["key"], one["doc_count"]) for one in buckets if one["doc_count"]] == [("1", 3)]
        items = f"{url.removesuffix('/search')}/items"
        assert proxy.ask("POST", items, b"[]", allowed).status == 403
        assert proxy.ask("POST", url, query, page).status == 401
        stranger = {**allowed, "Origin": "https://evil.example"}
        assert "access-control-allow-origin" not in proxy.ask("POST", url, query, stranger).headers
    call("DELETE", f"/_keys/{key['id']}")
    assert [proxy.ask("POST", url, query, allowed).status for url in urls] == [401, 401]
