"""Algolia's protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.http.hostile.case import BAD, OK, Case, case
from tests.http.raw_requests import post, request


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
    yield case("option value", request("POST", f"{root}/rules/clear?forwardToReplicas=2"), BAD)
    yield case("key changed", request("PUT", "/1/keys/k", b"{}"), 405, "method_not_allowed")
    yield case("logs", request("GET", "/1/logs"), 404, "not_found")
