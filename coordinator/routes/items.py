"""Items: read, write, load. Changes to many items are in `update_and_delete_by_query`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
import xxhash
from aiohttp import hdrs

from common.deadline import Deadline
from common.errors import InvalidRequest, NotFound
from common.item_ids import canonical_id, shown_id
from common.item_placement import shard_of_id
from common.protocol.messages import GetRequest
from common.protocol.methods import GET
from coordinator.http.api_description.route import Body, Route
from coordinator.http.api_description.schemas.schema_parts import described
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.parameters.request_decoding import query_parameters, refuse_unknown
from coordinator.parameters.request_parsing import parse_search
from coordinator.routes.search import narrowed
from coordinator.write.write_result import WriteResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator.catalog.catalog import Index
    from coordinator.http.request import Request
    from coordinator.http.services import Services

CONDITIONS: Final = (hdrs.IF_MATCH, hdrs.IF_NONE_MATCH, hdrs.IF_UNMODIFIED_SINCE)
_ETAG: Final = re.compile('"([0-9a-f]{16})"').fullmatch

ROUTES: Final = RouteTable()


def _item_change(method: str, path: str, summary: str) -> Route:
    """Return the route of a change of one item."""
    return Route(
        method,
        path,
        summary,
        Action.WRITE,
        body=Body.JSON,
        bytes_limit="item_bytes_max",
        needs_index=True,
        is_change=True,
        tag="items",
        document={"body": "Item", "answer": "WriteAnswer"},
    )


def write_response(status: str, result: WriteResult, **more: Any) -> Response:
    """Return the response to a write."""
    return json_response(
        {
            "status": status,
            **more,
            "created": result.created,
            "updated": result.updated,
            "deleted": result.deleted,
            "rejected": result.rejected,
            "errors": result.errors,
            "seq": result.seq,
            **({"warnings": result.warnings} if result.warnings else {}),
        }
    )


def item_id(request: Request) -> bytes:
    """Return the canonical id in the path.

    Raises:
        InvalidRequest: code invalid_id.
    """
    canonical = canonical_id(request.arguments[1])
    if canonical is None:
        raise InvalidRequest(
            "an id is an integer from 0 to 2^63-1 or a text of 1 to 256 bytes",
            code="invalid_id",
            param="id",
        )
    return canonical


def entity_tag(document: bytes) -> str:
    """Return the ETag of a stored item: a hash of its bytes."""
    return f'"{xxhash.xxh64_hexdigest(document)}"'


def refuse_conditions(request: Request, names: Sequence[str] = CONDITIONS) -> None:
    """Refuse conditions that a change would not be subject to.

    Raises:
        InvalidRequest: code unsupported_condition.
    """
    for name in names:
        if name in request.headers:
            raise InvalidRequest(
                f"{name} does not apply to this change; If-Match does, with the ETag of GET, to "
                "changes of one item",
                code="unsupported_condition",
                param=name,
            )


def wanted_version(request: Request) -> bytes | None:
    """Return the hash that `If-Match` requires of the stored item.

    Raises:
        InvalidRequest: code invalid_if_match; it is not one of our ETags. Or code
            unsupported_condition; there is another condition.
    """
    refuse_conditions(request, CONDITIONS[1:])
    tag = request.headers.get(hdrs.IF_MATCH)
    if tag is None or tag.strip() == "*":
        return None
    if (found := _ETAG(tag.strip())) is not None:
        return bytes.fromhex(found[1])
    raise InvalidRequest(
        "If-Match must be one ETag as GET answers it, or *", code="invalid_if_match"
    )


def _deadline(services: Services) -> Deadline:
    return Deadline.after_ms(services.settings.limits.request_timeout_ms)


# --- one item


async def stored_item(
    services: Services, request: Request, index: Index, canonical: bytes
) -> bytes | None:
    """Return the stored bytes of an item; None if there is none that the caller may see."""
    if request.caller.filter is not None:
        return await _visible_item(services, request, index, canonical)
    cluster = services.cluster
    with cluster.reading(index.number) as horizon:
        shard = cluster.shards[shard_of_id(canonical, cluster.num_shards)]
        wanted = GetRequest(index.number, horizon, canonical)
        response = await shard.call(GET, wanted, cluster.timeouts.read_ms)
    return response.document


async def _visible_item(
    services: Services, request: Request, index: Index, canonical: bytes
) -> bytes | None:
    """Search for an item under the filter of the caller's key."""
    raw = {"facet_fields": [], "boost": {}, "rules": [], "per_page": 1}
    search = parse_search(raw, index.configuration, services.settings.limits)
    search = msgspec.structs.replace(narrowed(search, request), only_ids=(canonical,))
    found = await services.search.search(index, search)
    return bytes(found.items[0]) if found.total else None


@ROUTES.add(
    Route(
        "GET",
        "/{index}/items/{id}",
        "One item, as it was stored.",
        Action.SEARCH,
        needs_index=True,
        applies_filter=True,
        is_shared=True,
        tag="items",
        document={"answer": "Item"},
    ),
)
async def get_item(services: Services, request: Request) -> Response:
    """Answer `GET /{index}/items/{id}` with the stored bytes."""
    canonical = item_id(request)
    document = await stored_item(services, request, request.index, canonical)
    if document is None:
        raise NotFound(
            f"there is no item {canonical.decode()!r} in index {request.index.name!r}",
            code="item_not_found",
        )
    tag = entity_tag(document)
    headers = b"ETag: %b\r\n" % tag.encode()
    known = request.headers.get(hdrs.IF_NONE_MATCH)
    if known is not None and (known.strip() == "*" or tag in known):
        return Response(b"", status=304, headers=headers)
    return Response(document, headers=headers)


@ROUTES.add(
    _item_change("POST", "/{index}/items/{id}/update", "Replace one item."),
)
async def update_item(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/items/{id}/update`: the body is the whole new item."""
    result = await services.ingest.replace_item(
        request.index,
        item_id(request),
        request.body,
        _deadline(services),
        version=wanted_version(request),
    )
    return write_response("updated", result)


@ROUTES.add(
    _item_change("PUT", "/{index}/items/{id}", "Add one item, or replace it."),
)
async def put_item(services: Services, request: Request) -> Response:
    """Answer `PUT /{index}/items/{id}`: the body is the whole item, new or not.

    With `If-Match` the item must exist.
    """
    if request.headers.get(hdrs.IF_MATCH) is not None:
        return await update_item(services, request)
    refuse_conditions(request)
    result = await services.ingest.put_item(
        request.index, item_id(request), request.body, _deadline(services)
    )
    return write_response("indexed", result)


@ROUTES.add(
    _item_change("PATCH", "/{index}/items/{id}", "Change some fields of one item."),
    _item_change("POST", "/{index}/items/{id}/partial", "Change some fields of one item."),
)
async def merge_item(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/items/{id}/partial` and `PATCH /{index}/items/{id}`.

    The body holds the fields to change.
    """
    result = await services.ingest.merge_item(
        request.index,
        item_id(request),
        request.body,
        _deadline(services),
        version=wanted_version(request),
    )
    return write_response("updated", result)


@ROUTES.add(
    Route(
        "DELETE",
        "/{index}/items/{id}",
        "Remove one item.",
        Action.WRITE,
        needs_index=True,
        is_change=True,
        tag="items",
        document={"answer": "WriteAnswer"},
    ),
)
async def delete_item(services: Services, request: Request) -> Response:
    """Answer `DELETE /{index}/items/{id}`."""
    canonical = item_id(request)
    result = await services.ingest.delete_item(
        request.index, canonical, _deadline(services), version=wanted_version(request)
    )
    deleted_id = canonical.decode() if result.has_text_id else shown_id(canonical)
    return write_response("deleted", result, id=deleted_id)


# --- many items


@ROUTES.add(
    Route(
        "POST",
        "/{index}/items",
        "Add items (an array, or one item), or replace those whose id exists: all or nothing.",
        Action.WRITE,
        body=Body.JSON,
        needs_index=True,
        is_change=True,
        tag="items",
        document={"body": "Items", "answer": "WriteAnswer"},
    ),
)
async def put_items(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/items`: a JSON array, all or nothing; or a single item."""
    refuse_conditions(request)
    result = await services.ingest.put_items(request.index, request.body, _deadline(services))
    return write_response("indexed", result)


@ROUTES.add(
    Route(
        "POST",
        "/{index}/index",
        "Load a JSON array or newline-delimited JSON of any size.",
        Action.WRITE,
        body=Body.STREAM,
        needs_index=True,
        is_admitted=False,
        is_change=True,
        tag="items",
        document={
            "answer": "WriteAnswer",
            "query": {
                "on_error": described(
                    {"enum": ["fail", "skip"]},
                    "Whether a bad line refuses the whole load, or is skipped and listed.",
                    "skip",
                )
            },
        },
    ),
)
async def load(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/index`: a body of any size, array or newline-delimited JSON."""
    refuse_conditions(request)
    raw = query_parameters(request.query_string)
    on_error = raw.pop("on_error", "fail")
    if on_error not in ("fail", "skip"):
        raise InvalidRequest(
            'on_error must be "fail" or "skip"', code="invalid_on_error", param="on_error"
        )
    refuse_unknown(raw, ("on_error",))
    limits = services.settings.limits
    result = await services.loads.load(
        request.index,
        request.body_chunks(limits, "bulk_body_bytes_max"),
        skips_bad=on_error == "skip",
        request_id=request.request_id,
    )
    return write_response("indexed", result)


@ROUTES.add(
    Route(
        "GET",
        "/_loads",
        "Progress of the bulk loads that are running, each by its X-Request-Id.",
        Action.WRITE,
        is_admitted=False,
        tag="items",
        document={"answer": "Document"},
    ),
)
async def list_loads(services: Services, request: Request) -> Response:
    """Answer `GET /_loads`: the progress of the running bulk loads."""
    loads = [load for load in services.loads.running if request.caller.may_use(load.index)]
    return json_response({"loads": [load.shown() for load in loads]})
