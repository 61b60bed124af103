from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterable
from functools import partial

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.deadline import Deadline
from common.errors import (
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    NotFound,
    PartlyStored,
    PayloadTooLarge,
    StorageFull,
    Unavailable,
)
from common.limits import Limits
from common.placement import shard_of_id
from coordinator.cluster.catalog import Catalog, Index
from coordinator.cluster.shard_client import ShardState
from coordinator.write.ingest import with_id
from coordinator.write.write_queue import GROUPS_UNDER_WAY_MAX, LARGE_BYTES, ranges
from coordinator.write.write_result import WriteResult
from tests.coordinator.conftest import MakeService, Service, soon
from tests.coordinator.model_shard import ModelShard, all_documents, only
from tests.waiting import until


def _lines(items: Iterable[object]) -> bytes:
    return b"\n".join(orjson.dumps(item) for item in items)


async def _chunks(body: bytes, step: int = 1000) -> AsyncIterator[bytes]:
    for start in range(0, len(body), step):
        yield body[start : start + step]
        await asyncio.sleep(0)


async def _broken_chunks(body: bytes) -> AsyncIterator[bytes]:
    yield body
    raise ConnectionResetError


def _put(
    service: Service, index: Index, item_id: bytes, text: bytes = b""
) -> asyncio.Future[WriteResult]:
    """Begin to write an item."""
    body = b'[{"id":%b,"text":"%b"}]' % (item_id, text)
    return asyncio.ensure_future(service.ingest.put_items(index, body, soon()))


def _id_on(shard: int, num_shards: int, skip: int = 0) -> bytes:
    """Return an id whose item a shard owns; others of them with `skip`."""
    ids = (b"%d" % number for number in itertools.count())
    owned = (one for one in ids if shard_of_id(one, num_shards) == shard)
    return next(itertools.islice(owned, skip, None))


async def _turns() -> None:
    """Let the loop do what it has to do."""
    for _ in range(20):
        await asyncio.sleep(0)


def _has_applied(shard: ModelShard, num_groups: int) -> bool:
    return len(shard.applied) >= num_groups


class TestSingleItems:
    async def test_a_batch_is_divided_and_counted(self, make_service: MakeService) -> None:
        service = await make_service(3)
        index = await service.configure()
        items = [{"id": i, "name": f"n{i}"} for i in range(50)]
        result = await service.ingest.put_items(index, orjson.dumps(items), soon())
        assert (result.created, result.updated, result.seq) == (50, 0, 1)
        assert all_documents(service.shards, index.number) == [orjson.dumps(i) for i in items]
        assert sum(len(shard.applied) for shard in service.shards) == 3
        result = await service.ingest.put_items(index, orjson.dumps(items[:7]), soon())
        assert (result.created, result.updated, result.seq) == (0, 7, 2)
        assert service.cluster.horizon(index.number) == 2

    async def test_items_without_id_are_stored_anew_each_time(
        self, make_service: MakeService
    ) -> None:
        service = await make_service()
        index = await service.configure()
        for _ in range(2):
            result = await service.ingest.put_items(index, b'[{"a":1},{"a":2},{"id":7}]', soon())
        assert (result.created, result.updated) == (2, 1)
        assert len(all_documents(service.shards, index.number)) == 5

    async def test_one_bad_item_refuses_the_batch(self, make_service: MakeService) -> None:
        service = await make_service()
        index = await service.configure()
        with pytest.raises(InvalidRequest) as caught:
            await service.ingest.put_items(index, b'[{"id":1},{"id":-1},{"id":2},7]', soon())
        assert caught.value.code == "invalid_id"
        assert [error["index"] for error in caught.value.details["errors"]] == [1, 3]
        assert caught.value.details["rejected"] == 2
        assert all_documents(service.shards, index.number) == []

    @pytest.mark.parametrize("body", [b"", b"null", b"7", b'"a"'])
    async def test_a_body_without_items_is_refused(
        self, make_service: MakeService, body: bytes
    ) -> None:
        service = await make_service()
        index = await service.configure()
        with pytest.raises(InvalidRequest) as caught:
            await service.ingest.put_items(index, body, soon())
        assert caught.value.code == "invalid_body"

    async def test_an_empty_batch_writes_nothing(self, make_service: MakeService) -> None:
        service = await make_service()
        index = await service.configure()
        result = await service.ingest.put_items(index, b" [ ] ", soon())
        assert (result.created, result.seq) == (0, 0)

    async def test_too_many_items_are_refused(self, make_service: MakeService) -> None:
        service = await make_service(limits=Limits(batch_items_max=2))
        index = await service.configure()
        with pytest.raises(PayloadTooLarge, match=r"2 \(limit batch_items_max\) items, not 3"):
            await service.ingest.put_items(index, b"[{},{},{}]", soon())

    async def test_replace_merge_and_delete(self, make_service: MakeService) -> None:
        service = await make_service()
        index = await service.configure()
        ingest = service.ingest
        await ingest.put_items(index, b'[{"id":5,"a":1}]', soon())
        await ingest.replace_item(index, b"5", b'{"a":2}', soon())
        assert all_documents(service.shards, index.number) == [b'{"id":5,"a":2}']
        result = await ingest.merge_item(index, b"5", b'{"id":"5","b":3}', soon())
        assert result.updated == 1
        result = await ingest.delete_item(index, b"5", soon())
        assert result.deleted == 1
        assert all_documents(service.shards, index.number) == []

    async def test_what_is_not_there_cannot_be_changed(self, make_service: MakeService) -> None:
        service = await make_service()
        index = await service.configure()
        for write in (
            service.ingest.replace_item(index, b"5", b"{}", soon()),
            service.ingest.merge_item(index, b"5", b"{}", soon()),
            service.ingest.delete_item(index, b"5", soon()),
        ):
            with pytest.raises(NotFound) as caught:
                await write
            assert caught.value.code == "item_not_found"

    async def test_another_id_in_the_body_is_refused(self, make_service: MakeService) -> None:
        service = await make_service()
        index = await service.configure()
        with pytest.raises(InvalidRequest) as caught:
            await service.ingest.replace_item(index, b"5", b'{"id":6}', soon())
        assert caught.value.code == "id_mismatch"

    async def test_deleting_by_ids_counts_those_that_were_there(
        self, make_service: MakeService
    ) -> None:
        service = await make_service()
        index = await service.configure()
        await service.ingest.put_items(index, b'[{"id":1},{"id":2},{"id":3}]', soon())
        result = await service.ingest.delete_items(index, [b"1", b"9", b"3"], soon())
        assert result.deleted == 2
        assert all_documents(service.shards, index.number) == [b'{"id":2}']


@pytest.mark.parametrize(
    ("item", "item_id", "expected"),
    [
        (b"{}", b"5", b'{"id":5}'),
        (b" { } ", b"5", b'{"id":5 }'),
        (b'{"a":1}', b"05", b'{"id":"05","a":1}'),
        (b'\n{"a":1}\n', b"0", b'{"id":0,"a":1}'),
        (b'{"a":1}', b'x"y', b'{"id":"x\\"y","a":1}'),
        (b'{"a":1}', str(2**63).encode(), b'{"id":"9223372036854775808","a":1}'),
    ],
)
def test_an_id_is_put_in_front(item: bytes, item_id: bytes, expected: bytes) -> None:
    assert with_id(item, item_id) == expected
    assert orjson.loads(expected)["id"] in (
        item_id.decode(),
        int(item_id) if item_id.isdigit() else "",
    )


class TestGroups:
    async def test_concurrent_writes_share_groups(self, make_service: MakeService) -> None:
        service = await make_service(1)
        index = await service.configure()
        writes = [service.ingest.put_items(index, b'[{"id":%d}]' % i, soon()) for i in range(40)]
        results = await asyncio.gather(*writes)
        assert len(service.shards[0].applied) <= 3
        assert {result.created for result in results} == {1}
        assert len(all_documents(service.shards, index.number)) == 40

    async def test_writes_gather_while_the_shards_they_need_are_busy(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(1)
        index = await service.configure()
        shard = service.shards[0]
        shard.gate.clear()
        tasks = []
        for i in range(4):
            tasks.append(_put(service, index, b"%d" % i))
            await until(partial(_has_applied, shard, 1))
        await _turns()
        assert len(shard.applied) == 1
        assert service.ingest.num_waiting() == 3
        assert service.cluster.horizon(index.number) == 0
        shard.gate.set()
        await asyncio.gather(*tasks)
        assert [len(request.lengths) // 4 for request in shard.applied] == [1, 3]
        assert service.cluster.horizon(index.number) == 2

    async def test_a_group_begins_when_a_shard_that_it_needs_is_free(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(2)
        index = await service.configure()
        busy, free = service.shards
        busy.gate.clear()
        tasks = [_put(service, index, _id_on(0, 2))]
        await until(partial(_has_applied, busy, 1))
        tasks.append(_put(service, index, _id_on(0, 2, skip=1)))
        await _turns()
        assert len(busy.applied) == 1
        tasks.append(_put(service, index, _id_on(1, 2)))
        await until(partial(_has_applied, free, 1))
        await until(partial(_has_applied, busy, 2))  # what gathered went along
        assert service.ingest.num_waiting() == 0
        busy.gate.set()
        await asyncio.gather(*tasks)

    async def test_no_more_than_three_groups_are_under_way(self, make_service: MakeService) -> None:
        service = await make_service(4)
        index = await service.configure()
        tasks = []
        for number, shard in enumerate(service.shards):
            shard.gate.clear()
            tasks.append(_put(service, index, _id_on(number, 4)))
            if number < GROUPS_UNDER_WAY_MAX:
                await until(partial(_has_applied, shard, 1))
        await _turns()
        assert [len(shard.applied) for shard in service.shards] == [1, 1, 1, 0]
        for shard in service.shards:
            shard.gate.set()
        await asyncio.gather(*tasks)

    async def test_what_is_large_goes_ahead(self, make_service: MakeService) -> None:
        service = await make_service(1)
        index = await service.configure()
        (shard,) = service.shards
        shard.gate.clear()
        text = b"x" * LARGE_BYTES
        tasks = []
        for number in range(3):
            tasks.append(_put(service, index, b"%d" % number, text))
            await until(partial(_has_applied, shard, min(number + 1, 2)))
        await _turns()
        assert len(shard.applied) == 2
        assert service.ingest.num_waiting() == 1
        shard.gate.set()
        await asyncio.gather(*tasks)

    async def test_only_the_shards_concerned_are_asked(self, make_service: MakeService) -> None:
        service = await make_service(3)
        index = await service.configure()
        await service.ingest.put_items(index, b'[{"id":1}]', soon())
        assert sorted(len(shard.applied) for shard in service.shards) == [0, 0, 1]

    async def test_an_older_reader_keeps_its_horizon_named(self, make_service: MakeService) -> None:
        service = await make_service(1)
        index = await service.configure()
        await service.ingest.put_items(index, b'[{"id":1}]', soon())
        with service.cluster.reading(index.number) as horizon:
            await service.ingest.put_items(index, b'[{"id":2}]', soon())
            await service.ingest.put_items(index, b'[{"id":3}]', soon())
            assert horizon == 1
            assert [r.horizon for r in service.shards[0].applied] == [0, 1, 1]
        await service.ingest.put_items(index, b'[{"id":4}]', soon())
        assert service.shards[0].applied[-1].horizon == 3

    async def test_a_refusal_of_one_shard_fails_only_who_needed_it(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(2)
        index = await service.configure()
        service.shards[0].refusal = StorageFull("the disk is full")
        writes = [service.ingest.put_items(index, b'[{"id":%d}]' % i, soon()) for i in range(20)]
        results = await asyncio.gather(*writes, return_exceptions=True)
        num_full = sum(isinstance(result, StorageFull) for result in results)
        stored = all_documents(service.shards, index.number)
        assert 0 < num_full < 20
        assert len(stored) == 20 - num_full
        service.shards[0].refusal = None
        await service.ingest.put_items(index, b'[{"id":99}]', soon())

    async def test_a_wait_beyond_the_deadline_says_whether_it_was_sent(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(1)
        index = await service.configure()
        service.shards[0].gate.clear()
        under_way = asyncio.ensure_future(
            service.ingest.put_items(index, b'[{"id":0}]', Deadline.after_ms(50))
        )
        await until(lambda: service.shards[0].applied)
        with pytest.raises(DeadlineExceeded, match="nothing was written"):
            await service.ingest.put_items(index, b'[{"id":7}]', Deadline.after_ms(10))
        with pytest.raises(DeadlineExceeded, match="may still be carried out"):
            await under_way
        service.shards[0].gate.set()
        assert b'{"id":7}' not in all_documents(service.shards, index.number)

    async def test_overload_is_refused_at_once(self, make_service: MakeService) -> None:
        service = await make_service(1, writes_waiting_max=2)
        index = await service.configure()
        service.shards[0].gate.clear()
        tasks = [_put(service, index, b"0")]
        await until(lambda: service.shards[0].applied)
        tasks += [_put(service, index, b"1"), _put(service, index, b"2")]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable) as caught:
            await service.ingest.put_items(index, b'[{"id":9}]', soon())
        assert caught.value.code == "overloaded"
        service.shards[0].gate.set()
        await asyncio.gather(*tasks)


class TestFaults:
    async def test_a_shard_that_dies_fails_the_writes_in_flight(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(2)
        index = await service.configure()
        for shard in service.shards:
            shard.gate.clear()
        body = orjson.dumps([{"id": i} for i in range(20)])
        write = asyncio.ensure_future(service.ingest.put_items(index, body, soon()))
        await until(lambda: all(shard.applied for shard in service.shards))
        await service.shards[1].die()
        service.shards[0].gate.set()
        with pytest.raises(Unavailable) as caught:
            await write
        assert caught.value.code == "shard_unavailable"
        # The part that the other shard has is settled: nothing waits for the dead one.
        assert service.cluster.horizon(index.number) == 1

    async def test_a_group_in_doubt_is_seen_when_its_shard_is_back_and_has_it(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(1)
        index = await service.configure()
        service.shards[0].gate.clear()
        write = asyncio.ensure_future(service.ingest.put_items(index, b'[{"id":1}]', soon()))
        await until(lambda: service.shards[0].applied)
        await service.shards[0].die()
        with pytest.raises(Unavailable):
            await write
        assert service.cluster.horizon(index.number) == 0
        service.shards[0].gate.set()
        await service.shards[0].announce(service.data)
        await service.wait_state(0, ShardState.SERVING)
        assert service.cluster.horizon(index.number) == 1

    async def test_a_group_that_no_shard_has_moves_no_horizon(
        self, make_service: MakeService
    ) -> None:
        """Found by the simulation: a coordinator that started anew gave its number to another
        write, although searches had named it."""
        service = await make_service(1)
        index = await service.configure()
        service.shards[0].refusal = StorageFull("no room")
        with pytest.raises(StorageFull):
            await service.ingest.put_items(index, b'[{"id":1}]', soon())
        assert service.cluster.horizon(index.number) == 0
        service.shards[0].refusal = None
        await service.shards[0].die()
        await service.shards[0].announce(service.data)
        await service.wait_state(0, ShardState.SERVING)
        assert service.cluster.horizon(index.number) == 0
        assert (await service.ingest.put_items(index, b'[{"id":1}]', soon())).seq == 2
        assert service.cluster.horizon(index.number) == 2

    async def test_nothing_is_sent_if_a_needed_shard_is_away(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(2)
        index = await service.configure()
        await service.shards[1].die()
        await service.wait_state(1, ShardState.AWAY)
        body = orjson.dumps([{"id": i} for i in range(20)])
        with pytest.raises(Unavailable, match="nothing was written"):
            await service.ingest.put_items(index, body, soon())
        assert service.shards[0].applied == []
        await service.shards[1].announce(service.data)
        await service.wait_state(1, ShardState.SERVING)
        assert (await service.ingest.put_items(index, body, soon())).created == 20

    async def test_the_sequence_goes_on_behind_what_shards_have(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(2)
        index = await service.configure()
        for i in range(3):
            await service.ingest.put_items(index, b'[{"id":%d}]' % i, soon())
        await service.cluster.stop()
        catalog = Catalog.open(service.data, 2)
        assert catalog.index("films").number == index.number
        again = await make_service(2)
        # New model shards, but told the old sequence.
        again.cluster.seq = 3
        assert (await again.ingest.put_items(index, b'[{"id":9}]', soon())).seq == 4

    async def test_a_bug_in_a_shard_is_an_internal_error(self, make_service: MakeService) -> None:
        service = await make_service(1)
        index = await service.configure()
        service.shards[0].documents = None  # type: ignore[assignment]
        with pytest.raises(InternalError):
            await service.ingest.put_items(index, b'[{"id":1}]', soon())


class TestBulk:
    @pytest.mark.parametrize("is_array", [True, False])
    @pytest.mark.parametrize("step", [7, 1000, 10**9])
    async def test_all_items_arrive_in_their_order(
        self, make_service: MakeService, is_array: bool, step: int
    ) -> None:
        service = await make_service(3)
        index = await service.configure()
        items = [{"id": f"x{i}", "n": i} for i in range(300)]
        body = orjson.dumps(items) if is_array else _lines(items)
        result = await service.loads.load(index, _chunks(body, step))
        assert (result.created, result.rejected) == (300, 0)
        assert all_documents(service.shards, index.number) == [orjson.dumps(i) for i in items]

    async def test_a_large_body_goes_in_several_groups(self, make_service: MakeService) -> None:
        service = await make_service(2, group_bytes=65_536)
        index = await service.configure()
        items = [{"id": i, "text": "x" * 1000} for i in range(1000)]
        result = await service.loads.load(index, _chunks(_lines(items), 100_000))
        assert result.created == 1000
        assert result.seq == service.cluster.horizon(index.number) >= 7
        assert all_documents(service.shards, index.number) == [orjson.dumps(i) for i in items]

    async def test_a_load_tells_how_far_it_is(self, make_service: MakeService) -> None:
        service = await make_service(2, group_bytes=65_536)
        index = await service.configure()
        body = _lines([{"id": i, "text": "x" * 1000} for i in range(1000)])
        loading = asyncio.create_task(
            service.loads.load(index, _chunks(body, 100_000), request_id="mine")
        )
        seen = []
        while not loading.done():
            await asyncio.sleep(0)
            seen += [load.shown() for load in service.loads.running]
        await loading
        assert service.loads.running == []
        assert {(one["id"], one["index"]) for one in seen} == {("mine", "films")}
        for name in ("bytes_received", "items_read", "items_stored"):
            numbers = [one[name] for one in seen]
            assert numbers == sorted(numbers)
        assert seen[-1]["bytes_received"] == len(body)
        assert {one["items_stored"] for one in seen if one["state"] == "receiving"} == {0}
        stored = {one["items_stored"] for one in seen if one["state"] == "storing"}
        assert len(stored) > 2, "the groups that are durable, one after the other"
        with pytest.raises(InvalidRequest):
            await service.loads.load(index, _chunks(b"{"))
        assert service.loads.running == []

    async def test_items_without_ids_keep_their_order_too(self, make_service: MakeService) -> None:
        service = await make_service(3, group_bytes=65_536)
        index = await service.configure()
        items = [{"n": i, "text": "x" * 500} for i in range(1000)]
        result = await service.loads.load(index, _chunks(_lines(items), 50_000))
        assert result.created == 1000
        assert all_documents(service.shards, index.number) == [orjson.dumps(i) for i in items]
        assert all(len(shard.documents[index.number]) > 200 for shard in service.shards)

    async def test_a_bad_item_changes_nothing(self, make_service: MakeService) -> None:
        service = await make_service()
        index = await service.configure()
        body = b'{"id":1}\n{"id":}\n{"id":3}\n[]\n'
        with pytest.raises(InvalidRequest) as caught:
            await service.loads.load(index, _chunks(body))
        assert [error["line"] for error in caught.value.details["errors"]] == [2, 4]
        assert all_documents(service.shards, index.number) == []

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            (b'{"id":1}\n{"id":}', "line 2, byte 7: "),
            (b'[{"id":1},{"id":}]', "item 1, byte 17: "),
            (b"id,name\n1,sea\n", "line 1, byte 1: "),
        ],
    )
    async def test_a_place_is_named_once_and_what_is_no_json_is_told_what_is(
        self, make_service: MakeService, body: bytes, message: str
    ) -> None:
        service = await make_service()
        index = await service.configure()
        with pytest.raises(InvalidRequest) as raised:
            await service.loads.load(index, _chunks(body))
        text = raised.value.message
        assert text.startswith(message)
        assert text.count("byte") == 1
        assert ("facetd load also reads CSV" in text) == (b"," in body[:4])

    async def test_bad_items_are_skipped_on_request(self, make_service: MakeService) -> None:
        service = await make_service()
        index = await service.configure()
        body = b'{"id":1}\n{"id":}\n{"id":3}\n[]\n'
        result = await service.loads.load(index, _chunks(body), skips_bad=True)
        assert (result.created, result.rejected) == (2, 2)
        assert [error["line"] for error in result.errors] == [2, 4]

    async def test_errors_are_counted_beyond_those_listed(self, make_service: MakeService) -> None:
        service = await make_service(limits=Limits(errors_reported_max=3))
        index = await service.configure()
        result = await service.loads.load(index, _chunks(b"7\n" * 50), skips_bad=True)
        assert (result.rejected, len(result.errors)) == (50, 3)

    async def test_a_body_that_is_cut_off_changes_nothing(self, make_service: MakeService) -> None:
        service = await make_service()
        index = await service.configure()
        with pytest.raises(ConnectionResetError):
            await service.loads.load(index, _broken_chunks(b'{"id":1}\n' * 500_000))
        assert all_documents(service.shards, index.number) == []
        assert list((service.data / "spool").iterdir()) == []

    async def test_an_empty_body_loads_nothing(self, make_service: MakeService) -> None:
        service = await make_service()
        index = await service.configure()
        result = await service.loads.load(index, _chunks(b""))
        assert (result.created, result.rejected) == (0, 0)

    async def test_it_goes_on_when_its_client_has_gone(self, make_service: MakeService) -> None:
        service = await make_service(1)
        index = await service.configure()
        service.shards[0].gate.clear()
        load = asyncio.ensure_future(service.loads.load(index, _chunks(b'{"id":1}')))
        await until(lambda: service.shards[0].applied)
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
        service.shards[0].gate.set()
        await service.ingest.put_items(index, b'[{"id":2}]', soon())
        assert service.cluster.horizon(index.number) == 2

    async def test_a_shard_that_dies_ends_it_and_says_what_was_written(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(1, group_bytes=65_536)
        index = await service.configure()
        shard = service.shards[0]
        items = [{"id": i, "text": "x" * 1000} for i in range(500)]
        shard.gate.clear()
        load = asyncio.ensure_future(service.loads.load(index, _chunks(_lines(items), 10**6)))
        await until(lambda: shard.applied)
        await shard.die()
        shard.gate.set()
        with pytest.raises(Unavailable) as caught:
            await load
        assert "created" in caught.value.details


class TestConfiguration:
    async def test_it_is_prepared_then_committed_then_pushed(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(2)
        index, plan = await service.administration.configure("films", {"colour": 1})
        assert plan.warnings == ["colour is unknown and has no effect"]
        for shard in service.shards:
            assert (only(shard.prepared).entry,) == service.catalog.message().indexes
            assert shard.catalogs[-1].indexes == service.catalog.message().indexes
        assert Catalog.open(service.data, 2).index("films") == index

    async def test_numbers_and_revisions_are_never_used_again(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(1)
        first = await service.configure("films")
        again = await service.configure("films")
        await service.administration.delete_index("films")
        reborn = await service.configure("films")
        assert first.number == again.number < reborn.number
        assert first.revision < again.revision < reborn.revision

    async def test_a_wrong_document_changes_nothing(self, make_service: MakeService) -> None:
        service = await make_service(1)
        with pytest.raises(InvalidRequest):
            await service.administration.configure("films", {"aggregations": 7})
        assert service.shards[0].prepared == []
        with pytest.raises(NotFound, match="POST a configuration"):
            service.catalog.index("films")

    async def test_a_shard_that_cannot_prepare_leaves_the_old_one(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(2)
        index = await service.configure()
        service.shards[1].prepare_refusal = StorageFull("no room")
        with pytest.raises(StorageFull):
            await service.administration.configure("films", {"language": "english"})
        assert service.catalog.index("films") == index
        given_up = service.shards[0].prepared[-1].entry.revision
        last = service.shards[0].catalogs[-1]  # what it does not name is discarded
        assert last.revision == service.catalog.state.revision
        assert given_up not in [entry.revision for entry in last.indexes]
        service.shards[1].prepare_refusal = None
        changed, _ = await service.administration.configure("films", {"language": "english"})
        assert changed.revision > index.revision

    async def test_writes_wait_while_an_index_is_rebuilt(self, make_service: MakeService) -> None:
        service = await make_service(1)
        index = await service.configure()
        shard = service.shards[0]
        shard.catalog_gate.clear()
        configuring = asyncio.ensure_future(service.configure())
        await until(lambda: len(shard.prepared) >= 2)
        write = asyncio.ensure_future(service.ingest.put_items(index, b'[{"id":1}]', soon()))
        with pytest.raises(DeadlineExceeded, match="nothing was written"):
            await service.ingest.put_items(index, b'[{"id":2}]', Deadline.after_ms(5))
        assert not write.done()
        shard.catalog_gate.set()
        await configuring
        assert (await write).created == 1

    async def test_requests_see_it_when_all_shards_have_it(self, make_service: MakeService) -> None:
        service = await make_service(2)
        first = await service.configure()
        service.shards[1].catalog_gate.clear()
        configuring = asyncio.ensure_future(service.configure())
        await until(lambda: service.catalog.state.revision > first.revision)
        assert service.catalog.index("films").revision == first.revision
        service.shards[1].catalog_gate.set()
        await configuring
        assert service.catalog.index("films").revision > first.revision

    async def test_a_shard_that_was_away_gets_it_with_its_handshake(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(2)
        await service.configure()
        await service.shards[1].die()
        await service.wait_state(1, ShardState.AWAY)
        with pytest.raises(Unavailable):
            await service.configure("books")
        await service.administration.delete_index("films")
        await service.shards[1].announce(service.data)
        await service.wait_state(1, ShardState.SERVING)
        assert service.shards[1].catalogs[-1].indexes == ()

    async def test_a_deleted_index_is_gone_for_writes_that_wait(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(1)
        index = await service.configure()
        await service.ingest.put_items(index, b'[{"id":1}]', soon())
        service.shards[0].catalog_gate.clear()
        deleting = asyncio.ensure_future(service.administration.delete_index("films"))
        await until(lambda: service.catalog.state.revision > index.revision)
        service.shards[0].catalog_gate.set()
        await deleting
        assert service.shards[0].documents == {}
        with pytest.raises(NotFound):
            await service.ingest.put_items(index, b'[{"id":2}]', soon())
        with pytest.raises(NotFound):
            await service.administration.delete_index("films")

    async def test_it_goes_on_behind_its_request(self, make_service: MakeService) -> None:
        service = await make_service(1)
        service.shards[0].catalog_gate.clear()
        with pytest.raises(DeadlineExceeded, match="goes on"):
            await service.administration.configure("films", {}, Deadline.after_ms(20))
        service.shards[0].catalog_gate.set()
        await service.configure("books")  # waits for its turn
        assert service.catalog.index("films").name == "films"

    async def test_an_alias_cannot_be_configured(self, make_service: MakeService) -> None:
        service = await make_service(1)
        await service.configure()
        await service.catalog.change(lambda state: state.with_aliases({"movies": "films"}))
        assert service.catalog.index("movies").name == "films"
        with pytest.raises(InvalidRequest, match="alias of 'films'"):
            await service.configure("movies")


class TestItemsWithoutIds:
    """What is sent twice is stored twice: a failure must say what was stored."""

    async def _write_and_lose(
        self, service: Service, index: Index, num_items: int, *, keeps: bool
    ) -> asyncio.Future[WriteResult]:
        """Lose shard 1 in the middle of a write, with or without its part."""
        if keeps:
            service.shards[1].gate.clear()
        else:
            service.shards[1].lost = asyncio.Event()
        items = [{"n": i} for i in range(num_items)]
        write = asyncio.ensure_future(service.ingest.put_items(index, orjson.dumps(items), soon()))
        await until(lambda: service.shards[0].applied)
        await until(lambda: service.shards[1].applied or service.shards[1].num_lost)
        await service.shards[1].die()
        service.shards[1].gate.set()
        service.shards[1].lost = None
        await service.wait_state(1, ShardState.AWAY)
        assert not write.done()
        await service.shards[1].announce(service.data)
        return write

    async def test_lost_answer_is_found_out(self, make_service: MakeService) -> None:
        service = await make_service(2)
        index = await service.configure()
        write = await self._write_and_lose(service, index, 50, keeps=True)

        assert (await write).created == 50
        assert len(all_documents(service.shards, index.number)) == 50

    async def test_lost_part_is_named(self, make_service: MakeService) -> None:
        service = await make_service(2)
        index = await service.configure()
        write = await self._write_and_lose(service, index, 50, keeps=False)
        with pytest.raises(PartlyStored) as caught:
            await write

        details = caught.value.details
        stored = {json.loads(one)["n"] for one in all_documents(service.shards, index.number)}
        missing = {n for first, last in details["not_stored"] for n in range(first, last + 1)}
        assert 0 < len(stored) < 50
        assert missing == set(range(50)) - stored
        assert (details["stored"], details["unknown"]) == (len(stored), [])
        assert not caught.value.is_retryable

    async def test_batch_of_which_nothing_was_stored_may_be_sent_again(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(1)
        index = await service.configure()
        service.shards[0].refusal = StorageFull("no room")
        with pytest.raises(StorageFull):
            await service.ingest.put_items(index, b'[{"n":1},{"n":2}]', soon())

    async def test_what_is_not_found_out_in_time_is_unknown(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(1)
        index = await service.configure()
        service.shards[0].gate.clear()
        deadline = Deadline.after_ms(1_000)
        with pytest.raises(PartlyStored) as caught:
            await service.ingest.put_items(index, b'[{"n":1},{"n":2}]', deadline)

        assert caught.value.details == {"stored": 0, "not_stored": [], "unknown": [[0, 1]]}

    async def test_load_says_what_was_stored(self, make_service: MakeService) -> None:
        service = await make_service(1, group_operations=10)
        index = await service.configure()
        shard = service.shards[0]
        shard.refuses_from_seq = 3
        items = [{"n": i} for i in range(100)]
        with pytest.raises(PartlyStored) as caught:
            await service.loads.load(index, _chunks(_lines(items), 10**6))

        details = caught.value.details
        stored = {json.loads(one)["n"] for one in all_documents(service.shards, index.number)}
        missing = {n for first, last in details["not_stored"] for n in range(first, last + 1)}
        missing |= set(range(details["not_stored_from"], 100))
        assert (details["stored"], details["created"]) == (20, 20)
        assert stored == set(range(20))
        assert missing == set(range(20, 100))


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 5))
def test_ranges_of_a_mask(mask: list[bool], offset: int) -> None:
    found = ranges(np.array(mask, np.bool_), offset)

    positions = [position for first, last in found for position in range(first, last + 1)]
    assert positions == [i + offset for i, one in enumerate(mask) if one]
