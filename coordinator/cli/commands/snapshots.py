"""Commands for snapshots of all indexes: create, list, restore, delete."""

from __future__ import annotations

import json
from typing import Any

import click

from coordinator.cli.argument_completion import complete_snapshot
from coordinator.cli.command_groups import ListingGroup
from coordinator.cli.connection_options import ConnectionOptions, with_service
from coordinator.cli.console_tables import bytes_text, print_table
from coordinator.cli.escaped_output import echo
from coordinator.command_line_client import ClientError, index_path


@click.group(cls=ListingGroup)
def snapshots() -> None:
    """Create, list, restore and delete snapshots of all indexes.

    Without a command: list them.

    A snapshot stays with the data of the service; facetd backup copies to a folder of your choice.
    """


@snapshots.command("create")
@click.argument("name")
@with_service
def create_snapshot(service: ConnectionOptions, name: str) -> None:
    """Copy all indexes as of this moment into the snapshot NAME."""
    made = service.client().request("POST", "/_snapshots", json.dumps({"name": name}).encode())
    echo(json.dumps(made, ensure_ascii=False))


@snapshots.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@with_service
def list_snapshots(service: ConnectionOptions, as_json: bool) -> None:
    """List the snapshots, oldest first."""
    found = service.client().request("GET", "/_snapshots")
    if as_json:
        echo(json.dumps(found, ensure_ascii=False))
        return
    print_table(
        ("name", "made", "size", "indexes"),
        [
            (
                one["name"],
                one["created_at"],
                bytes_text(one["bytes"]),
                ", ".join(index["name"] for index in one["indexes"]),
            )
            for one in found["snapshots"]
        ],
        right=("size",),
        empty="there are no snapshots; facetd snapshots create NAME makes one",
    )


@snapshots.command("restore")
@click.argument("name", shell_complete=complete_snapshot)
@click.option("--index", "indexes", multiple=True, help="Restore only this index. Can be repeated.")
@click.option(
    "--rename",
    "renames",
    multiple=True,
    metavar="OLD=NEW",
    help="Restore the index OLD under the name NEW. Can be repeated.",
)
@with_service
def restore_snapshot(
    service: ConnectionOptions, name: str, indexes: tuple[str, ...], renames: tuple[str, ...]
) -> None:
    """Create new indexes from the snapshot NAME: all of them, or none."""
    document: dict[str, Any] = {}
    if indexes:
        document["indexes"] = list(indexes)
    for text in renames:
        old, equals, new = text.partition("=")
        if not equals or not old or not new:
            raise click.BadParameter(f"{text!r} is not OLD=NEW", param_hint="--rename")
        document.setdefault("rename", {})[old] = new
    path = f"/_snapshots{index_path(name)}/restore"
    try:
        answer = service.client().request("POST", path, json.dumps(document).encode())
    except ClientError as error:
        if error.code != "index_exists":
            raise
        old = (document.get("indexes") or ["INDEX"])[0]
        raise ClientError(
            f"{error}\n--rename {old}={old}-restored restores it under another name"
        ) from error
    for index in answer["indexes"]:
        echo(f"restored {index['name']} from {index['from']}")


@snapshots.command("delete")
@click.argument("name", shell_complete=complete_snapshot)
@with_service
def delete_snapshot(service: ConnectionOptions, name: str) -> None:
    """Delete the snapshot NAME."""
    service.client().request("DELETE", f"/_snapshots{index_path(name)}")
    echo(f"deleted {name}")
