"""Indexes: configuration, deletion, sizes, aliases."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from common.configuration import effective
from common.deadline import Deadline
from common.errors import InvalidRequest, NotFound, ServiceError
from common.protocol.messages import (
    IndexStatisticsRequest,
    IndexStatisticsResponse,
    ProcessStatistics,
)
from common.protocol.methods import INDEX_STATISTICS, PROCESS_STATISTICS
from coordinator.cluster.fan_out import gather_partial
from coordinator.cluster.index_names import check_index_name
from coordinator.cluster.placed_shards import PlacedShard
from coordinator.cluster.shard_client import ShardClient
from coordinator.http.api_keys import Action
from coordinator.http.responses import Response, json_response
from coordinator.http.route import Body, Route
from coordinator.http.routing import RouteTable
from coordinator.parameters.raw import decode_json, decode_object, query_parameters
from coordinator.routes.items import refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from coordinator.cluster.catalog import Index
    from coordinator.cluster.catalog_state import CatalogState
    from coordinator.http.api_keys import Caller
    from coordinator.http.request import Request
    from coordinator.http.services import Services


ROWS_FAST_MAX: Final = 200
"""So many indexes are listed within a millisecond; more take a thread."""

_OF_CONFIGURATION: Final = ("name", "facets", "revision", "aliases")
"""What the configuration says of an index, whatever is in it."""

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
            "query": {"preview": {"type": "boolean"}},
        },
    )


def _naming(action: str, body: str, summary: str) -> Route:
    """Return the route of an action that gives an index another name, or a copy of it one."""
    return Route(
        "POST",
        f"/{{index}}/{action}",
        f"{summary} A key needs `search` and `write` too, for both names.",
        Action.CONFIGURE,
        body=Body.JSON,
        needs_index=True,
        is_admitted=False,
        is_change=True,
        tag="indexes",
        document={"body": body, "answer": "Document"},
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
    if flag_parameter(request, "preview", code="invalid_preview"):
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


def flag_parameter(request: Request, name: str, code: str) -> bool:
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
        document={"answer": "Configuration", "query": {"effective": {"type": "boolean"}}},
    ),
)
async def configuration(services: Services, request: Request) -> Response:
    """Answer `GET /{index}/configuration`: the document as posted, or with all defaults."""
    index = request.index
    if flag_parameter(request, "effective", code="invalid_effective"):
        return json_response(effective(index.configuration))
    return json_response(index.document)


@ROUTES.add(
    Route(
        "DELETE",
        "/{index}",
        "Remove an index and its data.",
        Action.CONFIGURE,
        needs_index=True,
        is_admitted=False,
        is_change=True,
        tag="indexes",
        document={"answer": "Status"},
    ),
    Route(
        "POST",
        "/{index}/reset",
        "Remove an index and its data (older clients).",
        Action.CONFIGURE,
        needs_index=True,
        is_admitted=False,
        is_change=True,
        tag="indexes",
        document={"answer": "Status"},
    ),
)
async def delete_index(services: Services, request: Request) -> Response:
    """Answer `DELETE /{index}` and `POST /{index}/reset`: deletes the index and its data."""
    refuse_slash(request)
    index = request.index
    if request.arguments[0] != index.name:
        raise InvalidRequest(
            f"{request.arguments[0]!r} is an alias of {index.name!r}; delete that index, or "
            "remove the alias",
            code="invalid_index_name",
            param="index",
        )
    deadline = Deadline.after_ms(services.settings.limits.request_timeout_ms_max)
    await services.administration.delete_index(index.name, deadline)
    return json_response({"status": "deleted", "index": index.name})


def refuse_slash(request: Request) -> None:
    """Refuse to delete an index by a path that may be what is left of an item's.

    HTTP clients resolve dots: `DELETE /films/items/..`, of an item, is sent as `DELETE /films/`.

    Raises:
        InvalidRequest: code invalid_index_name.
    """
    if request.target.partition("?")[0].endswith("/"):
        raise InvalidRequest(
            "DELETE of an index must not end with a slash: HTTP clients send it for an item whose "
            "id is empty, . or ..; POST /{index}/items/delete takes any ids",
            code="invalid_index_name",
            param="index",
        )


@ROUTES.add(
    _naming(
        "rename",
        "Renaming",
        "Give an index another name; its aliases go with it, and requests in progress go "
        "on. alias: true makes the former name an alias. replace: true takes the name from an "
        "index that has it, which is deleted at the same moment.",
    )
)
async def rename_index(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/rename`: {"to": "films-old", "alias": true}, or "replace": true."""
    name, new_name, document = _names_of_change(services, request, ("to", "alias", "replace"))
    keeps_alias = _flag(document, "alias", "whether the former name becomes an alias")
    replaces = _flag(document, "replace", "whether an index of that name is deleted for it")
    if keeps_alias and replaces:
        raise InvalidRequest(
            "alias and replace cannot both be true; POST /_aliases makes the former name an alias",
            code="invalid_body",
            param="alias",
        )
    if replaces and new_name == name:
        raise InvalidRequest(
            f"{name!r} cannot replace itself; name another index",
            code="invalid_index_name",
            param="to",
        )
    if replaces:
        # What it replaces is deleted, which takes as long as configuring.
        deadline = Deadline.after_ms(services.settings.configure_timeout_ms)
        await services.administration.move(name, new_name, deadline)
    else:
        deadline = Deadline.after_ms(services.settings.limits.request_timeout_ms_max)
        administration = services.administration
        await administration.rename(name, new_name, keeps_alias=keeps_alias, deadline=deadline)
    return json_response({"status": "renamed", "index": new_name, "from": name})


@ROUTES.add(
    _naming(
        "copy",
        "Copying",
        "Copy an index, its items and its configuration, as of this moment; writes go on.",
    )
)
async def copy_index(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/copy`: {"to": "films-test"}."""
    name, new_name, _ = _names_of_change(services, request, ("to",))
    make_source = partial(services.snapshot_maker.copied_index, new_name=new_name)
    # Large data takes long to copy, so the deadline is that of configuring.
    deadline = Deadline.after_ms(services.settings.configure_timeout_ms)
    await services.administration.copy(name, new_name, make_source, deadline)
    return json_response({"status": "copied", "index": new_name, "from": name})


def _flag(document: dict[str, Any], name: str, meaning: str) -> bool:
    """Return a member that is true or false; false if it is not given."""
    value = document.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise InvalidRequest(
            f"{name} must be true or false: {meaning}", code="invalid_body", param=name
        )
    return value


def _names_of_change(
    services: Services, request: Request, known: tuple[str, ...]
) -> tuple[str, str, dict[str, Any]]:
    """Return an index's name, the one that it or its copy is to have, and the body.

    Raises:
        InvalidRequest: `invalid_index_name`, `invalid_body`.
        Forbidden: the key may not use the new name, or not read and write items.
    """
    services.guard.check_transfer(request.caller)
    document = decode_object(request.body, services.settings.limits)
    refuse_unknown(document, known)
    index, new_name = request.index, document.get("to")
    if request.arguments[0] != index.name:
        raise InvalidRequest(
            f"{request.arguments[0]!r} is an alias of {index.name!r}; name that index",
            code="invalid_index_name",
            param="index",
        )
    if not isinstance(new_name, str):
        raise InvalidRequest(
            'to must be the new name, for example {"to": "films-test"}',
            code="invalid_body",
            param="to",
        )
    check_index_name(new_name, services.settings.limits)
    services.guard.check_index(request.caller, new_name)
    return index.name, new_name, document


@ROUTES.add(
    Route(
        "GET",
        "/{index}/status",
        "Whether there is such an index.",
        Action.SEARCH,
        needs_index=True,
        applies_filter=True,
        tag="indexes",
        document={"answer": "Status"},
    ),
)
async def index_status(services: Services, request: Request) -> Response:
    """Answer `GET /{index}/status`."""
    return json_response({"status": "ok"})


@ROUTES.add(
    Route(
        "GET",
        "/{index}",
        "Summary of an index: items, facets, fields, aliases.",
        Action.SEARCH,
        needs_index=True,
        tag="indexes",
        document={"answer": "Document"},
    ),
)
async def summary(services: Services, request: Request) -> Response:
    """Answer `GET /{index}`: number of items, facets and fields."""
    index = request.index
    present = [part for part in await index_statistics(services, index) if part is not None]
    facets = index.configuration.facets
    return json_response(
        {
            "name": index.name,
            "items": sum(part.num_docs for part in present),
            "bytes": sum(part.bytes_on_disk for part in present),
            "state": "ready" if len(present) == services.cluster.num_shards else "degraded",
            "facets": [{"name": name, "title": facet.title} for name, facet in facets.items()],
            "fields": sorted({str(field["path"]) for part in present for field in part.fields}),
            "aliases": sorted(
                alias for alias, name in services.catalog.aliases.items() if name == index.name
            ),
            "revision": index.revision,
            "seq": services.cluster.horizon(index.number),
        }
    )


async def index_statistics(
    services: Services, index: Index
) -> list[IndexStatisticsResponse | None]:
    """Return each shard's statistics of an index; None for a shard that is down."""
    return await gather_partial(
        services.cluster,
        INDEX_STATISTICS,
        IndexStatisticsRequest(index.number),
        Deadline.after_ms(services.settings.limits.request_timeout_ms),
        is_partial=True,
    )


@ROUTES.add(
    Route(
        "GET",
        "/{index}/stats",
        "Sizes, fields and segments of an index.",
        Action.SEARCH,
        needs_index=True,
        tag="indexes",
        document={"answer": "Document"},
    ),
)
async def statistics(services: Services, request: Request) -> Response:
    """Answer `GET /{index}/stats`: items, bytes, fields, and each shard's segments."""
    index = request.index
    parts = await index_statistics(services, index)
    present = [part for part in parts if part is not None]
    fields: dict[str, dict[str, Any]] = {}
    for part in present:
        for one in part.fields:
            path = one["path"]
            merged = fields.setdefault(path, {"name": path, "kinds": set(), "items": 0})
            merged["kinds"].update(one["kinds"])
            merged["items"] += one["num_docs"]
    return json_response(
        {
            "name": index.name,
            "number": index.number,
            "revision": index.revision,
            "seq": services.cluster.horizon(index.number),
            "items": sum(part.num_docs for part in present),
            "bytes": sum(part.bytes_on_disk for part in present),
            "fields": [
                {**field, "kinds": sorted(field["kinds"])} for _, field in sorted(fields.items())
            ],
            "shards": [
                {"id": shard, "state": "away"}
                if part is None
                else {
                    "id": shard,
                    "state": "ready",
                    "items": part.num_docs,
                    "records": part.num_records,
                    "bytes": part.bytes_on_disk,
                    "segments": list(part.segments),
                    "merging": part.is_merging,
                    "map_bytes_used": part.map_bytes_used,
                    "map_bytes_max": part.map_bytes_max,
                }
                for shard, part in enumerate(parts)
            ],
        }
    )


async def process_statistics(services: Services) -> list[ProcessStatistics | None]:
    """Return the statistics of every shard process; None for a shard that is down."""
    timeout_ms = services.settings.limits.request_timeout_ms

    async def ask(shard: ShardClient | PlacedShard) -> ProcessStatistics | None:
        try:
            return await shard.call(PROCESS_STATISTICS, None, timeout_ms)
        except ServiceError:
            return None

    return list(await asyncio.gather(*(ask(shard) for shard in services.cluster.shards)))


@ROUTES.add(
    Route(
        "GET",
        "/_indexes",
        "All indexes, with their sizes; without these for a key with a filter.",
        Action.SEARCH,
        applies_filter=True,
        tag="indexes",
        document={"answer": "Document"},
    ),
)
async def list_indexes(services: Services, request: Request) -> Response:
    """Answer `GET /_indexes`: the indexes that the caller may use, with their sizes.

    Sizes are of all items, so a key with a filter does not learn them.
    """
    rows = await index_rows(services, request)
    if request.caller.filter is not None:
        rows = [{name: row[name] for name in _OF_CONFIGURATION} for row in rows]
    return json_response({"indexes": rows})


async def index_rows(services: Services, request: Request) -> list[dict[str, Any]]:
    """Return the indexes that the caller may use, with their sizes, by name."""
    shards = await process_statistics(services)
    catalog, horizon = services.catalog, services.cluster.horizon
    indexes, aliases = list(catalog.indexes.values()), dict(catalog.aliases)
    rows = partial(_index_rows, indexes, aliases, shards, request.caller, horizon)
    return await asyncio.to_thread(rows) if len(indexes) > ROWS_FAST_MAX else rows()


def _index_rows(
    indexes: Sequence[Index],
    aliases: Mapping[str, str],
    shards: Sequence[ProcessStatistics | None],
    caller: Caller,
    horizon: Callable[[int], int],
) -> list[dict[str, Any]]:
    parts: dict[int, list[IndexStatisticsResponse]] = {}
    for process in shards:
        for number, index_part in process.indexes if process is not None else ():
            parts.setdefault(number, []).append(index_part)
    aliases_of: dict[str, list[str]] = {}
    for alias, target in sorted(aliases.items()):
        aliases_of.setdefault(target, []).append(alias)
    rows = []
    for index in sorted(indexes, key=lambda one: one.name):
        if not caller.may_use(index.name):
            continue
        present = parts.get(index.number, [])
        rows.append(
            {
                "name": index.name,
                "items": sum(part.num_docs for part in present),
                "bytes": sum(part.bytes_on_disk for part in present),
                "shards": len(shards),
                "state": "ready" if len(present) == len(shards) else "degraded",
                "facets": index.facets,
                "seq": horizon(index.number),
                "revision": index.revision,
                "aliases": aliases_of.get(index.name, []),
            }
        )
    return rows


# --- aliases


@ROUTES.add(
    Route(
        "GET",
        "/_aliases",
        "All aliases.",
        Action.SEARCH,
        tag="indexes",
        document={"answer": "Document"},
    ),
)
async def list_aliases(services: Services, request: Request) -> Response:
    """Answer `GET /_aliases`: those that the caller may use, by their own or their index's name."""
    return json_response({"aliases": _shown_aliases(services.catalog.aliases, request.caller)})


def _shown_aliases(aliases: Mapping[str, str], caller: Caller) -> dict[str, str]:
    """Return the indexes by alias, where the caller may use either name."""
    return {
        alias: target
        for alias, target in sorted(aliases.items())
        if caller.may_use(alias) or caller.may_use(target)
    }


@ROUTES.add(
    Route(
        "POST",
        "/_aliases",
        "Set and remove aliases, all at once.",
        Action.ADMIN,
        body=Body.JSON,
        is_change=True,
        tag="indexes",
        document={"body": "Aliases", "answer": "Document"},
    ),
)
async def change_aliases(services: Services, request: Request) -> Response:
    """Answer `POST /_aliases`: all changes at once, or none.

    {"aliases": {"films": "films-2026-11", "old": null}}: a name sets, null removes. A key limited
    to some indexes may change only aliases, and name only indexes, that its patterns cover.
    """
    limits = services.settings.limits
    raw = decode_object(request.body, limits)
    refuse_unknown(raw, ("aliases",))
    changes = raw.get("aliases")
    if not isinstance(changes, dict) or not 1 <= len(changes) <= limits.aliases_max:
        raise InvalidRequest(
            f"aliases must be an object of 1 to {limits.shown('aliases_max')} index names (or "
            'null) by alias, for example {"films": "films-2026-11", "old": null}',
            code="invalid_aliases",
            param="aliases",
        )

    def change(state: CatalogState) -> CatalogState:
        names = {index.name for index in state.indexes}
        for alias, target in changes.items():
            check_index_name(alias, limits)
            for name in (alias, target):
                if isinstance(name, str):
                    services.guard.check_index(request.caller, name)
            if alias in names:
                raise InvalidRequest(
                    f"{alias!r} is an index; an alias needs a name of its own",
                    code="invalid_aliases",
                    param=f"aliases.{alias}",
                )
            if target is None:
                if alias not in state.aliases:
                    raise NotFound(
                        f"there is no alias {alias!r}",
                        advice="GET /_aliases lists those that are",
                        code="alias_not_found",
                    )
            elif not isinstance(target, str) or target not in names:
                raise NotFound(
                    f"there is no index {str(target)[:100]!r} for alias {alias!r}",
                    code="index_not_found",
                    param=f"aliases.{alias}",
                )
        changed = state.with_aliases(changes)
        if len(changed.aliases) > max(limits.aliases_max, len(state.aliases)):
            raise InvalidRequest(
                f"there may be {limits.shown('aliases_max')} aliases; remove some",
                code="invalid_aliases",
                param="aliases",
            )
        return changed

    state = await services.catalog.change(change)
    return json_response(
        {"status": "aliases changed", "aliases": _shown_aliases(state.aliases, request.caller)}
    )
