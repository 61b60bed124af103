"""The load of a simulation's clients, and the faults of the service."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final

from tests.oracle.items import Item
from tests.simulation import cells
from tests.simulation.cells import CELLS, NOTHING_WRITTEN, SILENCE, CellUser, tokens_of
from tests.simulation.client import Client, Reply
from tests.simulation.history import Change, Get, History, Json, Read, Write
from tests.simulation.service import Machine

INDEX: Final = "things"
SCRATCH: Final = "scratch"
GOES_ON_SECONDS: Final = 120.0
"""After which a change that outlived its deadline has come to an end."""
KEYS: Final = 14
"""Items that one client has at most."""
COLOURS: Final = ("red", "green", "blue", "white", "black")
TAGS: Final = ("a", "b", "c", "d")
WORDS: Final = ("seal", "search", "green", "chocolate", "mile", "films", "tide")
QUERIES: Final = (
    *WORDS,
    "se",
    "sear",
    "chocolaet",
    "film",
    "tide mile",
    "mil",
    "seal tide",
    "nope",
)
EVERYTHING: Final[Json] = {
    "query": "", "per_page": 1000, "sort_field": "version", "order": "asc"
}  # fmt: skip

READY_SECONDS: Final = 60.0
"""Of the simulated time: a write may be waited for 30 s before its connection is given up."""


class Actor:
    """One client: does one thing after the other, and writes everything down.

    Args:
        number: of the client; the first one also changes the configuration.
        num_operations: how many things it does.

    Attributes:
        cursors_may_end: also while no process ends.
    """

    cursors_may_end: ClassVar[bool] = False

    def __init__(
        self, machine: Machine, history: History, number: int, num_operations: int
    ) -> None:
        self.number = number
        self._machine = machine
        self._world = machine.world
        self._client = Client()
        self._history = history
        self._dice = random.Random(self._world.random.random())
        self._num_operations = num_operations
        self._version = number
        self._scratch: dict[str, Item] | None = None
        self._scratch_number = 0
        self._writes = history.writes.setdefault(number, [])
        self._cell_user = CellUser(
            number, self._world, self._dice, history.cells, self._send, self._wait_settled
        )

    # --- the beginning and the end

    async def create_index(self) -> None:
        """Wait until the service is there, and make the index."""
        await self._wait_ready()
        while not self._history.changes or not self._history.changes[-1].is_in_force:
            await self.configure()

    async def create_indexes(self) -> None:
        """Make the index of cells too."""
        await self.create_index()
        while True:
            reply = await self._send("POST", f"/{CELLS}/configuration", {}, None)
            if reply is not None and reply.status == 200:
                self._note_changed()
                return
            await self._wait_changed(reply)

    async def read_in_the_end(self) -> None:
        """Compare everything that is there with what must be there."""
        reply = await self._search_in_the_end(EVERYTHING)
        expected = {
            key: item
            for number in self._history.writes
            for key, item in self._history.state_of(number).items()
        }
        found = {item["id"]: item for item in reply.json["data"]["items"]}
        assert found == expected, _differences(found, expected)
        assert len(found) == len(reply.json["data"]["items"]), "an item is there twice"
        for number in self._history.writes:
            for key in [f"w{number}-{n}" for n in range(KEYS)]:
                item = await self._get_whatever_happens(key)
                assert item == expected.get(key), (key, item, expected.get(key))
        pages: list[str] = []
        for page in range(1, 2 + len(expected) // 5):
            answer = await self._search_in_the_end({"query": "", "per_page": 5, "page": page})
            pages += [item["id"] for item in answer.json["data"]["items"]]
        assert sorted(pages) == sorted(expected), "pages do not divide the items"
        for key in cells.KEYS:
            cell = await self._get_whatever_happens(key, CELLS)
            self._history.cells.last[key].append(tokens_of(cell))

    async def _search_in_the_end(self, parameters: Json) -> Reply:
        """Search until there is an answer: that a shard has ended may be heard of only now."""
        give_up_at = self._world.now + READY_SECONDS
        while True:
            await self._wait_ready()
            reply = await self._search(parameters)
            if reply is not None and reply.status == 200:
                return reply
            assert self._world.now < give_up_at, f"no answer after {READY_SECONDS} s: {reply}"

    async def _wait_ready(self) -> None:
        give_up_at = self._world.now + READY_SECONDS
        while True:
            reply = await self._send("GET", "/_ready", None, None)
            if reply is not None and reply.status == 200:
                return
            assert self._world.now < give_up_at, f"not ready after {READY_SECONDS} s"
            await asyncio.sleep(0.02)

    async def run(self) -> None:
        """Do everything."""
        for _ in range(self._num_operations):
            await self._choose()()
            if self._dice.random() < 0.3:
                await asyncio.sleep(self._dice.expovariate(30))

    def _choose(self) -> Callable[[], Awaitable[None]]:
        choices: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (20, self.put),
            (6, self.load),
            (9, self.replace),
            (6, self.merge),
            (9, self.delete),
            (4, self.delete_by_filter),
            (25, self.search),
            (6, self.search_everything),
            (4, self.walk),
            (8, self.get),
            (14, self.use_cell),
        ]
        if self.number == 0:
            choices += [(3, self.configure), (6, self.use_scratch)]
        return self._dice.choices([one for _, one in choices], [weight for weight, _ in choices])[0]

    # --- writes

    def _key(self) -> str:
        return f"w{self.number}-{self._dice.randrange(KEYS)}"

    def _item(self, key: str) -> Item:
        """Return a new state of an item; no two states in a world have the same version."""
        dice = self._dice
        self._version += 10
        return {
            "id": key,
            "writer": f"w{self.number}",
            "version": self._version,
            "colour": dice.choice(COLOURS),
            "tags": dice.sample(TAGS, dice.randrange(4)),
            "number": dice.randrange(6),
            "name": " ".join(dice.choices(WORDS, k=dice.randrange(4))),
        }

    async def put(self) -> None:
        keys = {self._key() for _ in range(self._dice.choice((1, 1, 2, 5, 9)))}
        items = [self._item(key) for key in sorted(keys)]
        await self._write(
            {item["id"]: item for item in items}, "POST", f"/{INDEX}/items", document=items
        )

    async def load(self) -> None:
        items = [self._item(key) for key in sorted({self._key() for _ in range(12)})]
        text = b"\n".join(json.dumps(item).encode() for item in items)
        await self._write(
            {item["id"]: item for item in items}, "POST", f"/{INDEX}/index", text=text
        )

    async def replace(self) -> None:
        key = self._key()
        item = self._item(key)
        await self._write({key: item}, "POST", f"/{INDEX}/items/{key}/update", document=item,
                          is_there=key in self._mine())  # fmt: skip

    async def merge(self) -> None:
        key = self._key()
        former = self._mine().get(key)
        changes = {name: self._item(key)[name] for name in ("version", "colour")}
        await self._write({key: {**(former or {}), **changes}}, "POST",
                          f"/{INDEX}/items/{key}/partial", document=changes,
                          is_there=former is not None)  # fmt: skip

    async def delete(self) -> None:
        key = self._key()
        await self._write(
            {key: None}, "DELETE", f"/{INDEX}/items/{key}", is_there=key in self._mine()
        )

    async def delete_by_filter(self) -> None:
        colour = self._dice.choice(COLOURS)
        filters = {"writer": {"all": [f"w{self.number}"]}, "colour": {"all": [colour]}}
        effects: dict[str, Item | None] = {
            key: None for key, item in self._mine().items() if item["colour"] == colour
        }
        await self._write(effects, "POST", f"/{INDEX}/items/delete", document={"filters": filters})

    def _mine(self) -> dict[str, Item]:
        return self._history.state_of(self.number)

    async def _write(
        self,
        effects: dict[str, Item | None],
        method: str,
        path: str,
        *,
        is_there: bool = True,
        document: Any = None,
        text: bytes | None = None,
    ) -> None:
        """Send a write; when it is over, its effects are known."""
        write = Write(self.number, self._world.num_steps, effects)
        reply = await self._send(method, path, document, text)
        self._note(f"{method} {path} {sorted(effects)}", reply)
        if reply is not None and reply.status == 404 and not is_there:
            return
        if reply is not None and reply.status == 200:
            assert is_there, f"{path}: 200, but the item is not there"
            write.returned = self._world.num_steps
            write.seq = reply.json["seq"]
            self._check_counts(path, write, reply.json)
            if effects:
                self._writes.append(write)
            return
        assert reply is None or reply.status in SILENCE, (path, is_there, reply)
        write.present = frozenset()
        before = self._mine()
        self._writes.append(write)
        write.returned = 1 << 60
        write.present = frozenset(effects)  # what others may see meanwhile
        await self._wait_settled(reply)
        write.present = await self._found_out(write, before)
        write.returned = self._world.num_steps
        if reply is not None and NOTHING_WRITTEN in reply.json["error"]["message"]:
            changed = {key for key in write.present if effects[key] != before.get(key)}
            assert not changed, (path, reply, changed)

    def _check_counts(self, path: str, write: Write, answer: Json) -> None:
        before = self._mine()
        states = write.effects
        expected = {
            "created": sum(new is not None and key not in before for key, new in states.items()),
            "updated": sum(new is not None and key in before for key, new in states.items()),
            "deleted": sum(new is None for new in states.values()),
        }
        told = {name: answer[name] for name in expected}
        assert told == expected, (path, told, expected)

    async def _found_out(self, write: Write, before: dict[str, Item]) -> frozenset[str]:
        """Return the items that a write without an answer has changed."""
        present = set()
        parts: dict[int, set[bool]] = {}
        for key, wanted in write.effects.items():
            item = await self._get_whatever_happens(key)
            former = before.get(key)
            assert item in (wanted, former), f"{key} is {item}, not {wanted} or {former}"
            if item == wanted:
                present.add(key)
            if wanted != former:
                shard = self._history._shard(key)
                parts.setdefault(shard, set()).add(item == wanted)
        torn = [shard for shard, found in parts.items() if len(found) > 1]
        assert not torn, f"the parts of shards {torn} are torn"
        self._note(f"found out: {sorted(present)} of {sorted(write.effects)}", None)
        return frozenset(present)

    async def use_cell(self) -> None:
        await self._cell_user.use()

    async def _wait_settled(self, reply: Reply | None, index: str = INDEX) -> None:
        """Wait until a write without an answer has been carried out, or never will be."""
        if reply is not None and reply.status == 504:
            await self._pass_barrier(index)

    async def _wait_changed(self, reply: Reply | None) -> None:
        """Wait until a change of the catalog has been carried out, or never will be."""
        if reply is not None and reply.status == 504:
            await asyncio.sleep(GOES_ON_SECONDS)

    async def _pass_barrier(self, index: str) -> None:
        """Write something that must come after everything before."""
        while True:
            item = {"id": f"w{self.number}-barrier", "writer": "none", "version": -self.number}
            reply = await self._send("POST", f"/{index}/items", [item], None)
            if reply is not None and reply.status == 200:
                break
            await asyncio.sleep(0.2)
        while True:
            reply = await self._send("DELETE", f"/{index}/items/{item['id']}", None, None)
            if reply is not None and reply.status in (200, 404):
                return
            await asyncio.sleep(0.2)

    async def _get_whatever_happens(self, key: str, index: str = INDEX) -> Item | None:
        while True:
            reply = await self._send("GET", f"/{index}/items/{key}", None, None)
            if reply is not None and reply.status in (200, 404):
                return reply.json if reply.status == 200 else None
            assert reply is None or reply.status in SILENCE, reply
            await asyncio.sleep(0.05)

    # --- configuration

    async def configure(self) -> None:
        dice = self._dice
        aggregations: Json = {
            name: {
                "size": dice.choice((2, 100)),
                "conjunction": dice.random() < 0.5,
                "hide_zero_doc_count": dice.random() < 0.3,
            }
            for name in ("colour", "tags", "writer")
        }
        if dice.random() < 0.5:
            aggregations["number"] = {"size": 100, "show_facet_stats": True}
        configuration: Json = {"aggregations": aggregations, "note": dice.random()}
        if dice.random() < 0.5:
            configuration["searchable_fields"] = dice.choice((["name"], ["name^2", "colour"]))
        await self.post_configuration(configuration)

    async def post_configuration(self, configuration: Json) -> None:
        change = Change(self._world.num_steps, configuration)
        change.returned = 1 << 60
        change.is_in_force = True  # others may see it already
        self._history.changes.append(change)
        reply = await self._send("POST", f"/{INDEX}/configuration", configuration, None)
        self._note("configuration", reply)
        if reply is None or reply.status != 200:
            change.is_in_force = await self._configuration(INDEX, reply) == configuration
        else:
            self._note_changed()
        change.returned = self._world.num_steps

    def _note_changed(self) -> None:
        """A change of the catalog is in force."""

    async def _configuration(self, index: str, reply: Reply | None) -> Json | None:
        """Return the configuration of an index, or None, after a change without an answer."""
        assert reply is None or reply.status in SILENCE, reply
        await self._wait_changed(reply)
        while True:
            reply = await self._send("GET", f"/{index}/configuration", None, None)
            if reply is not None and reply.status in (200, 404):
                configuration: Json | None = reply.json if reply.status == 200 else None
                return configuration
            await asyncio.sleep(0.05)

    # --- an index that comes and goes

    async def use_scratch(self) -> None:
        """Make, fill, read or drop an index that no other actor uses."""
        path = f"/{SCRATCH}"
        if self._scratch is None:
            self._scratch_number += 1
            configuration = {"aggregations": {"colour": {}}, "number": self._scratch_number}
            reply = await self._send("POST", f"{path}/configuration", configuration, None)
            is_there = reply is not None and reply.status == 200
            self._note_changed()
            if not is_there:
                is_there = await self._configuration(SCRATCH, reply) == configuration
            self._scratch = {} if is_there else None
        elif self._dice.random() < 0.3:
            reply = await self._send("DELETE", path, None, None)
            is_dropped = reply is not None and reply.status == 200
            self._note_changed()
            if is_dropped or await self._configuration(SCRATCH, reply) is None:
                self._scratch = None
        elif self._dice.random() < 0.5:
            item = self._item(self._key())
            reply = await self._send("POST", f"{path}/items", [item], None)
            if reply is None or reply.status != 200:
                await self._wait_changed(reply)
            found = await self._get_whatever_happens(item["id"], SCRATCH)
            if reply is not None and reply.status == 200:
                assert found == item, (found, item)
            if found == item:
                self._scratch[item["id"]] = item
            assert found == self._scratch.get(item["id"]), (found, item)
        else:
            reply = await self._send("POST", f"{path}/search", EVERYTHING, None)
        self._note(f"scratch {self._scratch_number}", reply)
        await self._check_scratch()

    async def _check_scratch(self) -> None:
        """Compare the whole index with what must be in it."""
        reply = await self._send("POST", f"/{SCRATCH}/search", EVERYTHING, None)
        if reply is None or reply.status in SILENCE:
            return
        if self._scratch is None:
            assert reply.status == 404, ("a dropped index answers", reply)
            return
        if reply.error == "unknown_sort_field":
            assert not self._scratch, (self._scratch, reply)
            return
        assert reply.status == 200, reply
        found = {item["id"]: item for item in reply.json["data"]["items"]}
        assert found == self._scratch, _differences(found, self._scratch)

    # --- reads

    async def search(self) -> None:
        dice = self._dice
        parameters: Json = {"query": "", "per_page": dice.choice((0, 3, 1000))}
        if dice.random() < 0.5:
            parameters["query"] = dice.choice(QUERIES)
        if dice.random() < 0.7:
            parameters["sort_field"] = "version"
            parameters["order"] = dice.choice(("asc", "desc"))
            parameters["page"] = dice.choice((1, 1, 2, 4))
        if dice.random() < 0.5:
            parameters["filters"] = {
                name: dice.sample(values, dice.choice((1, 2)))
                for name, values in (("colour", COLOURS), ("tags", TAGS))
                if dice.random() < 0.6
            }
        if dice.random() < 0.2:
            parameters["not_filters"] = {"colour": [dice.choice(COLOURS)]}
        # What is known of several words may be of all shards or of a part: both are right.
        if dice.random() < 0.2 and " " not in parameters["query"]:
            parameters["partial"] = "allow"
        await self._search(parameters)

    async def search_everything(self) -> None:
        await self._search(EVERYTHING)

    async def _search(self, parameters: Json) -> Reply | None:
        invoked = self._world.num_steps
        reply = await self._send("POST", f"/{INDEX}/search", parameters, None)
        self._note(f"search {parameters}", reply)
        if reply is not None and reply.status == 200:
            self._history.reads.append(
                Read(
                    self.number,
                    invoked,
                    self._world.num_steps,
                    parameters,
                    reply.json,
                    "sort_field" in parameters,
                )
            )
        elif reply is not None:
            self._check_refusal(reply, parameters)
        return reply

    def _check_refusal(self, reply: Reply, parameters: Json) -> None:
        """A search is refused because shards are away; or because nothing was ever stored."""
        if reply.status in SILENCE:
            return
        assert reply.error in ("unknown_sort_field", "unknown_facet"), (parameters, reply)
        assert self._history.num_acknowledged < 3, (parameters, reply)

    async def walk(self) -> None:
        """Read everything by a cursor, while others write."""
        invoked = self._world.num_steps
        parameters = {**EVERYTHING, "per_page": self._dice.choice((3, 7)), "cursor": "*"}
        num_deaths = len(self._machine.deaths)
        items: list[Item] = []
        first: Json | None = None
        returned = 0
        while True:
            reply = await self._send("POST", f"/{INDEX}/search", parameters, None)
            self._note(f"cursor {parameters}", reply)
            if reply is None or reply.status in SILENCE:
                return
            if reply.status != 200 and first is not None:
                is_over = (
                    self.cursors_may_end
                    or num_deaths != len(self._machine.deaths)
                    or any(change.returned > invoked for change in self._history.changes)
                )
                assert is_over, ("a cursor ended while nothing happened", reply)
                assert reply.error in ("invalid_cursor", "cursor_expired"), reply
                return
            if reply.status != 200:
                self._check_refusal(reply, parameters)
                return
            if first is None:
                first, returned = reply.json, self._world.num_steps
            assert reply.json["meta"]["seq"] == first["meta"]["seq"], "another state"
            assert reply.json["pagination"]["total"] == first["pagination"]["total"]
            items += reply.json["data"]["items"]
            if "cursor" not in reply.json["pagination"]:
                break
            parameters["cursor"] = reply.json["pagination"]["cursor"]
            await asyncio.sleep(self._dice.expovariate(20))
        first["data"]["items"] = items
        self._history.reads.append(
            Read(self.number, invoked, returned, EVERYTHING, first, is_ordered=True)
        )

    async def get(self) -> None:
        key = f"w{self._dice.randrange(len(self._history.writes))}-{self._dice.randrange(KEYS)}"
        invoked = self._world.num_steps
        reply = await self._send("GET", f"/{INDEX}/items/{key}", None, None)
        self._note(f"get {key}", reply)
        if reply is not None and reply.status in (200, 404):
            item = reply.json if reply.status == 200 else None
            self._history.gets.append(Get(invoked, self._world.num_steps, key, item))
        else:
            assert reply is None or reply.status in SILENCE, reply

    # --- the wire

    async def _send(
        self, method: str, path: str, document: Any, text: bytes | None, headers: str = ""
    ) -> Reply | None:
        """Send a request; None if the connection failed. Who got no answer waits a little."""
        try:
            reply = await self._client.request(method, path, document, text=text, headers=headers)
        except OSError:
            await asyncio.sleep(self._dice.expovariate(10))
            return None
        if reply.status in SILENCE:
            await asyncio.sleep(self._dice.expovariate(20))
        return reply

    def _note(self, what: str, reply: Reply | None) -> None:
        if reply is None:
            told = "lost"
        elif reply.status == 200:
            answer = reply.json
            told = f"200 seq {answer.get('seq', answer.get('meta', {}).get('seq'))}"
        else:
            told = f"{reply.status} {reply.error} {reply.json['error']['message'][:80]}"
        self._world.note(f"client {self.number}: {what} -> {told}")


def _differences(found: dict[str, Item], expected: dict[str, Item]) -> str:
    return "; ".join(
        f"{key} is {found.get(key)}, must be {expected.get(key)}"
        for key in sorted(found.keys() | expected.keys())
        if found.get(key) != expected.get(key)
    )
