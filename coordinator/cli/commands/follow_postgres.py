"""The command that keeps an index equal to a table of PostgreSQL; `table_follower` does it."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import click

from coordinator.cli.commands.indexes import exists
from coordinator.cli.connection_options import ConnectionOptions, with_service
from coordinator.cli.escaped_output import echo
from coordinator.cli.following.postgres_table_changes import FollowedTable
from coordinator.cli.following.table_follower import TableFollower
from coordinator.cli.loading.configuration_options import ConfiguringOptions, with_configuring
from coordinator.cli.loading.index_name_and_removal import index_name, remove_if_empty
from coordinator.cli.options_as_one_value import with_options
from coordinator.cli.sources.postgres_connection import Disconnected
from coordinator.cli.sources.source import SourceError
from coordinator.command_line_client import ClientError


@dataclass(frozen=True, slots=True)
class FollowedOptions:
    """Options that name what is followed, and into which index."""

    table: str
    index: str | None
    id_field: str | None
    query: str | None
    slot: str | None


@dataclass(frozen=True, slots=True)
class ModeOptions:
    """Options about how a table is followed."""

    interval: float
    once: bool
    replace: bool
    skip_bad: bool
    drop_slot: bool


with_table: Final = with_options(
    "followed",
    FollowedOptions,
    click.option("--table", metavar="NAME", required=True, help="Follow this table."),
    click.option(
        "--index", metavar="NAME", help="Into this index.  [default: the name of the table]"
    ),
    click.option(
        "--id-field",
        metavar="FIELD",
        help="Take the items' ids from this column.  [the primary key]",
    ),
    click.option(
        "--query",
        metavar="SQL",
        help="Store the rows of this query instead of the table's; it must have the column of the "
        "ids. A changed row of --table makes its rows be read again.",
    ),
    click.option(
        "--slot",
        metavar="NAME",
        help="Name of the replication slot and publication that are made.  [default: facetd_INDEX]",
    ),
)
with_mode: Final = with_options(
    "mode",
    ModeOptions,
    click.option(
        "--interval",
        type=click.FloatRange(0.01, 3600),
        default=0.5,
        show_default=True,
        metavar="SECONDS",
        help="Look for changes this often.",
    ),
    click.option("--once", is_flag=True, help="End when everything so far is stored."),
    click.option(
        "--replace", is_flag=True, help="Make an index that has other items equal to the table."
    ),
    click.option(
        "--skip-bad",
        is_flag=True,
        help="Leave out rows that cannot be stored, and say so; without it the first one ends "
        "this.",
    ),
    click.option(
        "--drop-slot",
        is_flag=True,
        help="Remove slot and publication from the database, and end. A slot without a reader "
        "keeps the database from removing its log.",
    ),
)


@click.command()
@click.argument("database")
@with_table
@with_mode
@with_configuring("Configure a new index by this JSON file first.")
@with_service
def follow(
    service: ConnectionOptions,
    database: str,
    followed: FollowedOptions,
    mode: ModeOptions,
    configuring: ConfiguringOptions,
) -> None:
    """Keep an index equal to a table of PostgreSQL.

    It copies the table first, and then stores each change within a second of its commit, by
    logical replication (wal_level = logical). Stopped or killed, the same command continues where
    it left off; nothing is lost and nothing is stored twice. Needs the extra postgres: pip install
    'facetd[postgres]'.

    \b
    facetd follow postgres://me@localhost/shop --table product
    facetd follow postgres://me@localhost/shop --table product --drop-slot
    """  # noqa: D301 - \b keeps click from filling the lines
    if not database.startswith(("postgres://", "postgresql://")):
        raise click.UsageError(
            "DATABASE is postgres://user:password@host/name; facetd load reads other databases once"
        )
    name = followed.index or index_name(database, followed.table)
    slot_name = followed.slot or re.sub(r"[^a-z0-9_]", "_", f"facetd_{name.lower()}")[:63]
    if not re.fullmatch(r"[a-z0-9_]{1,63}", slot_name):
        raise click.BadParameter("it has 1 to 63 of a-z, 0-9 and _", param_hint="--slot")
    document = configuring.document()

    def connect() -> closing[FollowedTable]:
        query, id_field = followed.query, followed.id_field
        return closing(
            FollowedTable(database, followed.table, slot_name, id_field=id_field, query=query)
        )

    try:
        if mode.drop_slot:
            with connect() as table:
                table.slot.drop()
            echo(f"facetd: the slot {slot_name} is removed", err=True)
            return
        client = service.client()
        is_new = not exists(client, name)
        if is_new:
            client.configure(name, document or {})
        follower = TableFollower(
            client, name, slot_name, skips_bad=mode.skip_bad, replaces=mode.replace
        )
        follower.stop_on_signals()
        proposing = configuring.proposing if is_new else "none"
        try:
            follower.run(connect, mode.interval, once=mode.once, proposing=proposing)
        finally:
            if is_new and not follower.has_followed:
                remove_if_empty(client, name)
    except (SourceError, Disconnected) as error:
        raise ClientError(str(error)) from error
