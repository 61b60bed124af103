"""The catalogue of hostile requests, and of mistakes that many clients make.

Every case is the bytes of one request and what may come back: a set of statuses, and the error code
where there is one to expect. The rules that hold for all of them are in `check`: a JSON error in
the one shape, never a 5xx, and the connection or the next one still works. The index `films`
exists, has facets `tags` (disjunctive), `country`, `director`, `year`, and the item 1.
"""

# ruff: noqa: E501, SIM905 - tables of values read better in few long lines

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import brotli


class Case(NamedTuple):
    """One request."""

    name: str
    request: bytes
    statuses: frozenset[int]
    code: str | None = None
    half_closes: bool = False
    """Whether the client stops sending (a body that is cut off)."""


HOST = b"Host: 127.0.0.1\r\n"
OK = frozenset((200,))
BAD = frozenset((400,))
OK_OR_BAD = frozenset((200, 400))
NOT_FOUND = frozenset((404,))


def request(
    method: str,
    target: str | bytes,
    body: bytes | None = None,
    *headers: str,
    content_type: str | None = "application/json",
    version: str = "1.1",
    host: bytes = HOST,
) -> bytes:
    """Return the bytes of a request."""
    raw_target = target if isinstance(target, bytes) else target.encode()
    lines = [b"%b %b HTTP/%b\r\n" % (method.encode(), raw_target, version.encode()), host]
    lines += [header.encode("latin-1") + b"\r\n" for header in headers]
    if body is not None:
        if content_type is not None:
            lines.append(b"Content-Type: %b\r\n" % content_type.encode())
        if not any(
            header.lower().startswith(("content-length", "transfer-")) for header in headers
        ):
            lines.append(b"Content-Length: %d\r\n" % len(body))
    return b"".join(lines) + b"\r\n" + (body or b"")


def get(target: str, **parameters: Any) -> bytes:
    """Return a GET with query parameters; texts as they are, everything else as JSON."""
    pairs = "&".join(
        f"{name}={quote(value if isinstance(value, str) else json.dumps(value), safe='')}"
        for name, value in parameters.items()
    )
    return request("GET", f"{target}?{pairs}" if pairs else target)


def post(target: str, document: Any, *headers: str) -> bytes:
    """Return a POST of a JSON document (bytes are sent as they are)."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return request("POST", target, body, *headers)


def case(
    name: str,
    raw: bytes,
    statuses: frozenset[int] | int = BAD,
    code: str | None = None,
    *,
    half_closes: bool = False,
) -> Case:
    wanted = frozenset((statuses,)) if isinstance(statuses, int) else statuses
    return Case(name, raw, wanted, code, half_closes)


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


BROKEN_JSON = [
    b"{", b"}", b"[", b"nul", b"{'a':1}", b'{"a":1,}', b'{"a"}', b'{"a":}', b'{"a":1}}', b'{"a":1} x',
    b"\xef\xbb\xbf{}", b'{"query":"\xff"}', b'{"query":"\\ud800"}', b'{"query":"\\uZZZZ"}', b'"\x01"',
    b'{"query":NaN}', b'{"query":Infinity}', b'{"page":1e999}', b'{"page":01}', b'{"page":+1}',
    b'{"page":.5}', b'{"page":1.}', b"\x00", b"{}\x00", '{"query":"x"}'.encode("utf-16"),
    '{"query":"x"}'.encode("utf-32"), b'{"query":"a\nb"}', b'{"a":1 "b":2}', b"// {}", b"{} // x",
    b'{"query": undefined}', b"\x1f\x8b\x08", b"<xml/>", b"page=1&per_page=2", b'{"a":' * 2000,
]  # fmt: skip


def bodies() -> Iterator[Case]:
    """What is no JSON, no object, or not what the headers say."""
    for i, body in enumerate(BROKEN_JSON):
        yield case(f"search body {i}", post("/films/search", body), BAD)
        yield case(f"configuration body {i}", post("/other/configuration", body), BAD)
        yield case(f"items body {i}", post("/films/items", body), BAD)
        yield case(f"item body {i}", post("/films/items/1/update", body), BAD)
    document: Any
    for document in ("text", 1, 1.5, True, None, [], [{}], [1]):
        yield case(f"search {document!r}", post("/films/search", document), BAD, "invalid_body")
    yield case("no body", request("POST", "/films/search"), OK)
    yield case("empty body", post("/films/search", b""), OK)
    yield case("blank body", post("/films/search", b"  "), BAD)
    yield case("duplicate keys", post("/films/search", b'{"page":"x","page":1}'), OK)
    yield case("body and query", request("POST", "/films/search?page=x", b'{"page":1}'), OK)
    yield case("large body", post("/films/search", b" " * (3 << 20)), 413, "payload_too_large")
    yield case("body of GET is ignored", request("GET", "/films/search", b"{{{"), OK)


def content_types() -> Iterator[Case]:
    """Media types, charsets, encodings."""
    refused = (
        "text/plain", "text/html", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
        "application/xml", "", "json", "*/*", "application/json; charset=latin-1", "text/json",
        "application/json; charset=utf-16", "image/png", "application/jsonp",
    )  # fmt: skip
    for kind in refused:
        yield case(
            f"type {kind!r}",
            request("POST", "/films/search", b"{}", content_type=kind),
            415,
            "unsupported_media_type",
        )
    for kind in (
        "application/json; charset=utf-8", "APPLICATION/JSON", "application/json;charset=UTF-8",
        'application/json; charset="utf-8"', "application/vnd.api+json", " application/json ",
    ):  # fmt: skip
        yield case(f"type {kind!r}", request("POST", "/films/search", b"{}", content_type=kind), OK)
    yield case("no type", request("POST", "/films/search", b"{}", content_type=None), 415)
    yield case(
        "write as text", request("POST", "/films/items", b"[]", content_type="text/plain"), 415
    )
    body = b'{"query":"x"}'
    good = {
        "gzip": gzip.compress(body),
        "deflate": zlib.compress(body),
        "br": brotli.compress(body),
        "x-gzip": gzip.compress(body),
        "identity": body,
        "GZIP": gzip.compress(body),
    }
    for encoding, data in good.items():
        yield case(
            f"encoding {encoding}",
            request("POST", "/films/search", data, f"Content-Encoding: {encoding}"),
            OK,
        )
        if encoding != "identity":
            for name, wrong in (
                ("cut", data[:-5]),
                ("plain", body),
                ("noise", b"\x00\xff" * 50),
            ):
                yield case(
                    f"encoding {encoding} {name}",
                    request("POST", "/films/search", wrong, f"Content-Encoding: {encoding}"),
                    BAD,
                )
    raw_deflate = zlib.compress(body)[2:-4]
    yield case(
        "raw deflate",
        request("POST", "/films/search", raw_deflate, "Content-Encoding: deflate"),
        OK,
    )
    for encoding in ("zstd", "compress", "gzip, gzip", "gzip, br", "utf-8", "\xff"):
        yield case(
            f"encoding {encoding!r}",
            request("POST", "/films/search", body, f"Content-Encoding: {encoding}"),
            415,
        )
    zeros = b"\0" * (64 << 20)
    for encoding, bomb in (
        ("gzip", gzip.compress(zeros, 9)),
        ("br", brotli.compress(zeros, quality=5)),
    ):
        yield case(
            f"bomb {encoding}",
            request("POST", "/films/search", bomb, f"Content-Encoding: {encoding}"),
            413,
            "payload_too_large",
        )
    yield case(
        "two gzip members",
        request(
            "POST",
            "/films/search",
            gzip.compress(b"{") + gzip.compress(b"}"),
            "Content-Encoding: gzip",
        ),
        OK,
    )


def paths() -> Iterator[Case]:
    """Index names, item ids and other paths."""
    bad_names = [
        "_x", ".x", "..", ".", "%00", "%0a", "%7f", "%c2%85", "a%2fb", "x" * 65, "%2e%2e", "_", "status%00",
        "a%01", quote("é" * 65), "%2Fetc%2Fpasswd",
    ]  # fmt: skip
    for name in bad_names:
        for method, target, body in (
            ("GET", "/search", None),
            ("POST", "/configuration", b"{}"),
            ("DELETE", "", None),
        ):
            yield case(
                f"{method} index {name[:20]}",
                request(method, f"/{name}{target}", body),
                frozenset((400, 404, 405)),
            )
    for name in ("%ff", "%c3", "%ed%a0%80", "%f8%88%80%80%80", "a%80b"):
        yield case(f"no UTF-8 {name}", request("GET", f"/{name}/search"), BAD, "invalid_encoding")
        yield case(
            f"no UTF-8 id {name}", request("GET", f"/films/items/{name}"), BAD, "invalid_encoding"
        )
        yield case(
            f"no UTF-8 query {name}",
            request("GET", f"/films/search?query={name}"),
            BAD,
            "invalid_encoding",
        )
    yield case("raw bytes in path", request("GET", b"/\xff\xfe/search"), BAD)
    yield case("raw UTF-8 in path", request("GET", "/fìlms/search"), frozenset((400, 404)))
    for name in (
        "nope",
        "%E6%98%A0%E7%94%BB",
        "a%20b",
        "%F0%9F%8E%AC",
        "a%25b",
        "films%20",
        "FILMS",
        "a+b",
    ):
        yield case(
            f"unknown index {name}", request("GET", f"/{name}/search"), 404, "index_not_found"
        )
    for target in (
        "/films/nope", "/films/search/x", "/nope", "/_nope", "/_health/x", "//", "///", "/films//search",
        "/films/../films/search", "/./films/search", "/dashboard/assets/../app.py", "/films/items/1/x",
        "/dashboard/assets/%2e%2e%2fapp.py", "/dashboard/assets/..%2f..%2f..%2fetc%2fpasswd", "/;/", "/?",
        "/dashboard/assets//etc/passwd", "/%", "/%zz/search", "/films/search%00", "/films%2fsearch",
        "/_keys/x/y", "/favicon.ico", "/robots.txt", "/.git/config", "/_docs/../_keys", "/films/items/1/update/2",
    ):  # fmt: skip
        yield case(f"path {target}", request("GET", target), frozenset((302, 400, 404, 405)))
    for identifier in (
        "nope",
        "0",
        "9223372036854775808",
        "%00",
        "x" * 257,
        "..",
        "%F0%9F%8E%AC",
        "-1",
        "1.0",
        "%20",
    ):
        yield case(
            f"item {identifier[:20]}",
            request("GET", f"/films/items/{identifier}"),
            frozenset((400, 404)),
        )
        yield case(
            f"delete item {identifier[:20]}",
            request("DELETE", f"/films/items/{identifier}"),
            frozenset((400, 404)),
        )
        yield case(
            f"update item {identifier[:20]}",
            post(f"/films/items/{identifier}/update", {"a": 1}),
            frozenset((400, 404)),
        )
    yield case("item by number", request("GET", "/films/items/1"), OK)
    yield case("item with slash", request("GET", "/films/items/a%2fb"), 404, "item_not_found")
    yield case("absolute target", request("GET", "http://127.0.0.1/films/search"), OK)
    yield case("strange scheme", request("GET", "ftp://127.0.0.1/films/search"), BAD)
    yield case("fragment", request("GET", "/films/search?query=a#b"), OK_OR_BAD)
    yield case(
        "long target", request("GET", "/films/search?query=" + "a" * 40_000), 414, "uri_too_long"
    )
    yield case("long path", request("GET", "/" + "a" * 40_000), 414, "uri_too_long")
    yield case(
        "many parameters",
        request("GET", "/films/search?" + "&".join(f"a{i}=1" for i in range(3000))),
        BAD,
    )
    yield case("only separators", request("GET", "/films/search?&&&&=&&?"), OK_OR_BAD)


def methods() -> Iterator[Case]:
    """Methods that a page does not have."""
    for method in ("PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "LOCK", "SEARCH"):
        yield case(f"{method} search", request(method, "/films/search"), 405, "method_not_allowed")
    yield case("POST status", post("/status", {}), 405, "method_not_allowed")
    yield case("POST dashboard", post("/dashboard", {}), 405, "method_not_allowed")
    yield case("GET index", request("GET", "/films/index"), 405, "method_not_allowed")
    yield case("GET reset", request("GET", "/films/reset"), 405, "method_not_allowed")
    yield case("GET update", request("GET", "/films/items/1/update"), 405, "method_not_allowed")
    yield case("PUT item", request("PUT", "/films/items/1", b"[]"), BAD, "invalid_item")
    yield case("PATCH item", request("PATCH", "/films/items/1", b"{"), BAD, "invalid_json")
    yield case("PUT items", request("PUT", "/films/items", b"[]"), 405, "method_not_allowed")
    yield case("POST cluster", post("/_cluster", {}), 405, "method_not_allowed")
    yield case("compare alone", post("/_cluster/compare", {}), 409, "not_with_one_host")
    yield case("move alone", post("/_cluster/shards", {"shard": 0}), 409, "not_with_one_host")
    yield case("move nothing", post("/_cluster/shards", {}), BAD, "invalid_placement")
    yield case(
        "move to no host", post("/_cluster/shards", {"shard": 0, "to": 1}), BAD, "invalid_placement"
    )
    yield case("move with more", post("/_cluster/shards", {"shards": 0}), BAD, "unknown_parameter")
    yield case("forget alone", request("DELETE", "/_cluster/hosts/%00"), 409, "not_with_one_host")
    yield case("POST index root", post("/films", {}), 405, "method_not_allowed")
    yield case(
        "PATCH configuration no object",
        request("PATCH", "/films/configuration", b"[]"),
        BAD,
        "invalid_body",
    )
    yield case(
        "preview maybe",
        request("PATCH", "/films/configuration?preview=maybe", b"{}"),
        BAD,
        "invalid_preview",
    )
    yield case("OPTIONS", request("OPTIONS", "/films/search"), 204)
    yield case("OPTIONS *", request("OPTIONS", "*"), frozenset((204, 400)))
    yield case("HEAD", request("HEAD", "/films/search"), OK)
    yield case("CONNECT", request("CONNECT", "127.0.0.1:80"), frozenset((400, 404, 405)))
    yield case("lower case", request("get", "/films/search"), frozenset((400, 405)))
    yield case("strange method", request("G\x00T", "/films/search"), BAD)
    yield case(
        "long method", request("A" * 10_000, "/films/search"), frozenset((400, 405, 414, 431))
    )


def protocol() -> Iterator[Case]:
    """What is no HTTP, or only just."""
    lines = HOST + b"\r\n"
    for name, raw in {
        "garbage": b"GARBAGE\r\n\r\n",
        "no version": b"GET /\r\n" + lines,
        "version 9": b"GET / HTTP/9.9\r\n" + lines,
        "version text": b"GET / HTTP/x\r\n" + lines,
        "http2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "tls hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40 + b"\r\n\r\n",
        "null bytes": b"\x00" * 64 + b"\r\n\r\n",
        "space in target": b"GET /films/search?a b HTTP/1.1\r\n" + lines,
        "no host": b"GET /films/search HTTP/1.1\r\n\r\n",
        "bad header": b"GET / HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n",
        "space before colon": b"GET / HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
        "folded header": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\r\n b\r\n\r\n",
        "null in header": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\x00b\r\n\r\n",
        "bare LF": b"GET / HTTP/1.1\nHost: 127.0.0.1\n\n",
        "bare CR": b"GET / HTTP/1.1\rHost: 127.0.0.1\r\r",
        "negative length": request("POST", "/films/search", b"{}", "Content-Length: -1"),
        "text length": request("POST", "/films/search", b"{}", "Content-Length: two"),
        "plus length": request("POST", "/films/search", b"{}", "Content-Length: +2"),
        "two lengths": request(
            "POST", "/films/search", b"{}", "Content-Length: 2", "Content-Length: 3"
        ),
        "length and chunked": request(
            "POST", "/films/search", b"0\r\n\r\n", "Content-Length: 5", "Transfer-Encoding: chunked"
        ),
        "unknown transfer": request("POST", "/films/search", b"{}", "Transfer-Encoding: foo"),
        "chunked twice": request(
            "POST", "/films/search", b"0\r\n\r\n", "Transfer-Encoding: chunked, chunked"
        ),
        "bad chunk size": request(
            "POST", "/films/search", b"xyz\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"
        ),
        "negative chunk": request(
            "POST", "/films/search", b"-2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"
        ),
        "huge chunk size": request(
            "POST",
            "/films/search",
            b"F" * 30 + b"\r\n{}\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked",
        ),
        "chunk too long": request(
            "POST", "/films/search", b"1\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"
        ),
    }.items():
        yield case(f"protocol {name}", raw, frozenset((200, 302, 400)))
    chunks = b"1\r\n{\r\n1;ext=1\r\n}\r\n0\r\nX: trailer\r\n\r\n"
    yield case(
        "chunked", request("POST", "/films/search", chunks, "Transfer-Encoding: chunked"), OK
    )
    yield case(
        "large length",
        request("POST", "/films/search", b"{}", "Content-Length: 10000000000000"),
        413,
    )
    yield case(
        "absurd length",
        request("POST", "/films/search", b"{}", f"Content-Length: {'9' * 40}"),
        frozenset((400, 413)),
    )
    yield case(
        "cut body",
        request("POST", "/films/search", b"{", "Content-Length: 20"),
        BAD,
        "invalid_body",
        half_closes=True,
    )
    yield case(
        "cut chunk",
        request("POST", "/films/search", b"20\r\n{", "Transfer-Encoding: chunked"),
        BAD,
        half_closes=True,
    )
    yield case(
        "large header",
        request("GET", "/films/search", None, "X-A: " + "a" * 10_000),
        431,
        "headers_too_large",
    )
    yield case(
        "many headers",
        request("GET", "/films/search", None, *(f"X-{i}: 1" for i in range(500))),
        frozenset((400, 431)),
    )
    yield case("long header name", request("GET", "/films/search", None, "X" * 10_000 + ": 1"), 431)
    yield case("expect", request("POST", "/films/search", b"{}", "Expect: 100-continue"), OK)
    yield case(
        "expect more",
        request("POST", "/films/search", b"{}", "Expect: 200-ok"),
        417,
        "expectation_failed",
    )
    yield case("old version", request("GET", "/films/search", version="1.0"), OK)
    yield case("old without host", b"GET /films/search HTTP/1.0\r\n\r\n", OK)
    yield case(
        "websocket",
        request(
            "GET",
            "/films/search",
            None,
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Key: x",
            "Sec-WebSocket-Version: 13",
        ),
        OK,
    )
    yield case(
        "upgrade h2c",
        request(
            "GET",
            "/films/search",
            None,
            "Connection: Upgrade, HTTP2-Settings",
            "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABkAAQAAP__",
        ),
        OK,
    )
    yield case("range header", request("GET", "/films/search", None, "Range: bytes=0-1"), OK)
    yield case(
        "request id with line", request("GET", "/films/search", None, "X-Request-Id: a\tb"), OK
    )


def headers() -> Iterator[Case]:
    """Host, origin, keys, preconditions."""
    for host in (
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "[::1",
        "a b",
        "",
        "@127.0.0.1",
        "127.0.0.1@evil",
    ):
        yield case(
            f"host {host!r}",
            request("GET", "/films/search", host=f"Host: {host}\r\n".encode()),
            frozenset((400, 403)),
        )
    for host in (
        "localhost",
        "localhost:3000",
        "127.0.0.1:99",
        "[::1]:80",
        "LOCALHOST",
        "sub.localhost",
    ):
        yield case(
            f"host {host!r}", request("GET", "/films/search", host=f"Host: {host}\r\n".encode()), OK
        )
    for origin in (
        "https://evil.example",
        "null",
        "http://127.0.0.1.evil.example",
        "file://",
        "http://127.0.0.1:1",
    ):
        yield case(
            f"write from {origin}",
            post("/films/items", [], f"Origin: {origin}"),
            403,
            "origin_not_allowed",
        )
        yield case(
            f"read from {origin}", request("GET", "/films/search", None, f"Origin: {origin}"), OK
        )
    yield case("write from here", post("/films/items", [], "Origin: http://127.0.0.1"), OK)
    for site, status in (
        ("cross-site", 403),
        ("same-site", 403),
        ("same-origin", 200),
        ("none", 200),
    ):
        yield case(f"site {site}", post("/films/items", [], f"Sec-Fetch-Site: {site}"), status)
    yield case(
        "text from a page",
        request(
            "POST", "/films/index", b"", "Origin: https://evil.example", content_type="text/plain"
        ),
        403,
    )
    yield case(
        "form from a page",
        request("POST", "/films/reset", b"", "Origin: https://evil.example"),
        403,
    )
    for tag in (
        "x",
        '"x"',
        'W/"0123456789abcdef"',
        '"0123456789abcdeg"',
        '"' + "0" * 16 + '", "x"',
    ):
        yield case(
            f"If-Match {tag}", post("/films/items/1/update", {"a": 1}, f"If-Match: {tag}"), BAD
        )
    yield case(
        "stale If-Match",
        request("GET", "/films/items/1", None, 'If-None-Match: "0000000000000000"'),
        OK,
    )
    yield case(
        "authorization without keys",
        request("GET", "/films/search", None, "Authorization: Bearer x"),
        OK,
    )


WRONG_ITEMS: list[bytes] = [
    b"[1]", b'["a"]', b"[null]", b"[[]]", b"[[{}]]", b'[{"id":-1}]', b'[{"id":1.5}]', b'[{"id":true}]',
    b'[{"id":null}]', b'[{"id":[]}]', b'[{"id":{}}]', b'[{"id":""}]', b'[{"id":9223372036854775808}]',
    b'[{"id":1e3}]', b'[{"id":"' + b"x" * 257 + b'"}]', b'[{"a":1e999}]', b'[{"a":-1e999}]',
    b'[{"a":99999999999999999999}]', b'[{"a":-9999999999999999999}]', b'[{"a":"\\ud800"}]',
    b'[{"a":"\\udc00\\ud800"}]', b'[{"\\ud800":1}]', b'[{"a":"\xff"}]', b'[{"a":"\x1f"}]',
    b'[{"' + b"k" * 257 + b'":1}]', b'[{"a":' + b"[" * 64 + b"]" * 64 + b"}]",
    b'[{"a":' + b'{"a":' * 70 + b"1" + b"}" * 70 + b"}]", b'[{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}]",
    b"[{" + b",".join(b'"f%d":1' % i for i in range(513)) + b"}]", b'[{"id":1},{"id":2},3]',
    b'[{"id":1},{"id":2}', b'[{"id":1},]', b'[,{"id":1}]', b'[{"id":1}{"id":2}]', b'[{"id":1}] x', b'[{"id":1}][]',
    b'[{"id":1,}]', b'[{"a":01}]', b'[{"a":+1}]', b'[{"a":.5}]', b'[{"a":5.}]', b'[{"a":0x1}]', b'[{"a":NaN}]',
    b'[{"a":-}]', b'[{"a":truth}]', b'[{"a":"\\x"}]', b'[{"a":"\\u12"}]', b"[{'a':1}]", b"[{a:1}]",
    b'{"id":1}\n{"id":2}', b'{"id":-1}', b'{"id":1,}', b"1", b'"x"', b"null",
]  # fmt: skip
RIGHT_ITEMS: list[bytes] = [
    b"[]", b" [ ] ", b"[{}]", b'[{"id":7}]', b'[{"id":"7"}]', b'[{"id":0}]', b'[{"id":9223372036854775807}]',
    b'[{"id":"' + b"x" * 256 + b'"}]', '[{"id":"é中🎬"}]'.encode(), b'[{"id":8,"a":"\\ud83c\\udfac"}]',
    b'[{"id":8,"a":18446744073709551615,"b":-9223372036854775808,"c":1e308,"d":-0.0}]',
    b'[{"id":8,"a":' + b"[" * 60 + b"]" * 60 + b"}]", b'[{"id":8,"__proto__":{"x":1}}]', b'[{"id":8,"":1}]',
    b'[{"id":8,"a":"\\u0000"}]', b'[{"id":8,"a":1,"a":"x"}]', b'[{"id":8},{"id":8}]', b"[" + b"{}," * 99 + b"{}]",
]  # fmt: skip


_GREATEST = 1.7976931348623157e308
POISON: list[dict[str, Any]] = [
    {"year": [_GREATEST, -_GREATEST], "tags": _GREATEST}, {"year": [5e-324, -0.0, 2**64 - 1, -(2**63)]},
    {"year": ["1e999", "-1e308", "NaN", "Infinity", "0x1", "1_0", "١"]}, {"year": [[], [[1]], {}, None, True]},
    {"year": {"gte": 1}, "tags": {"tags": "tags"}}, {"tags": ["\x00", "\u202e", "é", "e\u0301", "ﬁ", "\ufffd", " "]},
    {"tags": ["x" * 10_000, ""], "year": "9" * 400}, {"tags": [f"t{i}" for i in range(1000)]},
]  # fmt: skip


def items() -> Iterator[Case]:
    """Items that cannot be stored, and strange ones that can."""
    for i, body in enumerate(WRONG_ITEMS):
        yield case(f"wrong items {i}", post("/films/items", body), BAD)
        yield case(
            f"wrong bulk {i}",
            request("POST", "/films/index", body, content_type="text/plain"),
            OK_OR_BAD if not body.startswith(b"[") else BAD,
        )
        yield case(
            f"wrong bulk skipped {i}",
            request("POST", "/films/index?on_error=skip", body, content_type="text/plain"),
            OK_OR_BAD,
        )
        inner = body.removeprefix(b"[").removesuffix(b"]")
        yield case(f"wrong item {i}", post("/films/items/1/update", inner), OK_OR_BAD)
        yield case(f"wrong part {i}", post("/films/items/1/partial", inner), OK_OR_BAD)
    for i, body in enumerate(RIGHT_ITEMS):
        yield case(f"right items {i}", post("/films/items", body), OK)
        yield case(
            f"right bulk {i}", request("POST", "/films/index", body, content_type="text/plain"), OK
        )
    # One item must not break the index: everything that looks at its values is asked next.
    for i, values in enumerate(POISON):
        poison = [{"id": key, "name": "star", **values} for key in (9, 10)]
        yield case(f"poison {i}", post("/films/items", poison), OK)
        for field in ("year", "tags"):
            yield case(
                f"facets of poison {i} in {field}",
                post(
                    "/films/search",
                    {
                        "query": "star",
                        "facets": {field: {"stats": True, "sort": ["count", "term"]}},
                        "facet_ranges": {field: {"interval": 10}},
                        "sort": [f"{field}:desc"],
                        "distinct": {"field": field, "limit": 2},
                        "show": ["score_details"],
                    },
                ),
                OK,
            )
            yield case(f"values of poison {i}", get("/films/facet", name=field), OK)
    yield case("other id", post("/films/items/1/update", {"id": 2}), BAD, "id_mismatch")
    yield case("same id as text", post("/films/items/1/update", {"id": "1", "a": 2}), OK)
    yield case("other id in part", post("/films/items/1/partial", {"id": 2}), BAD, "id_mismatch")
    yield case("array as item", post("/films/items/1/update", b"[{}]"), BAD)
    yield case("10001 items", post("/films/items", b"[" + b"{}," * 10_000 + b"{}]"), 413)
    yield case("delete ids", post("/films/items/delete", {"ids": ["nope"]}), OK)
    document: Any
    fields: Any
    for document in (
        {}, {"ids": "x"}, {"ids": [None]}, {"ids": [[]]}, {"ids": [1.5]}, {"ids": [-1]}, {"ids": [True]},
        {"ids": [1], "filter": "a = 1"}, {"filter": "a ="}, {"filters": 1}, {"page": 1}, {"nope": 1}, [],
        {"ids": ["x"] * 10_001},
    ):  # fmt: skip
        yield case(f"delete by {document!r:.40}", post("/films/items/delete", document), BAD)
        yield case(
            f"update by {document!r:.40}",
            post(
                "/films/items/update",
                {**document, "fields": {"a": 1}} if isinstance(document, dict) else document,
            ),
            BAD,
        )
    for fields in (None, {}, [], 1, {"id": 3}, {"k" * 300: 1}):
        yield case(
            f"update fields {fields!r:.30}",
            post("/films/items/update", {"ids": [1], "fields": fields}),
            BAD,
        )


def bulk() -> Iterator[Case]:
    """Bulk bodies."""

    def load(body: bytes, *extra: str, query: str = "", kind: str | None = "text/plain") -> bytes:
        return request("POST", f"/films/index{query}", body, *extra, content_type=kind)

    for kind in (
        "text/plain",
        "application/json",
        "application/x-ndjson",
        "text/plain; charset=utf-8",
        None,
    ):
        yield case(f"bulk as {kind}", load(b'{"id":11}\n{"id":12}\n', kind=kind), OK)
    for kind in (
        "text/html",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "text/csv",
        "text/plain; charset=latin-1",
    ):
        yield case(f"bulk as {kind}", load(b'{"id":11}', kind=kind), 415)
    yield case("bulk empty", load(b""), OK_OR_BAD)
    yield case("bulk blank", load(b" \n\n \r\n"), OK_OR_BAD)
    yield case("bulk blank lines", load(b'\n{"id":1}\r\n\n\n{"id":2}'), OK)
    yield case("bulk bad line", load(b'{"id":1}\nnope\n{"id":2}\n'), BAD)
    yield case(
        "bulk bad line skipped", load(b'{"id":1}\nnope\n{"id":2}\n', query="?on_error=skip"), OK
    )
    yield case("bulk pretty", load(b'{\n"id":1\n}\n'), BAD)
    yield case("bulk BOM", load(b'\xef\xbb\xbf{"id":1}\n'), OK_OR_BAD)
    yield case("bulk UTF-16", load('{"id":1}\n'.encode("utf-16")), BAD)
    yield case("bulk csv", load(b"id,name\n1,a\n"), BAD)
    yield case("bulk url", load(b"http://127.0.0.1:1/data.json"), BAD)
    yield case("bulk path", load(b"/etc/passwd"), BAD)
    yield case("bulk on_error", load(b"{}", query="?on_error=maybe"), BAD, "invalid_on_error")
    yield case("bulk on_error twice", load(b"{}", query="?on_error=skip&on_error=fail"), BAD)
    yield case("bulk unknown", load(b"{}", query="?url=x"), BAD, "unknown_parameter")
    yield case("bulk cut", load(b'{"id":31}\n', "Content-Length: 500"), BAD, half_closes=True)
    yield case("bulk gzip", load(gzip.compress(b'{"id":13}\n'), "Content-Encoding: gzip"), OK)
    yield case(
        "bulk gzip cut",
        load(gzip.compress(b'{"id":32}\n' * 500)[:-9], "Content-Encoding: gzip"),
        BAD,
    )
    yield case("bulk gzip noise", load(b"\x1f\x8b" + b"\x00" * 30, "Content-Encoding: gzip"), BAD)
    yield case("bulk br", load(brotli.compress(b'{"id":13}\n'), "Content-Encoding: br"), OK)
    yield case("bulk long line", load(b'{"id":14,"a":"' + b"x" * (1 << 20) + b'"}\n'), OK)
    yield case(
        "bulk no index",
        request("POST", "/nope/index", b"{}", content_type="text/plain"),
        404,
        "index_not_found",
    )


def configurations() -> Iterator[Case]:
    """Configurations that cannot be, and some that can."""
    wrong: list[Any] = [
        [], "x", 1, None, {"aggregations": []}, {"aggregations": "tags"}, {"aggregations": {"a": 1}},
        {"aggregations": {"a": {"size": "10"}}}, {"aggregations": {"a": {"size": 0}}},
        {"aggregations": {"a": {"size": 1e9}}}, {"aggregations": {"a": {"conjunction": 1}}},
        {"aggregations": {"a": {"sort": 1}}}, {"aggregations": {"a": {"sort": []}}},
        {"aggregations": {"a": {"sort": ["count"] * 9}}}, {"aggregations": {"a": {"order": "x"}}},
        {"aggregations": {"": {}}}, {"aggregations": {"x" * 300: {}}},
        {"aggregations": {f"f{i}": {} for i in range(65)}}, {"searchable_fields": 1},
        {"searchable_fields": [1]}, {"searchable_fields": ["a^-1"]}, {"searchable_fields": ["a^1e400"]},
        {"searchable_fields": [""]}, {"sorting_fields": "a"}, {"language": "xx"}, {"language": 1},
        {"language": []}, {"stop_words": 1}, {"stop_words": [1]}, {"stop_words": ["x"] * 10_001},
        {"synonyms": 1}, {"synonyms": [1]}, {"synonyms": {"a": 1}}, {"synonyms": {"a": [None]}},
        {"match": 1}, {"match": "0%"}, {"prefix": "first"}, {"typo": -1}, {"typo": True},
        {"ranking": []}, {"ranking": {"k1": -1}}, {"ranking": {"b": 2}}, {"ranking": {"k1": "1"}},
        {"field_languages": {"a": "xx"}}, {"field_languages": []},
        {"infix": 1}, {"infix": [1]}, {"field_typo_lengths": {"a": [2, 9]}},
        {"field_typo_lengths": 1}, {"collation": "xx"},
        {"collation": 1}, {"collation": "de+x"}, {"field_collations": {"a": 1}},
    ]  # fmt: skip
    for i, document in enumerate(wrong):
        yield case(
            f"configuration {i}",
            post("/other/configuration", document),
            BAD,
            "invalid_configuration",
        )
        yield case(
            f"live configuration {i}",
            post("/films/configuration", document),
            BAD,
            "invalid_configuration",
        )
    yield case("nothing was made", request("GET", "/other/search"), 404, "index_not_found")
    yield case("empty configuration", post("/empty/configuration", {}), OK)
    yield case(
        "unknown keys",
        post("/strange/configuration", {"x": 1, "aggregations": {"a": {"y": [1]}}}),
        OK,
    )
    yield case("unicode name", post("/%F0%9F%8E%AC/configuration", {}), OK)
    yield case("64 characters", post("/" + quote("é" * 64) + "/configuration", {}), OK)
    yield case("GET effective", get("/films/configuration", effective="true"), OK)
    yield case("GET effective wrong", get("/films/configuration", effective="maybe"), BAD)
    yield case(
        "large configuration",
        post("/large/configuration", b'{"x":"' + b"x" * (5 << 20) + b'"}'),
        413,
    )
    yield case(
        "configuration as text",
        request("POST", "/x/configuration", b"{}", content_type="text/plain"),
        415,
    )
    yield case("delete unknown", request("DELETE", "/nope"), 404, "index_not_found")
    yield case("reset unknown", request("POST", "/nope/reset"), 404, "index_not_found")


def operations() -> Iterator[Case]:
    """Many searches at once, aliases, keys."""
    document: Any
    target: Any
    for document in (
        {}, [], {"searches": 1}, {"searches": []}, {"searches": [1]}, {"searches": [{}]},
        {"searches": [{"index": 1}]}, {"searches": [{"index": "films", "page": 0}]},
        {"searches": [{"index": "films"}], "merge": 1}, {"searches": [{"index": "films"}], "merge": [1]},
        {"searches": [{"index": "films"}], "merge": {"page": 0}},
        {"searches": [{"index": "films", "weight": "2"}], "merge": True},
        {"searches": [{"index": "films"}] * 65}, {"searches": [{"index": "films", "nope": 1}]},
        {"searches": [], "x": 1}, {"queries": []},
    ):  # fmt: skip
        yield case(f"searches {document!r:.50}", post("/_search", document), BAD)
    yield case("searches unknown index", post("/_search", {"searches": [{"index": "nope"}]}), 404)
    yield case("searches", post("/_search", {"searches": [{"index": "films"}] * 3}), OK)
    for document in (
        {}, {"aliases": 1}, {"aliases": {}}, {"aliases": {"_x": "films"}}, {"aliases": {"films": "films"}},
        {"aliases": {"": "films"}}, {"aliases": {"a/b": "films"}}, {"actions": []},
    ):  # fmt: skip
        yield case(f"aliases {document!r}", post("/_aliases", document), BAD)
    for target in ("nope", 1, [], {}):
        yield case(f"alias of {target!r}", post("/_aliases", {"aliases": {"a": target}}), 404)
    yield case("remove unknown alias", post("/_aliases", {"aliases": {"a": None}}), 404)
    for document in (
        {}, [], {"actions": []}, {"actions": "admin"}, {"actions": ["fly"]}, {"actions": ["search"]},
        {"actions": [1]}, {"actions": ["admin"], "indexes": []}, {"actions": ["admin"], "indexes": [1]},
        {"actions": ["admin"], "expires_at": "soon"}, {"actions": ["admin"], "expires_at": 5},
        {"actions": ["admin"], "expires_in_seconds": 0}, {"actions": ["admin"], "expires_in_seconds": "1"},
        {"actions": ["admin"], "filter": "a ="}, {"actions": ["admin"], "filter": 1},
        {"actions": ["admin"], "description": 1}, {"actions": ["admin"], "secret": "x"},
    ):  # fmt: skip
        yield case(f"key {document!r:.60}", post("/_keys", document), BAD)
    yield case("delete unknown key", request("DELETE", "/_keys/nope"), 404)


def algolia() -> Iterator[Case]:
    """Rules, synonyms and operations of Algolia's protocol."""
    root = "/1/indexes/films"
    document: Any
    for document in (
        {}, [], "x", 1, None, {"consequence": []}, {"consequence": {"promote": 1}},
        {"consequence": {"promote": [1]}}, {"consequence": {"hide": {}}},
        {"consequence": {"hide": [{"objectID": 1}]}}, {"consequence": {"params": {"filters": 1}}},
        {"consequence": {"promote": [{"objectIDs": 1, "position": 1}]}},
        {"consequence": {"promote": [{"objectID": "1", "position": -1}]}},
        {"consequence": {"promote": [{"objectID": "1", "position": 0}] * 2}},
        {"consequence": {"params": {"facetFilters": {}}}}, {"objectID": "other"}, {"objectID": 7},
        {"consequence": {"hide": [{"objectID": "x" * 300}]}},
    ):  # fmt: skip
        body = json.dumps(document).encode()
        yield case(f"rule {body[:60]!r}", request("PUT", f"{root}/rules/r", body), BAD)
        yield case(f"rules {body[:60]!r}", post(f"{root}/rules/batch", {"rules": document}), BAD)
    for document in (
        {}, [], "x", {"type": 1}, {"type": "synonym"}, {"type": "synonym", "synonyms": ["a"]},
        {"type": "synonym", "synonyms": ["a", 1]}, {"type": "synonym", "synonyms": {"a": "b"}},
        {"type": "onewaysynonym", "input": 1, "synonyms": ["a"]}, {"type": "altCorrection1"},
        {"type": "synonym", "synonyms": ["a"] * 200},
    ):  # fmt: skip
        body = json.dumps(document).encode()
        yield case(f"synonym {body[:60]!r}", request("PUT", f"{root}/synonyms/s", body), BAD)
        yield case(f"synonyms {body[:60]!r}", post(f"{root}/synonyms/batch", [document]), BAD)
    for document in (
        {}, [], {"operation": "copy"}, {"operation": 1, "destination": "b"},
        {"operation": "copy", "destination": 1}, {"operation": "copy", "destination": ""},
        {"operation": "copy", "destination": "a/b"}, {"operation": "move", "destination": "films"},
        {"operation": "copy", "destination": "b", "scope": "rules"},
        {"operation": "copy", "destination": "b", "scope": [1]},
        {"operation": "move", "destination": "b", "scope": ["rules"]},
    ):  # fmt: skip
        yield case(f"operation {document!r:.60}", post(f"{root}/operation", document), BAD)
    for document in ({"page": -1}, {"hitsPerPage": "x"}, {"query": 1}, {"nope": 1}):
        yield case(f"rules like {document!r}", post(f"{root}/rules/search", document), BAD)
        yield case(f"synonyms like {document!r}", post(f"{root}/synonyms/search", document), BAD)
    yield case("no rule", request("GET", f"{root}/rules/none"), 404, "item_not_found")
    yield case("rules", post(f"{root}/rules/search", {}), OK)
    yield case("rules of nothing", post("/1/indexes/nope/rules/search", {}), 404)
    yield case("option", request("POST", f"{root}/rules/clear?nope=1"), BAD)
    yield case("option value", request("POST", f"{root}/rules/clear?forwardToReplicas=1"), BAD)
    yield case("key changed", request("PUT", "/1/keys/k", b"{}"), 405, "method_not_allowed")
    yield case("logs", request("GET", "/1/logs"), 404, "not_found")


GROUPS = {
    group.__name__: list(group())
    for group in (
        numbers,
        filters,
        expressions,
        parameters,
        bodies,
        content_types,
        paths,
        methods,
        protocol,
        headers,
        items,
        bulk,
        configurations,
        operations,
        algolia,
    )
}
