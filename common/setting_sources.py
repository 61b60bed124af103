"""Where the values of settings come from: the sources, in their order of precedence.

Each process has a table of settings (`setting_declaration`). A value comes from, in this order:

    a flag                --port 4000, --set shard.idle_ms=500     (coordinator and supervisor)
    the environment       FACETD_PORT=4000, FACETD_SHARD_IDLE_MS=500, FACETD_LIMIT_PER_PAGE_MAX=50
    a TOML file           port = 4000, [shard] idle_ms = 500, [limits] per_page_max = 50
    its default

The file is named by `--config-file` or `FACETD_CONFIG_FILE`. An empty variable counts as absent. A
wrong value refuses the start and says what would be valid.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from common.limits import Limits
from common.nearest_name import did_you_mean
from common.setting_conversion import SettingError, converted, integer
from common.setting_declaration import log_level_setting, log_style_setting

ENVIRONMENT_PREFIX = "FACETD_"
SECTIONS = {"limits": "LIMIT", "shard": "SHARD"}
"""Tables of the file other than the coordinator's settings, and their names in variables."""


class Origin(NamedTuple):
    """One effective setting, as `facetd config` shows it."""

    name: str
    value: Any
    unit: str
    origin: str
    doc: str


def environment_name(name: str) -> str:
    """Return the environment variable of a setting; of a section they are `section.name`."""
    section, _, rest = name.rpartition(".")
    return ENVIRONMENT_PREFIX + (f"{SECTIONS[section]}_" if section else "") + rest.upper()


def field_names(table: type, section: str = "") -> list[str]:
    """Return the names of the settings of a table; limits are a table of their own."""
    prefix = f"{section}." if section else ""
    return [prefix + field.name for field in dataclasses.fields(table) if field.metadata]


@dataclass(frozen=True, slots=True)
class Sources:
    """All sources of settings.

    Attributes:
        flags: by name; what was not given is not there.
        assigned: names in `flags` that `--set` gave.
        environment: variables.
        file: that `table` was read from, if there is one.
        table: its content.
    """

    flags: Mapping[str, Any]
    assigned: frozenset[str]
    environment: Mapping[str, str]
    file: Path | None
    table: Mapping[str, Any]

    @classmethod
    def collect(
        cls,
        environment: Mapping[str, str],
        flags: Mapping[str, Any] | None = None,
        assignments: Iterable[str] = (),
        file: Path | None = None,
    ) -> Sources:
        """Collect all sources.

        Args:
            environment: usually `os.environ`.
            flags: by name; None stands for "not given".
            assignments: `name=value`, as `--set` takes them.
            file: TOML file; None looks at FACETD_CONFIG_FILE.

        Raises:
            SettingError: unreadable file, malformed assignment, or repeated flag.
        """
        given = {name: value for name, value in (flags or {}).items() if value not in (None, ())}
        assigned = {}
        for text in assignments:
            name, equals, value = text.partition("=")
            if not equals:
                raise SettingError(f"--set takes NAME=VALUE, not {text!r}")
            if name in given or name in assigned:
                raise SettingError(f"{name} is given twice")
            assigned[name] = value
        if file is None and environment.get("FACETD_CONFIG_FILE"):
            file = Path(environment["FACETD_CONFIG_FILE"])
        table = _read_file(file) if file is not None else {}
        for section in SECTIONS:
            if not isinstance(table.get(section, {}), dict):
                raise SettingError(f"{file}: {section} must be a table")
        return cls({**given, **assigned}, frozenset(assigned), environment, file, table)

    def find(self, name: str) -> tuple[Any, str] | None:
        """Return the given value of a setting, and its source; None if there is none."""
        if name in self.flags:
            flag = f"--set {name}" if name in self.assigned else f"--{name.replace('_', '-')}"
            return self.flags[name], flag
        variable = environment_name(name)
        if self.environment.get(variable, "") != "":
            return self.environment[variable], variable
        section, _, key = name.rpartition(".")
        table = self.table.get(section, {}) if section else self.table
        return (table[key], str(self.file)) if key in table else None

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Refuse unknown names; the error suggests the nearest setting.

        Raises:
            SettingError: in the file, or after `--set`.
        """
        known = list(known)
        for name in sorted(self.assigned - set(known)):
            raise SettingError(f"--set: {_unknown(name, known)}")
        for name in self._names_in_file():
            if name not in known:
                raise SettingError(f"{self.file}: {_unknown(name, known)}")

    def _names_in_file(self) -> list[str]:
        """Return the names of all settings in the file."""
        names = []
        for name, value in self.table.items():
            if name in SECTIONS:
                names += [f"{name}.{key}" for key in value]
            else:
                names.append(name)
        return names


def _unknown(name: str, known: Sequence[str]) -> str:
    """Say that there is no such setting, and which may be meant."""
    # Names of a section are alike in that alone.
    meant = did_you_mean(name, known, 0.7 if "." in name else 0.6)
    return f"unknown setting {name!r}{meant or '; facetd config lists them all'}"


def read(table: type, sources: Sources, section: str = "") -> tuple[dict[str, Any], list[Origin]]:
    """Return the values of a table by field, and where each came from.

    Raises:
        SettingError: a value is wrong; says what would be valid.
    """
    values = {}
    origins = []
    types = get_type_hints(table)
    for field in dataclasses.fields(table):
        if not field.metadata:
            continue  # the limits
        name = f"{section}.{field.name}" if section else field.name
        value, origin = field.default, "default"
        found = sources.find(name)
        if found is not None:
            value = converted(name, field, types[field.name], *found)
            origin = found[1]
        values[field.name] = value
        metadata = field.metadata
        origins.append(Origin(name, value, metadata["unit"], origin, metadata["doc"]))
    return values, origins


def read_limits(sources: Sources) -> tuple[Limits, list[Origin]]:
    """Return the limits, and where each came from.

    Raises:
        SettingError: a value is wrong, or there is no such limit.
    """
    prefix = environment_name("limits.")
    named = {
        variable.removeprefix(prefix).lower(): variable
        for variable, text in sources.environment.items()
        if variable.startswith(prefix) and text
    }
    origins: dict[str, str] = {}
    overrides: dict[str, int] = {}
    for name in {**named, **{limit.name: "" for limit in Limits.describe()}}:
        found = sources.find(f"limits.{name}")
        if found is None:
            continue
        try:
            overrides[name] = integer(found[0])
        except (ValueError, TypeError) as error:
            raise SettingError(
                f"{found[1]}: limits.{name} must be a positive integer, not {found[0]!r}"
            ) from error
        origins[name] = found[1]
    try:
        limits = Limits.from_overrides(overrides)
    except ValueError as error:
        raise SettingError(str(error)) from error
    return limits, [
        Origin(
            f"limits.{limit.name}",
            getattr(limits, limit.name),
            limit.unit,
            origins.get(limit.name, "default"),
            limit.reason,
        )
        for limit in Limits.describe()
    ]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The coordinator's settings that other processes need."""

    log_level: str = log_level_setting()
    log_style: str = log_style_setting()

    @classmethod
    def of(cls, sources: Sources) -> LogSettings:
        """Return what the sources say.

        Raises:
            SettingError: a value is wrong.
        """
        return cls(**read(cls, sources)[0])


def _read_file(file: Path) -> dict[str, Any]:
    """Parse the TOML file."""
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise SettingError(f"cannot read the settings file {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{file} is not valid TOML: {error}") from error
