"""Declares settings: fields of a dataclass with default, unit, meaning and what would be valid.

Each process has a table of them: `common.shard_settings`, `coordinator.settings`.
"""

from __future__ import annotations

import dataclasses
from typing import Any


def setting(
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


def log_level_setting() -> Any:
    """Declare the setting `log_level`, which all processes have."""
    return setting(
        "info", "level", "minimum level to log", choices=("debug", "info", "warning", "error")
    )


def log_style_setting() -> Any:
    """Declare the setting `log_style`, which all processes have."""
    return setting("text", "style", "format of log lines", choices=("text", "json"))
