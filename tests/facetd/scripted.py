"""A server with scripted responses that records its requests."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from tests.service import free_port


class RequestedQuery(NamedTuple):
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Scripted:
    """Answers in their order: (status, document) or "hang up"."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[RequestedQuery] = []
        self.url = ""


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    if handler.headers.get("Transfer-Encoding") != "chunked":
        return handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
    body = b""
    while size := int(handler.rfile.readline() or b"0", 16):  # a client may leave midway
        body += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return body


@contextmanager
def serving(*answers: Any, certificate: Path | None = None, prefix: str = "") -> Iterator[Scripted]:
    """Serve the given answers on a free port."""
    script = Scripted(*answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            script.asked.append(RequestedQuery(self.command, self.path, headers, _body(self)))
            told = script.answers.pop(0)
            if told == "hang up":
                self.close_connection = True
                return
            status, document, *more = told
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            for name, value in more[0].items() if more else ():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    # Never a port again to which a client may still have a connection.
    server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    script.url = f"{scheme}://127.0.0.1:{server.server_address[1]}{prefix}"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
