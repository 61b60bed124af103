"""A small HTTP client of the service's own interface, for the command line.

Standard library only: commands such as `facetd status` should answer before numpy is imported.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from common.data_directory import read_coordinator_endpoint

STREAM_BYTES: Final = 256 * 1024


class ClientError(Exception):
    """The service refused, failed, or is not there; the message is for the user.

    Attributes:
        status: of HTTP; 0 where nothing answered.
        code: of the error envelope; "" where there is none.
        details: the error object of the envelope.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.details: Mapping[str, Any] = details or {}


class Client:
    """Talks to one service.

    Args:
        url: `http://host:port` or `https://host`, with a path where a proxy puts the service under
            one (`https://example.org/search`).
        key: API key, if the service wants one.
        timeout: seconds without any byte after which a request fails.
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 3_600.0) -> None:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError:  # not a number, or none that a port can have
            port = -1
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or port == -1
            or parts.query
            or parts.fragment
            or parts.username is not None
        ):
            raise ClientError(
                "the URL must be http://HOST:PORT or https://HOST:PORT, with a path if a proxy "
                f"serves facetd under one, not {url}"
            )
        self._prefix = quote(parts.path.rstrip("/"), safe="/%")
        self.url = f"{parts.scheme}://{parts.netloc}{self._prefix}"
        self._is_secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, port
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
        request_id: str | None = None,
    ) -> Any:
        """Send a request and return the decoded answer.

        Args:
            method: of HTTP.
            path: with query string, already quoted.
            body: bytes, or pieces of a body of any size.
            content_type: of the body.
            num_bytes: of a body in pieces, if known; else it is sent chunked.
            encoding: Content-Encoding of the body.
            request_id: that the service calls the request by, in its log and in `GET /_loads`.

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
        if request_id:
            headers["X-Request-Id"] = request_id
        try:
            # What is refused before it was sent whole has an answer that says why.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, self._prefix + path, body, headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ClientError(
                f"no answer from {self.url} ({error or type(error).__name__}); is facetd running? "
                "Start it with facetd serve, or name another with --url"
            ) from error
        finally:
            connection.close()
        answer = self._decode(content)
        if response.status >= 400:
            raise error_of(response.status, answer)
        return answer

    def stream(self, path: str) -> Iterator[bytes]:
        """GET a body of any size, piece by piece.

        Raises:
            ClientError: an error answer, or the body ends before its end.
        """
        connection, headers = self._connect()
        try:
            connection.request("GET", self._prefix + path, headers=headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise error_of(response.status, self._decode(response.read()))
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
        kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=self._timeout), headers

    def _decode(self, content: bytes) -> Any:
        """Decode an answer."""
        try:
            return json.loads(content) if content else None
        except ValueError as error:
            raise ClientError(
                f"what answers at {self.url} is not facetd: its answer is no JSON; check the URL, "
                "and the path if a proxy serves facetd under one"
            ) from error

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
        request_id: str | None = None,
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
            request_id=request_id,
        )

    def search(self, index: str, parameters: dict[str, Any]) -> Any:
        """Search."""
        return self.request("GET", f"{index_path(index)}/search?{urlencode(parameters)}")


def index_path(index: str) -> str:
    """Return the path of an index."""
    return "/" + quote(index, safe="")


def find_url(url: str | None, data: Path | None, host: str, port: int) -> str:
    """Return the URL of the service: as given, as the data directory says, or as it would be."""
    if url:
        return url
    endpoint = None if data is None else read_coordinator_endpoint(data)
    if endpoint is not None:
        host, port = endpoint.host, endpoint.port
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def error_of(status: int, answer: Any) -> ClientError:
    """Return what an error answer says: one line, and one more for each further listed mistake.

    The message tells of the first mistake itself, so that one is not listed again.
    """
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return ClientError(f"the service answered {status}", status=status)
    code = str(error.get("code", ""))
    lines = [f"{error.get('message', '')} ({status} {code})"]
    for item in (error.get("errors") or [])[1:]:
        message = str(item.get("message", ""))
        param = item.get("param", "")
        lines.append(f"  {message if not param or param in message else f'{param}: {message}'}")
    return ClientError("\n".join(lines), status=status, code=code, details=error)
