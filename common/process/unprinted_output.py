"""What a command does if stdout does not take what it prints: a full disk, a reader that has gone.

Unless PYTHONUNBUFFERED is set, most of what a command prints waits in its stdout. At the end of the
program the interpreter would try once more, complain about an ignored exception, and exit with 120.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def flushed_output() -> Iterator[None]:
    """Flush stdout at the end, however the body ends; drop what it does not take.

    Raises:
        OSError: it does not take all.
    """
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)
            raise


@contextmanager
def one_line_if_refused() -> Iterator[None]:
    """Run a whole program: what the system refuses it is a line on stderr, and exit status 1."""
    try:
        with flushed_output():
            yield
    except OSError as error:
        if error.errno != errno.EPIPE:
            print(f"facetd: {in_words(error)}", file=sys.stderr)
        sys.exit(1)


def in_words(error: OSError) -> str:
    """Return what the system refused, without the number that it has for it."""
    if error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
