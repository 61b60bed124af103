"""Reads are answered, whatever becomes of the tasks that they have scheduled."""

from __future__ import annotations

from common.process.cooperative_scheduler import LoopScheduler
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.indexes.open_indexes import OpenIndexes
from shard.process.read_scheduler import ReadScheduler
from tests.threads import no_new_threads
from tests.waiting import until


class _Owner:
    pass


async def test_a_read_is_answered_where_no_thread_derives_what_it_has_scheduled() -> None:
    scheduler = LoopScheduler()
    reads = ReadScheduler(OpenIndexes(8, lambda: None), scheduler)
    owner = _Owner()
    derived: list[_Owner] = []
    BACKGROUND_TASKS.add("of a test", owner, derived.append)
    scheduler.begin_tick()
    with no_new_threads():
        assert reads.run(1, lambda: "read") == "read"
    assert not derived
    scheduler.begin_tick()
    assert reads.run(1, lambda: "read") == "read"
    await until(lambda: derived == [owner])
