"""Bodies and what the headers say of them."""

# ruff: noqa: E501 - tables of values read better in few long lines

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from typing import Any

import brotli

from coordinator.http.api_description.route import Body
from coordinator.routes import ROUTES
from tests.http.hostile.case import BAD, OK, Case, case
from tests.http.raw_requests import post, request

BROKEN_JSON = [
    b"{", b"}", b"[", b"nul", b"{'a':1}", b'{"a":1,}', b'{"a"}', b'{"a":}', b'{"a":1}}', b'{"a":1} x',
    b"\xef\xbb\xbf" * 2, b'{}\xef\xbb\xbf', b"\xef\xbb", b'{"query":"\xff"}', b'{"query":"\\ud800"}', b'{"query":"\\uZZZZ"}', b'"\x01"',
    b'{"query":NaN}', b'{"query":Infinity}', b'{"page":1e999}', b'{"page":01}', b'{"page":+1}',
    b'{"page":.5}', b'{"page":1.}', b"\x00", b"{}\x00", '{"query":"x"}'.encode("utf-16"),
    '{"query":"x"}'.encode("utf-32"), b'{"query":"a\nb"}', b'{"a":1 "b":2}', b"// {}", b"{} // x",
    b'{"query": undefined}', b"\x1f\x8b\x08", b"<xml/>", b"page=1&per_page=2", b'{"a":' * 2000,
]  # fmt: skip


def bodies() -> Iterator[Case]:
    """What is not JSON, no object, or not what the headers say."""
    for i, body in enumerate(BROKEN_JSON):
        yield case(f"search body {i}", post("/films/search", body), BAD)
        yield case(f"configuration body {i}", post("/other/configuration", body), BAD)
        yield case(f"items body {i}", post("/films/items", body), BAD)
        yield case(f"item body {i}", post("/films/items/1/update", body), BAD)
    for route in ROUTES:
        if route.body in (Body.JSON, Body.LOOSE_JSON):
            path = re.sub(r"\{index(Name)?\}", "films", route.path)
            path = re.sub(r"\{[^}]*\}", "x", path)
            deep = request(route.method, path, b'{"a":' + b"[" * 90_000 + b"]" * 90_000 + b"}")
            yield case(f"deep body of {route.name}", deep, BAD, "too_deep")
    document: Any
    for document in ("text", 1, 1.5, True, None, [], [{}], [1]):
        yield case(f"search {document!r}", post("/films/search", document), BAD, "invalid_body")
    yield case("no body", request("POST", "/films/search"), OK)
    yield case("empty body", post("/films/search", b""), OK)
    yield case("a byte order mark only", post("/films/search", b"\xef\xbb\xbf"), OK)
    yield case("blank body", post("/films/search", b"  "), BAD)
    yield case("duplicate keys", post("/films/search", b'{"page":"x","page":1}'), OK)
    yield case("body and query", request("POST", "/films/search?page=x", b'{"page":1}'), OK)
    yield case("large body", post("/films/search", b" " * (3 << 20)), 413, "payload_too_large")
    yield case("body of GET", request("GET", "/films/search", b"{{{"), 400, "invalid_body")


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
        ("gzip", gzip.compress(zeros, 1)),
        ("br", brotli.compress(zeros, quality=1)),
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
