"""Servers with nothing to do: the front of the service, and shards with a constant response.

    python -m benchmarks.floor_servers shard PORT
    python -m benchmarks.floor_servers front PORT [SHARD_PORT …]

The frame is that of facetd: aiohttp on uvloop in front, `common.protocol` between the processes,
the messages of a search with 4 facets and 10 hits, an answer spliced from stored bytes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import numpy as np
import orjson
import uvloop
from aiohttp import web

from common.protocol.authentication import Authenticator
from common.protocol.client import RpcClient
from common.protocol.messages import (
    PROTOCOL_VERSION,
    FacetCounts,
    FacetRequest,
    GetRequest,
    GetResponse,
    Hello,
    SearchRequest,
    SearchResponse,
    Welcome,
)
from common.protocol.methods import GET, SEARCH
from common.protocol.server import Handler, RpcServer

SECRET = "floor"
FACETS = ("brand", "category", "country", "tags")
NUM_HITS = 10
ITEM_BYTES = 490

_DOCUMENT = orjson.dumps({"id": 1, "title": "x" * (ITEM_BYTES - len(b'{"id":1,"title":""}'))})
_COUNTS = np.array([0, 0, 10, 0, *range(10)], np.uint16).tobytes()
"""Ten counts of one facet, as `packed_counts` draws them."""


def search_answer(num_documents: int) -> SearchResponse:
    """Return what a shard answers to a search with four facets."""
    return SearchResponse(
        total=12_345,
        places=np.arange(NUM_HITS, dtype=np.uint64).tobytes(),
        scores=np.ones(NUM_HITS).tobytes(),
        records=np.arange(NUM_HITS, dtype=np.uint64).tobytes(),
        sort_values=(),
        documents=(_DOCUMENT,) * num_documents,
        facets=tuple(FacetCounts(field=name, epoch=1, num_values=10, live=None) for name in FACETS),
        ranges=(),
        explanations=(),
        timings_us=(0, 0, 0),
        facet_counts=_COUNTS * len(FACETS),
    )


async def serve_shard(port: int) -> None:
    """Answer every search and every get with the same bytes."""

    def search(request: SearchRequest) -> SearchResponse:
        return search_answer(request.num_documents)

    handlers = (
        Handler(SEARCH, search),
        Handler(GET, lambda _: GetResponse(_DOCUMENT)),
    )
    authenticate = Authenticator(
        secret=SECRET, shard=0, num_shards=1, make_welcome=lambda: Welcome(pid=0, seq_max=0)
    )
    await RpcServer(handlers, authenticate).listen("127.0.0.1", port)
    await asyncio.Event().wait()


def search_request(num_documents: int) -> SearchRequest:
    """Return a search as the coordinator would send it."""
    return SearchRequest(
        index=1,
        horizon=1,
        revision=1,
        query=None,
        filters=(),
        facets=tuple(
            FacetRequest(field=name, leaves_out_own=False, num_live_wanted=10) for name in FACETS
        ),
        ranges=(),
        sort=(),
        is_place_descending=False,
        num_hits=NUM_HITS,
        num_documents=num_documents,
    )


def splice(answers: Sequence[SearchResponse]) -> bytes:
    """Put the page together, as `coordinator` does: stored bytes are not parsed."""
    documents = [document for answer in answers for document in answer.documents][:NUM_HITS]
    buckets = [
        {"key": f"value{i:04d}", "doc_count": 1_000 - i, "selected": False} for i in range(10)
    ]
    envelope = {
        "pagination": {"per_page": 10, "page": 1, "total": sum(a.total for a in answers)},
        "timings": {"total": 0, "search": 0, "facets": 0, "sort": 0, "sorting": 0},
        "data": {
            "items": [orjson.Fragment(document) for document in documents],
            "aggregations": {
                name: {"name": name, "title": name, "position": i, "buckets": buckets}
                for i, name in enumerate(FACETS, 1)
            },
        },
    }
    return orjson.dumps(envelope)


async def serve_front(port: int, shard_ports: Sequence[int]) -> None:
    """Serve /nothing (no work), /search (fan-out to all shards) and /item (one shard)."""
    hello = Hello(protocol_version=PROTOCOL_VERSION, secret=SECRET, shard=0, num_shards=1)
    shards = [(await RpcClient.connect("127.0.0.1", p, hello))[0] for p in shard_ports]
    wanted = search_request(-(-NUM_HITS // max(1, len(shards))))
    json_headers = {"Content-Type": "application/json"}

    async def nothing(_: web.Request) -> web.Response:
        return web.Response(body=b'{"status":"ok"}', headers=json_headers)

    async def search(_: web.Request) -> web.Response:
        calls = [shard.call(SEARCH, wanted) for shard in shards]
        answers = [await call for call in calls]
        return web.Response(body=splice(answers), headers=json_headers)

    async def item(_: web.Request) -> web.Response:
        request = GetRequest(index=1, horizon=1, id=b"1")
        answer = await shards[0].call(GET, request)
        return web.Response(body=answer.document, headers=json_headers)

    app = web.Application()
    app.router.add_get("/nothing", nothing)
    app.router.add_get("/item", item)
    app.router.add_post("/search", search)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


def main(role: str, port: int, shard_ports: Sequence[int]) -> None:
    """Run one server until it is stopped."""
    uvloop.run(serve_shard(port) if role == "shard" else serve_front(port, shard_ports))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), [int(word) for word in sys.argv[3:]])
