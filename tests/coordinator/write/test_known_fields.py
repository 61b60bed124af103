"""The limit on the fields of an index, held by writes at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import orjson
import pytest

from common.errors import InvalidRequest
from coordinator.catalog.catalog import Index
from coordinator.settings import Settings
from coordinator.write import bulk_loads
from tests.coordinator.conftest import MakeService, Service, soon
from tests.coordinator.model_shard import all_documents
from tests.coordinator.write.writes import chunks, lines
from tests.waiting import until

FIELDS_MAX = 10
LIMITS = replace(Settings().limits, index_fields_max=FIELDS_MAX)


def with_fields(name: str, num_fields: int) -> dict[str, int]:
    """Return an item with that many fields besides its id."""
    return {"id": ord(name), **{f"{name}{i}": i for i in range(num_fields)}}


def num_fields(service: Service, index: Index) -> int:
    items = map(orjson.loads, all_documents(service.shards, index.number))
    return len({field for item in items for field in item})


async def held_back(body: bytes, is_open: asyncio.Event) -> AsyncIterator[bytes]:
    """Send a body whose end waits."""
    yield body
    await is_open.wait()


async def test_first_writes_at_the_same_time_share_the_limit(make_service: MakeService) -> None:
    """Each asked the shards, and counted its own fields alone."""
    service = await make_service(2, limits=LIMITS)
    index = await service.configure()
    ended = await asyncio.gather(
        *(
            service.ingest.put_items(index, orjson.dumps([with_fields(name, 6)]), soon())
            for name in "abc"
        ),
        return_exceptions=True,
    )
    refused = [one for one in ended if isinstance(one, InvalidRequest)]
    assert [one.code for one in refused] == ["too_many_index_fields"] * 2
    assert num_fields(service, index) == 7


async def test_a_load_counts_the_fields_of_one_that_is_not_stored_yet(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_loads, "SCAN_BYTES", 1)
    service = await make_service(2, limits=LIMITS)
    index = await service.configure()
    is_open = asyncio.Event()
    body = lines([with_fields("a", 6), {"id": 1}]) + b"\n"
    first = asyncio.ensure_future(service.loads.load(index, held_back(body, is_open)))
    await until(lambda: [one.items_read for one in service.loads.running] == [2])
    second = service.loads.load(index, chunks(lines([with_fields("b", 6)])))
    try:
        with pytest.raises(InvalidRequest, match="index_fields_max"):
            await second
    finally:
        is_open.set()
    assert (await first).created == 2
    assert num_fields(service, index) == 7


async def test_fields_of_a_load_that_was_refused_do_not_count(make_service: MakeService) -> None:
    service = await make_service(2, limits=LIMITS)
    index = await service.configure()
    with pytest.raises(InvalidRequest):
        await service.loads.load(index, chunks(lines([with_fields("a", 6)]) + b"\n{"))
    assert (await service.loads.load(index, chunks(lines([with_fields("b", 9)])))).created == 1
    with pytest.raises(InvalidRequest):
        await service.ingest.put_items(index, orjson.dumps([with_fields("c", 1)]), soon())
    assert num_fields(service, index) == FIELDS_MAX
