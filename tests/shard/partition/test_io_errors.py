"""A write or sync of a shard fails: nothing acknowledged is lost.

strace injects the errors into a real process, so nothing between it and the kernel is replaced. All
operations and every n: tests/faults/test_failing_disk.py.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from common.errors import ServiceError
from tests.shard.shard_process import ShardProcess, make_entry

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


@pytest.fixture
async def shard(tmp_path: Path) -> AsyncIterator[ShardProcess]:
    shard = ShardProcess(tmp_path)
    yield shard
    await shard.kill()


async def _use(shard: ShardProcess, acknowledged: dict[str, dict[str, object]]) -> None:
    """Write until something fails."""
    with contextlib.suppress(ServiceError, AssertionError):
        await shard.connect()
        await shard.take_catalog(make_entry())
        for seq in range(1, 5):
            items: list[dict[str, object]] = [
                {"id": number, "seq": seq} for number in range(seq, seq + 60)
            ]
            await shard.put(seq, *items)
            acknowledged.update((str(item["id"]), item) for item in items)
        await shard.stop()
        shard.wait()


@pytest.mark.parametrize(("call", "nth"), [("fdatasync", 4), ("pwrite64", 9), ("fsync", 3)])
async def test_a_failing_call_loses_nothing(shard: ShardProcess, call: str, nth: int) -> None:
    """The n-th of each thread."""
    acknowledged: dict[str, dict[str, object]] = {}
    injection = f"inject={call}:error=EIO:when={nth}"
    shard.start(wrapper=("strace", "-f", "-qq", "-o", "/dev/null", "-e", injection))
    await _use(shard, acknowledged)
    await shard.kill()
    shard.start()
    await shard.connect()
    await shard.take_catalog(make_entry())
    for id, item in acknowledged.items():
        assert orjson.loads(await shard.get(id) or b"null") == item
    found = await shard.search()
    assert found.total >= len(acknowledged)
