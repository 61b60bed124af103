"""Every setting of a shard process: name, default, unit, and what it is for.

The coordinator has its own (`coordinator.settings`); these concern storage only. Each can be set by
the environment variable FACETD_SHARD_<NAME>, which the supervisor hands on.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.limits import LIMIT_PREFIX, Limits
from shard.storage.environment import MAP_BYTES_DEFAULT

ENVIRONMENT_PREFIX = "FACETD_SHARD_"


def _setting(default: Any, unit: str, doc: str, *, at_least: int = 1) -> Any:
    """Declare one setting: a dataclass field that carries unit, meaning and least value."""
    metadata = {"unit": unit, "doc": doc, "at_least": at_least}
    return dataclasses.field(default=default, metadata=metadata)


class SettingError(Exception):
    """A setting has a value that it cannot have. Ends with status 2."""


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """The settings of a shard."""

    map_bytes_max: int = _setting(
        MAP_BYTES_DEFAULT, "bytes", "greatest size of data.mdb per index; address space only"
    )
    map_watermark_percent: int = _setting(
        90, "%", "of map_bytes_max in use from which items are refused; deletes go on"
    )
    free_bytes_min: int = _setting(
        64 << 20, "bytes", "of the disk (but at most 3 % of it) that writes leave free"
    )
    resident_bytes_max: int = _setting(
        96 << 20, "bytes", "of its files that stay mapped per shard after they were read"
    )
    flush_docs: int = _setting(
        4_096, "documents", "of segments in memory from which they are written to files"
    )
    flush_bytes: int = _setting(
        32 << 20, "bytes", "of segments in memory from which they are written to files"
    )
    idle_ms: int = _setting(1_000, "ms", "without a write after which an index is merged further")
    switch_interval_us: int = _setting(
        100, "µs", "for which a thread may hold the interpreter while another one waits"
    )
    slow_call_ms: int = _setting(
        0, "ms", "calls of the coordinator that take longer are logged; 0: none", at_least=0
    )
    limits: Limits = dataclasses.field(default_factory=Limits)
    """Those of the whole service; an item that is made of two by an update must keep them too."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ShardSettings:
        """Return the defaults, changed by FACETD_SHARD_<NAME> and FACETD_LIMIT_<NAME>.

        Raises:
            SettingError: a value is no integer or too small, or there is no such limit.
        """
        changed: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            variable = ENVIRONMENT_PREFIX + field.name.upper()
            if field.name != "limits" and variable in environment:
                changed[field.name] = _integer(variable, environment, field.metadata["at_least"])
        overrides = {
            variable.removeprefix(LIMIT_PREFIX).lower(): _integer(variable, environment, 1)
            for variable, text in environment.items()
            if variable.startswith(LIMIT_PREFIX) and text
        }
        try:
            return cls(**changed, limits=Limits.from_overrides(overrides))
        except ValueError as error:
            raise SettingError(str(error)) from error


def _integer(variable: str, environment: Mapping[str, str], at_least: int) -> int:
    """Read an integer that is not too small."""
    text = environment[variable]
    if not (text.isascii() and text.isdigit() and int(text) >= at_least):
        raise SettingError(f"{variable} must be an integer of at least {at_least}, not {text!r}")
    return int(text)
