"""Commands for API keys: create, list, remove. The first can be created before the first start."""

from __future__ import annotations

import asyncio
import json
import os
import re
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

import click

from common import data_directory
from common.data_directory import DataDirectoryError, acquire_lock
from common.errors import CommandError
from coordinator.cli.command_groups import ListingGroup
from coordinator.cli.connection_options import ConnectionOptions, with_service
from coordinator.cli.console_tables import print_table
from coordinator.cli.escaped_output import echo
from coordinator.command_line_client import Client, ClientError
from coordinator.settings import Settings

ACTIONS: Final = ("search", "write", "configure", "admin")
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@click.group(cls=ListingGroup)
def keys() -> None:
    """Create, list and remove API keys.

    As soon as there is a key, every request needs one. The first key must allow admin, which alone
    can make more. Without a command: list them.
    """


def _seconds(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Parse a time span: seconds, or a number with s, m, h, d or w."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d{1,10})([smhdw]?)", value)
    if found is None or int(found[1]) == 0:
        raise click.BadParameter(f"{value!r} is not a time span; write 3600, 90m, 12h, 30d or 4w")
    return int(found[1]) * _UNITS[found[2] or "s"]


@keys.command("create")
@click.option(
    "--action",
    "--actions",
    "actions",
    multiple=True,
    metavar="ACTION",
    help="What the key allows: search, write, configure, admin. Repeat it or separate by commas.  "
    "[default: search; for the first key: all of them]",
)
@click.option(
    "--index",
    "--indexes",
    "indexes",
    multiple=True,
    metavar="PATTERN",
    help="Indexes that the key is for, * stands for any text. Repeat it or separate by commas.  "
    "[default: *]",
)
@click.option(
    "--filter",
    "expression",
    metavar="EXPRESSION",
    help='Show only items that match, for example "tenant = 7".',
)
@click.option(
    "--expires-in", callback=_seconds, metavar="TIME", help="End after 3600 (s), 90m, 12h, 30d, 4w."
)
@click.option("--expires-at", metavar="DATE", help="End at an ISO date, 2027-01-31T12:00:00Z.")
@click.option("--description", default="", metavar="TEXT", help="Say what the key is for.")
@with_service
def create(
    service: ConnectionOptions,
    actions: tuple[str, ...],
    indexes: tuple[str, ...],
    expression: str | None,
    expires_in: int | None,
    expires_at: str | None,
    description: str,
) -> None:
    """Create a key and print it; it is not shown again.

    Before the first start the key is created in the data directory (name it with --data-dir).
    """
    allowed = _listed(actions)
    unknown = [action for action in allowed if action not in ACTIONS]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r} is none of {', '.join(ACTIONS)}", param_hint="--action"
        )
    document: dict[str, Any] = {
        "actions": allowed,
        "indexes": _listed(indexes) or ["*"],
        "description": description,
        "filter": expression,
        "expires_in_seconds": expires_in,
        "expires_at": expires_at,
    }
    document = {name: value for name, value in document.items() if value is not None}
    settings = service.settings()
    if service.named_url is None and not _is_running(settings) and _is_offline(service, settings):
        _create_offline(settings, document)
        echo(
            f"facetd: the key is in {settings.data_dir}, which no service uses now; "
            "it holds from its next start",
            err=True,
        )
        return
    client = service.client()
    is_first = not _existing(client)
    if not allowed:
        document["actions"] = list(ACTIONS) if is_first else ["search"]
    made = _made(client, document, settings, is_first=is_first)
    try:
        echo(json.dumps(made))
    except BaseException:
        _take_back(replace(service, key=made["key"]) if is_first else service, made["id"], settings)
        raise
    if is_first:
        echo(
            "facetd: from now on every request needs a key; keep this one (FACETD_KEY=fk_…), it is "
            "not shown again",
            err=True,
        )


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@with_service
def list_(service: ConnectionOptions, as_json: bool) -> None:
    """List the keys, without their secrets, which are not stored."""
    found = service.client().request("GET", "/_keys")
    if as_json:
        echo(json.dumps(found, ensure_ascii=False))
        return
    print_table(
        ("id", "actions", "indexes", "filter", "expires", "description"),
        [
            (
                key["id"],
                ", ".join(key["actions"]),
                ", ".join(key["indexes"]),
                key["filter"] or "",
                key["expires_at"] or "never",
                key["description"],
            )
            for key in found["keys"]
        ],
        empty="there are no keys: every request is allowed",
    )


@keys.command("remove")
@click.argument("key_id")
@with_service
def remove(service: ConnectionOptions, key_id: str) -> None:
    """Remove the key with the id KEY_ID (facetd keys list shows the ids)."""
    client = service.client()
    echo(json.dumps(client.request("DELETE", f"/_keys/{quote(key_id, safe='')}")))
    with suppress(ClientError):  # others are left, of which this one was not the last
        if not _existing(client):
            echo("facetd: no key is left: every request is allowed", err=True)


def _made(
    client: Client, document: dict[str, Any], settings: Settings, *, is_first: bool
) -> dict[str, Any]:
    """Have the service make a key.

    Raises:
        ClientError: it refuses, or does not answer; says what to do if the key was made.
    """
    try:
        made: dict[str, Any] = client.request("POST", "/_keys", json.dumps(document).encode())
    except ClientError as error:
        if error.status or not is_first:
            raise
        raise ClientError(
            f"{error}; if requests want a key now, it was made, and its secret is lost: "
            f"{_another(settings)}"
        ) from error
    return made


def _take_back(service: ConnectionOptions, key_id: str, settings: Settings) -> None:
    """Remove a key that could not be printed: its secret is lost."""
    try:
        service.client().request("DELETE", f"/_keys/{quote(key_id, safe='')}")
    except ClientError as error:
        fault = f"the key {key_id} could be neither printed nor removed ({error})"
        echo(f"facetd: {fault}; if it is the only one, {_another(settings)}", err=True)
    else:
        echo("facetd: the key could not be printed, so it was removed", err=True)


def _another(settings: Settings) -> str:
    """Say how to make a key where no known one allows that."""
    return (
        f"stop the service, and facetd keys create --action admin --data-dir {settings.data_dir} "
        "makes another"
    )


def _listed(texts: tuple[str, ...]) -> list[str]:
    """Return the repeated or comma-separated values, without duplicates."""
    parts = (part.strip() for text in texts for part in text.split(","))
    return list(dict.fromkeys(part for part in parts if part))


def _existing(client: Client) -> list[dict[str, Any]]:
    """Return the keys of the service."""
    found: list[dict[str, Any]] = client.request("GET", "/_keys")["keys"]
    return found


def _is_running(settings: Settings) -> bool:
    """Return whether a process owns the data directory."""
    if not settings.data_dir.exists():
        return False
    try:
        os.close(acquire_lock(settings.data_dir, wait_seconds=0))
    except DataDirectoryError:
        return True
    return False


def _is_offline(service: ConnectionOptions, settings: Settings) -> bool:
    """Return whether to create the key in the data directory, rather than through the service.

    An unnamed directory that does not exist is not created in passing: a service running elsewhere
    would stay open, while its owner believes it is protected.

    Raises:
        ClientError: there is neither.
    """
    from coordinator.catalog.catalog_file import holds_data

    is_named = service.has("data_dir") or bool(os.environ.get("FACETD_DATA_DIR"))
    if is_named or holds_data(settings.data_dir):
        return True
    client = service.client()
    try:
        client.request("GET", "/_health")
    except ClientError as error:
        if error.status:
            return False  # a service responds, and its error says what is wrong
        raise ClientError(
            f"no facetd runs at {client.url}, and {settings.data_dir} holds no data; name the "
            "service with --url, or the data directory to be with --data-dir"
        ) from error
    return False


def _create_offline(settings: Settings, document: dict[str, Any]) -> None:
    """Create a key in the catalog of a service that is not running.

    It is printed before it counts: one whose secret is lost would lock its owner out. Of a new
    directory, the service that starts on it decides the number of shards.
    """
    from coordinator.catalog.catalog import Catalog
    from coordinator.http.security.api_keys import add_key, stored_keys

    def tell(shown: dict[str, Any], token: str) -> None:
        echo(json.dumps({**shown, "key": token}))

    async def create() -> None:
        data_directory.create(settings.data_dir)
        lock = acquire_lock(settings.data_dir)
        try:
            manifest = data_directory.read_manifest(settings.data_dir)
            if data_directory.replica_path(settings.data_dir).exists():
                raise CommandError(
                    f"{settings.data_dir} follows the log of several hosts: start the service, and "
                    "the keys are made on all of them"
                )
            num_shards = settings.shards if manifest is None else manifest.shards
            catalog = Catalog.open(settings.data_dir, num_shards, decides_shards=False)
            if not document["actions"]:
                document["actions"] = ["search"] if stored_keys(catalog) else list(ACTIONS)
            await add_key(catalog, document, settings.limits, tell=tell)
        finally:
            os.close(lock)

    asyncio.run(create())
