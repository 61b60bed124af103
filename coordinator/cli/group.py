"""The group of all commands: sections in the help; errors become one line and an exit status."""

from __future__ import annotations

import difflib
import errno
from typing import Any, Final

import click

from common.data_directory import DataDirectoryError
from common.errors import ServiceError
from common.settings import SettingError
from coordinator.clients.http_client import ClientError
from coordinator.cluster.snapshots import SnapshotError

SECTIONS: Final = (
    ("Run a service", ("demo", "serve", "coordinator", "shard")),
    ("Items", ("load", "follow", "search", "analytics", "export", "import")),
    ("Indexes", ("status", "configure", "alias", "delete", "open")),
    ("Access", ("keys", "mcp")),
    ("Copies", ("backup", "restore", "snapshots")),
    ("Data at rest", ("check", "rebuild", "reshard")),
    ("This program", ("config", "completion", "man")),
)
"""Headings of the help, with the commands under each, in order."""


class CommandGroup(click.Group):
    """A group that prints our errors as a line on stderr and lists commands under headings."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except SettingError as error:
            click.echo(f"facetd: {error}", err=True)
            ctx.exit(2)
        except (ClientError, DataDirectoryError, SnapshotError, ServiceError) as error:
            click.echo(f"facetd: {error}", err=True)
            ctx.exit(1)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of our output has closed the pipe
                raise
            click.echo(f"facetd: {error}", err=True)
            ctx.exit(1)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; suggest the nearest one if there is none of that name."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f"; did you mean {near[0]}?" if near else "; facetd --help lists them"
            ctx.fail(f"No such command {name!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands under their headings."""
        listed = {name for _, names in SECTIONS for name in names}
        rest = tuple(name for name in self.list_commands(ctx) if name not in listed)
        width = max(len(name) for name in self.list_commands(ctx))
        for title, names in (*SECTIONS, ("More", rest)):
            rows = []
            for name in names:
                command = self.get_command(ctx, name)
                if command is not None and not command.hidden:
                    rows.append((name.ljust(width), command.get_short_help_str(limit=90)))
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
