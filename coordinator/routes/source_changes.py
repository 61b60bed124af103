"""Changes from an external source, each batch stored with the position of its source.

    POST /products/items/changes  {"put": [{…}], "delete": [7], "source": "shop", "position": "17"}
    GET  /products/positions      {"positions": {"shop": "17"}, "index_number": 3}

A program that copies changes of another system (`facetd follow`, or a consumer of a queue) resumes
at the position that it reads here. A position is in the same commit as its changes on every shard,
so after any kill no change that it covers is missing. If shards differ, the position is that of the
shard that is furthest back; the changes after it are to be sent again, which is safe.

A position says nothing of another index that takes the name: one restored from a snapshot lacks
what was stored since. So changes may name the number of the index whose positions were read; they
are stored in that index or not at all.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from common.deadline import Deadline
from common.decode_errors import UNDECODABLE
from common.errors import Conflict, InvalidRequest, PayloadTooLarge
from common.item_ids import canonical_id
from common.json.item_scanner import ItemError, scan_item
from common.protocol.messages import PositionsRequest
from common.protocol.methods import POSITIONS
from common.protocol.write_operations_and_outcomes import Operation
from coordinator.cluster.fan_out import gather
from coordinator.http.api_description.route import Body, Route
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.parameters.request_decoding import check_depth, refuse_unknown
from coordinator.routes.items import refuse_conditions, write_response
from coordinator.write.partitioning import ItemOperation

if TYPE_CHECKING:
    from common.limits import Limits
    from coordinator.catalog.catalog import Index
    from coordinator.http.request import Request
    from coordinator.http.services import Services

_decode_body = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode

_FORM: Final = (
    'the body must be an object such as {"put": [items], "delete": [ids], "source": "shop", '
    '"position": "17"}'
)


ROUTES: Final = RouteTable()


@ROUTES.add(
    Route(
        "POST",
        "/{index}/items/changes",
        "Put and remove items in one write, together with the position of their source.",
        Action.WRITE,
        body=Body.JSON,
        needs_index=True,
        is_change=True,
        tag="items",
        document={"body": "ItemChanges", "answer": "WriteAnswer"},
    ),
)
async def change_items(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/items/changes`: all of it in one write, or nothing."""
    refuse_conditions(request)
    limits = services.settings.limits
    check_depth(request.body, limits, num_around=2)  # {"put": [item]}
    try:
        body = _decode_body(request.body)
    except UNDECODABLE as error:
        reason = "a name is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise InvalidRequest(f"{_FORM}: {reason}", code="invalid_body") from None
    refuse_unknown(dict.fromkeys(body), ("put", "delete", "source", "position", "index_number"))
    _check_index_number(body, request.index)
    puts, deletes = _members(body, "put"), _members(body, "delete")
    if len(puts) + len(deletes) > limits.batch_items_max:
        raise PayloadTooLarge(
            f"a batch may have {limits.shown('batch_items_max')} items and ids, not "
            f"{len(puts) + len(deletes)}"
        )
    facets = request.index.configuration.facets
    # On another thread: ten thousand items take a tenth of a second.
    operations = await asyncio.to_thread(_operations, puts, deletes, facets, limits)
    result = await services.ingest.write_operations(
        request.index,
        operations,
        Deadline.after_ms(limits.request_timeout_ms),
        _positions(body, limits),
    )
    return write_response("indexed", result)


@ROUTES.add(
    Route(
        "GET",
        "/{index}/positions",
        "How far each source of changes has been stored.",
        Action.WRITE,
        needs_index=True,
        tag="items",
        document={"answer": "Positions"},
    ),
)
async def positions(services: Services, request: Request) -> Response:
    """Answer `GET /{index}/positions`: up to which position each source is stored on all shards."""
    answers = await gather(
        services.cluster,
        POSITIONS,
        PositionsRequest(request.index.number),
        Deadline.after_ms(services.settings.limits.request_timeout_ms),
    )
    first, *others = [answer.positions for answer in answers]
    found = {
        source: min([first[source], *(other[source] for other in others)])[1]
        for source in sorted(first)
        if all(source in other for other in others)
    }
    return json_response({"positions": found, "index_number": request.index.number})


def _check_index_number(body: dict[str, msgspec.Raw], index: Index) -> None:
    """Check that the index is still the one that the body names, if it names one.

    It stays so: what is written to an index that is deleted meanwhile is not stored, and the
    request begins again, with the index that has the name by then.

    Raises:
        Conflict: code index_replaced; it is another one.
    """
    try:
        number = msgspec.json.decode(body.get("index_number", b"null"), type=int | None)
    except UNDECODABLE:
        raise InvalidRequest(
            "index_number must be the number that GET /{index}/positions returned",
            code="invalid_body",
            param="index_number",
        ) from None
    if number not in (None, index.number):
        raise Conflict(
            f"nothing was stored: index {index.name!r} is not the one with the number {number} "
            "any more, so it may lack earlier changes; read its positions again",
            code="index_replaced",
            param="index_number",
        )


def _members(body: dict[str, msgspec.Raw], name: str) -> list[msgspec.Raw]:
    """Return the elements of a list of the body; none if it is absent or null."""
    value = body.get(name)
    if value is None or bytes(value) == b"null":
        return []
    try:
        return _decode_list(value)
    except UNDECODABLE:
        raise InvalidRequest(
            f"{name} must be a list; {_FORM}", code="invalid_body", param=name
        ) from None


def _operations(
    puts: list[msgspec.Raw], deletes: list[msgspec.Raw], facets: Any, limits: Limits
) -> list[ItemOperation]:
    """Check all changes.

    Raises:
        InvalidRequest: one is wrong, or an item is named twice.
    """
    operations = [_put(bytes(item), position, facets, limits) for position, item in enumerate(puts)]
    operations += [_delete(id, position) for position, id in enumerate(deletes)]
    named: set[bytes] = set()
    for one in operations:
        if one.id in named:
            raise InvalidRequest(
                f"item {one.id.decode()!r} is named twice; put and delete have no order among each "
                "other, so send the last change of each item only",
                code="invalid_body",
            )
        named.add(one.id)
    return operations


def _put(item: bytes, position: int, facets: Any, limits: Limits) -> ItemOperation:
    """Check one item."""
    found = scan_item(item, facets, limits)
    param = f"put[{position}]"
    if isinstance(found, ItemError):
        raise InvalidRequest(f"{param}: {found.message}", code=found.code, param=param)
    if found is None:
        raise InvalidRequest(
            f"{param} has no id; without one it could not be sent again safely",
            code="invalid_id",
            param=param,
        )
    if len(item) > limits.item_bytes_max:
        raise PayloadTooLarge(f"{param}: an item may have {limits.shown('item_bytes_max')} bytes")
    return ItemOperation(Operation.PUT, found, item)


def _delete(text: msgspec.Raw, position: int) -> ItemOperation:
    """Check one id."""
    try:
        id = msgspec.json.decode(text, type=int | str)
        canonical = canonical_id(id)
    except UNDECODABLE:
        canonical = None
    if canonical is None:
        raise InvalidRequest(
            f"delete[{position}] must be an integer from 0 to 2^63-1 or a text of 1 to 256 bytes",
            code="invalid_id",
            param=f"delete[{position}]",
        )
    return ItemOperation(Operation.DELETE, canonical, canonical)


def _positions(body: dict[str, msgspec.Raw], limits: Limits) -> dict[str, str]:
    """Return the source's position, if the body names one; null forgets the source."""
    if "source" not in body and "position" not in body:
        return {}
    if "source" not in body or "position" not in body:
        raise InvalidRequest(
            "source and position belong together: the name of the source, and its position",
            code="invalid_body",
            param="position" if "source" in body else "source",
        )
    texts = []
    for name, kind, limit in (
        ("source", str, "source_chars_max"),
        ("position", str | None, "position_chars_max"),
    ):
        try:
            text = msgspec.json.decode(body[name], type=kind)
        except UNDECODABLE:
            text = ""
        if text is not None and not (1 <= len(text) <= getattr(limits, limit)):
            raise InvalidRequest(
                f"{name} must be a text of 1 to {limits.shown(limit)} characters"
                + (", or null to forget the source" if name == "position" else ""),
                code="invalid_body",
                param=name,
            )
        texts.append(text or "")
    return {texts[0]: texts[1]}
