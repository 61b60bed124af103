"""What commands print: untrusted text, of items and errors, does not control the terminal."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager

import click

from common.process.control_character_escaping import printable


def echo(text: str = "", *, nl: bool = True, err: bool = False) -> None:
    """Print a text.

    Args:
        text: plain, or JSON.
        nl: end the line.
        err: print it to stderr.
    """
    click.echo(printable(text), nl=nl, err=err)


def printable_pieces(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces of JSON for a terminal."""
    for piece in codecs.iterdecode(pieces, "utf-8"):
        yield printable(piece).encode()


@contextmanager
def printable_usage_errors() -> Iterator[None]:
    """Make errors about the command line printable, as these quote it."""
    try:
        yield
    except click.ClickException as error:
        # Final in its class, and the one place that holds what is printed.
        error.message = printable(error.message)  # type: ignore[misc]
        raise
