"""The client of the command line: `facetd.Client` with raw paths and errors for people.

Imports nothing large: commands such as `facetd status` should respond before numpy would be loaded.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import facetd
from common.endpoint_files import read_coordinator_endpoint
from common.errors import CommandError
from coordinator.addresses import local_url
from facetd.calls import Call

READ_SECONDS: Final = 90.0
"""How long to wait for a byte of an answer to a read: a service answers each within a minute."""
CHANGE_SECONDS: Final = 3_660.0
"""The same for a change: that of a whole index may take an hour, and says so itself if it takes
longer."""


class ClientError(CommandError):
    """The service refused, failed, or cannot be reached; the message is for the user.

    Attributes:
        status: HTTP status; 0 without a response.
        code: of the error envelope; "" without one.
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
    """Talks to one service through `facetd.Client`, with messages that fit the command line.

    Args:
        url: `http://host:port` or `https://host`, plus a path if a proxy serves it under one
            (`https://example.org/search`).
        key: API key, if the service requires one.
        read_seconds: without receiving a byte, after which a read (GET) fails.
        change_seconds: the same for any other request.
        starting_seconds: how long a request waits for a service that is starting.
        notice: tells the user that it waits, and for what.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        read_seconds: float = READ_SECONDS,
        change_seconds: float = CHANGE_SECONDS,
        starting_seconds: float = 0.0,
        notice: Callable[[str], object] = lambda text: None,
    ) -> None:
        self._notice = notice
        self._is_told = False
        tries = max(1, round(starting_seconds))  # one a second, as the service asks for
        retries = facetd.Retries(tries=1, tries_while_starting=tries)
        try:
            self._client = facetd.Client(url, key, retries=retries)
        except ValueError as error:
            raise ClientError(str(error)) from None
        self._read_seconds = read_seconds
        self._change_seconds = change_seconds
        self.url = self._client.address.url

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
        """Send a request and return the decoded response.

        Args:
            method: HTTP method.
            path: with query string, already quoted.
            body: bytes, or pieces of a body of any size.
            content_type: of the body.
            num_bytes: of a body in pieces, if known; otherwise it is sent chunked.
            encoding: Content-Encoding of the body.
            request_id: identifies the request in the service's log and in `GET /_loads`.

        Raises:
            ClientError: no connection, or an error response.
        """
        headers = {
            name: value
            for name, value in (
                ("Content-Encoding", encoding),
                ("Content-Length", None if num_bytes is None else str(num_bytes)),
                ("X-Request-Id", request_id),
            )
            if value
        }
        # A new connection each time: an idle one may have been closed since the last request.
        call: Call[Any] = Call(method, path, object, body, False, content_type, headers)
        client = self._client.with_timeout(self._seconds_for(method))
        try:
            content = client.deliver(call, self._mention_start)
        except facetd.FacetdError as error:
            raise self._told(error, method) from error
        return self._decode(content)

    def _mention_start(self) -> None:
        if not self._is_told:
            self._notice(f"waiting for {self.url}, which is starting")
            self._is_told = True

    def stream(self, path: str) -> Iterator[bytes]:
        """GET items of any number, as lines of JSON, piece by piece.

        Raises:
            ClientError: an error response, a truncated body, or one that is not facetd's.
        """
        client = self._client.with_timeout(self._read_seconds)
        pieces = client.stream(Call("GET", path, object), self._mention_start)
        has_begun = False
        try:
            for piece in pieces:
                if not has_begun and not piece.startswith(b"{"):
                    raise self._not_facetd("its answer is not items")
                has_begun = True
                yield piece
        except facetd.ConnectionFailed as error:
            if not has_begun:
                raise self._told(error, "GET") from error
            raise ClientError(
                f"{self.url} broke off ({reason_of(error.__cause__)}); the output is incomplete"
            ) from error
        except facetd.FacetdError as error:
            raise self._told(error, "GET") from error

    def _seconds_for(self, method: str) -> float:
        """Return how long a request waits for a byte of its answer."""
        return self._read_seconds if method == "GET" else self._change_seconds

    def _told(self, error: facetd.FacetdError, method: str) -> ClientError:
        """Return the error of a call in words for the command line."""
        if isinstance(error, facetd.ApiError):
            return error_of(error.status, {"error": error.details or None})
        cause = error.__cause__
        if isinstance(cause, TimeoutError) and getattr(error, "was_sent", False):
            outcome = "" if method == "GET" else "; the change may still take place"
            return ClientError(
                f"no answer from {self.url} within {self._seconds_for(method):g} s{outcome}"
            )
        if fault := connection_fault(cause):
            return ClientError(f"no answer from {self.url}: {fault}")
        return ClientError(
            f"no answer from {self.url} ({reason_of(cause)}); is facetd running? "
            "Start it with facetd serve, or name another with --url"
        )

    def _not_facetd(self, reason: str) -> ClientError:
        return ClientError(
            f"what answers at {self.url} is not facetd: {reason}; check the URL, "
            "and the path if a proxy serves facetd under one"
        )

    def _decode(self, content: bytes) -> Any:
        """Decode a response."""
        try:
            return json.loads(content) if content else None
        except ValueError as error:
            raise self._not_facetd("its answer is not JSON") from error

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
    """Return the URL of the service: the given one, else the recorded, else the configured one."""
    if url:
        return url
    endpoint = None if data is None else read_coordinator_endpoint(data)
    if endpoint is not None:
        host, port = endpoint.host, endpoint.port
    return local_url(host, port)


_ADVICE: Final = {
    "index_not_found": "facetd status lists the indexes, and facetd load FILE --index NAME makes "
    "one",
    "snapshot_not_found": "facetd snapshots lists the snapshots",
    "alias_not_found": "facetd alias lists the aliases",
    "key_not_found": "facetd keys lists the keys",
    "unauthorized": "name a valid one with --key or FACETD_KEY",
    "not_found": "check the URL, and the path if a proxy serves facetd under one",
}
"""By error code: what to do on the command line, instead of the message's advice about requests."""


_PROXY_STATUSES: Final = (502, 503, 504)


def error_of(status: int, answer: Any) -> ClientError:
    """Format an error response: one line, plus one per further mistake.

    The message describes the first mistake, so the list starts with the second.
    """
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        if status in _PROXY_STATUSES:
            fault = "a proxy, which has no answer from facetd"
        else:
            fault = "not facetd; check the URL (http:// or https://), and the path behind a proxy"
        return ClientError(f"what answered ({status}) is {fault}", status=status)
    code = str(error.get("code", ""))
    message = str(error.get("message", ""))
    if code in _ADVICE and "fault" in error:
        message = f"{error['fault']}; {_ADVICE[code]}"
    lines = [f"{message} ({status} {code})" if code else message]
    for item in (error.get("errors") or [])[1:]:
        message = str(item.get("message", ""))
        param = item.get("param", "")
        lines.append(f"  {message if not param or param in message else f'{param}: {message}'}")
    return ClientError("\n".join(lines), status=status, code=code, details=error)


def reason_of(error: object) -> str:
    """Return an error in words, without the number that the system has for it."""
    if isinstance(error, OSError) and error.strerror and error.filename is None:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error) or type(error).__name__


_NOT_TRUSTED: Final = ("not trusted", "SSL_CERT_FILE names a file with that of its authority")
_OTHER_NAME: Final = ("for another name", "use an address that it names")
_OTHER_TIME: Final = ("not valid now", "renew it, or set the clock of this machine")
_CERTIFICATE_FAULTS: Final = {9: _OTHER_TIME, 10: _OTHER_TIME, 62: _OTHER_NAME, 64: _OTHER_NAME}
"""By OpenSSL's number of what is wrong (X509_V_ERR_…): what is said, and what helps."""


def connection_fault(error: object) -> str | None:
    """Say what is wrong with a connection to a server that is there, and what helps.

    None for errors that say so themselves.
    """
    if not isinstance(error, OSError | http.client.BadStatusLine):
        return None
    import ssl  # takes long, and few commands need it

    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        what, remedy = _CERTIFICATE_FAULTS.get(getattr(error, "verify_code", 0), _NOT_TRUSTED)
        return f"its certificate is {what} ({reason}); {remedy}"
    if isinstance(error, ssl.SSLError | http.client.BadStatusLine):
        said = getattr(error, "reason", None) or error
        return f"what is there does not speak this protocol ({type(error).__name__}: {said})"
    return None
