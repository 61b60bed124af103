"""Questions on a terminal that one keystroke answers."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from coordinator.cli.escaped_output import echo


def can_ask(read_key: Callable[[], str] | None) -> bool:
    """Return whether a person can answer: on a terminal, or where `read_key` does."""
    return read_key is not None or (sys.stdin.isatty() and sys.stderr.isatty())


def is_accepted(question: str, read_key: Callable[[], str] | None) -> bool:
    """Ask a question that one keystroke answers."""
    echo(f"{question} [Y/n] ", nl=False, err=True)
    key = (read_key or click.getchar)()
    echo(key if key.isprintable() else "", err=True)
    return key in ("y", "Y", "\r", "\n", " ")
