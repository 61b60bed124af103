"""Kills in the middle of changes of indexes, aliases, snapshots and keys: the old state or the new.

    a random change ──▶ sent, and after a random moment something is killed
                        ├─ answered with success    the state after the change
                        ├─ refused                  the state before it
                        └─ no answer, or a 5xx      one of the two, never anything between

Each round sends one change, kills a shard, the coordinator, or everything with SIGKILL, waits until
the service is ready again and reads all of its state. A change that has not happened is sent once
more, and succeeds. Nothing is left behind on the disk that no list shows.
"""

from __future__ import annotations

import http.client
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.catalog.catalog_file import read_state
from tests.service import Client, Reply, Service
from tests.waiting import wait_until

NUM_ITEMS = 1_200
NUM_GROUPS = 5
INDEXES_MAX = 6
VERSIONED = "versioned"
"""Id of the item that is written repeatedly."""


@dataclass(frozen=True)
class Content:
    """What is in an index."""

    origin: str
    """Name of the index that its items were written to."""
    version: int = 0
    """Of one of its items, the only one that changes."""
    searches_texts: bool = False


@dataclass(frozen=True)
class State:
    """What a service has, as far as clients can see it."""

    indexes: dict[str, Content] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    snapshots: dict[str, dict[str, Content]] = field(default_factory=dict)
    keys: frozenset[str] = frozenset()
    """Descriptions."""

    def renamed(self, name: str, new_name: str) -> State:
        """Return the state after an index got another name, which an index may have."""
        indexes = {new_name if one == name else one: self.indexes[one] for one in self.indexes}
        indexes[new_name] = self.indexes[name]
        aliases = {
            alias: new_name if target == name else target for alias, target in self.aliases.items()
        }
        return replace(self, indexes=indexes, aliases=aliases)


@dataclass(frozen=True)
class Change:
    """A request, and the state after it."""

    kind: str
    method: str
    path: str
    body: Any
    after: State


def configuration(*, searches_texts: bool) -> dict[str, Any]:
    fields = ["title", "text"] if searches_texts else ["title"]
    return {"aggregations": {"group": {}, "origin": {}}, "searchable_fields": fields}


class Dice:
    """Makes random changes.

    Args:
        seed: of the chance.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.number = 0

    def change(self, state: State) -> Change:
        """Return a change that is possible in a state."""
        self.number += 1
        kinds = [*_KINDS]
        if len(state.indexes) >= INDEXES_MAX:
            kinds = ["delete", "move over", "copy over", "delete", *kinds]
        while True:
            kind = self.chance.choice(kinds)
            made = _KINDS[kind](self, state)
            if made is not None and len(made.after.indexes) <= INDEXES_MAX + 1:
                return replace(made, kind=kind)

    def name(self, known: Any) -> str:
        return str(self.chance.choice(sorted(known)))

    def two(self, state: State) -> tuple[str, str]:
        first, second = self.chance.sample(sorted(state.indexes), 2)
        return first, second


def _post(path: str, body: Any, after: State) -> Change:
    return Change("", "POST", path, body, after)


def _create(dice: Dice, state: State) -> Change:
    name = f"made-{dice.number}"
    indexes = state.indexes | {name: Content("")}
    body = configuration(searches_texts=False)
    return _post(f"/{name}/configuration", body, replace(state, indexes=indexes))


def _rename(dice: Dice, state: State) -> Change:
    name, new_name = dice.name(state.indexes), f"renamed-{dice.number}"
    after = state.renamed(name, new_name)
    body: dict[str, Any] = {"to": new_name}
    if dice.chance.random() < 0.5:
        body["alias"] = True
        after = replace(after, aliases=after.aliases | {name: new_name})
    return _post(f"/{name}/rename", body, after)


def _move_over(dice: Dice, state: State) -> Change | None:
    if len(state.indexes) < 3:
        return None
    name, new_name = dice.two(state)
    after = state.renamed(name, new_name)
    body = {"operation": "move", "destination": new_name}
    return _post(f"/1/indexes/{name}/operation", body, after)


def _copy(dice: Dice, state: State) -> Change:
    name, new_name = dice.name(state.indexes), f"copied-{dice.number}"
    indexes = state.indexes | {new_name: state.indexes[name]}
    return _post(f"/{name}/copy", {"to": new_name}, replace(state, indexes=indexes))


def _copy_over(dice: Dice, state: State) -> Change | None:
    if len(state.indexes) < 2:
        return None
    name, new_name = dice.two(state)
    indexes = state.indexes | {new_name: state.indexes[name]}
    body = {"operation": "copy", "destination": new_name}
    return _post(f"/1/indexes/{name}/operation", body, replace(state, indexes=indexes))


def _delete(dice: Dice, state: State) -> Change | None:
    if len(state.indexes) < 3:
        return None
    name = dice.name(state.indexes)
    indexes = {one: content for one, content in state.indexes.items() if one != name}
    aliases = {alias: target for alias, target in state.aliases.items() if target != name}
    return Change("", "DELETE", f"/{name}", None, replace(state, indexes=indexes, aliases=aliases))


def _configure(dice: Dice, state: State) -> Change:
    name = dice.name(state.indexes)
    former = state.indexes[name]
    content = replace(former, searches_texts=not former.searches_texts)
    after = replace(state, indexes=state.indexes | {name: content})
    body = configuration(searches_texts=content.searches_texts)
    return _post(f"/{name}/configuration", body, after)


def _set_aliases(dice: Dice, state: State) -> Change:
    changes: dict[str, str | None] = {"now": dice.name(state.indexes)}
    if state.aliases and dice.chance.random() < 0.3:
        changes[dice.name(state.aliases)] = None
    if dice.chance.random() < 0.5:
        changes["later"] = dice.name(state.indexes)
    aliases = {
        alias: target
        for alias, target in {**state.aliases, **changes}.items()
        if target is not None
    }
    return _post("/_aliases", {"aliases": changes}, replace(state, aliases=aliases))


def _make_snapshot(dice: Dice, state: State) -> Change | None:
    if len(state.snapshots) > 4:
        return None
    name = f"snapshot-{dice.number}"
    snapshots = state.snapshots | {name: state.indexes}
    return _post("/_snapshots", {"name": name}, replace(state, snapshots=snapshots))


def _remove_snapshot(dice: Dice, state: State) -> Change | None:
    if not state.snapshots:
        return None
    name = dice.name(state.snapshots)
    snapshots = {one: content for one, content in state.snapshots.items() if one != name}
    return Change("", "DELETE", f"/_snapshots/{name}", None, replace(state, snapshots=snapshots))


def _restore(dice: Dice, state: State) -> Change | None:
    if not state.snapshots:
        return None
    name, new_name = dice.name(state.snapshots), f"restored-{dice.number}"
    chosen = dice.name(state.snapshots[name])
    indexes = state.indexes | {new_name: state.snapshots[name][chosen]}
    body = {"indexes": [chosen], "rename": {chosen: new_name}}
    return _post(f"/_snapshots/{name}/restore", body, replace(state, indexes=indexes))


def _make_key(dice: Dice, state: State) -> Change:
    description = f"key {dice.number}"
    body = {"actions": ["search"], "description": description}
    return _post("/_keys", body, replace(state, keys=state.keys | {description}))


_KINDS: dict[str, Callable[[Dice, State], Change | None]] = {
    "create": _create,
    "rename": _rename,
    "move over": _move_over,
    "copy": _copy,
    "copy over": _copy_over,
    "delete": _delete,
    "configure": _configure,
    "aliases": _set_aliases,
    "snapshot": _make_snapshot,
    "snapshot removed": _remove_snapshot,
    "restore": _restore,
    "key": _make_key,
}


class Bench:
    """A service, and what it must have.

    Args:
        service: which runs.
        seed: of the chance.
    """

    def __init__(self, service: Service, seed: int) -> None:
        self.service = service
        self.dice = Dice(seed)
        self.chance = self.dice.chance
        self.client = service.client()
        self.outcomes: Counter[tuple[str, str, str]] = Counter()
        self.num_versions = 0
        self.has_readers = service.arguments not in ((), ("--coordinators", "1"))
        description = "for this test"
        made = self.client.post("/_keys", {"actions": ["admin", "configure", "write", "search"],
                                           "description": description})  # fmt: skip
        assert made.status == 200, made.body
        self.headers = {"X-API-Key": made.json["key"]}
        self.client.headers = self.headers
        self.state = State(keys=frozenset({description}))
        for name in ("first", "second"):
            self.fill(name)

    def fill(self, name: str) -> None:
        """Make an index with items."""
        body = configuration(searches_texts=False)
        assert self.client.post(f"/{name}/configuration", body).status == 200
        items: list[dict[str, Any]] = [
            {"id": n, "group": f"g{n % NUM_GROUPS}", "origin": name, "text": f"text {n}"}
            for n in range(NUM_ITEMS)
        ]
        items.append({"id": VERSIONED, "version": 0, "origin": name, "text": "text"})
        assert self.client.post(f"/{name}/items", items).status == 200
        self.state = replace(self.state, indexes=self.state.indexes | {name: Content(name)})

    def write(self) -> None:
        """Write to an index, so that its newest state is not in its files yet."""
        name = self.dice.name(self.state.indexes)
        content = self.state.indexes[name]
        if content.origin:
            self.num_versions += 1
            item = {"id": VERSIONED, "version": self.num_versions, "origin": content.origin,
                    "text": "text"}  # fmt: skip
            assert self.client.post(f"/{name}/items", [item]).status == 200
            content = replace(content, version=self.num_versions)
            self.state = replace(self.state, indexes=self.state.indexes | {name: content})

    # --- a round

    def round(self) -> None:
        """Send a change, kill something meanwhile, and see what came of it."""
        for _ in range(self.chance.randrange(3)):
            self.write()
        change = self.dice.change(self.state)
        victim = self.chance.choice(["shard", "coordinator", "all", "nothing"])
        replies: list[Reply] = []

        def send() -> None:
            with closing(self.service.client(60)) as client:
                client.headers = self.headers
                with suppress(OSError, http.client.HTTPException):
                    replies.append(send_change(client, change))

        sending = threading.Thread(target=send)
        sending.start()
        time.sleep(self.chance.choice([0.001, 0.01, 0.03, 0.1, 0.3]) * self.chance.random())
        self.kill(victim)
        sending.join(90)
        assert not sending.is_alive(), "a request hung"
        if victim == "all":
            self.service.start()
        self.service.wait_ready(30)
        status = replies[0].status if replies else 0
        self.outcomes[change.kind, victim, str(status or "none")] += 1
        where = (change.kind, change.path, change.body, victim, replies)
        found = self.look(where)
        if 200 <= status < 300:
            assert found == change.after, where
        elif 400 <= status < 500:
            assert victim != "nothing", where
            assert found == self.state, where
        else:
            assert found in (self.state, change.after), where
        if found == self.state and found != change.after:
            again = send_change(self.client, change)
            # A reader that was killed may have left its request with the owner, who goes on.
            may_be_late = status == 0 and victim == "coordinator" and self.has_readers
            done = (200, 404, 409) if may_be_late else (200,)
            assert again.status in done, (where, again.body)
            assert self.look(where) == change.after, where
        self.state = change.after

    def kill(self, victim: str) -> None:
        """SIGKILL something."""
        self.client.close()
        if victim == "all":
            self.service.kill_all()
        elif victim != "nothing":
            pids = self.service.pids_of(victim)
            for pid in pids[: self.chance.randrange(1, len(pids) + 1)]:
                os.kill(pid, signal.SIGKILL)

    # --- what is there

    def look(self, where: Any) -> State:
        """Read the state of the service; it must be consistent."""
        client = self.client
        listed = client.get("/_indexes").json["indexes"]
        indexes = {one["name"]: self.content(one["name"], where) for one in listed}
        aliases = client.get("/_aliases").json["aliases"]
        for alias, target in aliases.items():
            assert self.content(alias, where) == indexes[target], where
        snapshots = {}
        for one in client.get("/_snapshots").json["snapshots"]:
            names = sorted(index["name"] for index in one["indexes"])
            known = self.state.snapshots.get(one["name"], self.state.indexes)
            assert names == sorted(known), where
            snapshots[one["name"]] = known
        keys = [key["description"] for key in client.get("/_keys").json["keys"]]
        assert len(set(keys)) == len(keys), where
        self.check_folders(where)
        return State(indexes, aliases, snapshots, frozenset(keys))

    def content(self, name: str, where: Any) -> Content:
        """Read an index; counts, searches and items must agree."""
        client = self.client
        answer = client.search(name, facet_fields=["group", "origin"], per_page=1)
        total = answer["pagination"]["total"]
        counts = {
            field: {bucket["key"]: bucket["doc_count"] for bucket in one["buckets"]}
            for field, one in answer["data"]["aggregations"].items()
        }
        document = client.get(f"/{name}/configuration").json
        searches_texts = "text" in document["searchable_fields"]
        assert document == configuration(searches_texts=searches_texts), where
        by_text = client.search(name, query="text", per_page=0)["pagination"]["total"]
        assert by_text == (total if searches_texts else 0), (where, name, by_text)
        if total == 0:
            return Content("", searches_texts=searches_texts)
        assert total == NUM_ITEMS + 1, (where, name, total)
        each = NUM_ITEMS // NUM_GROUPS
        assert counts["group"] == {f"g{n}": each for n in range(NUM_GROUPS)}, (where, counts)
        assert list(counts["origin"].values()) == [total], (where, counts)
        (origin,) = counts["origin"]
        reply = client.get(f"/{name}/items/{VERSIONED}")
        assert reply.status == 200, (where, reply)
        item = reply.json
        assert item["origin"] == origin, where
        return Content(origin, item["version"], searches_texts)

    def check_folders(self, where: Any) -> None:
        """The shards have no folders of other indexes, and need no snapshot any more."""
        data = self.service.data

        def is_exact() -> bool:
            state = read_state(data / "catalog.json")
            known = {f"index-{one.number}" for one in state.indexes}
            return not any(one.source for one in state.indexes) and all(
                {path.name for path in (data / f"shard-{shard}").glob("index-*")} <= known
                for shard in range(self.service.num_shards)
            )

        wait_until(is_exact, problem=lambda: (where, sorted(data.glob("shard-*/index-*"))))

    def end(self) -> None:
        """Start once more; what is on disk is what there must be."""
        self.client.close()
        assert self.service.terminate() == 0
        self.service.start()
        assert self.look("at the end") == self.state
        data = self.service.data
        left = {path.name for path in data.glob("snapshots/*")}
        assert left == self.state.snapshots.keys(), left
        assert not list(data.rglob("*.tmp*"))
        self.client.close()


def send_change(client: Client, change: Change) -> Reply:
    """Send the request of a change."""
    if change.method == "DELETE":
        return client.delete(change.path)
    return client.post(change.path, change.body)


def run_rounds(
    data: Path, num_shards: int, num_rounds: int, seed: int, num_coordinators: int = 1
) -> Counter[Any]:
    """Run rounds on one data directory; raises at the first one that shows a problem."""
    arguments = ("--coordinators", str(num_coordinators))
    with Service(data, num_shards, arguments=arguments) as service:
        bench = Bench(service, seed)
        for _ in range(num_rounds):
            bench.round()
        bench.end()
    return bench.outcomes


@pytest.mark.timeout(240)
def test_a_killed_change_has_happened_or_not(tmp_path: Path) -> None:
    run_rounds(tmp_path / "data", 2, 8, seed=1)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("num_shards", "num_coordinators"), [(1, 1), (2, 2), (3, 1)])
def test_hundreds_of_killed_changes_have_happened_or_not(
    tmp_path: Path, num_shards: int, num_coordinators: int
) -> None:
    seed = 100 + num_shards
    outcomes = run_rounds(tmp_path / "data", num_shards, 150, seed, num_coordinators)
    unanswered = {kind for kind, _, status in outcomes if status in ("none", "503", "500")}
    assert len(unanswered) > len(_KINDS) // 2
