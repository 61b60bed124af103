"""The examples of bodies: each is as the OpenAPI document says, and is accepted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from common.limits import DEFAULT_LIMITS
from coordinator.algolia.keys import new_key
from coordinator.http.api_description.schemas.body_examples import (
    BODY_EXAMPLES,
    LINES_EXAMPLE,
    LOAD,
)
from coordinator.http.security.api_keys import create_key
from tests.service import Client, Service

ARGUMENTS = {
    "{index}": "films",
    "{indexName}": "films",
    "{id}": "3",
    "{objectID}": "3",
    "{facetName}": "genres",
    "{name}": "monday",
}
REFUSED = {
    "POST /_cluster/shards": "not_with_one_host",
    "POST /_keys": "invalid_key",  # the first key must allow admin
    "POST /1/keys": "invalid_key",
}
"""What a service of one host without keys does not do."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Service(tmp_path_factory.mktemp("examples") / "data", 1) as service:
        found = service.client()
        yield found
        found.close()


@pytest.fixture(scope="module")
def document(client: Client) -> Any:
    return client.get("/_openapi.json").json


def _as_new(client: Client) -> None:
    """Make the films and the snapshot that examples name, and nothing else."""
    client.post("/_aliases", {"aliases": dict.fromkeys(client.get("/_aliases").json["aliases"])})
    for index in client.get("/_indexes").json["indexes"]:
        client.delete(f"/{index['name']}")
    client.delete("/_snapshots/monday")
    client.make_films()


def test_every_body_has_an_example_and_every_example_a_body(document: Any) -> None:
    described = {
        f"{method.upper()} {path}": operation["requestBody"]["content"]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if "requestBody" in operation
    }
    assert described.keys() == {*BODY_EXAMPLES, LOAD}
    for route, content in described.items():
        for media_type, body in content.items():
            if media_type == "application/x-ndjson":
                continue  # the same as text/plain
            assert body["example"] == (LINES_EXAMPLE if route == LOAD else BODY_EXAMPLES[route])
            schema = {**body["schema"], "components": document["components"]}
            assert list(Draft202012Validator(schema).iter_errors(body["example"])) == [], route


@pytest.mark.parametrize("route", BODY_EXAMPLES)
def test_an_example_is_accepted(client: Client, route: str) -> None:
    _as_new(client)
    if route == "POST /_snapshots/{name}/restore":
        assert client.post("/_snapshots", {"name": "monday"}).status == 200
    method, path = route.split(" ")
    for name, value in ARGUMENTS.items():
        path = path.replace(name, value)
    body = json.dumps(BODY_EXAMPLES[route]).encode()
    reply = client.request(method, path, body, {"content-type": "application/json"})
    if route in REFUSED:
        assert reply.json["error"]["code"] == REFUSED[route]
    else:
        assert reply.status in (200, 201), reply.json
        assert reply.json.get("errors", []) == []
        assert reply.json.get("warnings", []) == []
        assert not any("error" in one for one in reply.json.get("results", ()))


def test_the_lines_of_a_load_are_accepted(client: Client) -> None:
    _as_new(client)
    assert client.post_text("/films/index", LINES_EXAMPLE.encode()).json["updated"] == 2


def test_examples_of_keys_make_keys() -> None:
    create_key(BODY_EXAMPLES["POST /_keys"], is_first=False)
    create_key(new_key(BODY_EXAMPLES["POST /1/keys"], DEFAULT_LIMITS), is_first=False)
