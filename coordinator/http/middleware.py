"""Middleware: the steps of every request before and after its route.

    host ─▶ route ─▶ rate ─▶ origin ─▶ key ─▶ freshness ─▶ index ─▶ body ─▶ admission ─▶ run
                                                                                          │
    metrics ◀── response, or the error envelope ◀─────────────────────────────────────────┘

One function instead of a stack of layers: every request would pay for each layer, and one place
makes the order easier to see. Bodies are read *before* a request counts as in flight, so slow
senders never take the slots of fast ones.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs
from multidict import istr

from common.deadline import Deadline
from common.errors import (
    ConfigurationSwitched,
    DeadlineExceeded,
    Forbidden,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    ServiceError,
    StaleRequest,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
)
from common.process.logs import Log
from coordinator.algolia.unsupported_endpoints import reason_for
from coordinator.catalog.index_names import check_index_name
from coordinator.cluster.read_only_cluster_and_catalog import OwnerOnly
from coordinator.http.api_description.route import Body
from coordinator.http.body_limits import ByteBudget
from coordinator.http.content_types import check_content_type
from coordinator.http.endpoints_of_other_engines import page_instead
from coordinator.http.missing_page import missing_page, wants_page
from coordinator.http.responses import Response, error_response, header, internal_error
from coordinator.http.routing import Router, ServedRoute
from coordinator.http.security.api_keys import ANYBODY, Action
from coordinator.http.security.client_address import TrustedProxies, client_of
from coordinator.http.security.cors import PREFLIGHT
from coordinator.http.security.host_and_origin import check_origin
from coordinator.http.security.rate_limit import rate_limit
from coordinator.http.services import BODY_FAST_BYTES, COMMON_LANE
from coordinator.parameters.request_decoding import query_parameters

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from coordinator.http.request import Request
    from coordinator.http.security.api_keys import Caller
    from coordinator.http.services import Services
    from coordinator.replication.shared_log import SharedLog

_log = Log("http")

STALE_TRIES_MAX: Final = 100
"""How often a request is run again because what it was prepared with has changed."""
TRIES_AT_ONCE_MAX: Final = 2
"""How often it is run again without a pause, where the next run learns what has changed."""
SWITCH_WAIT_SECONDS: Final = 0.05
"""Pause between attempts of a request whose index is switching configuration. Shards switch within
milliseconds of each other; one that takes longer hangs or is down."""
KEY_WAIT_MS: Final = 2_000
"""How long a request waits for the entry that makes its key known to this host."""
MIN_SEQ: Final = "X-Min-Seq"
MAX_LAG: Final = "X-Max-Lag-Ms"
"""Headers of requests to one of several hosts: how fresh its data must be."""
CLIENT_LEFT: Final = 499
"""Status in metrics and logs, as nginx has it, of a read that ended without a response."""
SEQ: Final = "X-Seq"
"""Header of responses of one of several hosts to changes of indexes and aliases: a host that has
this entry has the change. (The body of a response to a change of items has its own.)"""


ALGOLIA_KEY: Final = istr("X-Algolia-API-Key")


class Middleware:
    """Answers requests; one instance per coordinator.

    Args:
        services: passed to every route.
        routes: the route table.
    """

    def __init__(self, services: Services, routes: Iterable[ServedRoute]) -> None:
        self._services = services
        routes = tuple(routes)
        self._router = Router(routes)
        self._posted = {route.path: route.handler for route in routes if route.method == "POST"}
        self._limits = services.settings.limits
        self._guard = services.guard
        self._metrics = services.metrics
        self._catalog = services.catalog
        self._placed = services.cluster.placed
        self._budget = ByteBudget(self._limits.bytes_in_flight_max)
        self._metrics.body_bytes = lambda: self._budget.bytes_used
        settings = services.settings
        self._proxies = TrustedProxies(services.settings.trusted_proxies)
        self._rate_limit = (
            rate_limit(settings.client_requests_per_second, settings.client_burst, services.shared)
            if settings.client_requests_per_second > 0
            else None
        )
        self._logs_requests = services.settings.log_level == "debug"

    def stop(self) -> None:
        """Do nothing: there is no work outside of requests."""

    async def __call__(self, request: Request) -> Response:
        """Answer one request; raises nothing but cancellation, and in a reader `OwnerOnly`."""
        try:
            answer = await self._answer_client(request)
        except ServiceError as error:
            answer = self._refusal(error, request)
            if isinstance(error, InternalError):  # a shard's log has the details
                _log.error(
                    "request failed",
                    method=request.method,
                    path=shown_path(request),
                    code=error.code,
                    reason=error.message,
                    **error.details,
                )
            if isinstance(error, UnsupportedMediaType) or error.http_status in (408, 413, 417):
                # The body is still arriving, but nothing will read it.
                answer.close_after()
        except ConnectionError:
            # The client is gone; writing this response will find that out.
            answer = self._refusal(internal_error(), request)
        except OwnerOnly:
            raise
        except Exception as error:
            _log.error(
                "request failed",
                cause=error,
                method=request.method,
                path=shown_path(request),
            )
            answer = self._refusal(internal_error(), request)
        if answer.is_relayed:
            return answer
        return self._finished(answer, request, request.route_name)

    async def _answer_client(self, request: Request) -> Response:
        """Find out who calls and which route it is; answer."""
        segments, request.query_string = request.split_target()
        guard = self._guard
        key = algolia_key(request) if is_algolia(request) else None
        try:
            caller = guard.identify(request.headers, key)
        except (Unauthorized, Unavailable) as error:
            await self._wait_for_key(request, error)
            caller = guard.identify(request.headers, key)
        request.caller = caller
        if request.method == "OPTIONS":
            # A preflight has no key, whatever the request that follows it will have.
            return self._options(request, segments)
        if caller.key_id is None:
            guard.hosts.check(request.headers, is_http_1_0=request.is_http_1_0)
        route, request.arguments = self._resolve(request, segments)
        request.route_name = route.name
        return await self._answer(route, request)

    def _finished(self, answer: Response, request: Request, route_name: str) -> Response:
        """Let pages of allowed origins read a response, count it and log it; return it."""
        if self._guard.origins:
            answer.headers += self._guard.origins.header_lines(request.headers.get(hdrs.ORIGIN))
        self._note(request, route_name, answer.status)
        return answer

    def _note(self, request: Request, route_name: str, status: int) -> None:
        """Count and log a request that has ended."""
        self._metrics.route(route_name).observe(status, time.perf_counter() - request.started)
        if self._logs_requests:
            _log.debug(
                "request",
                method=request.method,
                path=shown_path(request),
                status=status,
                took_us=request.micros,
                key=request.caller.key_id or "-",
            )

    async def _wait_for_key(self, request: Request, refusal: ServiceError) -> None:
        """Wait for the entry that the client requires: the log may bring its key to this host.

        Not for as long as a known client may wait: a client that sends any key waits here.

        Raises:
            Unauthorized, Unavailable: the refusal; nothing is to come.
            InvalidRequest: the header is not a number.
        """
        log = self._services.shared_log
        wanted = None if log is None else _number(request, MIN_SEQ)
        if log is None or wanted is None or log.serving.shown_seq >= wanted:
            raise refusal
        try:
            await log.serving.wait_for(wanted, Deadline.after_ms(KEY_WAIT_MS))
        except (DeadlineExceeded, Unavailable):
            raise refusal from None

    async def _wait_fresh(self, log: SharedLog, request: Request) -> None:
        """Wait until this host has the entry that the client requires; refuse if it lags too much.

        Raises:
            InvalidRequest: a header is not a number.
            DeadlineExceeded: this host does not have that entry of the log in time.
            Unavailable: `replica_lags`.
        """
        wanted = _number(request, MIN_SEQ)
        if wanted is not None:
            await log.serving.wait_for(wanted, Deadline.after_ms(self._limits.request_timeout_ms))
        lag_max = _number(request, MAX_LAG)
        if lag_max is not None:
            log.watch.check_lag(lag_max)

    def _refusal(self, error: ServiceError, request: Request) -> Response:
        """Return the response to a failed request."""
        if error.code == "not_found" and wants_page(request):
            return missing_page(request)
        return error_response(error, request.request_id, is_algolia=is_algolia(request))

    def _client(self, request: Request) -> str:
        """Return what identifies a client: its address, and its key if it has one."""
        forwarded = request.headers.getall(hdrs.X_FORWARDED_FOR, ())
        address = client_of(self._proxies.address(request.peer_address, forwarded))
        key_id = request.caller.key_id
        return address if key_id is None else f"{address} {key_id}"

    def _resolve(
        self, request: Request, segments: list[str]
    ) -> tuple[ServedRoute, tuple[str, ...]]:
        """Return the route of a request and its arguments.

        Raises:
            NotFound, MethodNotAllowed: there is none; for a call of Algolia's protocol that we do
                not support, the message says so.
        """
        try:
            return self._router.resolve(request.method, segments)
        except (NotFound, MethodNotAllowed) as error:
            reason = reason_for(request.method, segments) if is_algolia(request) else None
            if reason is None:
                raise
            error.details.pop("fault", None)  # of the message that `reason` replaces
            raise type(error)(reason, details=error.details) from None

    async def _answer(self, route: ServedRoute, request: Request) -> Response:
        """Check the route's requirements, read the body, run the route."""
        if (
            self._rate_limit is not None
            and route.action is not None
            and not request.protocol.is_counted
        ):
            self._rate_limit.take(self._client(request))
        if route.is_change:
            check_origin(request.headers, self._guard.origins)
        if route.action is not None and request.caller is not ANYBODY:
            self._check_key(route, route.action, request.caller)
        if self._services.shared_log is not None and route.action is not None:
            await self._wait_fresh(self._services.shared_log, request)
        if route.names_index:
            self._find_index(route, request)
        if request.query_string and route.refuses_ignored and not route.takes_query:
            refuse_query(request)
        num_taken = await self._read_body(route, request) if request.has_body else 0
        num_admitted = 0
        try:
            if num_taken > BODY_FAST_BYTES:
                lane = request.index.number if route.needs_index else COMMON_LANE
                await self._services.scheduler.wait_turn(lane)
            if route.is_admitted:
                self._admit()
                num_admitted = 1
            request.ends_with_client = not route.is_change
            answer = await self._run_again_while_stale(route, request)
            log = self._services.shared_log
            if log is not None and route.is_change and route.action is not Action.WRITE:
                # Such a change is answered once everything up to its entry is applied and shown.
                answer.headers += header(SEQ, str(log.serving.shown_seq))
            return answer
        except asyncio.CancelledError:
            if request.protocol.transport is None:  # otherwise the service stops
                self._note(request, route.name, CLIENT_LEFT)
            raise
        finally:
            self._metrics.requests_in_flight -= num_admitted
            self._budget.give_back(num_taken)

    def _check_key(self, route: ServedRoute, action: Action, caller: Caller) -> None:
        """Check that a caller's API key is good for a route.

        Raises:
            Unauthorized, Forbidden: it is not.
        """
        self._guard.check_action(caller, action)
        if caller.filter is not None and not route.applies_filter:
            raise Forbidden("the API key has a filter, which this page cannot apply")
        if caller.indexes is not None and route.is_of_all_indexes:
            raise Forbidden(
                "the API key is for some indexes only, and this is about all of them; "
                'use a key for indexes ["*"]'
            )

    def _admit(self) -> None:
        """Count a request as in flight.

        Raises:
            Unavailable: code overloaded.
        """
        if self._metrics.requests_in_flight >= self._limits.requests_in_flight_max:
            raise Unavailable(
                f"{self._limits.shown('requests_in_flight_max')} requests are being "
                "answered; send this one again shortly",
                code="overloaded",
            )
        self._metrics.requests_in_flight += 1

    async def _read_body(self, route: ServedRoute, request: Request) -> int:
        """Read a body, unless the route streams it or takes none.

        Returns:
            The bytes taken from the budget, which the caller gives back.
        """
        if route.body is Body.NONE:
            if route.refuses_ignored:
                await self._refuse_body(route, request)
            return 0
        check_content_type(route.body, request.headers.get(hdrs.CONTENT_TYPE, ""))
        if route.body is Body.STREAM:
            return 0
        return await request.read_body(self._limits, route.bytes_limit, self._budget)

    async def _refuse_body(self, route: ServedRoute, request: Request) -> None:
        """Refuse the body of a request that takes none, unless it says nothing.

        A search whose body is ignored would find everything.

        Raises:
            InvalidRequest: code invalid_body.
        """
        num_taken = await request.read_body(self._limits, route.bytes_limit, self._budget)
        self._budget.give_back(num_taken)
        if request.body.strip() in (b"", b"{}"):
            request.body = b""
            return
        if self._posted.get(route.path) is route.handler:
            advice = "send it with POST, or the parameters in the query string"
        elif route.takes_query:
            advice = "parameters go into the query string"
        else:
            advice = "nothing was changed" if route.is_change else "leave it out"
        raise InvalidRequest(
            f"{request.method} {route.path} takes no body", advice=advice, code="invalid_body"
        )

    async def _run_again_while_stale(self, route: ServedRoute, request: Request) -> Response:
        """Run a route; run it again whenever what it was prepared with changes meanwhile."""
        begun = time.perf_counter()
        for attempt in range(STALE_TRIES_MAX):
            try:
                return await self._run(route, request)
            except ConfigurationSwitched:
                await self._wait_switched(route, request)
            except StaleRequest:
                # The next run learns what a restarted shard has changed. If that is not enough, the
                # shard has the values of another configuration, to which the index is switched.
                if attempt >= TRIES_AT_ONCE_MAX:
                    await self._wait_switched(route, request)
            request.waited_ms = int((time.perf_counter() - begun) * 1000)
        return await self._run(route, request)

    def _run(self, route: ServedRoute, request: Request) -> Awaitable[Response]:
        """Run a route; retry it once if a host that it reads from is lost."""
        if self._placed is None:
            return route.handler(self._services, request)
        run = partial(route.handler, self._services, request)
        return self._placed.read(run, may_repeat=not route.is_change)

    async def _wait_switched(self, route: ServedRoute, request: Request) -> None:
        """Wait for a route's index that is switching configuration, and look it up again.

        Then the request is parsed again, under the configuration of that moment, and of the index
        that has the name then. Routes raise no `StaleRequest` once they have changed or sent
        anything, unless what they have changed was deleted with its index.

        Raises:
            Unavailable: `replica_lags`; a full disk keeps this host from switching.
        """
        if self._services.shared_log is not None:
            self._services.shared_log.check_not_blocked()
        if route.needs_index:
            await self._catalog.switched(request.index, SWITCH_WAIT_SECONDS)
            self._find_index(route, request)
        else:
            await self._catalog.next_change(SWITCH_WAIT_SECONDS)

    def _find_index(self, route: ServedRoute, request: Request) -> None:
        """Look up the index that the path names; check that the caller may use it."""
        name = request.arguments[0]
        caller = request.caller if route.action is not None else ANYBODY
        if route.needs_index:
            try:
                request.index = self._guard.index(caller, name)
            except (Forbidden, NotFound) as error:
                check_index_name(name, self._limits)
                is_whole_path = route.path == "/{index}"
                instead = page_instead(request.method, [name]) if is_whole_path else None
                if instead is None or isinstance(error, Forbidden):
                    raise
                fault = error.details.get("fault", error.message)
                raise NotFound(fault, advice=instead, code=error.code) from None
            return
        check_index_name(name, self._limits)
        if caller is not ANYBODY:
            self._guard.check_index(caller, name)

    # --- OPTIONS and CORS, for browsers

    def _options(self, request: Request, segments: list[str]) -> Response:
        """Return the methods of a page; to a preflight, also whether its origin may use them."""
        if segments == ["*"]:
            allow = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        else:
            try:
                self._router.resolve("OPTIONS", segments)
                raise AssertionError("no route has the method OPTIONS")
            except MethodNotAllowed as error:
                allow = error.details["allow"]
        answer = Response(b"", status=204, headers=header("Allow", ", ".join(allow)))
        is_preflight = hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
        if is_preflight and self._guard.origins.allow(request.headers.get(hdrs.ORIGIN)):
            answer.headers += PREFLIGHT
        return answer


def refuse_query(request: Request) -> None:
    """Reject a query string on a page that takes everything from path and body.

    Raises:
        InvalidRequest: code unknown_parameter.
    """
    for name in query_parameters(request.query_string):
        raise InvalidRequest(
            f"unknown parameter {name[:100]!r}; this page takes none in the query string",
            code="unknown_parameter",
            param=name[:100],
        )


def is_algolia(request: Request) -> bool:
    """Return whether a request uses Algolia's protocol."""
    return request.target.startswith("/1/")


def algolia_key(request: Request) -> str | None:
    """Return the API key from where Algolia's clients put it: a header, or the query string.

    Raises:
        InvalidRequest: the query string is not UTF-8.
    """
    key: str | None = request.headers.get(ALGOLIA_KEY)
    if key is None and "lgolia-" in request.query_string.lower():
        for name, value in query_parameters(request.query_string).items():
            if name.lower() == ALGOLIA_KEY.lower() and isinstance(value, str):
                return str(value)
    return key


def _number(request: Request, name: str) -> int | None:
    """Return the number in a header; None without it.

    Raises:
        InvalidRequest: it is not one.
    """
    text = request.headers.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InvalidRequest(
            f"{name} must be a whole number, not {text[:40]!r}", code="bad_request"
        )
    return int(text)


def shown_path(request: Request) -> str:
    """Return the request's path for logs: bounded in length, and without the search terms."""
    return request.target.partition("?")[0][:500].encode("utf-8", "replace").decode()
