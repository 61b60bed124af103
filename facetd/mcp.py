"""A Model Context Protocol server for a running service: lets language models search and count.

`facetd mcp` runs it over stdio (the extra `facetd[mcp]`). It is read-only unless writes are
allowed; the API key or tenant token decides what callers may see. Results are bounded to suit small
contexts: at most 50 hits and 100 values of a facet. Errors are those of the service, which say what
would be valid.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Annotated, Any, Final, ParamSpec, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import Field

from facetd.aio import AsyncClient
from facetd.errors import FacetdError, NotFound
from facetd.results import Facet, SearchPage, WriteResult

HITS_MAX: Final = 50
VALUES_MAX: Final = 100
ITEMS_MAX: Final = 1_000
INSTRUCTIONS: Final = """\
Faceted full-text search over catalogues. Begin with list_indexes, then describe_index: it names the
facets and fields to filter and sort by. Totals and counts are exact. Filters are expressions such
as: year >= 1990 AND (tags = a OR tags IN [b, "c d"]) AND NOT country = US."""

Index = Annotated[str, Field(description="Name of the index, as list_indexes has it.")]
Query = Annotated[
    str,
    Field(description='Full text; typos are forgiven, "phrases" and -exclusions work. Empty: all.'),
]
FilterText = Annotated[
    str, Field(description="Expression that items must match: year >= 1990 AND tags = drama.")
]

_READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES: Final = ToolAnnotations(read_only_hint=False, open_world_hint=False)
_REMOVES: Final = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, open_world_hint=False
)


P = ParamSpec("P")
T = TypeVar("T")


def _readable_errors(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Wrap a tool so that its errors reach the model: they say what would be valid."""

    @functools.wraps(tool)
    async def run(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return await tool(*arguments, **options)
        except NotFound as error:
            if error.code != "index_not_found":
                raise ToolError(str(error)) from error
            fault = error.details.get("fault", error.message)
            raise ToolError(f"{fault}; list_indexes lists the indexes") from error
        except (FacetdError, ValueError) as error:
            raise ToolError(str(error)) from error

    return run


def _given(**parameters: Any) -> dict[str, Any]:
    """Return the parameters that have a value."""
    return {name: value for name, value in parameters.items() if value not in (None, "", [])}


def _shown_facet(facet: Facet) -> dict[str, Any]:
    shown: dict[str, Any] = {"counts": facet.counts}
    if facet.facet_stats is not None:
        stats = facet.facet_stats
        shown["statistics"] = {"min": stats.min, "max": stats.max, "avg": stats.avg}
    return shown


def _shown_page(page: SearchPage) -> dict[str, Any]:
    """Return the parts of a page that a model needs."""
    shown: dict[str, Any] = {
        "total": page.total,
        "page": page.pagination.page,
        "items": page.items,
        "facets": {name: _shown_facet(facet) for name, facet in page.facets.items()},
    }
    for name in ("ignored_words", "dropped_words", "did_you_mean", "warnings"):
        said = getattr(page.meta, name)
        if said:
            shown[name] = said
    if page.meta.shards.failed:
        shown["incomplete"] = f"{page.meta.shards.failed} of {page.meta.shards.total} shards away"
    return shown


class _StrictServer(MCPServer[Any]):
    """Refuses arguments that a tool does not have, which would be ignored otherwise.

    A model that misspells `filter` would take all items for those that match.
    """

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Any = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool, if it has all of the arguments."""
        schemas = {tool.name: tool.input_schema for tool in await self.list_tools()}
        known = schemas.get(name, {}).get("properties", {})
        unknown = [one for one in arguments if one not in known]
        if unknown and name in schemas:
            listed = f"its arguments are {', '.join(known)}" if known else "it takes none"
            raise ToolError(f"{name} has no argument {unknown[0]!r}; {listed}")
        return await super().call_tool(name, arguments, context)


def create_server(client: AsyncClient, *, allows_writes: bool = False) -> MCPServer:
    """Create the server.

    Args:
        client: of the service.
        allows_writes: whether to offer tools that change data.
    """
    server = _StrictServer(
        "facetd", version=version("facetd"), instructions=INSTRUCTIONS, log_level="WARNING"
    )
    _add_overview(server, client)
    _add_searches(server, client)
    _add_details(server, client)
    if allows_writes:
        _add_writes(server, client)
    return server


def _add_overview(server: MCPServer, client: AsyncClient) -> None:
    """Add the tools to begin with: which indexes there are, and what is in one."""

    @server.tool(annotations=_READS)
    @_readable_errors
    async def list_indexes() -> list[dict[str, Any]]:
        """List the indexes: name, number of items, facets."""
        answer = await client.statistics()
        wanted = ("name", "items", "facets", "aliases")
        return [{name: one.get(name) for name in wanted} for one in answer["indexes"]]

    @server.tool(annotations=_READS)
    @_readable_errors
    async def describe_index(index: Index) -> dict[str, Any]:
        """Describe an index: its configuration, and its most common values by facet."""
        page = await client.search(index, per_page=1)
        return {
            "items": page.total,
            "configuration": await client.configuration(index),
            "example": page.items[0] if page.items else None,
            "facets": {name: _shown_facet(facet) for name, facet in page.facets.items()},
        }


def _add_searches(server: MCPServer, client: AsyncClient) -> None:
    """Add the tools that search and count."""

    @server.tool(annotations=_READS)
    @_readable_errors
    async def search(
        index: Index,
        query: Query = "",
        filter: FilterText = "",
        sort: Annotated[
            list[str] | None, Field(description='Keys of the order: ["year:desc", "name:asc"].')
        ] = None,
        facets: Annotated[
            list[str] | None, Field(description="Facets to count; none by default.")
        ] = None,
        fields: Annotated[
            list[str] | None, Field(description="Fields of items to return; all by default.")
        ] = None,
        page: Annotated[int, Field(ge=1)] = 1,
        per_page: Annotated[int, Field(ge=0, le=HITS_MAX)] = 10,
    ) -> dict[str, Any]:
        """Search an index: one page of items, the exact total, counts of facets."""
        parameters = _given(query=query, filter=filter, sort=sort, fields=fields)
        found = await client.search(
            index, **parameters, facet_fields=facets or [], page=page, per_page=per_page
        )
        return _shown_page(found)

    @server.tool(annotations=_READS)
    @_readable_errors
    async def facet_values(
        index: Index,
        facet: Annotated[str, Field(description="Name of the facet.")],
        starts_with: Annotated[
            str, Field(description="Beginning of a word of the values; typos are forgiven.")
        ] = "",
        query: Query = "",
        filter: FilterText = "",
        page: Annotated[int, Field(ge=1)] = 1,
        per_page: Annotated[int, Field(ge=1, le=VALUES_MAX)] = 20,
    ) -> dict[str, Any]:
        """List the values of a facet with their counts, within what query and filter find."""
        parameters = _given(facet_query=starts_with, search_query=query, filter=filter)
        found = await client.facet(index, facet, **parameters, page=page, per_page=per_page)
        return {"total": found.total, "counts": found.data.counts}


def _add_details(server: MCPServer, client: AsyncClient) -> None:
    """Add the tools that tell more of one item, one search, one index."""

    @server.tool(annotations=_READS)
    @_readable_errors
    async def get_item(index: Index, id: int | str) -> dict[str, Any]:
        """Return one item as it is stored."""
        return await client.get(index, id)

    @server.tool(annotations=_READS)
    @_readable_errors
    async def explain(
        index: Index,
        query: Query,
        filter: FilterText = "",
        per_page: Annotated[int, Field(ge=1, le=HITS_MAX)] = 3,
    ) -> list[dict[str, Any]]:
        """Explain the order of the best hits: the parts of each score, word by word."""
        found = await client.search(
            index,
            query=query,
            **_given(filter=filter),
            facet_fields=[],
            per_page=per_page,
            show=["score_details"],
        )
        return [
            {
                "id": item.get("id"),
                "score": item.get("_score"),
                "details": item.get("_score_details"),
            }
            for item in found.items
        ]

    @server.tool(annotations=_READS)
    @_readable_errors
    async def statistics(index: Index) -> dict[str, Any]:
        """Return sizes of an index, and its fields with the kinds of their values."""
        answer = await client.statistics(index)
        return {name: answer.get(name) for name in ("items", "bytes", "fields")}


def _add_writes(server: MCPServer, client: AsyncClient) -> None:
    """Add the tools that change data."""

    @server.tool(annotations=_WRITES)
    @_readable_errors
    async def add_items(
        index: Index,
        items: Annotated[list[dict[str, Any]], Field(max_length=ITEMS_MAX)],
    ) -> dict[str, int]:
        """Add items, each with an id, or replace those whose id exists: all or none."""
        without = [i for i, item in enumerate(items) if item.get("id") is None]
        if without:
            raise ToolError(f"items {without[:10]} have no id: they could not be found again")
        return _shown_write(await client.add(index, items))

    @server.tool(annotations=_REMOVES)
    @_readable_errors
    async def delete_items(
        index: Index, ids: Annotated[list[int | str], Field(max_length=ITEMS_MAX)]
    ) -> dict[str, int]:
        """Remove items by id."""
        return _shown_write(await client.delete(index, ids))


def _shown_write(result: WriteResult) -> dict[str, int]:
    return {"created": result.created, "updated": result.updated, "deleted": result.deleted}
