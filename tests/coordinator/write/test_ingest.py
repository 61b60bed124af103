"""The write path over model shards: batches, groups, and shards that fail in between."""

from __future__ import annotations

import asyncio
import json
import threading
from functools import partial
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.deadline import Deadline
from common.errors import (
    ConfigurationSwitched,
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    NotFound,
    PartlyStored,
    PayloadTooLarge,
    StorageFull,
    Unavailable,
)
from common.json.item_scanner import scan_item
from common.limits import Limits
from common.protocol.write_operations_and_outcomes import Operation
from coordinator.catalog.catalog import Catalog, Index
from coordinator.cluster.shard_client import ShardState
from coordinator.write import ingest
from coordinator.write.field_limit import FieldNames
from coordinator.write.group_commit_queue import (
    ASK_AGAIN_SECONDS,
    GROUPS_UNDER_WAY_MAX,
    LARGE_BYTES,
    WriteQueue,
)
from coordinator.write.ingest import with_id
from coordinator.write.partitioning import ItemOperation
from coordinator.write.write_batch import ranges
from coordinator.write.write_result import WriteResult
from tests.coordinator.conftest import MakeService, Service, soon
from tests.coordinator.model_shard import all_documents
from tests.coordinator.write.writes import chunks, has_applied, id_on, lines, put, turns
from tests.waiting import until


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

    async def test_items_without_id_are_stored_again_each_time(
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

    async def test_a_list_in_an_object_is_refused_unless_the_item_is_something_else(
        self, make_service: MakeService
    ) -> None:
        service = await make_service()
        index = await service.configure()
        with pytest.raises(InvalidRequest, match="send the list itself"):
            await service.ingest.put_items(index, b'{"items":[{"a":1}]}', soon())
        for body in (
            b'{"items":[{"a":1}],"id":1}',
            b'{"items":[{"a":1},2]}',
            b'{"items":[{"a":1}],"items":5}',
            b'{"items":[{"a":1}],"items":null}',
        ):
            assert (await service.ingest.put_items(index, body, soon())).created == 1, body

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

    async def test_large_items_are_checked_beside_the_event_loop(
        self, make_service: MakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Those of a request take a tenth of a second, in which others would not be answered."""
        service = await make_service()
        index = await service.configure()
        threads: list[threading.Thread] = []
        add_from = FieldNames.add_from

        def scanned(*arguments: Any) -> Any:
            threads.append(threading.current_thread())
            return scan_item(*arguments)

        def added(self: FieldNames, *arguments: Any) -> Any:
            threads.append(threading.current_thread())
            return add_from(self, *arguments)

        monkeypatch.setattr(ingest, "scan_item", scanned)
        monkeypatch.setattr(FieldNames, "add_from", added)
        item = orjson.dumps({"id": 7, "text": "word " * 200_000})
        await service.ingest.put_item(index, b"7", item, soon())
        await service.ingest.replace_item(index, b"7", item, soon())
        await service.ingest.merge_item(index, b"7", item, soon())
        await service.ingest.put_items(index, item, soon())
        put = ItemOperation(Operation.PUT, b"7", item)
        await service.ingest.write_operations(index, [put], soon())
        assert len(threads) == 10
        assert threading.main_thread() not in threads

        threads.clear()
        await service.ingest.put_item(index, b"7", b'{"id":7}', soon())
        assert set(threads) == {threading.main_thread()}, "a switch would take longer"

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
            tasks.append(put(service, index, b"%d" % i))
            await until(partial(has_applied, shard, 1))
        await turns()
        assert len(shard.applied) == 1
        assert service.ingest.num_waiting() == 3
        assert service.cluster.horizon(index.number) == 0
        shard.gate.set()
        await asyncio.gather(*tasks)
        assert [len(request.lengths) // 4 for request in shard.applied] == [1, 3]
        assert service.cluster.horizon(index.number) == 2

    @pytest.mark.parametrize("body", [b'[{"id":1}]', b'[{"text":"no id"}]'])
    async def test_a_group_that_cannot_be_sent_holds_up_no_other(
        self, make_service: MakeService, monkeypatch: pytest.MonkeyPatch, body: bytes
    ) -> None:
        service = await make_service(2)
        index = await service.configure()

        def no_memory(*_: object) -> None:
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr(WriteQueue, "_request", no_memory)
            for _ in range(GROUPS_UNDER_WAY_MAX + 1):
                with pytest.raises(InternalError):
                    await service.ingest.put_items(index, body, soon())
        async with asyncio.timeout(10):
            result = await service.ingest.put_items(index, body, soon())
            assert (result.created, result.seq) == (1, GROUPS_UNDER_WAY_MAX + 2)
            await service.configure()
        assert len(all_documents(service.shards, index.number)) == 1

    async def test_a_group_begins_when_a_shard_that_it_needs_is_free(
        self, make_service: MakeService
    ) -> None:
        service = await make_service(2)
        index = await service.configure()
        busy, free = service.shards
        busy.gate.clear()
        tasks = [put(service, index, id_on(0, 2))]
        await until(partial(has_applied, busy, 1))
        tasks.append(put(service, index, id_on(0, 2, skip=1)))
        await turns()
        assert len(busy.applied) == 1
        tasks.append(put(service, index, id_on(1, 2)))
        await until(partial(has_applied, free, 1))
        await until(partial(has_applied, busy, 2))  # what gathered went along
        assert service.ingest.num_waiting() == 0
        busy.gate.set()
        await asyncio.gather(*tasks)

    async def test_no_more_than_three_groups_are_under_way(self, make_service: MakeService) -> None:
        service = await make_service(4)
        index = await service.configure()
        tasks = []
        for number, shard in enumerate(service.shards):
            shard.gate.clear()
            tasks.append(put(service, index, id_on(number, 4)))
            if number < GROUPS_UNDER_WAY_MAX:
                await until(partial(has_applied, shard, 1))
        await turns()
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
            tasks.append(put(service, index, b"%d" % number, text))
            await until(partial(has_applied, shard, min(number + 1, 2)))
        await turns()
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
        tasks = [put(service, index, b"0")]
        await until(lambda: service.shards[0].applied)
        tasks += [put(service, index, b"1"), put(service, index, b"2")]
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
        """Found by the simulation: a restarted coordinator gave its number to another
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

    async def test_the_sequence_continues_after_that_of_the_shards(
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

    async def test_an_index_that_is_deleted_ends_the_wait_for_what_was_stored(
        self, make_service: MakeService
    ) -> None:
        """The shards were asked until the write's deadline."""
        service = await make_service(2)
        index = await service.configure()
        shard = service.shards[1]
        shard.forgets_index = True
        write = await self._write_and_lose(service, index, 50, keeps=True)
        await until(lambda: shard.num_asked > 1)
        assert not write.done()

        await service.administration.delete_index(index.name)
        with pytest.raises(ConfigurationSwitched):
            await asyncio.wait_for(write, 5)
        num_asked = shard.num_asked
        await asyncio.sleep(3 * ASK_AGAIN_SECONDS)
        assert shard.num_asked == num_asked

    async def test_what_no_shard_has_said_is_not_called_stored(
        self, make_service: MakeService
    ) -> None:
        """Two shards are lost; the first that is back does not know any more."""
        service = await make_service(3)
        index = await service.configure()
        first, *lost = service.shards
        for shard in lost:
            shard.lost = asyncio.Event()
        body = orjson.dumps([{"n": i} for i in range(60)])
        write = asyncio.ensure_future(service.ingest.put_items(index, body, soon()))
        await until(lambda: first.applied and all(shard.num_lost for shard in lost))
        for shard in lost:
            shard.forgets_groups = True
            await shard.die()
            shard.lost = None
            await service.wait_state(shard.shard, ShardState.AWAY)
        for shard in lost:
            await shard.announce(service.data)
        with pytest.raises(PartlyStored) as caught:
            await write

        details = caught.value.details
        stored = {json.loads(one)["n"] for one in all_documents(service.shards, index.number)}
        unknown = {n for first, last in details["unknown"] for n in range(first, last + 1)}
        assert 0 < len(stored) < 60
        assert unknown == set(range(60)) - stored
        assert (details["stored"], details["not_stored"]) == (len(stored), [])

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
            await service.loads.load(index, chunks(lines(items), 10**6))

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
