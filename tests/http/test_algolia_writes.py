"""Writes of Algolia's protocol that would store or remove the wrong objects are refused whole."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest

from common.errors import ConfigurationSwitched
from common.protocol.write_operations_and_outcomes import Outcome
from common.query_syntax_tree import Range
from coordinator.parameters.filter_parser import parse_filter
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.write.write_result import WriteResult
from tests.http.conftest import Web
from tests.http.raw_requests import request

ADDED = {"action": "addObject", "body": {"name": "two"}}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "films"),
        ("PUT", "films/1"),
        ("POST", "films/1/partial"),
        ("PUT", "films/settings"),
    ],
)
async def test_an_empty_body_is_no_object(web: Web, method: str, path: str) -> None:
    refused = await web.send(request(method, f"/1/indexes/{path}", b""))

    assert (refused.status, refused.code) == (400, "invalid_body")
    assert "the body is empty" in refused.json["error"]["message"]


@pytest.mark.parametrize(
    ("object_id", "own"),
    [("1.0", 1.0), ("[1]", [1]), ("True", True), ("{}", {}), ("5", 5.0), ("a", "b"), (None, [1])],
)
async def test_an_id_that_is_none_is_refused(web: Web, object_id: Any, own: Any) -> None:
    body = {"objectID": object_id, "id": own}
    batch = await web.post(
        "/1/indexes/films/batch", {"requests": [ADDED, {"action": "addObject", "body": body}]}
    )

    assert (batch.status, batch.code) == (400, "id_mismatch" if object_id else "invalid_id")
    assert batch.json["error"]["param"] == "requests[1]"
    if object_id is not None:
        one = await web.send(
            request("PUT", f"/1/indexes/films/{quote(object_id)}", json.dumps({"id": own}).encode())
        )
        assert (one.status, one.code) == (400, "id_mismatch")


@pytest.mark.parametrize("number", [str(2**64), str(-(2**63) - 1), "9" * 30, "-" + "9" * 300])
@pytest.mark.parametrize(
    ("method", "path", "text"),
    [
        ("POST", "/1/indexes/films/batch", '{"requests":[{"action":"addObject","body":{"n":%s}}]}'),
        (
            "POST",
            "/1/indexes/*/batch",
            '{"requests":[{"indexName":"films","action":"addObject","body":{"n":[ %s ]}}]}',
        ),
        ("POST", "/1/indexes/films", '{"n":%s}'),
        ("PUT", "/1/indexes/films/1", '{"n":[1,%s]}'),
        ("POST", "/1/indexes/films/1/partial", '{"n": %s\n}'),
        ("POST", "/films/items/update", '{"ids":[1],"fields":{"n":{"a":%s}}}'),
        ("POST", "/films/items", '[{"n":%s}]'),
        ("POST", "/films/items/1/partial", '{"n":%s}'),
        ("PATCH", "/films/items", '[{"id":1,"n":%s}]'),
    ],
)
async def test_integers_are_stored_exactly_or_refused(
    web: Web, method: str, path: str, text: str, number: str
) -> None:
    before = (await web.get("/films/items/1")).body

    refused = await web.send(request(method, path, (text % number).encode()))

    assert (refused.status, refused.code) == (400, "invalid_number")
    assert (await web.get("/films/items/1")).body == before


async def test_long_numbers_that_are_exact_are_stored(web: Web) -> None:
    numbers = '"a":18446744073709551615,"b":-9223372036854775808,"c":1e30'
    written = f'{{{numbers},"text":"x, -99999999999999999999 ,"}}'
    stored = await web.send(request("PUT", "/1/indexes/films/9", written.encode()))

    assert stored.status == 200
    assert (await web.get("/films/items/9")).json == {"id": "9", **json.loads(written)}


WRONG = {"action": "addObject", "body": {"objectID": True}}


@pytest.mark.parametrize(
    ("method", "path", "document"),
    [
        ("POST", "new/batch", {"requests": 7}),
        ("POST", "new/batch", {"requests": [ADDED, WRONG]}),
        ("POST", "new/batch", {"requests": [ADDED, {"action": "clear"}]}),
        (
            "POST",
            "*/batch",
            {"requests": [{**ADDED, "indexName": "new"}, {**WRONG, "indexName": "newer"}]},
        ),
        ("POST", "new", {"objectID": []}),
        ("PUT", "new/1", {"id": 2}),
        ("POST", "new/1/partial", {"n": {"_operation": "Multiply", "value": 2}}),
        ("POST", "new/1/partial?createIfNotExists=perhaps", {"n": 1}),
        ("PUT", "new/settings", {"searchableAttributes": "name"}),
        ("PUT", "new/settings", {"indexLanguages": ["klingon"]}),
        ("PUT", "new/settings", {"hitsPerPage": -1}),
        ("PUT", "new/rules/a", {"consequence": {"promote": [{"objectID": "1"}]}}),
        ("PUT", "new/rules/a", {"consequence": {"params": {"filters": "a:1"}}, "enabled": 1}),
        ("POST", "new/synonyms/batch", [{"objectID": "a", "type": "synonym", "synonyms": ["b"]}]),
        (
            "PUT",
            "new/synonyms/a",
            {"type": "synonym", "synonyms": [f"w{i}" for i in range(1_000)]},
        ),
    ],
)
async def test_a_refused_write_creates_no_index(
    web: Web, method: str, path: str, document: Any
) -> None:
    body = json.dumps(document).encode()
    refused = await web.send(request(method, f"/1/indexes/{path}", body))

    assert refused.status == 400, refused.body
    assert list(web.services.catalog.indexes) == ["films"]


async def test_settings_rules_and_synonyms_create_their_index(web: Web) -> None:
    for name, path, document in (
        ("a", "settings", {"attributesForFaceting": ["brand"]}),
        ("b", "rules/x", {"consequence": {"hide": [{"objectID": "1"}]}}),
        ("c", "synonyms/x", {"type": "synonym", "synonyms": ["tv", "television"]}),
    ):
        body = json.dumps(document).encode()
        stored = await web.send(request("PUT", f"/1/indexes/{name}/{path}", body))
        assert stored.status == 200, stored.body
    indexes = web.services.catalog.indexes
    assert list(indexes["a"].document["aggregations"]) == ["brand"]
    assert [rule["hide"] for rule in indexes["b"].document["rules"]] == [["1"]]
    assert indexes["c"].document["synonyms"] == [["tv", "television"]]
    for name in ("a", "b", "c"):
        assert indexes[name].document["geo_fields"] == ["_geoloc", "_geo"]


@pytest.mark.parametrize("name", [{}, {"indexName": None}, {"indexName": 7}])
async def test_a_change_without_an_index_changes_nothing(web: Web, name: dict[str, Any]) -> None:
    seq = web.services.cluster.horizon(web.services.catalog.indexes["films"].number)

    refused = await web.post(
        "/1/indexes/*/batch", {"requests": [{**ADDED, "indexName": "films"}, {**ADDED, **name}]}
    )

    assert (refused.status, refused.code) == (400, "invalid_index_name")
    assert refused.json["error"]["param"] == "requests[1].indexName"
    assert list(web.services.catalog.indexes) == ["films"]
    assert web.services.cluster.horizon(web.services.catalog.indexes["films"].number) == seq


@pytest.mark.parametrize(
    ("path", "status"), [("*/batch", 405), ("*/objects", 405), ("*/queries", 405), ("%2A/7", 404)]
)
async def test_all_indexes_are_none(web: Web, path: str, status: int) -> None:
    refused = await web.send(request("PUT", f"/1/indexes/{path}", b"{}"))

    assert refused.status == status
    assert list(web.services.catalog.indexes) == ["films"]


@pytest.mark.parametrize(
    "body",
    [{"filters": ""}, {"filters": None, "facetFilters": []}, {"params": "filters="}, {}],
)
async def test_deletion_without_a_filter_is_refused(web: Web, body: dict[str, Any]) -> None:
    refused = await web.post("/1/indexes/films/deleteByQuery", body)

    assert refused.status == 400, refused.body
    assert (await web.get("/films/items/1")).status == 200


async def test_deletion_by_filters_applies_the_filter_of_a_key_of_any_form(web: Web) -> None:
    admin = (await web.post("/_keys", {"actions": ["admin"]})).json["key"]
    expression = "poster EXISTS AND name STARTS WITH a"
    document = {"actions": ["write"], "filter": expression}
    key = (await web.post("/_keys", document, f"X-API-Key: {admin}")).json["key"]

    body = {"filters": "year = 1994"}
    reply = await web.post("/1/indexes/films/deleteByQuery", body, f"X-API-Key: {key}")

    assert (reply.status, list(reply.json)) == (200, ["taskID", "updatedAt"])
    asked = web.search.asked[-1]
    assert isinstance(asked, SearchParameters)
    assert parse_filter(expression) in [clause.filter for clause in asked.filters]


async def test_deletion_by_filters_goes_on_when_the_index_switches_configuration(web: Web) -> None:
    selection = web.services.selection
    select = selection.page
    errors = [ConfigurationSwitched("it was switched")]

    async def switched(*args: Any) -> Any:
        if errors:
            raise errors.pop()
        return await select(*args)

    selection.page = switched  # type: ignore[assignment, method-assign]
    reply = await web.post("/1/indexes/films/deleteByQuery", {"filters": "year = 1994"})

    assert (reply.status, list(reply.json)) == (200, ["taskID", "updatedAt"])
    assert not errors


async def test_deletion_by_filters_ignores_defaults_for_searches(web: Web) -> None:
    settings = b'{"filters": "brand:acme"}'
    saved = await web.send(request("PUT", "/1/indexes/films/settings", settings))
    assert saved.status == 200, saved.body

    reply = await web.post("/1/indexes/films/deleteByQuery", {"numericFilters": "year = 1994"})

    assert reply.status == 200, reply.body
    asked = web.search.asked[-1]
    assert isinstance(asked, SearchParameters)
    assert [clause.filter for clause in asked.filters] == [Range("year", lower=1994, upper=1994)]


async def test_nothing_is_written_if_a_change_of_any_index_is_invalid(web: Web) -> None:
    good, bad = {**ADDED, "indexName": "films"}, {"action": "explode", "indexName": "films2"}
    num_writes = sum(len(shard.applied) for shard in web.shards)

    refused = await web.post("/1/indexes/*/batch", {"requests": [good, bad]})

    assert (refused.status, refused.code) == (400, "invalid_body")
    assert refused.json["error"]["param"] == "requests[1].action"
    assert sum(len(shard.applied) for shard in web.shards) == num_writes


async def test_changes_are_made_once_when_a_later_index_switches_configuration(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    await web.post("/1/indexes/films2/batch", {"requests": [ADDED]})
    select = web.services.selection.page
    errors = [ConfigurationSwitched("it was switched")] * 2

    async def switched(*args: Any) -> Any:
        if errors:
            raise errors.pop()
        return await select(*args)

    monkeypatch.setattr(web.services.selection, "page", switched)
    real = web.services.ingest.write_operations
    written = []

    async def noting(index: Any, operations: Any, *rest: Any) -> WriteResult:
        written.append(index.name)
        return await real(index, operations, *rest)

    monkeypatch.setattr(web.services.ingest, "write_operations", noting)
    clear = {"action": "clear", "indexName": "films2"}

    reply = await web.post(
        "/1/indexes/*/batch", {"requests": [{**ADDED, "indexName": "films"}, clear]}
    )

    assert (reply.status, sorted(reply.json["taskID"])) == (200, ["films", "films2"])
    assert not errors
    assert written == ["films"]


async def test_a_change_that_cannot_be_applied_is_named_by_its_place_in_the_request(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse_last(_: Any, operations: list[Any], *__: Any) -> WriteResult:
        return WriteResult(refused=[(len(operations) - 1, Outcome.INVALID)])

    monkeypatch.setattr(web.services.ingest, "write_operations", refuse_last)
    wanted = [{**ADDED, "indexName": name} for name in ("films", "films2", "films2")]

    refused = await web.post("/1/indexes/*/batch", {"requests": wanted[:1]})
    assert refused.json["error"]["param"] == "requests[0]"

    monkeypatch.undo()
    assert (await web.post("/1/indexes/*/batch", {"requests": wanted})).status == 200
    real = web.services.ingest.write_operations

    async def refuse_in_the_second(index: Any, operations: list[Any], *rest: Any) -> WriteResult:
        if index.name == "films2":
            return await refuse_last(index, operations)
        return await real(index, operations, *rest)

    monkeypatch.setattr(web.services.ingest, "write_operations", refuse_in_the_second)
    refused = await web.post("/1/indexes/*/batch", {"requests": wanted})
    assert refused.json["error"]["param"] == "requests[2]"
    assert refused.json["error"]["message"].startswith("requests[2]: the stored object")


@pytest.mark.parametrize("replicas", [5, "films:year:desc", [5], ["films_by_year"], {}])
async def test_replicas_that_are_no_orders_are_refused(web: Web, replicas: Any) -> None:
    body = json.dumps({"replicas": replicas}).encode()
    reply = await web.send(request("PUT", "/1/indexes/films/settings", body))

    assert (reply.status, reply.json["error"]["param"]) == (400, "replicas")


async def test_settings_are_shown_whatever_the_configuration_has(web: Web) -> None:
    await web.post("/films/configuration", {"algolia": {"filterOnly": 5, "hitsPerPage": 3}})

    assert (await web.get("/1/indexes/films/settings")).json["hitsPerPage"] == 3


async def test_an_index_has_the_settings_that_were_not_sent(web: Web) -> None:
    """Pages read the number of hits from them; scripts send back all that they have read."""
    configuration = {"prefix": "all", "match": "auto"}
    await web.post("/films/configuration", configuration)

    settings = (await web.get("/1/indexes/films/settings")).json

    assert (settings["hitsPerPage"], settings["maxValuesPerFacet"]) == (20, 100)
    assert (settings["highlightPreTag"], settings["highlightPostTag"]) == ("<em>", "</em>")
    assert settings["searchableAttributes"] is None
    assert settings["queryType"] == "prefixAll"
    assert "removeWordsIfNoResults" not in settings  # no word for "auto" there
    reply = await web.send(
        request("PUT", "/1/indexes/films/settings", json.dumps(settings).encode())
    )
    assert reply.status == 200, reply.body
    document = web.services.catalog.indexes["films"].document
    assert {name: document[name] for name in configuration} == configuration
    assert "algolia" not in document


async def test_changes_of_settings_at_the_same_time_are_all_kept(web: Web) -> None:
    synonym = {"type": "synonym", "synonyms": ["film", "movie"]}
    rule = {"consequence": {"hide": [{"objectID": "1"}]}}
    replies = await asyncio.gather(
        web.send(request("PUT", "/1/indexes/films/settings", b'{"hitsPerPage": 7}')),
        web.send(request("PUT", "/1/indexes/films/settings", b'{"attributeForDistinct": "name"}')),
        web.send(request("PUT", "/1/indexes/films/synonyms/s", json.dumps(synonym).encode())),
        web.send(request("PUT", "/1/indexes/films/rules/r", json.dumps(rule).encode())),
    )
    document = web.services.catalog.indexes["films"].document

    assert [reply.status for reply in replies] == [200] * 4
    assert (document["algolia"]["hitsPerPage"], document["algolia"]["attributeForDistinct"]) == (
        7,
        "name",
    )
    assert document["synonyms"] == [["film", "movie"]]
    assert document["rules"] == [{"name": "r", "hide": ["1"]}]
    assert (await web.get("/1/indexes/films/settings")).json.keys().isdisjoint(["objects"])


async def test_a_refused_list_of_rules_changes_nothing(web: Web) -> None:
    before = web.services.catalog.indexes["films"].document
    good = {"objectID": "a", "consequence": {"hide": [{"objectID": "1"}]}}

    refused = await web.post("/1/indexes/films/rules/batch", [good, {"objectID": "b"}])

    assert (refused.status, refused.json["error"]["param"]) == (400, "rules[1].consequence")
    assert web.services.catalog.indexes["films"].document == before


@pytest.mark.parametrize(
    ("actions", "body", "status"),
    [
        (["configure"], {"scope": ["settings"]}, 200),
        (["configure"], {}, 403),
        (["configure", "write"], {}, 403),
        (["search", "write", "configure"], {}, 200),
        (["search", "write"], {}, 403),
    ],
)
async def test_copies_need_the_actions_that_they_stand_for(
    web: Web, actions: list[str], body: dict[str, Any], status: int
) -> None:
    made = await web.post("/_keys", {"actions": ["admin"]})
    admin = f"Authorization: Bearer {made.json['key']}"
    made = await web.post("/_keys", {"actions": actions, "indexes": ["films", "f2"]}, admin)
    key = f"X-Algolia-API-Key: {made.json['key']}"
    operation = {"operation": "move", "destination": "f2"}
    if body:
        operation = {"operation": "copy", "destination": "f2", **body}

    reply = await web.post("/1/indexes/films/operation", operation, key)
    other = await web.post(
        "/1/indexes/films/operation", {**operation, "destination": "secret"}, key
    )

    assert (reply.status, other.status) == (status, 403)
    assert "secret" not in web.services.catalog.indexes


async def test_a_key_that_only_writes_neither_makes_nor_deletes_an_index(web: Web) -> None:
    made = await web.post("/_keys", {"actions": ["admin"]})
    admin = f"Authorization: Bearer {made.json['key']}"
    made = await web.post("/_keys", {"actions": ["write"]}, admin)
    key = f"X-Algolia-API-Key: {made.json['key']}"
    delete = {"requests": [{"action": "delete"}]}

    deletion = await web.post("/1/indexes/films/batch", delete, key)
    addition = await web.post("/1/indexes/films/batch", {"requests": [ADDED]}, key)
    creation = await web.post("/1/indexes/books/batch", {"requests": [ADDED]}, key)

    assert (deletion.status, addition.status, creation.status) == (403, 200, 404)
    assert [*web.services.catalog.indexes] == ["films"]
