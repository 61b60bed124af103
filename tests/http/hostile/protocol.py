"""Paths, methods, headers, and what is not HTTP."""

# ruff: noqa: E501 - tables of values read better in few long lines

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from tests.http.hostile.case import BAD, OK, OK_OR_BAD, Case, case
from tests.http.raw_requests import HOST, post, request


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
        "/_keys/x/y", "/robots.txt", "/.git/config", "/_docs/../_keys", "/films/items/1/update/2",
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
    for body in (b"", b"{", b"[{}]", b'[{"id":[]}]', b"null", b'[{"id":1},{"id":1},7]'):
        yield case(f"PATCH items {body!r}", request("PATCH", "/films/items", body), BAD)
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
    """What is not HTTP, or only just."""
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
        '"00 00 00 00 0000"',
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
