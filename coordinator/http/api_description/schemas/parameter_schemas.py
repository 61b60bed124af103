"""JSON Schemas of parameters, from the table that the parser uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import orjson

from coordinator.http.api_description.schemas.schema_parts import ref

if TYPE_CHECKING:
    from coordinator.parameters.parameter_row import Parameter

INLINE_BYTES_MAX: Final = 200
"""Larger parameter schemas are described once and referenced."""


def schema_of(parameter: Parameter) -> dict[str, Any]:
    """Return the schema of a parameter, or a reference to the components if it is large."""
    if len(orjson.dumps(parameter.schema)) <= INLINE_BYTES_MAX:
        return parameter.schema
    return ref(f"parameter.{parameter.name}")


def parameters_schema(
    parameters: Iterable[Parameter], more_required: str = "", /, **more: Any
) -> dict[str, Any]:
    """Return the schema of a body with the given parameters and further members."""
    properties: dict[str, Any] = dict(more)
    required = more_required.split()
    twice = []
    for parameter in parameters:
        schema = schema_of(parameter)
        if parameter.is_required:
            required.append(parameter.name)
        else:
            schema = {"anyOf": [schema, {"type": "null"}]}
        properties[parameter.name] = {
            **schema,
            "description": parameter.description,
            "examples": [parameter.example],
        }
        for alias in parameter.aliases:
            properties[alias] = {**schema, "description": f"The same as {parameter.name}."}
            # One of the two is absent or null.
            either = ({name: {"type": "null"}} for name in (parameter.name, alias))
            twice.append({"anyOf": [{"properties": absent} for absent in either]})
    body: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        body["required"] = required
    if twice:
        body["allOf"] = twice
    return body
