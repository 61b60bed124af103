"""Every limit at its edge: the limit itself is accepted, one more is refused by name.

The table has a row for each limit of `common.limits`; a limit without one fails. Limits are made
small, so that the edge is cheap to reach; that this has an effect at all shows that each is a
setting.
"""

from __future__ import annotations

import ast
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from common import hits_page_byte_limit
from common.limits import Limits
from tests.http.conftest import MakeWeb, Web
from tests.http.raw_requests import get, post, request

TESTS = Path(__file__).resolve().parent.parent


class Edge(NamedTuple):
    """How one limit is reached."""

    limit: int
    """Its value for the test."""
    make: Callable[[int], bytes]
    """Makes a request of a size."""
    code: str
    status: int = 400


def search(**parameters: Any) -> bytes:
    return post("/films/search", parameters)


def configuration(**document: Any) -> bytes:
    return post("/films/configuration", document)


def changes(**members: Any) -> bytes:
    return post("/films/items/changes", {"put": [{"id": 1}], **members})


def items(*documents: Any) -> bytes:
    return post("/films/items", list(documents))


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth > 1 else []


def padded(target: str, size: int, content_type: str = "application/json") -> bytes:
    """Return a request with a body of a size, valid for all pages that take items or parameters."""
    bodies = {"/films/search": b"{}", "/films/items": b"[]", "/films/configuration": b"{}"}
    body = bodies.get(target, b'{"id":7}').ljust(size)
    assert len(body) == size
    return request("POST", target, body, content_type=content_type)


def item_of(num_bytes: int) -> bytes:
    body = b'{"id":7,"a":"%b"}' % (b"x" * (num_bytes - 15))
    assert len(body) == num_bytes
    return request("POST", "/films/index", body + b"\n", content_type="text/plain")


def fields(count: int) -> dict[str, Any]:
    """Return an item with so many keys, most of them nested, some more than once in an array."""
    inner = {f"k{i}": i for i in range(count - 3)}
    return {"id": 7, "a": {"b": [{"k0": 1}, {"k0": 2}, inner]}}


def words(count: int) -> list[str]:
    return [f"w{i}" for i in range(count)]


def target_of(size: int) -> bytes:
    return request("GET", "/status?".ljust(size, "x"))


def header(size: int) -> bytes:
    """Return a header of 1,000 bytes, or one more: some versions of the parser count its name."""
    return request("GET", "/status", None, f"X-L: {'x' * (size - 3 if size == 1_000 else size)}")


def headers(count: int) -> bytes:
    plain = request("GET", "/status")
    num_plain = plain.count(b"\r\n") - 2
    return request("GET", "/status", None, *(f"X-{i}: 1" for i in range(count - num_plain)))


EDGES = {
    "json_body_bytes_max": Edge(100, lambda n: padded("/films/items", n), "payload_too_large", 413),
    "bulk_body_bytes_max": Edge(
        100, lambda n: padded("/films/index", n, "text/plain"), "payload_too_large", 413
    ),
    "search_body_bytes_max": Edge(
        100, lambda n: padded("/films/search", n), "payload_too_large", 413
    ),
    "configuration_bytes_max": Edge(
        400, lambda n: padded("/films/configuration", n), "payload_too_large", 413
    ),
    "search_body_values_max": Edge(
        9, lambda n: search(facet_fields=words(n - 2)), "too_many_values"
    ),
    "item_bytes_max": Edge(100, item_of, "invalid_item"),
    "url_bytes_max": Edge(2_000, target_of, "uri_too_long", 414),
    "header_bytes_max": Edge(1_000, header, "headers_too_large", 431),
    "headers_max": Edge(20, headers, "headers_too_large", 431),
    "json_depth_max": Edge(9, lambda n: items({"id": 7, "a": nested(n - 1)}), "too_deep"),
    "index_name_chars_max": Edge(
        9, lambda n: post(f"/{quote('é' * n)}/configuration", {}), "invalid_index_name"
    ),
    "item_fields_max": Edge(12, lambda n: items(fields(n)), "too_many_fields"),
    "item_facet_values_max": Edge(
        5, lambda n: items({"id": 7, "tags": words(n)}), "too_many_values"
    ),
    "field_name_bytes_max": Edge(20, lambda n: items({"k" * n: 1}), "invalid_item"),
    "batch_items_max": Edge(
        3, lambda n: items(*({"id": i} for i in range(n))), "payload_too_large", 413
    ),
    "per_page_max": Edge(50, lambda n: search(per_page=n), "invalid_per_page"),
    "facet_per_page_max": Edge(
        50, lambda n: post("/films/facet", {"name": "tags", "per_page": n}), "invalid_per_page"
    ),
    "facet_offset_max": Edge(
        50, lambda n: search(facets={"tags": {"offset": n}}), "invalid_facets"
    ),
    "facet_fields_max": Edge(
        5, lambda n: search(facet_fields=words(n)), "invalid_facet_fields"
    ),
    "geo_fields_max": Edge(
        2, lambda n: post("/films/configuration", {"geo_fields": words(n)}), "invalid_configuration"
    ),
    "suggestions_max": Edge(
        5, lambda n: post("/films/suggest", {"query": "a", "size": n}), "invalid_size"
    ),
    "suggestion_sources_max": Edge(
        2,
        lambda n: configuration(suggestions={"fields": words(n)}),
        "invalid_configuration",
    ),
    "hierarchies_max": Edge(
        2,
        lambda n: post(
            "/films/configuration",
            {
                "aggregations": {"tags": {}},
                "hierarchies": {name: {"path": "tags"} for name in words(n)},
            },
        ),
        "invalid_configuration",
    ),
    "hierarchy_levels_max": Edge(
        2,
        lambda n: post(
            "/films/configuration",
            {
                "aggregations": {name: {} for name in words(n)},
                "hierarchies": {"tree": {"levels": words(n)}},
            },
        ),
        "invalid_configuration",
    ),
    "nested_fields_max": Edge(
        2, lambda n: post("/films/configuration", {"nested": words(n)}), "invalid_configuration"
    ),
    "field_facets_max": Edge(
        3, lambda n: search(facets={name: {} for name in ("votes", "name", "x", "y")[:n]}),
        "invalid_facets",
    ),
    "value_statistics_max": Edge(
        2, lambda n: search(facets={"tags": {"stats": ["year", "votes", "id"][:n]}}),
        "invalid_facets",
    ),
    "facet_cube_bins_max": Edge(
        3, lambda n: search(facet_cube={"field": "year", "edges": list(range(n + 1))}),
        "invalid_facet_cube",
    ),
    "percentiles_max": Edge(
        5, lambda n: search(facets={"tags": {"percentiles": [50] * n}}), "invalid_facets"
    ),
    "geo_corners_max": Edge(
        5,
        lambda n: search(filters={"_geo": {"polygon": [[i, i * i] for i in range(n)]}}),
        "invalid_filters",
    ),
    "geo_rings_max": Edge(
        5,
        lambda n: search(facet_ranges={"_geo": {"origin": [0, 0], "rings": list(range(n))}}),
        "invalid_facet_ranges",
    ),
    "geo_zoom_max": Edge(
        5, lambda n: search(facet_ranges={"_geo": {"grid": n}}), "invalid_facet_ranges"
    ),
    "page_max": Edge(50, lambda n: get("/films/search", page=str(n)), "invalid_page"),
    "query_chars_max": Edge(30, lambda n: search(query="é" * n), "query_too_long"),
    "filter_fields_max": Edge(
        3, lambda n: search(filters=dict.fromkeys(words(n), "1")), "too_many_filter_fields"
    ),
    "filter_values_max": Edge(
        5,
        lambda n: search(filters={"tags": ["a", "b"]}, not_filters={"year": words(n - 2)}),
        "too_many_filter_values",
    ),
    "filter_value_bytes_max": Edge(
        9, lambda n: search(filters={"tags": "x" * n}), "invalid_filters"
    ),
    "filter_expression_chars_max": Edge(
        40, lambda n: search(filter="tags = a".ljust(n)), "invalid_filter"
    ),
    "filter_depth_max": Edge(
        4, lambda n: search(filter="(" * n + "tags = a" + ")" * n), "invalid_filter"
    ),
    "filter_conditions_max": Edge(
        4, lambda n: search(filter=f"tags IN [{', '.join(words(n - 1))}]"), "invalid_filter"
    ),
    "sort_keys_max": Edge(2, lambda n: search(sort=words(n)), "invalid_sort"),
    "projected_fields_max": Edge(2, lambda n: search(fields=words(n)), "invalid_fields"),
    "search_fields_max": Edge(
        2, lambda n: search(search_fields=words(n)), "invalid_search_fields"
    ),
    "facet_ranges_max": Edge(
        2,
        lambda n: search(facet_ranges={w: {"interval": 1} for w in words(n)}),
        "invalid_facet_ranges",
    ),
    "range_bounds_max": Edge(
        2,
        lambda n: search(facet_ranges={"year": [{"from": i} for i in range(n)]}),
        "invalid_facet_ranges",
    ),
    "snippet_words_max": Edge(
        9, lambda n: search(snippet={"fields": [f"name:{n}"]}), "invalid_snippet"
    ),
    "score_buckets_max": Edge(
        9, lambda n: search(sort=f"_score:buckets={n}"), "invalid_sort"
    ),
    "seed_max": Edge(9, lambda n: search(sort=f"_random:{n}"), "invalid_sort"),
    "boosts_max": Edge(
        2, lambda n: search(boost={w: {"log": 1} for w in words(n)}), "invalid_boost"
    ),
    "rules_max": Edge(2, lambda n: search(rules=[{"hide": [1]}] * n), "invalid_rules"),
    "rule_items_max": Edge(
        3, lambda n: search(rules=[{"hide": [1], "pin": list(range(n - 1))}]), "invalid_rules"
    ),
    "mark_chars_max": Edge(9, lambda n: search(highlight={"pre": "<" * n}), "invalid_highlight"),
    "distinct_max": Edge(
        9, lambda n: search(distinct={"field": "year", "limit": n}), "invalid_distinct"
    ),
    "searches_max": Edge(
        2, lambda n: post("/_search", {"searches": [{"index": "films"}] * n}), "invalid_searches"
    ),
    "merged_hits_max": Edge(
        20,
        lambda n: post(
            "/_search", {"searches": [{"index": "films"}], "merge": {"page": n, "per_page": 1}}
        ),
        "invalid_merge",
    ),
    "cursor_chars_max": Edge(9, lambda n: search(cursor="A" * n), "invalid_cursor"),
    "request_timeout_ms_max": Edge(
        9_000, lambda n: search(timeout_ms=n), "invalid_timeout_ms"
    ),
    "facets_max": Edge(
        4, lambda n: configuration(aggregations={w: {} for w in words(n)}), "invalid_configuration"
    ),
    "facet_size_max": Edge(
        9, lambda n: configuration(aggregations={"tags": {"size": n}}), "invalid_configuration"
    ),
    "searchable_fields_max": Edge(
        3, lambda n: configuration(searchable_fields=words(n)), "invalid_configuration"
    ),
    "typo_groups_max": Edge(
        2,
        lambda n: configuration(field_typo_lengths={w: [5, 5 + i] for i, w in enumerate(words(n))}),
        "invalid_configuration",
    ),
    "stop_words_max": Edge(
        3, lambda n: configuration(stop_words=words(n)), "invalid_configuration"
    ),
    "synonyms_max": Edge(
        3,
        lambda n: configuration(synonyms=[[w, "x"] for w in words(n)]),
        "invalid_configuration",
    ),
    "synonym_alternatives_max": Edge(
        3, lambda n: configuration(synonyms=[words(n)]), "invalid_configuration"
    ),
    "source_chars_max": Edge(
        5, lambda n: changes(source="s" * n, position="1"), "invalid_body"
    ),
    "position_chars_max": Edge(
        5, lambda n: changes(source="s", position="1" * n), "invalid_body"
    ),
    "clicks_max": Edge(
        3,
        lambda n: post("/_analytics/clicks", {"clicks": [{"index": "films", "id": 1}] * n}),
        "invalid_body",
    ),
    "aliases_max": Edge(
        2, lambda n: post("/_aliases", {"aliases": dict.fromkeys(words(n), "films")}),
        "invalid_aliases",
    ),
}  # fmt: skip

HELD_ELSEWHERE = {
    "query_words_max": "coordinator/read/text/test_query_parser.py::test_too_many_words_are_cut",
    "range_buckets_max": (
        "coordinator/read/facets/test_range_merging.py::test_buckets_of_all_shards_together_are_bounded"
    ),
    "facet_cube_counts_max": "shard/collect/facets/test_facet_cube.py::test_counts_are_bounded",
    "searches_words_max": (
        "coordinator/read/test_multi_search_limits.py::test_words_of_all_searches_are_bounded_together"
    ),
    "searches_buckets_max": (
        "coordinator/read/test_multi_search_limits.py::test_buckets_of_all_searches_are_bounded_together"
    ),
    "marked_text_bytes_max": (
        "shard/read/test_highlight.py::test_past_the_bound_of_a_text_nothing_is_marked"
    ),
    "marked_page_bytes_max": (
        "shard/read/test_highlight.py::test_past_the_bound_of_an_item_nothing_is_marked"
    ),
    "explained_parts_max": "cluster/test_explained_items.py::test_parts_are_limited",
    "index_fields_max": "http/test_index_fields.py::test_a_full_index_refuses_new_fields_only",
    "cursor_states_max": "coordinator/cluster/test_cursor_leases.py::test_states_are_limited",
    "cursor_lease_ms": "coordinator/cluster/test_cursor_leases.py::test_lease_ends_by_itself",
    "positions_max": (
        "cluster/test_followed_changes.py"
        "::test_a_further_source_replaces_the_one_that_wrote_least_recently"
    ),
    "analytics_queries_max": (
        "coordinator/analytics/test_search_analytics.py::test_memory_is_bounded"
    ),
    "indexes_max": "http/test_limits.py::test_index_is_refused_beyond_indexes_max",
    "keys_max": "http/test_limits.py::test_key_is_refused_beyond_keys_max",
    "snapshots_max": "http/test_limits.py::test_snapshot_is_refused_beyond_snapshots_max",
    "request_timeout_ms": "http/test_limits.py::test_deadline_is_the_limit_or_what_a_request_says",
    "body_timeout_ms": "http/test_bodies.py::test_half_sent_body_times_out_and_delays_no_other",
    "send_timeout_ms": "http/test_connections.py::test_client_that_never_reads_is_let_go",
    "keepalive_timeout_ms": "http/test_limits.py::test_idle_connection_is_closed",
    "connections_max": "http/test_connections.py::test_idle_connection_makes_room_at_the_bound",
    "tenant_token_seconds_max": (
        "coordinator/http/security/test_tenant_tokens.py::test_lifetime_at_its_edge"
    ),
    "requests_in_flight_max": "http/test_limits.py::test_one_request_too_many_at_a_time_is_refused",
    "bytes_in_flight_max": "http/test_limits.py::test_too_many_bytes_at_a_time_are_refused",
    "bytes_unread_max": (
        "http/test_connections.py::test_slow_readers_that_hold_too_much_are_let_go"
    ),
    "errors_reported_max": "http/test_limits.py::test_errors_are_listed_up_to_errors_reported_max",
}
"""Limits that take more than one request to reach, and the test that does."""


def test_every_limit_has_a_row() -> None:
    names = [field.name for field in dataclasses.fields(Limits)]
    assert sorted(names) == sorted([*EDGES, *HELD_ELSEWHERE])
    for where in HELD_ELSEWHERE.values():
        file, _, name = where.partition("::")
        functions = (
            node.name
            for node in ast.walk(ast.parse((TESTS / file).read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        assert name in functions, where


@pytest.mark.parametrize("name", EDGES)
async def test_limit_takes_its_value_and_refuses_one_more(make_web: MakeWeb, name: str) -> None:
    edge = EDGES[name]
    web = await make_web(limits={name: edge.limit})

    taken = await web.send(edge.make(edge.limit))
    refused = await web.send(edge.make(edge.limit + 1))

    assert taken.status == 200, taken.body
    assert (refused.status, refused.code) == (edge.status, edge.code), refused.body
    message = refused.json["error"]["message"]
    assert f"{edge.limit} (limit {name})" in message
    if edge.status != 414 and name not in ("header_bytes_max", "headers_max"):
        assert (await web.get("/films/items/7")).status in (200, 404)


def test_limits_have_greatest_values() -> None:
    assert Limits(json_depth_max=64).json_depth_max == 64
    with pytest.raises(ValueError, match="limit json_depth_max can be at most 64"):
        Limits(json_depth_max=65)


async def test_parameters_are_refused_beyond_json_depth_max(make_web: MakeWeb) -> None:
    web = await make_web(limits={"json_depth_max": 9})
    for depth, status in ((9, 200), (10, 400)):
        reply = await web.post("/films/configuration", {"unknown": nested(depth - 1)})
        assert reply.status == status, reply.body
    assert reply.code == "too_deep"


async def test_update_of_an_item_is_refused_beyond_item_bytes_max(make_web: MakeWeb) -> None:
    web = await make_web(limits={"item_bytes_max": 100})
    for size, status in ((100, 200), (101, 413)):
        body = json.dumps({"id": 1, "a": "x" * (size - 18)}).encode()
        assert len(body) == size
        assert (await web.send(request("POST", "/films/items/1/update", body))).status == status


async def test_searches_of_a_request_share_its_limits_of_cost(make_web: MakeWeb) -> None:
    web = await make_web()
    facets = {f"f{i}": {"size": 10_000} for i in range(32)}
    assert (await web.post("/films/configuration", {"aggregations": facets})).status == 200
    query = " ".join(f"word{i}" for i in range(255))
    for parameters, limit in (
        ({"query": query, "facet_fields": []}, "searches_words_max"),
        ({"per_page": 0}, "searches_buckets_max"),
    ):
        refused = await web.post("/_search", {"searches": [{"index": "films", **parameters}] * 64})
        assert (refused.status, refused.code) == (400, "searches_too_costly")
        assert f"(limit {limit})" in refused.json["error"]["message"]
    for kind in ({}, {"type": "facet", "facet": "f1"}):
        one = {"indexName": "films", "params": {"query": query}, **kind}
        refused = await web.post("/1/indexes/*/queries", {"requests": [one] * 64})
        assert (refused.status, refused.code) == (400, "searches_too_costly"), kind


@pytest.mark.parametrize(
    ("path", "member", "part"),
    [
        ("/_search", "searches", {"index": "films"}),
        ("/_search?merge", "searches", {"index": "films"}),
        ("/1/indexes/*/queries", "requests", {"indexName": "films"}),
        ("/1/indexes/*/objects", "requests", {"indexName": "films", "objectID": "1"}),
    ],
)
async def test_parts_of_a_request_share_the_bytes_of_one_page(
    web: Web, monkeypatch: pytest.MonkeyPatch, path: str, member: str, part: dict[str, Any]
) -> None:
    num_items = 1 if path.endswith("objects") else 10
    num_parts = 30 // num_items
    item = (await web.get("/films/items/1")).body if num_items == 1 else web.search.items[0]
    path, _, is_merged = path.partition("?")
    more = {"merge": {"per_page": 30}} if is_merged else {}
    body = {member: [part] * num_parts, **more}
    monkeypatch.setattr(hits_page_byte_limit, "PAGE_BYTES_MAX", 30 * len(item))
    assert (await web.post(path, body)).status == 200
    monkeypatch.setattr(hits_page_byte_limit, "PAGE_BYTES_MAX", 30 * len(item) - 1)

    refused = await web.post(path, body)

    assert (refused.status, refused.code) == (413, "payload_too_large")
    monkeypatch.setattr(hits_page_byte_limit, "FEW_ITEMS", 30)
    assert (await web.post(path, body)).status == 200


async def test_index_is_refused_beyond_indexes_max(make_web: MakeWeb) -> None:
    web = await make_web(limits={"indexes_max": 2})

    assert (await web.post("/second/configuration", {})).status == 200
    refused = await web.post("/third/configuration", {})
    assert (refused.status, refused.code) == (400, "too_many_indexes")
    assert "2 (limit indexes_max)" in refused.json["error"]["message"]
    assert (await web.post("/second/configuration", {"aggregations": {"a": {}}})).status == 200


async def test_key_is_refused_beyond_keys_max(make_web: MakeWeb) -> None:
    web = await make_web(limits={"keys_max": 1})
    made = await web.post("/_keys", {"actions": ["admin"]})
    refused = await web.post("/_keys", {"actions": ["search"]}, f"X-API-Key: {made.json['key']}")

    assert made.status == 200
    assert (refused.status, refused.code) == (400, "invalid_key")
    assert "1 (limit keys_max)" in refused.json["error"]["message"]


async def test_alias_is_refused_beyond_aliases_max_altogether(make_web: MakeWeb) -> None:
    web = await make_web(limits={"aliases_max": 2})

    assert (await web.post("/_aliases", {"aliases": {"a": "films", "b": "films"}})).status == 200
    assert (await web.post("/_aliases", {"aliases": {"c": "films"}})).code == "invalid_aliases"
    assert (await web.post("/_aliases", {"aliases": {"c": "films", "a": None}})).status == 200


async def test_snapshot_is_refused_beyond_snapshots_max(make_web: MakeWeb) -> None:
    web = await make_web(limits={"snapshots_max": 1})
    folder = web.services.settings.snapshot_folder
    (folder / "one").mkdir(parents=True)

    refused = await web.post("/_snapshots", {"name": "two"})

    assert (refused.status, refused.code) == (400, "invalid_snapshot")
    assert "1 (limit snapshots_max)" in refused.json["error"]["message"]
    assert (await web.send(request("DELETE", "/_snapshots/one"))).status == 200
    accepted = await web.post("/_snapshots", {"name": "two"})
    assert accepted.code != "invalid_snapshot"  # the model shards cannot copy themselves
    (folder / "unfinished.partial").mkdir()
    (folder / ".copy-0123456789abcdef").mkdir()
    accepted = await web.post("/_snapshots", {"name": "three"})
    assert accepted.code != "invalid_snapshot"


async def test_deadline_is_the_limit_or_what_a_request_says(make_web: MakeWeb) -> None:
    web = await make_web(limits={"request_timeout_ms": 1234})

    await web.send(search(query="x"))
    await web.send(search(query="x", timeout_ms=77))

    assert [asked.timeout_ms for asked in web.search.asked] == [1234, 77]  # type: ignore[union-attr]


async def test_idle_connection_is_closed(make_web: MakeWeb) -> None:
    web = await make_web(limits={"keepalive_timeout_ms": 100})
    connection = await web.connect()
    await connection.send(search())
    assert (await connection.read()).status == 200

    assert await connection.reader.read() == b""
    await connection.close()


async def test_one_request_too_many_at_a_time_is_refused(make_web: MakeWeb) -> None:
    web = await make_web(limits={"requests_in_flight_max": 3})
    web.services.metrics.requests_in_flight = 2

    assert (await web.send(search())).status == 200
    web.services.metrics.requests_in_flight = 3
    refused = await web.send(search())

    assert (refused.status, refused.code) == (503, "overloaded")
    assert refused.headers["retry-after"] == "1"
    assert "3 (limit requests_in_flight_max)" in refused.json["error"]["message"]


async def test_too_many_bytes_at_a_time_are_refused(make_web: MakeWeb) -> None:
    web = await make_web(limits={"bytes_in_flight_max": 100})

    assert (await web.send(padded("/films/search", 100))).status == 200
    refused = await web.send(padded("/films/search", 101))

    assert (refused.status, refused.code) == (503, "overloaded")
    assert "100 bytes (limit bytes_in_flight_max)" in refused.json["error"]["message"]


async def test_errors_are_listed_up_to_errors_reported_max(make_web: MakeWeb) -> None:
    web = await make_web(limits={"errors_reported_max": 2})
    refused = await web.send(items(*({"id": -1} for _ in range(3))))

    error = refused.json["error"]
    assert (refused.status, error["rejected"], len(error["errors"])) == (400, 3, 2)
