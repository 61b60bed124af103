"""Parses parameter values: one function per kind of value, which says what would be valid (pure).

Each function takes a value as received (`QueryText` from a query string, JSON from a body) and
raises `Mistake`; the caller knows the parameter's name and continues with the next parameter.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from common.analysis.collation_names import COLLATION_FORMS, parse_collation
from common.limits import Limits
from coordinator.parameters.request_decoding import QueryText

DIGITS: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
"""`int()` is too lenient: it accepts 1_0, spaces, and the digits of every script."""
_ENCODED: Final = ("%7B", "%7b", "%5B", "%5b")
"""Braces and brackets; no JSON begins so."""


class Mistake(Exception):
    """Ends the reading of one parameter; the others are still read."""

    def __init__(self, message: str, *, code: str | None = None, path: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.path = path


def json_of_text(text: str) -> Any:
    """Decode an object or array that a query string carries as JSON."""
    if text.startswith(_ENCODED):
        raise Mistake("must be JSON, percent-encoded once; this is what encoding it twice makes")
    try:
        return orjson.loads(str(text))  # orjson rejects subclasses of str
    except orjson.JSONDecodeError as error:
        raise Mistake(f"must be JSON: {error}") from None


def integer(value: Any, low: int, limit_name: str, limits: Limits, path: str = "") -> int:
    """Read an integer up to a limit; a text of digits is accepted."""
    high = getattr(limits, limit_name)
    if type(value) is int:
        number = value
    elif isinstance(value, str) and DIGITS.fullmatch(value):
        number = int(value)
    else:
        number = None
    if number is None or not low <= number <= high:
        but = "" if number is None else f", not {number}"
        raise Mistake(
            f"must be an integer from {low} to {limits.shown(limit_name)}{but}", path=path
        )
    return number


def text(value: Any, limit_name: str, limits: Limits) -> str:
    """Read a text."""
    if not isinstance(value, str):
        raise Mistake("must be a text")
    if len(value) > getattr(limits, limit_name):
        raise Mistake(f"has {len(value)} characters, more than {limits.shown(limit_name)}")
    # A QueryText must not leave this module: encoders treat subclasses of str differently.
    return str(value)


def boolean(value: Any) -> bool:
    """Read a boolean: true or false, in a query string as text; no number."""
    if isinstance(value, bool):
        return value
    if value not in ("true", "false"):
        raise Mistake("must be true or false")
    return bool(value == "true")


def names(value: Any, limit_name: str, limits: Limits) -> list[str]:
    """Read a list of names: a list, a JSON list as text, or a comma-separated list."""
    if value.__class__ is QueryText and value.startswith("["):
        value = json_of_text(value)
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
        value = [part for part in value if part]
    elif isinstance(value, list) and value and value[0].__class__ is QueryText:
        value = [str(name) for name in value]
    if not isinstance(value, list) or not all(type(name) is str for name in value):
        raise Mistake("must be a list of names")
    if len(value) > getattr(limits, limit_name):
        raise Mistake(f"has {len(value)} names, more than {limits.shown(limit_name)}")
    return value


def paths(value: Any, limits: Limits) -> tuple[str, ...]:
    """Read a list of field paths, without repeats."""
    found = dict.fromkeys(names(value, "projected_fields_max", limits))
    for name in found:
        check_field(name, limits)
    return tuple(found)


def check_field(name: Any, limits: Limits, path: str = "") -> str:
    """Check that a value can be the name or dotted path of a field."""
    if not isinstance(name, str) or not name:
        raise Mistake("must name a field", path=path)
    if len(name.encode()) > limits.field_name_bytes_max:
        raise Mistake(
            f"names a field of more than {limits.shown('field_name_bytes_max')} bytes", path=path
        )
    return str(name)


def read_collation(value: Any, path: str) -> str:
    """Return a collation in its canonical form."""
    collation = parse_collation(value)
    if collation is None:
        raise Mistake(COLLATION_FORMS, path=path)
    return collation


def object_of(value: Any, what: str, path: str = "") -> dict[str, Any]:
    """Read an object; an empty list is how some languages encode an empty one."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and not value:
        return {}
    raise Mistake(f"must be an object, {what}", path=path)


def check_members(options: dict[str, Any], known: tuple[str, ...], path: str = "") -> None:
    """Reject unknown members: a misspelt option must not be silently ignored."""
    for name in options:
        if name not in known:
            raise Mistake(f"is unknown; known are {', '.join(known)}", path=f"{path}.{name[:100]}")


def optional_integer(
    options: dict[str, Any], name: str, limit_name: str, limits: Limits, default: int, path: str
) -> int:
    """Read an optional integer of at least 0."""
    value = options.get(name)
    return default if value is None else integer(value, 0, limit_name, limits, f"{path}.{name}")


def optional_bool(options: dict[str, Any], name: str, default: bool, path: str) -> bool:
    """Read an optional boolean."""
    value = options.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise Mistake("must be true or false", path=f"{path}.{name}")
    return value


def check_bounds(low: Any, high: Any, path: str, limits: Limits) -> None:
    """Check that bounds are two numbers or two texts (or just one of either)."""
    given = [bound for bound in (low, high) if bound is not None]
    are_numbers = [type(bound) in (int, float) for bound in given]
    are_texts = [isinstance(bound, str) for bound in given]
    if not given or not (all(are_numbers) or all(are_texts)):
        raise Mistake("must be bounded by numbers, or by texts (ISO dates)", path=path)
    for bound in given:
        check_value_size(bound, path, limits)


def check_value_size(value: Any, path: str, limits: Limits) -> None:
    """Reject a text too long to be a facet value."""
    if isinstance(value, str) and len(value.encode()) > limits.filter_value_bytes_max:
        raise Mistake(
            f"has a value of more than {limits.shown('filter_value_bytes_max')} bytes", path=path
        )
