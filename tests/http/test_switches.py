"""Searches and changes that meet a switch of the configuration."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from common.deadline import Deadline
from common.errors import ConfigurationSwitched, FacetRenumbered, ServiceError
from coordinator.http import middleware
from coordinator.read.cursor import Cursor
from tests.http.conftest import Web
from tests.http.fakes import CONFIGURATION
from tests.http.raw_client import Reply
from tests.waiting import until


def soon() -> Deadline:
    return Deadline.after_ms(20_000)


class _SwitchedFor:
    """A search that meets the switch of a configuration, or another error, some times."""

    def __init__(
        self, web: Web, num_times: int, error: type[ServiceError] = ConfigurationSwitched
    ) -> None:
        self.error = error
        self.num_times = num_times
        self.is_asked = asyncio.Event()
        self.indexes: list[Any] = []
        self.parameters: list[Any] = []
        self._search = web.search.search
        web.search.search = self.search  # type: ignore[method-assign]

    async def search(self, index: Any, parameters: Any, horizon: int | None = None) -> Any:
        self.indexes.append(index)
        self.parameters.append(parameters)
        self.is_asked.set()
        if len(self.indexes) <= self.num_times:
            raise self.error("the index is being switched")
        return await self._search(index, parameters)


async def test_search_that_meets_a_switch_begins_again(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "SWITCH_WAIT_SECONDS", 20.0)  # a busy machine takes long
    fake = _SwitchedFor(web, 1)
    asking = asyncio.ensure_future(web.post("/films/search", {"facet_fields": ["country"]}))
    await fake.is_asked.wait()
    asked_at = time.monotonic()
    await until(lambda: time.monotonic() > asked_at + 0.002)  # the deadline counts in milliseconds
    await web.services.administration.configure("films", {"aggregations": {"country": {"size": 3}}})

    reply = await asking

    assert reply.status == 200
    former, present = fake.indexes
    assert (former.revision + 1, present.configuration.facets["country"].size) == (
        present.revision,
        3,
    )
    assert fake.parameters[1].facets[0].configuration.size == 3, "read again"
    assert fake.parameters[1].timeout_ms < fake.parameters[0].timeout_ms, "of one deadline"


async def test_index_that_went_away_in_its_switch_is_no_503(web: Web) -> None:
    fake = _SwitchedFor(web, 1)
    asking = asyncio.ensure_future(web.post("/films/search", {}))
    await fake.is_asked.wait()
    await web.services.administration.delete_index("films")

    assert (await asking).code == "index_not_found"


async def _replaced_under_writes(web: Web, *late_writes: Any) -> list[Reply]:
    """Have another index take the name while writes wait for one that is under way."""
    administration, ingest = web.services.administration, web.services.ingest
    await administration.configure("films-new", CONFIGURATION)
    for shard in web.shards:
        shard.gate.clear()
    first = asyncio.ensure_future(web.post("/films/items", {"id": 2}))
    number = web.services.catalog.index("films").number
    await until(lambda: any(b"2" in shard.documents.get(number, {}) for shard in web.shards))
    replacing = asyncio.ensure_future(administration.move("films-new", "films", soon()))
    late = [asyncio.ensure_future(write) for write in late_writes]
    await until(lambda: ingest.num_waiting() == len(late))
    for shard in web.shards:
        shard.gate.set()
    await replacing
    assert (await first).status == 200
    return list(await asyncio.gather(*late))


async def test_write_that_waits_while_its_index_is_replaced_goes_to_the_new_one(web: Web) -> None:
    former = web.services.catalog.index("films")

    replies = await _replaced_under_writes(
        web,
        web.post("/films/items", {"id": 3}),
        web.post("/films/items/delete", {"ids": [4]}),
    )

    assert [reply.status for reply in replies] == [200, 200]
    new = web.services.catalog.index("films")
    assert new.number != former.number
    kept = [shard.documents.get(new.number, {}) for shard in web.shards]
    assert sorted(id for documents in kept for id in documents) == [b"3"]


async def test_changes_for_an_index_that_is_replaced_while_they_wait_are_refused(web: Web) -> None:
    change = {"put": [{"id": 3}], "index_number": web.services.catalog.index("films").number}

    (reply,) = await _replaced_under_writes(web, web.post("/films/items/changes", change))

    assert (reply.status, reply.code) == (409, "index_replaced")
    number = web.services.catalog.index("films").number
    assert not any(shard.documents.get(number) for shard in web.shards)


async def test_load_whose_index_is_replaced_meanwhile_is_refused(web: Web) -> None:
    """Its body has been read, and part of it may have been stored in the former index."""
    (reply,) = await _replaced_under_writes(web, web.post("/films/index", {"id": 3}))

    assert (reply.status, reply.code) == (404, "index_not_found")
    assert reply.json["error"]["created"] == 0


@pytest.mark.parametrize(
    ("timeout_ms", "answer"), [(1_000, (503, "switched")), (20, (504, "deadline_exceeded"))]
)
async def test_switch_that_does_not_end_is_told(
    web: Web, monkeypatch: pytest.MonkeyPatch, timeout_ms: int, answer: tuple[int, str]
) -> None:
    monkeypatch.setattr(middleware, "STALE_TRIES_MAX", 4)
    monkeypatch.setattr(middleware, "SWITCH_WAIT_SECONDS", 0.01)
    fake = _SwitchedFor(web, 1_000)

    reply = await web.post("/films/search", {"timeout_ms": timeout_ms})

    assert (reply.status, reply.code) == answer
    assert reply.headers.get("retry-after") == ("1" if reply.status == 503 else None)
    assert len(fake.indexes) <= 5


async def test_search_begins_again_at_once_with_the_numbers_of_a_restarted_shard(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "SWITCH_WAIT_SECONDS", 600.0)
    fake = _SwitchedFor(web, 2, FacetRenumbered)

    assert (await web.post("/films/search", {})).status == 200
    assert len(fake.indexes) == 3

    monkeypatch.setattr(middleware, "STALE_TRIES_MAX", 4)
    monkeypatch.setattr(middleware, "SWITCH_WAIT_SECONDS", 0.0)
    fake.num_times = 1_000
    reply = await web.post("/films/search", {})
    assert (reply.status, reply.code) == (503, "shard_unavailable")


async def test_change_in_the_order_of_scores_does_not_go_on_after_a_switch(web: Web) -> None:
    """Which hits would still come in the order of the former configuration is unknown."""
    selection = web.services.selection
    answer = selection.page

    async def select(index: Any, parameters: Any, horizon: int) -> Any:
        if parameters.cursor != "*":
            raise ConfigurationSwitched("the index is being switched")
        hits, _ = await answer(index, parameters, horizon)
        return hits, Cursor(index.revision, horizon, b"search", (0, 1), (1.0, 5), ()).encode()

    selection.page = select  # type: ignore[method-assign]
    reply = await web.post("/films/items/delete", {"query": "sea"})

    assert (reply.status, reply.code) == (503, "switched")
