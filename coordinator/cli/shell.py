"""Commands about this program: config, completion, man."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import click

from common.errors import CommandError
from coordinator import settings as settings_module
from coordinator.cli.command_groups import Subgroup
from coordinator.cli.manual import manual
from coordinator.cli.options import with_settings
from coordinator.cli.printing import echo

SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@with_settings(*settings_module.names())
def config(as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Show every setting: its value, where it comes from, and what it is for."""
    _, origins = settings_module.load(flags, file=config_file)
    if as_json:
        rows = {
            origin.name: {
                "value": _plain(origin.value),
                "unit": origin.unit,
                "origin": origin.origin,
                "doc": origin.doc,
            }
            for origin in origins
        }
        echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    width = max(len(origin.name) for origin in origins)
    for origin in origins:
        echo(
            f"{origin.name:{width}}  {_plain(origin.value)!s:>14} {origin.unit:<12} "
            f"[{origin.origin}]  {origin.doc}"
        )


def _plain(value: Any) -> Any:
    """Return a setting's value in JSON types."""
    return str(value) if isinstance(value, Path) else value


@click.group(cls=Subgroup)
def completion() -> None:
    """Complete commands and options with the Tab key."""


@completion.command("show")
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.pass_context
def show_completion(ctx: click.Context, /, shell: str | None) -> None:
    """Print the completion script for SHELL (by default, yours)."""
    echo(_script(ctx.find_root().command, shell or _own_shell()))


@completion.command("install")
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.pass_context
def install_completion(ctx: click.Context, /, shell: str | None) -> None:
    """Write the completion script to where SHELL (by default, yours) looks for it."""
    shell = shell or _own_shell()
    path = _completion_path(shell)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_script(ctx.find_root().command, shell) + "\n", "utf-8")
    echo(f"wrote {path}; open a new terminal to use it")
    if shell == "bash":
        echo(
            "if it completes nothing (the package bash-completion reads that folder), put this in "
            f"~/.bashrc:\n  source {path}"
        )
    if shell == "zsh":
        echo(
            f"if it completes nothing, put this in front of compinit in ~/.zshrc:\n"
            f"  fpath=({path.parent} $fpath)"
        )


def _own_shell() -> str:
    """Return the shell that the environment names.

    Raises:
        CommandError: it is not one that we support.
    """
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise CommandError(f"your shell is not known; name one of {', '.join(SHELLS)}")
    return name


def _completion_path(shell: str) -> Path:
    """Return the file in which a shell looks for the user's completions."""
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return {
        "bash": data / "bash-completion" / "completions" / "facetd",
        "zsh": data / "zsh" / "site-functions" / "_facetd",
        "fish": settings / "fish" / "completions" / "facetd.fish",
    }[shell]


def _script(command: click.Command, shell: str) -> str:
    """Return the script that makes a shell complete our commands."""
    from click.shell_completion import get_completion_class

    from coordinator.cli.completion import WholeFishComplete

    kind = WholeFishComplete if shell == "fish" else get_completion_class(shell)
    assert kind is not None
    return kind(command, {}, "facetd", "_FACETD_COMPLETE").source()


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
