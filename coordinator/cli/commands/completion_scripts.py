"""The commands that print and install the completion script of a shell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click
from click.shell_completion import FishComplete, get_completion_class

from common.errors import CommandError
from coordinator.cli.command_groups import Subgroup
from coordinator.cli.escaped_output import echo

SHELLS: Final = ("bash", "zsh", "fish")


class WholeFishComplete(FishComplete):
    """Completion for fish that shows the whole help of a command, not up to its first comma."""

    source_template = FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    )


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
    kind = WholeFishComplete if shell == "fish" else get_completion_class(shell)
    assert kind is not None
    return kind(command, {}, "facetd", "_FACETD_COMPLETE").source()
