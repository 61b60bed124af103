"""Settings of a shard come from the environment or a file, or are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from common.setting_conversion import SettingError
from common.setting_sources import LogSettings, Sources
from common.shard_settings import ShardSettings

ROOT = Path(__file__).resolve().parents[2]


def settings_of(environment: dict[str, str]) -> ShardSettings:
    return ShardSettings.of(Sources.collect(environment))


def test_defaults_hold_without_environment() -> None:
    assert settings_of({"FACETD_SHARDS": "3", "FACETD_SHARD_IDLE_MS": ""}) == ShardSettings()


def test_variable_changes_its_setting() -> None:
    settings = settings_of(
        {"FACETD_SHARD_MAP_BYTES_MAX": "1048576", "FACETD_LIMIT_ITEM_FIELDS_MAX": "7"}
    )

    assert (settings.map_bytes_max, settings.limits.item_fields_max) == (1 << 20, 7)


def test_variables_go_before_the_file_which_has_more_than_a_shard_needs(tmp_path: Path) -> None:
    file = tmp_path / "facetd.toml"
    file.write_text(
        'port = 1\nlog_level = "debug"\n[shard]\nidle_ms = 5\nflush_docs = 6\n'
        "[limits]\nitem_fields_max = 7\n"
    )
    environment = {"FACETD_SHARD_FLUSH_DOCS": "8", "FACETD_LOG_STYLE": "json"}
    sources = Sources.collect({"FACETD_CONFIG_FILE": str(file), **environment})
    settings = ShardSettings.of(sources)

    assert (settings.idle_ms, settings.flush_docs, settings.limits.item_fields_max) == (5, 8, 7)
    assert LogSettings.of(sources) == LogSettings("debug", "json")


@pytest.mark.parametrize("text", ["-1", "0", "1_0", "a", "²", "1.5"])
def test_a_value_that_is_not_a_positive_integer_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match=r"IDLE_MS: shard.idle_ms must be an integer of at leas"):
        settings_of({"FACETD_SHARD_IDLE_MS": text})


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("FACETD_SHARD_MAP_WATERMARK_PERCENT", "101", "from 1 to 100"),
        ("FACETD_LOG_LEVEL", "loud", "one of debug, info"),
        ("FACETD_CONFIG_FILE", "none.toml", "cannot read"),
        ("FACETD_LIMIT_NONSENSE", "1", "unknown limit"),
    ],
)
def test_shard_that_is_started_alone_refuses_what_is_wrong(
    tmp_path: Path, variable: str, text: str, message: str
) -> None:
    command = [sys.executable, "-m", "shard", "--shard-id", "0", "--shards", "1"]
    ended = subprocess.run(
        [*command, "--data-dir", str(tmp_path / "data")],
        cwd=ROOT,
        env={**os.environ, variable: text},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 2
    assert ended.stderr.startswith("facetd: ")
    assert message in ended.stderr
    assert not (tmp_path / "data").exists()
