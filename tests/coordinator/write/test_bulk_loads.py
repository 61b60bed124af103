"""Bulk loads: read, checked and spooled as a whole, then written group by group."""

from __future__ import annotations

import asyncio
import gc
import gzip
import os
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from common.chunked_file_io import read_all, write_all
from common.errors import (
    InternalError,
    InvalidRequest,
    PartlyStored,
    Unavailable,
)
from common.limits import Limits
from coordinator.write import bulk_load_spool, bulk_loads
from tests.coordinator.conftest import MakeService, soon
from tests.coordinator.model_shard import all_documents
from tests.coordinator.write.writes import (
    broken_chunks,
    chunks,
    lines,
)
from tests.waiting import until


class TestBulk:
    @pytest.mark.parametrize("is_array", [True, False])
    @pytest.mark.parametrize("step", [7, 1000, 10**9])
    async def test_all_items_arrive_in_their_order(
        self, make_service: MakeService, is_array: bool, step: int
    ) -> None:
        service = await make_service(3)
        index = await service.configure()
        items = [{"id": f"x{i}", "n": i} for i in range(300)]
        body = orjson.dumps(items) if is_array else lines(items)
        result = await service.loads.load(index, chunks(body, step))
        assert (result.created, result.rejected) == (300, 0)
        assert all_documents(service.shards, index.number) == [orjson.dumps(i) for i in items]

    async def test_a_large_body_goes_in_several_groups(self, make_service: MakeService) -> None:
        service = await make_service(2, group_bytes=65_536)
        index = await service.configure()
        items = [{"id": i, "text": "x" * 1000} for i in range(1000)]
        result = await service.loads.load(index, chunks(lines(items), 100_000))
        assert result.created == 1000
        assert result.seq == service.cluster.horizon(index.number) >= 7
        assert all_documents(service.shards, index.number) == [orjson.dumps(i) for i in items]

    async def test_a_load_tells_its_progress(self, make_service: MakeService) -> None:
        service = await make_service(2, group_bytes=65_536)
        index = await service.configure()
        body = lines([{"id": i, "text": "x" * 1000} for i in range(1000)])
        loading = asyncio.create_task(
            service.loads.load(index, chunks(body, 100_000), request_id="mine")
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
            await service.loads.load(index, chunks(b"{"))
        assert service.loads.running == []

    async def test_no_group_waits_in_the_queue_of_a_deleted_index(
        self, make_service: MakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service = await make_service(2)
        index = await service.configure()
        queue_of = service.loads._log.queue
        waited: list[bool] = []

        def queue(number: int) -> Any:
            """Return the queue, and let its index be deleted in the next turn of the loop."""
            is_deleted: list[bool] = []
            asyncio.get_running_loop().call_soon(is_deleted.append, True)
            write = queue_of(number).write

            async def noted(*arguments: Any) -> Any:
                waited.append(bool(is_deleted))
                return await write(*arguments)

            return SimpleNamespace(write=noted)

        monkeypatch.setattr(service.loads._log, "queue", queue)
        await service.loads.load(index, chunks(lines([{"id": 1}])))
        assert waited == [False]

    async def test_items_without_ids_keep_their_order_too(self, make_service: MakeService) -> None:
        service = await make_service(3, group_bytes=65_536)
        index = await service.configure()
        items = [{"n": i, "text": "x" * 500} for i in range(1000)]
        result = await service.loads.load(index, chunks(lines(items), 50_000))
        assert result.created == 1000
        assert all_documents(service.shards, index.number) == [orjson.dumps(i) for i in items]
        assert all(len(shard.documents[index.number]) > 200 for shard in service.shards)

    async def test_a_bad_item_changes_nothing(self, make_service: MakeService) -> None:
        service = await make_service()
        index = await service.configure()
        body = b'{"id":1}\n{"id":}\n{"id":3}\n[]\n'
        with pytest.raises(InvalidRequest) as caught:
            await service.loads.load(index, chunks(body))
        assert [error["line"] for error in caught.value.details["errors"]] == [2, 4]
        assert all_documents(service.shards, index.number) == []

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            (b'{"id":1}\n{"id":}', "line 2, byte 7: "),
            (b'[{"id":1},{"id":}]', "item 1, byte 17: "),
            (b"id,name\n1,sea\n", "line 1, byte 1: "),
            (b"7,sea\n", "line 1, byte 2: "),
            (b'{\n"id": 1,\n"a": 2}\n', "line 1, byte 2: "),
            (b'{"id":1} {"id":2}\n', "line 1, byte 10: "),
            (b'{"id":"\\ud800"}\n', "line 1, byte 8: "),
        ],
    )
    async def test_a_position_is_named_once_and_invalid_json_is_explained(
        self, make_service: MakeService, body: bytes, message: str
    ) -> None:
        service = await make_service()
        index = await service.configure()
        with pytest.raises(InvalidRequest) as raised:
            await service.loads.load(index, chunks(body))
        text = raised.value.message
        assert text.startswith(message)
        assert text.count("byte") == 1
        is_of_another_form = body[0] not in b"{[" or b"{\n" in body or b"} {" in body
        assert ("facetd load also reads CSV" in text) == is_of_another_form

    async def test_bad_items_are_skipped_on_request(self, make_service: MakeService) -> None:
        service = await make_service()
        index = await service.configure()
        body = b'{"id":1}\n{"id":}\n{"id":3}\n[]\n'
        result = await service.loads.load(index, chunks(body), skips_bad=True)
        assert (result.created, result.rejected) == (2, 2)
        assert [error["line"] for error in result.errors] == [2, 4]

    async def test_errors_are_counted_beyond_those_listed(self, make_service: MakeService) -> None:
        service = await make_service(limits=Limits(errors_reported_max=3))
        index = await service.configure()
        result = await service.loads.load(index, chunks(b"7\n" * 50), skips_bad=True)
        assert (result.rejected, len(result.errors)) == (50, 3)

    async def test_a_compressed_body_that_no_header_names_is_called_so(
        self, make_service: MakeService
    ) -> None:
        service = await make_service()
        index = await service.configure()
        with pytest.raises(InvalidRequest, match="Content-Encoding: gzip"):
            await service.loads.load(index, chunks(gzip.compress(b'{"id":1}\n')))
        with pytest.raises(InvalidRequest, match="Content-Encoding: gzip"):
            await service.ingest.put_items(index, gzip.compress(b'[{"id":1}]'), soon())
        assert list((service.data / "spool").iterdir()) == []

    async def test_a_body_that_is_cut_off_changes_nothing(self, make_service: MakeService) -> None:
        service = await make_service()
        index = await service.configure()
        with pytest.raises(ConnectionResetError):
            await service.loads.load(index, broken_chunks(b'{"id":1}\n' * 500_000))
        assert all_documents(service.shards, index.number) == []
        assert list((service.data / "spool").iterdir()) == []

    async def test_a_body_that_is_cut_off_with_its_request_leaves_no_error_to_the_event_loop(
        self, make_service: MakeService
    ) -> None:
        """A client that disconnects ends both in one moment."""
        service = await make_service()
        index = await service.configure()
        loop = asyncio.get_running_loop()
        unhandled: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: unhandled.append(context))

        async def cut_off() -> None:
            cut: asyncio.Future[bytes] = loop.create_future()

            async def body() -> AsyncIterator[bytes]:
                yield b'{"id":1}'
                yield await cut

            load = asyncio.ensure_future(service.loads.load(index, body()))
            await until(lambda: service.loads.running and service.loads.running[0].bytes_received)
            cut.set_exception(ConnectionResetError())
            load.cancel()
            with pytest.raises(asyncio.CancelledError):
                await load

        await cut_off()
        await asyncio.sleep(0.1)  # the thread that frees the spool still has the error
        gc.collect()
        assert unhandled == []

    async def test_a_load_that_is_stopped_writes_to_no_file_that_it_has_closed(
        self, make_service: MakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service = await make_service()
        index = await service.configure()
        begun, may_write = threading.Event(), threading.Event()
        meant: list[int] = []
        reached: list[int] = []

        def write_late(file: int, content: memoryview) -> None:
            meant.append(os.fstat(file).st_ino)
            begun.set()
            may_write.wait()
            try:
                reached.append(os.fstat(file).st_ino)
            except OSError:
                reached.append(0)
            write_all(file, content)

        monkeypatch.setattr(bulk_load_spool, "write_all", write_late)
        body = b'{"id":1}\n' * 1_000_000
        load = asyncio.ensure_future(service.loads.load(index, chunks(body, 1_000_000)))
        await until(begun.is_set)
        service.loads.end()
        await asyncio.wait((load,), timeout=10)
        may_write.set()
        with pytest.raises(Unavailable) as raised:
            await load
        assert (raised.value.code, service.loads.running) == ("stopping", [])
        await until(lambda: len(reached) == len(meant))
        assert reached == meant

    @pytest.mark.parametrize("ends_well", [True, False])
    async def test_a_spool_is_freed_while_others_are_served(
        self, make_service: MakeService, monkeypatch: pytest.MonkeyPatch, ends_well: bool
    ) -> None:
        """To free gigabytes takes the file system a second."""
        service = await make_service()
        index = await service.configure()
        threads: list[threading.Thread] = []
        close = bulk_load_spool.Spool.close

        def note_thread(self: bulk_load_spool.Spool) -> None:
            threads.append(threading.current_thread())
            close(self)

        monkeypatch.setattr(bulk_load_spool.Spool, "close", note_thread)
        load = service.loads.load(index, chunks(b'{"id":1}' if ends_well else b"{"))
        await asyncio.gather(load, return_exceptions=True)
        await until(lambda: threads)
        assert threads[0] is not threading.main_thread()

    async def test_an_empty_body_loads_nothing(self, make_service: MakeService) -> None:
        service = await make_service()
        index = await service.configure()
        result = await service.loads.load(index, chunks(b""))
        assert (result.created, result.rejected) == (0, 0)

    async def test_it_goes_on_when_its_client_has_gone(self, make_service: MakeService) -> None:
        service = await make_service(1)
        index = await service.configure()
        service.shards[0].gate.clear()
        load = asyncio.ensure_future(service.loads.load(index, chunks(b'{"id":1}')))
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
        load = asyncio.ensure_future(service.loads.load(index, chunks(lines(items), 10**6)))
        await until(lambda: shard.applied)
        await shard.die()
        shard.gate.set()
        with pytest.raises(Unavailable) as caught:
            await load
        assert "created" in caught.value.details

    @pytest.mark.parametrize("failure", [OSError(5, "Input/output error"), MemoryError()])
    async def test_one_that_cannot_go_on_says_which_items_without_ids_were_stored(
        self, make_service: MakeService, monkeypatch: pytest.MonkeyPatch, failure: Exception
    ) -> None:
        """Sent again as a whole, they would be stored twice."""
        service = await make_service(1, group_bytes=65_536)
        index = await service.configure()
        num_read = 0

        def read_until_it_fails(file: int, target: memoryview, offset: int) -> None:
            nonlocal num_read
            num_read += 1
            if num_read > 6:  # two of each piece
                raise failure
            read_all(file, target, offset)

        monkeypatch.setattr(bulk_load_spool, "read_all", read_until_it_fails)
        monkeypatch.setattr(bulk_loads, "SCAN_BYTES", 65_536)
        body = lines([{"n": i, "text": "x" * 1000} for i in range(500)])
        with pytest.raises(PartlyStored) as raised:
            await service.loads.load(index, chunks(body, 65_536))
        told = raised.value.details
        stored = len(all_documents(service.shards, index.number))
        assert 0 < stored < 500
        assert told["stored"] == told["created"] == told["not_stored_from"] == stored
        assert service.loads.running == []

    async def test_one_that_cannot_go_on_is_an_error_and_may_be_sent_again(
        self, make_service: MakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service = await make_service(1)
        index = await service.configure()

        def fail(*_: object) -> None:
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr(bulk_load_spool, "read_all", fail)
            with pytest.raises(InternalError) as raised:
                await service.loads.load(index, chunks(b'{"id":1}'))
        assert raised.value.details == {"created": 0, "updated": 0}
        assert (await service.loads.load(index, chunks(b'{"id":1}'))).created == 1

    async def test_several_groups_that_fail_without_an_error_of_the_service_are_one_error(
        self, make_service: MakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service = await make_service(1, group_bytes=65_536)
        index = await service.configure()

        async def write(*_: object) -> None:
            raise MemoryError

        monkeypatch.setattr(bulk_loads, "present_queue", lambda *_: SimpleNamespace(write=write))
        body = lines([{"id": i, "text": "x" * 1000} for i in range(500)])
        with pytest.raises(InternalError) as raised:
            await service.loads.load(index, chunks(body, 10**6))
        assert raised.value.details == {"created": 0, "updated": 0}

    async def test_its_spool_is_freed_where_the_system_starts_no_thread(
        self, make_service: MakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service = await make_service(1)
        index = await service.configure()
        closed: list[bulk_load_spool.Spool] = []
        close = bulk_load_spool.Spool.close

        def note(self: bulk_load_spool.Spool) -> None:
            closed.append(self)
            close(self)

        monkeypatch.setattr(bulk_load_spool.Spool, "close", note)
        loop = asyncio.get_running_loop()
        run = loop.run_in_executor

        def run_unless_it_frees(executor: Any, function: Any, *arguments: Any) -> Any:
            if getattr(function, "__func__", None) is note:
                raise RuntimeError("can't start new thread")
            return run(executor, function, *arguments)

        monkeypatch.setattr(loop, "run_in_executor", run_unless_it_frees)
        result = await service.loads.load(index, chunks(b'{"id":1}'))
        assert (result.created, len(closed), service.loads.running) == (1, 1, [])

    async def test_a_load_too_many_is_refused_until_another_has_ended(
        self, make_service: MakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each keeps a part of its body in memory; a slow client sends the rest in hours."""
        monkeypatch.setattr(bulk_loads, "LOADS_MAX", 2)
        service = await make_service()
        index = await service.configure()
        may_end = asyncio.Event()

        async def slow_chunks() -> AsyncIterator[bytes]:
            yield b'{"id":1}'
            await may_end.wait()

        slow = [asyncio.ensure_future(service.loads.load(index, slow_chunks())) for _ in range(2)]
        await until(lambda: len(service.loads.running) == 2)
        with pytest.raises(Unavailable, match="2 loads are running") as refused:
            await service.loads.load(index, chunks(b'{"id":2}'))
        assert refused.value.code == "overloaded"
        may_end.set()
        await asyncio.gather(*slow)
        assert (await service.loads.load(index, chunks(b'{"id":2}'))).created == 1
