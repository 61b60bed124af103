"""What the Tab key offers for arguments: files, and the indexes and snapshots of the service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from common.errors import CommandError, ServiceError
from coordinator.cli.connection_options import ConnectionOptions

ANSWER_SECONDS: Final = 1.0
"""A service that takes longer offers nothing."""
_FLAGS: Final = ("data_dir", "host", "port")


def complete_file(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Leave it to the shell to complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def complete_index(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the indexes and aliases of the service that the command line names."""
    return _beginning(incomplete, _indexes(ctx))


def complete_snapshot(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the snapshots of the service that the command line names."""
    listed = _ask(ctx, "/_snapshots").get("snapshots", ())
    return _beginning(incomplete, (str(one["name"]) for one in listed))


def _beginning(start: str, names: Iterator[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(start)]


def _indexes(ctx: click.Context) -> Iterator[str]:
    for index in _ask(ctx, "/_indexes").get("indexes", ()):
        yield str(index["name"])
        yield from map(str, index["aliases"])


def _ask(ctx: click.Context, path: str) -> dict[str, Any]:
    """Return what the service answers; nothing if it does not, as no one could read the error."""
    given = ctx.params
    flags = {name: given.get(name) for name in _FLAGS}
    service = ConnectionOptions(given.get("url"), given.get("key"), given.get("config_file"), flags)
    try:
        client = service.client(starting_seconds=0.0, read_seconds=ANSWER_SECONDS)
        answer = client.request("GET", path)
    except (CommandError, ServiceError, OSError):
        return {}
    return answer if isinstance(answer, dict) else {}
