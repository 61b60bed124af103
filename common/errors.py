"""The errors of the service, in one tree.

    ServiceError(code, message, param)
    ├── UserError            4xx  the request cannot be right; sending it again cannot help
    │   ├── InvalidRequest   400  (code says which part: invalid_page, invalid_filters, ...)
    │   ├── Unauthorized     401
    │   ├── Forbidden        403
    │   ├── NotFound         404  index_not_found, item_not_found, facet_not_found, not_found
    │   ├── MethodNotAllowed 405
    │   ├── Conflict         409
    │   ├── PayloadTooLarge  413
    │   └── UnsupportedMediaType 415
    ├── Unavailable          503  shard_unavailable, overloaded, starting, stopping: send it later
    │   ├── TooManyRequests  429
    │   └── DeadlineExceeded 504
    ├── StaleRequest         503  what it was prepared with has changed: it is run again
    │   ├── ConfigurationSwitched  the configuration that parsed it is being replaced, or is gone
    │   └── FacetRenumbered        a shard numbers facet values differently since it counted
    ├── ReplicaLost      503  the host of a shard is gone: the coordinator asks another one
    ├── StorageFull          507  insufficient_storage: reads go on, writes wait for room
    ├── PartlyStored         500  items without ids that must not all be sent again
    └── InternalError        500  a bug, or damaged data: item_corrupt, snapshot_damaged

An error crosses the RPC as [code, message, param, details]; `code` determines its class. No
traceback and no exception text of a library ever reaches a client. Messages are lower case without
a full stop, and say what was wrong *and what would be valid*.
"""

from __future__ import annotations

from typing import Any, ClassVar


class CommandError(Exception):
    """A command cannot be carried out; the message is one line for its user.

    A wrong setting, a data directory in use, a service that is not there; no error of a request.

    Attributes:
        exit_status: with which a command ends: 1 failure, 2 wrong usage.
    """

    exit_status: ClassVar[int] = 1


class ServiceError(Exception):
    """An error with a stable code that a client may rely on.

    Attributes:
        code: snake_case, documented, stable.
        message: for a human: what was wrong and what would be valid.
        param: the request parameter or configuration path at fault, if one is.
        details: further members of the error object, for example `items` of a refused batch.

    `advice` says what a client of HTTP can do, and ends the message. A program that offers other
    ways (the command line, tools of a language model) takes the detail `fault`, which is the
    message without it, and adds its own.
    """

    http_status: ClassVar[int] = 500
    default_code: ClassVar[str] = "internal"
    is_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        advice: str | None = None,
        code: str | None = None,
        param: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        separator = " " if message.endswith("?") else "; "
        self.message = message if advice is None else f"{message}{separator}{advice}"
        self.advice = advice
        super().__init__(self.message)
        self.code = code or self.default_code
        self.param = param
        self.details = dict(details or {})
        if advice is not None:
            self.details["fault"] = message


class UserError(ServiceError):
    """The request cannot be right."""

    http_status = 400
    default_code = "bad_request"


class InvalidRequest(UserError):
    """A parameter, a body or an item is wrong; `code` says which."""


class Unauthorized(UserError):
    """No API key, or a wrong one."""

    http_status = 401
    default_code = "unauthorized"


class Forbidden(UserError):
    """The key, origin or host does not allow this."""

    http_status = 403
    default_code = "forbidden"


class NotFound(UserError):
    """There is no such index, item, facet or route."""

    http_status = 404
    default_code = "not_found"


class MethodNotAllowed(UserError):
    """The route exists, but not with this method."""

    http_status = 405
    default_code = "method_not_allowed"


class Conflict(UserError):
    """The stored state is not what the request presupposes: a version, a free name."""

    http_status = 409
    default_code = "version_conflict"


class PayloadTooLarge(UserError):
    """The body, or what a request asks for, is larger than its limit."""

    http_status = 413
    default_code = "payload_too_large"


class UnsupportedMediaType(UserError):
    """The content type or encoding is not one that the route takes."""

    http_status = 415
    default_code = "unsupported_media_type"


class Unavailable(ServiceError):
    """Something is down or busy; the same request may succeed later."""

    http_status = 503
    default_code = "shard_unavailable"
    is_retryable = True


class TooManyRequests(Unavailable):
    """The client exceeds its rate limit."""

    http_status = 429
    default_code = "too_many_requests"


class DeadlineExceeded(Unavailable):
    """The response was not ready within the request's deadline."""

    http_status = 504
    default_code = "deadline_exceeded"


class StaleRequest(ServiceError):
    """What a request was prepared with has changed since.

    The coordinator runs such a request again; a client sees this only if that does not help. It is
    not `Unavailable`, because a partial response must not leave out a shard that has answered.
    """

    http_status = 503
    default_code = "shard_unavailable"
    is_retryable = True


class ConfigurationSwitched(StaleRequest):
    """A shard has, or is about to get, another configuration than the request was parsed with.

    So has a host that does not know the index yet, and a shard whose index was deleted: the name
    may denote another one by now.
    """

    default_code = "switched"


class FacetRenumbered(StaleRequest):
    """A shard numbers the values of a facet differently since it counted them.

    It was restarted, or has switched to another configuration of the index.
    """


class ReplicaLost(ServiceError):
    """The host that a request reads a shard from is gone, and another one may have the shard too.

    The coordinator runs such a request again; a client sees `shard_unavailable` if that does
    not help. It is not `Unavailable`, because a partial response must not leave out a shard that
    another host has.
    """

    http_status = 503
    default_code = "shard_unavailable"
    is_retryable = True


class StorageFull(ServiceError):
    """No room on disk or in the map; reads go on."""

    http_status = 507
    default_code = "insufficient_storage"
    is_retryable = True


class InternalError(ServiceError):
    """A bug or a damaged item."""


class PartlyStored(ServiceError):
    """Items without ids were stored, or may be: sending all of them again would make duplicates.

    `details` name the items that were not stored, and those whose outcome is unknown, by ranges
    of their positions.
    """

    http_status = 500
    default_code = "partly_stored"


_BY_CODE: dict[str, type[ServiceError]] = {
    "index_not_found": NotFound,
    "item_not_found": NotFound,
    "facet_not_found": NotFound,
    "overloaded": Unavailable,
    "starting": Unavailable,
    "stopping": Unavailable,
    "item_corrupt": InternalError,
    "snapshot_damaged": InternalError,
} | {
    error.default_code: error
    for error in (
        Unauthorized,
        Forbidden,
        NotFound,
        MethodNotAllowed,
        Conflict,
        PayloadTooLarge,
        UnsupportedMediaType,
        Unavailable,
        TooManyRequests,
        DeadlineExceeded,
        ConfigurationSwitched,
        StorageFull,
        PartlyStored,
        InternalError,
    )
}

WireError = tuple[str, str, str | None, dict[str, Any]]


def encode_error(error: ServiceError) -> WireError:
    """Turn an error into what crosses the RPC."""
    return (error.code, error.message, error.param, error.details)


def decode_error(wire: WireError) -> ServiceError:
    """Turn what crossed the RPC back into an error; an unlisted code is an `InvalidRequest`."""
    code, message, param, details = wire
    return _BY_CODE.get(code, InvalidRequest)(message, code=code, param=param, details=details)
