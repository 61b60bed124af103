"""The configuration of an index: create, change and preview, return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from common.deadline import Deadline
from common.errors import InvalidRequest
from common.index_configuration import effective
from coordinator.http.api_description.route import Body, Route
from coordinator.http.api_description.schemas.schema_parts import described
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.parameters.request_decoding import (
    decode_json,
    decode_object,
    query_parameters,
    refuse_unknown,
)

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

ROUTES: Final = RouteTable()


def _configuring(method: str, body: str, summary: str) -> Route:
    """Return the route of a change of a configuration."""
    return Route(
        method,
        "/{index}/configuration",
        summary,
        Action.CONFIGURE,
        body=Body.JSON,
        bytes_limit="configuration_bytes_max",
        is_admitted=False,
        is_change=True,
        tag="indexes",
        document={
            "body": body,
            "answer": "ConfigurationAnswer",
            "query": {
                "preview": described({"type": "boolean"}, "Only say what would change.", True)
            },
        },
    )


@ROUTES.add(
    _configuring(
        "POST",
        "Configuration",
        "Create an index, or replace its configuration while it runs; preview=true: only "
        "say what would change.",
    ),
    _configuring("PUT", "Configuration", "The same as POST."),
)
async def configure(services: Services, request: Request) -> Response:
    """Answer `POST` and `PUT /{index}/configuration`: creates the index, or changes it live."""
    name = request.arguments[0]
    if not request.body and name in services.catalog.indexes:
        # A body that was lost (`curl -d @missing.json` sends none) must not wipe the configuration.
        raise InvalidRequest(
            f"the body is empty, and index {name!r} has a configuration; send {{}} for one without "
            "settings",
            code="invalid_body",
        )
    document = decode_json(request.body, services.settings.limits) if request.body else {}
    return await _change_configuration(services, request, document, is_patch=False)


@ROUTES.add(
    _configuring(
        "PATCH",
        "ConfigurationPatch",
        "Merge into the configuration (JSON Merge Patch): what the body does not name "
        "stays, null removes. Creates an index that is new.",
    )
)
async def merge_configuration(services: Services, request: Request) -> Response:
    """Answer `PATCH /{index}/configuration`: members not named stay as they are, null removes."""
    patch = decode_object(request.body, services.settings.limits)
    return await _change_configuration(services, request, patch, is_patch=True)


async def _change_configuration(
    services: Services, request: Request, document: dict[str, Any], *, is_patch: bool
) -> Response:
    """Configure an index, or preview the changes."""
    name = request.arguments[0]
    if _flag_parameter(request, "preview", code="invalid_preview"):
        plan = await services.administration.preview(name, document, is_patch=is_patch)
        status = "preview"
    else:
        # Rebuilding a large index takes long: the deadline is the setting configure_timeout_ms, not
        # that of a search.
        deadline = Deadline.after_ms(services.settings.configure_timeout_ms)
        _, plan = await services.administration.configure(
            name, document, deadline, is_patch=is_patch
        )
        status = "configuration accepted"
    return json_response({"status": status, "warnings": plan.warnings, "changes": plan.changes})


def _flag_parameter(request: Request, name: str, code: str) -> bool:
    """Return a page's only parameter, a boolean; it defaults to false.

    Raises:
        InvalidRequest: it is neither true nor false, or there is another parameter.
    """
    raw = query_parameters(request.query_string)
    value = raw.pop(name, "false")
    refuse_unknown(raw, (name,))
    if value not in ("true", "false"):
        raise InvalidRequest(f"{name} must be true or false", code=code, param=name)
    return bool(value == "true")


@ROUTES.add(
    Route(
        "GET",
        "/{index}/configuration",
        "The configuration as posted, or with all defaults.",
        Action.SEARCH,
        needs_index=True,
        applies_filter=True,
        tag="indexes",
        document={
            "answer": "Configuration",
            "query": {
                "effective": described({"type": "boolean"}, "Whether to show all defaults.", True)
            },
        },
    ),
)
async def configuration(services: Services, request: Request) -> Response:
    """Answer `GET /{index}/configuration`: the document as posted, or with all defaults."""
    index = request.index
    if _flag_parameter(request, "effective", code="invalid_effective"):
        return json_response(effective(index.configuration))
    return json_response(index.document)
