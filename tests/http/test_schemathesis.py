"""Schemathesis reads the service's own description, and sends valid and invalid requests.

It is a program of its own with many dependencies that would decide about ours, so `.ci/run`
gives it an environment of its own. Where the command is not on the PATH, these tests skip.

Every route is asked, with a key that may do everything. What the description allows must be
accepted, except by pages whose parameters have a meaning beyond their form (a filter's grammar, the
names of an index's facets); what it forbids must be refused by all.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.service import Client, Service

CONFIGURATION: dict[str, Any] = {
    "aggregations": {
        "genres": {"conjunction": False},
        "country": {},
        "place": {},
        "year": {"size": 5},
    },
    "hierarchies": {"place": {"path": "place", "separator": " > "}},
}
ITEMS = [
    {
        "id": number,
        "name": f"The {number}th Godfather",
        "description": "A family at war",
        "storyline": "The son takes over from his father.",
        "genres": ["Drama", "Horror"][: number % 3],
        "country": "Italy",
        "director": f"director {number % 2}",
        "place": "Europe > Italy > Rome",
        "year": 1990 + number,
        "votes": 10 * number,
        "rating": number / 2,
        "price": 5 * number,
        "brand": "acme",
        "_geo": {"lat": 48.2, "lng": 16.4},
    }
    for number in range(9)
]
"""With the fields that the description's examples name: where an index lacks one, a request is
refused whatever else is wrong in it."""
EXCLUDING = ("cursor", "order", "similar_to", "sort_field")
"""Parameters of a search that exclude others: a request with examples of all of them is refused,
too, so it shows nothing of what is wrong in another one."""

COMMAND = shutil.which(
    "schemathesis", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
)
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "positive_data_acceptance",
    "missing_required_header",
    "unsupported_method",
    "ignored_auth",
)
SETTINGS = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 504]

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 409, 413, 414, 415, 429]

[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 413, 414, 429, 504]
"""
"""504: a request may ask for an answer within a millisecond."""
WITH_MEANING = (
    "/_cluster/shards",
    "/_analytics/clicks",
    "/_search",
    "/_keys",
    "/_snapshots",
    "/_snapshots/{name}/restore",
    "/_aliases",
    "/{index}/search",
    "/{index}/facet",
    "/{index}/suggest",
    "/{index}/explain",
    "/{index}/configuration",
    "/{index}",
    "/{index}/rename",
    "/{index}/reset",
    "/{index}/index",
    "/{index}/items",
    "/{index}/items/changes",
    "/{index}/items/delete",
    "/{index}/items/update",
    "/{index}/items/{id}",
    "/{index}/items/{id}/partial",
    "/{index}/items/{id}/update",
)
"""Pages that may refuse what has the right form, beside those of Algolia's protocol.

What renames or removes an index refuses an alias, which an example of another page may have made.
"""
PATHS_WITH_MEANING = [
    path.replace("{index}", name)
    for path in WITH_MEANING
    for name in ("{index}", "films", "changed", "others")
]
MEANING_RULE = f"""
[[operations]]
include-path = {json.dumps(PATHS_WITH_MEANING)}
checks.positive_data_acceptance.expected-statuses = ["2xx", "3xx", "4xx", 504]

[[operations]]
include-path-regex = "^/1/"
checks.positive_data_acceptance.expected-statuses = ["2xx", "3xx", "4xx", 504]
"""

SCHEMAS = "#/components/schemas/"
LARGE_PARAMETERS = f"{SCHEMAS}parameter."
"""Filters, rules, facets: of each there are hundreds of bounds, and one reader for all pages."""
ANY_VALUE = {"type": ["object", "array", "string", "boolean"]}
"""What some large parameter may be."""
TAKEN = ("parameters", "requestBody")
"""What an operation says of its requests."""
READ_LIKE_OTHERS = (
    "GET /films/explain",
    "POST /films/explain",
    "POST /changed/configuration",
    "POST /1/indexes/*/queries",
    "POST /1/indexes/changed/browse",
    "POST /1/indexes/changed/facets/{facetName}/query",
)
"""Pages whose readers are those of a search, or of a configuration by PUT: bounds of their
parameters are asked for in the long form only."""
SHORT_COVERAGE = f"""
[[operations]]
include-name = {json.dumps(READ_LIKE_OTHERS)}
phases.coverage.enabled = false
"""

READING = ("/{index}/search", "/{index}/facet", "/{index}/suggest", "/{index}/explain")
"""Pages that are asked about an index that no other page changes."""
REMOVING = ("/{index}", "/{index}/reset", "/{index}/rename")
"""Pages that would remove the index, beside MOVING."""
MOVING = "/1/indexes/{indexName}/operation"
"""Copies too, but beside it other methods have another page, for items."""

pytestmark = pytest.mark.skipif(
    COMMAND is None, reason="the command schemathesis is not installed: pipx install schemathesis"
)


def writable(document: Any) -> Any:
    """Return the document as it can use it.

    Without NDJSON, which it cannot write: it is sent as text/plain too. Without tuples, which it
    refuses in responses (4.32 makes of `prefixItems` what older drafts have in its place): each
    item may be what any of them may be.
    """
    if isinstance(document, list):
        return [writable(one) for one in document]
    if not isinstance(document, dict):
        return document
    written = {k: writable(v) for k, v in document.items() if k != "application/x-ndjson"}
    if "prefixItems" in written:
        written["items"] = {"anyOf": written.pop("prefixItems")}
    return written


def schemathesis(
    tmp_path: Path,
    service: Service,
    client: KeyClient,
    document: dict[str, Any],
    *options: str,
    rules: str = "",
) -> None:
    """Run it on a document; fail with what it says."""
    (tmp_path / "openapi.json").write_text(json.dumps(writable(document)))
    (tmp_path / "schemathesis.toml").write_text(SETTINGS + MEANING_RULE + rules)
    run = subprocess.run(
        [
            *(str(COMMAND), "--config-file", str(tmp_path / "schemathesis.toml")),
            *("run", str(tmp_path / "openapi.json")),
            *("--url", f"http://127.0.0.1:{service.port}", "--header", f"X-API-Key: {client.key}"),
            *("--checks", ",".join(CHECKS)),
            *("--request-timeout", "20", "--no-color", "--continue-on-failure", *options),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    client.close()  # the service has closed its idle connection by now
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-2_000:]
    assert "traceback" not in service.log(), service.log()[-5_000:]


class KeyClient(Client):
    """A client with a key."""

    key = ""

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        return super().request(method, path, body, {**(headers or {}), "X-API-Key": self.key})


def prepare(service: Service) -> KeyClient:
    """Make a key and the indexes; return a client with the key."""
    client = KeyClient(service.port)
    made = client.post("/_keys", {"actions": ["search", "write", "configure", "admin"]})
    client.key = made.json["key"]
    make_indexes(client)
    return client


def make_indexes(client: KeyClient) -> None:
    """Make the two indexes, with their items, or what is missing of them."""
    for index in ("films", "changed"):
        assert client.post(f"/{index}/configuration", CONFIGURATION).status == 200
        assert client.post(f"/{index}/items", ITEMS).status == 200


def about(document: dict[str, Any], removed: str = "") -> dict[str, Any]:
    """Return the document with names of indexes in its paths.

    Args:
        document: of the service.
        removed: index of the pages that would remove it; empty: they are left out.
    """
    paths = {}
    for path, operations in document["paths"].items():
        name = "films" if path in READING else removed if path in REMOVING else "changed"
        if path == MOVING or not name:
            continue
        for operation in operations.values():
            operation["parameters"] = [
                one
                for one in operation.get("parameters", [])
                if one["name"] not in ("index", "indexName")
            ]
        paths[path.replace("{index}", name).replace("{indexName}", name)] = operations
    return {**document, "paths": paths}


def without_excluding(part: Any) -> Any:
    """Return a part of a document without the parameters that exclude others."""
    if isinstance(part, list):
        return [
            without_excluding(one)
            for one in part
            if not (isinstance(one, dict) and "in" in one and one.get("name") in EXCLUDING)
        ]
    if not isinstance(part, dict):
        return part
    return {
        key: {name: one for name, one in without_excluding(value).items() if name not in EXCLUDING}
        if key == "properties" and "query" in value
        else without_excluding(value)
        for key, value in part.items()
    }


def asked_once(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with each large parameter described where it is taken first.

    Elsewhere it is any value, which may be refused.
    """
    described: set[str] = set()

    def once(part: Any) -> Any:
        if isinstance(part, list):
            return [once(one) for one in part]
        if not isinstance(part, dict):
            return part
        name = part.get("$ref", "").replace("not_filters", "filters")  # which have the same form
        if name in described:
            return ANY_VALUE
        if name.startswith(LARGE_PARAMETERS):
            described.add(name)
        elif name.startswith(SCHEMAS):
            return once(document["components"]["schemas"][name.removeprefix(SCHEMAS)])
        return {key: once(one) for key, one in part.items()}

    paths = {
        path: {
            method: {key: once(one) if key in TAKEN else one for key, one in operation.items()}
            for method, operation in operations.items()
        }
        for path, operations in document["paths"].items()
    }
    return {**document, "paths": paths}


@pytest.mark.timeout(1_200)  # it runs beside the other tests of `.ci/run`
def test_described_requests_get_described_answers(tmp_path: Path) -> None:
    """Ask pages about an index that is there; those that would remove it, about another one."""
    with Service(tmp_path / "data", 2) as service:
        client = prepare(service)
        document = client.get("/_openapi.json").json
        asked = without_excluding(asked_once(about(document, "others")))
        options = ["--max-examples", "3", "--seed", "1", "--phases", "examples,coverage,fuzzing"]
        schemathesis(tmp_path, service, client, asked, *options, rules=SHORT_COVERAGE)
        assert client.get("/_ready").status == 200
        client.close()


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_described_requests_get_described_answers_at_length(tmp_path: Path) -> None:
    """Ask all routes as they are described, then about an index that is there.

    Pages of Algolia's protocol, which all name an index, are asked about that one only.
    """
    seed = ("--seed", os.environ.get("FACETD_TEST_SEED", "2"))
    options = [*seed, "--phases", "examples,coverage,fuzzing"]
    with Service(tmp_path / "data", 2) as service:
        client = prepare(service)
        document = client.get("/_openapi.json").json
        general = {path: one for path, one in document["paths"].items() if path[:3] != "/1/"}
        general_document = {**document, "paths": general}
        schemathesis(tmp_path, service, client, general_document, *options, "--max-examples", "300")
        make_indexes(client)
        asked = about(document)
        schemathesis(tmp_path, service, client, asked, *options, "--max-examples", "600")
        assert client.get("/_ready").status == 200
        client.close()
