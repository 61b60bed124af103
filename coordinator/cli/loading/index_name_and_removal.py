"""The index that a load creates: its name, and its removal if nothing was stored."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import unquote

import click

from coordinator.cli.sources import databases
from coordinator.cli.sources.source import SourceError
from coordinator.cli.sources.url_fetching import is_url, split_url
from coordinator.command_line_client import Client, ClientError, index_path


def index_name(file: str, table: str | None, *, has_query: bool = False) -> str:
    """Derive an index name from what is loaded.

    Raises:
        UsageError: nothing to derive it from.
    """
    if table is not None:
        stem = table.rpartition(".")[2]
    elif databases.is_database(file) and not has_query:
        raise click.UsageError("say which rows to load: --table NAME, or --query SQL and --index")
    elif file == "-" or databases.is_database(file):
        raise click.UsageError("name the --index to load into")
    else:
        path = unquote(_path_of(file)) if is_url(file) else file
        stem = PurePosixPath(path).name.partition(".")[0]
    cleaned = re.sub(r"[^\w.-]+", "-", stem).strip("-._").lower()
    if not cleaned:
        raise click.UsageError(f"{file!r} gives no name of an index: name it with --index")
    return cleaned


def _path_of(url: str) -> str:
    try:
        return split_url(url).path
    except SourceError as error:
        raise click.UsageError(str(error)) from error


def remove_if_empty(client: Client, index: str) -> None:
    """Remove the index that was created for a load, unless some of the load was stored."""
    try:
        if client.request("GET", index_path(index))["items"] == 0:
            client.request("DELETE", index_path(index))
    except ClientError:
        pass  # the error that ended the load is the one to report
