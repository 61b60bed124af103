"""Stand-ins for other engines, and a service to import into."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from tests.coordinator.cli.importers.files import FILMS, MAPPING, SCHEMA, SETS


class _Engines(http.server.BaseHTTPRequestHandler):
    """As much of Typesense and Elasticsearch as an import asks for."""

    def do_GET(self) -> None:
        assert self.headers["X-TYPESENSE-API-KEY"] == "k" or "collections" not in self.path
        if self.path == "/collections/books":
            self._answer(json.dumps(SCHEMA))
        elif self.path == "/collections/films":
            self._answer(json.dumps(FILMS))
        elif self.path in SETS:
            self._answer(json.dumps(SETS[self.path]))
        elif self.path == "/synonym_sets/a%2Fb":
            self.send_error(404)
        elif self.path == "/collections/films/documents/export":
            self._answer('{"id":"1","title":"t"}\n')
        elif self.path == "/collections/books/documents/export":
            self._answer("".join(f'{{"id":"{i}","title":"t{i}"}}\n' for i in range(2500)))
        elif self.path == "/half.ndjson":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"id":"1"}\n')
            self.close_connection = True
        elif self.path == "/moved":
            self.send_response(302)
            self.send_header(
                "Location", f"http://localhost:{self.headers['Host'].partition(':')[2]}/seen"
            )
            self.end_headers()
        elif self.path == "/seen":
            self._answer(json.dumps({"seen": self.headers["Authorization"]}))
        else:
            self._answer(json.dumps(MAPPING))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "secured" in self.path and self.headers["Authorization"] != "Basic ZWxhc3RpYzpww6Q6":
            self.send_error(401)
            return
        done = int(body.get("scroll_id", 0))
        hits = [{"_id": str(i), "_source": {"n": i}} for i in range(done, min(done + 1000, 2500))]
        failed = 1 if "degraded" in self.path and done == 0 else 0
        shards = {"total": 5, "successful": 5 - failed, "failed": failed}
        answer = {"_scroll_id": str(done + 1000), "_shards": shards, "hits": {"hits": hits}}
        self._answer(json.dumps(answer))

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer("{}")

    def _answer(self, text: str) -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def engines() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Engines)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
