"""Several searches in one request: each with its result, or merged into one list."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from common.deadline import Deadline
from common.errors import ServiceError
from coordinator.http.api_description.route import Body, Route
from coordinator.http.responses import Response, error_body
from coordinator.http.result_bodies import merged_body, range_pieces, separated
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.http.services import BODY_FAST_BYTES, COMMON_LANE
from coordinator.parameters.parsed_parameters import MergedPage, NamedSearch, SearchParameters
from coordinator.parameters.request_decoding import decode_search
from coordinator.parameters.request_parsing import parse_search, parse_searches
from coordinator.read.federated_search import (
    PreparedSearch,
    federated_search,
    placed,
    result_or_error,
)
from coordinator.read.multi_search_concurrency import run_fairly
from coordinator.read.multi_search_limits import CostSum, ItemSum
from coordinator.routes.search import narrowed, note_search, rendered_search

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coordinator.http.request import Request
    from coordinator.http.services import Services
    from coordinator.read.search_results import SearchResult

ROUTES: Final = RouteTable()


@ROUTES.add(
    Route(
        "POST",
        "/_search",
        "Many searches at once, on one or several indexes; merge: one list and one set of facets.",
        Action.SEARCH,
        body=Body.JSON,
        bytes_limit="search_body_bytes_max",
        applies_filter=True,
        is_shared=True,
        tag="search",
        document={"body": "Searches", "answer": "SearchesAnswer"},
    ),
)
async def searches(services: Services, request: Request) -> Response:
    """Answer `POST /_search`: for each search its result or its error, or all merged into one list.

    If none succeeds, the whole request fails with the error of the first search; searches that are
    merged must all succeed.
    """
    limits = services.settings.limits
    named, merge = parse_searches(decode_search(request.body, limits), limits)
    costs = CostSum(limits)
    is_long = len(request.body) > BODY_FAST_BYTES
    prepared: list[PreparedSearch] = []
    for i, one in enumerate(named):
        if is_long:
            await services.scheduler.wait_turn(COMMON_LANE)
        try:
            index = services.guard.index(request.caller, one.index)
            parameters = parse_search(one.raw, index.configuration, limits)
            prepared.append((index, narrowed(parameters, request)))
        except ServiceError as error:
            prepared.append(error)
            continue
        try:
            costs.add(parameters)
        except ServiceError as error:
            raise placed(error, i) from None
    if merge is not None:
        return await _merged(services, request, named, prepared, merge)
    timeouts = [one[1].timeout_ms for one in prepared if isinstance(one, tuple)]
    read = ItemSum()
    results = await run_fairly(
        [
            partial(_one_of_several, services, request, one.raw, ready, read)
            for one, ready in zip(named, prepared, strict=True)
        ],
        Deadline.after_ms(max(timeouts, default=limits.request_timeout_ms)),
    )
    if isinstance(results[0], ServiceError) and all(
        isinstance(result, ServiceError) for result in results
    ):
        raise placed(results[0], 0)
    bodies = [
        error_body(placed(result, i), request.request_id)
        if isinstance(result, ServiceError)
        else result
        for i, result in enumerate(results)
    ]
    return Response(b"".join((b'{"results":[', *separated(bodies), b"]}")))


async def _merged(
    services: Services,
    request: Request,
    named: Sequence[NamedSearch],
    prepared: Sequence[PreparedSearch],
    merge: MergedPage,
) -> Response:
    """Answer several searches as one.

    Raises:
        ServiceError: of the first search that fails: a list without its hits would be wrong.
    """

    def note(position: int, index: str, parameters: SearchParameters, found: SearchResult) -> None:
        took_us = found.timings.total_us
        note_search(services, request, index, parameters, found, took_us, named[position].raw)

    merged, results = await federated_search(
        services.search, services.cluster, named, prepared, merge, note
    )
    ranges = []
    if merged.ranges:
        ranges = await services.scheduler.run(COMMON_LANE, range_pieces(merged.ranges))
    return Response(merged_body(merged, ranges, results, request.request_id, request.micros))


async def _one_of_several(
    services: Services,
    request: Request,
    raw: Mapping[str, Any],
    prepared: PreparedSearch,
    read: ItemSum,
) -> bytes | ServiceError:
    """Return the JSON of one search's result, or its own error.

    Raises:
        StaleRequest: all searches have to run again.
        PayloadTooLarge: the items of all searches so far are too large.
    """
    if isinstance(prepared, ServiceError):
        return prepared
    index, parameters = prepared
    result = await result_or_error(services.search, index, parameters)
    if isinstance(result, ServiceError):
        return result
    read.add(result.items)
    total_us = result.timings.total_us
    note_search(services, request, index.name, parameters, result, total_us, raw)
    return await rendered_search(
        services, index.number, result, request.request_id, total_us, parameters
    )
