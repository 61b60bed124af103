"""Reads that are given up, wherever that is noticed, change no later one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from common.deadline import CALL_DEADLINE
from common.errors import DeadlineExceeded, InvalidRequest
from common.protocol.messages import SearchResponse
from shard.read import corpus_statistics, searcher
from tests import small_thresholds
from tests.cluster.mixed_searches import MixedSearches
from tests.http.local_service import LocalService, local_service

NUM_ITEMS = 200
NUM_SEARCHES = 60
Read = Callable[[], Any]


class Patience:
    """A deadline that has passed when it is looked at once too often."""

    def __init__(self, num_looks: int) -> None:
        self._num_left = num_looks

    @property
    def at(self) -> float:
        """As of a `Deadline`."""
        self._num_left -= 1
        return float("-inf") if self._num_left < 0 else float("inf")

    def check(self) -> None:
        """Give up."""
        raise DeadlineExceeded("the caller waits no longer")


@contextmanager
def patience(num_looks: int) -> Iterator[None]:
    """Let the present call be given up."""
    deadline: Any = Patience(num_looks)
    token = CALL_DEADLINE.set(deadline)
    try:
        yield
    finally:
        CALL_DEADLINE.reset(token)


def answered(read: Read) -> Any:
    """Return the answer of a read, without what differs each time."""
    try:
        answer = read()
    except InvalidRequest as refusal:
        return refusal.message
    return structs.replace(answer, timings_us=()) if isinstance(answer, SearchResponse) else answer


def ask(service: LocalService) -> None:
    """Fill an index with all kinds of values, and search for all kinds of things."""
    drawn = MixedSearches(seed=5)
    with closing(service.client()) as client:
        client.post("/mixed/configuration", drawn.configuration())
        client.post("/mixed/items", [drawn.item(number) for number in range(NUM_ITEMS)])
        for _ in range(NUM_SEARCHES):
            client.post("/mixed/search", drawn.search())


async def test_a_read_that_is_given_up_at_any_check_changes_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Read] = []
    small_thresholds.lower(monkeypatch.setattr)
    async with local_service(tmp_path / "data") as service:
        with monkeypatch.context() as patch:
            for module, name in ((searcher, "search"), (corpus_statistics, "statistics")):
                function = getattr(module, name)

                def noting(*arguments: Any, function: Any = function) -> Any:
                    reads.append(partial(function, *arguments))
                    return function(*arguments)

                patch.setattr(module, name, noting)
            await asyncio.to_thread(ask, service)
        expected = [answered(read) for read in reads]
        num_given_up = 0
        for number, read in enumerate(reads):
            other = (number * 7 + 3) % len(reads)
            for num_looks in range(1_000):
                with patience(num_looks):
                    try:
                        assert answered(read) == expected[number]
                        break
                    except DeadlineExceeded:
                        num_given_up += 1
                assert answered(reads[other]) == expected[other]
        assert num_given_up > 1_000
