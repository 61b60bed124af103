"""Nothing waits for the cyclic collector: requests create no reference cycles.

A cycle that knows a snapshot keeps its segments, their files and what searches derived from them
until the collector looks at everything, which in a process with much that lives long is seldom:
memory, descriptors and disk would be taken by what has no name any more. So the whole service
runs in this process, under the mixed load, with a collector that only collects evidence.
"""

from __future__ import annotations

import asyncio
import gc
import types
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shard.segment.snapshot import Snapshot
from tests.http.local_service import local_service
from tests.http.mixed_load import MixedLoad
from tests.service import ROOT

NUM_ROUNDS = 4
"""Until everything that is done in some rounds only was done."""


@contextmanager
def uncollected() -> Iterator[list[Any]]:
    """Collect nothing meanwhile; return then what only the collector would have freed."""
    gc.collect()
    gc.disable()
    found: list[Any] = []
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def _is_ours(one: Any) -> bool:
    """Return whether the service made an object (and not the client, which is here as well)."""
    if isinstance(one, types.FrameType):
        path = Path(one.f_code.co_filename)
        return path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "tests")
    module = str(type(one).__module__)
    return module.partition(".")[0] in ("common", "coordinator", "shard", "aiohttp")


async def test_requests_leave_no_cycles(tmp_path: Path) -> None:
    async with local_service(tmp_path / "data", cursor_lease_ms=2_000) as service:
        load = MixedLoad(service)
        await asyncio.to_thread(load.begin)
        await asyncio.to_thread(load.round)
        with uncollected() as garbage:
            for _ in range(NUM_ROUNDS):
                await asyncio.to_thread(load.round)
        found = Counter(type(one).__qualname__ for one in garbage if _is_ours(one))
        garbage.clear()
    assert not found, found.most_common(20)


async def test_cycle_is_found() -> None:
    with uncollected() as garbage:
        snapshot: Any = Snapshot.__new__(Snapshot)
        snapshot.caches = {"itself": snapshot}
        del snapshot
    found = [type(one).__qualname__ for one in garbage if _is_ours(one)]
    garbage.clear()
    assert found == ["Snapshot"]
