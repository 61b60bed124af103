"""Algolia's protocol: rules and synonyms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from common.errors import InvalidRequest, NotFound
from coordinator.algolia import stored_rules_and_synonyms as stored
from coordinator.algolia.rule_translation import RULES, conditions_of
from coordinator.algolia.search_request import query_string_parameters
from coordinator.algolia.stored_rules_and_synonyms import ObjectKind
from coordinator.algolia.synonym_translation import SYNONYMS
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.parameters.request_decoding import decode_json, decode_object
from coordinator.parameters.value_parsers import Mistake, integer
from coordinator.routes.algolia_conventions import (
    CHANGE,
    FLAGS,
    algolia_route,
    now,
    required_body,
    task_id,
)
from coordinator.routes.algolia_index_creation import reconfigure
from coordinator.routes.algolia_index_lookup import find_index

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

ROUTES: Final = RouteTable()

_ANCHORS: Final = ("is", "contains", "startsWith", "endsWith")
_HITS_PER_PAGE: Final = 20


# --- one object


async def _get_one(kind: ObjectKind, services: Services, request: Request) -> Response:
    """Answer `GET /1/indexes/{index}/rules/{id}`, and that of synonyms."""
    name, object_id = request.arguments
    index, _ = find_index(services, request, name)
    entry = stored.read(index.document, kind).get(object_id)
    if entry is None:
        raise NotFound("ObjectID does not exist", code="item_not_found")
    return json_response(entry.document)


async def _save_one(kind: ObjectKind, services: Services, request: Request) -> Response:
    """Answer `PUT /1/indexes/{index}/rules/{id}`, and that of synonyms."""
    name, object_id = request.arguments
    _check_options(request, ())
    body = required_body(services, request)
    id_, entry = stored.stored_entry(body, kind, kind.name[:-1], object_id)
    answer = await _change(services, request, name, kind, lambda found: found | {id_: entry})
    member = "id" if kind is SYNONYMS else "objectID"
    return json_response({**answer, member: id_, "updatedAt": now()})


async def _delete_one(kind: ObjectKind, services: Services, request: Request) -> Response:
    """Answer `DELETE /1/indexes/{index}/rules/{id}`; a missing object is not an error."""
    name, object_id = request.arguments
    find_index(services, request, name)
    _check_options(request, ())

    def without(
        found: dict[str, stored.StoredObject],
    ) -> dict[str, stored.StoredObject]:
        return {id_: entry for id_, entry in found.items() if id_ != object_id}

    answer = await _change(services, request, name, kind, without)
    timestamp = now()  # clients expect deletedAt of synonyms, updatedAt of rules
    return json_response({**answer, "deletedAt": timestamp, "updatedAt": timestamp})


# --- many


async def _save_many(kind: ObjectKind, services: Services, request: Request) -> Response:
    """Answer `POST /1/indexes/{index}/rules/batch`, and that of synonyms: all of them or none."""
    clears = "clearExistingRules" if kind is RULES else "replaceExistingSynonyms"
    is_clearing = _check_options(request, (clears,)).get(clears, False)
    limits = services.settings.limits
    listed = decode_json(request.body, limits)
    if not isinstance(listed, list):
        raise InvalidRequest(f"the body must be a list of {kind.name}", code="invalid_body")
    new = dict(stored.stored_entry(one, kind, f"{kind.name}[{i}]") for i, one in enumerate(listed))

    def with_new(
        found: dict[str, stored.StoredObject],
    ) -> dict[str, stored.StoredObject]:
        return new if is_clearing else found | new

    answer = await _change(services, request, request.arguments[0], kind, with_new)
    return json_response({**answer, "updatedAt": now()})


async def _clear(kind: ObjectKind, services: Services, request: Request) -> Response:
    """Answer `POST /1/indexes/{index}/rules/clear`, and that of synonyms."""
    name = request.arguments[0]
    find_index(services, request, name)
    _check_options(request, ())
    answer = await _change(services, request, name, kind, lambda _: {})
    return json_response({**answer, "updatedAt": now()})


async def _search(kind: ObjectKind, services: Services, request: Request) -> Response:
    """Answer `POST /1/indexes/{index}/rules/search`, and that of synonyms."""
    index, _ = find_index(services, request, request.arguments[0])
    limits = services.settings.limits
    given = _options(request) | decode_object(request.body, limits)
    given = {name: value for name, value in given.items() if value is not None}
    query = given.pop("query", "")
    if not isinstance(query, str):
        raise stored.wrong("query", "must be a text")
    pages = {}
    for name, default in (("page", 0), ("hitsPerPage", _HITS_PER_PAGE)):
        try:
            pages[name] = integer(given.pop(name, default), 0, "page_max", limits)
        except Mistake as mistake:
            raise stored.wrong(name, mistake.message) from None
    found = stored.matching(stored.read(index.document, kind), query)
    if kind is SYNONYMS:
        types = given.pop("type", "")
        if not isinstance(types, str):
            raise stored.wrong("type", "must be a text")
        wanted = [one.lower() for one in types.split(",") if one]
        found = [one for one in found if not wanted or one["type"].lower() in wanted]
    else:
        enabled, anchoring = given.pop("enabled", None), given.pop("anchoring", None)
        if enabled is not None and not isinstance(enabled, bool):
            raise stored.wrong("enabled", "must be true or false")
        if anchoring is not None and anchoring not in _ANCHORS:
            raise stored.wrong("anchoring", f"must be one of {', '.join(_ANCHORS)}")
        found = [one for one in found if _passes(one, enabled, anchoring)]
    if given:
        name = min(given)
        raise stored.refused(name, f"is not a member of a search for {kind.name}")
    page, size = pages["page"], pages["hitsPerPage"]
    answer = {"hits": found[page * size : (page + 1) * size], "nbHits": len(found)}
    if kind is RULES:
        answer |= {"page": page, "nbPages": -(-len(found) // size) if size else 0}
    return json_response(answer)


def _options(request: Request) -> dict[str, Any]:
    """Return the query string, without what identifies the client."""
    given = query_string_parameters(request.query_string)
    return {name: value for name, value in given.items() if not name.lower().startswith("x-")}


def _passes(rule: dict[str, Any], enabled: object, anchoring: object) -> bool:
    """Return whether a rule passes the filters of a search for rules other than its text."""
    if enabled is not None and enabled is (rule.get("enabled") is False):
        return False
    conditions = conditions_of(rule)
    return anchoring is None or any(one.get("anchoring") == anchoring for one in conditions)


def _check_options(request: Request, known: tuple[str, ...]) -> dict[str, bool]:
    """Return the known options; replicas need no changes forwarded to them."""
    options: dict[str, bool] = {}
    for name, value in _options(request).items():
        if name not in (*known, "forwardToReplicas"):
            raise stored.refused(name, "is not an option of this page")
        if value not in FLAGS:
            raise stored.wrong(name, "must be true or false")
        options[name] = FLAGS[value]
    return options


async def _change(
    services: Services,
    request: Request,
    name: str,
    kind: ObjectKind,
    change: Callable[
        [dict[str, stored.StoredObject]],
        dict[str, stored.StoredObject],
    ],
) -> dict[str, Any]:
    """Change the objects of one kind in an index's configuration; return the start of an answer."""

    def changed(document: dict[str, Any]) -> dict[str, Any]:
        return stored.written(document, kind, change(stored.read(document, kind)).values())

    index = await reconfigure(services, request, name, changed)
    return {"taskID": task_id(services, index)}


def _add_routes(kind: ObjectKind, title: str) -> None:
    """Declare the routes of rules, or of synonyms."""
    name = kind.name
    path = f"/1/indexes/{{indexName}}/{name}"
    one = f"{path}/{{objectID}}"
    shows: dict[str, Any] = {"applies_filter": True}
    changes = {
        **CHANGE,
        "is_admitted": False,
        "bytes_limit": "configuration_bytes_max",
    }
    see, configure = Action.SEARCH, Action.CONFIGURE
    rows: tuple[tuple[str, str, str, Action, str | None, Any, dict[str, Any]], ...] = (
        ("GET", one, f"One of the {name}.", see, None, _get_one, shows),
        ("PUT", one, f"Store one of the {name}.", configure, title, _save_one, changes),
        ("DELETE", one, f"Remove one of the {name}.", configure, None, _delete_one, changes),
        ("POST", f"{path}/batch", f"Store {name}.", configure, f"{title}s", _save_many, changes),
        ("POST", f"{path}/clear", f"Remove all {name}.", configure, None, _clear, changes),
        ("POST", f"{path}/search", f"Find {name}.", see, f"{title}Search", _search, shows),
    )
    for method, where, summary, action, body, handler, more in rows:
        route = algolia_route(method, where, summary, action, body=body, **more)
        ROUTES.add(route)(partial(handler, kind))


_add_routes(RULES, "AlgoliaRule")
_add_routes(SYNONYMS, "AlgoliaSynonym")
