"""Algolia's API keys in terms of ours.

{"acl": ["search"], "indexes": ["films"], "validity": 3600, "queryParameters": "filters=a:1"}
{"actions": ["search"], "indexes": ["films"], "expires_in_seconds": 3600, "filter": "a = 1"}
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from common.errors import InvalidRequest
from common.limits import Limits
from coordinator.algolia.filters import expression_of, parse_filters
from coordinator.algolia.parameter_errors import UNHONOURED
from coordinator.parameters.request_decoding import query_parameters
from coordinator.parameters.value_parsers import Mistake

_ACTIONS: Final[Mapping[str, str]] = {
    "search": "search",
    "browse": "search",
    "listIndexes": "search",
    "settings": "search",
    "addObject": "write",
    "deleteObject": "write",
    "editSettings": "configure",
    "deleteIndex": "configure",
}


NEW_KEY_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "acl": {"type": "array", "minItems": 1, "items": {"enum": list(_ACTIONS)}},
        "indexes": {"type": ["array", "null"], "items": {"type": "string", "maxLength": 64}},
        "description": {"type": ["string", "null"], "maxLength": 500},
        "validity": {
            "type": ["integer", "null"],
            "minimum": 0,
            "maximum": 10**10 - 1,
            "description": "Seconds until the key expires; 0 for never.",
        },
        "queryParameters": {
            "type": ["string", "null"],
            "description": "A filter of every search with this key: filters=tenant:7.",
        },
    },
    "required": ["acl"],
}
"""JSON Schema of the body of `POST /1/keys`; other members must be empty."""


_NOTHING: Final[Mapping[str, tuple[Any, ...]]] = {
    "acl": (),
    "indexes": ([],),
    "description": ("",),
    "validity": (0,),
    "queryParameters": ("",),
}
"""Values that mean the same as an absent member."""


def new_key(body: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """Translate a request for an Algolia key into the body of `POST /_keys`.

    Raises:
        InvalidRequest: the key would need rights or restrictions that ours do not support.
    """
    acl = body.get("acl")
    if not isinstance(acl, list) or not acl or not set(map(str, acl)) <= set(_ACTIONS):
        raise _refused("acl", f"must list some of {', '.join(_ACTIONS)}")
    document: dict[str, Any] = {"actions": sorted({_ACTIONS[right] for right in acl})}
    for name, value in body.items():
        if value is None or _is_nothing(name, value):
            continue
        match name:
            case "acl":
                pass
            case "indexes" | "description":
                document[name] = value
            case "validity":
                document["expires_in_seconds"] = value
            case "queryParameters":
                document["filter"] = _filter(value, limits)
            case _:
                raise _refused(name, "cannot be honoured: keys have no such bound")
    return document


def _is_nothing(name: str, value: Any) -> bool:
    """Return whether a member has a value that means it is absent."""
    nothing = _NOTHING.get(name, ("", 0, []))
    return any(type(value) is type(one) and value == one for one in nothing)


def _filter(value: Any, limits: Limits) -> str:
    """Translate the filter that a key's `queryParameters` enforce into our filter language."""
    given = query_parameters(value) if isinstance(value, str) else {}
    text = given.pop("filters", None)
    if given or not isinstance(text, str):
        raise _refused("queryParameters", 'accepts only filters: "filters=tenant:7"')
    try:
        return expression_of(parse_filters(str(text), limits))
    except Mistake as mistake:
        raise _refused("queryParameters", f"filters {mistake.message}") from None


def shown_key(key: Mapping[str, Any], value: str) -> dict[str, Any]:
    """Return a key in the form of Algolia's protocol.

    Args:
        key: in the form of `GET /_keys`.
        value: the token if it is known, else the key's id.
    """
    shown = {
        "value": value,
        "createdAt": int(datetime.fromisoformat(key["created_at"]).timestamp()),
        "acl": [right for right, action in _ACTIONS.items() if action in key["actions"]],
        "indexes": key["indexes"],
        "description": key["description"],
        "validity": 0,
    }
    if key["expires_at"] is not None:
        left = datetime.fromisoformat(key["expires_at"]).timestamp() - time.time()
        shown["validity"] = max(1, round(left))
    if key["filter"] is not None:
        shown["description"] += f" (only items with {key['filter']})"
    return shown


def _refused(name: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{name} {message}", code=UNHONOURED, param=name)
