"""A small HTTP client of the service's own interface, for the command line.

Standard library only: commands such as `facetd status` should answer before numpy is imported.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from common.data_directory import read_coordinator_endpoint

STREAM_BYTES: Final = 256 * 1024


class ClientError(Exception):
    """The service refused, failed, or is not there; the message is for the user."""


class Client:
    """Talks to one service.

    Args:
        url: `http://host:port`.
        key: API key, if the service wants one.
        timeout: seconds without any byte after which a request fails.
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 3_600.0) -> None:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme != "http" or not parts.hostname:
            raise ClientError(f"the URL must be http://HOST:PORT, not {url}")
        self.url = f"http://{parts.netloc}"
        self._host, self._port = parts.hostname, parts.port or 80
        self._key = key
        self._timeout = timeout

    def request(
        self,
        method: str,
        path: str,
        body: bytes | Iterable[bytes] | None = None,
        *,
        content_type: str = "application/json",
        num_bytes: int | None = None,
        encoding: str | None = None,
    ) -> Any:
        """Send a request and return the decoded answer.

        Args:
            method: of HTTP.
            path: with query string, already quoted.
            body: bytes, or pieces of a body of any size.
            content_type: of the body.
            num_bytes: of a body in pieces, if known; else it is sent chunked.
            encoding: Content-Encoding of the body.

        Raises:
            ClientError: no connection, or an error answer.
        """
        connection, headers = self._connect()
        if body is not None:
            headers["Content-Type"] = content_type
        if encoding:
            headers["Content-Encoding"] = encoding
        if num_bytes is not None:
            headers["Content-Length"] = str(num_bytes)
        try:
            # What is refused before it was sent whole has an answer that says why.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body, headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ClientError(
                f"no answer from {self.url} ({error or type(error).__name__}); is facetd running?"
            ) from error
        finally:
            connection.close()
        answer = self._decode(content)
        if response.status >= 400:
            raise ClientError(describe_error(response.status, answer))
        return answer

    def stream(self, path: str) -> Iterator[bytes]:
        """GET a body of any size, piece by piece.

        Raises:
            ClientError: an error answer, or the body ends before its end.
        """
        connection, headers = self._connect()
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise ClientError(describe_error(response.status, self._decode(response.read())))
            while piece := response.read1(STREAM_BYTES):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise ClientError(
                f"{self.url} broke off ({error or type(error).__name__}); the output is incomplete"
            ) from error
        finally:
            connection.close()

    def _connect(self) -> tuple[http.client.HTTPConnection, dict[str, str]]:
        """Return a connection and the headers of every request."""
        headers = {"Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout), headers

    def _decode(self, content: bytes) -> Any:
        """Decode an answer."""
        try:
            return json.loads(content) if content else None
        except ValueError as error:
            raise ClientError(f"{self.url} does not answer as facetd does") from error

    def wait_ready(self, seconds: float) -> None:
        """Return when all shards serve.

        Raises:
            ClientError: they do not in time.
        """
        give_up_at = time.monotonic() + seconds
        while True:
            try:
                self.request("GET", "/_ready")
            except ClientError:
                if time.monotonic() >= give_up_at:
                    raise
                time.sleep(0.1)
            else:
                return

    def configure(self, index: str, document: dict[str, Any]) -> Any:
        """Create or change an index."""
        return self.request(
            "POST", f"{index_path(index)}/configuration", json.dumps(document).encode()
        )

    def load(
        self,
        index: str,
        body: bytes | Iterable[bytes],
        *,
        skips_bad: bool = False,
        num_bytes: int | None = None,
        encoding: str | None = None,
    ) -> Any:
        """Load items: a JSON array, or newline-delimited JSON."""
        query = "?on_error=skip" if skips_bad else ""
        return self.request(
            "POST",
            f"{index_path(index)}/index{query}",
            body,
            content_type="text/plain",
            num_bytes=num_bytes,
            encoding=encoding,
        )

    def search(self, index: str, parameters: dict[str, Any]) -> Any:
        """Search."""
        return self.request("GET", f"{index_path(index)}/search?{urlencode(parameters)}")


def index_path(index: str) -> str:
    """Return the path of an index."""
    return "/" + quote(index, safe="")


def find_url(url: str | None, data: Path, host: str, port: int) -> str:
    """Return the URL of the service: as given, as the data directory says, or as it would be."""
    if url:
        return url
    endpoint = read_coordinator_endpoint(data)
    if endpoint is not None:
        host, port = endpoint.host, endpoint.port
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def default_key() -> str | None:
    """Return the key of the environment."""
    return os.environ.get("FACETD_KEY") or None


def describe_error(status: int, answer: Any) -> str:
    """Return what an error answer says, in one line and one for each listed item."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return f"the service answered {status}"
    lines = [f"{error.get('message', '')} ({status} {error.get('code', '')})"]
    for item in error.get("errors") or []:
        where = next((f"{unit} {item[unit]}" for unit in ("line", "index") if unit in item), "")
        lines.append(f"  {where or item.get('param', '')}: {item.get('message', '')}")
    return "\n".join(lines)
