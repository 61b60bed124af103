"""Parameters of searches: numbers, filters, expressions and all the others."""

# ruff: noqa: E501, SIM905 - tables of values read better in few long lines

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.http.hostile.case import BAD, OK, OK_OR_BAD, Case, case
from tests.http.raw_requests import get, post, request

NO_INTEGERS = [
    "abc", "1.0", "1e3", "+1", "-1", " 1", "1 ", "1_0", "0x1", "١", "１", "²", "Ⅷ", "1,0", "NaN",
    "Infinity", "true", "null", "[]", "{}", "1;2", "9" * 10, "9" * 5000, "\x00", "1\n", "--1", "∞",
]  # fmt: skip
NO_JSON_INTEGERS: list[Any] = [
    -1, 1.5, 1e300, True, False, "", "abc", "1.0", "-1", [], [1], {}, {"a": 1}, 2**63, 2**64, 10**30,
    "9" * 400, "١", "1 ", " 1",
]  # fmt: skip


def numbers() -> Iterator[Case]:
    """Pages, sizes, deadlines."""
    for name in ("page", "per_page", "timeout_ms"):
        code = f"invalid_{name}"
        for value in NO_INTEGERS:
            yield case(
                f"GET {name}={value!r:.30}", get("/films/search", **{name: value}), BAD, code
            )
        for value in NO_JSON_INTEGERS:
            yield case(
                f"POST {name}={value!r:.30}", post("/films/search", {name: value}), BAD, code
            )
    yield case("page 0", get("/films/search", page="0"), BAD, "invalid_page")
    yield case("page deep", get("/films/search", page="999999999"), OK)
    yield case("page as digits in a body", post("/films/search", {"page": "2"}), OK)
    yield case("per_page 0", get("/films/search", per_page="0"), OK)
    yield case("per_page 1000", get("/films/search", per_page="1000"), OK)
    yield case("per_page 1001", get("/films/search", per_page="1001"), BAD, "invalid_per_page")
    yield case("page empty is absent", request("GET", "/films/search?page=&per_page="), OK)
    yield case("page null is absent", post("/films/search", {"page": None}), OK)
    yield case("page twice", request("GET", "/films/search?page=1&page=2"), BAD, "invalid_page")
    yield case("leading zeros", get("/films/search", page="007"), OK)


WRONG_FILTERS: list[Any] = [
    "abc", 1, True, ["a"], [["a"]], {"tags": None}, {"tags": [None]}, {"tags": [["a"]]},
    {"tags": [{}]}, {"": ["a"]}, {"x" * 257: ["a"]}, {"tags": ["a" * 513]},
    {"tags": {"gte": 1, "gt": 2}}, {"tags": {"lt": "a", "gte": 1}}, {"tags": {"gte": True}},
    {"tags": {"gte": []}}, {"tags": {"between": [1, 2]}}, {"tags": {"$gt": 1}},
    {"tags": {"any": [None]}}, {"tags": {"any": {"a": 1}}}, {"tags": {"exists": "yes"}},
    {"tags": {"exists": 1}}, {"tags": ["v"] * 1025}, {f"f{i}": ["a"] for i in range(33)},
    {"tags": {"gte": "x" * 600}}, {"tags": {"all": [{"a": [1]}]}},
]  # fmt: skip
RIGHT_FILTERS: list[Any] = [
    {}, [], {"tags": []}, {"tags": {}}, {"tags": "a"}, {"tags": ["a", 1, 1.5, True]},
    {"tags": [""]}, {"tags": ["\x00"]}, {"tags": ["a", "a"]}, {"tags": ["'; DROP TABLE--"]},
    {"year": [1994]}, {"year": {"gte": 1990, "lt": 2000}}, {"tags": {"any": ["a"], "none": ["b"]}},
    {"tags": {"exists": False}}, {"tags": ["\u202e", "🎬", "e\u0301"]}, {"year": [10**30]},
    {"year": [-0.0, 1e-320]}, {"tags": ["v"] * 1024},
]  # fmt: skip


def filters() -> Iterator[Case]:
    """Filters as objects."""
    for i, value in enumerate(WRONG_FILTERS):
        yield case(f"POST filters {i}", post("/films/search", {"filters": value}))
        if len(json.dumps(value)) < 8000:
            yield case(f"GET filters {i}", get("/films/search", filters=json.dumps(value)))
        yield case(f"facet filters {i}", post("/films/facet", {"name": "tags", "filters": value}))
        yield case(f"POST not_filters {i}", post("/films/search", {"not_filters": value}), BAD)
    for i, value in enumerate(RIGHT_FILTERS):
        yield case(f"POST right filters {i}", post("/films/search", {"filters": value}), OK)
        yield case(f"exclude_filters {i}", post("/films/search", {"exclude_filters": value}), OK)
    for i, text in enumerate(
        (
            "{",
            "[",
            "{]",
            '{"tags":["a"]',
            "{'tags':['a']}",
            "tags:a",
            "{tags:[a]}",
            "NaN",
            '"x',
            "\ufeff{}",
        )
    ):
        yield case(
            f"GET filters no JSON {i}", get("/films/search", filters=text), BAD, "invalid_filters"
        )
    yield case(
        "filters deep", get("/films/search", filters='{"tags":' + "[" * 900 + "]" * 900 + "}"), BAD
    )
    yield case(
        "filters very deep",
        post("/films/search", b'{"filters":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        BAD,
        "too_deep",
    )
    yield case(
        "both not_filters", post("/films/search", {"not_filters": {}, "exclude_filters": {}})
    )
    yield case("proto", post("/films/search", {"filters": {"__proto__": ["a"]}}), OK_OR_BAD)


EXPRESSIONS = [
    "year >=", "AND", "OR OR", "NOT", "((year = 1)", "year = 1)", "year = ", "= 1", "tags IN [",
    "tags IN [a", "tags IN a", "year 1", "year TO 3", "a b c", "tags STARTS a", "tags IS", "'", '"',
    "tags = \"x", "((((" * 20 + "a=1", "NOT " * 100 + "a = 1", "a = 1 AND", "a == 1", "a <> 1",
    "a = 1 ; b = 2", "x" * 20_000, "a = 1 OR " * 2000, "[]", "1e999 = a AND a = 1e999",
]  # fmt: skip


def expressions() -> Iterator[Case]:
    """The filter language."""
    for i, text in enumerate(EXPRESSIONS):
        yield case(f"filter {i} {text[:12]!r}", post("/films/search", {"filter": text}), OK_OR_BAD)
    value: Any
    for value in (1, True, [], {}, ["a = 1"]):
        yield case(f"filter {value!r}", post("/films/search", {"filter": value}), BAD)
    yield case("filter right", post("/films/search", {"filter": "year >= 1990 AND tags = a"}), OK)
    yield case("filter blank", post("/films/search", {"filter": "  "}), OK)


def parameters() -> Iterator[Case]:
    """Every parameter with every kind of value."""
    names = (
        "query sort_field order facet_fields match prefix typo search_fields fields exclude_fields "
        "highlight snippet facets facet_ranges facet_cube facet_mode cursor distinct show partial sort"
    ).split()
    values: list[Any] = [
        1, 1.5, True, -1, [], [1], [None], [[]], {}, {"a": {"b": []}}, "\x00", "x" * 2000,
        ["x"] * 20_000, {"fields": 1}, {"fields": ["x" * 300]}, [{}], "%", "ä", " ",
    ]  # fmt: skip
    for name in names:
        for i, value in enumerate(values):
            yield case(
                f"POST {name} {i}",
                post("/films/search", {name: value}),
                OK_OR_BAD,
            )
        yield case(f"GET {name} broken JSON", get("/films/search", **{name: "[{"}), OK_OR_BAD)
    for name, near in (("pgae", "page"), ("filter_", "filter"), ("facet_field", "facet_fields")):
        yield case(
            f"unknown {name} ({near})", post("/films/search", {name: 1}), BAD, "unknown_parameter"
        )
    yield case("unknown in GET", get("/films/search", nope="1"), BAD, "unknown_parameter")
    yield case("unknown of an item", get("/films/items/1", nope="1"), BAD, "unknown_parameter")
    yield case("empty name", request("GET", "/films/search?=1"), BAD, "unknown_parameter")
    yield case(
        "unknown with quotes", post("/films/search", {'<script>"': 1}), BAD, "unknown_parameter"
    )
    yield case("long unknown", post("/films/search", {"x" * 100_000: 1}), BAD, "unknown_parameter")
    yield case("query too long", get("/films/search", query="x" * 20_000), BAD, "query_too_long")
    yield case("order up", get("/films/search", order="up"), BAD, "invalid_order")
    yield case("sort and sort_field", post("/films/search", {"sort": ["a"], "sort_field": "a"}))
    yield case(
        "sort keys", post("/films/search", {"sort": ["year:desc:missing=first", "_score"]}), OK
    )
    yield case("17 sort keys", post("/films/search", {"sort": ["a"] * 17}))
    yield case("cursor and page", post("/films/search", {"cursor": "x", "page": 2}), BAD)
    yield case("no name", get("/films/facet"), BAD, "missing_name")
    yield case("unknown facet", get("/films/facet", name="nope"), 404, "facet_not_found")
    yield case("facet per_page", get("/films/facet", name="tags", per_page="10000"), OK)
    yield case("facet per_page too large", get("/films/facet", name="tags", per_page="10001"))
    yield case(
        "facet of search",
        get("/films/facet", name="tags", sort_field="a"),
        BAD,
        "unknown_parameter",
    )
    yield case("similar", get("/films/search", similar_to="1"), OK)
    yield case("similar with a query", get("/films/search", similar_to="1", query="a"), BAD)
    yield case("similar to a list", post("/films/search", {"similar_to": [1]}), BAD)
    yield case("explained", post("/films/explain", {"id": 1, "query": "dark"}), OK)
    yield case("explained without an id", post("/films/explain", {}), BAD, "invalid_id")
    yield case("explained list", post("/films/explain", {"id": [1]}), BAD, "invalid_id")
    yield case("suggestions", get("/films/suggest", query="go"), OK)
    yield case("suggestions without a text", get("/films/suggest"), OK)
    yield case("too many suggestions", get("/films/suggest", query="a", size="101"), BAD)
    yield case("no suggestions", post("/films/suggest", {"query": "a", "size": 0}), BAD)
    yield case("suggestions query list", post("/films/suggest", {"query": ["a"]}), BAD)
    yield case("long text", post("/films/suggest", {"query": "a" * 5_000}), BAD, "query_too_long")
    yield case("did_you_mean", get("/films/search", query="a", did_you_mean="maybe"), BAD)
    yield case("facet name list", post("/films/facet", {"name": ["tags"]}), BAD)
    yield case("facets of unknown", post("/films/search", {"facets": {"nope": {}}}), OK_OR_BAD)
    for distinct in (
        {"field": "year", "limit": 2, "hits": 3}, {"field": "year", "hits": 101},
        {"field": "year", "hits": 0}, {"field": "year", "facets_by": "brands"},
        {"field": "year", "sizes": 1}, {"field": "year", "size": True},
    ):  # fmt: skip
        yield case(f"distinct {distinct}", post("/films/search", {"distinct": distinct}))
    yield case(
        "hits of groups times per_page",
        post("/films/search", {"distinct": {"field": "year", "hits": 100}, "per_page": 11}),
        BAD,
        "invalid_distinct",
    )
    yield case(
        "groups in a facet that is not configured",
        post(
            "/films/search",
            {"distinct": {"field": "year", "facets_by": "groups"}, "facets": {"votes": {}}},
        ),
        BAD,
        "invalid_distinct",
    )
    # As the values are: real shards refuse a field that no item has.
    yield case("facets any field", post("/films/search", {"facets": {"votes": {}}}), OK_OR_BAD)
    stats: Any
    for stats in ([1], "year", {"year": 1}, [[]], [""], ["year"] * 9):
        yield case(
            f"facets stats {stats}", post("/films/search", {"facets": {"tags": {"stats": stats}}})
        )
    yield case("facets size", post("/films/search", {"facets": {"tags": {"size": -1}}}))
    yield case("facets option", post("/films/search", {"facets": {"tags": {"colour": 1}}}))
    ranges: Any
    for ranges in (
        [], [1], [{}], [{"from": True}], [{"from": 1, "to": "b"}], {"interval": 0}, {"interval": -1},
        {"interval": "1"}, {"calendar": "fortnight"}, {"interval": 1, "calendar": "day"},
        [{"from": 1}] * 257, None, {"interval": 1e301},
    ):  # fmt: skip
        yield case(
            f"ranges {ranges!r:.30}", post("/films/search", {"facet_ranges": {"year": ranges}})
        )
    cube: Any
    for cube in (
        {"field": "year"}, {"field": "year", "edges": []}, {"field": "year", "edges": [1]},
        {"field": "year", "edges": [2, 1]}, {"field": "year", "edges": [1, "2"]},
        {"field": "year", "edges": [1, 1.0]}, {"field": "year", "edges": [True, 2]},
        {"field": "year", "interval": 0}, {"field": "year", "interval": "1"}, {"field": ""},
        {"field": "year", "edges": [1, 2], "interval": 1}, {"field": 1, "interval": 1},
        {"field": "nowhere", "interval": 1}, {"field": "year", "interval": 1e-9},
    ):  # fmt: skip
        yield case(f"cube {cube!r:.60}", post("/films/search", {"facet_cube": cube}), OK_OR_BAD)
    for interval in (5e-324, 1e-320, 1e-18, 1e-3, 9e299):
        ranges = {"interval": interval}
        yield case(
            f"interval {interval}",
            post("/films/search", {"facet_ranges": {"year": ranges}}),
            OK_OR_BAD,  # as the values are
        )
