"""Items: read, write, load, export; and changes to all items that a filter finds."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson
import xxhash
from aiohttp import hdrs

from common.deadline import Deadline
from common.errors import Forbidden, InvalidRequest, NotFound, Switched, Unavailable
from common.json.scan import ItemError, canonical_id, scan_item
from common.placement import ID_INTEGER_MAX, shard_of_id
from common.placement import canonical_id as canonical_id_of
from common.protocol.messages import GetRequest, GetResponse
from common.protocol.operations import Operation
from coordinator.http.responses import Response, Stream, json_answer
from coordinator.http.routing import Body, Route
from coordinator.http.security import Action
from coordinator.parameters.parse import SearchParameters, parse_search
from coordinator.parameters.raw import decode_object, query_parameters
from coordinator.parameters.table import RESTRICTING_PARAMETERS, SEARCH_PARAMETERS
from coordinator.read.cursor import START, Cursor
from coordinator.routes.search import narrowed
from coordinator.write.ingest import WriteResult, with_id

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from common.limits import Limits
    from coordinator.http.request import Request
    from coordinator.http.services import Services

EXPORT_PAGE: Final = 500
"""Items fetched at a time by an export, or by a change of all items that a filter finds."""
NDJSON: Final = b"application/x-ndjson"

_RESTRICTING: Final = frozenset(
    name for parameter in RESTRICTING_PARAMETERS for name in (parameter.name, *parameter.aliases)
)
_ORDERING: Final = frozenset(("sort", "sort_field", "order"))
_PROJECTING: Final = frozenset(("fields", "exclude_fields"))


def write_answer(status: str, result: WriteResult, **more: Any) -> Response:
    """Return the answer to a write."""
    return json_answer(
        {
            "status": status,
            **more,
            "created": result.created,
            "updated": result.updated,
            "deleted": result.deleted,
            "rejected": result.rejected,
            "errors": result.errors,
            "seq": result.seq,
        }
    )


def item_id(request: Request) -> bytes:
    """Return the canonical id that the path names.

    Raises:
        InvalidRequest: code invalid_id.
    """
    canonical = canonical_id_of(request.arguments[1])
    if canonical is None:
        raise InvalidRequest(
            "an id is an integer from 0 to 2^63-1 or a text of 1 to 256 bytes",
            code="invalid_id",
            param="id",
        )
    return canonical


def shown_id(canonical: bytes) -> int | str:
    """Return an id as JSON: digits as a number where that is one and the same."""
    is_number = canonical.isdigit() and (canonical == b"0" or canonical[:1] != b"0")
    if is_number and int(canonical) <= ID_INTEGER_MAX:
        return int(canonical)
    return canonical.decode()


def entity_tag(document: bytes) -> str:
    """Return the ETag of a stored item: a hash of its bytes."""
    return f'"{xxhash.xxh64_hexdigest(document)}"'


def wanted_version(request: Request) -> bytes | None:
    """Return the hash that `If-Match` asks the stored item to have.

    Raises:
        InvalidRequest: code invalid_if_match; it is no ETag of ours.
    """
    tag = request.headers.get(hdrs.IF_MATCH)
    if tag is None or tag.strip() == "*":
        return None
    text = tag.strip()
    try:
        if len(text) == 18 and text[0] == text[-1] == '"':
            return bytes.fromhex(text[1:-1])
    except ValueError:
        pass
    raise InvalidRequest(
        "If-Match must be one ETag as GET answers it, or *", code="invalid_if_match"
    )


def _deadline(services: Services) -> Deadline:
    return Deadline.after_ms(services.settings.limits.request_timeout_ms)


# --- one item


async def get_item(services: Services, request: Request) -> Response:
    """Answer `GET /{index}/items/{id}` with the stored bytes."""
    canonical = item_id(request)
    cluster = services.cluster
    index = request.index
    with cluster.reading(index.number) as horizon:
        shard = cluster.shards[shard_of_id(canonical, cluster.num_shards)]
        response: GetResponse = await shard.call(
            "get",
            GetRequest(index.number, horizon, canonical),
            GetResponse,
            cluster.shard_timeout_ms,
        )
    document = response.document
    if document is None:
        raise NotFound(
            f"there is no item {canonical.decode()!r} in index {index.name!r}",
            code="item_not_found",
        )
    tag = entity_tag(document)
    headers = b"ETag: %b\r\n" % tag.encode()
    known = request.headers.get(hdrs.IF_NONE_MATCH)
    if known is not None and (known.strip() == "*" or tag in known):
        return Response(b"", status=304, headers=headers)
    return Response(document, headers=headers)


async def update_item(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/items/{id}/update`: the body is the whole new item."""
    result = await services.ingest.replace_item(
        request.index,
        item_id(request),
        request.body,
        _deadline(services),
        version=wanted_version(request),
    )
    return write_answer("updated", result)


async def put_item(services: Services, request: Request) -> Response:
    """Answer `PUT /{index}/items/{id}`: the body is the whole item, new or not.

    With `If-Match` there must be one already.
    """
    if request.headers.get(hdrs.IF_MATCH) is not None:
        return await update_item(services, request)
    result = await services.ingest.put_item(
        request.index, item_id(request), request.body, _deadline(services)
    )
    return write_answer("indexed", result)


async def merge_item(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/items/{id}/partial` and `PATCH /{index}/items/{id}`.

    The body has the fields to change.
    """
    result = await services.ingest.merge_item(
        request.index,
        item_id(request),
        request.body,
        _deadline(services),
        version=wanted_version(request),
    )
    return write_answer("updated", result)


async def delete_item(services: Services, request: Request) -> Response:
    """Answer `DELETE /{index}/items/{id}`."""
    canonical = item_id(request)
    result = await services.ingest.delete_item(
        request.index, canonical, _deadline(services), version=wanted_version(request)
    )
    return write_answer("deleted", result, id=shown_id(canonical))


# --- many items


async def put_items(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/items`: a JSON array, all or nothing; or a single item."""
    result = await services.ingest.put_items(request.index, request.body, _deadline(services))
    return write_answer("indexed", result)


async def load(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/index`: a body of any size, array or newline-delimited JSON."""
    raw = query_parameters(request.query_string)
    on_error = raw.pop("on_error", "fail")
    if on_error not in ("fail", "skip"):
        raise InvalidRequest(
            'on_error must be "fail" or "skip"', code="invalid_on_error", param="on_error"
        )
    refuse_unknown(raw, ("on_error",))
    limits = services.settings.limits
    result = await services.ingest.bulk(
        request.index,
        request.body_chunks(limits, "bulk_body_bytes_max"),
        skips_bad=on_error == "skip",
        request_id=request.request_id,
    )
    return write_answer("indexed", result)


async def list_loads(services: Services, request: Request) -> Response:
    """Answer `GET /_loads`: how far the bulk loads are that run now."""
    loads = [load for load in services.ingest.loads if request.caller.may_use(load.index)]
    return json_answer({"loads": [load.shown() for load in loads]})


def refuse_unknown(raw: dict[str, Any], known: Sequence[str]) -> None:
    """Refuse parameters that the page does not have.

    Raises:
        InvalidRequest: code unknown_parameter.
    """
    for name in raw:
        if name not in known:
            raise InvalidRequest(
                f"unknown parameter {name[:100]!r}; known are {', '.join(known)}",
                code="unknown_parameter",
                param=name[:100],
            )


async def export(services: Services, request: Request) -> Stream:
    """Answer `GET /{index}/items`: all items that match, one JSON object a line."""
    raw = query_parameters(request.query_string)
    known = _RESTRICTING | _ORDERING | _PROJECTING
    refuse_unknown(raw, sorted(known))
    pages = matching_items(services, request, raw)
    # The first page decides between an error and a stream.
    first: list[bytes] = await anext(pages, [])
    if request.method == "HEAD":
        await pages.aclose()

    async def lines() -> AsyncGenerator[bytes, None]:
        async with aclosing(pages):
            yield _lines(first)
            async for items in pages:
                yield _lines(items)

    return Stream(lines(), content_type=NDJSON)


def _lines(items: list[bytes]) -> bytes:
    return b"".join(b"%b\n" % _one_line(item) for item in items)


def _one_line(item: bytes) -> bytes:
    """Return an item without line breaks: between values they are only space."""
    if b"\n" not in item and b"\r" not in item:
        return item
    return item.replace(b"\n", b" ").replace(b"\r", b" ")


def _whole_search(
    services: Services, request: Request, raw: dict[str, Any], cursor: str
) -> SearchParameters:
    """Return a search for all matching items, a page at a time, over one state of the index."""
    search = parse_search(
        {**raw, "facet_fields": [], "cursor": cursor},
        request.index.configuration,
        services.settings.limits,
    )
    return msgspec.structs.replace(narrowed(search, request), per_page=EXPORT_PAGE)


async def matching_items(
    services: Services, request: Request, raw: dict[str, Any]
) -> AsyncGenerator[list[bytes], None]:
    """Yield the items that match, page by page, all of one state of the index.

    A configuration that comes meanwhile is the one that further pages are read with.

    Raises:
        Switched: it came before the first page.
        Unavailable: it came between pages in the order of their scores, which it may have changed.
    """
    search = _whole_search(services, request, raw, START)
    with services.cluster.reading(request.index.number) as horizon:  # the shards keep it meanwhile
        while True:
            try:
                result = await services.search.search(request.index, search, horizon)
            except Switched:
                if search.cursor == START:
                    raise
                search = await _go_on_switched(services, request, raw, search)
                continue
            if result.items:
                yield result.items
            if result.cursor is None:
                return
            search = msgspec.structs.replace(search, cursor=result.cursor)


async def _go_on_switched(
    services: Services, request: Request, raw: dict[str, Any], search: SearchParameters
) -> SearchParameters:
    """Return the search for the next page under the configuration that the index has now."""
    index = request.index
    now = None
    if not search.query:
        await services.catalog.switched(index, search.timeout_ms / 1000)
        now = services.catalog.indexes.get(index.name)
    if now is None or now.number != index.number or now is index:
        raise Unavailable(
            f"index {index.name!r} was switched to another configuration in the middle; "
            "send the request again",
            code="switched",
        )
    assert search.cursor is not None
    cursor = Cursor.decode(search.cursor, index.revision, len(search.sort)).under(now.revision)
    request.index = now
    return _whole_search(services, request, raw, cursor.encode())


# --- changes by ids or filter


async def delete_items(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/items/delete`: by ids, or all that match."""
    raw = decode_object(request.body, services.settings.limits)
    refuse_unknown(raw, ("ids", *sorted(_RESTRICTING)))
    result = WriteResult()
    async with aclosing(_chosen_ids(services, request, raw, result)) as groups:
        async for ids in groups:
            _add(
                result, await services.ingest.delete_items(request.index, ids, _deadline(services))
            )
    return write_answer("deleted", result)


async def update_items(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/items/update`: sets the same fields in all chosen items."""
    raw = decode_object(request.body, services.settings.limits)
    refuse_unknown(raw, ("ids", "fields", *sorted(_RESTRICTING)))
    fields = raw.pop("fields", None)
    if not isinstance(fields, dict) or not fields or "id" in fields:
        raise InvalidRequest(
            "fields must be an object of the fields to set; the id cannot change",
            code="invalid_fields",
            param="fields",
        )
    change = orjson.dumps(fields)
    mistake = scan_item(change, request.index.configuration.facets, services.settings.limits)
    if isinstance(mistake, ItemError):
        raise InvalidRequest(mistake.message, code=mistake.code, param="fields")
    result = WriteResult()
    async for canonical_ids in _chosen_ids(services, request, raw, result):
        operations = [
            (Operation.MERGE, canonical, with_id(change, canonical)) for canonical in canonical_ids
        ]
        _add(
            result,
            await services.ingest.write_operations(request.index, operations, _deadline(services)),
        )
    return write_answer("updated", result)


def _add(result: WriteResult, part: WriteResult) -> None:
    """Add what one group of a larger change did."""
    result.created += part.created
    result.updated += part.updated
    result.deleted += part.deleted
    result.seq = max(result.seq, part.seq)


async def _chosen_ids(
    services: Services, request: Request, raw: dict[str, Any], result: WriteResult
) -> AsyncGenerator[list[bytes], None]:
    """Yield the canonical ids that a request names, or that its search finds, in groups.

    Items without id cannot be addressed: they are counted as rejected.
    """
    ids = raw.pop("ids", None)
    # What is null was not given: a client without a value must not mean all items by it.
    raw = {name: value for name, value in raw.items() if value is not None}
    if (ids is None) == (not raw):
        raise InvalidRequest(
            'name either "ids" or a restriction such as "filter"; '
            '{"filter": ""} stands for all items',
            code="invalid_body",
        )
    if ids is not None:
        if request.caller.filter is not None:
            raise Forbidden("a key with a filter changes items by filter, not by ids")
        yield _canonical_ids(ids, services.settings.limits)
        return
    async with aclosing(matching_items(services, request, raw)) as pages:
        async for items in pages:
            found = [canonical_id(item) for item in items]
            result.rejected += sum(canonical is None for canonical in found)
            yield [canonical for canonical in found if canonical is not None]


def _canonical_ids(ids: object, limits: Limits) -> list[bytes]:
    """Read a list of ids."""
    if not isinstance(ids, list) or len(ids) > limits.batch_items_max:
        raise InvalidRequest(
            f"ids must be a list of up to {limits.shown('batch_items_max')} ids",
            code="invalid_ids",
            param="ids",
        )
    found = [canonical_id_of(one) if isinstance(one, (int, str)) else None for one in ids]
    for i, canonical in enumerate(found):
        if canonical is None:
            raise InvalidRequest(
                f"ids[{i}] must be an integer from 0 to 2^63-1 or a text of 1 to 256 bytes",
                code="invalid_id",
                param=f"ids[{i}]",
            )
    return [canonical for canonical in found if canonical is not None]


ROUTES: Final = (
    Route(
        "GET",
        "/{index}/items/{id}",
        get_item,
        "One item, as it was stored.",
        Action.SEARCH,
        needs_index=True,
        tag="items",
        document={"answer": "Item"},
    ),
    *(
        Route(
            method,
            path,
            handler,
            text,
            Action.WRITE,
            body=Body.JSON,
            bytes_limit="item_bytes_max",
            needs_index=True,
            is_change=True,
            tag="items",
            document={"body": "Item", "answer": "WriteAnswer"},
        )
        for method, path, handler, text in (
            ("PUT", "/{index}/items/{id}", put_item, "Add one item, or replace it."),
            ("PATCH", "/{index}/items/{id}", merge_item, "Change some fields of one item."),
            ("POST", "/{index}/items/{id}/update", update_item, "Replace one item."),
            (
                "POST",
                "/{index}/items/{id}/partial",
                merge_item,
                "Change some fields of one item.",
            ),
        )
    ),
    Route(
        "DELETE",
        "/{index}/items/{id}",
        delete_item,
        "Remove one item.",
        Action.WRITE,
        needs_index=True,
        is_change=True,
        tag="items",
        document={"answer": "WriteAnswer"},
    ),
    Route(
        "POST",
        "/{index}/items",
        put_items,
        "Add items (an array, or one item), or replace those whose id exists: all or nothing.",
        Action.WRITE,
        body=Body.JSON,
        needs_index=True,
        is_change=True,
        tag="items",
        document={"body": "Items", "answer": "WriteAnswer"},
    ),
    Route(
        "POST",
        "/{index}/index",
        load,
        "Load a JSON array or newline-delimited JSON of any size.",
        Action.WRITE,
        body=Body.STREAM,
        needs_index=True,
        is_admitted=False,
        is_change=True,
        tag="items",
        document={"answer": "WriteAnswer", "query": {"on_error": {"enum": ["fail", "skip"]}}},
    ),
    Route(
        "GET",
        "/_loads",
        list_loads,
        "How far the bulk loads are that run now; each is named by its X-Request-Id.",
        Action.WRITE,
        is_admitted=False,
        tag="items",
        document={"answer": "Document"},
    ),
    Route(
        "GET",
        "/{index}/items",
        export,
        "Stream all items, or those that match, as newline-delimited JSON.",
        Action.SEARCH,
        needs_index=True,
        is_admitted=False,
        applies_filter=True,
        tag="items",
        parameters=tuple(
            parameter
            for parameter in SEARCH_PARAMETERS
            if parameter.name in _RESTRICTING | _ORDERING | _PROJECTING
        ),
        document={"answer": "ItemLines"},
    ),
    Route(
        "POST",
        "/{index}/items/delete",
        delete_items,
        "Remove items by ids, or all that match.",
        Action.WRITE,
        body=Body.JSON,
        bytes_limit="search_body_bytes_max",
        needs_index=True,
        is_change=True,
        applies_filter=True,
        tag="items",
        document={"body": "ChosenItems", "answer": "WriteAnswer"},
    ),
    Route(
        "POST",
        "/{index}/items/update",
        update_items,
        "Set fields in items by ids, or in all that match.",
        Action.WRITE,
        body=Body.JSON,
        bytes_limit="search_body_bytes_max",
        needs_index=True,
        is_change=True,
        applies_filter=True,
        tag="items",
        document={"body": "ChangedItems", "answer": "WriteAnswer"},
    ),
)
