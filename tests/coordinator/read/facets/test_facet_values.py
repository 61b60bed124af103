"""How the coordinator learns the values that the shards number."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from common.deadline import Deadline
from common.errors import FacetRenumbered
from common.process.cooperative_scheduler import LoopScheduler
from common.protocol.messages import (
    FacetCounts,
    FacetRequest,
    FacetValuesRequest,
    FacetValuesResponse,
)
from coordinator.cluster.cache_budget_across_indexes import CacheBudget
from coordinator.read.facets import facet_cache
from coordinator.read.facets.facet_cache import FacetCache
from coordinator.read.facets.global_ordinals import Numbering

DICTIONARIES = {7: ["drama", "crime"], 8: ["crime", "drama"]}
"""By epoch; 8 is that of the restarted shard."""


async def test_values_sent_before_a_restart_do_not_replace_those_sent_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next search had to fetch all values again, and searches could displace each other's."""
    arrives = {7: asyncio.Event(), 8: asyncio.Event()}

    async def call_all(
        _: object,
        method: object,
        requests: list[tuple[int, FacetValuesRequest]],
        remaining_ms: object,
    ) -> list[FacetValuesResponse]:
        ((_, request),) = requests
        await arrives[request.epoch].wait()
        values = DICTIONARIES[request.epoch][request.start :]
        sizes = np.array(list(map(len, values)), "<u4").tobytes()
        keys = "".join(values).encode()
        return [FacetValuesResponse(request.epoch, request.start, keys, sizes)]

    monkeypatch.setattr(facet_cache, "call_all", call_all)
    cache = FacetCache(Mock(num_shards=1), CacheBudget())

    def learn(epoch: int) -> asyncio.Task[list[Numbering]]:
        response: Any = SimpleNamespace(facets=[FacetCounts("tags", epoch, 2, None)])
        deadline = Deadline.after_ms(10_000)
        index: Any = Mock(number=1)
        return asyncio.create_task(
            cache.learn(
                *(index, [FacetRequest("tags", False, 0)], [(0, response)]),
                *(deadline, LoopScheduler()),
            )
        )

    before, since, another = learn(7), learn(8), learn(8)
    await asyncio.sleep(0)
    arrives[8].set()
    await asyncio.gather(since, another)
    arrives[7].set()
    with pytest.raises(FacetRenumbered, match="rebuilt on shard 0"):
        await before
    values = cache.values("tags")
    assert values.known == [(8, 2)]
    # A shard whose former process serves again is believed.
    (numbering,) = await learn(7)
    assert values.known == [(7, 2)]
    assert values.texts_of(numbering.to_number[0, :2].tolist()) == ["drama", "crime"]
