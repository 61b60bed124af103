"""Questions on a terminal that one keystroke answers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TextIO

import click

from coordinator.cli.escaped_output import echo


def can_ask(read_key: Callable[[], str] | None) -> bool:
    """Return whether a person can answer: on a terminal, or where `read_key` does."""
    return read_key is not None or (is_terminal(sys.stdin) and is_terminal(sys.stderr))


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is one: neither closed, as stdin is once items were read from it."""
    return stream is not None and not stream.closed and stream.isatty()


def is_accepted(question: str, read_key: Callable[[], str] | None) -> bool:
    """Ask a question that one keystroke answers."""
    echo(f"{question} [Y/n] ", nl=False, err=True)
    key = (read_key or click.getchar)()
    echo(key if key.isprintable() else "", err=True)
    return key in ("y", "Y", "\r", "\n", " ")
