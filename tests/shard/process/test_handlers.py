"""Which reads run at once, and which wait for a later turn of the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from common.process.cooperative_scheduler import LoopScheduler
from common.protocol.messages import (
    FetchRequest,
    FetchResponse,
    FingerprintRequest,
    FingerprintResponse,
    HighlightRequest,
)
from shard.process.handlers import Handlers
from shard.read import fetch, search_cost, searcher


class OpenIndexes:
    """Indexes that are never closed."""

    def keep_until(self, *_: object) -> None:
        """Nothing closes them."""


@pytest.fixture
def handlers(monkeypatch: pytest.MonkeyPatch) -> Handlers:
    """Return handlers whose searches return the number of their index, where each tick is over."""
    monkeypatch.setattr("common.process.cooperative_scheduler.TICK_SECONDS", 0.0)
    monkeypatch.setattr("common.process.cooperative_scheduler.ALONE_SECONDS", 60.0)
    monkeypatch.setattr(Handlers, "_snapshot", lambda *_: None)
    monkeypatch.setattr(search_cost, "is_slow", lambda *_: False)
    monkeypatch.setattr(searcher, "search", lambda _, request: request.index)
    indexes: Any = SimpleNamespace(open=OpenIndexes())
    no_catalog: Any = None
    scheduler = LoopScheduler()
    scheduler.begin_tick()
    return Handlers(indexes, no_catalog, lambda: 0, scheduler)


def search(handlers: Handlers, index: int) -> Any:
    request: Any = SimpleNamespace(index=index)
    return handlers.search(request)


async def test_searches_of_a_lone_index_do_not_wait_for_each_other(handlers: Handlers) -> None:
    assert [search(handlers, 3) for _ in range(20)] == [3] * 20


async def test_searches_wait_their_turn_as_soon_as_two_indexes_have_some(
    handlers: Handlers,
) -> None:
    assert search(handlers, 3) == 3
    other, own = search(handlers, 8), search(handlers, 3)
    assert isinstance(other, asyncio.Future)
    assert isinstance(own, asyncio.Future)
    assert [await other, await own] == [8, 3]


async def test_a_fingerprint_is_made_though_its_index_closes_at_that_moment() -> None:
    snapshot = SimpleNamespace(views=())
    partition = SimpleNamespace(snapshot_at=lambda _: snapshot, documents=None)
    open_indexes = _ClosingIndexes({3: SimpleNamespace(partition=partition)})
    indexes: Any = SimpleNamespace(open=open_indexes)
    no_catalog: Any = None
    handlers = Handlers(indexes, no_catalog, lambda: 0, LoopScheduler())

    fingerprint: Any = handlers.fingerprint(FingerprintRequest(3, 1))
    open_indexes.clear()

    assert await fingerprint == FingerprintResponse(0, 0, 0)


@pytest.mark.parametrize("is_long", [False, True])
async def test_many_documents_to_highlight_are_read_on_a_thread(
    monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    """A long page was read on the event loop, and only marked on a thread."""
    threads: list[threading.Thread] = []

    def read(*_: object) -> FetchResponse:
        threads.append(threading.current_thread())
        return FetchResponse((b"{}",), ())

    monkeypatch.setattr(Handlers, "_snapshot", lambda *_: None)
    monkeypatch.setattr(fetch, "fetch", read)
    monkeypatch.setattr(fetch, "with_marks", lambda _, __, fetched: fetched)
    indexes: Any = SimpleNamespace(open=_ClosingIndexes())
    no_catalog: Any = None
    scheduler = LoopScheduler()
    scheduler.begin_tick()
    handlers = Handlers(indexes, no_catalog, lambda: 0, scheduler)
    marks = HighlightRequest(("*",), (), "", "", "", 0, 0)
    records = bytes(8 * (fetch.READ_FAST_MAX + is_long))

    response: Any = handlers.fetch(FetchRequest(3, 1, 1, records, highlight=marks))
    if isinstance(response, Awaitable):
        response = await response

    assert response.documents == (b"{}",)
    (thread,) = threads
    assert (thread is threading.main_thread()) == (not is_long)


class _ClosingIndexes(dict[int, Any]):
    """Open indexes by number."""

    def kept(self, _: int) -> AbstractContextManager[object]:
        """Keep none open."""
        return nullcontext()

    def keep_until(self, outcome: asyncio.Future[object], index: int) -> None:
        """Keep none open: a read that waits for its turn, if the tick has taken too long."""
