"""The flags and settings of one shard process.

The supervisor starts it with these flags; the settings of a shard come from the environment, or
from the file that the environment names (`common.shard_settings`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from common.process import logs
from common.process.thread_priority import keep_up
from common.setting_conversion import SettingError
from common.setting_sources import LogSettings, Sources
from common.shard_settings import ShardSettings
from shard.process.shard_process import Identity, run


@click.command(name="facetd shard")
@click.option(
    "--shard-id", type=click.IntRange(0), required=True, help="Run this shard: 0 is the first."
)
@click.option("--shards", type=click.IntRange(1), required=True, help="Shards of the service.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("facetd-data"),
    envvar="FACETD_DATA_DIR",
    show_default=True,
    help="Folder that holds all data.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, help="Port of the RPC; 0 picks a free one."
)
@click.option(
    "--parent-pipe",
    type=click.IntRange(0),
    default=None,
    help="Stop once this file descriptor, the reading end of a pipe, is closed by the parent.",
)
@click.option("--replica", is_flag=True, help="Be part of one of several hosts.")
def main(
    shard_id: int,
    shards: int,
    data_dir: Path,
    host: str,
    port: int,
    parent_pipe: int | None,
    *,
    replica: bool,
) -> None:
    """Run one shard in the foreground."""
    if shard_id >= shards:
        raise click.BadParameter(f"must be below {shards}", param_hint="--shard-id")
    try:
        sources = Sources.collect(os.environ)
        log_settings = LogSettings.of(sources)
        settings = ShardSettings.of(sources)
    except SettingError as error:
        print(f"facetd: {error}", file=sys.stderr)
        sys.exit(2)
    if replica:
        keep_up()
    logs.configure(f"shard-{shard_id}", level=log_settings.log_level, style=log_settings.log_style)
    sys.exit(run(Identity(data_dir, shard_id, shards, host, port, parent_pipe), settings))
