"""Wishes: what searches would like to have, but must not wait for.

Some of what is derived from a segment (`shard/caches/lru_cache.py`) takes tens of milliseconds to
make, and a search that has not got it can be answered in another way. It notes a wish and goes on;
a thread of the process makes what was wished for, one at a time, and the memo has it for later
searches.

    search ──add──▶ waiting: key → (weak reference to the owner, make) ──grant_all──▶ make(owner)

A wish does not keep its owner (a column of a segment) from going: then it is forgotten. It holds it
only while it is being granted. When too many wait, a further one is dropped: whoever misses the
same thing later wishes again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final

from common.process.logs import Log

WAITING_MAX: Final = 64

_log = Log("shard")


class BackgroundTasks:
    """Wishes by key; safe to use from several threads."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, tuple[weakref.ref[Any], Callable[[Any], None]]] = {}
        self._in_work: Hashable = None
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Hashable, owner: object, make: Callable[[Any], None]) -> None:
        """Wish for something, unless it is wished for already.

        Args:
            key: names it; never None.
            owner: what it is made from.
            make: makes it and puts it where it will be found; is given the owner.
        """
        with self._lock:
            if key != self._in_work and len(self._waiting) < WAITING_MAX:
                self._waiting.setdefault(key, (weakref.ref(owner), make))

    def grant_all(self) -> None:
        """Make everything that is wished for, the oldest wish first."""
        while True:
            with self._lock:
                self._in_work = next(iter(self._waiting), None)
                if self._in_work is None:
                    return
                reference, make = self._waiting.pop(self._in_work)
            owner = reference()
            if owner is None:
                continue
            try:
                make(owner)
            except Exception as error:  # searches go on without it
                _log.error("not derived", cause=error)
            del owner


BACKGROUND_TASKS: Final = BackgroundTasks()
