"""Every setting of the service, in one table: name, default, unit, and what it is for.

A setting comes from, in this order: a flag (`--shards 4`), the environment (`FACETD_SHARDS=4`),
the TOML file named by `--config-file` or `FACETD_CONFIG_FILE` (`shards = 4`; limits in a table
`[limits]`), its default. `facetd config` prints the effective ones and where each came from. A
wrong value refuses the start and says what would be valid.

The limits on requests and items are settings too (`FACETD_LIMIT_PER_PAGE_MAX=500`); they stand in
`common.limits`. What only concerns storage is a setting of the shard process (`shard.settings`) and
reaches it through the environment.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from common import data_directory
from common.limits import LIMIT_PREFIX, Limits

ENVIRONMENT_PREFIX = "FACETD_"
SHARD_PREFIX = "FACETD_SHARD_"

_OTHER_VARIABLES = frozenset(
    f"{ENVIRONMENT_PREFIX}{name}"
    for name in ("CONFIG_FILE", "FAULTS", "KERNELS", "KERNEL_CACHE", "KEY", "URL")
)
_OTHER_PREFIXES = (LIMIT_PREFIX, SHARD_PREFIX, f"{ENVIRONMENT_PREFIX}TEST_")
"""Of variables that are read, and checked, elsewhere."""

_DATA_DIR = Path("facetd-data")
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


class SettingError(Exception):
    """A setting has a value that it cannot have. Ends with status 2."""


def _setting(
    default: Any,
    unit: str,
    doc: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare one setting: a dataclass field that carries unit, meaning and valid range."""
    return dataclasses.field(
        default=default,
        metadata={
            "unit": unit,
            "doc": doc,
            "at_least": at_least,
            "at_most": at_most,
            "choices": choices,
        },
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of supervisor and coordinator."""

    # --- where
    data_dir: Path = _setting(  # noqa: RUF009 - makes a field, not a shared value
        _DATA_DIR, "folder", "where everything is stored"
    )
    snapshot_dir: str = _setting(
        "", "folder", "where snapshots are made; empty: the folder snapshots in data_dir"
    )
    host: str = _setting(
        "127.0.0.1", "address", "to listen on; beyond loopback needs a key or --insecure"
    )
    port: int = _setting(
        3000, "port", "of the HTTP interface; 0 takes a free one", at_least=0, at_most=65_535
    )
    shards: int = _setting(
        min(os.cpu_count() or 1, 64),
        "processes",
        "the data are divided over; fixed when a data directory is made (then: reshard)",
        at_least=1,
        at_most=64,
    )
    shard_addresses: tuple[str, ...] = _setting(
        (),
        "host:port",
        "of shards that were started one by one, in order; empty: found in data_dir",
    )

    # --- who may
    insecure: bool = _setting(
        False, "yes/no", "listen beyond loopback without any API key (anyone may then do anything)"
    )
    allowed_hosts: tuple[str, ...] = _setting(
        (), "host names", "accepted in the Host header beside loopback and the address listened on"
    )
    allowed_origins: tuple[str, ...] = _setting(
        (), "origins", "web pages of these origins may use the interface (CORS); '*' for any"
    )

    client_requests_per_second: float = _setting(
        0.0,
        "requests/s",
        "of one API key, or of one address without a key; more get 429; 0: no limit",
        at_least=0.0,
    )
    client_burst: int = _setting(
        100, "requests", "a client may send at once where its rate is limited", at_least=1
    )

    # --- time
    shard_timeout_ms: int = _setting(
        5_000, "ms", "within which a shard must answer a read", at_least=1
    )
    write_timeout_ms: int = _setting(
        30_000, "ms", "within which a shard must answer a group of writes", at_least=1
    )
    configure_timeout_ms: int = _setting(
        3_600_000, "ms", "within which all shards must have rebuilt an index", at_least=1
    )
    silent_shard_seconds: float = _setting(
        10.0, "s", "without a sign of life after which a shard process is killed", at_least=1.0
    )
    stop_grace_seconds: float = _setting(
        6.0, "s", "that running requests get to finish when the service stops", at_least=0.0
    )

    # --- writing
    group_bytes: int = _setting(
        8 * 1024 * 1024, "bytes", "of items a shard gets in one commit", at_least=64 * 1024
    )
    group_operations: int = _setting(
        65_536, "operations", "in one commit, over all shards", at_least=1, at_most=2**31
    )
    writes_waiting_max: int = _setting(
        10_000, "requests", "that wait to be written to one index; more are overload", at_least=1
    )

    # --- searching
    result_cache_bytes: int = _setting(
        0, "bytes", "of answers kept until the next write to their index; 0: none", at_least=0
    )

    # --- logs
    log_level: str = _setting(
        "info", "level", "least that is logged", choices=("debug", "info", "warning", "error")
    )
    log_style: str = _setting("text", "style", "of log lines", choices=("text", "json"))
    slow_query_ms: int = _setting(
        0, "ms", "searches that take longer are logged; 0: none", at_least=0
    )

    limits: Limits = dataclasses.field(default_factory=Limits)

    @property
    def snapshot_folder(self) -> Path:
        """Where snapshots are made, as an absolute path."""
        if self.snapshot_dir:
            return Path(self.snapshot_dir).expanduser().resolve()
        return data_directory.snapshots_folder(self.data_dir.resolve())


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a line for each variable that looks like a setting and is none.

    They are told, not refused: systems that run services put variables of their own there
    (Kubernetes makes FACETD_SERVICE_HOST of a service called facetd).
    """
    known = {environment_name(name) for name in names()} | _OTHER_VARIABLES
    found = []
    for variable in sorted(environment):
        if (
            variable.startswith(ENVIRONMENT_PREFIX)
            and variable not in known
            and not variable.startswith(_OTHER_PREFIXES)
        ):
            near = difflib.get_close_matches(variable, known, n=1, cutoff=0.85)
            hint = f"; did you mean {near[0]}?" if near else ""
            found.append(f"{variable} is no setting and has no effect{hint}")
    return found


class Origin(NamedTuple):
    """One effective setting, as `facetd config` shows it."""

    name: str
    value: Any
    unit: str
    origin: str
    doc: str


def names() -> list[str]:
    """Return the names of all settings but the limits."""
    return [field.name for field in dataclasses.fields(Settings) if field.name != "limits"]


def environment_name(name: str) -> str:
    """Return the environment variable of a setting; limits are called `limits.<name>`."""
    if name.startswith("limits."):
        return LIMIT_PREFIX + name.removeprefix("limits.").upper()
    return ENVIRONMENT_PREFIX + name.upper()


def load(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> tuple[Settings, list[Origin]]:
    """Collect the settings from flags, environment, file and defaults.

    Args:
        flags: by name; None stands for "not given".
        environment: usually `os.environ`.
        file: TOML file; None looks at FACETD_CONFIG_FILE.

    Returns:
        The settings, and each with where it came from.

    Raises:
        SettingError: a name is unknown or a value wrong; says what would be valid.
    """
    flags = {name: value for name, value in (flags or {}).items() if value not in (None, ())}
    environment = os.environ if environment is None else environment
    if file is None and environment.get("FACETD_CONFIG_FILE"):
        file = Path(environment["FACETD_CONFIG_FILE"])
    table = _read_file(file) if file is not None else {}
    limit_table = table.pop("limits", {})
    _refuse_unknown(table, file)

    values: dict[str, Any] = {}
    origins: list[Origin] = []
    types = get_type_hints(Settings)
    for field in dataclasses.fields(Settings):
        if field.name == "limits":
            continue
        variable = environment_name(field.name)
        origin = "default"
        value: Any = field.default
        if field.name in flags:
            origin, value = f"--{field.name.replace('_', '-')}", flags[field.name]
        elif environment.get(variable, "") != "":
            origin, value = variable, environment[variable]
        elif field.name in table:
            origin, value = str(file), table[field.name]
        if origin != "default":
            value = _convert(field, types[field.name], value, origin)
        values[field.name] = value
        origins.append(
            Origin(field.name, value, field.metadata["unit"], origin, field.metadata["doc"])
        )
    limits, limit_origins = _load_limits(environment, limit_table, str(file))
    return Settings(**values, limits=limits), origins + limit_origins


def _read_file(file: Path) -> dict[str, Any]:
    """Parse the TOML file."""
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise SettingError(f"cannot read the settings file {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{file} is not valid TOML: {error}") from error


def _refuse_unknown(table: Mapping[str, Any], file: Path | None) -> None:
    """Refuse names in the file that are no settings, with the nearest one that is."""
    known = names()
    for name in table:
        if name not in known:
            near = difflib.get_close_matches(name, [*known, "limits"], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingError(f"{file}: unknown setting {name!r}{hint}")


def _convert(field: dataclasses.Field[Any], kind: Any, value: Any, origin: str) -> Any:
    """Turn what was written into the setting's type and check its range."""
    try:
        converted = _CONVERTERS[kind](value)
    except (ValueError, TypeError) as error:
        raise SettingError(f"{origin}: {field.name} must be {_wanted(field, kind)}") from error
    low, high = field.metadata["at_least"], field.metadata["at_most"]
    choices = field.metadata["choices"]
    if (
        (low is not None and converted < low)
        or (high is not None and converted > high)
        or (choices and converted not in choices)
    ):
        raise SettingError(
            f"{origin}: {field.name} must be {_wanted(field, kind)}, not {converted!r}"
        )
    return converted


def _wanted(field: dataclasses.Field[Any], kind: Any) -> str:
    """Say what a setting may be."""
    low, high = field.metadata["at_least"], field.metadata["at_most"]
    if field.metadata["choices"]:
        return "one of " + ", ".join(field.metadata["choices"])
    if kind is bool:
        return "true or false"
    if kind not in (int, float):
        return f"a text ({field.metadata['unit']})"
    what = "an integer" if kind is int else "a number"
    if low is not None and high is not None:
        what += f" from {low} to {high}"
    elif low is not None:
        what += f" of at least {low}"
    return f"{what} ({field.metadata['unit']})"


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError
    if isinstance(value, str) and not (value.isascii() and value.removeprefix("-").isdigit()):
        raise ValueError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError
    return number


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(_text(part) for part in value)


_CONVERTERS: dict[Any, Any] = {
    int: _integer,
    float: _number,
    bool: _boolean,
    str: _text,
    Path: lambda value: Path(value).expanduser(),
    tuple[str, ...]: _texts,
}


def _load_limits(
    environment: Mapping[str, str], table: Any, file: str
) -> tuple[Limits, list[Origin]]:
    """Collect the limits."""
    if not isinstance(table, dict):
        raise SettingError(f"{file}: limits must be a table")
    found: dict[str, tuple[Any, str]] = {name: (value, file) for name, value in table.items()}
    for variable, value in environment.items():
        if variable.startswith(LIMIT_PREFIX) and value != "":
            found[variable[len(LIMIT_PREFIX) :].lower()] = (value, variable)
    overrides: dict[str, int] = {}
    for name, (value, origin) in found.items():
        try:
            overrides[name] = _integer(value)
        except (ValueError, TypeError) as error:
            raise SettingError(f"{origin}: the limit must be a positive integer") from error
    try:
        limits = Limits.from_overrides(overrides)
    except ValueError as error:
        raise SettingError(str(error)) from error
    return limits, [
        Origin(
            f"limits.{limit.name}",
            getattr(limits, limit.name),
            limit.unit,
            found[limit.name][1] if limit.name in found else "default",
            limit.reason,
        )
        for limit in Limits.describe()
    ]


def describe() -> Iterator[tuple[str, Any, str, str]]:
    """Yield name, default, unit and meaning of every setting but the limits, for the docs."""
    for field in dataclasses.fields(Settings):
        if field.name != "limits":
            yield field.name, field.default, field.metadata["unit"], field.metadata["doc"]
