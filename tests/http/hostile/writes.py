"""Items, streams of items, configurations."""

# ruff: noqa: E501 - tables of values read better in few long lines

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import brotli

from tests.http.hostile.case import BAD, OK, OK_OR_BAD, Case, case
from tests.http.raw_requests import get, post, request

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
        {"filters": {}}, {"filters": {"year": []}}, {"not_filters": {"year": {"any": []}}}, {"query": " !"},
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
        [], "x", 1, None, {"aggregations": [1]}, {"aggregations": "tags"}, {"aggregations": {"a": 1}},
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
        {"ranking": [1]}, {"ranking": {"k1": -1}}, {"ranking": {"b": 2}}, {"ranking": {"k1": "1"}},
        {"field_languages": {"a": "xx"}}, {"field_languages": [1]},
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
