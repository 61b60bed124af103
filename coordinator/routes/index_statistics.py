"""What indexes have: items, fields, bytes, segments; one index or all of them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from common.deadline import Deadline
from common.errors import ServiceError
from common.protocol.messages import (
    IndexStatisticsRequest,
    IndexStatisticsResponse,
    ProcessStatistics,
)
from common.protocol.methods import INDEX_STATISTICS, PROCESS_STATISTICS
from coordinator.cluster.fan_out import gather_partial
from coordinator.cluster.shard_client import ShardClient
from coordinator.cluster.shard_copies import PlacedShard
from coordinator.http.api_description.route import Route
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from coordinator.catalog.catalog import Index
    from coordinator.http.request import Request
    from coordinator.http.security.api_keys import Caller
    from coordinator.http.services import Services


ROWS_FAST_MAX: Final = 200
"""So many indexes are listed within a millisecond; more take a thread."""

_OF_CONFIGURATION: Final = ("name", "facets", "revision", "aliases")
"""What the configuration says of an index, whatever is in it."""

ROUTES: Final = RouteTable()


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
