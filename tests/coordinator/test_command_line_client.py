"""The HTTP client of the command line: addresses, waiting, and how it tells errors."""

from __future__ import annotations

import contextlib
import http.server
import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import facetd
from common.errors import NotFound, ServiceError, Unauthorized
from coordinator.command_line_client import Client, ClientError, connection_fault, error_of
from coordinator.http.responses import error_body
from tests.facetd.scripted import serving

Serve = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server that answers every request with `{}` and notes its path."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(
        context: ssl.SSLContext | None = None, content: bytes = b"{}"
    ) -> tuple[int, list[str]]:
        paths: list[str] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                paths.append(self.path)
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server.server_address[1], paths

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("path", ["/search", "/search/", "/a/b%20c", ""])
def test_a_path_in_the_url_stands_before_every_path(serve: Serve, path: str) -> None:
    port, paths = serve()
    client = Client(f"http://127.0.0.1:{port}{path}")
    client.request("GET", "/_health")
    assert b"".join(client.stream("/films/items")) == b"{}"
    prefix = path.rstrip("/")
    assert paths == [f"{prefix}/_health", f"{prefix}/films/items"]
    assert client.url == f"http://127.0.0.1:{port}{prefix}"


def test_https_is_spoken_and_certificates_are_checked(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost"),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    port, paths = serve(context)
    with pytest.raises(ClientError, match="is not trusted"):
        Client(f"https://localhost:{port}/x").request("GET", "/_health")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    Client(f"https://localhost:{port}/x").request("GET", "/_health")
    assert paths == ["/x/_health"]


@pytest.mark.parametrize(
    "url", ["ftp://host", "http://", "http://host:x", "http://h/?a=b", "http://a..b", "http://a b"]
)
def test_an_invalid_service_address_is_refused(url: str) -> None:
    with pytest.raises(ClientError, match="the URL must be http://HOST:PORT or https://"):
        Client(url)


def test_an_address_with_a_password_is_refused_without_quoting_it() -> None:
    with pytest.raises(ClientError, match="must be without user and password") as raised:
        Client("http://user:secret@host")
    assert "secret" not in str(raised.value)


def test_another_server_is_reported_as_such(serve: Serve) -> None:
    port, _ = serve(content=b"<html>")
    with pytest.raises(ClientError, match="is not facetd"):
        Client(f"http://127.0.0.1:{port}").request("GET", "/_health")


def test_another_servers_page_is_not_written_as_an_export(serve: Serve) -> None:
    port, _ = serve(content=b"<html>")
    with pytest.raises(ClientError, match="is not facetd"):
        list(Client(f"http://127.0.0.1:{port}").stream("/films/items"))


def test_an_export_waits_for_a_service_that_starts() -> None:
    told: list[str] = []
    starting = (503, {"error": {"code": "starting", "message": "no", "status": 503}})
    with serving(starting, (200, b'{"id":1}\n')) as server:
        client = Client(server.url, starting_seconds=5, notice=told.append)
        assert list(client.stream("/films/items")) == [b'{"id":1}\n']
    assert told == [f"waiting for {server.url}, which is starting"]


def test_an_export_without_a_service_says_how_to_start_one() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        client = Client(f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(ClientError, match="is facetd running"):
            list(client.stream("/films/items"))


def test_a_read_waits_less_long_for_an_answer_than_a_change() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        client = Client(
            f"http://127.0.0.1:{silent.getsockname()[1]}", read_seconds=0.2, change_seconds=0.4
        )
        with pytest.raises(ClientError, match=r"no answer from \S+ within 0\.2 s$"):
            client.request("GET", "/_health")
        with pytest.raises(ClientError, match=r"within 0\.2 s$"):
            list(client.stream("/films/items"))
        with pytest.raises(ClientError, match=r"within 0\.4 s; the change may still take place"):
            client.request("POST", "/films/configuration", b"{}")


def test_a_redirect_is_reported_with_its_target() -> None:
    target = {"Location": "https://example.org/_health"}
    with serving((301, b"", target)) as server, pytest.raises(ClientError) as caught:
        Client(server.url).request("GET", "/_health")
    assert str(caught.value) == (
        f"{server.url} redirects to https://example.org/_health; give the URL that it leads to"
    )


def test_each_mistake_is_reported_once() -> None:
    errors = [{"line": 2, "message": "line 2: a"}, {"line": 5, "message": "line 5: b"}]
    answer = {"error": {"code": "c", "message": "line 2: a (and 1 more)", "errors": errors}}
    assert str(error_of(400, json.loads(json.dumps(answer)))) == (
        "line 2: a (and 1 more) (400 c)\n  line 5: b"
    )


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (NotFound("no 'x; y'", advice="POST it", code="index_not_found"), "facetd load FILE"),
        (NotFound("no 'x'", advice="GET it", code="snapshot_not_found"), "facetd snapshots"),
        (NotFound("no 'x'", advice="GET it", code="alias_not_found"), "facetd alias lists"),
        (NotFound("no 'x'", advice="GET it", code="key_not_found"), "facetd keys lists"),
        (NotFound("no such page", advice="GET /_docs"), "check the URL"),
        (Unauthorized("a key is needed", advice="send Authorization: Bearer"), "--key"),
    ],
)
def test_errors_advise_in_terms_of_the_command_line(error: ServiceError, shown: str) -> None:
    fault = error.message.removesuffix(f"; {error.message.rpartition('; ')[2]}")
    line = str(error_of(error.http_status, json.loads(error_body(error, "r"))))
    assert line.startswith(f"{fault}; ")
    assert shown in line
    assert not {"POST", "GET", "Authorization:"} & set(line.split())


def test_what_an_error_says_beside_advice_is_shown_whole() -> None:
    """It names the indexes that the snapshot has, which was cut off for a hint at others."""
    said = "snapshot 's' has no index 'x'; it has films, books"
    error = NotFound(said, code="index_not_found")
    assert str(error_of(404, json.loads(error_body(error, "r")))) == f"{said} (404 index_not_found)"


def test_a_request_waits_for_a_service_that_is_starting() -> None:
    starting = (503, {"error": {"code": "starting", "message": "soon", "status": 503}})
    told: list[str] = []
    with serving(starting, starting, (200, {"status": "ok"})) as server:
        client = Client(server.url, starting_seconds=30, notice=told.append)
        assert client.request("POST", "/a/configuration", b"{}") == {"status": "ok"}
    assert [asked.body for asked in server.asked] == [b"{}"] * 3
    assert told == [f"waiting for {server.url}, which is starting"]

    with serving(starting) as server, pytest.raises(ClientError, match="soon"):
        Client(server.url).request("GET", "/_health")
    with serving(starting) as server, pytest.raises(ClientError, match="soon"):
        # The part of the body that was read is gone.
        Client(server.url, starting_seconds=30).request("POST", "/a/index", iter([b"{}"]))
    with serving((503, {"error": {"code": "overloaded"}})) as server, pytest.raises(ClientError):
        Client(server.url, starting_seconds=30).request("GET", "/_health")


def test_a_port_that_changes_hands_does_not_count_as_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The coordinator takes the port over from the process that answers `starting`."""
    refused = facetd.ConnectionFailed("refused", was_sent=False)
    starting = facetd.ApiError(503, {"code": "starting", "message": "soon"})
    results: list[Exception | bytes] = [starting, refused, refused, b"{}", refused]

    def send(_: object) -> bytes:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    client = Client("http://127.0.0.1:1", starting_seconds=30)
    monkeypatch.setattr(client._client, "send", send)
    assert client.request("GET", "/_health") == {}
    with pytest.raises(ClientError, match="no answer from"):
        client.request("GET", "/_health")


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (
            ssl.SSLCertVerificationError(1, "certificate verify failed"),
            "SSL_CERT_FILE names a file",
        ),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong"), "does not speak this protocol"),
        (
            ConnectionRefusedError(111, "Connection refused"),
            r"127\.0\.0\.1:1 \(connection refused\); is facetd running",
        ),
        (TimeoutError(), r"\(TimeoutError\)"),
    ],
)
def test_a_failed_connection_is_reported_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, cause: OSError, message: str
) -> None:
    if isinstance(cause, ssl.SSLCertVerificationError):
        cause.verify_message = "self-signed certificate"

    def send(_: object) -> bytes:
        raise facetd.ConnectionFailed("no", was_sent=False) from cause

    client = Client("https://127.0.0.1:1")
    monkeypatch.setattr(client._client, "send", send)
    with pytest.raises(ClientError, match=message):
        client.request("GET", "/_health")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("localhost", "certificate is not trusted (self-signed certificate); SSL_CERT_FILE"),
        ("search.example.org", "'localhost'); use an address that it names"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_said_with_what_helps(
    tmp_path: Path, name: str, message: str
) -> None:
    """An authority in SSL_CERT_FILE helps where it is unknown, not against another name."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made = ["-nodes", "-keyout", str(key), "-out", str(certificate), "-subj", f"/CN={name}"]
    lasting = ["-days", "2", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run([*make, *made, *lasting], check=True, capture_output=True)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(certificate, key)
    asks = ssl.create_default_context()
    if "not trusted" not in message:
        asks.load_verify_locations(certificate)
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asks.wrap_bio(ours, theirs, server_hostname="localhost")
    server = served.wrap_bio(theirs, ours, server_side=True)
    for side in (client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    with pytest.raises(ssl.SSLCertVerificationError) as failed:
        client.do_handshake()
    assert message in str(connection_fault(failed.value))


def test_a_certificate_that_has_expired_is_to_be_renewed() -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = 10, "certificate has expired"
    said = "not valid now (certificate has expired); renew it, or set the clock"
    assert said in str(connection_fault(error))


@pytest.mark.parametrize(
    ("status", "message"), [(400, "check the URL"), (502, "a proxy, which has no answer from")]
)
def test_an_answer_that_is_not_of_facetd(status: int, message: str) -> None:
    assert message in str(error_of(status, {"error": None}))
