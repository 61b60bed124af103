"""The n-th write or sync of a shard fails, n = 1, 2, 3 …: nothing acknowledged is lost, ever.

strace injects the errors into a real process. Short in CI (a few n), all of them with --long.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from common.errors import ServiceError
from tests.shard.shard_process import ShardProcess, make_entry

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")

_CALLS = ("fdatasync", "fsync", "pwrite64", "pwritev", "write", "rename")


@pytest.fixture
async def shard(tmp_path: Path) -> AsyncIterator[ShardProcess]:
    shard = ShardProcess(tmp_path)
    yield shard
    await shard.kill()


async def _use(shard: ShardProcess, acknowledged: dict[str, dict[str, object]]) -> bool:
    """Start a shard, write until something fails; returns whether all went well."""
    try:
        await shard.connect()
        await shard.take_catalog(make_entry())
        for seq in range(1, 5):
            items: list[dict[str, object]] = [
                {"id": number, "seq": seq} for number in range(seq, seq + 60)
            ]
            await shard.put(seq, *items)
            acknowledged.update((str(item["id"]), item) for item in items)
        await shard.stop()
    except (ServiceError, AssertionError):
        return False
    return shard.wait() == 0


async def _fails_safely(shard: ShardProcess, call: str, nth: int, error: str) -> bool:
    """Let the n-th call fail; returns whether the process got so far."""
    acknowledged: dict[str, dict[str, object]] = {}
    injection = f"inject={call}:error={error}:when={nth}"
    shard.start(wrapper=("strace", "-f", "-qq", "-o", "/dev/null", "-e", injection))
    is_well = await _use(shard, acknowledged)
    await shard.kill()
    shard.start()
    await shard.connect()
    await shard.take_catalog(make_entry())
    for id, item in acknowledged.items():
        assert orjson.loads(await shard.get(id) or b"null") == item
    found = await shard.search()
    assert found.total >= len(acknowledged)
    await shard.kill()
    shutil.rmtree(shard.data / "shard-0")
    return not is_well


@pytest.mark.parametrize(("call", "nth"), [("fdatasync", 4), ("pwrite64", 9), ("fsync", 3)])
async def test_a_failing_call_loses_nothing(shard: ShardProcess, call: str, nth: int) -> None:
    await _fails_safely(shard, call, nth, "EIO")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", _CALLS)
async def test_no_failing_call_loses_anything(shard: ShardProcess, call: str, error: str) -> None:
    for nth in range(1, 60):
        if not await _fails_safely(shard, call, nth, error) and nth > 8:
            break
