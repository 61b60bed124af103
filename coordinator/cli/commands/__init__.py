"""The command line: parse flags, call, print. No logic of its own.

Progress and remarks go to stderr, results to stdout. Exit status: 0 success, 1 failure, 2 wrong
usage. A command's module is imported when the command is called; help and completion need no more
than the table below, so every command starts at once.

    process_commands   serve, demo, coordinator, shard
    load               from `sources`; import_from_other_engines: from `importers`
    follow_postgres    an index equal to a table of PostgreSQL, by `following`
    search             shows hits and facets; analytics: frequent searches
    export             all items of an index
    indexes            status, configure, rename, copy, alias, delete, open
    keys               API keys; mcp: tools for language models
    cluster            several hosts
    backups            backup, restore; check_rebuild_reshard: offline
    snapshots          of a running service
    settings           config: the settings in force; completion_scripts of shells; man_page
"""

from __future__ import annotations

from typing import Final

import click

from coordinator.cli.command_groups import CommandEntry, CommandGroup

SECTIONS: Final = {
    "Run a service": (
        CommandEntry(
            "demo", "process_commands", "Run the service with an index of films to play with."
        ),
        CommandEntry(
            "serve",
            "process_commands",
            "Run the service in the foreground: all shards and the coordinator.",
        ),
        CommandEntry(
            "coordinator",
            "process_commands",
            "Run the coordinator alone, for shards that run elsewhere.",
        ),
        CommandEntry("shard", "process_commands", "Run one shard alone; see facetd shard --help."),
    ),
    "Items": (
        CommandEntry("load", "load", "Load FILE into an index."),
        CommandEntry("follow", "follow_postgres", "Keep an index equal to a table of PostgreSQL."),
        CommandEntry(
            "search", "search", "Search INDEX for QUERY; without QUERY all items are listed."
        ),
        CommandEntry(
            "analytics",
            "analytics",
            "Show what is searched for: often, without a hit, slowly; and what is clicked.",
        ),
        CommandEntry(
            "export", "export", "Write all items of INDEX as they were stored, one a line."
        ),
        CommandEntry(
            "import",
            "import_from_other_engines",
            "Import an index from another engine, with its settings.",
        ),
    ),
    "Indexes": (
        CommandEntry("status", "indexes", "Show whether the service is complete, and its indexes."),
        CommandEntry("configure", "indexes", "Show or change the configuration of INDEX."),
        CommandEntry("rename", "indexes", "Give INDEX another NAME; its aliases go with it."),
        CommandEntry(
            "copy",
            "indexes",
            "Copy INDEX, with its items and its configuration, to the new index NAME.",
        ),
        CommandEntry("alias", "indexes", "Make NAME an alias of INDEX, or list the aliases."),
        CommandEntry("delete", "indexes", "Delete INDEX and all its items."),
        CommandEntry(
            "open", "indexes", "Open the dashboard, or its page of INDEX, in the browser."
        ),
    ),
    "Access": (
        CommandEntry("keys", "keys", "Create, list and remove API keys."),
        CommandEntry(
            "mcp",
            "mcp",
            "Serve the Model Context Protocol, for language models, on stdin and stdout.",
        ),
    ),
    "Several hosts": (
        CommandEntry("cluster", "cluster", "See and change several hosts that share a log."),
    ),
    "Copies": (
        CommandEntry(
            "backup",
            "backups",
            "Copy all indexes of a running service to the new folder DESTINATION.",
        ),
        CommandEntry("restore", "backups", "Create a data directory from the backup SOURCE."),
        CommandEntry(
            "snapshots", "snapshots", "Create, list, restore and delete snapshots of all indexes."
        ),
    ),
    "Offline data": (
        CommandEntry(
            "check",
            "check_rebuild_reshard",
            "Compare every segment and counter with the stored items.",
        ),
        CommandEntry(
            "rebuild",
            "check_rebuild_reshard",
            "Rebuild all indexes from the stored items, then check them.",
        ),
        CommandEntry(
            "reshard", "check_rebuild_reshard", "Divide the data over another number of shards."
        ),
    ),
    "This program": (
        CommandEntry(
            "config",
            "settings",
            "Show every setting: its value, where it comes from, and what it is for.",
        ),
        CommandEntry(
            "completion", "completion_scripts", "Complete commands and options with the Tab key."
        ),
        CommandEntry("man", "man_page", "Print the manual page, made from these help texts."),
    ),
}
"""Headings of the help, with the commands under each, in order."""


@click.group(
    cls=CommandGroup,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(None, "-V", "--version", package_name="facetd", prog_name="facetd")
def main() -> None:
    """Exact faceted full-text search.

    facetd demo shows it at work; facetd serve runs it, and facetd load FILE fills it.
    """
