"""A service that is traced while it works, and what was asked of it meanwhile."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.shard_settings import ShardSettings
from tests.faults.disk_states import History
from tests.faults.disk_trace import Change, Trace, join
from tests.service import Client, Reply, Service
from tests.waiting import wait_until

NUM_SHARDS = 2
SETTINGS = {
    "FACETD_SHARD_FLUSH_DOCS": "40",  # small files, and many of them
    "FACETD_SHARD_IDLE_MS": "100",
}
SHARD_SETTINGS = ShardSettings(flush_docs=40, map_bytes_max=1 << 30)

Item = dict[str, Any]


@dataclass
class Attempt:
    """Something that was asked for: when, whether and when it was acknowledged, what it makes."""

    sent_at: float
    state: Any
    acknowledged_at: float = 1e99


@dataclass
class Journal:
    """Everything that was asked of a service, by what it concerns.

    Keys are (index, id) for items, (index,) for configurations, and ("", name) for snapshots; a
    state of None means: not there.
    """

    attempts: dict[tuple[str, ...], list[Attempt]] = field(default_factory=dict)

    def ask(
        self, client: Client, states: dict[tuple[str, ...], Any], send: Callable[[], Reply]
    ) -> None:
        """Send a request that makes states; note when, and when it was acknowledged."""
        sent_at = time.time()
        attempts = []
        for key, state in states.items():
            attempts.append(Attempt(sent_at, state))
            self.attempts.setdefault(key, []).append(attempts[-1])
        try:
            reply = send()
        except OSError:
            client.close()
            return
        assert reply.status == 200, reply.body
        for attempt in attempts:
            attempt.acknowledged_at = time.time()

    def possible(self, key: tuple[str, ...], moment: float) -> list[Any]:
        """Return the states that there may be if nothing was done after a moment."""
        states = [None]
        for attempt in self.attempts.get(key, ()):
            if attempt.acknowledged_at < moment:
                states = [attempt.state]
            elif attempt.sent_at < moment:
                states.append(attempt.state)
        return states


def make_item(key: str, version: int, generator: random.Random) -> Item:
    return {
        "id": key,
        "version": version,
        "colour": generator.choice(["red", "green", "blue"]),
        "tags": generator.sample(["a", "b", "c", "d"], generator.randrange(4)),
        "name": f"thing {version} of {key}",
        "text": generator.randbytes(generator.choice([10, 60, 700])).hex(),
    }


def write(port: int, journal: Journal, number: int, rounds: int, seed: int) -> None:
    """Add, replace, merge, delete and load items of one writer's own."""
    generator = random.Random(seed)
    client = Client(port)
    stored: dict[str, Item] = {}
    for version in range(rounds):
        keys = [f"w{number}-{generator.randrange(40)}" for _ in range(generator.randrange(1, 9))]
        items = {key: make_item(key, version, generator) for key in keys}
        states: dict[tuple[str, ...], Any] = {("a", key): item for key, item in items.items()}
        choice = generator.random()
        if choice < 0.2 and stored:
            key = generator.choice(sorted(stored))
            changed = {**stored[key], "version": version, "colour": "merged"}
            stored[key] = changed
            body = {"version": version, "colour": "merged"}
            path = f"/a/items/{key}/partial"
            journal.ask(client, {("a", key): changed}, lambda p=path, b=body: client.post(p, b))  # type: ignore[misc]
            continue
        if choice < 0.4 and stored:
            key = generator.choice(sorted(stored))
            del stored[key]
            path = f"/a/items/{key}"
            journal.ask(client, {("a", key): None}, lambda p=path: client.delete(p))  # type: ignore[misc]
            continue
        stored.update(items)
        if choice < 0.6:
            body_text = b"\n".join(json.dumps(item).encode() for item in items.values())
            journal.ask(client, states, lambda b=body_text: client.post_text("/a/index", b))  # type: ignore[misc]
        else:
            journal.ask(client, states, lambda i=items: client.post("/a/items", list(i.values())))  # type: ignore[misc]
    client.close()


def configure(client: Client, journal: Journal, index: str, *facets: str) -> None:
    configuration = {"aggregations": {facet: {"size": 100} for facet in facets}}
    states: dict[tuple[str, ...], Any] = {(index,): configuration}
    journal.ask(client, states, lambda: client.post(f"/{index}/configuration", configuration))


def write_together(port: int, journal: Journal, first: int, rounds: int) -> None:
    """Let three writers write at once, so that groups have several of them."""
    threads = [
        threading.Thread(target=write, args=(port, journal, number, rounds, number))
        for number in range(first, first + 3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@dataclass
class Recording:
    """A run with all that it asked for and all that it wrote."""

    data: Path
    history: History
    journal: Journal
    second_run: list[Change]


def stored_indexes(client: Client) -> list[dict[str, Any]]:
    """Return what the shards say of their indexes."""
    return [index for shard in client.get("/_stats").json["shards"] for index in shard["indexes"]]


def is_merged(client: Client) -> bool:
    """Return whether the shards have merged what they have, and so removed dead records.

    A segment with less than a tenth of the documents of the other stays by itself when writes stop.
    """
    indexes = stored_indexes(client)
    return bool(indexes) and all(one["segments"] <= 2 and not one["merging"] for one in indexes)


def write_everything(port: int, client: Client, journal: Journal) -> None:
    """Ask for every kind of write: items, configurations, an index deleted, snapshots."""
    configure(client, journal, "a", "colour")
    write_together(port, journal, 0, 14)
    configure(client, journal, "b", "colour")
    item = {"id": 1, "colour": "red"}
    journal.ask(client, {("b", "1"): item}, lambda: client.post("/b/items", [item]))
    configure(client, journal, "a", "colour", "tags")
    journal.ask(client, {("", "one"): True}, lambda: client.post("/_snapshots", {"name": "one"}))
    journal.ask(client, {("b",): None}, lambda: client.delete("/b"))
    journal.ask(client, {("", "two"): True}, lambda: client.post("/_snapshots", {"name": "two"}))
    journal.ask(client, {("", "one"): None}, lambda: client.delete("/_snapshots/one"))
    write_together(port, journal, 3, 5)


def record(folder: Path) -> Recording:
    """Run a service through everything that writes, with a SIGKILL in the middle, and trace it."""
    data = folder.resolve() / "data"
    traces = [Trace(data, folder / f"trace-{run}") for run in range(2)]
    journal = Journal()
    service = Service(data, NUM_SHARDS, environment=SETTINGS, wrapper=traces[0].wrapper)
    with service:
        with closing(service.client()) as client:
            write_everything(service.port, client, journal)
        service.kill_all()
        first = traces[0].changes()
        service.wrapper = traces[1].wrapper
        service.start()
        with closing(service.client()) as client:
            write_together(service.port, journal, 6, 8)
            wait_until(lambda: is_merged(client), problem=lambda: stored_indexes(client))
            last = {"id": "last", "colour": "red"}
            journal.ask(client, {("a", "last"): last}, lambda: client.post("/a/items", [last]))
        assert service.terminate() == 0
    second = traces[1].changes()
    return Recording(data, History(data, join(first, second)), journal, second)
