"""Write groups on the writer's thread, and what the merger is told of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.protocol.messages import ApplyRequest, ApplyResponse, JoinedGroups
from common.shard_settings import ShardSettings
from shard.partition.writer import Writer
from tests.shard.indexes.shard_indexes import one_item_group, started, stopped


@pytest.mark.parametrize("is_published", [True, False])
async def test_the_merger_is_told_of_a_state_though_an_error_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_published: bool
) -> None:
    real = Writer.apply

    def apply(writer: Writer, request: ApplyRequest | JoinedGroups) -> ApplyResponse:
        if is_published:
            real(writer, request)
        raise MemoryError

    indexes = await started(tmp_path, 1, ShardSettings(idle_ms=60_000))
    await indexes.opened(1)
    assert indexes.merge_scheduler.is_idle(1)
    monkeypatch.setattr(Writer, "apply", apply)

    with pytest.raises(MemoryError):
        await indexes.groups.apply(one_item_group(1, seq=5))

    assert indexes.merge_scheduler.is_idle(1) is not is_published
    await stopped(indexes)
