"""While configurations change, each request is answered under one of them, and none fails."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest

from tests.cluster.conftest import Services
from tests.service import Client, Reply

SECONDS = 3.0
SECONDS_LONG = 120.0
ITEMS = [
    {
        "id": i,
        "name": f"the {'sea' if i % 3 else 'land'} number {i}",
        "text": "sea " * (i % 5),
        "colour": ("red", "green", "blue")[i % 3],
        "tags": [f"t{i % 7}", f"t{i % 11}"],
    }
    for i in range(1_500)
]
CONFIGURATIONS: list[dict[str, Any]] = [
    {"aggregations": {"colour": {}, "tags": {"size": 20}}, "searchable_fields": ["name"]},
    {"aggregations": {"tags": {"conjunction": False}}, "searchable_fields": ["text", "name^3"]},
    {"aggregations": {"colour": {}, "tags": {"size": 5}}, "language": "english"},
    {"aggregations": {}},
]

Ask = Callable[[Client, str], Reply]
SEARCH = {"query": "sea", "filters": {"colour": ["red"]}, "show": ["score"], "per_page": 40}


def search(client: Client, path: str) -> Reply:
    return client.post(f"{path}/search", SEARCH)


def highlight(client: Client, path: str) -> Reply:
    document = {"query": "numbers", "typo": 1, "highlight": {"fields": ["name"]}, "per_page": 5}
    return client.post(f"{path}/search", document)


def facet(client: Client, path: str) -> Reply:
    return client.get(f"{path}/facet", name="tags", query="t*")


def several(client: Client, path: str) -> Reply:
    name = path.strip("/")
    searches = [{"index": name, "query": "land"}, {"index": name, "filters": {"tags": ["t1"]}}]
    return client.post("/_search", {"searches": searches})


def cursor(client: Client, path: str) -> Reply:
    """All pages; a configuration that comes in between ends a cursor, and says so."""
    document: dict[str, Any] = {"query": "sea", "cursor": "*", "per_page": 100}
    while True:
        reply = client.post(f"{path}/search", document)
        if reply.status != 200 or "cursor" not in reply.json["pagination"]:
            if reply.status == 400 and reply.json["error"]["code"] == "invalid_cursor":
                return reply._replace(status=200)
            return reply
        document["cursor"] = reply.json["pagination"]["cursor"]


def export(client: Client, path: str) -> Reply:
    """All items, three pages of them, whatever comes in between."""
    reply = client.get(f"{path}/items", sort="name:desc")
    assert reply.body.count(b"\n") == len(ITEMS)
    return reply


def partial(client: Client, path: str) -> Reply:
    """A shard that has switched is not one that is away."""
    reply = client.post(f"{path}/search", {**SEARCH, "partial": "allow"})
    if reply.status == 200:
        assert reply.json["meta"]["shards"]["failed"] == 0
    return reply


KINDS: list[Ask] = [search, highlight, facet, several, cursor, export, partial]


def refusal_of(reply: Reply) -> str:
    """Return what is wrong with an answer; that the configuration lacks a facet is not."""
    if reply.status == 200:
        return ""
    error = reply.json["error"]
    return "" if error["code"] == "facet_not_found" else f"{reply.status} {error}"


@pytest.mark.parametrize("seconds", [SECONDS, pytest.param(SECONDS_LONG, marks=pytest.mark.long)])
def test_requests_are_answered_while_configurations_are_switched(
    services: Services, seconds: float
) -> None:
    service = services(2)
    path = "/" + quote(f"switched-{seconds:g}", safe="")
    num_answers: Counter[str] = Counter()
    failures: list[str] = []
    scores: set[tuple[Any, ...]] = set()
    expected: set[tuple[Any, ...]] = set()
    is_over = threading.Event()

    def scores_of(reply: Reply) -> tuple[Any, ...]:
        document = reply.json
        found = [(item["id"], item["_score"]) for item in document["data"]["items"]]
        facets = {name: one["buckets"] for name, one in document["data"]["aggregations"].items()}
        return (repr(facets), document["pagination"]["total"], *found)

    def ask(kind: Ask) -> None:
        with closing(service.client()) as client:
            while not is_over.is_set():
                try:
                    reply = kind(client, path)
                    failure = refusal_of(reply)
                    if kind is search and not failure:
                        scores.add(scores_of(reply))
                except Exception as error:
                    failure = repr(error)
                if failure:
                    failures.append(f"{kind.__name__}: {failure}")
                    return
                num_answers[kind.__name__] += 1

    with closing(service.client()) as client:
        for configuration in CONFIGURATIONS:
            assert client.post(f"{path}/configuration", configuration).status == 200
            if not expected:
                assert client.post(f"{path}/items", ITEMS).status == 200
            expected.add(scores_of(search(client, path)))
        threads = [threading.Thread(target=ask, args=(kind,)) for kind in KINDS]
        for thread in threads:
            thread.start()
        give_up_at = time.monotonic() + seconds
        num_switches = 0
        while time.monotonic() < give_up_at and not failures:
            configuration = CONFIGURATIONS[num_switches % len(CONFIGURATIONS)]
            assert client.post(f"{path}/configuration", configuration).status == 200
            num_switches += 1
        is_over.set()
        for thread in threads:
            thread.join()
        client.delete(path)

    assert not failures, failures[:3]
    assert num_switches >= 4
    assert set(num_answers) == {kind.__name__ for kind in KINDS}, "too slow to mean anything"
    assert len(expected) == len(CONFIGURATIONS), "the configurations answer alike"
    assert scores <= expected, "an answer of two configurations"
