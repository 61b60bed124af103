"""Settings: where they come from, which source wins, and wrong ones."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from common import data_directory
from common.setting_conversion import SettingError
from coordinator import settings as settings_module
from coordinator.settings import all_names, load, shards_for, unknown_variables


def test_defaults_need_nothing() -> None:
    settings, origins = load({}, {})
    assert settings.port == 3000
    assert settings.host == "127.0.0.1"
    assert {origin.origin for origin in origins} == {"default"}


def test_a_flag_beats_the_environment_and_that_the_file(tmp_path: Path) -> None:
    file = tmp_path / "facetd.toml"
    file.write_text('port = 1\nshards = 2\nlog_level = "debug"\n[limits]\nper_page_max = 7\n')
    environment = {"FACETD_PORT": "3", "FACETD_SHARDS": "4"}
    settings, origins = load({"port": "5"}, environment, file)
    assert (settings.port, settings.shards, settings.log_level) == (5, 4, "debug")
    assert settings.limits.per_page_max == 7
    by_name = {origin.name: origin.origin for origin in origins}
    assert by_name["port"] == "--port"
    assert by_name["shards"] == "FACETD_SHARDS"
    assert by_name["log_level"] == str(file)
    assert by_name["limits.per_page_max"] == str(file)
    assert by_name["host"] == "default"


def test_the_environment_may_name_the_file_and_set_limits(tmp_path: Path) -> None:
    file = tmp_path / "facetd.toml"
    file.write_text("port = 1\n")
    settings, _ = load({}, {"FACETD_CONFIG_FILE": str(file), "FACETD_LIMIT_PER_PAGE_MAX": "9"})
    assert (settings.port, settings.limits.per_page_max) == (1, 9)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"FACETD_PORT": "x"},
            "FACETD_PORT: port must be an integer from 0 to 65535 (port), not 'x'",
        ),
        ({"FACETD_PORT": "70000"}, "from 0 to 65535"),
        ({"FACETD_PORT": "1_0"}, "integer"),
        ({"FACETD_PORT": "３"}, "integer"),
        ({"FACETD_SHARDS": "0"}, "from 1 to 64"),
        ({"FACETD_SHARDS": "1.5"}, "integer"),
        ({"FACETD_INSECURE": "maybe"}, "true or false"),
        ({"FACETD_LOG_LEVEL": "loud"}, "debug, info, warning, error"),
        ({"FACETD_STOP_GRACE_SECONDS": "nan"}, "a number of at least 0.0"),
        ({"FACETD_LIMIT_PER_PAGE_MAX": "0"}, "positive integer"),
        (
            {"FACETD_LIMIT_PER_PAGE_MAX": "x"},
            "limits.per_page_max must be a positive integer, not 'x'",
        ),
        (
            {"FACETD_LIMIT_NONSENSE": "1"},
            "unknown limit 'nonsense'; facetd config lists them all",
        ),
        (
            {"FACETD_LIMIT_PERPAGE_MAX": "1"},
            "unknown limit 'perpage_max'; did you mean per_page_max?",
        ),
        (
            {"FACETD_DATA_DIR": "~nosuchuser/a"},
            "FACETD_DATA_DIR: there is no home directory for ~no",
        ),
        (
            {"FACETD_SNAPSHOT_DIR": "~nosuchuser"},
            "snapshot_dir: there is no home directory for ~no",
        ),
        (
            {"FACETD_SNAPSHOT_DIR": os.fsdecode(b"/tmp/d\xe4ta")},
            "is not text in the encoding of the locale (utf-8)",
        ),
        ({"FACETD_SHARD_IDLE_MS": "0"}, "shard.idle_ms must be an integer of at least 1 (ms)"),
        ({"FACETD_SHARD_MAP_WATERMARK_PERCENT": "101"}, "an integer from 1 to 100 (%)"),
        ({"FACETD_SHARD_MAP_BYTES_MAX": "4k"}, "an integer of at least 1048576 (bytes)"),
    ],
)
def test_a_wrong_value_says_what_would_be_valid(environment: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError, match=re.escape(message)):
        load({}, environment)


def test_an_address_may_have_the_brackets_of_a_url() -> None:
    assert load({"host": "[::1]"}, {})[0].host == "::1"


def test_an_empty_data_directory_is_not_the_working_directory() -> None:
    """As of a script whose variable is not set: --data-dir "$DATA"."""
    with pytest.raises(
        SettingError, match=r"--data-dir: data_dir must be a path \(folder\), not ''"
    ):
        load({"data_dir": ""}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "did you mean port?"),
        ("port = true", "integer"),
        ("port =", "not valid TOML"),
        (r'data_dir = "a\u0000"', "data_dir must be a path (folder), not 'a\\x00'"),
        (r'snapshot_dir = "a\u0000"', "snapshot_dir must be a text (folder), not"),
        (r'allowed_hosts = ["a\u0000"]', "allowed_hosts must be a text (host names), not"),
        ("limits = 1", "must be a table"),
        ("shard = 1", "shard must be a table"),
        ("[shard]\nidle = 1", "unknown setting 'shard.idle'; did you mean shard.idle_ms?"),
        ("[shard]\nidle_ms = 0", "shard.idle_ms must be an integer of at least 1"),
        ("[limits]\nper_page = 1", "unknown setting 'limits.per_page'; did you mean limits.per_pa"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "facetd.toml"
    file.write_text(text)
    with pytest.raises(SettingError) as caught:
        load({}, {}, file)
    assert message in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot read"):
        load({}, {}, tmp_path / "none.toml")


def test_one_table_has_the_settings_of_all_processes(tmp_path: Path) -> None:
    file = tmp_path / "facetd.toml"
    file.write_text("[shard]\nidle_ms = 1\nflush_docs = 2\nflush_bytes = 3\n")
    environment = {"FACETD_SHARD_FLUSH_DOCS": "4", "FACETD_SHARD_FLUSH_BYTES": "5"}
    flags = {"assignments": ("shard.flush_bytes=6", "limits.per_page_max=7", "port=8")}
    settings, origins = load(flags, environment, file)
    said = {one.name: (one.value, one.origin) for one in origins if one.origin != "default"}
    assert said == {
        "port": (8, "--set port"),
        "shard.idle_ms": (1, str(file)),
        "shard.flush_docs": (4, "FACETD_SHARD_FLUSH_DOCS"),
        "shard.flush_bytes": (6, "--set shard.flush_bytes"),
        "limits.per_page_max": (7, "--set limits.per_page_max"),
    }
    assert (settings.port, settings.limits.per_page_max) == (8, 7)
    assert [one.name for one in origins] == all_names()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"assignments": ("port",)}, "--set takes NAME=VALUE, not 'port'"),
        ({"assignments": ("prot=1",)}, "--set: unknown setting 'prot'; did you mean port?"),
        ({"assignments": ("zzz=1",)}, "unknown setting 'zzz'; facetd config lists them all"),
        ({"assignments": ("limits.foo=1",)}, "setting 'limits.foo'; facetd config lists them all"),
        ({"assignments": ("port=1",), "port": "2"}, "port is given twice"),
        ({"assignments": ("port=1", "port=1")}, "port is given twice"),
        ({"assignments": ("shard.idle_ms=",)}, "--set shard.idle_ms: shard.idle_ms must be"),
        ({"assignments": ("limits.keys_max=0",)}, "positive integer"),
    ],
)
def test_a_wrong_assignment_is_refused(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=re.escape(message)):
        load(flags, {})


def test_lists_are_split_at_commas() -> None:
    settings, _ = load({}, {"FACETD_ALLOWED_HOSTS": "a.org, b.org"})
    assert settings.allowed_hosts == ("a.org", "b.org")


def test_misspelt_variables_are_told() -> None:
    environment = {
        "FACETD_PROT": "1",
        "FACETD_SERVICE_HOST": "10.0.0.1",
        "HOME": "/",
        "FACETD_PORT": "1",
        "FACETD_LIMIT_PER_PAGE_MAX": "3",
        "FACETD_SHARD_IDLE_MS": "5",
        "FACETD_SHARD_IDLE_SM": "5",
        "FACETD_KEY": "fk_1",
    }

    assert unknown_variables(environment) == [
        "FACETD_PROT is not a setting and has no effect; did you mean FACETD_PORT?",
        "FACETD_SERVICE_HOST is not a setting and has no effect",
        "FACETD_SHARD_IDLE_SM is not a setting and has no effect; "
        "did you mean FACETD_SHARD_IDLE_MS?",
    ]


def test_every_setting_has_unit_and_meaning() -> None:
    for name, _, unit, doc in settings_module.describe():
        assert unit, name
        assert doc, name
        assert doc[0].islower(), name


PLACED = {
    "log_url": "nats://a",
    "shards_here": "0-1,3",
    "shards_of": "4",
    "rpc_listen": "127.0.0.1:3001",
}


def test_shards_of_a_host_are_ordinals_and_ranges() -> None:
    settings, _ = load(PLACED, {})
    assert settings.has_placed_shards
    assert settings.own_shards == (0, 1, 3)
    assert settings.all_shards == 4
    settings, _ = load({"shards": "2"}, {})
    assert not settings.has_placed_shards
    assert settings.own_shards == (0, 1)
    assert settings.all_shards == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shards_of": None}, "--shards-here 0-3 --of 8 go together"),
        ({"shards_here": None}, "--shards-here 0-3 --of 8 go together"),
        ({"shards_here": "0-4"}, "shards_here names shards from 0 to 3 (--of 4), not '0-4'"),
        ({"shards_here": "3-1"}, "shards_here names shards from 0 to 3"),
        ({"shards_here": "0;1"}, "such as 0-3 or 0,2, not '0;1'"),
        ({"log_url": None}, "--shards-here needs --log nats://…"),
        ({"rpc_listen": None}, "--shards-here needs --rpc-listen HOST:PORT"),
        ({"rpc_listen": "0.0.0.0:3001"}, "name one in rpc_advertise"),
        ({"rpc_listen": "10.0.0.1:3001"}, "is beyond loopback: name rpc_tls_cert"),
        ({"rpc_tls_cert": "cert.pem"}, "rpc_tls_cert, rpc_tls_key and rpc_tls_ca go together"),
        ({"coordinators": "2"}, "--shards-here takes one coordinator"),
        ({"shard_addresses": ("127.0.0.1:1",)}, "--shards-here and --shard exclude each other"),
    ],
)
def test_settings_of_placed_shards_must_fit_each_other(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=re.escape(message)):
        load({**PLACED, **changes}, {})


@pytest.mark.parametrize(
    ("num_cores", "num_shards"), [(1, 1), (2, 1), (3, 1), (4, 2), (8, 4), (200, 64)]
)
def test_shards_take_half_of_the_cores(num_cores: int, num_shards: int) -> None:
    assert shards_for(num_cores) == num_shards
    assert load({}, {})[0].shards == shards_for(len(os.sched_getaffinity(0)))


def test_the_data_say_how_many_shards_unless_a_number_is_given(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    data_directory.write_manifest(tmp_path / "new", 7, "test")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "MANIFEST.json").write_text("{")
    default = load({}, {})[0].shards

    settings, origins = load({"data_dir": tmp_path / "new"}, {})
    assert settings.shards == 7
    assert [(one.value, one.origin) for one in origins if one.name == "shards"] == [(7, "data_dir")]
    assert load({"data_dir": tmp_path / "new"}, {"FACETD_SHARDS": "2"})[0].shards == 2
    assert load({"data_dir": tmp_path / "absent"}, {})[0].shards == default
    assert load({"data_dir": tmp_path / "damaged"}, {})[0].shards == default
