"""Clusters of real processes that tests share, one per number of shards, and indexes in them.

`services(n)` starts `facetd serve --shards n` when it is first asked for and stops it at the end of
the session: with SIGTERM, exit status 0 and no process left. Each test uses an index of its own, so
tests do not disturb each other and no start is paid twice.
"""

from __future__ import annotations

import gzip
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.service import ROOT, Client, Reply, Service

Services = Callable[[int], Service]

DATA = ROOT.parent / "shared" / "data"
"""Real data sets beside the checkout; tests that read them skip without."""

SHARD_COUNTS = (1, 2, 3)
SHARD_COUNTS_OF_CLIENTS = (1, pytest.param(2, marks=pytest.mark.long), 3)
"""Two shards show little that neither one nor three show; the oracles are asked on all numbers."""
on_three_shards = pytest.mark.parametrize("client", [3], indirect=True, ids=["3-shards"])
"""For tests of what the coordinator alone decides, or what the number does not change."""
_numbers = itertools.count()


FILMS = [
    {"id": 1, "name": "The Green Mile", "tags": ["drama", "crime"], "year": 1999, "rating": 8.6},
    {"id": 2, "name": "Pulp Fiction", "tags": ["crime"], "year": 1994, "rating": 8.9},
    {"id": 3, "name": "Forrest Gump", "tags": ["drama", "romance"], "year": 1994, "rating": 8.8},
    {"id": 4, "name": "Fight Club", "tags": ["drama"], "year": 1999, "rating": 8},
    {"id": 5, "name": "Amélie Poulain", "tags": ["romance"], "year": 2001, "rating": 8.3},
    {"id": 6, "name": "Se7en", "tags": [], "year": 1995, "seen": True},
]
CONFIGURATION = {
    "aggregations": {
        "tags": {"title": "Tags", "size": 10},
        "year": {"conjunction": False},
        "seen": {},
    }
}


class Index:
    """One index of a service, over HTTP."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self.path = "/" + quote(name, safe="")

    def configure(self, document: Any) -> Reply:
        """Create or change the index."""
        return self.client.post(f"{self.path}/configuration", document)

    def put(self, items: Any) -> Reply:
        """Add items, or replace them."""
        return self.client.post(f"{self.path}/items", items)

    def load(self, body: bytes, parameters: str = "", **headers: str) -> Reply:
        """Load a bulk body."""
        return self.client.post_text(f"{self.path}/index{parameters}", body, **headers)

    def get(self, page: str, **parameters: Any) -> Reply:
        """GET a page of the index."""
        return self.client.get(f"{self.path}/{page}", **parameters)

    def post(self, page: str, document: Any = None) -> Reply:
        """POST to a page of the index."""
        return self.client.post(f"{self.path}/{page}", document)

    def search(self, **parameters: Any) -> Any:
        """Search; the answer must be a success."""
        return self.client.search(self.name, **parameters)

    def ids(self, **parameters: Any) -> list[Any]:
        """Return the ids of the hits, in their order."""
        return [item["id"] for item in self.search(**parameters)["data"]["items"]]

    def buckets(self, field: str, **parameters: Any) -> list[tuple[str, int]]:
        """Return keys and counts of a facet of a search."""
        return pairs(self.search(**parameters)["data"]["aggregations"][field])


def lines_of_set(name: str) -> list[bytes]:
    """Return the items of a real data set, one a line."""
    path = DATA / name / "items.ndjson.gz"
    if not path.exists():
        pytest.skip(f"no {name} beside the checkout")
    with gzip.open(path) as file:
        return file.readlines()


def around(lines: list[bytes], is_rival: Callable[[bytes], bool]) -> list[bytes]:
    """Return every tenth item, and those that compete for the hits that a test asks for."""
    return [line for number, line in enumerate(lines) if number % 10 == 0 or is_rival(line)]


def lines_about(name: str, texts: Iterable[str], config: pytest.Config) -> list[bytes]:
    """Return the items of a set; without `--long` those that have one of the texts, and some."""
    lines = lines_of_set(name)
    if config.getoption("--long"):
        return lines
    pattern = re.compile("|".join(map(re.escape, texts)).encode(), re.IGNORECASE)
    return around(lines, lambda line: pattern.search(line) is not None)


def index_of_set(
    services: Services,
    name: str,
    index_name: str,
    configuration: dict[str, Any],
    lines: list[bytes] | None = None,
) -> Iterator[Index]:
    """Yield an index of a real data set, or of some of its items; delete it afterwards."""
    lines = lines_of_set(name) if lines is None else lines
    index = Index(services(2).client(), index_name)
    index.configure(configuration)
    assert index.load(b"".join(lines)).status == 200
    yield index
    index.client.delete(index.path)
    index.client.close()


def pairs(facet: Any) -> list[tuple[str, int]]:
    """Return keys and counts of a facet of an answer."""
    return [(bucket["key"], bucket["doc_count"]) for bucket in facet["buckets"]]


def error_of(reply: Reply) -> Any:
    """Return the error of an answer after checking its shape."""
    assert reply.headers["content-type"].startswith("application/json"), reply.body
    error = reply.json["error"]
    assert error["status"] == reply.status
    assert error["request_id"]
    assert error["message"]
    return error


def answers_by_shards(
    services: Services,
    name: str,
    configuration: dict[str, Any],
    items: list[dict[str, Any]],
    searches: list[dict[str, Any]],
) -> list[list[list[dict[str, Any]]]]:
    """Return the items that each search finds, on 1, 2, 3 and 5 shards."""
    answers = []
    for count in (1, 2, 3, 5):
        index = Index(services(count).client(), name)
        try:
            assert index.configure(configuration).status == 200
            assert index.put(items).status < 300
            answers.append([index.search(**search)["data"]["items"] for search in searches])
        finally:
            index.client.delete(index.path)
            index.client.close()
    return answers


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Start clusters by number of shards; stop them all at the end."""
    yield from clusters(tmp_path_factory, "coordinator")


@pytest.fixture(scope="session")
def services_of_many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """The same, for which a dozen items are many."""
    yield from clusters(tmp_path_factory, "tests.small_thresholds")


@pytest.fixture(scope="session", params=["as usual", "few are many"])
def services_of_all_ways(request: pytest.FixtureRequest) -> Services:
    """Clusters that take the ways of small indexes, and clusters that take those of large ones."""
    name = "services" if request.param == "as usual" else "services_of_many"
    chosen: Services = request.getfixturevalue(name)
    return chosen


def clusters(tmp_path_factory: pytest.TempPathFactory, module: str) -> Iterator[Services]:
    """Yield what starts clusters of a program; stop them all at the end."""
    running: dict[int, Service] = {}

    def start(num_shards: int) -> Service:
        if num_shards not in running:
            folder = tmp_path_factory.mktemp(f"cluster-{num_shards}")
            running[num_shards] = Service(folder / "data", num_shards, module=module)
            running[num_shards].start()
        return running[num_shards]

    yield start
    try:
        statuses = [service.terminate() for service in running.values()]
    finally:
        for service in running.values():
            service.kill_all()
    assert statuses == [0] * len(running)


@pytest.fixture(
    scope="session", params=SHARD_COUNTS_OF_CLIENTS, ids=lambda count: f"{count}-shards"
)
def client(request: pytest.FixtureRequest, services: Services) -> Iterator[Client]:
    """A client of a cluster with 1 or 3 shards, with `--long` also 2."""
    client = services(request.param).client()
    yield client
    client.close()


@pytest.fixture
def index(client: Client) -> Iterator[Index]:
    """An index that does not exist yet, under a name that no other test has; deleted afterwards.

    Among hundreds of indexes a service looks for no name that was meant.
    """
    index = Index(client, f"index-{next(_numbers)}")
    yield index
    client.delete(index.path)


@pytest.fixture
def films(index: Index) -> Index:
    """An index with six films, of this test alone."""
    assert index.configure(CONFIGURATION).status == 200
    assert index.put(FILMS).status == 200
    return index


@pytest.fixture(scope="session")
def shared_films(client: Client) -> Iterator[Index]:
    """The same six films for all tests that only read."""
    yield from filled(Index(client, "shared-films"), CONFIGURATION, FILMS)


def filled(index: Index, configuration: Any, items: Any) -> Iterator[Index]:
    """Make an index with some items, and delete it afterwards."""
    assert index.configure(configuration).status == 200
    assert index.put(items).status == 200
    yield index
    index.client.close()  # an idle connection is not kept for as long as some tests take
    index.client.delete(index.path)
