"""An empty shard for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shard.partition.local_shard import Shard, index_entry


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    shard = Shard(tmp_path / "index-1", index_entry(aggregations={"color": {}}))
    yield shard
    shard.crash()
