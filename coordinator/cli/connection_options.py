"""Options of commands that talk to a service: which service, and with which key.

It is found by the first of these: `--url`; `--host` and `--port`; the data directory named by
`--data-dir`; FACETD_URL; the data directory of the settings, where a running service records its
address; the address in the settings. The command line takes precedence over the environment. A data
directory that the command line names must have a running service: a command must not reach another.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from common.endpoint_files import read_coordinator_endpoint
from coordinator import settings as settings_module
from coordinator.cli.escaped_output import echo
from coordinator.cli.settings_options import is_given
from coordinator.command_line_client import Client, ClientError, find_url
from coordinator.settings import Settings

STARTING_SECONDS: Final = 60.0
"""How long commands wait for a service that is starting."""
PATIENCE_SECONDS: Final = 30.0
"""How much longer than the service's own deadlines they wait for a byte: its answer says more than
that there was none."""


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
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

    def find_url(self, settings: Settings) -> str:
        """Return the URL of the service.

        Raises:
            ClientError: none runs on the data directory that the command line names.
        """
        named, data = self.named_url, settings.data_dir
        if named is None and self.has("data_dir") and read_coordinator_endpoint(data) is None:
            raise ClientError(
                f"no facetd runs on {data} that this user can see; start it with facetd serve "
                f"--data-dir {data}, or name one with --url"
            )
        return find_url(named, data, settings.host, settings.port)

    def client(
        self, *, starting_seconds: float = STARTING_SECONDS, read_seconds: float | None = None
    ) -> Client:
        """Return a client of the service.

        Args:
            starting_seconds: how long a request waits for a service that is starting.
            read_seconds: how long a read waits for a byte; None: as long as the service may take.
        """
        settings = self.settings()
        longest_read = settings.limits.request_timeout_ms_max / 1000 + PATIENCE_SECONDS
        return Client(
            self.find_url(settings),
            self.key or os.environ.get("FACETD_KEY") or None,
            read_seconds=longest_read if read_seconds is None else read_seconds,
            change_seconds=settings.configure_timeout_ms / 1000 + PATIENCE_SECONDS,
            starting_seconds=starting_seconds,
            notice=partial(echo, err=True),
        )


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
        service = ConnectionOptions(url, key, config_file, flags)
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
