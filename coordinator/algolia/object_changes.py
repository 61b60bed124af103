"""Algolia's object changes as operations of ours (pure).

    {"action": "addObject", "body": {"objectID": "7", "name": "a"}}  ─▶ PUT    {"id":"7","name":"a"}
    partialUpdateObject          merge, or add if it does not exist  ─▶ UPSERT
    partialUpdateObjectNoCreate  merge                               ─▶ MERGE
    deleteObject                                                     ─▶ DELETE

A partial update whose values have an `_operation` (`common.partial_updates`) becomes UPSERT_CHANGES
or MERGE_CHANGES: the shard that owns the object applies it, in the order of its writes.
An `objectID` is our `id`. If an object has a field `id` as well, both must be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import uuid4

import orjson

from common.errors import InvalidRequest
from common.index_configuration import FacetConfiguration
from common.item_ids import ID_BYTES_MAX, canonical_id
from common.json.item_scanner import ItemError, scan_item
from common.limits import Limits
from common.partial_updates import OPERATION, as_item, is_change, mistake_in
from common.protocol.write_operations_and_outcomes import Operation

ACTIONS: Final[Mapping[str, Operation]] = {
    "addObject": Operation.PUT,
    "updateObject": Operation.PUT,
    "partialUpdateObject": Operation.UPSERT,
    "partialUpdateObjectNoCreate": Operation.MERGE,
    "deleteObject": Operation.DELETE,
}


_CHANGING: Final[Mapping[Operation, Operation]] = {
    Operation.UPSERT: Operation.UPSERT_CHANGES,
    Operation.MERGE: Operation.MERGE_CHANGES,
}

OBJECT_ID_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX},
        {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    ]
}
OBJECT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"objectID": {"anyOf": [OBJECT_ID_SCHEMA, {"type": "null"}]}},
    "description": "An object with any fields; without an objectID it gets a new one.",
}


def batch_schema(requests_max: int, **more: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a body with changes.

    Args:
        requests_max: number of changes that are accepted at once.
        more: members that each change must have as well.
    """
    change = {
        "type": "object",
        "properties": {
            **more,
            "action": {"enum": [*ACTIONS, "clear", "delete"]},
            "body": {"type": "object", "description": "The object; of deleteObject its objectID."},
        },
        "required": [*more, "action"],
    }
    requests = {"type": "array", "maxItems": requests_max, "items": change}
    return {"type": "object", "properties": {"requests": requests}, "required": ["requests"]}


class ObjectChange(NamedTuple):
    """One operation, with the id as the protocol shows it."""

    operation: Operation
    item_id: bytes
    payload: bytes
    object_id: str
    param: str
    """Names the change in errors."""


def read_change(
    action: Any,
    body: Any,
    facets: Mapping[str, FacetConfiguration],
    limits: Limits,
    param: str,
    object_id: str | None = None,
) -> ObjectChange:
    """Read one change.

    Args:
        action: one of `ACTIONS`.
        body: the object, or just its objectID.
        facets: of the index; they bound an item's values.
        limits: on an item.
        param: names the change in errors.
        object_id: from the path, if it is there.

    Raises:
        InvalidRequest: the action is unknown, the object is not a valid item, or has two ids.
    """
    operation = ACTIONS.get(action) if isinstance(action, str) else None
    if operation is None:
        raise InvalidRequest(
            f"{param}.action must be one of {', '.join(ACTIONS)}, clear or delete",
            code="invalid_body",
            param=f"{param}.action",
        )
    if not isinstance(body, dict):
        raise InvalidRequest(
            f"{param}.body must be an object", code="invalid_body", param=f"{param}.body"
        )
    item = {name: value for name, value in body.items() if name != "objectID"}
    given = object_id if object_id is not None else body.get("objectID")
    id_ = _id(given, item, action, param)
    canonical = canonical_id(id_)
    if canonical is None:
        raise InvalidRequest(
            f"{param}: an objectID is a text of 1 to 256 bytes", code="invalid_id", param=param
        )
    if operation == Operation.DELETE:
        return ObjectChange(operation, canonical, canonical, str(id_), param)
    item.pop("id", None)
    payload = scanned = orjson.dumps({"id": id_, **item})
    if any(map(is_change, item.values())):
        operation = _changing(operation, item, action, param)
        scanned = orjson.dumps({"id": id_, **as_item(item)})
    found = scan_item(scanned, facets, limits)
    if isinstance(found, ItemError):
        raise InvalidRequest(f"{param}: {found.message}", code=found.code, param=param)
    return ObjectChange(operation, canonical, payload, str(id_), param)


def _changing(operation: Operation, item: Mapping[str, Any], action: str, param: str) -> Operation:
    """Return the operation that applies an object's changes, once these have been checked."""
    for name, value in item.items():
        if not is_change(value):
            continue
        mistake = mistake_in(value)
        if operation not in _CHANGING:
            mistake = f"{OPERATION} is for partial updates, not for {action}; send the new value"
        if mistake is not None:
            raise InvalidRequest(
                f"{param}: {name!r}: {mistake}", code="invalid_body", param=f"{param}.body.{name}"
            )
    return _CHANGING[operation]


def _id(given: Any, item: Mapping[str, Any], action: str, param: str) -> int | str:
    """Return the id of an object: its objectID, its `id`, or a new one."""
    own = item.get("id")
    if given is None:
        given = own
    if given is None and action == "addObject":
        return uuid4().hex
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise InvalidRequest(f"{param} needs an objectID", code="invalid_id", param=param)
    is_id = isinstance(own, int | str) and not isinstance(own, bool)
    if own is not None and (not is_id or str(own) != str(given)):
        raise InvalidRequest(
            f"{param}: the field id is the objectID here: {str(own)[:60]!r} and "
            f"{str(given)[:60]!r} must be the same, or the field have another name",
            code="id_mismatch",
            param=param,
        )
    # Store the object's own form of the id, if it has one.
    return own if own is not None else given
