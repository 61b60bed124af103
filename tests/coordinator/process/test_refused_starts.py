"""What a start is refused for, and which number of shards it may still take."""

from __future__ import annotations

from pathlib import Path

import pytest

from common import data_directory
from coordinator.catalog.catalog import Catalog
from coordinator.process.refused_starts import repartition_if_empty
from coordinator.settings import Settings


def _shards_after_a_start_with(num_shards: int, data: Path) -> int | None:
    repartition_if_empty(Settings(data_dir=data, shards=num_shards))
    manifest = data_directory.read_manifest(data)
    return None if manifest is None else manifest.shards


async def test_a_first_key_does_not_decide_the_number_of_shards(tmp_path: Path) -> None:
    assert _shards_after_a_start_with(3, tmp_path) is None, "nothing was made yet"
    catalog = Catalog.open(tmp_path, 1)
    await catalog.change(lambda state: state.with_section("keys", {"k": {"a": 1}}))
    assert _shards_after_a_start_with(2, tmp_path) == 2
    assert Catalog.open(tmp_path, 2).section("keys") == {"k": {"a": 1}}


@pytest.mark.parametrize("has_shard", [True, False])
async def test_what_was_partitioned_keeps_its_number_of_shards(
    tmp_path: Path, has_shard: bool
) -> None:
    """Also if the folders of the shards are missing: an index was made for them."""
    catalog = Catalog.open(tmp_path, 1)
    if has_shard:
        data_directory.shard_folder(tmp_path, 0).mkdir()
    else:
        await catalog.change(lambda state: state.with_index(state.new_entry("films", {})))
        await catalog.change(lambda state: state.without_index("films"))
    assert _shards_after_a_start_with(2, tmp_path) == 1


async def test_the_number_of_shards_of_several_hosts_is_that_of_their_log(tmp_path: Path) -> None:
    Catalog.open(tmp_path, 1)
    repartition_if_empty(Settings(data_dir=tmp_path, shards=2, log_url="nats://127.0.0.1:4222"))
    manifest = data_directory.read_manifest(tmp_path)
    assert manifest is not None
    assert manifest.shards == 1


def test_a_lost_catalog_is_left_to_the_start_that_opens_it(tmp_path: Path) -> None:
    Catalog.open(tmp_path, 1)
    data_directory.catalog_path(tmp_path).unlink()
    assert _shards_after_a_start_with(2, tmp_path) == 1
