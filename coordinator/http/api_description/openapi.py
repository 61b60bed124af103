"""The API describes itself: an OpenAPI 3.1 document, and a page for people.

Everything is derived from what serves the requests: paths and methods from the route table,
parameters from the table that the parser uses (`coordinator.parameters.parameter_table`), bounds
from `Limits`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import orjson

from common.item_ids import ID_BYTES_MAX
from common.limits import Limits
from coordinator.catalog.catalog import program_version
from coordinator.http.api_description.docs_page import docs_page
from coordinator.http.api_description.route import TAGS
from coordinator.http.api_description.schemas.administration_schemas import SNAPSHOT_NAME_SCHEMA
from coordinator.http.api_description.schemas.body_examples import BODY_EXAMPLES, LINES_EXAMPLE
from coordinator.http.api_description.schemas.components import REQUIRED_BODIES, SCHEMAS
from coordinator.http.api_description.schemas.parameter_schemas import (
    parameters_schema,
    schema_of,
)
from coordinator.http.api_description.schemas.schema_parts import (
    FIELD_SCHEMA,
    INDEX_NAME_SCHEMA,
    TEXT_SCHEMA,
    list_of,
    ref,
)
from coordinator.parameters.parameter_table import SEARCH_PARAMETERS

if TYPE_CHECKING:
    from coordinator.http.api_description.route import Route
    from coordinator.parameters.parameter_row import Parameter

_TEXT_ANSWERS: Final = {
    "Text": "text/plain",
    "Script": "text/javascript",
    "Page": "text/html",
    "ItemLines": "application/x-ndjson",
}


def document(routes: Iterable[Route], limits: Limits) -> dict[str, Any]:
    """Return the OpenAPI document of a route table."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if route.tag != "pages":
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, limits)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "facetd",
            "version": program_version(),
            "summary": "Faceted full-text search",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": {
                **SCHEMAS,
                **{
                    f"parameter.{one.name}": one.schema
                    for one in SEARCH_PARAMETERS
                    if "$ref" in schema_of(one)
                },
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
        "security": [{}, {"bearer": []}, {"header": []}],
    }


def _operation(route: Route, limits: Limits) -> dict[str, Any]:
    """Return the operation of one route."""
    parameters = [_path_parameter(name) for name in re.findall(r"\{(\w+)\}", route.path)]
    body: dict[str, Any] | None = None
    if route.parameters and route.method == "GET":
        parameters += [_query_parameter(parameter) for parameter in route.parameters]
    elif route.parameters:
        body = parameters_schema(route.parameters)
    parameters += [
        {"name": name, "in": "query", "schema": schema}
        for name, schema in route.document.get("query", {}).items()
    ]
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "responses": {
            "200": _answer(route.document["answer"]),
            "default": {
                "description": "Refused or failed; see the code and the message.",
                "content": {"application/json": {"schema": ref("Error")}},
            },
        },
    }
    if route.action is not None:
        operation["description"] = f"Needs a key with the action {route.action.value}, if any."
    if parameters:
        operation["parameters"] = parameters
    name = route.document.get("body")
    if name is not None:
        body = ref(name)
    if body is not None:
        operation["requestBody"] = {
            "content": {"application/json": {"schema": body, "example": BODY_EXAMPLES[route.name]}},
            "required": name in REQUIRED_BODIES,
        }
    elif route.body.name == "STREAM":
        operation["requestBody"] = {
            "content": {
                "text/plain": {"schema": {"type": "string"}, "example": LINES_EXAMPLE},
                # Without an example: tools that send those know no such type.
                "application/x-ndjson": {"schema": {"type": "string"}},
            },
            "description": f"Up to {limits.bulk_body_bytes_max} bytes; gzip, deflate and br.",
        }
    return operation


def _operation_id(route: Route) -> str:
    """Return a unique name: one handler may serve several routes."""
    words = re.findall(r"\w+", route.path)
    return "_".join([route.method.lower(), *(word.strip("_") for word in words)])


_PATH_ARGUMENTS: Final = {
    "index": {**INDEX_NAME_SCHEMA, "examples": ["films"]},
    "id": {"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX, "examples": ["1"]},
    "name": SNAPSHOT_NAME_SCHEMA,
    "indexName": {"type": "string", "minLength": 1, "examples": ["films:year:desc"]},
    "objectID": {"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX},
    "facetName": FIELD_SCHEMA,
    "taskID": {"type": "string", "minLength": 1},
    "host": {"type": "string", "minLength": 1},
    "key": {"type": "string", "minLength": 1},
}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _PATH_ARGUMENTS[name]}


def _query_parameter(parameter: Parameter) -> dict[str, Any]:
    """Return a parameter as it appears in a query string."""
    described: dict[str, Any] = {
        "name": parameter.name,
        "in": "query",
        "description": parameter.description,
        "required": parameter.is_required,
        "example": parameter.example,
    }
    if parameter.is_json:
        described["content"] = {"application/json": {"schema": schema_of(parameter)}}
    elif parameter.is_list:
        described["schema"] = list_of(TEXT_SCHEMA)
    else:
        # An empty value counts as absent.
        described["schema"] = {"anyOf": [schema_of(parameter), {"type": "string", "maxLength": 0}]}
    return described


def _answer(name: str) -> dict[str, Any]:
    """Return the description of a successful response."""
    media_type = _TEXT_ANSWERS.get(name)
    if media_type is not None:
        return {"description": "Done.", "content": {media_type: {"schema": {"type": "string"}}}}
    return {"description": "Done.", "content": {"application/json": {"schema": ref(name)}}}


class InterfaceDocument:
    """The API's description of itself; each form is rendered on first use.

    Args:
        routes: the route table.
        limits: in force.
    """

    def __init__(self, routes: tuple[Route, ...], limits: Limits) -> None:
        self._routes = routes
        self._limits = limits

    @cached_property
    def json(self) -> bytes:
        """The OpenAPI document as JSON."""
        return orjson.dumps(document(self._routes, self._limits), option=orjson.OPT_INDENT_2)

    @cached_property
    def page(self) -> bytes:
        """The documentation page for people."""
        return docs_page(self._routes, self._limits)
