"""What a shard process says of itself, at a price that many indexes can pay."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from shard.indexes import index_statistics as module
from shard.indexes.index_statistics import index_statistics
from shard.process.shard_statistics import shard_statistics
from tests.shard.indexes.shard_indexes import one_item_group, started, stopped


async def test_a_process_with_many_indexes_says_nothing_of_their_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every scrape of the metrics went through the fields of each segment of each open index."""
    indexes = await started(tmp_path, 2)
    await indexes.groups.apply(one_item_group(1, seq=1))
    partition = indexes.open[1].partition
    one = index_statistics(partition, indexes.merge_scheduler.statistics(1))
    assert [field["path"] for field in one.fields] == ["id", "title"]

    monkeypatch.setattr(module, "fields_of", Mock(side_effect=AssertionError))
    found = dict(shard_statistics(indexes, 0).indexes)

    assert (found[1].num_docs, len(found[1].segments), found[1].fields) == (1, 1, ())
    assert found[2].num_docs == 0
    await stopped(indexes)
