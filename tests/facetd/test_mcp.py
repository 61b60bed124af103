"""The Model Context Protocol server, asked by the official client library."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import pytest

from facetd import AsyncClient, Retries
from tests.facetd.scripted import Scripted, serving
from tests.facetd.test_client import PAGE, WRITTEN

READING = [
    "describe_index",
    "explain",
    "facet_values",
    "get_item",
    "list_indexes",
    "search",
    "statistics",
]
WRITING = ["add_items", "delete_items"]


def official() -> Any:
    """Return the official package, whose import takes a second: not while tests are collected."""
    return pytest.importorskip("mcp", reason="the package mcp is not installed")


@asynccontextmanager
async def asking(*answers: Any, allows_writes: bool = False) -> AsyncIterator[tuple[Any, Scripted]]:
    """Connect the official client to our server, and that to a server that answers as told."""
    mcp = official()
    from facetd.mcp import create_server

    with serving(*answers) as service:
        async with AsyncClient(service.url, retries=Retries(tries=1)) as client:
            server = create_server(client, allows_writes=allows_writes)
            async with mcp.Client(server) as session:
                yield session, service


def content_of(result: Any) -> Any:
    """Return what a tool answered."""
    assert not result.is_error, result.content
    shown = result.structured_content
    return shown["result"] if set(shown) == {"result"} else shown


async def test_it_only_reads_unless_told_otherwise() -> None:
    async with asking() as (session, _):
        tools = (await session.list_tools()).tools
        assert (session.server_info.name, session.server_info.version) == (
            "facetd",
            version("facetd"),
        )
    assert sorted(tool.name for tool in tools) == READING
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert all(tool.description for tool in tools)

    async with asking(allows_writes=True) as (session, _):
        tools = (await session.list_tools()).tools
    by_name = {tool.name: tool for tool in tools}
    assert sorted(by_name) == sorted([*READING, *WRITING])
    assert by_name["delete_items"].annotations.destructive_hint


async def test_search() -> None:
    async with asking((200, PAGE)) as (session, service):
        asked = {"index": "films", "query": "god", "filter": "year > 1970", "facets": ["year"]}
        shown = content_of(await session.call_tool("search", asked))

    assert json.loads(service.asked[0].body) == {
        "query": "god",
        "filter": "year > 1970",
        "facet_fields": ["year"],
        "page": 1,
        "per_page": 10,
    }
    assert shown["total"] == 1
    assert shown["items"] == [{"id": 1}]
    assert shown["facets"] == {"year": {"counts": {"1972": 1}}}


async def test_what_a_search_says_of_its_words_reaches_the_model() -> None:
    said = {"did_you_mean": "godfather", "dropped_words": ["the"], "ignored_words": ["x"]}
    page = {**PAGE, "meta": {**PAGE["meta"], **said}}  # type: ignore[dict-item]
    async with asking((200, page)) as (session, _):
        shown = content_of(await session.call_tool("search", {"index": "films", "query": "a"}))

    assert {name: shown[name] for name in said} == said


async def test_an_id_that_would_ask_for_all_items_is_refused() -> None:
    async with asking() as (session, service):
        result = await session.call_tool("get_item", {"index": "films", "id": ""})

    assert result.is_error
    assert "empty" in result.content[0].text
    assert service.asked == []


async def test_facet_values_explanations_items_and_sizes() -> None:
    facet = {**PAGE, "data": PAGE["data"]["aggregations"]["year"]}  # type: ignore[index]
    explained = {**PAGE, "data": {"items": [{"id": 1, "_score": 2.5, "_score_details": {"a": 1}}]}}
    sizes = {"items": 5, "bytes": 9, "fields": [], "shards": []}
    indexes = {"indexes": [{"name": "films", "items": 5, "facets": ["year"], "aliases": []}]}
    answers = [(200, one) for one in (facet, explained, {"id": 1}, sizes, indexes, PAGE, {"a": 1})]
    async with asking(*answers) as (session, _):
        call = session.call_tool
        values = content_of(await call("facet_values", {"index": "films", "facet": "year"}))
        parts = content_of(await call("explain", {"index": "films", "query": "god"}))
        item = content_of(await call("get_item", {"index": "films", "id": 1}))
        size = content_of(await call("statistics", {"index": "films"}))
        listed = content_of(await call("list_indexes", {}))
        described = content_of(await call("describe_index", {"index": "films"}))

    assert values == {"total": 1, "counts": {"1972": 1}}
    assert parts == [{"id": 1, "score": 2.5, "details": {"a": 1}}]
    assert (item, size) == ({"id": 1}, {"items": 5, "bytes": 9, "fields": []})
    assert listed[0]["name"] == "films"
    assert described["configuration"] == {"a": 1}


async def test_errors_of_the_service_reach_the_model() -> None:
    error = {"error": {"code": "invalid_filter", "message": "expected a value", "status": 400}}
    async with asking((400, error)) as (session, _):
        result = await session.call_tool("search", {"index": "films", "filter": "a ="})

    assert result.is_error
    assert "expected a value" in result.content[0].text


async def test_bounds_hold() -> None:
    async with asking(allows_writes=True) as (session, service):
        for tool, asked in (
            ("search", {"index": "films", "per_page": 51}),
            ("facet_values", {"index": "films", "facet": "a", "per_page": 101}),
            ("add_items", {"index": "films", "items": [{"name": "no id"}]}),
        ):
            assert (await session.call_tool(tool, asked)).is_error
    assert service.asked == []


async def test_writes() -> None:
    async with asking((200, WRITTEN), (200, WRITTEN), allows_writes=True) as (session, service):
        shown = content_of(
            await session.call_tool("add_items", {"index": "films", "items": [{"id": 1}]})
        )
        await session.call_tool("delete_items", {"index": "films", "ids": [1, "a"]})

    assert shown == {"created": 1, "updated": 0, "deleted": 0}
    assert [asked.path for asked in service.asked] == ["/films/items", "/films/items/delete"]


async def test_the_command_serves_on_stdin_and_stdout() -> None:
    mcp = official()
    with serving((200, PAGE)) as service:
        command = ["-m", "coordinator", "mcp", "--url", service.url]
        server = mcp.StdioServerParameters(command=sys.executable, args=command)
        async with mcp.Client(server) as session:
            tools = (await session.list_tools()).tools
            shown = content_of(await session.call_tool("search", {"index": "films"}))

    assert sorted(tool.name for tool in tools) == READING
    assert shown["total"] == 1


async def test_an_unknown_index_is_answered_with_the_tool_that_lists_them() -> None:
    fault = "there is no index 'x'"
    message = f"{fault}; POST a configuration (at least {{}}) to /{{index}}/configuration"
    refusal = (404, {"error": {"code": "index_not_found", "message": message, "fault": fault}})
    async with asking(refusal) as (session, _):
        answer = await session.call_tool("search", {"index": "x"})
    assert answer.is_error
    message = "there is no index 'x'; list_indexes lists the indexes"
    assert str(answer.content[0]).count(message) == 1


async def test_an_unknown_argument_is_not_ignored() -> None:
    async with asking() as (session, service):
        misspelled = await session.call_tool("search", {"index": "films", "filters": "year > 1"})
        needless = await session.call_tool("list_indexes", {"index": "films"})
    assert misspelled.is_error
    assert "search has no argument 'filters'; its arguments are index, query, filter" in (
        misspelled.content[0].text
    )
    assert needless.content[0].text.endswith("list_indexes has no argument 'index'; it takes none")
    assert service.asked == []
