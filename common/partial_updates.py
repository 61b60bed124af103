"""Values that say how to change the stored ones, in the words of Algolia's partial updates (pure).

    stored   {"id": 1, "n": 3, "tags": ["a"]}
    changes  {"n": {"_operation": "Increment", "value": 2},
              "tags": {"_operation": "AddUnique", "value": "b"}}
    result   {"n": 5, "tags": ["a", "b"]}, to be merged into the stored item

A missing value, or null, counts as 0 or as an empty array. IncrementFrom and IncrementSet are
conditions as well: if one of them does not hold, the whole item stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

import msgspec
import orjson

OPERATION: Final = "_operation"
"""The member that makes an object a change of a value."""
_STEPS: Final = {"Increment": 1, "Decrement": -1}
_CONDITIONS: Final = ("IncrementFrom", "IncrementSet")
_ARRAYS: Final = ("Add", "AddUnique", "Remove")
NAMES: Final = (*_STEPS, *_CONDITIONS, *_ARRAYS)

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


class ConditionFailed(Exception):
    """The stored value is not the one that a change presupposes."""


class Inapplicable(Exception):
    """The stored value has another type, or the result is out of range."""


def is_change(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a decoded value is a change of the stored one."""
    return isinstance(value, dict) and OPERATION in value


def mistake_in(change: Mapping[str, Any]) -> str | None:
    """Return the mistake in a change, and what would be valid; None if it is valid."""
    name = change[OPERATION]
    if name not in NAMES:
        return f"{OPERATION} must be one of {', '.join(NAMES)}"
    if change.keys() != {OPERATION, "value"}:
        return f'a change has the members "{OPERATION}" and "value"'
    value = change["value"]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in _STEPS and not is_number:
        return f"the value of {name} must be a number"
    if name in _CONDITIONS and (not is_number or isinstance(value, float)):
        return f"the value of {name} must be an integer"
    if name in _ARRAYS and not is_number and not isinstance(value, str):
        return f"the value of {name} must be a number or a text"
    return None


def as_item(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item that has the fields which the changes may give one."""
    return {
        name: ([value["value"]] if value[OPERATION] in _ARRAYS else value["value"])
        if is_change(value)
        else value
        for name, value in changes.items()
    }


def resolved(changes: bytes, stored: bytes) -> bytes:
    """Return changes with each changed value in place of its change.

    Args:
        changes: an item as JSON, without mistakes in its changes.
        stored: the stored item; b"{}" if there is none.

    Raises:
        ConditionFailed: nothing is to be changed.
        Inapplicable: a stored value cannot be changed like that.
    """
    before = _decode_members(stored)
    after: dict[str, msgspec.Raw] = {}
    for name, raw in _decode_members(changes).items():
        value = orjson.loads(bytes(raw)) if bytes(raw).startswith(b"{") else None
        changed = _changed(value, before.get(name)) if is_change(value) else raw
        if changed is not None:
            after[name] = changed
    return msgspec.json.encode(after)


def _changed(change: Mapping[str, Any], stored: msgspec.Raw | None) -> msgspec.Raw | None:
    """Return the new value; None if there is no value, before or after."""
    name, value = change[OPERATION], change["value"]
    if name in _ARRAYS:
        return _changed_array(name, value, stored)
    old = 0 if stored is None else orjson.loads(bytes(stored))
    if old is None:
        old = 0
    if isinstance(old, bool) or not isinstance(old, int | float):
        raise Inapplicable
    if name in _CONDITIONS:
        if isinstance(old, float):
            raise Inapplicable
        if value != old if name == "IncrementFrom" else value <= old:
            raise ConditionFailed
    new = old + _STEPS[name] * value if name in _STEPS else value + (name == "IncrementFrom")
    if not math.isfinite(new) if isinstance(new, float) else not -(2**63) <= new < 2**64:
        raise Inapplicable
    return msgspec.Raw(orjson.dumps(new))


def _changed_array(
    name: str, value: int | float | str, stored: msgspec.Raw | None
) -> msgspec.Raw | None:
    """Return the new array; elements that stay are kept digit for digit."""
    if stored is None or bytes(stored) == b"null":
        return None if name == "Remove" else msgspec.Raw(orjson.dumps([value]))
    if not bytes(stored).startswith(b"["):
        raise Inapplicable
    elements = _decode_elements(stored)
    if name == "Remove":
        elements = [one for one in elements if not _is_same(orjson.loads(bytes(one)), value)]
    elif name == "Add" or not any(_is_same(orjson.loads(bytes(one)), value) for one in elements):
        elements.append(msgspec.Raw(orjson.dumps(value)))
    return msgspec.Raw(msgspec.json.encode(elements))


def _is_same(element: Any, value: int | float | str) -> bool:
    """Return whether an element is a value; true and false are not numbers."""
    return not isinstance(element, bool) and bool(element == value)
