"""Requests about the service."""

# ruff: noqa: E501 - tables of values read better in few long lines

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.http.hostile.case import BAD, OK, Case, case
from tests.http.raw_requests import post, request


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
