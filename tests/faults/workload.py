"""Writers that record what was acknowledged, and the check of what must be there afterwards.

The structure of Jepsen's set tests: every client writes down each acknowledgement *before* it goes
on; faults happen meanwhile; at the end the whole index is read and compared.

Each writer owns its ids, so the order of operations on one id is known. The state of an id after a
sequence of operations whose last ones got no answer is one of a few: that of the last acknowledged
operation, or of any unanswered one after it.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.service import Client

CONFIGURATION = {
    "aggregations": {
        "colour": {"size": 100, "conjunction": False},
        "tags": {"size": 100},
        "writer": {"size": 100},
    },
    "sorting_fields": ["number"],
}
COLOURS = ["red", "green", "blue", "white", "black"]
TAGS = ["a", "b", "c", "d", "e", "f"]

Item = dict[str, Any]


@dataclass
class Ledger:
    """What one writer knows: per id the states that may be there (None: absent)."""

    possible: dict[str, list[Item | None]] = field(default_factory=dict)
    num_acknowledged: int = 0
    seq_max: int = 0
    problems: list[str] = field(default_factory=list)

    def attempt(self, key: str, state: Item | None) -> None:
        """Note that an operation was sent."""
        self.possible.setdefault(key, [None]).append(state)

    def acknowledge(self, key: str, state: Item | None) -> None:
        """Note that an operation was answered with success: now there is one state."""
        self.possible[key] = [state]
        self.num_acknowledged += 1

    def refuse(self, key: str) -> None:
        """Note that an operation was refused: it changed nothing."""
        self.possible[key].pop()


class Writer(threading.Thread):
    """Adds, replaces, merges, deletes and bulk-loads its own items until told to stop."""

    def __init__(
        self, port: int, index: str, number: int, seed: int, stop: threading.Event
    ) -> None:
        super().__init__(name=f"writer-{number}", daemon=True)
        self.port = port
        self.index = index
        self.number = number
        self.random = random.Random(seed)
        self.stop_event = stop
        self.ledger = Ledger()
        self.version = 0

    def run(self) -> None:
        """Write until stopped; a failed connection is an unknown outcome, never a retry."""
        client = Client(self.port, timeout=15)
        while not self.stop_event.is_set():
            try:
                self.step(client)
            except (OSError, http.client.HTTPException):
                client.close()
                self.stop_event.wait(0.02)
        client.close()

    def make(self, key: str) -> Item:
        """Return a new state of an item."""
        self.version += 1
        return {
            "id": key,
            "writer": f"w{self.number}",
            "number": self.random.randrange(1000),
            "version": self.version,
            "colour": self.random.choice(COLOURS),
            "tags": self.random.sample(TAGS, self.random.randrange(4)),
            "name": f"item {self.random.choice(COLOURS)} {self.random.choice(TAGS)}{self.version}",
        }

    def step(self, client: Client) -> None:
        """Do one random operation."""
        keys = [f"w{self.number}-{self.random.randrange(60)}" for _ in range(12)]
        choice = self.random.random()
        if choice < 0.45:
            self.put(
                client, list(dict.fromkeys(keys[: self.random.randrange(1, 6)])), is_bulk=False
            )
        elif choice < 0.6:
            self.put(client, list(dict.fromkeys(keys)), is_bulk=True)
        elif choice < 0.8:
            self.replace(client, keys[0])
        else:
            self.remove(client, keys[0])

    def put(self, client: Client, keys: list[str], *, is_bulk: bool) -> None:
        items = [self.make(key) for key in keys]
        for item in items:
            self.ledger.attempt(item["id"], item)
        if is_bulk:
            body = b"\n".join(json.dumps(item).encode() for item in items)
            reply = client.post_text(f"/{self.index}/index", body)
        else:
            reply = client.post(f"/{self.index}/items", items)
        if reply.status == 200:
            for item in items:
                self.ledger.acknowledge(item["id"], item)
            self.note_seq(reply.json["seq"])
        elif reply.status < 500:
            self.ledger.problems.append(f"refused: {reply.body!r}")

    def replace(self, client: Client, key: str) -> None:
        item = self.make(key)
        self.ledger.attempt(key, item)
        reply = client.post(f"/{self.index}/items/{key}/update", item)
        if reply.status == 200:
            self.ledger.acknowledge(key, item)
            self.check_visible(client, key, item)
        elif reply.status == 404:
            self.ledger.refuse(key)
            if None not in self.ledger.possible[key]:
                self.ledger.problems.append(f"lost: {key} is 404 while it must be there")

    def remove(self, client: Client, key: str) -> None:
        self.ledger.attempt(key, None)
        reply = client.delete(f"/{self.index}/items/{key}")
        if reply.status == 200:
            self.ledger.acknowledge(key, None)
        elif reply.status == 404:
            self.ledger.refuse(key)
            if None not in self.ledger.possible[key]:
                self.ledger.problems.append(f"lost: {key} is 404 while it must be there")

    def check_visible(self, client: Client, key: str, item: Item) -> None:
        """An acknowledged write is seen at once, by id and by search."""
        reply = client.get(f"/{self.index}/items/{key}")
        if reply.status == 200 and reply.json != item:
            self.ledger.problems.append(f"stale read of {key}: {reply.json} instead of {item}")

    def note_seq(self, seq: int) -> None:
        """The sequence grows with every acknowledged write."""
        if seq <= self.ledger.seq_max:
            self.ledger.problems.append(f"seq {seq} after {self.ledger.seq_max}")
        self.ledger.seq_max = seq


def read_all(client: Client, index: str) -> tuple[list[Item], dict[str, Any]]:
    """Return all items by pages of one search, and its last answer."""
    items: list[Item] = []
    page = 1
    while True:
        answer = client.search(index, page=page, per_page=500)
        items += answer["data"]["items"]
        if len(answer["data"]["items"]) < 500:
            return items, answer
        page += 1


def check(client: Client, index: str, ledgers: list[Ledger]) -> list[str]:
    """Compare what is there with what must be there; return what is wrong.

    Afterwards every ledger knows the one state of each id, so that faults can go on.
    """
    problems = [problem for ledger in ledgers for problem in ledger.problems]
    items, answer = read_all(client, index)
    found = {item["id"]: item for item in items}
    if len(found) != len(items):
        problems.append("an id is there twice")
    if answer["pagination"]["total"] != len(items):
        problems.append(f"total {answer['pagination']['total']} of {len(items)} items")
    for ledger in ledgers:
        ledger.problems.clear()
        for key, possible in ledger.possible.items():
            state = found.pop(key, None)
            if state not in possible:
                kind = "resurrected" if possible == [None] else "lost" if state is None else "torn"
                problems.append(f"{kind}: {key} is {state}, possible are {possible}")
            by_id = client.get(f"/{index}/items/{key}")
            if (by_id.json if by_id.status == 200 else None) != state:
                problems.append(f"search and get differ for {key}: {by_id.body!r} / {state}")
            ledger.possible[key] = [state]
    if found:
        problems.append(f"items that were never written: {sorted(found)}")
    problems += facet_problems(items, answer)
    return problems


def facet_problems(items: list[Item], answer: dict[str, Any]) -> list[str]:
    """Compare the facet counts of an unrestricted search with the items themselves."""
    problems = []
    for name in ("colour", "tags", "writer"):
        expected: Counter[str] = Counter()
        for item in items:
            values = item[name] if isinstance(item[name], list) else [item[name]]
            expected.update(set(values))
        buckets = answer["data"]["aggregations"][name]["buckets"]
        counted = {bucket["key"]: bucket["doc_count"] for bucket in buckets}
        if counted != dict(expected):
            problems.append(f"facet {name}: {counted} instead of {dict(expected)}")
    return problems
