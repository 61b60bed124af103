"""Commands for data at rest: check, rebuild, reshard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from coordinator.cli.settings_options import load_settings, with_settings


@click.command()
@with_settings("data_dir")
@click.pass_context
def check(ctx: click.Context, /, config_file: Path | None, **flags: Any) -> None:
    """Compare every segment and counter with the stored items.

    The exit status is 1 if any differs. No service may run on the data.
    """
    from coordinator.process import offline_commands

    ctx.exit(offline_commands.check(load_settings(config_file, flags).data_dir))


@click.command()
@with_settings("data_dir")
@click.option("--drop-damaged", is_flag=True, help="First remove damaged items.")
@click.pass_context
def rebuild(
    ctx: click.Context, /, config_file: Path | None, drop_damaged: bool, **flags: Any
) -> None:
    """Rebuild all indexes from the stored items, then check them.

    No service may run on the data.
    """
    from coordinator.process import offline_commands

    data = load_settings(config_file, flags).data_dir
    ctx.exit(offline_commands.check(data, rebuilds=True, drops_damaged=drop_damaged))


@click.command()
@click.option(
    "--shards",
    type=click.IntRange(1, 64),
    required=True,
    metavar="NUMBER",
    help="The new number of shards.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Write the new data to this folder instead of replacing the old.",
)
@with_settings("data_dir")
@click.pass_context
def reshard(
    ctx: click.Context,
    /,
    shards: int,
    output: Path | None,
    config_file: Path | None,
    **flags: Any,
) -> None:
    """Divide the data over another number of shards.

    Every answer stays the same. No service may run on the data. It can be killed at any moment: the
    old data stay in force until the new ones are complete.
    """
    from coordinator.process import offline_commands

    ctx.exit(offline_commands.reshard(load_settings(config_file, flags).data_dir, shards, output))
