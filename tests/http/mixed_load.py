"""A mixed load: everything that clients do to a service all day, over data that stay the same size.

A round is a few hundred requests of all kinds from several clients at once, in random order: pages
of hits, facets, cursors, exports; writes, deletes, bulk loads; configurations, indexes that come
and go, snapshots; mistakes of every kind and connections that break off. The number of live items
is the same after each round, but most values, words and ids are new ones, as they are in a
catalogue that lives: what the service keeps of the old ones would show as growth. (Numbers of facet
values it does keep until an index is rebuilt: each configuration here has other facets.)
"""

from __future__ import annotations

import gzip
import json
import os
import random
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from prometheus_client.parser import text_string_to_metric_families

from tests.service import Client, Reply, Service

INDEX = "mixed"
POPULATION = 3_000
CLIENTS = 4
CLIENT_SECONDS = 90.0
"""Patience of a client; beyond the greatest deadline that a request can have."""
WORDS = [f"{a}{b}{c}" for a in ("ber", "lan", "mor", "sil") for b in "aeiou" for c in ("ta", "nd")]

CONFIGURATIONS: tuple[dict[str, Any], ...] = (
    {
        "aggregations": {"colour": {"conjunction": False}, "tags": {}, "session": {"size": 5}},
        "sorting_fields": ["price"],
    },
    {
        "aggregations": {"colour": {"size": 3}, "tags": {}, "session": {}, "brand": {}},
        "searchable_fields": ["name^3", "text"],
        "stop_words": ["berata"],
    },
)

Request = Callable[[Client], None]


class HasClients(Protocol):
    """What serves the load, wherever it runs."""

    def client(self, timeout: float = 30.0) -> Client:
        """Return a new client."""
        ...


class UnexpectedAnswer(AssertionError):
    """A request got another status than it must get."""


def expect(reply: Reply, *statuses: int) -> Reply:
    """Return an answer that has one of the statuses."""
    if reply.status not in statuses:
        raise UnexpectedAnswer(f"{reply.status} instead of {statuses}: {reply.body[:500]!r}")
    return reply


def _ask(path: str, document: Any) -> Request:
    """Return a request that must be answered with success."""

    def send(client: Client) -> None:
        reply = client.post(path, document)
        try:
            expect(reply, 200)
        except UnexpectedAnswer as error:
            error.add_note(f"asked {path} for {json.dumps(document)[:1000]}")
            raise

    return send


class MixedLoad:
    """The clients of one service.

    Args:
        service: that is running; gets the index `mixed`.
        seed: of everything that is random.
    """

    def __init__(self, service: HasClients, seed: int = 1) -> None:
        self._service = service
        self._random = random.Random(seed)
        self._clients = threading.local()
        self._all_clients: list[Client] = []
        self._number = 0
        self.num_rounds = 0
        self.num_requests = 0

    def begin(self) -> None:
        """Make the index and fill it."""
        client = self._service.client(CLIENT_SECONDS)
        expect(client.post(f"/{INDEX}/configuration", CONFIGURATIONS[0]), 200)
        body = b"\n".join(json.dumps(self._item(key)).encode() for key in range(POPULATION))
        expect(client.post_text(f"/{INDEX}/index", body), 200)
        client.close()

    def round(self) -> None:
        """Send one round; whatever is not answered as it must be raises."""
        requests = [*self._reads(), *self._writes(), *self._mistakes(), *self._rare()]
        self._random.shuffle(requests)
        try:
            with ThreadPoolExecutor(CLIENTS) as pool:
                for result in [pool.submit(self._send, request) for request in requests]:
                    result.result()
        finally:
            for client in self._all_clients:
                client.close()
            self._all_clients.clear()
        self.num_rounds += 1
        self.num_requests += len(requests)
        # Concurrent deletes and additions leave some ids out: the next round begins with all.
        client = self._service.client(CLIENT_SECONDS)
        missing = [self._item(key) for key in range(POPULATION) if key % 10 == 0]
        expect(client.post(f"/{INDEX}/items", missing), 200)
        total = client.search(INDEX, per_page=0)["pagination"]["total"]
        client.close()
        if total != POPULATION:
            raise UnexpectedAnswer(f"{total} items instead of {POPULATION}")

    def _send(self, request: Request) -> None:
        client: Client | None = getattr(self._clients, "client", None)
        if client is None:
            client = self._clients.client = self._service.client(CLIENT_SECONDS)
            self._all_clients.append(client)
        request(client)

    def _item(self, key: int) -> dict[str, Any]:
        """Return a new state of an item: half of its values were never seen before."""
        self._number += 1
        choose = self._random.choice
        return {
            "id": key,
            "name": f"{choose(WORDS)} {choose(WORDS)} n{self._number:x}",
            "text": " ".join(self._random.choices(WORDS, k=20)),
            "colour": choose(("red", "green", "blue", "white")),
            "brand": f"brand {self._random.randrange(300)}",
            "tags": self._random.sample(("a", "b", "c", "d", "e"), self._random.randrange(4)),
            "session": f"s{self._number:x}",
            "price": self._random.randrange(10_000) / 100,
        }

    # --- what a round consists of

    def _reads(self) -> Iterable[Request]:
        """Yield searches of all kinds."""
        r = self._random
        for _ in range(12):
            yield self._search(query=f"{r.choice(WORDS)} {r.choice(WORDS)[:4]}")
            yield self._search(
                query=r.choice(WORDS),
                filters={"colour": r.sample(("red", "green", "blue"), 2), "tags": ["a"]},
            )
            yield self._search(
                filters={"price": {"gte": r.randrange(50), "lt": 50 + r.randrange(50)}},
                sort_field="price",
                order="desc",
                page=r.randrange(1, 20),
            )
        for _ in range(4):
            yield self._search(query=f"{r.choice(WORDS)}x", facet_mode="strict")
            yield self._search(filter=f"price > {r.random() * 90} AND NOT tags = b", sort="name")
            yield self._search(
                query=r.choice(WORDS),
                highlight={"fields": ["name"]},
                snippet={"fields": ["text:8"]},
                facet_ranges={"price": {"interval": 10}},
                distinct={"field": "brand", "limit": 2},
            )
            yield self._facet(name="session", facet_query=f"s{r.randrange(256):x}", per_page=50)
            yield self._facet(name="colour", search_query=r.choice(WORDS))
            yield self._cursor(r.choice(WORDS))
            yield self._get(r.randrange(POPULATION))
            yield self._many(r.choices(WORDS, k=3))
        yield self._export
        yield self._look

    def _writes(self) -> Iterable[Request]:
        """Yield changes; items whose key ends in 0 may be gone until the end of the round."""
        r = self._random
        for _ in range(4):
            yield self._put([self._item(r.randrange(POPULATION)) for _ in range(10)])
            yield self._update(self._item(r.randrange(POPULATION)))
            yield self._partial(r.randrange(POPULATION), {"price": r.random()})
            yield self._delete(r.randrange(POPULATION // 10) * 10)
        yield self._bulk([self._item(r.randrange(POPULATION)) for _ in range(100)])
        yield self._delete_many([r.randrange(POPULATION // 10) * 10 for _ in range(5)])
        yield self._change_many(f"price < {r.random() / 2}", {"brand": "brand x"})

    def _mistakes(self) -> Iterable[Request]:
        """Yield what is refused, and clients that leave."""
        for method, path, body, status in (
            ("GET", f"/{INDEX}/search?page=0", b"", 400),
            ("GET", f"/{INDEX}/search?filter=price%20%3E%3E", b"", 400),
            ("GET", "/absent/search", b"", 404),
            ("GET", f"/{INDEX}/items/absent", b"", 404),
            ("PUT", f"/{INDEX}/search", b"", 405),
            ("POST", f"/{INDEX}/items", b'[{"id":1},', 400),
            ("POST", f"/{INDEX}/items", b'[{"id":-1}]', 400),
            ("POST", f"/{INDEX}/search", b"[" * 10_000, 400),
            ("POST", f"/{INDEX}/configuration", b'{"aggregations":5}', 400),
            ("POST", f"/{INDEX}/search", b'{"cursor":"AAAA"}', 400),
        ):
            yield self._mistake(method, path, body, status)
        yield self._mistaken_bulk
        head = f"POST /{INDEX}/index HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
        refused = f"POST /{INDEX}/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/html\r\n"
        search = f"GET /{INDEX}/search?query=berata HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        export = f"GET /{INDEX}/items HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        for data, num_read in (
            (b"GET /", 0),
            (search, 0),
            (search * 20, 100),
            (export, 5_000),
            (head.encode() + b'Content-Length: 90000\r\n\r\n{"id":1}\n' * 50, 0),
            (refused.encode() + b"Content-Length: 90000\r\n\r\n" + b" " * 500, 100),
        ):
            yield self._break_off(data, num_read)

    def _rare(self) -> Iterable[Request]:
        """Yield what operators do, each in some rounds."""
        number = self.num_rounds
        if number % 4 == 3:
            yield self._configure(CONFIGURATIONS[number // 4 % 2])
        if number % 5 == 1:
            yield self._come_and_go(f"mixed-{number}")
        if number % 8 == 2:
            yield self._snapshot(f"mixed-{number}")

    # --- the kinds of requests

    @staticmethod
    def _search(**parameters: Any) -> Request:
        return _ask(f"/{INDEX}/search", parameters)

    @staticmethod
    def _facet(**parameters: Any) -> Request:
        return _ask(f"/{INDEX}/facet", parameters)

    @staticmethod
    def _get(key: int) -> Request:
        def send(client: Client) -> None:
            expect(client.get(f"/{INDEX}/items/{key}"), 200, 404)

        return send

    @staticmethod
    def _many(words: list[str]) -> Request:
        def send(client: Client) -> None:
            searches = [{"index": INDEX, "query": word, "per_page": 2} for word in words]
            expect(client.post("/_search", {"searches": searches}), 200)

        return send

    @staticmethod
    def _cursor(word: str) -> Request:
        """Three pages of a cursor that is never used up."""

        def send(client: Client) -> None:
            cursor = "*"
            for _ in range(3):
                parameters = {"query": word, "cursor": cursor, "per_page": 5}
                # A configuration that came in between ends the cursor.
                reply = expect(client.post(f"/{INDEX}/search", parameters), 200, 400)
                if reply.status == 400 or "cursor" not in reply.json["pagination"]:
                    return
                cursor = reply.json["pagination"]["cursor"]

        return send

    @staticmethod
    def _export(client: Client) -> None:
        """Not in the order of scores: that ends when a configuration comes between pages."""
        expect(client.get(f"/{INDEX}/items", filter="colour = red"), 200)

    @staticmethod
    def _look(client: Client) -> None:
        for path in ("/_metrics", "/_stats", f"/{INDEX}/stats", "/_indexes", "/_docs", "/status"):
            expect(client.get(path), 200)

    @staticmethod
    def _put(items: list[dict[str, Any]]) -> Request:
        return _ask(f"/{INDEX}/items", items)

    @staticmethod
    def _update(item: dict[str, Any]) -> Request:
        def send(client: Client) -> None:
            expect(client.post(f"/{INDEX}/items/{item['id']}/update", item), 200, 404)

        return send

    @staticmethod
    def _partial(key: int, fields: dict[str, Any]) -> Request:
        def send(client: Client) -> None:
            expect(client.post(f"/{INDEX}/items/{key}/partial", fields), 200, 404)

        return send

    @staticmethod
    def _delete(key: int) -> Request:
        def send(client: Client) -> None:
            expect(client.delete(f"/{INDEX}/items/{key}"), 200, 404)

        return send

    @staticmethod
    def _bulk(items: list[dict[str, Any]]) -> Request:
        body = gzip.compress(b"\n".join(json.dumps(item).encode() for item in items))

        def send(client: Client) -> None:
            headers = {"content-encoding": "gzip"}
            expect(client.post_text(f"/{INDEX}/index", body, **headers), 200)

        return send

    @staticmethod
    def _delete_many(ids: list[int]) -> Request:
        def send(client: Client) -> None:
            expect(client.post(f"/{INDEX}/items/delete", {"ids": ids}), 200)

        return send

    @staticmethod
    def _change_many(condition: str, fields: dict[str, Any]) -> Request:
        def send(client: Client) -> None:
            document = {"filter": condition, "fields": fields}
            expect(client.post(f"/{INDEX}/items/update", document), 200)

        return send

    @staticmethod
    def _mistake(method: str, path: str, body: bytes, status: int) -> Request:
        def send(client: Client) -> None:
            expect(client.request(method, path, body, {"content-type": "application/json"}), status)

        return send

    @staticmethod
    def _mistaken_bulk(client: Client) -> None:
        """A load whose last line is broken: everything before it was spooled."""
        body = b'{"name":"never seen"}\n' * 500 + b'{"name":'
        expect(client.post_text(f"/{INDEX}/index", body), 400)

    def _break_off(self, data: bytes, num_read: int) -> Request:
        def send(client: Client) -> None:
            with socket.create_connection(("127.0.0.1", client.port), CLIENT_SECONDS) as connection:
                connection.sendall(data)
                if num_read:
                    connection.recv(num_read)
                # Closed with a reset, like a client that was killed.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

        return send

    @staticmethod
    def _configure(configuration: dict[str, Any]) -> Request:
        def send(client: Client) -> None:
            expect(client.post(f"/{INDEX}/configuration", configuration), 200)

        return send

    def _come_and_go(self, name: str) -> Request:
        items = [self._item(key) for key in range(200)]

        def send(client: Client) -> None:
            expect(client.post(f"/{name}/configuration", CONFIGURATIONS[1]), 200)
            expect(client.post(f"/{name}/items", items), 200)
            client.search(name, query=WORDS[0])
            client.post("/_aliases", {"aliases": {f"{name}-alias": name}})
            expect(client.delete(f"/{name}"), 200)

        return send

    @staticmethod
    def _snapshot(name: str) -> Request:
        def send(client: Client) -> None:
            expect(client.post("/_snapshots", {"name": name}), 200)
            expect(client.delete(f"/_snapshots/{name}"), 200)

        return send


# --- what there is of everything ----------------------------------------------------------------


class Sample(NamedTuple):
    """What the service takes at one moment, by what it is."""

    at: float
    """Work done until then."""
    values: dict[str, float]


_KINDS = (
    (b"serve", "supervisor"),
    (b"coordinator", "coordinator"),
    (b"--shard-id", "shard"),
    (b"common.process.fork_server", "fork server"),
)
"""Word of a command line, and what the process is."""


def take_sample(service: Service, at: float) -> Sample:
    """Return memory, descriptors and threads of each process, and what the service holds."""
    values: dict[str, float] = {}
    names: Counter[str] = Counter()
    for pid in service.pids():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        kind = next((kind for word, kind in _KINDS if word in words), "process")
        name = f"{kind} {names[kind]}"
        names[kind] += 1
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in rollup[1:]}
        # Files that are mapped count for what is on disk; how much of the programs' own is shared
        # depends on who else runs them.
        values[f"{name} memory KB"] = sizes["Pss_Anon"]
        links = [_link(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        values[f"{name} descriptors"] = len(links)
        values[f"{name} spool files"] = sum("/spool/" in link for link in links)
        values[f"{name} threads"] = len(os.listdir(f"/proc/{pid}/task"))
    client = service.client()
    metrics = text_string_to_metric_families(expect(client.get("/_metrics"), 200).body.decode())
    client.close()
    totals: defaultdict[str, float] = defaultdict(float)
    for family in metrics:
        for sample in family.samples:
            totals[sample.name] += sample.value
    for name in (
        "facetd_allocated_bytes",
        "facetd_python_blocks",
        "facetd_shard_allocated_bytes",
        "facetd_shard_python_blocks",
        "facetd_map_readers",
        "facetd_map_used_bytes",
        "facetd_index_segments",
        "facetd_states_in_use",
        "facetd_connections",
        "facetd_body_bytes_in_flight",
        "facetd_writes_waiting",
        "facetd_shard_calls_in_flight",
    ):
        values[name] = totals[name]
    files = [path for path in service.data.rglob("*") if path.is_file()]
    values["files"] = len(files)
    values["disk KB"] = sum(path.stat().st_size for path in files) / 1024
    return Sample(at, values)


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
