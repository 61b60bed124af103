"""Errors of the client, one class for each kind of answer.

FacetdError
├── ConnectionFailed       nothing answered, or the connection broke
└── ApiError               an error answer: status, code, message, param, details, request_id
    ├── BadRequest         400, 405, 415 and the like: the request cannot be right
    ├── Unauthorized       401     ├── Forbidden   403     ├── NotFound     404
    ├── Conflict           409     ├── TooLarge    413     ├── TooManyRequests 429
    ├── Unavailable        503, 504: the same may succeed later
    ├── StorageFull        507
    └── ServerError        other 5xx
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec


class FacetdError(Exception):
    """Anything that a call of the client can raise."""


class ConnectionFailed(FacetdError):
    """Nothing answered, or the connection broke.

    Attributes:
        was_sent: whether the request may have arrived; then the outcome of a write is unknown.
    """

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(message)
        self.was_sent = was_sent


class ApiError(FacetdError):
    """An error answer.

    Attributes:
        status: of HTTP.
        code: stable; "" where the answer is not facetd's (a proxy's).
        message: for people; says what would be valid.
        param: the parameter or place at fault, if one is.
        details: the whole error object, for example `errors` of a refused batch.
        request_id: by which the service's log names the request.
        retry_after: seconds, where the service says so.
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


class BadRequest(ApiError):
    """The request cannot be right; sending it again cannot help."""


class Unauthorized(ApiError):
    """An API key is needed, or it is wrong or expired."""


class Forbidden(ApiError):
    """The API key does not allow this."""


class NotFound(ApiError):
    """There is no such index, item or facet."""


class Conflict(ApiError):
    """What is there is not what the request takes for granted."""


class TooLarge(ApiError):
    """The body is larger than its limit."""


class TooManyRequests(ApiError):
    """More requests than one client may send."""


class Unavailable(ApiError):
    """A shard is away, the service starts or has too much to do; the same may succeed later."""


class StorageFull(ApiError):
    """There is no room; reads go on."""


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
    """Return the error that an answer is.

    Args:
        status: 400 or above.
        content: of the answer.
        retry_after: the header, if there is one.
    """
    try:
        answer = msgspec.json.decode(content)
    except msgspec.DecodeError:
        answer = None
    error = answer.get("error") if isinstance(answer, dict) else None
    kind = _BY_STATUS.get(status, BadRequest if status < 500 else ServerError)
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    return kind(status, error if isinstance(error, dict) else {}, seconds)
