"""Settings of a shard come from its environment, or are refused."""

from __future__ import annotations

import pytest

from shard.settings import SettingError, ShardSettings


def test_defaults_hold_without_environment() -> None:
    assert ShardSettings.from_environment({"FACETD_SHARDS": "3"}) == ShardSettings()


def test_variable_changes_its_setting() -> None:
    settings = ShardSettings.from_environment({"FACETD_SHARD_MAP_BYTES_MAX": "1048576"})

    assert settings.map_bytes_max == 1 << 20


@pytest.mark.parametrize("text", ["", "-1", "0", "1_0", "a", "²"])
def test_value_that_is_no_positive_integer_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="FACETD_SHARD_IDLE_MS"):
        ShardSettings.from_environment({"FACETD_SHARD_IDLE_MS": text})
