"""Scheduled values are computed once, in the background, and keep nothing alive."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from common.process.cooperative_scheduler import LoopScheduler
from common.protocol.messages import SearchResponse, SortKey
from shard.caches import background_derivation
from shard.caches.background_derivation import WAITING_MAX, BackgroundTasks
from shard.process import read_scheduler
from shard.process.event_loop_share import LoopShare
from shard.process.handlers import Handlers
from shard.read import search_cost, searcher
from shard.segment.columns.permutations import PERMUTATION_USES_MIN
from shard.segment.columns.sort_columns import sort_column
from tests.shard.collect.top_hits.test_top_k import large_world, request


class Owner:
    pass


OWNER = Owner()


def test_each_task_runs_once_in_order() -> None:
    tasks = BackgroundTasks()
    made: list[tuple[str, object]] = []
    for key in ("a", "b", "a"):
        tasks.add(key, OWNER, lambda owner, key=key: made.append((key, owner)))  # type: ignore[misc]
    assert len(tasks) == 2
    tasks.run_all()
    assert made == [("a", OWNER), ("b", OWNER)]
    assert not tasks


def test_a_task_scheduled_again_while_it_runs_runs_once() -> None:
    tasks = BackgroundTasks()
    made: list[object] = []

    def make(owner: object) -> None:
        made.append(owner)
        tasks.add("a", owner, make)

    tasks.add("a", OWNER, make)
    tasks.run_all()
    assert made == [OWNER]
    tasks.add("a", OWNER, made.append)
    tasks.run_all()
    assert made == [OWNER, OWNER]


def test_a_waiting_task_keeps_nothing_alive() -> None:
    tasks = BackgroundTasks()
    made: list[object] = []
    owner = Owner()
    reference = weakref.ref(owner)
    tasks.add("a", owner, made.append)
    tasks.add("b", OWNER, made.append)
    del owner
    gc.collect()
    assert reference() is None
    tasks.run_all()
    assert made == [OWNER]


def test_only_so_many_wait() -> None:
    tasks = BackgroundTasks()
    made: list[int] = []
    for number in range(WAITING_MAX + 10):
        tasks.add(number, OWNER, lambda _, number=number: made.append(number))  # type: ignore[misc]
    tasks.run_all()
    assert made == list(range(WAITING_MAX))


def test_a_failure_is_reported_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[BaseException] = []
    log = SimpleNamespace(error=lambda _, *, cause: told.append(cause))
    monkeypatch.setattr(background_derivation, "_log", log)
    tasks = BackgroundTasks()
    made: list[object] = []

    def fail(_: object) -> None:
        raise MemoryError

    tasks.add("a", OWNER, fail)
    tasks.add("b", OWNER, made.append)
    tasks.run_all()
    assert made == [OWNER]
    assert [type(cause) for cause in told] == [MemoryError]


@pytest.mark.parametrize(("is_slow", "is_apart"), [(False, False), (True, False), (False, True)])
def test_searches_leave_it_to_another_thread(
    monkeypatch: pytest.MonkeyPatch, is_slow: bool, is_apart: bool
) -> None:
    """The search that schedules the column is answered without it; later ones have it."""
    world = large_world()
    snapshot = world.snapshot
    asked = request((SortKey("price", True),))
    makers: list[str] = []
    granted = threading.Event()
    tasks = BackgroundTasks()
    monkeypatch.setattr(read_scheduler, "BACKGROUND_TASKS", tasks)
    monkeypatch.setattr("shard.segment.columns.permutations.BACKGROUND_TASKS", tasks)
    monkeypatch.setattr(search_cost, "is_slow", lambda *_: is_slow)
    monkeypatch.setattr(LoopShare, "is_alone", lambda *_: not is_apart)
    monkeypatch.setattr(LoopShare, "is_exceeded", lambda *_: is_apart)
    searchers: set[str] = set()
    search_shard = searcher.search

    def watched(*arguments: Any) -> SearchResponse:
        searchers.add(threading.current_thread().name.split("_")[0])
        return search_shard(*arguments)

    monkeypatch.setattr(searcher, "search", watched)
    make = BackgroundTasks.run_all

    def run_all(self: BackgroundTasks) -> None:
        makers.append(threading.current_thread().name)
        make(self)
        granted.set()

    monkeypatch.setattr(BackgroundTasks, "run_all", run_all)

    class OneIndex:
        def __getitem__(self, _: int) -> Any:
            return SimpleNamespace(partition=SimpleNamespace(snapshot_at=lambda *_: snapshot))

        def kept(self, _: int) -> nullcontext[None]:
            return nullcontext()

        def keep_until(self, *_: object) -> None:
            """It is never closed."""

    merge_scheduler = SimpleNamespace(note_search=lambda _: None)
    indexes: Any = SimpleNamespace(open=OneIndex(), merge_scheduler=merge_scheduler)
    no_catalog: Any = None
    service = Handlers(indexes, no_catalog, lambda: 0, LoopScheduler())

    async def search() -> bytes:
        answer = service.search(asked)
        found = answer if isinstance(answer, SearchResponse) else await answer
        return found.records

    first = [asyncio.run(search()) for _ in range(PERMUTATION_USES_MIN)]
    assert granted.wait(10)
    assert {name.split("_")[0] for name in makers} == {"deriver"}
    assert searchers == {"reader" if is_slow or is_apart else "MainThread"}
    field = snapshot.registry.number("price")
    assert field is not None
    assert sort_column(snapshot, snapshot.views[0], field).permutation() is not None
    assert [asyncio.run(search())] * len(first) == first
