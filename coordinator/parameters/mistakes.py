"""The mistakes of one request, collected so that one error reports them all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import orjson

from common.errors import InvalidRequest
from common.nearest_name import did_you_mean
from coordinator.parameters.parameters_of_other_engines import equivalent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from common.errors import ServiceError
    from coordinator.parameters.parameter_row import Parameter, Schema

HINTS_MAX: Final = 8
"""Only this many unknown names get a suggestion: finding the nearest one takes a millisecond."""

SHORT_NAME_MAX: Final = 2
_NO_NAME: Final = re.compile(r"[^\w.\[\]-]").search
"""Such as the end of `query=H&M`, or of `filter=tags = a && year > 1990`."""

LIKENESS_MIN: Final = 0.73
"""Similarity from which on a known name is suggested: not `trees` for `genres`."""


def _without_brackets(name: str, parameters: Mapping[str, Parameter]) -> str | None:
    """Return how to send what PHP and forms send as `filters[brand][]`; None for other names."""
    outer, bracket, _ = name.partition("[")
    parameter = parameters.get(outer) if bracket else None
    if parameter is None:
        return None
    if parameter.is_list:
        return f"a query string has the values of a list with commas: {outer}=a,b"
    if not parameter.is_json:
        return f"{outer} has one value"
    return f"a query string has {outer} as JSON: {outer}={orjson.dumps(parameter.example).decode()}"


def _place_of_option(name: str, schema: Schema) -> str | None:
    """Return the JSON around an option of a parameter's value; None if it has no such option."""
    properties = schema.get("properties", {})
    if name in properties:
        return f'{{"{name}": …}}'
    inside = [(f'{{"{key}": ', inner, "}") for key, inner in properties.items()]
    of_fields = schema.get("additionalProperties")
    if isinstance(of_fields, dict):
        inside.append(('{"<field>": ', of_fields, "}"))
    if "items" in schema:
        inside.append(("[", schema["items"], "]"))
    inside += [("", one, "") for one in schema.get("anyOf", ())]
    for before, inner, after in inside:
        if place := _place_of_option(name, inner):
            return before + place + after
    return None


def _option_elsewhere(name: str, parameters: Mapping[str, Parameter]) -> str | None:
    """Return where a name belongs that is an option of a parameter; None for other names."""
    for parameter in parameters.values():
        if place := _place_of_option(name, parameter.schema):
            return f'it is an option of {parameter.name}: {{"{parameter.name}": {place}}}'
    return None


def _nearest(name: str, parameters: Mapping[str, Parameter]) -> str:
    """Return the nearest known name, or all of them, as the end of a message."""
    if near := did_you_mean(name.lower(), parameters, LIKENESS_MIN):
        return near
    known = ", ".join(sorted({parameter.name for parameter in parameters.values()}))
    hint = f"; known are {known}"
    if "filters" in parameters:
        hint = f'; filters restricts a field: {{"brand": ["acme"]}}{hint}'
    if len(name) <= SHORT_NAME_MAX or _NO_NAME(name):
        hint = f"; & within a value is %26 in a query string{hint}"
    return hint


class Mistakes:
    """Collects the mistakes of one request.

    Args:
        count_max: how many an error reports.
    """

    __slots__ = ("_count_max", "_found")

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._found: list[dict[str, Any]] = []

    @property
    def is_full(self) -> bool:
        """Whether there are enough to report: a body may have a hundred thousand unknown names."""
        return len(self._found) >= self._count_max

    def note(self, param: str, message: str, code: str | None) -> None:
        """Record that the value of a parameter is wrong."""
        self._found.append(
            {"code": code or "invalid_request", "param": param, "message": f"{param} {message}"}
        )

    def note_error(self, param: str, error: ServiceError) -> None:
        """Record the error that reading a parameter has raised."""
        self._found.append(
            {
                "code": error.code,
                "param": error.param or param,
                "message": error.message,
                **error.details,
            }
        )

    def note_unknown(self, name: str, parameters: Mapping[str, Parameter]) -> None:
        """Record an unknown parameter, and suggest the nearest known one."""
        shown = name[:100]
        hint = ""
        instead = _without_brackets(shown, parameters) or equivalent(name, parameters)
        if instead is not None:
            hint = f"; here, {instead}"
        elif len(self._found) < HINTS_MAX:
            if elsewhere := _option_elsewhere(name, parameters):
                hint = f"; {elsewhere}"
            else:
                hint = _nearest(shown, parameters)
        self._found.append(
            {
                "code": "unknown_parameter",
                "param": shown,
                "message": f"unknown parameter {shown!r}{hint}",
            }
        )

    def names(self, param: str) -> bool:
        """Return whether a mistake is about a parameter as a whole."""
        return any(one["param"] == param for one in self._found)

    def raise_if_any(self) -> None:
        """Raise the first mistake; if there are more, `details` lists all."""
        if not self._found:
            return
        first = self._found[0]
        details: dict[str, Any] = {
            key: value for key, value in first.items() if key not in ("code", "param", "message")
        }
        if len(self._found) > 1:
            details["errors"] = self._found[: self._count_max]
        raise InvalidRequest(
            first["message"], code=first["code"], param=first["param"], details=details
        )
