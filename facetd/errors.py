"""Errors of the client, one class per kind of response.

FacetdError
├── ConnectionFailed       no response, or the connection broke
└── ApiError               an error response: status, code, message, param, details, request_id
    ├── BadRequest         400, 405, 415 and the like: the request is invalid
    ├── Unauthorized       401     ├── Forbidden   403     ├── NotFound     404
    ├── Conflict           409     ├── TooLarge    413     ├── TooManyRequests 429
    ├── Unavailable        503, 504: the same request may succeed later
    ├── StorageFull        507
    └── ServerError        other 5xx
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec


class FacetdError(Exception):
    """Base class of everything that a call of the client raises."""


class ConnectionFailed(FacetdError):
    """No response, or the connection broke.

    Attributes:
        was_sent: whether the request may have arrived; if so, the outcome of a write is unknown.
    """

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(message)
        self.was_sent = was_sent

    def __reduce__(self) -> tuple[Any, ...]:
        """Make a copy in another process by our own arguments."""
        return partial(type(self), was_sent=self.was_sent), self.args


class ApiError(FacetdError):
    """An error response.

    Attributes:
        status: HTTP status.
        code: stable; "" if the response is not facetd's (but a proxy's, say).
        message: for people; says what would be valid.
        param: the parameter or path at fault, if any.
        details: the whole error object, including for example `errors` of a rejected batch.
        request_id: identifies the request in the service's log.
        retry_after: seconds to wait, if the service says so.
    """

    def __init__(
        self, status: int, error: Mapping[str, Any], retry_after: float | None = None
    ) -> None:
        self.status = status
        self.code = str(error.get("code", ""))
        self.message = str(error.get("message", "")) or f"the service answered {status}"
        self.param: str | None = error.get("param")
        self.details = error
        self.request_id: str | None = error.get("request_id")
        self.retry_after = retry_after
        super().__init__(f"{self.message} ({status}{' ' + self.code if self.code else ''})")

    def __reduce__(self) -> tuple[Any, ...]:
        """Make a copy in another process by our own arguments."""
        return type(self), (self.status, self.details, self.retry_after)


class BadRequest(ApiError):
    """The request is invalid; sending it again cannot help."""


class Unauthorized(ApiError):
    """An API key is needed, or it is wrong or expired."""


class Forbidden(ApiError):
    """The API key does not allow this."""


class NotFound(ApiError):
    """There is no such index, item or facet."""


class Conflict(ApiError):
    """The stored state is not what the request expects."""


class TooLarge(ApiError):
    """The body exceeds its limit."""


class TooManyRequests(ApiError):
    """The client has exceeded its request rate."""


class Unavailable(ApiError):
    """A shard is down, or the service starts or is overloaded; the request may succeed later."""


class StorageFull(ApiError):
    """Storage is full; reads still work."""


class ServerError(ApiError):
    """The service failed."""


_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    429: TooManyRequests,
    503: Unavailable,
    504: Unavailable,
    507: StorageFull,
}


def error_of(status: int, content: bytes, retry_after: str | None = None) -> ApiError:
    """Return the error for an error response.

    Args:
        status: 400 or above.
        content: of the response.
        retry_after: the header, if present.
    """
    try:
        answer = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        answer = None
    error = answer.get("error") if isinstance(answer, dict) else None
    kind = _BY_STATUS.get(status, BadRequest if status < 500 else ServerError)
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    return kind(status, error if isinstance(error, dict) else {}, seconds)


def redirected(url: str, status: int, location: str | None) -> ServerError:
    """Return the error for a redirect. Followed, a POST would become a GET without its body."""
    message = f"{url} redirects to {location or 'another address'}; give the URL that it leads to"
    return ServerError(status, {"message": message})


def not_facetd(url: str) -> ServerError:
    """Return the error for a response that did not come from facetd."""
    message = (
        f"what answers at {url} is not facetd; check the URL, and the path if a proxy serves it "
        "under one"
    )
    return ServerError(200, {"message": message})
