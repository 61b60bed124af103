"""The journeys of ARCHITECTURE.md are those that a search and a write take.

A service in this process answers a few requests, and every function of it that Python enters is
noted. The functions that a journey names must be among them, in the order of the text; a file that
it names alone must have a function among those of some request.
"""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

from coordinator.settings import Settings
from shard.read import search_cost
from tests.http.local_service import local_service
from tests.service import Reply
from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent
ITEMS = [
    {"id": i, "title": f"green lamp {i}", "brand": "abc"[i % 3], "price": i, "tags": ["x", f"t{i}"]}
    for i in range(30)
]
CONFIGURATION = {"aggregations": {"brand": {}, "tags": {}}, "searchable_fields": ["title"]}
SEARCHES: tuple[dict[str, Any], ...] = (
    {"filters": {"brand": ["a"]}},
    {"query": "green", "filters": {"brand": ["b"]}, "sort": ["price:desc"]},
    {"query": "blue", "filters": {"brand": ["a"]}},
    {"query": "lamp", "facet_ranges": {"price": {"interval": 10}}},
    {"distinct": {"field": "brand", "limit": 1, "sizes": True, "hits": 2}},
)
"""With what only some searches need."""
MORE = [{**ITEMS[i % 30], "id": i, "title": "blue lamp"} for i in range(2_000)]
STREAM = b'{"id": 100}\n{"id": 101}\n'


class Named(NamedTuple):
    """What a journey names."""

    file: str
    function: str
    """Qualified; empty: the file alone."""


class Calls:
    """The functions that were entered, in the order of their first calls."""

    def __init__(self) -> None:
        self._codes: dict[CodeType, None] = {}

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call; the interpreter's profile function of every thread."""
        if event == "call":
            self._codes.setdefault(frame.f_code)

    def seen(self) -> list[Named]:
        """Return the functions of this repository since the last `take`."""
        paths = [(Path(code.co_filename), code.co_qualname) for code in list(self._codes)]
        return [
            Named(str(path.relative_to(ROOT)), name)
            for path, name in paths
            if path.is_relative_to(ROOT)
        ]

    def take(self) -> list[Named]:
        """Return the same, and begin again."""
        found = self.seen()
        self._codes = {}
        return found


class Followed(NamedTuple):
    """The functions that requests called."""

    one: list[Named]
    """Of one request that is as most are."""
    all: list[Named]


@contextmanager
def noted() -> Iterator[Calls]:
    """Note the calls of this thread and of all that start within the body."""
    calls = Calls()
    threading.setprofile(calls.note)
    sys.setprofile(calls.note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def follow(data: Path, patch: pytest.MonkeyPatch) -> dict[str, Followed]:
    """Return what requests call, by journey."""
    base = Settings(client_requests_per_second=1_000)
    with noted() as calls:
        async with local_service(data, base) as service:
            with closing(service.client()) as client:

                async def called(path: str, body: Any) -> list[Named]:
                    is_stream = isinstance(body, bytes)
                    post: Callable[..., Reply] = client.post_text if is_stream else client.post
                    reply = await asyncio.to_thread(post, f"/things/{path}", body)
                    assert reply.status == 200, reply.body
                    return calls.take()

                await called("configuration", CONFIGURATION)
                await called("items", ITEMS)
                write = await called("items", [{"id": 50, "title": "blue lamp"}])
                writes = [await called("items", MORE), await called("index", STREAM)]
                merged = "shard/partition/merge_policy.py"
                await until(lambda: any(one.file == merged for one in calls.seen()))
                writes.append(calls.take())
                await called("search", {"query": "green lamp"})  # so that the words are known
                search = await called("search", {"query": "green lamp", "match": "any"})
                searches = [await called("search", body) for body in SEARCHES]
                patch.setattr(search_cost, "HITS_FAST_MAX", 0)
                searches.append(await called("search", {"query": "lamp"}))
    return {
        "query": Followed(search, list(chain(search, *searches))),
        "write": Followed(write, list(chain(write, *writes))),
    }


def journey(name: str) -> list[Named]:
    """Return what a journey of the document names, in its order."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.split(f"## Journey of a {name}\n")[1].split("\n## ")[0]
    section = section[section.index("\n1. ") :]
    named = []
    folder = ""
    for path, function in re.findall(r"`((?:[\w]+/)*\w+\.py)(?:::([\w.]+))?`", section):
        own_folder, _, file = path.rpartition("/")
        folder = own_folder or folder
        named.append(Named(f"{folder}/{file}", function))
    return named


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Followed]:
    with pytest.MonkeyPatch.context() as patch:
        return asyncio.run(follow(tmp_path_factory.mktemp("journeys") / "data", patch))


@pytest.mark.parametrize(("name", "num_functions"), [("query", 28), ("write", 12)])
def test_a_request_calls_what_its_journey_names_in_this_order(
    followed: dict[str, Followed], name: str, num_functions: int
) -> None:
    wanted = [one for one in journey(name) if one.function]
    assert len(wanted) >= num_functions
    called = followed[name].one
    assert [one for one in wanted if one not in called] == []
    assert wanted == sorted(wanted, key=called.index)


@pytest.mark.parametrize("name", ["query", "write"])
def test_some_request_needs_each_file_that_its_journey_names(
    followed: dict[str, Followed], name: str
) -> None:
    called = {one.file for one in followed[name].all}
    assert [one.file for one in journey(name) if one.file not in called] == []
