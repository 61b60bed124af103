"""Commands for indexes: status, configure, rename, copy, alias, delete, open."""

from __future__ import annotations

import json
import sys
import webbrowser
from typing import Any, BinaryIO

import click

from coordinator.cli.argument_completion import complete_index
from coordinator.cli.connection_options import ConnectionOptions, with_service
from coordinator.cli.console_tables import bytes_text, print_table
from coordinator.cli.escaped_output import echo
from coordinator.cli.keystroke_questions import is_terminal
from coordinator.cli.loading.configuration_options import read_object
from coordinator.cli.sources.source import counted
from coordinator.command_line_client import Client, ClientError, index_path


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@with_service
@click.pass_context
def status(ctx: click.Context, /, as_json: bool, service: ConnectionOptions) -> None:
    """Show whether the service is complete, and its indexes.

    The exit status is 1 if it is not complete.
    """
    client = service.client(starting_seconds=0.0)
    health = client.request("GET", "/_health")
    waits_for = ""
    try:
        client.request("GET", "/_ready")
    except ClientError as error:
        if error.status != 503:
            raise
        waits_for = str(error.details.get("message", error))
    indexes: list[dict[str, Any]] = []
    try:
        indexes = client.request("GET", "/_indexes")["indexes"]
    except ClientError as error:
        if error.status != 503:
            raise
    if as_json:
        document = {"url": client.url, "ready": not waits_for, "indexes": {"indexes": indexes}}
        echo(json.dumps(document, ensure_ascii=False))
    else:
        what = f"is not ready: {waits_for}" if waits_for else "is ready"
        echo(f"facetd {health.get('version', '')} at {client.url} {what}\n")
        print_table(
            ("index", "items", "size", "state", "facets", "aliases"),
            [_status_row(index) for index in indexes],
            right=("items", "size"),
            empty="there are no indexes; facetd load FILE makes one",
        )
    ctx.exit(1 if waits_for else 0)


def _status_row(index: dict[str, Any]) -> tuple[str, ...]:
    """Return an index as a row of the table."""
    return (
        index["name"],
        f"{index['items']:,}",
        bytes_text(index["bytes"]),
        index["state"],
        ", ".join(index["facets"]),
        ", ".join(index["aliases"]),
    )


def exists(client: Client, index: str) -> bool:
    """Return whether an index exists; a write-only key finds out when it writes."""
    try:
        client.request("GET", f"{index_path(index)}/status")
    except ClientError as error:
        if error.status == 404:
            return False
        if error.status != 403:
            raise
    return True


@click.command()
@click.argument("index", shell_complete=complete_index)
@click.argument("file", type=click.File("rb"), required=False)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="PATH=JSON",
    help="Set one value, for example aggregations.genre.conjunction=false; null removes it. "
    "Can be repeated.",
)
@click.option(
    "--replace", is_flag=True, help="Replace the whole configuration with FILE instead of merging."
)
@click.option("--preview", is_flag=True, help="Show what would change, without changing anything.")
@click.option("--effective", is_flag=True, help="Show the configuration with all defaults.")
@with_service
def configure(
    service: ConnectionOptions,
    index: str,
    file: BinaryIO | None,
    changes: tuple[str, ...],
    replace: bool,
    preview: bool,
    effective: bool,
) -> None:
    """Show or change the configuration of INDEX.

    Without FILE and --set it is shown. Otherwise both are merged into it: keys that they do not
    name are kept, and null removes a key. A missing INDEX is created.
    """
    client = service.client()
    path = f"{index_path(index)}/configuration"
    if file is None and not changes:
        if replace or preview:
            raise click.UsageError("name a FILE, or what to change with --set")
        shown = client.request("GET", path + ("?effective=true" if effective else ""))
        echo(json.dumps(shown, ensure_ascii=False, indent=2))
        return
    if effective:
        raise click.UsageError("--effective shows a configuration; it changes none")
    document = read_object(file) if file is not None else {}
    for change in changes:
        _set(document, change)
    if not exists(client, index):
        echo(f"facetd: {index} is a new index", err=True)
    method = "PUT" if replace else "PATCH"
    question = "?preview=true" if preview else ""
    answer = client.request(method, path + question, json.dumps(document).encode())
    for change in answer["changes"]:
        before = json.dumps(change["before"], ensure_ascii=False)
        after = json.dumps(change["after"], ensure_ascii=False)
        echo(f"{change['path']}: {before} -> {after}")
    if not answer["changes"]:
        echo("nothing changes")
    for warning in answer["warnings"]:
        echo(f"facetd: {warning}", err=True)
    if preview:
        echo("facetd: a preview; nothing was changed", err=True)


def _set(document: dict[str, Any], change: str) -> None:
    """Set `path=json` in a document."""
    path, equals, text = change.partition("=")
    names = path.split(".")
    if not equals or not all(names):
        raise click.BadParameter(f"{change!r} is not PATH=JSON", param_hint="--set")
    try:
        value = json.loads(text)
    except ValueError:
        value = text  # an unquoted word is a text
    for name in names[:-1]:
        inner = document.setdefault(name, {})
        if not isinstance(inner, dict):
            raise click.BadParameter(f"{path!r}: {name!r} is not an object", param_hint="--set")
        document = inner
    document[names[-1]] = value


@click.command()
@click.argument("index", shell_complete=complete_index)
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_service
def delete(service: ConnectionOptions, index: str, yes: bool) -> None:
    """Delete INDEX and all its items."""
    client = service.client()
    if not yes:
        items = counted(client.request("GET", f"{index_path(index)}/stats")["items"], "item")
        if not is_terminal(sys.stdin):
            raise ClientError(f"{index!r} has {items}; without a terminal, pass --yes")
        click.confirm(f"Delete {index!r} with its {items}?", abort=True, err=True)
    client.request("DELETE", index_path(index))
    echo(f"deleted {index}")


@click.command()
@click.argument("index", shell_complete=complete_index)
@click.argument("name")
@click.option("--alias", is_flag=True, help="Make the former name an alias of the index.")
@click.option(
    "--replace",
    is_flag=True,
    help="Take NAME from an index that has it, and delete that index at the same moment.",
)
@with_service
def rename(service: ConnectionOptions, index: str, name: str, alias: bool, replace: bool) -> None:
    """Give INDEX another NAME; its aliases go with it.

    \b
    facetd rename films films-2025 --alias
    facetd rename films-new films --replace
    """  # noqa: D301 - \b keeps click from filling the lines
    document = {"to": name, "alias": alias, "replace": replace}
    client = service.client()
    try:
        client.request("POST", f"{index_path(index)}/rename", json.dumps(document).encode())
    except ClientError as error:
        if error.code == "index_exists" and not replace:
            raise ClientError(
                f"{error}\n--replace takes the name of an index, and deletes that"
            ) from error
        raise
    echo(f"renamed {index} to {name}")


@click.command()
@click.argument("index", shell_complete=complete_index)
@click.argument("name")
@with_service
def copy(service: ConnectionOptions, index: str, name: str) -> None:
    """Copy INDEX, with its items and its configuration, to the new index NAME."""
    client = service.client()
    client.request("POST", f"{index_path(index)}/copy", json.dumps({"to": name}).encode())
    echo(f"copied {index} to {name}")


@click.command()
@click.argument("name", required=False)
@click.argument("index", required=False, shell_complete=complete_index)
@click.option("--remove", is_flag=True, help="Remove the alias NAME.")
@with_service
def alias(service: ConnectionOptions, name: str | None, index: str | None, remove: bool) -> None:
    """Make NAME an alias of INDEX, or list the aliases.

    An existing alias NAME moves to INDEX atomically.
    """
    client = service.client()
    if name is None and not remove:
        found = client.request("GET", "/_aliases")["aliases"]
        print_table(("alias", "index"), sorted(found.items()), empty="there are no aliases")
        return
    if name is None or (index is None) != remove:
        raise click.UsageError("give NAME and INDEX to set an alias, or NAME and --remove")
    client.request("POST", "/_aliases", json.dumps({"aliases": {name: index}}).encode())
    echo(f"removed {name}" if remove else f"{name} -> {index}")


@click.command("open")
@click.argument("index", default="", shell_complete=complete_index)
@with_service
def open_(service: ConnectionOptions, index: str) -> None:
    """Open the dashboard, or its page of INDEX, in the browser.

    The address is printed as well; if stdout is not a terminal, it is only printed.
    """
    client = service.client()
    check_is_there(client, index)
    address = f"{client.url}/dashboard" + (index_path(index) if index else "")
    echo(address)
    if sys.stdout.isatty():
        webbrowser.open(address)


def check_is_there(client: Client, index: str) -> None:
    """Raise if the service, or the named index, does not exist."""
    client.request("GET", f"{index_path(index)}/status" if index else "/_health")
