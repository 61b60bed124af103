"""Groups of commands, and their help.

The group of all commands imports each when it is called, and makes errors one line.

`click.Group` wants every command before it can print a list of them. This one is given a table of
names, modules and summaries instead, and imports a module of `commands/` when one of its
commands is asked for.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from common.errors import CommandError, ServiceError
from common.nearest_name import did_you_mean
from common.process.unprinted_output import flushed_output, in_words
from coordinator.cli.escaped_output import echo, printable_usage_errors


class CommandEntry(NamedTuple):
    """A command that is not imported yet.

    Attributes:
        name: on the command line; the module has it under this name, or with _ after it.
        module: of `coordinator.cli.commands`.
        summary: the first sentence of its help.
    """

    name: str
    module: str
    summary: str

    def load(self) -> click.Command:
        """Import the command."""
        module = importlib.import_module(f"coordinator.cli.commands.{self.module}")
        if not gc.isenabled():  # as `coordinator.__main__` has it
            gc.freeze()
            gc.enable()
        command = getattr(module, self.name, None)
        found: click.Command = (
            command if isinstance(command, click.Command) else getattr(module, f"{self.name}_")
        )
        return found


_OTHER_NAMES: Final = (("delete", "remove", "rm"), ("create", "add", "make", "new"), ("list", "ls"))
"""Names of the same command: a group understands all of them for the one that it has."""


_MEANT: Final = {
    "serve": ("daemon", "launch", "run", "server", "start", "up"),
    "load": ("add", "bulk", "index", "ingest", "insert", "put", "upload"),
    "search": ("find", "get", "query"),
    "status": ("health", "indexes", "indices", "info", "list", "ls", "ps", "stats"),
    "configure": ("create", "mapping", "schema", "set", "settings"),
    "copy": ("clone", "cp", "duplicate"),
    "delete": ("drop", "remove", "rm"),
    "export": ("dump",),
    "open": ("dashboard", "ui", "web"),
    "rename": ("move", "mv", "swap"),
}
"""What other programs call our commands."""
_INSTEAD: Final = {"help": "--help", "version": "--version"}
"""Options that other programs have as commands."""
_STOP: Final = ("down", "kill", "quit", "shutdown", "stop")


class Subgroup(click.Group):
    """A group whose help shows the whole summary of each command."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, one.get_short_help_str(limit=200)) for name, one in commands if one]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, also by another word for the same."""
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            alike = [name for words in _OTHER_NAMES if args[0] in words for name in words]
            found = next((name for name in alike if name in names), None)
            if found is not None:
                args = [found, *args[1:]]
            elif not ctx.resilient_parsing:
                ctx.fail(f"No such command {args[0]!r}; there are {', '.join(names)}")
        return super().resolve_command(ctx, args)


class ListingGroup(Subgroup):
    """A group whose command `list` is called when none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `list`, unless a command, its completion or help is requested."""
        named = args and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        is_whole = named or ctx.resilient_parsing
        return super().parse_args(ctx, args if is_whole else ["list", *args])


class SectionedCommand(click.Command):
    """A command whose help lists the options under headings.

    Args:
        sections: names of options by heading; further options come last.
    """

    def __init__(
        self, *arguments: Any, sections: Mapping[str, tuple[str, ...]], **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options under their headings."""
        sections = dict(self._sections)
        listed = {name for names in sections.values() for name in names}
        parameters = {one.name: one for one in self.get_params(ctx) if one.name is not None}
        sections["Further options"] = tuple(name for name in parameters if name not in listed)
        for title, names in sections.items():
            wanted = (parameters[name] for name in names if name in parameters)
            records = [record for one in wanted if (record := one.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class CommandGroup(click.Group):
    """A group that prints our errors as a line on stderr and lists commands under headings.

    Args:
        sections: commands by heading.
    """

    def __init__(
        self, *arguments: Any, sections: Mapping[str, tuple[CommandEntry, ...]], **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._sections = sections
        self._entries = {entry.name: entry for entries in sections.values() for entry in entries}

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Parse the command line, and run the command or print what it asks for."""
        _open_closed_streams()
        try:
            with flushed_output():
                return super().main(*arguments, **options)
        except OSError as error:  # of a file, or of stdout: help is printed before any command runs
            if error.errno != errno.EPIPE:
                echo(f"facetd: {in_words(error)}", err=True)
        except UnicodeEncodeError as error:
            echo(f"facetd: {_unprintable(error)}", err=True)
        sys.exit(1)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read `help load` as `load --help`, and `version` as `--version`."""
        if args and args[0] in _INSTEAD and not ctx.resilient_parsing:
            args = [*args[1:], _INSTEAD[args[0]]]
        with printable_usage_errors():
            return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None if there is none of that name."""
        entry = self._entries.get(cmd_name)
        return None if entry is None else entry.load()

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, without importing any."""
        own = click.Command.shell_complete(self, ctx, incomplete)  # options
        names = (name for name in self.list_commands(ctx) if name.startswith(incomplete))
        return [
            *(CompletionItem(name, help=self._entries[name].summary) for name in names),
            *own,
        ]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with printable_usage_errors():
                return super().invoke(ctx)
        except CommandError as error:
            echo(f"facetd: {error}", err=True)
            ctx.exit(error.exit_status)
        except ServiceError as error:
            echo(f"facetd: {error}", err=True)
            ctx.exit(1)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; suggest the nearest one if there is none of that name."""
        name = args[0]
        is_unknown = name not in self._entries and not name.startswith("-")
        if is_unknown and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}{self._hint(name)}")
        return super().resolve_command(ctx, args)

    def _hint(self, name: str) -> str:
        """Return what to say about a name that is not a command."""
        if name in _STOP:
            return "; Ctrl+C ends a service in the foreground, SIGTERM one in the background"
        for command, names in _MEANT.items():
            if name in names:
                return f"; did you mean {command}?"
        return did_you_mean(name, self._entries) or "; facetd --help lists them"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands under their headings."""
        width = max(map(len, self._entries))
        for title, entries in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(entry.name.ljust(width), entry.summary) for entry in entries])


def _open_closed_streams() -> None:
    """Open /dev/null in place of a standard stream that the caller has closed.

    Else sys.stdout is None, and the next socket or file that is opened has its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - stays open
            setattr(sys, name, stream)


def _unprintable(error: UnicodeEncodeError) -> str:
    """Return what to say of a character that cannot be sent or printed."""
    char = error.object[error.start]
    if "\ud800" <= char <= "\udfff":  # of an argument that was to be sent
        return f"{error.object[:100]!r} is not UTF-8"
    return (
        f"the output is {error.encoding}, which has no {char!r}; "
        "PYTHONIOENCODING=utf-8 makes it UTF-8"
    )
