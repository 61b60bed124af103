"""The manual page facetd(1), generated from the commands and their help texts."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click

from coordinator.cli.escaped_output import echo

_ENVIRONMENT = (
    ("FACETD_URL", "The service that commands talk to."),
    ("FACETD_KEY", "The API key that commands send."),
    ("FACETD_CONFIG_FILE", "A TOML file with settings."),
    ("FACETD_NAME", "Any setting NAME, in capitals: FACETD_PORT, FACETD_DATA_DIR."),
)
_STATUSES = (("0", "Done."), ("1", "Failed; a line on stderr says why."), ("2", "Wrong use."))


@click.command()
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file.")
@click.pass_context
def man(ctx: click.Context, /, output: Path | None) -> None:
    """Print the manual page, made from these help texts.

    facetd man | man -l - shows it; with --output /usr/local/share/man/man1/facetd.1, man facetd
    finds it.
    """
    page = manual(ctx.find_root())
    if output is None:
        echo(page, nl=False)
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(page, "utf-8")


def manual(ctx: click.Context) -> str:
    """Return the page as troff.

    Args:
        ctx: of the group of all commands.
    """
    group = ctx.command
    assert isinstance(group, click.Group)
    lines = [
        f'.TH FACETD 1 "" "facetd {version("facetd")}" "User Commands"',
        ".SH NAME",
        f"facetd \\- {_escaped((group.help or '').splitlines()[0].rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B facetd",
        "COMMAND [OPTIONS] [ARGUMENTS]",
        ".SH COMMANDS",
    ]
    for path, command in _commands(group, ()):
        lines += _section(path, command, ctx.help_option_names)
    lines.append(".SH ENVIRONMENT")
    for name, text in _ENVIRONMENT:
        lines += [".TP", f".B {name}", _escaped(text)]
    lines.append(".SH EXIT STATUS")
    for status, text in _STATUSES:
        lines += [".TP", f".B {status}", _escaped(text)]
    return "\n".join(lines) + "\n"


def _commands(
    group: click.Group, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield all visible commands; those of a group follow the group."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is None or command.hidden:
            continue
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))


def _section(path: tuple[str, ...], command: click.Command, help_names: list[str]) -> list[str]:
    """Return the lines of one command."""
    ctx = click.Context(command, info_name=" ".join(path), help_option_names=help_names)
    arguments = " ".join(command.collect_usage_pieces(ctx))
    lines = [f".SS {_escaped('facetd ' + ' '.join(path) + ' ' + arguments)}"]
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        lines += [".PP", _escaped(" ".join(paragraph.split()))]
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None and isinstance(parameter, click.Option):
            lines += [".TP", f".B {_escaped(record[0])}", _escaped(" ".join(record[1].split()))]
    return lines


def _escaped(text: str) -> str:
    """Escape a text so that troff prints it literally."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text
