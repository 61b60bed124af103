"""The thinnest HTTP server in front of a Python library, for comparison only.

    python -m benchmarks.peers.servers.thin_server ENGINE ITEMS FOLDER     build an index
    THIN_ENGINE=… THIN_FOLDER=… granian … benchmarks.peers.servers.thin_server:app

ENGINE names a module of this folder. Runs in the peers' own environment, so it imports nothing
else of the project.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl

orjson: Any = import_module("orjson")


@dataclass(frozen=True)
class Search:
    """One search, as the engines get it."""

    words: tuple[str, ...] = ()
    filters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    facets: tuple[str, ...] = ()
    sort: str = ""
    page: int = 1
    per_page: int = 10
    is_prefix: bool = False
    num_typos: int = 0
    is_disjunctive: bool = False
    is_phrase: bool = False
    ranges: tuple[tuple[str, float, float], ...] = ()

    @property
    def offset(self) -> int:
        """How many hits come before the page."""
        return (self.page - 1) * self.per_page


@dataclass(frozen=True)
class Found:
    """Hits of an engine: items as JSON bytes."""

    total: int
    facets: dict[str, list[tuple[str, int]]]
    items: list[bytes]


def read(query_string: str) -> Search:
    """Read the parameters of a search."""
    given = dict(parse_qsl(query_string))
    return Search(
        words=tuple(given.get("text", "").split()),
        filters=tuple((k[2:], tuple(v.split(","))) for k, v in given.items() if k[:2] == "f."),
        facets=tuple(given["facets"].split(",")) if "facets" in given else (),
        sort=given.get("sort", ""),
        page=int(given.get("page", 1)),
        per_page=int(given.get("per_page", 10)),
        is_prefix="prefix" in given,
        num_typos=int(given.get("typos", 0)),
        is_disjunctive="disjunctive" in given,
        is_phrase="phrase" in given,
        ranges=tuple(_range(k, v) for k, v in given.items() if k[:2] == "r."),
    )


def _range(name: str, ends: str) -> tuple[str, float, float]:
    low, high = ends.split(",")
    return name[2:], float(low), float(high)


def run(engine: Any, search: Search) -> bytes:
    """Search; facets that ignore their own filter take one more search each, as everywhere."""
    own = [name for name, _ in search.filters if search.is_disjunctive and name in search.facets]
    rest = tuple(name for name in search.facets if name not in own)
    found: Found = engine.search(replace(search, facets=rest))
    for name in own:
        others = tuple(f for f in search.filters if f[0] != name)
        wider = replace(search, filters=others, facets=(name,), page=1, per_page=0)
        found.facets.update(engine.search(wider).facets)
    return b'{"total":%d,"facets":%b,"items":[%b]}' % (
        found.total,
        orjson.dumps(found.facets),
        b",".join(found.items),
    )


def _module(engine: str) -> Any:
    return import_module(f"benchmarks.peers.servers.{engine}")


class App:
    """A granian RSGI application."""

    engine: Any = None

    def __rsgi_init__(self, loop: object) -> None:
        """Open the index in each worker."""
        self.engine = _module(os.environ["THIN_ENGINE"]).Engine(os.environ["THIN_FOLDER"])

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        """Answer one request."""
        path: str = scope.path
        if path.startswith("/item/"):
            body = self.engine.item(int(path.removeprefix("/item/")))
        else:
            body = run(self.engine, read(scope.query_string))
        headers = [("content-type", "application/json")]
        protocol.response_bytes(200 if body else 404, headers, body or b"{}")


app = App()

if __name__ == "__main__":
    _module(sys.argv[1]).build(sys.argv[2], sys.argv[3])
