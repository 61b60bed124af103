"""The command line: parse flags, call, print. No logic of its own.

    processes   serve, demo, coordinator, shard
    loading     load                               from which sources: `coordinator.cli.sources`
    following   follow                             a table of PostgreSQL
    importing   import                             from which engines: `coordinator.cli.importers`
    items       search, export
    indexes     status, configure, alias, delete, snapshots, open
    analytics   analytics
    keys        keys create, list, remove
    copies      backup, restore, check, rebuild, reshard
    mcp         mcp
    shell       config, completion, man

Progress and remarks go to stderr, results to stdout. Exit status: 0 success, 1 failure, 2 wrong
usage. Large packages (numba, aiohttp) are imported only by the commands that need them.
"""

from __future__ import annotations

import click

from coordinator.cli import (
    analytics,
    copies,
    following,
    importing,
    indexes,
    items,
    keys,
    loading,
    mcp,
    processes,
    shell,
)
from coordinator.cli.group import CommandGroup

_COMMANDS = (
    *(processes.serve, processes.demo, processes.coordinator, processes.shard),
    *(loading.load, following.follow, importing.import_, items.search, items.export),
    *(indexes.status, indexes.configure, indexes.alias, indexes.delete, indexes.snapshots),
    indexes.open_,
    analytics.analytics,
    keys.keys,
    mcp.mcp,
    *(copies.backup, copies.restore, copies.check, copies.rebuild, copies.reshard),
    *(shell.config, shell.completion, shell.man),
)


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="facetd", prog_name="facetd")
def main() -> None:
    """Exact faceted full-text search for one host.

    facetd demo shows it at work; facetd serve runs it, and facetd load FILE fills it.
    """


for _command in _COMMANDS:
    main.add_command(_command)
