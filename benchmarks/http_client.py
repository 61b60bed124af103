"""A small keep-alive HTTP client: loads, checks and single requests; wrk generates the load."""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

LONG_SECONDS = 3_600.0

JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request, as wrk and `HttpClient` send it."""

    target: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


class HttpFailure(Exception):
    """The server answered with an error."""


class HttpClient:
    """One connection to a server on this machine."""

    def __init__(self, port: int, timeout_seconds: float = LONG_SECONDS) -> None:
        self.port = port
        self.timeout_seconds = timeout_seconds
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """End the connection; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def request(
        self,
        method: str,
        target: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Send a request and return status and body.

        An idle connection that the server has closed meanwhile is reopened, once, unless the
        body is a stream, which cannot be sent twice.
        """
        can_repeat = self._connection is not None and (body is None or isinstance(body, bytes))
        while True:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(
                    "127.0.0.1", self.port, timeout=self.timeout_seconds
                )
            try:
                self._connection.request(method, target, body=body, headers=dict(headers or {}))
                response = self._connection.getresponse()
                return response.status, response.read()
            except (http.client.HTTPException, OSError) as error:
                self.close()
                if not can_repeat or not isinstance(error, ConnectionResetError | BrokenPipeError):
                    raise
                can_repeat = False

    def ask(
        self,
        method: str,
        target: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send a request that must succeed and return the body."""
        status, answer = self.request(method, target, body, headers)
        if status >= 400:
            raise HttpFailure(f"{method} {target[:80]} answered {status}: {answer[:400]!r}")
        return answer

    def send(self, request: HttpRequest) -> bytes:
        """Send a prepared request that must succeed and return the body."""
        return self.ask(
            request.method, request.target, request.body.encode() or None, request.headers
        )
