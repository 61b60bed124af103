"""Requests and responses, and the check that they are consistent.

Every client owns its items and does one thing after the other, so the order of the writes to one
item is known. A write ends in one of three ways:

- *acknowledged*, with its seq: a search sees it exactly if its horizon (`meta.seq`) is at least
  that seq. The horizon of a search that began after the acknowledgement must be;
- *refused* (404): it changed nothing;
- *unknown* (503, 504, a lost connection): each shard has its part whole or not at all. The client
  finds out by GET before it goes on; from then on the part is there for good, or never was.

So the state that an answer must show is known, but for the parts of unknown writes that turned out
to be there although no client had seen them yet. An answer is right if it is the model's for one
choice of these. Configurations are in force one after the other; while one is being posted, either.

Items that several clients change, on conditions, are judged in `cells.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from common.item_placement import shard_of_id
from tests.oracle.engine import Found, Oracle
from tests.oracle.items import Item, compact
from tests.simulation.cells import Cells

Json = dict[str, Any]

CHOICES_MAX = 4_096


@dataclass(slots=True)
class Write:
    """One write: the states that it gives to items (None: absent), absolutely."""

    client: int
    invoked: int
    effects: dict[str, Item | None]
    returned: int = 0
    """When it was answered, or found out."""
    seq: int | None = None
    present: frozenset[str] | None = None
    """Of an unknown one that was found out: the items that have the state it gave them."""


@dataclass(slots=True)
class Change:
    """One posted configuration."""

    invoked: int
    configuration: Json
    returned: int = 0
    is_in_force: bool = False


@dataclass(slots=True)
class Read:
    """One search, or all pages of a cursor."""

    client: int
    invoked: int
    returned: int
    parameters: Json
    answer: Json
    is_ordered: bool
    """Whether the order of hits is known (sorted by a field of unique values)."""


@dataclass(slots=True)
class Get:
    """One item by its id."""

    invoked: int
    returned: int
    key: str
    item: Item | None


@dataclass
class History:
    """All of one simulation."""

    num_shards: int
    writes: dict[int, list[Write]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    gets: list[Get] = field(default_factory=list)
    cells: Cells = field(default_factory=Cells)

    def check(self) -> None:
        """Raise AssertionError at the first answer that cannot be."""
        self._check_seqs()
        for get in self.gets:
            self._check_get(get)
        for read in self.reads:
            self._check_read(read)
        self._check_horizons()
        self.cells.check()

    @property
    def num_acknowledged(self) -> int:
        return sum(write.seq is not None for own in self.writes.values() for write in own)

    def state_of(self, client: int) -> dict[str, Item]:
        """Return the items of a client as they are when all of its writes are found out."""
        state: dict[str, Item | None] = {}
        for write in self.writes.get(client, []):
            present = write.effects if write.present is None else write.present
            state.update({key: write.effects[key] for key in present})
        return {key: item for key, item in state.items() if item is not None}

    # --- writes

    def _check_seqs(self) -> None:
        """Whatever was acknowledged before another write began has a smaller seq."""
        acknowledged = sorted(
            (write for own in self.writes.values() for write in own if write.seq is not None),
            key=lambda write: write.invoked,
        )
        for later in acknowledged:
            for earlier in acknowledged:
                if earlier.returned < later.invoked:
                    assert (earlier.seq or 0) < (later.seq or 0), (earlier, later)

    def _check_horizons(self) -> None:
        """Time never goes back: who asks later sees no older state."""
        newest, position = -1, 0
        ended = sorted(self.reads, key=lambda read: read.returned)
        for read in sorted(self.reads, key=lambda read: read.invoked):
            while position < len(ended) and ended[position].returned < read.invoked:
                newest = max(newest, ended[position].answer["meta"]["seq"])
                position += 1
            assert read.answer["meta"]["seq"] >= newest, ("an older state", newest, read)

    # --- one item

    def _check_get(self, get: Get) -> None:
        """A GET shows a state that the item had at some moment between question and answer."""
        possible: list[Item | None] = [None]
        for write in self.writes.get(owner_of(get.key), []):
            if get.key not in write.effects or write.invoked > get.returned:
                continue
            if write.present is not None and get.key not in write.present:
                continue
            state = write.effects[get.key]
            if write.returned < get.invoked:
                possible = [state]
            else:
                possible.append(state)
        assert get.item in possible, (get, possible)

    # --- searches

    def _check_read(self, read: Read) -> None:
        horizon = read.answer["meta"]["seq"]
        problems = []
        for configuration in self._configurations(read):
            for state in self._states(read, horizon):
                for items in self._parts(read, state):
                    oracle = Oracle(configuration)
                    oracle.items.update(items)
                    found = oracle.search(**read.parameters)
                    problem = difference(read, found)
                    if problem is None:
                        return
                    problems.append(problem)
        raise AssertionError(
            f"client {read.client} at {read.invoked}-{read.returned}: no admissible state gives "
            f"this answer to {read.parameters} (horizon {horizon}): {problems[:3]}"
        )

    def _configurations(self, read: Read) -> list[Json]:
        possible: list[Json] = []
        for change in self.changes:
            if change.invoked > read.returned or not change.is_in_force:
                continue
            if change.returned < read.invoked:
                possible = []
            possible.append(change.configuration)
        return possible

    def _states(self, read: Read, horizon: int) -> Iterator[dict[str, Item]]:
        """Yield the states that a search of a horizon may show."""
        free: list[tuple[Write, int]] = []
        for own in self.writes.values():
            for write in own:
                if write.seq is not None:
                    if write.returned < read.invoked:
                        assert write.seq <= horizon, ("an acknowledged write is not seen",
                                                      write, read)  # fmt: skip
                    elif write.invoked > read.returned:
                        assert write.seq > horizon, ("seen before it was sent", write, read)
                elif (
                    write.present
                    and write.invoked < read.returned
                    and (write.returned >= read.invoked)
                ):
                    shards = {self._shard(key) for key in write.present}
                    free += [(write, shard) for shard in sorted(shards)]
        num_choices = 2 ** len(free)
        assert num_choices <= CHOICES_MAX, f"{num_choices} states to be tried"
        for chosen in itertools.product((False, True), repeat=len(free)):
            parts = {(id(write), shard) for (write, shard), is_in in
                     zip(free, chosen, strict=True) if is_in}  # fmt: skip
            yield self._state(read, horizon, parts)

    def _state(self, read: Read, horizon: int, parts: set[tuple[int, int]]) -> dict[str, Item]:
        state: dict[str, Item | None] = {}
        for own in self.writes.values():
            for write in own:
                if write.seq is not None:
                    if write.seq <= horizon:
                        state.update(write.effects)
                elif write.present and write.invoked < read.returned:
                    is_found_out = write.returned < read.invoked
                    for key in write.present:
                        if is_found_out or (id(write), self._shard(key)) in parts:
                            state[key] = write.effects[key]
        return {key: item for key, item in state.items() if item is not None}

    def _parts(self, read: Read, state: dict[str, Item]) -> Iterator[dict[str, Item]]:
        """Yield the state, or what some shards have of it if the answer says that others failed."""
        shards = read.answer["meta"]["shards"]
        assert shards["total"] == self.num_shards
        assert shards["ok"] + shards["failed"] == shards["total"]
        if not shards["failed"]:
            yield state
            return
        assert read.parameters.get("partial") == "allow", "a part was not asked for"
        for those in itertools.combinations(range(self.num_shards), shards["ok"]):
            yield {key: item for key, item in state.items() if self._shard(key) in those}

    def _shard(self, key: str) -> int:
        return shard_of_id(key.encode(), self.num_shards)


def owner_of(key: str) -> int:
    """Return the client that an item belongs to: `w3-17` is of client 3."""
    return int(key.partition("-")[0].removeprefix("w"))


def difference(read: Read, found: Found) -> str | None:
    """Return how an answer differs from the model's; None if it does not."""
    answer = read.answer
    if answer["pagination"]["total"] != found.total:
        return f"total {answer['pagination']['total']}, not {found.total}"
    problem = _items_differ(read, answer["data"]["items"], found)
    if problem is not None:
        return problem
    shown = {
        name: [(one["key"], one["doc_count"], one["selected"]) for one in facet["buckets"]]
        for name, facet in answer["data"]["aggregations"].items()
    }
    if shown != found.facets:
        return f"facets {shown}, not {found.facets}"
    for name, stats in found.stats.items():
        told = answer["data"]["aggregations"][name].get("facet_stats")
        if stats is None:
            if told and told["count"]:
                return f"statistics {told} of nothing"
        elif told != pytest.approx(stats):
            return f"statistics {told}, not {stats}"
    return None


def _items_differ(read: Read, items: Sequence[Item], found: Found) -> str | None:
    if read.is_ordered:
        if items == found.items:
            return None
        ours, theirs = (
            [[one["id"], one["version"]] for one in found.items],
            [[one["id"], one["version"]] for one in items],
        )
        return f"items {theirs}, not {ours}"
    if len(items) != len(found.items):
        return f"{len(items)} items on the page, not {len(found.items)}"
    matching = {compact(item) for item in found.matching}
    wrong = [item for item in items if compact(item) not in matching]
    if wrong:
        return f"items that do not match: {wrong}"
    if len({compact(item) for item in items}) != len(items):
        return "an item is there twice"
    return None
