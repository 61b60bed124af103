"""Options of commands that set settings: one per named setting, described by their table."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from common.setting_sources import environment_name
from coordinator import settings as settings_module
from coordinator.cli.escaped_output import echo
from coordinator.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

_FLAGS: Final = {
    "shard_addresses": "shard",
    "log_url": "log",
    "shards_of": "of",
    "shard_replicas": "replicas",
}
"""Options that are not called like their settings."""


def with_settings(*names: str, **defaults: str) -> Callable[[F], F]:
    """Give a command one option per named setting; `defaults` are those of its own."""

    def add(command: F) -> F:
        described = {
            name: (default, unit, doc) for name, default, unit, doc in settings_module.describe()
        }
        for name in reversed(names):
            default, unit, doc = described[name]
            flag = "--" + _FLAGS.get(name, name.replace("_", "-"))
            known = f"{environment_name(name)}; default: {_shown(defaults.get(name, default))}"
            text = f"{doc[0].upper()}{doc[1:]}.  [{known}]"
            if isinstance(default, bool):
                option = click.option(flag, name, is_flag=True, default=None, help=text)
            elif isinstance(default, tuple):
                option = click.option(flag, name, multiple=True, metavar=unit.upper(), help=text)
            else:
                option = click.option(flag, name, default=None, metavar=unit.upper(), help=text)
            command = option(command)
        command = click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="NAME=VALUE",
            help="Set any setting, by the name that facetd config shows. Can be repeated.",
        )(command)
        return click.option(
            "--config-file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Read settings from this TOML file.  [FACETD_CONFIG_FILE]",
        )(command)

    return add


def _shown(default: Any) -> Any:
    """Return a default as the help shows it."""
    return "none" if default in ("", ()) else "no" if default is False else default


def load_settings(config_file: Path | None, flags: dict[str, Any]) -> Settings:
    """Load the settings; pass those from flags and files to child processes by environment."""
    settings, origins = settings_module.load(flags, file=config_file)
    warn_of_unknown_variables()
    for origin in origins:
        if origin.origin != "default":
            value = origin.value
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            os.environ[environment_name(origin.name)] = text
    if config_file is not None:
        os.environ["FACETD_CONFIG_FILE"] = str(config_file.absolute())
    return settings


def warn_of_unknown_variables() -> None:
    """Print which variables look like settings but are none."""
    for line in settings_module.unknown_variables(os.environ):
        echo(f"facetd: {line}", err=True)


def is_given(flags: dict[str, Any], name: str) -> bool:
    """Return whether the command line sets a setting."""
    assignments = flags.get("assignments") or ()
    return flags.get(name) is not None or any(one.startswith(f"{name}=") for one in assignments)
