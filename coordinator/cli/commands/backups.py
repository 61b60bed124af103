"""Commands for backups: backup, restore."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from coordinator.cli.argument_completion import complete_file
from coordinator.cli.connection_options import ConnectionOptions, with_service
from coordinator.cli.escaped_output import echo
from coordinator.cli.settings_options import load_settings, with_settings
from coordinator.command_line_client import ClientError


@click.command()
@click.argument("destination", shell_complete=complete_file)
@with_service
def backup(service: ConnectionOptions, destination: str) -> None:
    """Copy all indexes of a running service to the new folder DESTINATION.

    The copy is as of one moment, while the service accepts writes. With - a tar stream is written
    to stdout.
    """
    from coordinator.process import offline_commands

    if destination != "-":
        offline_commands.check_place(Path(destination).absolute())
    client = service.client()
    name = f"backup-{secrets.token_hex(6)}"
    made = client.request("POST", "/_snapshots", json.dumps({"name": name}).encode())
    folder = Path(made["directory"])
    if not _can_see(folder):
        raise ClientError(
            f"the service is on another host, or another user's: it has made {folder} there; "
            f"facetd snapshots delete {name} removes it"
        )
    try:
        if destination == "-":
            offline_commands.write_archive(folder, sys.stdout.buffer)
        else:
            offline_commands.move_snapshot(folder, Path(destination))
    finally:  # nothing is left for the next backup to find no room beside
        shutil.rmtree(folder, ignore_errors=True)
    if destination != "-":
        echo(json.dumps({**made, "directory": destination}, ensure_ascii=False))


def _can_see(folder: Path) -> bool:
    """Return whether this user may look into a folder that is on this host."""
    try:
        return folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)
    except PermissionError:  # of a folder above it
        return False


@click.command()
@click.argument("source", shell_complete=complete_file)
@with_settings("data_dir")
def restore(source: str, config_file: Path | None, **flags: Any) -> None:
    """Create a data directory from the backup SOURCE.

    SOURCE is a folder, a tar file, or - for a tar stream on stdin. Every byte is checked first; a
    data directory that is not empty is refused.
    """
    from coordinator.process import offline_commands

    data = load_settings(config_file, flags).data_dir
    snapshot = offline_commands.restore(sys.stdin.buffer if source == "-" else Path(source), data)
    echo(
        json.dumps(
            {
                "data_dir": str(data),
                "shards": snapshot.shards,
                "created_at": snapshot.created_at,
                "indexes": [{"name": one.name, "seq": one.seq} for one in snapshot.indexes],
            },
            ensure_ascii=False,
        )
    )
