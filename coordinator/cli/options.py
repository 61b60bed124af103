"""Options shared by commands: settings, and the service to talk to.

    --port, --data-dir, …     one option per named setting, described by the table of settings
    --url, --key              the service that a command talks to

The service is found by the first of these: `--url`; `--host` and `--port`; the data directory named
by `--data-dir`; FACETD_URL; the data directory of the settings, where a running service records its
address; the address in the settings. The command line takes precedence over the environment.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from common.settings import environment_name
from coordinator import settings as settings_module
from coordinator.clients.http_client import Client, find_url
from coordinator.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

with_proposing: Final = click.option(
    "--configure",
    "proposing",
    type=click.Choice(["ask", "auto", "none"]),
    default="ask",
    show_default=True,
    help="Apply the configuration that is proposed for a new index: after a question (on a "
    "terminal), at once, or not.",
)
"""Of commands that fill an index."""


_FLAGS: Final = {"shard_addresses": "shard", "log_url": "log"}
"""Options that are not called like their settings."""


def with_settings(*names: str) -> Callable[[F], F]:
    """Give a command one option per named setting."""

    def add(command: F) -> F:
        described = {
            name: (default, unit, doc) for name, default, unit, doc in settings_module.describe()
        }
        for name in reversed(names):
            default, unit, doc = described[name]
            flag = "--" + _FLAGS.get(name, name.replace("_", "-"))
            known = f"{environment_name(name)}; default: {_shown(default)}"
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
    for line in settings_module.unknown_variables(os.environ):
        click.echo(f"facetd: {line}", err=True)
    for origin in origins:
        if origin.origin != "default":
            value = origin.value
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            os.environ[environment_name(origin.name)] = text
    if config_file is not None:
        os.environ["FACETD_CONFIG_FILE"] = str(config_file.absolute())
    return settings


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The options of a command line that name the service to talk to.

    Attributes:
        url: as given by `--url`.
        key: as given by `--key`.
        config_file: as given.
        flags: options of settings, by name; None for those not given.
    """

    url: str | None
    key: str | None
    config_file: Path | None
    flags: dict[str, Any]

    def settings(self) -> Settings:
        """Return the settings."""
        return settings_module.load(dict(self.flags), file=self.config_file)[0]

    def has(self, name: str) -> bool:
        """Return whether the command line sets a setting."""
        return is_given(self.flags, name)

    @property
    def named_url(self) -> str | None:
        """The URL that flags or the environment name; None to consult the data directory."""
        if self.url:
            return self.url
        if self.has("port") or self.has("host"):
            settings = self.settings()
            return find_url(None, None, settings.host, settings.port)
        if self.has("data_dir"):
            return None
        return os.environ.get("FACETD_URL") or None

    def client(self) -> Client:
        """Return a client of the service."""
        settings = self.settings()
        url = find_url(self.named_url, settings.data_dir, settings.host, settings.port)
        return Client(url, self.key or os.environ.get("FACETD_KEY") or None)


def is_given(flags: dict[str, Any], name: str) -> bool:
    """Return whether the command line sets a setting."""
    assignments = flags.get("assignments") or ()
    return flags.get(name) is not None or any(one.startswith(f"{name}=") for one in assignments)


def with_service(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that select the service, passed as its argument `service`."""

    @functools.wraps(command)
    def run(
        *arguments: Any,
        url: str | None,
        key: str | None,
        config_file: Path | None,
        data_dir: str | None,
        host: str | None,
        port: str | None,
        **options: Any,
    ) -> Any:
        flags = {"data_dir": data_dir, "host": host, "port": port}
        service = ServiceOptions(url, key, config_file, flags)
        return command(*arguments, service=service, **options)

    with_options: Callable[..., Any] = run
    for name, metavar, text in reversed(_SERVICE_OPTIONS):
        with_options = click.option(name, metavar=metavar, default=None, help=text)(with_options)
    return click.option(
        "--config-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Read settings from this TOML file.  [FACETD_CONFIG_FILE]",
    )(with_options)


_SERVICE_OPTIONS: Final = (
    (
        "--url",
        "URL",
        "Use the service at this address: http:// or https://, with a path where a proxy serves "
        "it under one.  [FACETD_URL; default: the service of --data-dir]",
    ),
    ("--key", "KEY", "Send this API key.  [FACETD_KEY]"),
    ("--host", "ADDRESS", "Use the service at this address, over HTTP.  [FACETD_HOST]"),
    ("--port", "PORT", "Use the service on this port.  [FACETD_PORT; default: 3000]"),
    (
        "--data-dir",
        "FOLDER",
        "Use the service that runs on this data directory.  "
        "[FACETD_DATA_DIR; default: facetd-data]",
    ),
)
