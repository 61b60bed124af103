"""Algolia's filters mean what their predicates say, in searches and in deletions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.algolia.drawn_filters import FACETS, DrawnFilters, Item, keys_of
from tests.service import Client, Service

NUM_ITEMS = 300
NUM_DELETIONS = 20
ALL_HITS = {"hitsPerPage": 1_000, "attributesToRetrieve": ["objectID"],
            "attributesToHighlight": [], "facets": ["*"]}  # fmt: skip
UNLIKE = ("processingTimeMS", "processingTimingsMS", "serverTimeMS", "queryID")


def fill(client: Client, items: list[Item], *, conjunction: bool) -> None:
    client.delete("/drawn")
    facets = {name: {"conjunction": conjunction} if name == "brand" else {} for name in FACETS}
    assert client.post("/drawn/configuration", {"aggregations": facets}).status == 200
    batch = {"requests": [{"action": "addObject", "body": item} for item in items]}
    assert client.post("/1/indexes/drawn/batch", batch).status == 200


def check(answer: Any, hits: list[Item], parameters: Item) -> None:
    """Compare an answer with the hits that there must be."""
    found = [hit["objectID"] for hit in answer["hits"]]
    assert found == [item["objectID"] for item in hits], parameters
    assert answer["nbHits"] == len(hits), parameters
    for facet in FACETS:
        counts = Counter(key for item in hits for key in keys_of(item, facet))
        assert answer["facets"].get(facet, {}) == dict(counts), (facet, parameters)


def remove(clients: list[Client], drawn: DrawnFilters, items: list[Item]) -> None:
    """Delete by filters, and compare what remains."""
    for _ in range(NUM_DELETIONS):
        parameters, is_hit = drawn.search()
        rest = [item for item in items if not is_hit(item)]
        if not parameters or 2 * len(rest) < len(items):
            continue
        items = rest
        for client in clients:
            reply = client.post("/1/indexes/drawn/deleteByQuery", parameters)
            assert reply.status == 200, (parameters, reply.body)
            check(client.post("/1/indexes/drawn/query", ALL_HITS).json, items, parameters)


def play(folder: Path, seeds: range, num_searches: int) -> None:
    with Service(folder / "one", 1) as one, Service(folder / "three", 3) as three:
        clients = [one.client(), three.client()]
        for seed in seeds:
            drawn = DrawnFilters(seed)
            items = [drawn.item(number) for number in range(NUM_ITEMS)]
            for client in clients:
                fill(client, items, conjunction=seed % 2 == 0)
            for _ in range(num_searches):
                parameters, is_hit = drawn.search()
                hits = [item for item in items if is_hit(item)]
                answers = []
                for client in clients:
                    reply = client.post("/1/indexes/drawn/query", {**ALL_HITS, **parameters})
                    assert reply.status == 200, (parameters, reply.body)
                    check(reply.json, hits, parameters)
                    answers.append({k: v for k, v in reply.json.items() if k not in UNLIKE})
                assert answers[0] == answers[1], parameters
            remove(clients, drawn, items)
        for client in clients:
            client.close()


@pytest.mark.timeout(120)
def test_filters_mean_what_they_say(tmp_path: Path) -> None:
    play(tmp_path, range(2), 100)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_thousands_of_filters_mean_what_they_say(tmp_path: Path) -> None:
    play(tmp_path, range(10, 30), 1_000)
