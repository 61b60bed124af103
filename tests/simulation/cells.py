"""Items that all clients change, on conditions; and the check that each was decided in order.

A cell is a list of tokens, and their number `n`. Every change appends one token, which is unique,
in one of three ways:

- *add*: a partial update says how to change the stored values. It creates a cell that is missing;
- *swap*: the cell is written as the client saw it, with its token, on condition that it is still
  that version (`If-Match`); another version is a 409;
- *step*: a partial update on condition that there are as many tokens as the client saw
  (`IncrementFrom`; 0: the cell does not exist). The response does not say whether it held.

So the last state of a cell shows the order of its changes, and every earlier state is a prefix of
it. It also shows a token that is missing, is there twice, or was refused, and a condition that was
decided by an older state: a swap that did not replace the version it names loses the tokens added
since; for a refusal, another client must have added a token first.

A conditional change without a response is sent again, as clients do: at most one of the two has an
effect.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, Protocol

from tests.oracle.items import Item
from tests.simulation.client import Reply
from tests.simulation.world import World

CELLS: Final = "cells"
KEYS: Final = ("c0", "c1")
SENT_MAX: Final = 3
SILENCE: Final = (503, 504)
"""Nothing is known of a write that is answered so."""
NOTHING_WRITTEN: Final = "nothing was written"
"""What an error says if it is known that the write has changed nothing, and never will."""


class Told(Enum):
    """What the response to a change said."""

    ADDED = auto()
    REFUSED = auto()
    """The condition did not hold."""
    UNWRITTEN = auto()
    """An error: nothing was written."""
    DECIDED = auto()
    """It was applied if its condition held."""
    NOTHING = auto()


@dataclass(slots=True)
class Append:
    """One change."""

    key: str
    token: str
    invoked: int
    length: int | None
    """Of the cell, as the condition has it; None: without a condition."""
    returned: int = 1 << 60
    told: Told = Told.NOTHING
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class CellRead:
    """One cell as a client saw it."""

    key: str
    invoked: int
    returned: int
    tokens: list[str]
    horizon: int | None
    """Of the search; None: it was a GET."""


@dataclass
class Cells:
    """All of one simulation.

    Attributes:
        last: by key, the states that were read when everything was over.
    """

    appends: list[Append] = field(default_factory=list)
    reads: list[CellRead] = field(default_factory=list)
    last: defaultdict[str, list[list[str]]] = field(default_factory=lambda: defaultdict(list))

    def check(self) -> None:
        """Raise AssertionError at the first change or read that cannot be."""
        for key, states in self.last.items():
            last = states[0]
            assert all(state == last for state in states), ("hosts differ", key, states)
            own = {one.token: one for one in self.appends if one.key == key}
            _check_order(last, own)
            for one in own.values():
                _check_append(one, last, own)
            for read in self.reads:
                if read.key == key:
                    _check_read(read, last, own)


def _check_order(last: list[str], own: dict[str, Append]) -> None:
    """Each change was applied once, after those that had been acknowledged before it was sent."""
    assert len(set(last)) == len(last), ("a change was carried out twice", last)
    for position, token in enumerate(last):
        later = own[token]
        for other in last[position + 1 :]:
            assert own[other].returned > later.invoked, ("in a wrong order", own[other], later)
    seqs = [own[token].seq for token in last if own[token].seq is not None]
    assert seqs == sorted(seqs, key=lambda seq: seq or 0), ("seqs go back", last, seqs)


def _check_append(one: Append, last: list[str], own: dict[str, Append]) -> None:
    is_there = one.token in last
    if one.told is Told.ADDED:
        assert is_there, ("an acknowledged change is lost", one, last)
    if one.told in (Told.REFUSED, Told.UNWRITTEN):
        assert not is_there, ("a refused change was carried out", one, last)
    if is_there and one.length is not None:
        assert last[one.length] == one.token, ("its condition did not hold", one, last)
    elif one.told in (Told.REFUSED, Told.DECIDED):
        assert one.length is not None
        assert len(last) > one.length, ("its condition held", one, last)
        winner = own[last[one.length]]
        assert winner.invoked < one.returned, (
            "its condition held when it was decided",
            one,
            winner,
        )


def _check_read(read: CellRead, last: list[str], own: dict[str, Append]) -> None:
    """A read shows one state, with all that was acknowledged, or is as old as its horizon."""
    assert read.tokens == last[: len(read.tokens)], ("no state of the cell", read, last)
    for token in last:
        one = own[token]
        is_shown = token in read.tokens
        if one.told is Told.ADDED and one.returned < read.invoked:
            assert is_shown, ("an acknowledged change is not seen", one, read)
        if is_shown:
            assert one.invoked < read.returned, ("seen before it was sent", one, read)
        if read.horizon is not None and one.seq is not None:
            assert is_shown == (one.seq <= read.horizon), ("not the horizon's state", one, read)


class Send(Protocol):
    """Sends a request; None if the connection failed."""

    def __call__(
        self, method: str, path: str, document: Any, text: bytes | None, headers: str = ""
    ) -> Awaitable[Reply | None]: ...


class CellUser:
    """What one client does to cells.

    Args:
        number: of the client.
        world: it lives in.
        dice: of the client.
        cells: of the history.
        send: sends a request of the client.
        settle: waits until a write without an answer has been carried out, or never will be.
    """

    def __init__(
        self,
        number: int,
        world: World,
        dice: random.Random,
        cells: Cells,
        send: Send,
        settle: Callable[[Reply | None, str], Awaitable[None]],
    ) -> None:
        self._number = number
        self._world = world
        self._dice = dice
        self._cells = cells
        self._send = send
        self._settle = settle
        self._num_tokens = 0
        self._seen: dict[str, tuple[list[str], str]] = {}

    async def use(self) -> None:
        """Change or read a cell, once or a few times."""
        choices = (self._add, self._swap, self._swap, self._step, self._search)
        for _ in range(self._dice.choice((1, 2, 4))):
            await self._dice.choice(choices)(self._dice.choice(KEYS))

    async def _add(self, key: str) -> None:
        one = self._append(key, None)
        changes = {"n": _change("Increment", 1), "tokens": _change("Add", one.token)}
        await self._carry_out(one, "POST", f"/1/indexes/{CELLS}/{key}/partial", changes)

    async def _step(self, key: str) -> None:
        seen = await self._look(key)
        if seen is not None:
            length = len(seen[0])
            one = self._append(key, length)
            changes = {
                "n": _change("IncrementFrom", length), "tokens": _change("Add", one.token)
            }  # fmt: skip
            await self._carry_out(one, "POST", f"/1/indexes/{CELLS}/{key}/partial", changes)

    async def _swap(self, key: str) -> None:
        seen = await self._look(key)
        if seen is None or not seen[1]:
            return
        tokens, tag = seen
        one = self._append(key, len(tokens))
        fields: Item = {"n": len(tokens) + 1, "tokens": [*tokens, one.token]}
        path = f"/{CELLS}/items/{key}"
        method, path, document = self._dice.choice(
            (
                ("PUT", path, {"id": key, **fields}),
                ("POST", f"{path}/update", {"id": key, **fields}),
                ("PATCH", path, fields),
            )
        )
        await self._carry_out(one, method, path, document, f"If-Match: {tag}\r\n")

    def _append(self, key: str, length: int | None) -> Append:
        self._num_tokens += 1
        one = Append(key, f"t{self._number}-{self._num_tokens}", self._world.num_steps, length)
        self._cells.appends.append(one)
        return one

    async def _carry_out(
        self, one: Append, method: str, path: str, document: Any, headers: str = ""
    ) -> None:
        """Send a change, again if nothing is known of it and it has a condition."""
        is_unwritten = True
        for attempt in range(1 if one.length is None else SENT_MAX):
            reply = await self._send(method, path, document, None, headers)
            status = None if reply is None else reply.status
            self._world.note(
                f"client {self._number}: {method} {path} {one.token} after {one.length} -> {status}"
            )
            if reply is not None and reply.status not in SILENCE:
                assert reply.status == 200 or (reply.status == 409 and headers), (one, reply)
                self._note_answer(one, reply, is_first=attempt == 0)
                break
            is_unwritten &= reply is not None and NOTHING_WRITTEN in str(reply.json)
        if one.told is Told.NOTHING:
            await self._settle(reply, CELLS)
            if is_unwritten:
                one.told = Told.UNWRITTEN
        one.returned = self._world.num_steps

    def _note_answer(self, one: Append, reply: Reply, *, is_first: bool) -> None:
        if reply.status == 409:
            # Sent again, it may have been refused because the first one was applied.
            one.told = Told.REFUSED if is_first else Told.NOTHING
        elif "taskID" not in reply.json:
            one.told, one.seq = Told.ADDED, reply.json["seq"]
        elif one.length is None:
            one.told, one.seq = Told.ADDED, reply.json["taskID"]
        else:
            one.told, one.seq = Told.DECIDED, reply.json["taskID"] if is_first else None

    # --- reads

    async def _look(self, key: str) -> tuple[list[str], str] | None:
        """Return what the client saw last of a cell, or what there is now."""
        if key in self._seen and self._dice.random() < 0.4:
            return self._seen[key]
        return await self._get(key)

    async def _get(self, key: str) -> tuple[list[str], str] | None:
        """Return the tokens of a cell and its version; None: there is no answer."""
        invoked = self._world.num_steps
        reply = await self._send("GET", f"/{CELLS}/items/{key}", None, None)
        if reply is None or reply.status in SILENCE:
            return None
        assert reply.status in (200, 404), reply
        tokens = tokens_of(reply.json) if reply.status == 200 else []
        self._cells.reads.append(CellRead(key, invoked, self._world.num_steps, tokens, None))
        self._seen[key] = tokens, reply.etag
        return self._seen[key]

    async def _search(self, key: str) -> None:
        invoked = self._world.num_steps
        parameters = {"query": "", "per_page": 100}
        reply = await self._send("POST", f"/{CELLS}/search", parameters, None)
        if reply is None or reply.status in SILENCE:
            return
        assert reply.status == 200, reply
        found = {item["id"]: tokens_of(item) for item in reply.json["data"]["items"]}
        self._cells.reads += [
            CellRead(one, invoked, self._world.num_steps, found.get(one, []),
                     reply.json["meta"]["seq"])
            for one in KEYS
        ]  # fmt: skip


def tokens_of(item: Item | None) -> list[str]:
    """Return the tokens of a cell, which must be as many as it says."""
    if item is None or "tokens" not in item:
        return []
    tokens: list[str] = item["tokens"]
    assert item["n"] == len(tokens), ("a torn change", item)
    return tokens


def _change(operation: str, value: Any) -> Item:
    return {"_operation": operation, "value": value}
