"""Searches that combine features: the same answers whatever the shards, segments and history are.

    1 shard, written bit by bit ─┐
    3 shards, the same           ├── every answer is byte for byte the same
    2 shards, loaded at once     ┘

The first two have replaced, deleted and merged items on their way; the last one has only those that
are left, and takes the ways of large indexes (`tests.small_thresholds`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.mixed_searches import NUM_IDS, MixedSearches
from tests.service import Client, Service

INDEX = "mixed"
SMALL_SEGMENTS = {"FACETD_SHARD_FLUSH_DOCS": "50", "FACETD_SHARD_IDLE_MS": "30"}
PAGES_MAX = 3
VOLATILE = ("request_id", "seq", "took_us", "shards", "timings_us")

Found = tuple[int, Any, str | None]
"""Status, answer without what differs each time, and cursor."""


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Client]]:
    """Clients of three services; the last one is for items that are loaded at once."""
    folder: Path = tmp_path_factory.mktemp("mixed")
    with ExitStack() as stack:
        services = [
            stack.enter_context(Service(folder / f"data-{n}", n, environment=some, module=module))
            for n, some, module in (
                (1, SMALL_SEGMENTS, "coordinator"),
                (3, SMALL_SEGMENTS, "coordinator"),
                (2, {}, "tests.small_thresholds"),
            )
        ]
        yield [stack.enter_context(closing(service.client())) for service in services]


def fill(clients: list[Client], drawn: MixedSearches) -> None:
    """Write the same items to all, in different ways."""
    configuration = drawn.configuration()
    *gradual, whole = clients
    for client in clients:
        client.delete(f"/{INDEX}")
        assert client.post(f"/{INDEX}/configuration", configuration).status == 200
    chance = drawn.chance
    items: dict[Any, Any] = {}
    for first in range(0, NUM_IDS, 50):
        numbers = [*range(first, first + 50), *(chance.randrange(first + 1) for _ in range(15))]
        batch = [drawn.item(number) for number in numbers]
        gone = [drawn.id() for _ in range(8)]
        for client in gradual:
            assert client.post(f"/{INDEX}/items", batch).status == 200
            assert client.post(f"/{INDEX}/items/delete", {"ids": gone}).status == 200
        for item in batch:
            items[item["id"]] = item
        for key in gone:
            items.pop(key, None)
    lines = b"\n".join(json.dumps(item).encode() for item in items.values())
    assert whole.post_text(f"/{INDEX}/index", lines).status == 200


def ask(client: Client, path: str, body: Any) -> Found:
    """Send a request."""
    reply = client.post(path, body)
    assert reply.status < 500, (path, body, reply.body)
    answer = reply.json
    for part in (answer, answer.get("error", {}), answer.get("meta", {})):
        for name in ("timings", *VOLATILE):
            part.pop(name, None)
    for part in answer.get("meta", {}).get("searches", ()):
        for name in VOLATILE:
            part.pop(name, None)
    cursor = answer.get("pagination", {}).pop("cursor", None)
    return reply.status, answer, cursor


def compare(clients: list[Client], path: str, body: Any) -> tuple[int, str]:
    """Ask all services; return status and code of the answer, which must be the same.

    The last one is asked three times: what it keeps of a search answers the next one.
    """
    bodies = [body] * len(clients)
    outcome = (0, "")
    for _ in range(PAGES_MAX):
        asked = [*zip(clients, bodies, strict=True), *[(clients[-1], bodies[-1])] * 2]
        found = [ask(client, path, one) for client, one in asked]
        status, answer, _ = found[0]
        outcome = outcome if outcome[0] else (status, answer.get("error", {}).get("code", ""))
        for other in found[1:]:
            assert other[:2] == (status, answer), (path, json.dumps(body, ensure_ascii=False))
            assert (other[2] is None) == (found[0][2] is None)
        if found[0][2] is None:
            break
        bodies = [{**body, "cursor": cursor} for _, _, cursor in found[: len(clients)]]
    return outcome


def play(clients: list[Client], seed: int, num_searches: int) -> Counter[tuple[int, str]]:
    """Fill indexes, and compare answers."""
    drawn = MixedSearches(seed)
    fill(clients, drawn)
    outcomes: Counter[tuple[int, str]] = Counter()
    for number in range(num_searches):
        outcomes[compare(clients, f"/{INDEX}/search", drawn.search())] += 1
        if number % 3 == 0:
            outcomes[compare(clients, *drawn.other(INDEX))] += 1
    return outcomes


def counts_of(answer: Any) -> Counter[tuple[str, str]]:
    """Return all counts of an answer, by field and value or interval."""
    data = answer["data"]
    lists = {name: facet["buckets"] for name, facet in data["aggregations"].items()}
    lists |= {f"ranges of {name}": buckets for name, buckets in data["ranges"].items()}
    counts = {
        (name, str(one["key"])): one["doc_count"] for name, ones in lists.items() for one in ones
    }
    return +Counter({**counts, ("", "total"): answer["pagination"]["total"]})


@pytest.mark.timeout(300)
def test_a_condition_and_its_opposite_divide_all_counts(clients: list[Client]) -> None:
    drawn = MixedSearches(seed=2)
    fill(clients, drawn)
    num_divided = 0
    for _ in range(60):
        search, condition = drawn.divided_search()
        conditions: list[dict[str, str]] = [
            {},
            {"filter": condition},
            {"filter": f"NOT ({condition})"},
        ]
        found = [ask(clients[1], f"/{INDEX}/search", search | one) for one in conditions]
        statuses = {status for status, _, _ in found}
        if statuses != {200}:
            assert statuses == {400}, search
            continue
        whole, with_it, without_it = (counts_of(answer) for _, answer, _ in found)
        assert whole == with_it + without_it, (json.dumps(search), condition)
        num_divided += bool(with_it and without_it)
    assert num_divided > 20


@pytest.mark.timeout(300)
def test_answers_do_not_depend_on_shards_and_history(clients: list[Client]) -> None:
    outcomes = play(clients, seed=1, num_searches=150)
    assert outcomes[200, ""] > 120, outcomes


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_thousands_of_answers_do_not_depend_on_shards_and_history(clients: list[Client]) -> None:
    for seed in range(100, 140):
        outcomes = play(clients, seed, num_searches=250)
        assert outcomes[200, ""] > 200, (seed, outcomes)
