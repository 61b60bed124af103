"""Writes, as the tests of the write path make them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable

import orjson

from common.item_placement import shard_of_id
from coordinator.catalog.catalog import Index
from coordinator.write.write_result import WriteResult
from tests.coordinator.conftest import Service, soon
from tests.coordinator.model_shard import ModelShard


def lines(items: Iterable[object]) -> bytes:
    return b"\n".join(orjson.dumps(item) for item in items)


async def chunks(body: bytes, step: int = 1000) -> AsyncIterator[bytes]:
    for start in range(0, len(body), step):
        yield body[start : start + step]
        await asyncio.sleep(0)


async def broken_chunks(body: bytes) -> AsyncIterator[bytes]:
    yield body
    raise ConnectionResetError


def put(
    service: Service, index: Index, item_id: bytes, text: bytes = b""
) -> asyncio.Future[WriteResult]:
    """Begin to write an item."""
    body = b'[{"id":%b,"text":"%b"}]' % (item_id, text)
    return asyncio.ensure_future(service.ingest.put_items(index, body, soon()))


def id_on(shard: int, num_shards: int, skip: int = 0) -> bytes:
    """Return an id whose item a shard owns; others of them with `skip`."""
    ids = (b"%d" % number for number in itertools.count())
    owned = (one for one in ids if shard_of_id(one, num_shards) == shard)
    return next(itertools.islice(owned, skip, None))


async def turns() -> None:
    """Let the loop do what it has to do."""
    for _ in range(20):
        await asyncio.sleep(0)


def has_applied(shard: ModelShard, num_groups: int) -> bool:
    return len(shard.applied) >= num_groups
