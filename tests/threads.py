"""A system that starts no more threads: a limit on processes or memory is reached."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock


@contextmanager
def no_new_threads() -> Iterator[None]:
    """Let every start of a thread fail for the body of a `with` statement, as Python lets it."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with mock.patch.object(threading.Thread, "start", refuse):
        yield
