"""Options of commands that fill an index: how it is configured if it is new."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import click

from coordinator.cli.escaped_output import echo
from coordinator.cli.options_as_one_value import with_options
from coordinator.command_line_client import Client, ClientError, index_path


@dataclass(frozen=True, slots=True)
class ConfiguringOptions:
    """How an index is configured.

    Attributes:
        configuration: the JSON file to configure it by; None: there is none.
        proposing: whether the proposed configuration is applied to a new index: "ask" (on a
            terminal, one keystroke), "auto" or "none".
    """

    configuration: BinaryIO | None
    proposing: str

    def document(self) -> dict[str, Any] | None:
        """Read the file.

        Raises:
            ClientError: it does not hold a JSON object.
        """
        return None if self.configuration is None else read_object(self.configuration)


def read_object(file: BinaryIO) -> dict[str, Any]:
    """Read a JSON object from a file.

    Raises:
        ClientError: the file does not contain one.
    """
    try:
        document = json.load(file)
    except ValueError as error:
        raise ClientError(f"{file.name} is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise ClientError(f'{file.name} must hold a JSON object: {{"aggregations": {{…}}}}')
    return document


def with_configuring(file_help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options `--config` and `--configure`, as its argument `configuring`."""
    return with_options(
        "configuring",
        ConfiguringOptions,
        click.option("--config", "configuration", type=click.File("rb"), help=file_help),
        configure_option("the configuration that is proposed for a new index"),
    )


def configure_option(proposal: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option `--configure`, as the argument `proposing`; the help names the proposal."""
    return click.option(
        "--configure",
        "proposing",
        type=click.Choice(["ask", "auto", "none"]),
        default="ask",
        show_default=True,
        help=f"Apply {proposal}: after a question (on a terminal), at once, or not.",
    )


def show_warnings(client: Client, index: str) -> None:
    """Say what in the configuration of a loaded index has no effect.

    Which fields its items have is known only now.
    """
    answer = client.request("PATCH", f"{index_path(index)}/configuration?preview=true", b"{}")
    for warning in answer["warnings"]:
        echo(f"facetd: configuration: {warning}", err=True)
