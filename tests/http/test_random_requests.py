"""Random requests are answered or refused, and accepted items come back unchanged."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.http.random_requests import INDEX, RandomRequests
from tests.service import Client, Reply, Service

SHORT_ROUNDS = 5


def post(client: Client, path: str, document: Any) -> Reply:
    """Send a document; the answer must be none of a failure."""
    reply = client.post(path, document)
    told = f"{path} {json.dumps(document)[:3000]}: {reply.status} {reply.body[:500]!r}"
    assert reply.status < 500, told
    if reply.status >= 400:
        error = reply.json["error"]
        assert error["status"] == reply.status, told
        assert error["code"], told
        assert error["message"], told
    else:
        json.loads(reply.body, parse_constant=pytest.fail)
    return reply


def play_round(client: Client, requests: RandomRequests) -> None:
    """Configure, write and search."""
    configuration = requests.configuration()
    assert post(client, f"/{INDEX}/configuration", configuration).status == 200
    for _ in range(3):
        items = [requests.item() for _ in range(30)]
        if post(client, f"/{INDEX}/items", items).status == 200:
            written = {item["id"]: item for item in items}
            for key in list(written)[:5]:
                assert client.get(f"/{INDEX}/items/{key}").json == written[key]
        for _ in range(15):
            search = requests.search()
            post(client, f"/{INDEX}/search", search)
            post(client, f"/{INDEX}/search", requests.changed(search))
        facet = requests.facet()
        assert post(client, f"/{INDEX}/facet", facet).status == 200
        post(client, f"/{INDEX}/facet", requests.changed(facet))
        post(client, f"/{INDEX}/items", requests.changed(items))
        post(client, f"/{INDEX}/items/7/partial", requests.changed(items[0]))
        changes = {"filters": requests.search().get("filters", {}), "fields": {"n": 1}}
        post(client, f"/{INDEX}/items/update", requests.changed(changes))
        post(client, "/changed/configuration", requests.changed(configuration))


def run(tmp_path: Path, seed: int, num_rounds: int, seconds: float) -> None:
    """Play rounds, so many or for so long."""
    environment = {"FACETD_LOG_LEVEL": "warning", "FACETD_SHARD_FLUSH_DOCS": "100"}
    requests = RandomRequests(seed)
    with Service(tmp_path / "data", 2, environment=environment) as service:
        client = service.client()
        end = time.monotonic() + seconds
        while num_rounds > 0 or time.monotonic() < end:
            play_round(client, requests)
            num_rounds -= 1
        client.close()
        assert service.log() == ""
        assert service.terminate() == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_random_requests_are_answered_or_refused(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed, SHORT_ROUNDS, 0.0)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_random_requests_are_answered_or_refused_for_long(tmp_path: Path) -> None:
    seed = int(os.environ.get("FACETD_TEST_SEED", str(time.time_ns())))
    print(f"seed {seed}")
    run(tmp_path, seed, 0, 1_200.0)
